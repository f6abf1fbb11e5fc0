"""What other commands know of a running development server."""

from pathlib import Path

TABLE = "a2a"

KEYS_PATH = "/a2a/keys"
"""Path of the development server's keys in Parameter Store."""

STATE = Path(".local.json")
"""File with the url of the running server's emulator."""
