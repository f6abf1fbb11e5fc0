"""Describes what is wrong with an agent's files: the file, the line, and what to write instead.

Each mistake is one line, without frames of the kit.
"""

import difflib
import inspect
import linecache
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from a2a_lambda.errors import KitError


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """End of a sentence about an unknown word: a question if a known word is close, else a period."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else "."


def short_path(path: Path | str) -> str:
    """A path, relative to the working directory if it is inside."""
    whole = Path(path)
    try:
        return str(whole.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(whole)


def place_of(function: Callable[..., Any]) -> str:
    """File and line of a function's `def`."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return repr(function)
    line = code.co_firstlineno  # of its first decorator, if it has one
    while (text := linecache.getline(code.co_filename, line)) and "def " not in text:
        line += 1
    return f"{short_path(code.co_filename)}:{line if text else code.co_firstlineno}"


def of_yaml(path: Path, error: Exception) -> str:
    """Why a card.yaml cannot be read."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None:
        return f"{short_path(path)}: not valid YAML: {error}"
    hint = "; YAML indents with spaces" if "\\t" in str(problem) else ""
    return f"{short_path(path)}:{mark.line + 1}: not valid YAML: {problem}{hint}"


def of_import(error: BaseException, folder: Path) -> str:
    """What an agent's module raised when it was imported."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(folder):
        return f"{short_path(error.filename)}:{error.lineno}: {error.msg}{_quote(error.text)}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(folder)
    ]
    where, line = short_path(folder / "agent.py"), ""
    if frames:
        where = f"{short_path(frames[-1].filename)}:{frames[-1].lineno}"
        line = linecache.getline(frames[-1].filename, frames[-1].lineno or 0)
    if isinstance(error, KitError):
        return f"{where}: {error}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{where}: there is no module {error.name!r}. {_missing_module(error.name, folder)}"
    return f"{where}: {_describe(error)}{_quote(line)}"


def of_card(path: Path, text: str, error: ValidationError, fields: Mapping[str, Collection[str]]) -> str:
    """Everything that is wrong with a card.yaml.

    fields: names of the allowed fields, by level: "" is the card itself, "skills" a skill.
    """
    root = yaml.compose(text, yaml.SafeLoader)
    errors = error.errors(include_url=False)
    absent = {each["loc"] for each in errors if each["type"] == "missing"}
    found: list[tuple[int, str]] = []
    for each in sorted(errors, key=lambda each: each["type"] == "missing"):
        loc, name = each["loc"], ".".join(map(str, each["loc"])) or "the file"
        line, node = _place(root, loc)
        match each["type"]:
            case "missing":
                if loc not in absent:  # a misspelling of it is already in the list
                    continue
                what = f"{name} is missing"
            case "extra_forbidden":
                level = ".".join(step for step in loc[:-1] if isinstance(step, str))
                siblings = [str(other[-1]) for other in absent if other[:-1] == loc[:-1]]
                close = difflib.get_close_matches(str(loc[-1]), [*siblings, *fields.get(level, ())], n=1)
                absent -= {(*loc[:-1], other) for other in close}
                homes = [home for home, names in fields.items() if loc[-1] in names]
                hint = did_you_mean(str(loc[-1]), close)
                if homes and not close:
                    hint = f"; it belongs {f'into {homes[0]}' if homes[0] else 'at the top of the card'}."
                what = f"{name} is not a field{' of a card' if not level else f' of {level}'}{hint}"
            case "string_type" if isinstance(node, yaml.ScalarNode):
                what = (
                    f'{name} must be text, but YAML reads {node.value} as {_kind(node)}: write "{node.value}"'
                )
                if not node.value:
                    what = f"{name} is empty"
            case "invalid_key":
                what = f"{loc[-1]} is not the name of a field."
            case _:
                what = f"{name}: {each['msg']}"
        found.append((line, what))
    if len(found) == 1:
        return f"{short_path(path)}:{found[0][0]}: {found[0][1]}"
    lines = "".join(f"\n  line {line}: {what}" for line, what in sorted(found))
    return f"{short_path(path)}: {len(found)} mistakes:{lines}"


def _kind(node: yaml.ScalarNode) -> str:
    kinds = {"int": "a number", "float": "a number", "bool": "true or false", "timestamp": "a date"}
    return kinds.get(node.tag.rpartition(":")[2], "something else")


def _describe(error: BaseException) -> str:
    """Type and text of an exception. If its text raises, only its type."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def _missing_module(name: str, folder: Path) -> str:
    own = f"agents.{folder.name}."
    if name.startswith(own):
        return f"There is no file {name.removeprefix(own).replace('.', '/')}.py in {short_path(folder)}."
    package = name.partition(".")[0]
    if (folder / f"{package}.py").exists() or (folder / package).is_dir():
        return f"It is a file of this agent: write `from . import {package}`."
    own_files = [path.stem for path in folder.glob("*.py")]
    if close := difflib.get_close_matches(package, own_files, n=1):
        return f"If you mean {close[0]}.py of this agent: write `from . import {close[0]}`."
    return f"If it is a package, add it: make add PACKAGE={package}"


def _quote(line: str | None) -> str:
    return f"\n    {line.strip()}" if line and line.strip() else ""


def _place(root: Any, loc: Sequence[int | str]) -> tuple[int, Any]:
    """Line of a location, or of what surrounds it, and its YAML node or None."""
    node, line = root, root.start_mark.line + 1
    for step in loc:
        inner = None
        if isinstance(node, yaml.MappingNode):
            pairs = ((key, value) for key, value in node.value if key.value == str(step))
            key, inner = next(pairs, (None, None))
            line = key.start_mark.line + 1 if key is not None else line
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            inner = node.value[step]
            line = inner.start_mark.line + 1
        node = inner
    return line, node
