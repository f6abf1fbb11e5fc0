"""The queue of background turns, from the function that stores a turn to the worker. It carries only ids.

Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
"""

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda.errors import StoreError
from a2a_lambda.tasks.identity import TurnReference

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


TURN_POSTPONE_SECONDS = 15
"""Seconds until a turn comes again after its first attempt."""

MAX_POSTPONE_SECONDS = 900
"""Maximum seconds until a message comes again."""


class Queue(Protocol):
    """Raises StoreError if a turn is not taken."""

    def send(self, turn: TurnReference, /) -> None: ...
    def postpone(self, arn: str, handle: str, attempt: int, /) -> None: ...


class Sqs:
    """A fair queue: turns of an owner who takes much of the workers' time come after those of other owners.
    Calls block.

    Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues.html
    """

    def __init__(self, client: "SQSClient", url: str) -> None:
        self._client = client
        self._url = url

    def send(self, turn: TurnReference) -> None:
        group = hashlib.sha256(turn.namespace.owner.encode()).hexdigest()
        try:
            self._client.send_message(QueueUrl=self._url, MessageBody=turn.encode(), MessageGroupId=group)
        except (ClientError, BotoCoreError) as error:
            raise StoreError(f"SQS did not accept a task: {type(error).__name__}") from error

    def postpone(self, arn: str, handle: str, attempt: int) -> None:
        """Make a message of this queue, or of its dead-letter queue, come again soon. The pause grows with
        each attempt.

        arn: ARN of the message's queue. attempt: number of times that the message has come.
        """
        url = f"{self._url.rpartition('/')[0]}/{arn.rpartition(':')[2]}"
        pause = postpone_seconds(TURN_POSTPONE_SECONDS, attempt)
        with suppress(ClientError, BotoCoreError):  # then it comes again when its visibility timeout ends
            self._client.change_message_visibility(
                QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=pause
            )


def postpone_seconds(first_seconds: int, attempt: int) -> int:
    """Seconds after which a message should come again: `first_seconds` after the first attempt, and twice as
    many after each further one."""
    return min(MAX_POSTPONE_SECONDS, first_seconds << (attempt - 1))
