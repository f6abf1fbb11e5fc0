"""The queue between whoever takes a turn in and the worker that runs it. It carries ids, nothing else.

Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda.errors import StoreError
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Scope

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


FIRST_PAUSE_SECONDS = 15

MAX_PAUSE_SECONDS = 900


@dataclass(frozen=True, slots=True)
class QueuedTurn:
    """A turn that waits for the worker. A later turn of the same task has a ticket of its own."""

    scope: Scope
    task_id: str
    turn: str

    @classmethod
    def of(cls, head: Head) -> "QueuedTurn":
        return cls(head.scope, head.task_id, head.turn)


class Queue(Protocol):
    """Raises StoreError when the ticket is not taken."""

    def send(self, ticket: QueuedTurn, /) -> None: ...
    def postpone(self, arn: str, handle: str, attempt: int, /) -> None: ...


class Sqs:
    """A standard queue. Calls block."""

    def __init__(self, client: "SQSClient", url: str) -> None:
        self._client = client
        self._url = url

    def send(self, ticket: QueuedTurn) -> None:
        try:
            self._client.send_message(QueueUrl=self._url, MessageBody=body(ticket))
        except (ClientError, BotoCoreError) as error:
            raise StoreError(f"SQS did not take a task: {type(error).__name__}") from error

    def postpone(self, arn: str, handle: str, attempt: int) -> None:
        """Let a message of this queue, or of its dead letters, come again soon; later each time.

        arn: of the message's queue. attempt: how often the message came, this time included.
        """
        url = f"{self._url.rpartition('/')[0]}/{arn.rpartition(':')[2]}"
        pause = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
        with suppress(ClientError, BotoCoreError):  # then it comes when its visibility timeout ends
            self._client.change_message_visibility(
                QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=pause
            )


def body(ticket: QueuedTurn) -> str:
    scope = ticket.scope
    return json.dumps(
        {"owner": scope.owner, "agent": scope.agent, "task": ticket.task_id, "turn": ticket.turn}
    )


def read(text: str) -> QueuedTurn:
    """The ticket in a message. Raises ValueError, KeyError."""
    ids = json.loads(text)
    return QueuedTurn(Scope(ids["owner"], ids["agent"]), ids["task"], ids["turn"])
