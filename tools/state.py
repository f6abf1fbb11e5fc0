"""What other commands know of a running development server."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from a2a_lambda.errors import ConfigurationError
from tools.command import is_loopback, read_url

TABLE = "a2a"

BUCKET = "a2a-files"

KEYS_PATH = "/a2a/keys"
"""Path of the development server's keys in Parameter Store."""

STATE = Path(".local.json")
"""File with the url of the running server's emulator, and the server's port."""

DEFAULT_PORT = 8080


def read_state() -> dict[str, Any]:
    """What the running server has written; empty if there is none. Raises ConfigurationError."""
    if not STATE.exists():
        return {}
    try:
        state: dict[str, Any] = json.loads(STATE.read_text())
        return {"emulator": state["emulator"], "port": state.get("port", DEFAULT_PORT)}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigurationError(f"{STATE} is damaged: delete it, and start make run again") from None


def port_argument() -> str:
    """ " PORT=…", for a command that the user copies; "" = the server has the default port."""
    port = read_state().get("port", DEFAULT_PORT)
    return "" if port == DEFAULT_PORT else f" PORT={port}"


def local_key() -> str:
    """The key that it takes."""
    return os.environ.get("LOCAL_KEY") or "local-key"


def key_for(url: str, environ: Mapping[str, str]) -> str:
    """What to sign in with: KEY, or a token, or the key of make run if the url is of this machine, or "".
    Raises ConfigurationError."""
    return environ.get("KEY") or read_token(environ) or (local_key() if is_loopback(read_url(url)) else "")


def read_token(environ: Mapping[str, str]) -> str:
    """TOKEN, or what the command in TOKEN_COMMAND prints, or "". Raises ConfigurationError."""
    command = environ.get("TOKEN_COMMAND", "")
    if environ.get("TOKEN") or not command:
        return environ.get("TOKEN", "")
    result = subprocess.run(command, shell=True, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S602
    token = result.stdout.strip()
    if result.returncode or not token:
        raise ConfigurationError(f"TOKEN_COMMAND printed no token, and exited with {result.returncode}")
    if token.startswith("{") or len(token.split()) > 1:
        raise ConfigurationError(
            "TOKEN_COMMAND must print a token and nothing else, as `… | jq -r .access_token` does"
        )
    return token
