"""A webhook of a task, and how much of the task it has received."""

from typing import NamedTuple

from a2a_lambda.protocol.model import TaskPushNotificationConfig, TaskState


class Cursor(NamedTuple):
    """How much of a task a webhook has received.

    sequence: number of the last log entry that was sent whole. part: events of the next entry that were sent,
    too. state: the last state that the webhook, or the client that set the config, has received.
    """

    sequence: int
    part: int
    state: TaskState


class PushRegistration(NamedTuple):
    """A push notification config, with what its webhook has received.

    wire_name: name of the wire over which the config was set. cursor: None if no one knows it. The webhook
    then gets the task as it is.
    """

    config: TaskPushNotificationConfig
    wire_name: str
    cursor: Cursor | None = None
