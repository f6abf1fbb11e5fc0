"""The shape of the package: which folder may import which, and which folders are pure."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from a2a_lambda.catalog.agents import load_profiles
from a2a_lambda.catalog.manifest import encode_manifest
from a2a_lambda.kit import MANIFEST
from tests.conftest import AGENTS, PACKAGE, ROOT

GROUND = {"agent_threads", "errors", "mistakes", "settings", "strictjson", "telemetry", "threads", "tracing"}
"""Modules of the root that every folder may import."""

ALLOWED = {
    "protocol": set(),
    "wire": {"protocol"},
    "net": set(),
    "durable": {"protocol"},
    "tasks": {"durable", "protocol"},
    "store": {"tasks", "protocol"},
    "aws": {"tasks", "protocol"},
    "access": {"net", "store", "tasks", "protocol"},
    "files": {"net", "tasks", "protocol"},
    "agent": {"durable", "aws", "net", "tasks", "protocol"},
    "catalog": {"agent", "protocol"},
    "turns": {"files", "catalog", "agent", "durable", "store", "tasks", "protocol"},
    "background": {"turns", "files", "catalog", "agent", "durable", "store", "aws", "tasks", "protocol"},
    "push": {"files", "wire", "net", "store", "aws", "tasks", "protocol"},
    "operations": {"files", "background", "turns", "push", "catalog", "agent", "store", "tasks", "protocol"},
    "client": {"wire", "net", "aws", "protocol"},
    "kit": {"files", "operations", "background", "push", "access", "catalog", "agent", "store", "aws"},
    "lambda_": {"operations", "background", "push", "aws", "durable", "tasks"},
    "http": {"kit", "operations", "wire", "access", "net", "tasks", "protocol"},
}
"""What a folder may import: itself, GROUND, and these."""

FRONT = {"errors", "agent", "durable", "protocol", "tasks"}
"""What `a2a_lambda` itself imports: every function pays for it."""

PURE = ("protocol", "wire", "tasks")

PURE_GROUND = {"errors", "mistakes", "strictjson"}

PURE_LIBRARIES = frozenset(  # of urllib, only its parser
    "base64 binascii collections copy cronsim dataclasses datetime difflib enum"  # noqa: SIM905
    " fnmatch functools hashlib hmac itertools json math operator pydantic re rfc8785 secrets types typing"
    " urllib.parse uuid zoneinfo".split()
)
"""What a pure folder may import from elsewhere."""

BOTH_WAYS = {"agent/files", "agent/skills", "aws/lean", "http/discovery", "http/mcp"}
"""Folders within a folder that has both what they build on, and what puts them together."""

MAX_ROOT_MODULES = 9

MAX_MODULES = 10
"""Modules in a folder, without `__init__`."""

MAX_LINES = 370

CHANGING = frozenset(
    "Keyring KeptResult KeptResults KeyLoad OperationKeys RunState Turn _Invocation _Token".split()  # noqa: SIM905
)
"""Dataclasses that change while they are used."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(module: str) -> str:
    """The folder, or the module of the root, that a dotted name is in."""
    return module.split(".")[1] if "." in module else ""


def imported(path: Path, *, top: bool = False) -> Iterator[str]:
    """Dotted names of what a module imports. top: at its top only, for types or not, and not in functions."""
    tree = ast.parse(path.read_text())
    nodes = list(tree.body if top else ast.walk(tree))
    if top:
        nodes += [inner for node in nodes if isinstance(node, ast.If) for inner in node.body]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert node.module, f"{path}:{node.lineno}: use an absolute import"
            assert not node.level, f"{path}:{node.lineno}: use an absolute import"
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
    if own == "__init__":
        allowed = FRONT
    if own in PURE:
        allowed = allowed - GROUND | PURE_GROUND
    for name in imported(path):
        if name.startswith("a2a_lambda"):
            assert room(name) in allowed, f"{own} may not import {name}"
        elif own in PURE:
            assert {name, name.partition(".")[0]} & PURE_LIBRARIES, f"{own} is pure, and imports {name}"


def test_what_lambda_runs_needs_no_tools() -> None:
    for path in (*modules(), *(ROOT / "functions").glob("*.py")):
        packages = {name.partition(".")[0] for name in imported(path)}
        assert not packages & {"tools", "tests"}, path


