"""Lambda handler of durable turns: one run of an execution for each invocation.

Source: https://docs.aws.amazon.com/lambda/latest/dg/durable-execution-sdk.html
"""

import asyncio
import contextvars
import json
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_durable_execution_sdk_python.exceptions import InvocationError

from a2a_lambda.background.execution_worker import EarlierRuns, ExecutionWorker
from a2a_lambda.background.takeover import END_MARGIN_SECONDS
from a2a_lambda.durable.engine import Engine
from a2a_lambda.errors import StoreError
from a2a_lambda.lambda_.observability import LambdaEvent
from a2a_lambda.lambda_.sdk_engine import STEP_END_MARGIN_SECONDS, OperationThread, RunState
from a2a_lambda.tasks.identity import TurnReference

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class DurableHandler:
    """Handler of the runs of durable executions. The SDK calls Lambda with the client."""

    def __init__(self, worker: ExecutionWorker, client: "LambdaClient") -> None:
        self._worker = worker
        self._handler = durable_execution(self._run, boto3_client=client)

    def __call__(self, event: LambdaEvent, context: Any) -> Any:
        return self._handler(event, context)

    def _run(self, message: LambdaEvent, context: DurableContext) -> None:
        """One run of a turn, in the SDK's thread."""
        lambda_context = context.lambda_context
        assert lambda_context is not None
        seconds = lambda_context.get_remaining_time_in_millis() / 1000 - END_MARGIN_SECONDS
        run = RunState(time.monotonic() + seconds, seconds - STEP_END_MARGIN_SECONDS)
        engine = OperationThread(context, run)
        arn = context.execution_context.durable_execution_arn
        turn = TurnReference.read(json.dumps(message))

        def complete_engine(earlier_runs: EarlierRuns, url_of: Callable[[str], str]) -> Engine:
            run.earlier_runs, run.url_of = earlier_runs, url_of
            return engine

        async def work() -> None:
            try:
                await self._worker.run(turn, arn, complete_engine, run.deadline)
            finally:
                run.cancel()

        try:
            engine.run_operations(partial(_in_thread, work))
        except StoreError as error:
            raise InvocationError(str(error)) from error  # Lambda runs it again


def _in_thread(work: Callable[[], Coroutine[Any, Any, None]]) -> "Future[None]":
    """Run a coroutine on an event loop in a thread of its own."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            future.set_result(asyncio.run(work()))
        except BaseException as error:
            future.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="durable turn", daemon=True).start()
    return future
