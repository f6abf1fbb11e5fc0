"""make conformance TCK=<checkout of a2aproject/a2a-tck> LINE=1.0|0.3: the kit against our agent.

LINE=mcp runs MCP's own kit, which comes from npm: see `mcp`.

Once with streaming and push notifications declared, once with neither. The kit gets an environment of
its own, `.venvs/tck-<line>`; its code is not changed.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.conformance import mcp
from tests.conformance.server import PORT

ROOT = Path(__file__).parent.parent.parent
URL = f"http://localhost:{PORT}"
UV = os.environ.get("UV", "uv")

COMMANDS = {
    "1.0": [
        ["-m", "pytest", "tests/compatibility/", f"--sut-host={URL}/a2a/v1", "--transport=jsonrpc,http_json"]
    ],
    "0.3": [
        ["run_tck.py", "--sut-url", f"{URL}/", "--category", "all", "--transports", transport]
        for transport in ("jsonrpc", "rest")
    ]
    + [["run_tck.py", "--sut-url", f"{URL}/", "--category", "transport-equivalence"]],
}


def main(kit: str, line: str) -> int:
    if line == "mcp":
        return mcp.main()
    if not kit or line not in COMMANDS:
        print("usage: make conformance TCK=<checkout of a2a-tck> LINE=1.0|0.3, or LINE=mcp", file=sys.stderr)
        return 2
    python = environment(Path(kit).resolve(), line)
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "PYTEST_PLUGINS": "keyed"}
    failed = 0
    settings = ["--foreground"] if line == "1.0" else []
    if is_of_may_2026(Path(kit)):
        settings.append("--any-media")
        variables["A2A_ACCEPT"] = "application/json"
    for options in ([], ["--plain"]):
        print(f"== {line}, {'neither declared' if options else 'streaming and push declared'}", flush=True)
        with serving([*options, *settings]):
            for command in COMMANDS[line]:
                failed += subprocess.run(
                    [str(python), *command], cwd=kit, env=variables, check=False
                ).returncode
    return min(failed, 1)


def is_of_may_2026(kit: Path) -> bool:
    """Whether this is the state of the kit that wants 1.0.0's media type, and takes a refused one for a
    failure, against its own description: its CORE-SEND-003 names no error to expect."""
    source = kit / "tck" / "requirements" / "core_operations.py"
    if not source.exists():
        return False
    _, _, rest = source.read_text().partition('id="CORE-SEND-003"')
    return bool(rest) and "expected_error" not in rest.partition("RequirementSpec(")[0]


def environment(kit: Path, line: str) -> Path:
    """The kit's own Python, made when it is not there."""
    folder = ROOT / ".venvs" / f"tck-{line}"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([UV, "venv", "--quiet", str(folder)], check=True)
        subprocess.run([UV, "pip", "install", "--quiet", "--python", str(python), "-e", str(kit)], check=True)
        extra = ["requests", "python-dotenv", "pytest-asyncio"] if line == "0.3" else []
        if extra:
            subprocess.run([UV, "pip", "install", "--quiet", "--python", str(python), *extra], check=True)
    return python


@contextmanager
def serving(options: list[str]) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-m", "tests.conformance.server", *options]) as server:
        try:
            while not _answers():
                if server.poll() is not None:
                    sys.exit(f"the server did not start; is port {PORT} taken?")
                time.sleep(0.1)
            yield
        finally:
            server.terminate()


def _answers() -> bool:
    try:
        return httpx2.get(f"{URL}/.well-known/agent-card.json", timeout=0.5).status_code == 200
    except httpx2.HTTPError:
        return False


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
