"""The packages of a fork's agents: make add, make remove.

    packages.txt ── what the agents import ── uv, within the kit's versions ── requirements.txt ── the layer

requirements.txt locks what packages.txt names and what that needs. Packages that the kit ships are left out:
an agent gets them from the kit's layer, in the kit's version.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from a2a_lambda.errors import ConfigurationError
from tools import environments
from tools.builds import LAMBDA_PYTHON, read_architecture
from tools.command import reports_errors, split_words
from tools.environments import DEPENDENCIES

LIST = Path("layers/agents/packages.txt")
LOCK = Path("layers/agents/requirements.txt")
INSTALLED = environments.VENV / "agents-requirements.txt"
"""The lock that .venv was last installed from."""

LOWEST_PYTHON = "3.11"
"""As in pyproject.toml. The lock holds for this version and for later ones, so for Lambda's, too."""

PLATFORMS = {"arm64": "aarch64-manylinux_2_34", "x86_64": "x86_64-manylinux_2_34"}

CONFLICT = """no version of {packages} fits the versions that the kit uses.

{reason}

Ask for a different version, or move the agent to a separate fork: docs/forking.md, Agents that need more."""

NO_WHEEL = """there is no wheel for Lambda ({arch}, Python {python}).

{reason}

Try another version, or {other}."""


@reports_errors
def main(argv: list[str] = sys.argv) -> int:
    """add or remove what PACKAGE names, or sync: lock if the list has changed, and install here."""
    what, packages = argv[1], split_words("PACKAGE", os.environ)
    match what:
        case "add" | "remove" if not packages:
            raise ConfigurationError(f'name a package: make {what} PACKAGE="openai"')
        case "add":
            add(packages)
        case "remove":
            remove(packages)
        case "sync":
            sync()
    return 0


def add(packages: Sequence[str]) -> None:
    """Add packages to the list, or change their entries, and lock. Raises ConfigurationError; then nothing
    has changed."""
    requirements = [_requirement(package) for package in packages]
    kits = _versions(DEPENDENCIES)
    for requirement in list(requirements):
        name = canonicalize_name(requirement.name)
        if name in kits and str(requirement) == requirement.name:
            print(f"{name} {kits[name]} comes with the kit: agents can import it")
            requirements.remove(requirement)
    names = {canonicalize_name(requirement.name) for requirement in requirements}
    if not names:
        return
    lines = [line for line in _lines() if _name(line) not in names]
    old_versions = _versions(LOCK)
    _replace([*lines, *map(str, requirements)], upgrade=sorted(names))
    versions = _versions(LOCK)
    for name in sorted(names & versions.keys()):
        print(f"added {name} {versions[name]}")
    others = sorted(versions.keys() - old_versions.keys() - names)
    if others:
        print(f"and what it needs: {', '.join(others)}")
    print(f"Commit {LIST} and {LOCK}. Next: make test")


def remove(packages: Sequence[str]) -> None:
    """Remove packages from the list, and lock. Raises ConfigurationError."""
    names = {canonicalize_name(_requirement(package).name) for package in packages}
    lines = _lines()
    if unknown := sorted(names - {_name(line) for line in lines}):
        entries = ", ".join(sorted(filter(None, map(_name, lines)))) or "no packages"
        raise ConfigurationError(f"{unknown[0]} is not in {LIST}, which has {entries}")
    _replace([line for line in lines if _name(line) not in names])
    print(f"removed {', '.join(sorted(names))}")


def is_locked() -> bool:
    """Whether the lock was made from the list and the kit's packages as they are now."""
    return LOCK.exists() and LOCK.read_text("utf-8").startswith(header())


def lock(upgrade: Sequence[str] = ()) -> None:
    """Write the lock. Versions in it stay, unless they must change or are to be upgraded. Raises
    ConfigurationError."""
    with tempfile.TemporaryDirectory() as folder:
        limits, requirements = Path(folder) / "constraints.txt", Path(folder) / "requirements.txt"
        _run("export", "--locked", "--all-groups", "--no-emit-project", "--no-hashes", "-o", str(limits))
        if LOCK.exists():
            requirements.write_text(LOCK.read_text("utf-8"))
        command = (
            *("pip", "compile", str(LIST), "--universal", "--python-version", LOWEST_PYTHON),
            *("--generate-hashes", "--no-header", "--no-annotate"),
            *(f"--upgrade-package={name}" for name in upgrade),
            *(f"--no-emit-package={name}" for name in _versions(DEPENDENCIES)),
        )
        try:
            _run(*command, "--constraint", str(limits), "-o", str(requirements))
        except ConfigurationError as error:
            packages = ", ".join(upgrade) or "the packages"
            try:
                _run(*command)
            except ConfigurationError as general:
                raise ConfigurationError(f"{packages} cannot be added. {general}") from None
            raise ConfigurationError(CONFLICT.format(packages=packages, reason=error)) from None
        _check_wheels(requirements)
        LOCK.write_text(header() + requirements.read_text("utf-8"), "utf-8")