def test_the_rows_are_used() -> None:
    """A row allows no more than is imported."""
    for folder, allowed in ALLOWED.items():
        paths = [PACKAGE / f"{folder}.py"] if folder == "kit" else (PACKAGE / folder).rglob("*.py")
        used = {room(name) for path in paths for name in imported(path) if name.startswith("a2a_lambda.")}
        assert allowed <= used, f"{folder} imports nothing from {allowed - used}"


def test_the_map_of_the_folders_says_the_same() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)` \| .* \| ([^|]+) \|$", (ROOT / "CONTRIBUTING.md").read_text())
    documented = {name: allowed.partition(";")[0] for name, allowed in rows}
    assert documented == {name: ", ".join(sorted(allowed)) or "nothing" for name, allowed in ALLOWED.items()}


def check_no_cycle(graph: dict[str, set[str]]) -> None:
    visited_names: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above, name))
        if name not in visited_names:
            for other in sorted(graph.get(name, set())):
                visit(other, (*above, name))
            visited_names.add(name)

    for name in graph:
        visit(name, ())


def test_no_folder_depends_on_itself_through_others() -> None:
    check_no_cycle(ALLOWED)


def test_no_module_depends_on_itself_through_others() -> None:
    """Types count. What a function imports when it runs comes later: the kit's parts, and two modules of
    which one is only for tests of agents."""
    graph = {}
    for path in modules():
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        graph[name] = set(imported(path, top=True))
    check_no_cycle(graph)


def test_no_folder_within_another_depends_on_it_both_ways() -> None:
    """Except those of BOTH_WAYS."""
    graph: dict[Path, set[Path]] = {}
    for path in modules():
        for name in imported(path):
            if name.startswith("a2a_lambda."):
                place = PACKAGE.parent / name.replace(".", "/")
                folder = place.parent if place.with_suffix(".py").exists() else place
                graph.setdefault(path.parent, set()).add(folder)
    both = {
        str(inner.relative_to(PACKAGE))
        for folder, others in graph.items()
        for inner in others
        if folder != PACKAGE and inner.is_relative_to(folder) and folder in graph[inner] and inner != folder
    }
    assert both == BOTH_WAYS


@pytest.mark.parametrize("room_name", PURE)
def test_data_of_pure_folders_holds_no_functions(room_name: str) -> None:
    """A function in a dataclass can do anything, and no import shows it. A wire is made of functions: its
    table of encoders is what it is."""
    for path in (PACKAGE / room_name).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name not in {"Codec", "Wire"}:
                fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
                callables = [
                    ast.unparse(field.target)
                    for field in fields
                    if "Callable" in ast.unparse(field.annotation)
                ]
                assert not callables, f"{path.name}: {node.name}.{callables}"


def test_pytest_enters_every_folder_of_tests(pytestconfig: pytest.Config) -> None:
    patterns = pytestconfig.getini("norecursedirs")
    folders = {part for path in (ROOT / "tests").rglob("test_*.py") for part in path.relative_to(ROOT).parts}
    assert not [name for name in folders if any(fnmatchcase(name, pattern) for pattern in patterns)]


def test_values_cannot_change() -> None:
    """A dataclass is frozen, unless CHANGING names it, and has slots, unless it caches a property."""
    changing: set[str] = set()
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef):
                continue
            methods = [method for method in node.body if isinstance(method, ast.FunctionDef)]
            decorators = {ast.unparse(each) for method in methods for each in method.decorator_list}
            for decorator in map(ast.unparse, node.decorator_list):
                if decorator.startswith("dataclass"):
                    changing |= set() if "frozen=True" in decorator else {node.name}
                    has_slots = "slots=True" in decorator or node.name == "Turn"
                    assert has_slots != ("cached_property" in decorators), f"{path}: {node.name}"
    assert changing == CHANGING


def test_modules_are_short() -> None:
    one_deployment = ROOT / "tests/e2e/test_stack.py"  # a second module would deploy a second stack
    others = {path for top in ("tools", "tests") for path in (ROOT / top).rglob("*.py")} - {one_deployment}
    for path in (*modules(), *others):
        assert len(path.read_text().splitlines()) <= MAX_LINES, path


def test_no_folder_of_tools_depends_on_itself_through_others() -> None:
    graph: dict[str, set[str]] = {}
    for path in (ROOT / "tools").glob("*/*.py"):
        own = path.parent.name
        names = (name.split(".") for name in imported(path) if name.startswith("tools."))
        folders = {parts[1] for parts in names if (ROOT / "tools" / parts[1]).is_dir()}
        graph[own] = graph.get(own, set()) | folders - {own}
    check_no_cycle(graph)


def test_folders_are_small() -> None:
    for top in (PACKAGE, ROOT / "tools", ROOT / "tests"):
        for folder in {path.parent for path in top.rglob("*.py")}:
            files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
            assert len(files) <= (MAX_ROOT_MODULES if folder == PACKAGE else MAX_MODULES), folder


def test_the_tests_mirror_the_package() -> None:
    """Both ways. The types of `protocol` are tested by the folders that use them."""
    folders = {path.name for path in (ROOT / "tests").iterdir() if (path / "__init__.py").exists()}
    tiers = {"conformance", "e2e", "faults", "interop", "processes"}
    package_folders = {
        path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert folders - tiers == package_folders - {"protocol"} | {"helpers", "template", "tools"}


def test_tests_import_no_tests() -> None:
    """What they share has a module of its own, or is a fixture."""
    agents = set((ROOT / "tests/agents").rglob("*.py"))  # they import the files beside them, as authors do
    for path in set((ROOT / "tests").rglob("*.py")) - agents:
        imported_tests = [name for name in imported(path) if re.match(r"tests\.(.+\.)?test_", name)]
        assert not imported_tests, f"{path}: {imported_tests}"


def test_the_lean_client_can_be_deleted() -> None:
    """One module chooses it, and botocore is its other choice."""
    users = {
        path.name
        for path in modules()
        if path.parent.name != "lean" and any(".lean" in name for name in imported(path))
    }
    assert users == {"hot_path.py"}


def test_packages_are_empty() -> None:
    """What a package imports is imported with each of its modules: the cold path pays for it."""
    packages_with_text = {PACKAGE / "__init__.py", PACKAGE / "client" / "__init__.py"}
    for path in set(PACKAGE.rglob("__init__.py")) - packages_with_text:
        assert not path.read_text(), path


def test_the_cold_path_imports_nothing_it_does_not_need() -> None:
    """Neither of the functions that answer HTTP loads what other functions, or rare routes, need."""
    for function in ("api", "rpc"):
        code = (
            "import os, sys, runpy; os.environ['A2A_QUEUE'] = 'https://queue';"
            f"runpy.run_path('functions/{function}.py');"
            "print(*{name.partition('.')[0] for name in sys.modules})"
        )
        environment = {**os.environ, "AWS_DEFAULT_REGION": "us-east-1", "A2A_AGENTS": str(AGENTS)}
        result = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        module_names = set(result.stdout.split())
        assert not module_names & {
            "fastapi",
            "boto3",
            "httpx2",
            "rfc8785",
            "opentelemetry",
            "uvicorn",
            "moto",
        }, function


@pytest.mark.parametrize("function", ["api", "notifier", "rpc", "worker"])
def test_a_build_imports_no_yaml_and_only_the_streamed_function_imports_agents(
    tmp_path: Path, function: str
) -> None:
    """A build has a manifest. An agent may take long to import, or fail."""
    shutil.copytree(AGENTS, tmp_path / "agents", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / MANIFEST).write_bytes(encode_manifest(load_profiles(AGENTS)))
    variables = dict.fromkeys(("A2A_QUEUE", "A2A_NOTICES", "A2A_DEAD_LETTERS"), "https://queue")
    code = f"import runpy, sys; runpy.run_path('functions/{function}.py'); print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **variables, "A2A_TABLE": "t", "A2A_AGENTS": str(tmp_path / "agents")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    module_names = set(result.stdout.split())
    assert "yaml" not in module_names
    assert ("agents" in module_names) is (function == "rpc")


def test_the_runtime_starts_without_the_kit() -> None:
    """An import error in the kit is reported by AWS's runtime client, which must run by then."""
    code = "import sys, a2a_lambda.lambda_.runtime; print(*{name.partition('.')[0] for name in sys.modules})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(result.stdout.split()) & {"botocore", "fastapi", "aws_lambda_powertools"}
