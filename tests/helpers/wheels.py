"""A package index in a folder: small wheels that uv resolves and installs without a network or its cache."""

import sysconfig
import tomllib
import zipfile
from pathlib import Path


def write_wheel(folder: Path, name: str, version: str, *requires: str, size: int = 0) -> None:
    """Write the wheel of a package with one module, whose `version` is its version. size: bytes of a file of
    data beside it."""
    module = name.replace("-", "_")
    content = {f"{module}.py": f"version = {version!r}\n", f"{module}.dat": "x" * size}
    _write(folder, name, version, content, *requires)


def write_stubs(folder: Path, lock: Path) -> None:
    """Write an empty wheel of each package that a uv.lock names, in its version, and none that it needs.

    An environment of these imports the packages of the one that runs the tests.
    """
    here = {"installed.pth": sysconfig.get_path("purelib") + "\n"}
    for package in tomllib.loads(lock.read_text("utf-8"))["package"]:
        if "registry" in package["source"]:
            _write(folder, package["name"], package["version"], here if package["name"] == "pytest" else {})


def _write(folder: Path, name: str, version: str, content: dict[str, str], *requires: str) -> None:
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    files = {
        **content,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
