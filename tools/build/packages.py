"""The packages of a fork's agents: make add, make remove.

    layers/agents/packages.txt      of all agents ─┐
    functions/agents/x/packages.txt of one agent ──┴─ uv, within the kit's versions ── requirements.txt ── the
    layer

requirements.txt locks what all lists name and what that needs, in one resolution. A stage that serves some of
the agents gets the part that these need: see `lock_for`. Packages that the kit ships are left out: an agent
gets them from the kit's layer, in the kit's version.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from a2a_lambda.errors import ConfigurationError
from tools import environments
from tools.agents.locks import LIST, LOCK, versions_in, versions_of
from tools.agents.package_lists import lines_of, lists, name_of, parse_requirement
from tools.agents.stages import architectures_of_stages
from tools.build import package_sizes
from tools.builds import PYPROJECT, lowest_python, newest_glibc, read_python
from tools.command import agent_folder, read_text, reports_errors, split_words
from tools.environments import DEPENDENCIES

STAGE_LOCK = Path("layers/agents/.stage-requirements.txt")
"""The part of the lock that a build takes, while it is for some of the agents."""

INSTALLED = environments.VENV / "agents-requirements.txt"
"""The lock that .venv was last installed from."""

UNFINISHED = environments.VENV / "agents-requirements.unfinished"
"""Exists while packages are being installed, and after an interrupted installation."""

INSTALLATION = environments.VENV / "agents-installation"
"""Locked while packages are being installed."""

MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}
"""What wheels call Lambda's architectures."""

CONFLICT = """no version of {packages} fits the versions that the kit uses.

{reason}

Ask for a different version, or move the agent to a separate fork: docs/forking.md, Agents that need more
memory, packages or isolation."""

NO_WHEEL = """there is no wheel for Lambda ({arch}, Python {python}).

{reason}

{advice}"""

OTHER_ARCHITECTURE = """\
Try another version, or deploy for {other}: write Architecture={other} into the parameter_overrides of each
stage in samconfig.toml."""

NO_ARCHITECTURE = """\
There is none for {other} either. Try another version, or build a wheel for Lambda, and add it by its URL:
make add PACKAGE="name @ https://…"."""


@reports_errors
def main(argv: list[str] = sys.argv) -> int:
    """add or remove what PACKAGE names, or sync: lock if the list has changed, and install here."""
    # The URL of a package may stand after its name, as in "name @ https://…".
    words = re.sub(r"\s*@\s*(?=[a-z+]+://)", "@", os.environ.get("PACKAGE", ""))
    command, packages, agent = (
        argv[1],
        split_words("PACKAGE", {"PACKAGE": words}),
        os.environ.get("AGENT", ""),
    )
    match command:
        case "add" | "remove" if not packages:
            raise ConfigurationError(f'name a package: make {command} PACKAGE="openai"')
        case "add":
            path = list_of(agent)
            if add(packages, path):
                _print_next(path)
        case "remove":
            path = list_of(agent)
            remove(packages, path)
            _print_next(path)
        case "sync":
            sync()
    return 0


def _print_next(path: Path) -> None:
    print(f"Commit {path.as_posix()} and {LOCK.as_posix()}. Next: make test")


def list_of(agent: str) -> Path:
    """The list of an agent's packages; "" = of all agents. Raises ConfigurationError."""
    return agent_folder(agent) / "packages.txt" if agent else LIST


def add(packages: Sequence[str], path: Path = LIST) -> bool:
    """Add packages to a list, or change their entries, and lock; returns whether there were any to add.
    Raises ConfigurationError; then nothing has changed."""
    requirements = [parse_requirement(package) for package in packages]
    kits = versions_of(DEPENDENCIES)
    for requirement in list(requirements):
        name = canonicalize_name(requirement.name)
        if name in kits and str(requirement) == requirement.name:
            print(f"{name} {kits[name]} comes with the kit: agents can import it")
            requirements.remove(requirement)
    names = {canonicalize_name(requirement.name) for requirement in requirements}
    if not names:
        return False
    lines = [line for line in lines_of(path) if name_of(line) not in names]
    old_versions = versions_of(LOCK)
    _replace(path, [*lines, *map(str, requirements)], upgrade=sorted(names))
    versions = versions_of(LOCK)
    changes = {
        name: f"{name} {old_versions[name]} → {version}"
        for name, version in sorted(versions.items())
        if old_versions.get(name, version) != version
    }
    for name in sorted(names & versions.keys()):
        print(f"added {changes.pop(name, f'{name} {versions[name]}')}")
    if others := sorted(versions.keys() - old_versions.keys() - names):
        print(f"and its dependencies: {', '.join(others)}")
    if changes:
        print(f"changed, for all agents: {', '.join(changes.values())}")
    for note in _notes_on_versions(requirements, path, old_versions):
        print(f"note: {note}")
    architecture = architectures_of_stages(os.environ)[0]
    sizes = package_sizes.sizes_of(lambda folder: _install_for_lambda(LOCK, folder, architecture))
    print(package_sizes.report(sizes, LOCK.read_text("utf-8")))
    return True