def sync() -> None:
    """Make .venv have the agents' packages; lock them first if the list has changed. Raises
    ConfigurationError."""
    if not is_locked():
        if os.environ.get("CI"):
            raise ConfigurationError(f"{LOCK} does not match {LIST}: run `make lock`, and commit it")
        print(f"{LOCK} does not match {LIST}: locking")
        lock()
    install()


def install() -> None:
    """Make .venv have what is locked, for `make run` and tests. Raises ConfigurationError."""
    old_versions, versions = _versions(INSTALLED), _versions(LOCK)
    if old_versions.keys() - versions.keys():  # only uv sync removes what no list names
        _run("sync", "--locked")
    elif old_versions == versions and _is_installed():
        return
    if versions:
        _run(
            *("pip", "install", "--python", sys.executable, "--no-deps", "--require-hashes"), "-r", str(LOCK)
        )
    INSTALLED.write_text(LOCK.read_text("utf-8"), "utf-8")


def _is_installed() -> bool:
    """Whether .venv has what the lock names for this machine. A `uv sync` removes it."""
    for line in LOCK.read_text("utf-8").splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+==[^\\]+)", line):
            requirement = Requirement(match[1].strip())
            if requirement.marker and not requirement.marker.evaluate():
                continue
            try:
                if metadata.version(requirement.name) not in requirement.specifier:
                    return False
            except metadata.PackageNotFoundError:
                return False
    return True


def _replace(lines: list[str], upgrade: Sequence[str] = ()) -> None:
    """Write the list and its lock. If it cannot be locked, the list stays as it was."""
    backup = LIST.read_text("utf-8")
    LIST.write_text("\n".join(lines) + "\n", "utf-8")
    try:
        lock(upgrade)
    except ConfigurationError:
        LIST.write_text(backup, "utf-8")
        raise
    install()


def _check_wheels(requirements: Path) -> None:
    """Raises ConfigurationError if Lambda's platform has no wheel of a package: a build compiles nothing."""
    if not _versions(requirements):
        return
    arch, python = read_architecture(os.environ), os.environ.get("LAMBDA_PYTHON") or LAMBDA_PYTHON
    with tempfile.TemporaryDirectory() as folder:
        try:
            _run(
                *("pip", "install", "--dry-run", "--target", folder, "--python-version", python),
                *("--python-platform", PLATFORMS[arch], "--only-binary", ":all:", "--no-deps"),
                *("-r", str(requirements)),
            )
        except ConfigurationError as error:
            other = "ARCH=x86_64" if arch == "arm64" else "ARCH=arm64"
            raise ConfigurationError(
                NO_WHEEL.format(arch=arch, python=python, reason=error, other=other)
            ) from None


def header(folder: Path = Path()) -> str:
    """First line of the lock, which names the state of the inputs. folder: folder of the project."""
    digest = hashlib.sha256()
    for path in (LIST, DEPENDENCIES):
        digest.update((folder / path).read_text("utf-8").encode())  # the same with the line ends of Windows
    return f"# Locked from packages.txt by `make add`. Inputs: {digest.hexdigest()[:16]}\n"


def _run(*arguments: str) -> None:
    """Run uv. Raises ConfigurationError with what it says."""
    process = subprocess.run(
        [environments.find_uv(), "--quiet", *arguments], capture_output=True, text=True, check=False
    )
    if process.returncode:
        lines = [re.sub(r"^\s*(error|cause|×|╰─▶):?\s*", "", line) for line in process.stderr.splitlines()]
        raise ConfigurationError("\n".join(filter(None, lines)))


def _lines() -> list[str]:
    return LIST.read_text("utf-8").splitlines()


def _name(line: str) -> str:
    """Name of the package on a line, "" for a comment."""
    text = line.partition("#")[0].strip()
    return canonicalize_name(_requirement(text).name) if text else ""


def _requirement(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise ConfigurationError(
            f"{text!r} is not the name of a package, such as openai>=2: {error}"
        ) from None


def _versions(path: Path) -> dict[str, str]:
    """Versions of the packages in a lock, by name."""
    if not path.exists():
        return {}
    pairs = re.findall(
        r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", path.read_text("utf-8"), re.MULTILINE
    )
    return {canonicalize_name(name): version for name, version in pairs}


if __name__ == "__main__":
    sys.exit(main())
