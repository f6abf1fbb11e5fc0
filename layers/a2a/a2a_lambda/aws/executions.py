"""Calls that start, wake and stop durable executions, in which a Lambda function pauses and waits without
running. The function itself runs in `lambda_/execution_handler`.

Sources: https://docs.aws.amazon.com/lambda/latest/dg/durable-invoking.html
https://docs.aws.amazon.com/lambda/latest/api/API_StopDurableExecution.html
"""

import hashlib
from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda import tracing
from a2a_lambda.errors import StoreError
from a2a_lambda.tasks.identity import TurnReference
from a2a_lambda.threads import Once

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

ALREADY_STARTED_CODE = "DurableExecutionAlreadyStartedException"

CLOSED_CODES = frozenset({"CallbackTimeoutException", "ResourceNotFoundException"})
"""Errors of a callback that has ended, or whose execution has."""

RUNNING_STATUSES = frozenset({"RUNNING", "PAUSING", "PAUSED"})
"""Statuses of an execution that has not ended. One that sleeps or waits is RUNNING; an operator pauses one.
Source: https://docs.aws.amazon.com/lambda/latest/dg/durable-functions.html"""


class Executions(Protocol):
    """Every method raises StoreError if Lambda does not answer."""

    def start(self, turn: TurnReference, /) -> str:
        """Start the execution of a turn, unless it was started before; returns its ARN, or "" if it is not
        known."""

    def wake(self, callback: str, /) -> None:
        """End a wait of an execution, if it is open."""

    def stop(self, arn: str, /) -> None:
        """Stop an execution, if it runs."""

    def is_running(self, arn: str, /) -> bool:
        """Whether an execution has not ended. A paused one has not."""

    def turn_of(self, arn: str, /) -> str:
        """The message with which an execution was started."""


class LambdaExecutions:
    """Durable executions of Lambda.

    function: name of the durable function, with its alias. make_client: called when the client is first
    needed, because making botocore's client takes a tenth of a second, and few calls are of durable skills.
    Calls block.
    """

    def __init__(self, make_client: "Callable[[], LambdaClient]", function: str) -> None:
        self._lambda = Once(make_client)
        self._function = function

    def start(self, turn: TurnReference) -> str:
        answer = self._call(
            "invoke",
            {ALREADY_STARTED_CODE},
            FunctionName=self._function,
            InvocationType="Event",
            DurableExecutionName=execution_name(self._function, turn),
            Payload=turn.encode().encode(),
        )
        return str((answer or {}).get("DurableExecutionArn", ""))

    def wake(self, callback: str) -> None:
        self._call("send_durable_execution_callback_success", CLOSED_CODES, CallbackId=callback)

    def stop(self, arn: str) -> None:
        self._call("stop_durable_execution", CLOSED_CODES, DurableExecutionArn=arn)

    def is_running(self, arn: str) -> bool:
        answer = self._call(
            "get_durable_execution", CLOSED_CODES, DurableExecutionArn=arn, IncludeExecutionData=False
        )
        return answer is not None and answer["Status"] in RUNNING_STATUSES

    def turn_of(self, arn: str) -> str:
        answer = self._call(
            "get_durable_execution", frozenset(), DurableExecutionArn=arn, IncludeExecutionData=True
        )
        return str(answer["InputPayload"])

    def _call(self, method: str, codes: Set[str], **arguments: Any) -> Any:
        """Lambda's answer, or None for an error that is expected. Raises StoreError."""
        try:
            client = self._lambda.get()
            with tracing.aws_span("Lambda", client.meta.method_to_api_mapping[method]):
                return getattr(client, method)(**arguments)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in codes:
                return None
            raise StoreError(f"Lambda refused {method}: {code}") from error
        except BotoCoreError as error:
            raise StoreError(f"Lambda did not answer {method}: {type(error).__name__}") from error


def execution_name(function: str, turn: TurnReference) -> str:
    """Name of a turn's execution: a turn has one. It shows no name of an owner."""
    return hashlib.sha256(f"{function} {turn.encode()}".encode()).hexdigest()
