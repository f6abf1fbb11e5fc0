"""make build, make image: sam build, without Docker.

Lambda's version of Python compiles the code. Without it there is no .pyc, and cold starts are slower. Each
variant of a build has a folder of its own, because sam's cache does not distinguish them.
"""

import filecmp
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from a2a_lambda.errors import ConfigurationError
from tools import environments
from tools.agents.locks import LOCK, lock_for
from tools.agents.stage_parameters import named_parameters
from tools.agents.stages import architectures_of_stages, deploy_command, values_of_stages
from tools.build import image, packages, size
from tools.builds import BUILD, IMAGE, find_python, for_python, read_architecture, read_python
from tools.command import agent_folders, reports_errors, split_names

MARK = ".a2a-build"
"""Empty file in the folder of a build: another build may delete what is there."""

MANIFEST = Path("functions/.manifest.json")

VARIANT_DAYS = 14
"""Days without a build after which what was built of a variant is deleted."""


@reports_errors
def main(argv: list[str] = sys.argv, environ: Mapping[str, str] = os.environ) -> int:
    """argv[1] is build (all agents, those in AGENTS, or those of STAGE), image, or deployment, which makes an
    image if IMAGE is set, and else a build."""
    command = argv[1]
    folder = Path(environ.get("BUILD_DIR") or BUILD)
    is_image = command == "image" or (command == "deployment" and bool(environ.get("IMAGE")))
    version = read_python(environ)
    agents, stage = sorted(split_names(environ.get("AGENTS", ""))), environ.get("STAGE", "")
    if command == "build" and agents and stage:
        raise ConfigurationError("STAGE says which agents are built: leave out AGENTS")
    if command == "deployment" or (command == "build" and stage):
        stage_parameters, call_parameters = named_parameters(environ)
        named = {**stage_parameters, **call_parameters}
        agents = sorted(split_names(named.get("AgentNames", "")))
        architectures = [read_architecture(environ, named)]
        has_tracing = bool(named.get("OtlpEndpoint"))
    else:
        architectures = architectures_of_stages(environ)
        has_tracing = any(values_of_stages("OtlpEndpoint").values())
    [architecture, *others] = architectures
    if others:
        raise ConfigurationError(
            f"the stages run on {architecture} and {others[0]}: add ARCH={architecture} or ARCH={others[0]}"
        )
    if status := build(folder, architecture, version, agents, is_image=is_image, has_tracing=has_tracing):
        return status
    if command == "build":
        if agents and not stage:
            print("Next: make e2e STAGE=<a stage whose AgentNames are these agents>")
        else:
            print(f"Next: make e2e{f' STAGE={stage}' if stage else ''}, then {deploy_command(stage)}")
    if not is_image:
        return 0
    image.write(folder, version)
    if command == "image":
        print(f"Next: {deploy_command()} IMAGE=1")
        return 0
    status = build_image(folder, architecture)
    if folder.is_dir():
        (folder / MARK).touch()  # sam has made the folder anew
    return status


def build(
    folder: Path,
    architecture: str,
    version: str,
    agents: Sequence[str] = (),
    *,
    is_image: bool = False,
    has_tracing: bool = False,
) -> int:
    """Build the functions and layers. Returns the exit status. Raises ConfigurationError.

    version: version of Python, such as 3.13. agents: names of those to build, with their packages; none =
        all. is_image: they become an image, whose size has another limit. has_tracing: the functions have
        the layer of tracing.
    """
    _check_folder(folder)
    _check_programs()
    # In a process of its own, because it imports the agents.
    if status := environments.run(sys.executable, "-m", "tools.build.check", str(MANIFEST), *agents):
        return status
    environments.install("sam")
    if status := _export_requirements():
        return status
    python = find_python(version)
    if not python:
        print(f"no python{version} here: the build has no .pyc, and cold starts will be slower")
    part = [hashlib.sha256(" ".join(agents).encode()).hexdigest()[:12]] if agents else []
    name = "-".join([architecture, version, *(["pyc"] if python else []), *part])
    variant = environments.BUILDS / "variants" / name
    variant.mkdir(parents=True, exist_ok=True)
    os.utime(variant)
    _delete_unused(variant.parent)
    if status := _run_sam_build(variant, architecture, version, python, agents):
        return status
    # An emulator runs the functions with an interpreter of its own, whatever their runtime is called.
    if "AWS_ENDPOINT_URL" not in os.environ:
        template = variant / "build" / "template.yaml"
        template.write_text(for_python(template.read_text("utf-8"), version), "utf-8")
    line, status = size.report(
        variant / "build", len(agents or agent_folders()), for_image=is_image, has_tracing=has_tracing
    )
    print(line, file=sys.stderr if status else sys.stdout)
    if not status:
        _copy_build(variant / "build", folder)
        print(f"built: {folder}")
    return status


