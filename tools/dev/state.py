"""What runs on a developer's machine: the server of `make run`, its emulator of AWS, `make key`."""

from pathlib import Path

TABLE = "a2a"

KEYS_PATH = "/a2a/keys"
"""SSM path of the development server's keys."""

STATE = Path(".local.json")
"""Where `make key` finds the running server's emulator."""
