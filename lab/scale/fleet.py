"""A deployment of many agents, measured on this machine: how long a container needs to start."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from a2a_lambda.catalog.agents import load_profiles
from a2a_lambda.catalog.manifest import encode_manifest
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.kit import MANIFEST
from lab.scale.meter import AGENT

START = """
import json, resource, sys, time
from pathlib import Path
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
kit = Kit(Settings(table="scale", agents=Path(sys.argv[1])))
kit.warm_up()
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


@dataclass(frozen=True)
class Start:
    """Of a container: seconds of the processor, MB. manifest: its bytes."""

    seconds: float
    megabytes: float
    manifest: int


def measure(count: int) -> Start:
    """Start a container of a deployment with so many agents. Raises ConfigurationError."""
    with tempfile.TemporaryDirectory() as name:
        agents = Path(name) / "agents"
        for number in range(count):
            place = agents / f"agent-{number}"
            shutil.copytree(AGENT, place, ignore=shutil.ignore_patterns("__pycache__"))
            if number:
                card = place / "card.yaml"
                card.write_text(card.read_text("utf-8").replace("default: true\n", ""), "utf-8")
        manifest = agents.parent / MANIFEST
        manifest.write_bytes(encode_manifest(load_profiles(agents)))
        figures = min(_start(agents) for _ in range(3))
        return Start(*figures, manifest=manifest.stat().st_size)


def _start(agents: Path) -> tuple[float, float]:
    process = subprocess.run(
        [sys.executable, "-c", START, str(agents)],
        env={**os.environ, "PYTHONPATH": "layers/a2a", "AWS_REGION": "us-east-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise ConfigurationError(f"a deployment of many agents does not start: {process.stderr[-2000:]}")
    seconds, megabytes = json.loads(process.stdout)
    return seconds, megabytes
