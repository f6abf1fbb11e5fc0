"""The shape of the package: which folder may import which, and which folders are pure."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "layers" / "a2a" / "a2a_lambda"

GROUND = {"errors", "mistakes", "settings", "strictjson", "telemetry", "threads"}
"""Modules of the root that every folder may import."""

ALLOWED = {
    "protocol": set(),
    "wire": {"protocol"},
    "tasks": {"protocol"},
    "net": set(),
    "store": {"tasks", "protocol"},
    "aws": {"tasks", "protocol"},
    "access": {"store"},
    "agent": {"tasks", "protocol"},
    "turns": {"agent", "store", "aws", "tasks", "protocol"},
    "push": {"wire", "net", "store", "aws", "tasks", "protocol"},
    "operations": {"turns", "push", "agent", "store", "aws", "tasks", "protocol"},
    "client": {"wire", "net", "protocol"},
    "kit": {"operations", "turns", "push", "access", "agent", "store", "aws"},
    "lambda_": {"turns", "push", "aws", "agent"},
    "http": {"kit", "operations", "turns", "wire", "access", "agent", "tasks", "protocol"},
}
"""What a folder may import: itself, GROUND, and these."""

PURE = ("protocol", "wire", "tasks")

IMPURE_MODULES = {"asyncio", "botocore", "boto3", "concurrent", "httpx2", "socket", "subprocess", "threading"}

MOST_MODULES = 10
"""Modules in a folder."""


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room(module: str) -> str:
    """The folder, or the module of the root, that a dotted name is in."""
    return module.split(".")[1] if "." in module else ""


def imported(path: Path) -> Iterator[str]:
    """Dotted names of what a module imports, wherever in the module it does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                is_module = (PACKAGE.parent / inner.replace(".", "/")).with_suffix(".py").exists()
                yield inner if is_module else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_what_its_folder_may(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    allowed = GROUND | ALLOWED.get(own, set()) | {own}
    for name in imported(path):
        if name.startswith("a2a_lambda"):
            assert room(name) in allowed, f"{own} may not import {name}"
        elif own in PURE:
            assert name.partition(".")[0] not in IMPURE_MODULES, f"{own} is pure, and imports {name}"


def test_no_folder_depends_on_itself_through_others() -> None:
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above, name))
        if name not in done:
            for other in ALLOWED.get(name, set()):
                visit(other, (*above, name))
            done.add(name)

    for name in ALLOWED:
        visit(name, ())


def test_no_module_depends_on_itself_through_others() -> None:
    """At import: what a function imports when it runs comes later."""
    graph: dict[str, set[str]] = {}
    for path in modules():
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        tree = ast.parse(path.read_text().replace("if TYPE_CHECKING:", "if False:"))
        graph[name] = {
            f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in names() else node.module
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above, name))
        if name not in done:
            for other in graph.get(name, set()):
                visit(other, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def names() -> set[str]:
    return {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in modules()}


def test_folders_are_small() -> None:
    for folder in {PACKAGE, ROOT / "tools", *(path.parent for path in modules())}:
        assert len(list(folder.glob("*.py"))) <= MOST_MODULES, folder


def test_the_tests_mirror_the_package() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if (path / "__init__.py").exists()}
    tiers = {"conformance", "e2e", "faults", "interop", "processes"}
    assert folders - tiers - {"helpers", "template", "functions", "tools"} <= ALLOWED.keys()


def test_packages_are_empty() -> None:
    """What a package imports is imported with each of its modules: the cold path pays for it."""
    documented = {PACKAGE / "__init__.py", PACKAGE / "client" / "__init__.py"}
    for path in set(PACKAGE.rglob("__init__.py")) - documented:
        assert not path.read_text(), path


def test_the_cold_path_imports_nothing_it_does_not_need() -> None:
    """Neither of the functions that answer HTTP loads what other functions, or rare routes, need."""
    for function in ("api", "rpc"):
        code = (
            "import os, sys, runpy; os.environ['A2A_QUEUE'] = 'https://queue';"
            f"runpy.run_path('functions/{function}.py');"
            "print(*{name.partition('.')[0] for name in sys.modules})"
        )
        environment = {**os.environ, "AWS_DEFAULT_REGION": "us-east-1"}
        found = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        loaded = set(found.stdout.split())
        assert "fastapi" in loaded
        assert not loaded & {"boto3", "httpx2", "rfc8785", "aws_xray_sdk", "uvicorn", "moto"}, function
