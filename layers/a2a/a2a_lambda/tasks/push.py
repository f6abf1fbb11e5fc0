"""Where a task's push notifications go, and how far they have come."""

from typing import NamedTuple

from a2a_lambda.protocol.model import TaskPushNotificationConfig, TaskState


class PushRegistration(NamedTuple):
    """wire_name: of the wire over which it was set. delivered: sequence number up to which the webhook
    has the task; None if that is not known. state: the last one that the webhook, or the one who set the
    config, was told."""

    config: TaskPushNotificationConfig
    wire_name: str
    delivered: int | None = None
    state: TaskState | None = None
