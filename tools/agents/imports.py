"""What agents import, and Lambda does not have.

The development environment has more packages than a function: the kit's tests need them. So an agent that
imports one of those runs here, and fails on Lambda.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from a2a_lambda.mistakes import short_path

LAYERS = (Path("layers/dependencies/requirements.txt"), Path("layers/agents/requirements.txt"))
"""What a function has besides the standard library, the kit and the agents."""

OWN = {"a2a_lambda", "agents"}

MAY_FAIL = {"ImportError", "ModuleNotFoundError", "Exception"}


def find_missing(agents: Path) -> list[str]:
    """A sentence for each package that an agent imports and Lambda does not have. agents: their folder."""
    return [
        f"{short_path(file)}:{line}: {package!r} is not among your packages, so Lambda does not have it:"
        f" make add PACKAGE={distribution}"
        for folder in sorted(card.parent for card in agents.glob("*/card.yaml"))
        for file, line, package in _imports(folder)
        if (distribution := _missing_distribution(package))
    ]


def _imports(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """File, line and top-level package of each import in an agent's code, the first of each package."""
    seen: set[str] = set()
    for file in sorted(folder.rglob("*.py")):
        if "tests" in file.relative_to(folder).parts:
            continue
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):
            continue  # its import says so
        for node in _running(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for package in {name.partition(".")[0] for name in names} - seen:
                seen.add(package)
                if not (folder / f"{package}.py").exists() and not (folder / package).is_dir():
                    yield file, node.lineno, package


def _running(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports below a node, but for those that may fail, and those of type checkers."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Try) and any(_takes_import_errors(handler) for handler in node.handlers):
        children = [*node.handlers, *node.orelse, *node.finalbody]
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        children = list(node.orelse)
    for child in children:
        yield from _running(child)


def _takes_import_errors(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or any(
        isinstance(node, ast.Name) and node.id in MAY_FAIL for node in ast.walk(handler.type)
    )


def _missing_distribution(package: str) -> str:
    """Name of the distribution that has a package; "" if Lambda has it."""
    if package in sys.stdlib_module_names or package in OWN:
        return ""
    distributions = _distributions().get(package, [package])
    return "" if any(_normalized(name) in _shipped() for name in distributions) else distributions[0]


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


def _shipped() -> set[str]:
    """Normalized names of the distributions in the layers."""
    lines = [line for path in LAYERS if path.exists() for line in path.read_text("utf-8").splitlines()]
    return {_normalized(found[0]) for line in lines if (found := re.match(r"[A-Za-z0-9._-]+", line))}


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