def _notes_on_versions(
    requirements: Sequence[Requirement], path: Path, old_versions: Mapping[str, str]
) -> Iterator[str]:
    """What may surprise in the versions that uv has chosen: old ones, and pre-releases. path: the list that
    has the requirements."""
    versions, newest_versions = versions_of(LOCK), dict[str, str]()
    wishes: dict[str, Requirement] = {
        canonicalize_name(each.name): each for each in requirements if each.url is None
    }
    with tempfile.TemporaryDirectory() as folder, suppress(ConfigurationError):  # the package is added anyway
        wish_list, newest = Path(folder) / "packages.txt", Path(folder) / "newest.txt"
        wish_list.write_text("\n".join(map(str, wishes.values())), "utf-8")
        _run(
            *("pip", "compile", str(wish_list), "--no-deps", "--universal", "-o", str(newest)),
            *("--python-version", lowest_python()),
        )
        newest_versions = versions_of(newest)
    for name, newest_version in newest_versions.items():
        if (version := versions.get(name, newest_version)) != newest_version:
            extras = f"[{','.join(sorted(wishes[name].extras))}]" if wishes[name].extras else ""
            agent = "" if path == LIST else f" AGENT={path.parent.name}"
            yield (
                f"{name} {newest_version} fits what you asked for, but not the other packages, so uv chose"
                f' {version}. To see why, run make add PACKAGE="{name}{extras}=={newest_version}"{agent}'
            )
    for name, version in versions.items():
        is_new = old_versions.get(name) != version and "://" not in version
        is_wanted = name in wishes and wishes[name].specifier.prereleases
        if is_new and not is_wanted and Version(version).is_prerelease:
            yield f"{name} {version} is a pre-release"


def remove(packages: Sequence[str], path: Path = LIST) -> None:
    """Remove packages from a list, and lock. Raises ConfigurationError."""
    names = {canonicalize_name(parse_requirement(package).name) for package in packages}
    lines = lines_of(path)
    if unknown_names := sorted(names - {name_of(line) for line in lines}):
        entries = ", ".join(sorted(filter(None, map(name_of, lines)))) or "no packages"
        place = next((other for other in lists() if unknown_names[0] in map(name_of, lines_of(other))), None)
        hint = ""
        if place is not None:
            agent = "no AGENT" if place == LIST else f"AGENT={place.parent.name}"
            hint = f". It is in {place.as_posix()}: use {agent}"
        raise ConfigurationError(f"{unknown_names[0]} is not in {path.as_posix()}, which has {entries}{hint}")
    _replace(path, [line for line in lines if name_of(line) not in names])
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
        python = lowest_python()
        command = (
            *("pip", "compile", *(path.as_posix() for path in lists()), "--universal"),
            *("--python-version", python, "--generate-hashes", "--no-header"),
            *(f"--upgrade-package={name}" for name in upgrade),
            *(f"--no-emit-package={name}" for name in versions_of(DEPENDENCIES)),
        )
        try:
            _run(*command, "--constraint", str(limits), "-o", str(requirements))
        except ConfigurationError as error:
            packages = ", ".join(upgrade) or "the packages"
            try:
                _run(*command)
            except ConfigurationError as general:
                reason, _, hint = str(general).partition("\nhint: ")
                if "requires-python" in hint:
                    reason += (
                        f"\n\nThe packages are locked for Python {python}, too. If everyone who works on"
                        f" this fork has a later one, raise requires-python in {PYPROJECT}, and make lock"
                    )
                raise ConfigurationError(f"{packages} cannot be added. {reason}") from None
            raise ConfigurationError(CONFLICT.format(packages=packages, reason=error)) from None
        _check_wheels(requirements)
        # uv ends with a list of what it left out: the kit's packages.
        text, _, _ = requirements.read_text("utf-8").partition("\n# The following packages were excluded")
        # Among the causes of a package is the file of limits, whose path is another one each time.
        text = re.sub(r"^ *# +-c .*\n", "", text, flags=re.MULTILINE)
        LOCK.write_text(header() + text, "utf-8")


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
    """Install what is locked into .venv, for `make run` and tests. Raises ConfigurationError."""
    if _is_current():
        return
    with environments.hold(INSTALLATION, "another installation of packages"):
        if _is_current():  # another command has installed them meanwhile
            return
        text, old_versions = LOCK.read_text("utf-8"), versions_of(INSTALLED)
        versions = versions_in(text)
        # An installation that is interrupted leaves packages which look whole to uv, so all are installed
        # again. It may also leave some that no list names any more.
        was_interrupted = UNFINISHED.exists()
        options = ("--reinstall",) if was_interrupted else ()
        UNFINISHED.touch()
        if was_interrupted or old_versions.keys() - versions.keys():  # only uv sync removes a package
            _run("sync", "--locked")
        if versions:
            command = ("pip", "install", "--python", sys.executable, "--no-deps", "--require-hashes")
            _run(*command, *options, "-r", str(LOCK))
        INSTALLED.write_text(text, "utf-8")
        UNFINISHED.unlink()


