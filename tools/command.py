"""What commands share: how they read their variables, and report errors: in one line, with exit status 1."""

import functools
import os
import re
import shlex
import socket
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec
from urllib.parse import urlsplit

from a2a_lambda.agent.configuration import ENVIRONMENT_FILE, kind_of
from a2a_lambda.errors import ConfigurationError, KeysUnavailable, StoreError
from a2a_lambda.mistakes import did_you_mean

AGENTS = Path("functions/agents")
"""The folder of this checkout's agents."""

HOST = "127.0.0.1"
"""Where the servers of this machine listen: on loopback only."""

HOSTS = (HOST, "localhost")
"""Names of this machine. With another one, a page of the web could have pointed its own name here."""

BACKLOG = 2048
"""Connections that may wait to be accepted, as in uvicorn."""

Arguments = ParamSpec("Arguments")

EXPECTED = (ConfigurationError, KeysUnavailable, StoreError, OSError, tomllib.TOMLDecodeError)


def reports_errors(main: Callable[Arguments, int]) -> Callable[Arguments, int]:
    """A `main` that prints its expected errors. Both return the exit status of the process."""

    @functools.wraps(main)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> int:
        try:
            return main(*args, **kwargs)
        except KeyboardInterrupt:
            return 130
        except BrokenPipeError:  # of a reader such as `head`, and no mistake
            raise
        except UnicodeDecodeError as error:
            print(f"error: a file is not UTF-8: save it as UTF-8 ({error})", file=sys.stderr)
            return 1
        except EXPECTED as error:
            print(f"error: {error}", file=sys.stderr)
            return 1

    return run


def read_text(path: Path) -> str:
    """A file's text, without a byte order mark. Raises ConfigurationError, OSError."""
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not UTF-8: save it as UTF-8") from None


def read_port(value: str) -> int:
    """Raises ConfigurationError."""
    if not value.isdecimal() or not 0 < int(value) < 65536:
        raise ConfigurationError(f"PORT must be a number from 1 to 65535, not {value!r}")
    return int(value)


def read_url(value: str) -> str:
    """Raises ConfigurationError."""
    with suppress(ValueError):
        parts = urlsplit(value)
        if value.startswith(("http://", "https://")) and parts.hostname and parts.port != 0:  # 70000 raises
            return value
    raise ConfigurationError(f"URL={value}: write the whole URL, such as https://agents.example.com")


def split_words(variable: str, environ: Mapping[str, str]) -> list[str]:
    """Words of a variable, with quotes or without, as in a shell. Raises ConfigurationError."""
    is_windows = os.name == "nt"  # whose paths have backslashes
    try:
        words = shlex.split(environ.get(variable, ""), posix=not is_windows)
    except ValueError as error:
        raise ConfigurationError(f"{variable}: {error}") from None
    return [word.strip("\"'") for word in words] if is_windows else words


def split_names(text: str) -> list[str]:
    """Names, each once, with commas or spaces between them, as AgentNames and AGENTS have them."""
    return list(dict.fromkeys(text.replace(",", " ").split()))


def note_unread_variables(variables: Iterable[str], command: str) -> None:
    """Tell the user which variables in .env agents do not get. Only what looks like a name is shown, because
    each line of a private key that is not in quotes counts as one."""
    names = [name for name in variables if kind_of(name) is None and re.fullmatch("[A-Z][A-Z0-9_]*", name)]
    if names:
        print(
            f"note: {command} reads only SECRET_… and SETTING_… from {ENVIRONMENT_FILE}, not"
            f" {', '.join(names)}. Save a secret with make secret, and export other variables in your shell",
            file=sys.stderr,
        )


def agent_folders(agents: Path = AGENTS) -> dict[str, Path]:
    """The agents' folders by name, sorted: those that have a card. agents: the folder of all agents."""
    return {card.parent.name: card.parent for card in sorted(agents.glob("*/card.yaml"))}


def agent_folder(name: str, agents: Path = AGENTS) -> Path:
    """The folder of an agent. agents: see `agent_folders`. Raises ConfigurationError if there is no such
    agent."""
    folders = agent_folders(agents)
    if name not in folders:
        if Path(name).name == name and (agents / name / "agent.py").exists():
            raise ConfigurationError(f"{agents / name} has no card.yaml, so it is no agent yet")
        names = ", ".join(folders) or "none"
        raise ConfigurationError(f"there is no agent {name!r}{did_you_mean(name, folders)} Agents: {names}")
    return folders[name]


def named_agent(environ: Mapping[str, str]) -> str:
    """The agent that AGENT names; "" = it is not set. Raises ConfigurationError if it is empty, because
    AGENT=$NAME without a NAME means neither all agents nor the default one."""
    if environ.get("AGENT") == "":
        raise ConfigurationError("AGENT is empty: name an agent, or leave AGENT out")
    return environ.get("AGENT", "")


def listen(port: int, command: str) -> socket.socket:
    """A socket that listens on loopback. If two servers start at the same moment, one gets the port. Raises
    ConfigurationError, which names another port for the command."""
    listener = socket.socket()
    # On Windows, SO_REUSEADDR would let two servers have the port.
    option = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
    listener.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        other = port + 1 if 1024 <= port < 65535 else 8081
        raise ConfigurationError(f"port {port}: {reason}; choose another: {command} PORT={other}") from None
    return listener


def require_name(environ: Mapping[str, str], variables: Iterable[str]) -> None:
    """Raises ConfigurationError if a variable is set that says something about a NAME."""
    if given_names := [variable for variable in variables if environ.get(variable)]:
        raise ConfigurationError(f"{given_names[0]} requires NAME: add NAME=…")
