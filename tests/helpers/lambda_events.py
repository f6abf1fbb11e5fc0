"""What the events of events/ are answered with, by handlers and by built functions alike."""

from typing import Any

from tests.helpers.rpc import bare_events

STATUSES = {"refused": 401, "rest-get": 404, "rest-cancel": 404}
"""Of those that are answered with an error of HTTP's."""


def last_event(stream: str) -> Any:
    """The last event of a stream."""
    return bare_events(stream)[-1]


def is_completed(answer: Any) -> bool:
    """Whether an answer, or the last event of one, says in any version that the task is completed."""
    answer = answer.get("result", answer)
    for name in ("task", "statusUpdate"):
        answer = answer.get(name, answer)
    return answer["status"]["state"] in ("completed", "TASK_STATE_COMPLETED")
