"""How long a call of AWS may take, and how often it is tried, whichever client makes it."""

from typing import NamedTuple


class Timeouts(NamedTuple):
    """Seconds, to connect and between two pieces of an answer."""

    connect: float
    read: float


TIMEOUTS = Timeouts(connect=2, read=5)

FILE_TIMEOUTS = Timeouts(connect=2, read=20)
"""For a part of a file, which is a thousand times as large as an item."""

EMULATOR_TIMEOUTS = Timeouts(connect=10, read=120)
"""For the emulator. The machine may be busy, and one slow read must not end the development server."""

ATTEMPTS = 5
"""Maximum requests of a call that is retried."""
