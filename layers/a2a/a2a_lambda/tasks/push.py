"""Where a task's push notifications go, and how far they have come."""

from typing import NamedTuple

from a2a_lambda.protocol.model import TaskPushNotificationConfig, TaskState


class Cursor(NamedTuple):
    """How much of a task a webhook has been told.

    sequence: number of the last entry of the log. part: events after that, of an entry that has several.
    state: the last one that the webhook, or the client that set the config, has been told.
    """

    sequence: int
    part: int
    state: TaskState


class PushRegistration(NamedTuple):
    """wire_name: of the wire over which the config was set. cursor: None if no one knows it. The webhook then
    gets the task as it is."""

    config: TaskPushNotificationConfig
    wire_name: str
    cursor: Cursor | None = None
