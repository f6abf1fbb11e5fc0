"""The lock of the agents' packages, and the part of it that some agents need."""

import re
from collections.abc import Collection
from pathlib import Path

from packaging.utils import canonicalize_name

from tools.command import AGENTS
from tools.environments import DEPENDENCIES

LIST = Path("layers/agents/packages.txt")
LOCK = Path("layers/agents/requirements.txt")


def lock_for(agents: Collection[str], text: str) -> str:
    """The part of a lock that some agents need, in the same versions: what is on the list of all agents, what
    is on their own, and what these need. text: text of the lock, whose comments say what needs each
    package."""
    blocks = re.findall(r"^[A-Za-z0-9].*\n(?:[ #].*\n?)*", text, re.MULTILINE)
    cause = re.compile(r"#\s+(?:via )?(?!via$)(\S.*)$", re.MULTILINE)
    causes_of = {_name_of(block): set(cause.findall(block)) for block in blocks}
    # A package of the kit is there anyway, and may need one of these for an extra.
    needed_names = {
        f"-r {LIST.as_posix()}",
        *(f"-r {(AGENTS / name / 'packages.txt').as_posix()}" for name in agents),
    }
    needed_names |= set(versions_of(DEPENDENCIES))
    while new_names := {
        name for name, causes in causes_of.items() if causes & needed_names and name not in needed_names
    }:
        needed_names |= new_names
    comments = text[: text.index(blocks[0])] if blocks else text
    return comments + "".join(block for block in blocks if _name_of(block) in needed_names)


def _name_of(block: str) -> str:
    """Name of the package that a block of the lock is about."""
    return canonicalize_name(re.split(r"[=\[; ]", block, maxsplit=1)[0])


def versions_of(path: Path) -> dict[str, str]:
    """Versions of the packages in a lock, by name."""
    return versions_in(path.read_text("utf-8")) if path.exists() else {}


def versions_in(text: str) -> dict[str, str]:
    """Versions of the packages in a lock's text, by name. That of a package from a URL is the URL."""
    pairs = re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?(?:==| @ )([^\s;\\]+)", text, re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pairs}
