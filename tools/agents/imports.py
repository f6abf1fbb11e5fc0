"""What agents import, and Lambda does not have: packages, and agents that a build leaves out.

The development environment has more packages than a function: the kit's tests need them. So an agent that
imports one of those runs here, and fails on Lambda. Only code that agent.py leads to counts, and no import
that may fail: `try … except ImportError` is how an agent does without a package.
"""

import ast
import re
import sys
from collections.abc import Collection, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from a2a_lambda.mistakes import has_module, short_path
from tools.agents.locks import LOCK, lock_for
from tools.command import agent_folders
from tools.environments import DEPENDENCIES

OWN = {"a2a_lambda"}

MAY_FAIL = {"ImportError", "ModuleNotFoundError", "Exception"}

ELSEWHERE = {"version_info", "platform", "__name__"}
"""Names in the test of an `if` that is not about Lambda."""

REPOSITORY = ("functions", "tools")
"""Packages that are in the repository only. An agent's own file may have such a name, too."""

TESTS = "tests"
"""Folder of an agent that no build packs."""

Import = ast.Import | ast.ImportFrom


def find_missing(
    agents: Path, names: Collection[str] | None = None, left_out: Collection[str] = ()
) -> list[str]:
    """A sentence for each package that an agent imports and Lambda does not have, and for each agent that it
    imports and the build leaves out.

    agents: their folder. names: agents to look at; None = all of them. left_out: agents that Lambda will not
    have.
    """
    sentences: list[str] = []
    for folder in agent_folders(agents).values():
        if names is not None and folder.name not in names:
            continue
        packages: set[str] = set()
        for file, line, package in _imports(agents, folder / "agent.py", set()):
            if package in packages:
                continue
            packages.add(package)
            if package.startswith("agents."):
                other = package.removeprefix("agents.")
                if other in left_out:
                    sentences.append(
                        f"{short_path(file)}:{line}: agent {folder.name} imports agent {other}, which this"
                        f" build leaves out: name {other}, too, or move what both need into a folder beside"
                        " them without a card.yaml"
                    )
            elif package in REPOSITORY:
                sentences.append(
                    f"{short_path(file)}:{line}: Lambda has no {package!r}, a folder of this repository:"
                    " write `from .module import name`,"
                    " or `from ..folder.module import name` for a folder beside this agent"
                )
            elif package == TESTS:
                sentences.append(
                    f"{short_path(file)}:{line}: a build leaves the folder tests out, so Lambda does not have"
                    " this module: move it to the agent's other files"
                )
            # An import of one of the agent's own files fails here, and says how to write it. An installed
            # package may have the agent's name.
            elif (package != folder.name or package in _distributions()) and (
                distribution := _missing_distribution(package, folder)
            ):
                sentences.append(
                    f"{short_path(file)}:{line}: {package!r} is not among your packages, so Lambda does not"
                    f" have it: make add PACKAGE={distribution} (AGENT={folder.name}: for this agent only)"
                )
    return sentences


def _imports(agents: Path, file: Path, files: set[Path]) -> Iterator[tuple[Path, int, str]]:
    """File, line and top-level package of each import of a module, and of the agents' modules that it
    imports. The package of such a module has the agent's name: agents.weather. files: the files that were
    read before."""
    if file in files:
        return
    files.add(file)
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):
        return  # its import says so
    for node in _imports_on_lambda(tree):
        for module in _modules(agents, file, node):
            steps = module.split(".")
            if steps[0] != "agents":
                yield file, node.lineno, steps[0]
                continue
            if steps[2:3] == [TESTS] and (agents / steps[1] / TESTS).is_dir():
                yield file, node.lineno, TESTS
                continue
            if len(steps) == 1:
                continue
            # What is not ours may be of OpenAI's Agents SDK, which has this name, too.
            if not has_module(agents, steps[1]) and "agents" in _distributions():
                yield file, node.lineno, "agents"
                continue
            yield file, node.lineno, ".".join(steps[:2])
            place = agents.parent / module.replace(".", "/")
            for path in (place.with_suffix(".py"), place / "__init__.py"):
                yield from _imports(agents, path, files) if path.exists() else ()


def _modules(agents: Path, file: Path, node: Import) -> list[str]:
    """Absolute names of the modules that an import may name."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        package = file.relative_to(agents.parent).parts[: -node.level]
        base = ".".join([*package, *([base] if base else [])])
    members = [f"{base}.{alias.name}" for alias in node.names] if base.startswith("agents") else []
    return [base, *members]


def _imports_on_lambda(module: ast.Module) -> Iterator[Import]:
    """The imports of a module that run on Lambda, and must not fail."""
    nodes: list[ast.AST] = [module]  # recursion would fail on deeply nested code
    while nodes:
        node = nodes.pop()
        if isinstance(node, Import):
            yield node
        children = list(ast.iter_child_nodes(node))
        match node:
            case ast.Try(handlers=handlers) if any(_names(clause.type) & MAY_FAIL for clause in handlers):
                children = [*node.orelse, *node.finalbody]
            case ast.With(items=items) if any(_names(clause.context_expr) & MAY_FAIL for clause in items):
                children = []
            case ast.If(test=test) if _names(test) & ELSEWHERE:
                children = []
            case ast.If(test=test) if "TYPE_CHECKING" in _names(test):
                children = list(node.orelse)
        nodes += reversed(children)


def _names(node: ast.AST | None) -> set[str]:
    """Names and attributes in an expression. A bare `except` takes every exception."""
    if node is None:
        return {"Exception"}
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def _missing_distribution(package: str, folder: Path) -> str:
    """Name of the one installed distribution that contains a package. If none does (a distribution of that
    name may be something else), or several do: a description. "" if Lambda has the package. folder: the
    agent's folder."""
    if package in sys.stdlib_module_names or package in OWN:
        return ""
    if package not in _distributions():  # its import fails here, too
        return "" if has_module(folder, package) else f"<the package with {package!r}>"
    distributions = _distributions()[package]
    shipped_names = _shipped_names(folder.name)
    if any(_normalize(name) in shipped_names for name in distributions):
        return ""
    # No one knows which one is meant of those that share a namespace, such as `google`.
    return distributions[0] if len(distributions) == 1 else f"<the package with {package!r}>"


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


def _shipped_names(agent: str) -> set[str]:
    """Normalized names of the distributions that an agent has: the kit's, all agents', and its own."""
    text = DEPENDENCIES.read_text("utf-8") if DEPENDENCIES.exists() else ""
    text += lock_for([agent], LOCK.read_text("utf-8")) if LOCK.exists() else ""
    names = (re.match(r"[A-Za-z0-9._-]+", line) for line in text.splitlines())
    return {_normalize(match[0]) for match in names if match}


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
