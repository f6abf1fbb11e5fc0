"""The queue between whoever takes a turn in and the worker that runs it. It carries ids, nothing else.

Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
"""

import json
from typing import TYPE_CHECKING, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda.errors import StoreError
from a2a_lambda.head import Scope

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


class Queue(Protocol):
    """Raises StoreError when the message is not taken."""

    def send(self, scope: Scope, task_id: str, /) -> None: ...


class Sqs:
    """A standard queue. Calls block."""

    def __init__(self, client: "SQSClient", url: str) -> None:
        self._client = client
        self._url = url

    def send(self, scope: Scope, task_id: str) -> None:
        try:
            self._client.send_message(QueueUrl=self._url, MessageBody=body(scope, task_id))
        except (ClientError, BotoCoreError) as error:
            raise StoreError(f"SQS did not take a task: {type(error).__name__}") from error


def body(scope: Scope, task_id: str) -> str:
    return json.dumps({"owner": scope.owner, "agent": scope.agent, "task": task_id})


def read(text: str) -> tuple[Scope, str]:
    """Scope and task of a message. Raises ValueError, KeyError."""
    ids = json.loads(text)
    return Scope(ids["owner"], ids["agent"]), ids["task"]