def _run_sam_build(variant: Path, architecture: str, version: str, python: str, agents: Sequence[str]) -> int:
    """Run `sam build` in the folder of a variant of the build. Returns the exit status.

    version: version of Python, such as 3.13. python: path of its interpreter, or "". agents: names of those
        to build; none = all.
    """
    packages.STAGE_LOCK.unlink(missing_ok=True)  # of a build that was killed
    if agents:
        lock = lock_for(agents, LOCK.read_text("utf-8"))
        packages.STAGE_LOCK.write_text(lock, "utf-8")
    log = environments.BUILDS / "build.log"
    print(f"building; {log} has what sam prints", flush=True)
    try:
        return environments.run_sam_quietly(
            log,
            *("build", "--parallel", "--cached", "--cache-dir", str(variant / "cache")),
            *("--build-dir", str(variant / "build"), "--parameter-overrides", f"Architecture={architecture}"),
            A2A_HAS_MANIFEST="1",
            A2A_BUILT_AGENTS=" ".join(agents),
            ARCH=architecture,
            LAMBDA_PYTHON=version,
            PYTHON_LAMBDA=python,
        )
    finally:
        packages.STAGE_LOCK.unlink(missing_ok=True)


def _check_programs() -> None:
    """Raises ConfigurationError if a program that sam starts is missing."""
    for program in ("make", "sh"):
        if shutil.which(program) is None:
            raise ConfigurationError(
                f"a build needs {program}. On Windows, build in WSL: docs/faq.md, Windows"
            )


def _copy_build(build: Path, folder: Path) -> None:
    """Replace what a folder has by a build."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).touch()  # first: the copy may be interrupted
    shutil.copytree(build, folder, symlinks=True, dirs_exist_ok=True)
    _open_to_all_users(folder)


def _delete_unused(variants: Path) -> None:
    """Delete the variants that have not been built for VARIANT_DAYS: each has its packages twice."""
    for variant in variants.iterdir():
        if variant.stat().st_mtime < time.time() - VARIANT_DAYS * 86_400:
            shutil.rmtree(variant, ignore_errors=True)


def _open_to_all_users(folder: Path) -> None:
    """Let every user read the files and start the programs, whatever the umask here is. In an archive and in
    an image they belong to root, and Lambda runs as another user."""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | (0o555 if mode & 0o100 else 0o444))


def _check_folder(folder: Path) -> None:
    """Raises ConfigurationError for a folder without a mark: a build would delete what is in it."""
    is_empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if is_empty or (folder / MARK).is_file() or environments.BUILDS.resolve() in folder.resolve().parents:
        return
    raise ConfigurationError(
        f"BUILD_DIR={folder} has no {MARK}, so it is not a build of this release, and a build would delete"
        " what is there: delete it yourself, or name a new folder, such as BUILD_DIR=.aws-sam/mine"
    )


def build_image(folder: Path, architecture: str) -> int:
    """Build the image with Docker. Returns the exit status."""
    return environments.run_sam(
        *("build", "--template", str(IMAGE / "template.json"), "--build-dir", str(folder)),
        *("--parameter-overrides", f"Architecture={architecture}"),
    )


def _export_requirements() -> int:
    """Write the requirements of the kit's layers again if uv.lock has others. Returns the exit status."""
    path = environments.BUILDS / "requirements.txt"
    environments.BUILDS.mkdir(exist_ok=True)
    for layer in (environments.DEPENDENCIES, environments.TRACING):
        if status := environments.export(layer, path):
            return status
        if not filecmp.cmp(path, layer, shallow=False):
            print(f"{layer} did not match uv.lock. It was written again; commit it", file=sys.stderr)
            shutil.copyfile(path, layer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
