"""What other commands know of a running development server."""

import os
from pathlib import Path

TABLE = "a2a"

KEYS_PATH = "/a2a/keys"
"""Path of the development server's keys in Parameter Store."""

STATE = Path(".local.json")
"""File with the url of the running server's emulator."""


def local_key() -> str:
    """The key that it takes."""
    return os.environ.get("LOCAL_KEY") or "local-key"
