"""Names in the package and in the tools: no two things of one name, and none that does not exist."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.conftest import PACKAGE, ROOT

MODULES = sorted(PACKAGE.rglob("*.py"))

TOOLS = sorted((ROOT / "tools").rglob("*.py"))


def constants(path: Path) -> Iterator[tuple[str, ast.expr | None]]:
    """Names and values of a module's constants."""
    for node in ast.parse(path.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and target.id.isupper():
                yield target.id, getattr(node, "value", None)


@cache
def members_of(path: Path) -> set[str]:
    """Names of a module's classes, functions and constants."""
    names = {getattr(node, "name", "") for node in ast.parse(path.read_text()).body}
    return names | {name for name, _ in constants(path)}


def duplicates(values_by_name: Mapping[str, set[Any]]) -> dict[str, set[Any]]:
    return {name: values for name, values in values_by_name.items() if len(values) > 1}


def test_no_two_constants_have_one_name() -> None:
    """Except the codecs of a version: each version has its own."""
    paths_by_name: dict[str, set[Any]] = defaultdict(set)
    for path in MODULES:
        if path.parent.name != "wire" or path.stem in ("interface", "negotiation"):
            for name, _ in constants(path):
                paths_by_name[name].add(path.relative_to(PACKAGE))
    assert duplicates(paths_by_name) == {}


def test_a_number_of_one_name_has_one_value() -> None:
    """Each command of the tools has names of its own, but a number is the same in all of them."""
    numbers_by_name: dict[str, set[Any]] = defaultdict(set)
    for path in (*MODULES, *TOOLS):
        for name, value in constants(path):
            if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
                numbers_by_name[name].add(value.value)
    assert duplicates(numbers_by_name) == {}


def test_docstrings_describe_parameters_that_exist() -> None:
    for path in (*MODULES, *TOOLS):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                parameter_names = re.findall(r"(?:^|\n\s*|[.;] )([a-z_]+): ", ast.get_docstring(node) or "")
                parameters = {name.arg for name in ast.walk(node.args) if isinstance(name, ast.arg)}
                assert parameters.issuperset(parameter_names), f"{path.name}: {node.name}: {parameter_names}"


def test_what_a_docstring_names_in_another_module_exists() -> None:
    """It names things such as `protocol.caller.Caller`. `turn` is a skill's own turn, and not the module."""
    missing = []
    for path in MODULES:
        for place, name in re.findall(r"`([a-z_]+(?:\.[a-z_]+)*)\.([A-Za-z_]+)`", path.read_text()):
            suffix = f"/{place.replace('.', '/')}.py"
            modules = [module for module in MODULES if f"/{module.relative_to(PACKAGE)}".endswith(suffix)]
            is_ours = modules or (PACKAGE / place.split(".")[0]).is_dir()
            is_there = any(name in members_of(module) for module in modules)
            if is_ours and place not in ("turn", "__init__") and not is_there:
                missing.append(f"{path.relative_to(PACKAGE)}: {place}.{name}")
    assert missing == []
