"""How large the agents' packages are, each and for each stage, before a build."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder
from pathlib import Path

from packaging.utils import canonicalize_name

from tools.agents.locks import lock_for, versions_in
from tools.agents.stages import agents_of_stages
from tools.build.size import LIMIT_MB, MB

KIT_MB = 65
"""Size of the kit's own layers and code, rounded up. make build says it exactly."""

TOO_LARGE = """Lambda refuses more than {limit} MB. Give each stage the agents that it serves (AgentNames in
samconfig.toml: docs/forking.md, Agents that need more memory, packages or isolation), or deploy an
image: make image."""


def sizes_of(install: Callable[[str], None]) -> dict[str, int]:
    """Bytes of each package, as a build has them: with its .pyc. install: installs the packages in a folder,
    and raises ConfigurationError."""
    with tempfile.TemporaryDirectory() as folder:
        install(folder)
        command = [sys.executable, "-m", "compileall", "-q", "-j", "0", folder]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        context = DistributionFinder.Context(path=[folder])
        return {
            canonicalize_name(distribution.metadata["Name"]): _size_of(distribution)
            for distribution in MetadataPathFinder.find_distributions(context)
        }


def _size_of(distribution: Distribution) -> int:
    total = 0
    for file in distribution.files or ():
        path = Path(str(distribution.locate_file(file)))
        bytecode = path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.pyc"
        for each in (path, bytecode) if path.suffix == ".py" else (path,):
            total += each.stat().st_size if each.is_file() else 0
    return total


def report(sizes: Mapping[str, int], lock: str) -> str:
    """The total size of a fork's packages, for each stage that serves only some of the agents, and for all
    agents.

    sizes: of `sizes_of`. lock: text of the lock.
    """
    stages = agents_of_stages()
    totals = {stage: _total_mb(sizes, lock_for(agents, lock)) for stage, agents in stages.items() if agents}
    if not stages or not all(stages.values()):
        totals = {"all agents": _total_mb(sizes, lock), **totals}
    lines = [f"{name}: about {total} of {LIMIT_MB} MB, with the kit" for name, total in totals.items()]
    if max(totals.values()) > LIMIT_MB:
        lines.append(f"warning: {TOO_LARGE.format(limit=LIMIT_MB)}")
    return "\n".join(lines)


def _total_mb(sizes: Mapping[str, int], lock: str) -> int:
    return round(sum(sizes.get(name, 0) for name in versions_in(lock)) / MB) + KIT_MB
