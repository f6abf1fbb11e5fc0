"""A line of a log, as the playground and `make logs` show it."""

from typing import NotRequired, TypedDict


class LogEntry(TypedDict):
    """A line of the log.

    at: Unix time, milliseconds. level: level of Python's logging. trace: traceback of an exception. spans:
    a turn's spans, a line each. agent, task: what the line is about, or "".
    """

    at: int
    level: str
    logger: str
    message: str
    agent: str
    task: str
    trace: NotRequired[str]
    spans: NotRequired[str]
