"""The lists of the packages that agents import: one of all agents, and one of each."""

from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from a2a_lambda.errors import ConfigurationError
from tools.agents.locks import LIST
from tools.command import AGENTS, read_text


def lists(folder: Path = Path()) -> list[Path]:
    """All lists, relative to the project's folder."""
    own = sorted(path.relative_to(folder) for path in (folder / AGENTS).glob("*/packages.txt"))
    return [LIST, *own]


def lines_of(path: Path) -> list[str]:
    """Lines of a list; of one that is not there yet, its first comment."""
    if not path.exists():
        return [
            f"# The packages that only the agent {path.parent.name} imports, one on a line. See make add."
        ]
    return read_text(path).splitlines()


def name_of(line: str) -> str:
    """Name of the package on a line, "" for a comment."""
    text = line.partition("#")[0].strip()
    return canonicalize_name(parse_requirement(text).name) if text else ""


def parse_requirement(text: str) -> Requirement:
    """An entry of a list. Raises ConfigurationError."""
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        if "://" in text:
            raise ConfigurationError(f"write the package's name before its URL: name @ {text}") from None
        raise ConfigurationError(
            f"{text!r} is not the name of a package, such as openai>=2: {error}"
        ) from None
