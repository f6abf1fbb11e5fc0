"""Size of a build. A function with its layers may have 250 MB unzipped.

Source: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
"""

import tempfile
import zipfile
from pathlib import Path

from tools.build.built_functions import LAYERS, TRACING_LAYER

MB = 1024 * 1024

LIMIT_MB = 250

WARNING_MB = 200

LARGEST = 5
"""Packages that are named if a build is too large."""


def size_of(folder: Path) -> int:
    """Bytes of a folder's files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def zipped_size_of(folder: Path) -> int:
    """Bytes of a folder as `sam deploy` sends it."""
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(folder))
        return file.tell()


def report(
    build: Path, agent_count: int, *, for_image: bool = False, has_tracing: bool = False
) -> tuple[str, int]:
    """A line about a build, and the exit status of the process.

    agent_count: number of its agents. for_image: it becomes a container image, which has all layers.
    has_tracing: the functions have the layer of tracing.
    """
    functions = {path.name: size_of(path) for path in build.glob("*Function")}
    names = [name for name in LAYERS if for_image or has_tracing or name != TRACING_LAYER]
    layers = {name: size_of(build / name) for name in names}
    code = max(functions.values())
    total = code + sum(layers.values())
    parts = [(LAYERS[name], size) for name, size in layers.items()]
    sizes = ", ".join(f"{name} {size / MB:.1f}" for name, size in (*parts, ("agents and handlers", code)))
    line = f"{total / MB:.1f} of {LIMIT_MB} MB unzipped: {sizes}"
    if for_image:
        return f"{total / MB:.1f} MB, before the base image: {sizes}", 0
    if total < WARNING_MB * MB:
        return line, 0
    packages = {
        path.name: size_of(path)
        for name in layers
        for path in (build / name / "python").iterdir()
        if path.is_dir()
    }
    heaviest = sorted(packages, key=packages.__getitem__, reverse=True)[:LARGEST]
    listing = ", ".join(f"{name} {packages[name] / MB:.0f} MB" for name in heaviest)
    if total <= LIMIT_MB * MB:
        return f"warning: {line}. Largest packages: {listing}", 0
    advice = "Remove a package,"
    if agent_count > 1:
        advice += (
            " let each stage serve fewer agents (AgentNames in samconfig.toml) and build one stage (make"
            " build STAGE=…),"
        )
    return (
        f"error: {line}. Lambda refuses that. {advice} or use a container image: make image."
        f" Largest packages: {listing}"
    ), 1
