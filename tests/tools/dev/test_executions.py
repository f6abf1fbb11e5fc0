"""Durable executions of the emulator."""

import io
import json
import threading
from typing import Any

import pytest
from aws_durable_execution_sdk_python.identifier import OperationIdentifier
from aws_durable_execution_sdk_python.lambda_service import (
    OperationSubType,
    OperationType,
    OperationUpdate,
    WaitOptions,
)
from aws_durable_execution_sdk_python_testing.invoker import InvokeResponse

from tests.helpers.clock import PATIENCE_SECONDS
from tools.dev.executions import DurableExecutions


def test_an_execution_continues_if_a_run_ends_in_the_moment_when_its_pause_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = DurableExecutions(longest_pause=0.01)
    executor = app._executor
    has_continued = threading.Event()

    def run(_: str, event: Any, *args: Any, **kwargs: Any) -> InvokeResponse:
        if len(event.initial_execution_state.operations) > 1:
            has_continued.set()
            return InvokeResponse.from_output({"Status": "SUCCEEDED"}, "2")
        pause = OperationUpdate.create_wait_start(
            OperationIdentifier("pause", OperationSubType.WAIT, operation_type=OperationType.WAIT),
            WaitOptions(3600),
        )
        executor.checkpoint_execution(event.durable_execution_arn, event.checkpoint_token, [pause])
        return InvokeResponse.from_output({"Status": "PENDING"}, "1")

    end_pauses = executor._fire_due_operations

    def end_pauses_beside_a_run(arn: str) -> bool:
        has_ended = end_pauses(arn)
        executor._schedule_earliest_pending(arn)  # as the end of a run does
        return has_ended

    monkeypatch.setattr(app._runs, "invoke", run)
    monkeypatch.setattr(executor, "_fire_due_operations", end_pauses_beside_a_run)
    start(app)
    assert has_continued.wait(PATIENCE_SECONDS)


def start(app: DurableExecutions) -> None:
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/2015-03-31/functions/durable:live/invocations",
        "HTTP_X_AMZ_DURABLE_EXECUTION_NAME": "execution",
        "CONTENT_LENGTH": "2",
        "wsgi.input": io.BytesIO(json.dumps({}).encode()),
    }
    statuses: list[str] = []
    list(app(environ, lambda status, *_: statuses.append(status)))  # type: ignore[arg-type]
    assert statuses == ["202 "]
