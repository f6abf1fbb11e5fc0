"""What other commands know of a running development server."""

import json
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from a2a_lambda.client.keys import BearerToken, check_key
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.net.addresses import is_loopback_url
from tools.command import HOST, read_port, read_url
from tools.commands import DEFAULT_PORT

TABLE = "a2a"

BUCKET = "a2a-files"

KEYS_PATH = "/a2a/keys"
"""Path of the development server's keys in Parameter Store."""


def state_file(port: int) -> Path:
    """File in which a running server writes its port, its key, and the URL of its emulator."""
    return Path(f".local-{port}.json")


def read_state(environ: Mapping[str, str]) -> dict[str, Any]:
    """What the running server has written; empty if there is none. Raises ConfigurationError, also if PORT
    names none that runs, or several run and PORT is absent."""
    states = [_read(path) for path in sorted(Path().glob(".local-*.json"))]
    # One that was killed has left its file.
    by_port = {state["port"]: state for state in states if is_listening(state["port"])}
    ports = " or ".join(f"PORT={port}" for port in by_port)
    if environ.get("PORT"):
        port = read_port(environ["PORT"])
        if port not in by_port:
            raise ConfigurationError(
                f"no development server has PORT={port}: write {ports or f'make run PORT={port} first'}"
            )
        return by_port[port]
    if len(by_port) > 1:
        raise ConfigurationError(f"several development servers are running: add {ports}")
    return next(iter(by_port.values()), {})


def emulator_of(environ: Mapping[str, str], endpoint: str) -> str:
    """URL of the running server's emulator; "" if the environment names another endpoint. Raises
    ConfigurationError if there is neither, because the calls would go to AWS.

    endpoint: variable that names the endpoint of the service that is called.
    """
    url = str(read_state(environ).get("emulator", ""))
    if not url and not environ.get(endpoint):
        raise ConfigurationError(
            "no development server with an emulator is running: start make run, or add STACK=…"
        )
    return url


def _read(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads(path.read_text())
        return {"emulator": state["emulator"], "port": int(state["port"]), "key": state.get("key", "")}
    except (ValueError, KeyError, TypeError):
        raise ConfigurationError(f"{path} is damaged: delete it, and start make run again") from None


def is_listening(port: int) -> bool:
    """Whether a program of this machine listens on a port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def port_argument(port: int) -> str:
    """ " PORT=…", for a command that the user copies; "" = it is the default port."""
    return "" if port == DEFAULT_PORT else f" PORT={port}"


def server_port(environ: Mapping[str, str]) -> int:
    """PORT, or the port of the running server, or the default one. Raises ConfigurationError."""
    return (
        read_port(environ["PORT"]) if environ.get("PORT") else read_state(environ).get("port", DEFAULT_PORT)
    )


def start_advice(port: int | None) -> str:
    """What to do if no development server answers. port: the one in its URL; None = the URL has none."""
    argument = port_argument(port or DEFAULT_PORT)
    other = "" if argument else ". If it has another port, add PORT=…"
    return f"start it in another terminal: make run{argument}{other}"


def local_key() -> str:
    """The key that make run accepts. Raises ConfigurationError for a LOCAL_KEY that a header cannot carry."""
    try:
        return check_key(os.environ.get("LOCAL_KEY") or "local-key")
    except ConfigurationError as error:
        raise ConfigurationError(f"LOCAL_KEY: {error}") from None


def key_for(url: str, environ: Mapping[str, str]) -> str:
    """What to sign in with: KEY; or a token; or LOCAL_KEY, or else the key of make run, if the URL is of this
    machine; or "". Raises ConfigurationError."""
    if key := environ.get("KEY") or read_token(environ):
        return key
    if not is_loopback_url(read_url(url)):
        return ""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    path = state_file(port)
    # A server that was killed has left its file, and another may have its port.
    is_served = path.exists() and is_listening(port)
    own_key = _read(path)["key"] if is_served and not os.environ.get("LOCAL_KEY") else ""
    return own_key or local_key()


def read_token(environ: Mapping[str, str]) -> BearerToken:
    """TOKEN, or what the command in TOKEN_COMMAND prints, or "". Raises ConfigurationError."""
    command = environ.get("TOKEN_COMMAND", "")
    if environ.get("TOKEN") or not command:
        return BearerToken(environ.get("TOKEN", ""))
    result = subprocess.run(command, shell=True, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S602
    token = BearerToken(result.stdout.strip())
    if result.returncode or not token:
        raise ConfigurationError(f"TOKEN_COMMAND printed no token, and exited with {result.returncode}")
    if token.startswith("{") or len(token.split()) > 1:
        raise ConfigurationError(
            "TOKEN_COMMAND must print a token and nothing else, as `… | jq -r .access_token` does"
        )
    return token
