"""Environments of this checkout: .venv, and one for each tool whose packages conflict with the kit's.

    uv.lock                      ── .venv
    environments/<name>/uv.lock  ── .venvs/<name>

This module imports no package: `make lock` runs it before any is installed.
"""

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = (
    *("sam", "ministack", "a2a-0-2", "a2a-0-3", "a2a-1"),
    *("clients", "strands", "mcp", "openapi", "recipes", "docs"),
)

JS = "js"
"""The environment that npm installs."""

VENV, VENVS, PROJECTS = Path(".venv"), Path(".venvs"), Path("environments")
"""The kit's environment, the others, and what these are installed from."""

DEPENDENCIES = Path("layers/dependencies/requirements.txt")
"""What the kit ships to Lambda, exported from uv.lock."""

TRACING = Path("layers/dependencies/tracing.txt")
"""What a stack with tracing has besides, exported from uv.lock, too."""

BUILDS = Path(".aws-sam")
"""What is built, of all variants."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def run(*words: str, **variables: str) -> int:
    """Run a program, and wait until it ends, also after Ctrl-C, which it gets, too. Returns its exit status.

    variables: environment variables, in addition to ours.
    """
    with subprocess.Popen(words, env=os.environ | variables) as process:
        while True:
            try:
                status = process.wait()
                return status if status >= 0 else 128 - status  # a negative one is a signal
            except KeyboardInterrupt:
                continue


def _program(venv: Path, name: str) -> Path:
    return venv / ("Scripts" if os.name == "nt" else "bin") / name


def program_path(environment: str, name: str) -> Path:
    """Path of a program of an environment."""
    return _program(VENVS / environment, name)


SAM = str(program_path("sam", "sam"))


@contextmanager
def hold_build() -> Iterator[None]:
    """Hold the lock of this checkout's builds, while a command builds, and deploys what it has built: two at
    once would write the same files."""
    BUILDS.mkdir(exist_ok=True)
    with hold(BUILDS / "lock", "another build of this checkout, or its deployment,"):
        yield


@contextmanager
def hold(lock: Path, holder: str) -> Iterator[None]:
    """Hold a lock while a command writes files that other commands of this checkout write, too. Those wait.

    lock: the file that is locked. holder: what a command that waits says it waits for.
    """
    if importlib.util.find_spec("fcntl") is None:  # on Windows
        yield
        return
    fcntl: Any = importlib.import_module("fcntl")
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for {holder} to end", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            pass
        yield


def run_sam(*arguments: str, **variables: str) -> int:
    """Run AWS SAM. Returns its exit status. variables: see `run`."""
    return run(SAM, *arguments, SAM_CLI_TELEMETRY="0", **variables)


def run_sam_quietly(log: Path, *arguments: str, **variables: str) -> int:
    """Run AWS SAM; what it prints goes to a file, and is shown only if it fails. Returns its exit status."""
    environment = os.environ | variables | {"SAM_CLI_TELEMETRY": "0"}
    with log.open("w", encoding="utf-8") as file:
        status = subprocess.run(
            [SAM, *arguments], env=environment, stdout=file, stderr=subprocess.STDOUT, check=False
        ).returncode
    if status:
        print(log.read_text("utf-8"), file=sys.stderr)
    return status


def find_uv() -> str:
    """Path of uv: the one that runs this, or on the PATH, or the checkout's own. Exits if there is none."""
    own = Path(".uv/bin/uv").absolute()
    if path := os.environ.get("UV") or shutil.which("uv") or (str(own) if own.exists() else ""):
        return path
    sys.exit("error: there is no uv. Install it (https://docs.astral.sh/uv/), or use make, which fetches it")


def install(*names: str, projects: Path = PROJECTS, **variables: str) -> None:
    """Bring environments to the state of their locks. Exits if that fails: nothing can run then.

    projects: folder of what they are installed from. variables: environment variables for uv, in addition to
    ours.
    """
    for name in names:
        folder, venv = projects / name, VENVS / name
        stamp = venv / "synced"
        # Programs in an environment name its path, which is another one after the checkout was moved. Its
        # interpreter may be gone, for example after an update of Homebrew or pyenv.
        path = str(venv.absolute())
        has_python = _program(venv, "python").exists()
        if stamp.exists() and (stamp.read_text("utf-8") not in ("", path) or not has_python):
            shutil.rmtree(venv)
        if _is_newer(stamp, (folder / "uv.lock", folder / "pyproject.toml")):
            continue
        # After an edit of pyproject.toml, or with a mirror of PyPI, the lock does not match. In CI, that is
        # an error.
        is_ci = bool(os.environ.get("CI"))
        if not is_ci and _uv("lock", "--check", "-qq", "--project", str(folder), **variables):
            print(
                f"locking {folder}: its lock does not match its pyproject.toml or your package index",
                flush=True,
            )
            _exit_if_failed(_lock(folder, "--quiet", **variables))
        print(f"installing {venv}", flush=True)
        place = {"UV_PROJECT_ENVIRONMENT": path}
        _exit_if_failed(_uv("sync", "--locked", "--quiet", "--project", str(folder), **place, **variables))
        stamp.write_text(path, "utf-8")