def _is_current() -> bool:
    """Whether there is nothing to install, and nothing to remove."""
    return not UNFINISHED.exists() and versions_of(INSTALLED) == versions_of(LOCK) and _is_installed()


def _is_installed() -> bool:
    """Whether .venv has what the lock names for this machine. A `uv sync` removes it."""
    for line in LOCK.read_text("utf-8").splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+(?:==| @ )[^\\]+)", line):
            requirement = Requirement(match[1].strip())
            if requirement.marker and not requirement.marker.evaluate():
                continue
            try:
                if metadata.version(requirement.name) not in requirement.specifier:
                    return False
            except metadata.PackageNotFoundError:
                return False
    return True


def _replace(path: Path, lines: list[str], upgrade: Sequence[str] = ()) -> None:
    """Write a list, and the lock. If it cannot be locked, the list stays as it was."""
    backup = path.read_text("utf-8") if path.exists() else None
    path.write_text("\n".join(lines) + "\n", "utf-8")
    try:
        lock(upgrade)
    except BaseException:  # also of Ctrl-C
        if backup is None:
            path.unlink()
        else:
            path.write_text(backup, "utf-8")
        raise
    install()


def _check_wheels(requirements: Path) -> None:
    """Raises ConfigurationError if Lambda's platform has no wheel of a package: a build compiles nothing."""
    if not versions_of(requirements):
        return
    for arch in architectures_of_stages(os.environ):
        if reason := _problem_of_wheels(requirements, arch):
            python, other = read_python(os.environ), "x86_64" if arch == "arm64" else "arm64"
            advice = NO_ARCHITECTURE if _problem_of_wheels(requirements, other) else OTHER_ARCHITECTURE
            raise ConfigurationError(
                NO_WHEEL.format(arch=arch, python=python, reason=reason, advice=advice.format(other=other))
            )


def _problem_of_wheels(requirements: Path, arch: str) -> str:
    """Which package has no wheel for an architecture of Lambda; "" if each has one."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            _install_for_lambda(requirements, folder, arch, "--dry-run")
        except ConfigurationError as error:
            return str(error)
    return ""


def _install_for_lambda(lock: Path, folder: str, arch: str, *options: str) -> None:
    python = read_python(os.environ)
    platform = f"{MACHINES[arch]}-manylinux_{newest_glibc(python)}"
    _run(
        *("pip", "install", "--target", folder, "--python-version", python, *options),
        *("--python-platform", platform, "--only-binary", ":all:", "--no-deps", "-r", str(lock)),
    )


def header(folder: Path = Path()) -> str:
    """First line of the lock, which names the state of the inputs. folder: folder of the project."""
    digest = hashlib.sha256()
    for path in (*lists(folder), DEPENDENCIES):
        # The lock says which list needs a package. The text is the same with the line ends of Windows.
        digest.update(f"{path.as_posix()}\0{read_text(folder / path)}\0".encode())
    return f"# Locked from packages.txt by `make add`. Inputs: {digest.hexdigest()[:16]}\n"


def _run(*arguments: str) -> None:
    """Run uv. Raises ConfigurationError with what it says."""
    process = subprocess.run(
        [environments.find_uv(), "--quiet", *arguments], capture_output=True, text=True, check=False
    )
    if process.returncode:
        # Which platforms each requirement is for would hide the reason.
        split = r"\s+for\s+split\s+\(markers:.*?(?=\n\s*(╰─▶|cause:))"
        text = re.sub(split, ":", process.stderr, flags=re.DOTALL)
        text = re.sub(r"\{[^{}]*(platform_machine|sys_platform)[^{}]*\}", "", text)
        lines = [re.sub(r"^\s*(error|cause|×|╰─▶):?\s*", "", line) for line in text.splitlines()]
        raise ConfigurationError("\n".join(filter(None, lines)))


if __name__ == "__main__":
    sys.exit(main())
