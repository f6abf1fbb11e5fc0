"""Describes what is wrong with an agent's files: the file, the line, and what to write instead.

Each mistake is one line, without frames of the kit.
"""

import importlib
import inspect
import linecache
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from a2a_lambda.errors import EXCERPT_CHARACTERS, ConfigurationError, ImportFailed, error_text, is_safe_to_log

DISTRIBUTIONS: Mapping[str, str] = {
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Names on PyPI of well-known packages that are imported by another name."""

hints = logging.getLogger("a2a_lambda.hints")
"""What an author should know of an agent that works. `make run` shows it as warnings."""


def hint_at_empty_answer(skill_id: str, level: int = logging.INFO) -> None:
    """Say that a skill has ended its turn without an output."""
    hints.log(level, "skill %s returned nothing: a `return` may be missing", skill_id)


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """End of a sentence about an unknown word: a question if a known word is close, else a period."""
    close = closest(word, candidates)
    return f"; did you mean {close}?" if close else "."


def closest(word: str, candidates: Iterable[str], ratio: float = 0.6) -> str:
    """The candidate that is most like a word, or "" if none is close. ratio: how alike they must be, of at
    most 1, as difflib has it."""
    import difflib  # only after a mistake, so that no cold start pays for it

    # A client may have written a very long word.
    return next(iter(difflib.get_close_matches(word[:EXCERPT_CHARACTERS], [*candidates], 1, ratio)), "")


def short_path(path: Path | str) -> str:
    """A path, relative to the working directory if it is inside."""
    location = Path(path)
    try:
        return str(location.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(location)


def source_of(function: Callable[..., Any]) -> str:
    """File and line of a function's `def`."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return repr(function)
    line = code.co_firstlineno  # of its first decorator, if it has one
    while (text := linecache.getline(code.co_filename, line)) and "def " not in text:
        line += 1
    return f"{short_path(code.co_filename)}:{line if text else code.co_firstlineno}"


def of_import(error: BaseException, folder: Path) -> ConfigurationError:
    """What to raise for what an agent's module raised when it was imported."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(folder):
        return ConfigurationError(
            f"{short_path(error.filename)}:{error.lineno}: {error.msg}{_quote(error.text)}"
        )
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(folder)
    ]
    location, line = short_path(folder / "agent.py"), ""
    if frames:
        location = f"{short_path(frames[-1].filename)}:{frames[-1].lineno}"
        line = linecache.getline(frames[-1].filename, frames[-1].lineno or 0)
    if is_safe_to_log(error):
        return ConfigurationError(f"{location}: {error}")
    if isinstance(error, ModuleNotFoundError) and error.name:
        advice = _missing_module(error.name, folder)
        return ConfigurationError(f"{location}: there is no module {error.name!r}. {advice}")
    text = error_text(error)
    if isinstance(error, ImportError) and error.name and has_module(folder, error.name):
        # Another module has the name, such as the repository's `tools`.
        problem = text.partition(" (")[0]
        return ConfigurationError(f"{location}: {problem}. {_missing_module(error.name, folder)}")
    if missing_name := _missing_name(error, text):
        return ConfigurationError(f"{location}: {missing_name}{_quote(line)}")
    return ImportFailed(f"{location}: {type(error).__name__}", f"{text and f': {text}'}{_quote(line)}")


def has_module(folder: Path, name: str) -> bool:
    """Whether a folder has a module, or a package, of this name."""
    return (folder / name).is_dir() or (folder / f"{name}.py").exists()


def _missing_name(error: BaseException, text: str) -> str:
    """What is wrong with a name that is not defined, in its module or in the environment; "" for another
    error."""
    kit, client = (importlib.import_module(name) for name in ("a2a_lambda", "a2a_lambda.client"))
    if type(error) is NameError and error.name:
        for module in (kit, client):
            if error.name in module.__all__:
                return f"{text}: write `from {module.__name__} import {error.name}`"
        return text
    # Other mappings raise KeyError, too.
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, KeyError) and frames[-1].f_code is type(os.environ).__getitem__.__code__:
        return (
            f"there is no environment variable {os.fsdecode(error.args[0])}. On AWS, agents get those under"
            " AgentPolicy, Metadata, Environment in template.yaml; under make run and in tests, those of your"
            " shell. Set it in both, or read it within a skill. If it is a secret, use turn.secret(…) in the"
            " skill instead"
        )
    match = re.match(r"cannot import name '(\w+)' from ", text)
    if not isinstance(error, ImportError) or match is None:
        return ""
    if error.name != "a2a_lambda":
        return text
    name = match[1]
    advice = did_you_mean(name, kit.__all__)
    if name in client.__all__:
        advice = f": write `from a2a_lambda.client import {name}`"
    return f"a2a_lambda has no {name}{advice}"


def _missing_module(name: str, folder: Path) -> str:
    prefix = f"agents.{folder.name}."
    if name.startswith(prefix):
        return f"There is no file {name.removeprefix(prefix).replace('.', '/')}.py in {short_path(folder)}."
    package = name.partition(".")[0]
    if package == "a2a_lambda":
        return "The kit does not have that name: see docs/authoring.md for what it offers."
    if package in (folder.name, "functions"):
        advice = "A module of this agent is imported with a dot: write `from .module import name`."
        is_agent = package == folder.name
        return advice + (f" If it is a package, add it: make add PACKAGE={package}" if is_agent else "")
    is_here = has_module(folder, package)
    if is_here or (folder.parent / package).is_dir():
        place, dots = ("a file of this agent", ".") if is_here else ("a folder beside this agent", "..")
        return f"It is {place}: write `from {dots} import {package}`, or `from {dots}{name} import …`."
    if close := closest(package, [path.stem for path in folder.glob("*.py")]):
        return f"If you mean {close}.py of this agent: write `from . import {close}`."
    distribution = DISTRIBUTIONS.get(package, f"<the package with {package!r}>")
    advice = f"If it comes from a package, add it: make add PACKAGE={distribution}"
    is_of_python, is_part = package in sys.stdlib_module_names, name != package
    if is_of_python and not is_part:
        advice = "This system's Python does not have it: import it only where it exists, or leave it out."
    elif is_of_python:
        advice = f"Correct the part after `{package}.`."
    elif is_part and getattr(sys.modules.get(package), "__file__", None):  # a namespace's parts are packages
        advice = (
            f"Correct the part after `{package}.`. If your code does not name it, the package is incomplete:"
            " delete .venv, then make install."
        )
    return advice


def _quote(line: str | None) -> str:
    return f"\n    {line.strip()}" if line and line.strip() else ""