def install_all() -> None:
    """All environments, as far as this machine has the tools. Exits as `install`."""
    install(*NAMES)
    install_js(JS)


def install_js(name: str) -> None:
    """An environment that npm installs, if this machine has npm. Exits as `install`."""
    npm = shutil.which("npm")
    folder, target = PROJECTS / name, VENVS / name
    stamp = target / "installed"
    if npm is None or _is_newer(stamp, [folder / "package-lock.json"]):
        return
    print(f"installing {target}", flush=True)
    target.mkdir(parents=True, exist_ok=True)
    for file in ("package.json", "package-lock.json"):
        shutil.copy(folder / file, target)
    _exit_if_failed(run(npm, "ci", "--prefix", str(target), "--silent", "--no-audit", "--no-fund"))
    stamp.touch()


def find_browser() -> str:
    """Path of a browser that the playground's tests can use, or ""."""
    return next(filter(None, map(shutil.which, BROWSERS)), "")


def install_browser() -> bool:
    """Install Playwright, which clicks in the playground's tests. Returns whether there is a browser. Exits
    as `install`."""
    os.environ["BROWSER"] = find_browser()
    if not os.environ["BROWSER"]:
        return False
    if importlib.util.find_spec("playwright") is None:
        # Inexact: the agents' packages stay.
        _exit_if_failed(_uv("sync", "--locked", "--quiet", "--inexact", "--group", "browser"))
    return True


def export(layer: Path, path: Path) -> int:
    """Write what uv.lock has for one of the kit's layers. Returns the exit status. layer: DEPENDENCIES or
    TRACING, which lacks what is in the first. path: file to write."""
    options = ["--no-dev"]
    if layer == TRACING:
        names = re.findall(r"^([a-z0-9-]+)==", DEPENDENCIES.read_text("utf-8"), re.MULTILINE)
        options = ["--only-group", "tracing", *(f"--no-emit-package={name}" for name in names)]
    process = subprocess.run(
        [
            *(find_uv(), "export", "--locked", "--quiet", *options, "--no-emit-project", "--no-annotate"),
            *("--no-header", "--output-file", str(path)),
        ],
        stdout=subprocess.DEVNULL,  # it prints what it writes
        check=False,
    )
    return process.returncode


def lock() -> int:
    """Lock everything again. Returns the exit status.

    It locks in CI, too, where a list without its lock is an error elsewhere.
    """
    os.environ.pop("CI", None)
    for folder in (Path(), *(PROJECTS / name for name in NAMES)):
        if folder.name:
            print(folder, flush=True)
        if status := _lock(folder):
            return status
    for layer in (DEPENDENCIES, TRACING):
        if status := export(layer, layer):
            return status
    if status := _uv("sync", "--locked", "--quiet"):
        return status
    return run(str(_program(VENV, "python")), "-m", "tools.build.packages", "sync")


def main(argv: list[str] = sys.argv) -> int:
    """`lock` all packages; `relock` the kit's after a change of its name; `install`, which `a2a` has done."""
    match argv[1]:
        case "lock":
            return lock()
        case "relock":
            return _lock(Path(), "--quiet")
        case "install":
            print("the packages are in .venv; choose .venv/bin/python in your editor")
    return 0


def _lock(folder: Path, *options: str, **variables: str) -> int:
    """Lock a project. Returns the exit status. variables: see `run`.

    Some package indexes give the size of every file. The lock leaves it out, so that it is the same whatever
    index made it, and a tenth shorter: the hashes say all that matters.
    """
    status = _uv("lock", "--project", str(folder), *options, **variables)
    path = folder / "uv.lock"
    if not status:
        path.write_text(re.sub(r", size = \d+", "", path.read_text("utf-8")), "utf-8", newline="\n")
    return status


def _is_newer(stamp: Path, inputs: Iterable[Path]) -> bool:
    """Whether a stamp is as new as everything it was made from."""
    if not stamp.exists():
        return False
    time = stamp.stat().st_mtime
    return all(time >= path.stat().st_mtime for path in inputs if path.exists())


def _uv(*arguments: str, **variables: str) -> int:
    return run(find_uv(), *arguments, **variables)


def _exit_if_failed(status: int) -> None:
    if status:
        sys.exit(status)


if __name__ == "__main__":
    sys.exit(main())
