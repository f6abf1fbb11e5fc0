"""What other commands know of a running development server."""

import os
from collections.abc import Mapping
from pathlib import Path

from tools.command import is_loopback, read_url

TABLE = "a2a"

KEYS_PATH = "/a2a/keys"
"""Path of the development server's keys in Parameter Store."""

STATE = Path(".local.json")
"""File with the url of the running server's emulator."""


def local_key() -> str:
    """The key that it takes."""
    return os.environ.get("LOCAL_KEY") or "local-key"


def key_for(url: str, environ: Mapping[str, str]) -> str:
    """KEY, or the key of make run if the url is of this machine, or "". Raises ConfigurationError."""
    return environ.get("KEY") or (local_key() if is_loopback(read_url(url)) else "")
