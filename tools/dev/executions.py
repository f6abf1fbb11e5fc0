"""Lambda's durable executions for the emulator, on AWS's own testing library.

    kit ── Invoke, callbacks, checkpoints ── this WSGI application ── AWS's Executor
    server process ◄────── runs of the durable function ──────────────────┘

The server process says where it takes runs (`POST /runs`, with its port). A run that comes while there is no
server waits for one, and a run whose server dies is made again, as on Lambda.
"""

import datetime
import http.client
import json
import threading
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from aws_durable_execution_sdk_python.execution import (
    DurableExecutionInvocationInput,
    InitialExecutionState,
)
from aws_durable_execution_sdk_python_testing.checkpoint.processor import (
    DEFAULT_MAX_INVOCATION_PAGE_BYTES,
    CheckpointProcessor,
)
from aws_durable_execution_sdk_python_testing.clock import real_now
from aws_durable_execution_sdk_python_testing.exceptions import AwsApiException, ServiceException
from aws_durable_execution_sdk_python_testing.execution import Execution, OperationPaginatorState
from aws_durable_execution_sdk_python_testing.executor import Executor
from aws_durable_execution_sdk_python_testing.invoker import InvokeResponse
from aws_durable_execution_sdk_python_testing.model import StartDurableExecutionInput
from aws_durable_execution_sdk_python_testing.scheduler import Scheduler
from aws_durable_execution_sdk_python_testing.stores.memory import InMemoryExecutionStore
from aws_durable_execution_sdk_python_testing.web.models import HTTPRequest, HTTPResponse
from aws_durable_execution_sdk_python_testing.web.routes import BytesPayloadRoute, Router
from aws_durable_execution_sdk_python_testing.web.server import WebServer, WebServiceConfig
from aws_durable_execution_sdk_python_testing.worker.registry import ExecutionRegistry

from a2a_lambda.settings import MAX_EXECUTION_SECONDS
from tools.command import HOST

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

FUNCTION_SECONDS = 900

SERVER_WAIT_SECONDS = 86_400.0
"""Seconds for which a run waits for a server: an edit may have broken it."""


class ShortClock:
    """A clock in which no pause takes longer than `longest` seconds: the rest of it is skipped."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._skipped = datetime.timedelta()
        self._lock = threading.Lock()

    def now(self) -> datetime.datetime:
        with self._lock:
            return real_now() + self._skipped

    def arm(self, wake: datetime.datetime) -> float:
        """Seconds to wait for a time."""
        with self._lock:
            seconds = (wake - real_now() - self._skipped).total_seconds()
            if seconds > self._longest:
                self._skipped += datetime.timedelta(seconds=seconds - self._longest)
            return max(0.0, min(seconds, self._longest))


class RunInvoker:
    """Gives runs to the server process (an Invoker of AWS's library)."""

    def __init__(self) -> None:
        self._port = 0
        self._changed = threading.Condition()

    def serve_at(self, port: int) -> None:
        with self._changed:
            self._port = port
            self._changed.notify_all()

    def create_invocation_input(self, execution: Execution) -> DurableExecutionInvocationInput:
        paginator = OperationPaginatorState.pin(execution)
        operations, marker = paginator.page(None, DEFAULT_MAX_INVOCATION_PAGE_BYTES)
        return DurableExecutionInvocationInput(
            durable_execution_arn=execution.durable_execution_arn,
            checkpoint_token=execution.get_new_checkpoint_token(),
            initial_execution_state=InitialExecutionState(operations=operations, next_marker=marker or ""),
            updated_operation_ids=list(execution.updated_operation_ids),
        )

    def invoke(self, function_name: str, input: DurableExecutionInvocationInput, *_: Any, **__: Any) -> Any:
        """One run. Raises OSError or HTTPException if the server died, RuntimeError if the function
        failed."""
        body = json.dumps(input.to_json_dict(), default=str)
        answer = self._post(body)
        if answer.status != 200:
            raise RuntimeError(answer.read().decode())
        return InvokeResponse.from_payload(answer.read(), str(uuid.uuid4()))

    def _post(self, body: str) -> http.client.HTTPResponse:
        deadline = time.monotonic() + SERVER_WAIT_SECONDS
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._port, deadline - time.monotonic())
                port = self._port
            connection = http.client.HTTPConnection(HOST, port, timeout=FUNCTION_SECONDS + 60)
            try:
                connection.connect()
            except ConnectionRefusedError:  # the server has ended: wait for the next one
                with self._changed:
                    self._port = 0 if self._port == port else self._port
                continue
            connection.request("POST", "/", body, {"Content-Type": "application/json"})
            return connection.getresponse()

    def update_endpoint(self, endpoint_url: str, region_name: str) -> None:
        """There is one endpoint."""

    def inherit_endpoint(self, child_execution_arn: str, parent_execution_arn: str) -> None:
        """There is one endpoint."""


class LosslessExecutor(Executor):
    """AWS's Executor, in which the end of a pause always continues its execution.

    The library completes a pause in the execution's lane, and asks for the next run in a coroutine
    afterwards. A checkpoint or the end of a run between the two cancels the coroutine, and the execution
    never continues. Here both happen in the lane.
    """

    def _fire_due_operations(self, execution_arn: str) -> bool:
        if super()._fire_due_operations(execution_arn):
            self._invoke_execution(execution_arn)
        return False  # nothing is left to do for the coroutine


class DurableExecutions:
    """WSGI application. longest_pause: seconds that a pause takes at most; None = as long as it says."""

    def __init__(self, longest_pause: float | None = None) -> None:
        clock = ShortClock(float("inf") if longest_pause is None else longest_pause)
        store, scheduler = InMemoryExecutionStore(), Scheduler()
        registry = ExecutionRegistry(store, scheduler)
        processor = CheckpointProcessor(store, scheduler, clock=clock)
        self._runs = RunInvoker()
        self._executor = LosslessExecutor(
            store=store,
            scheduler=scheduler,
            invoker=self._runs,
            checkpoint_processor=processor,
            invocation_timeout_seconds=FUNCTION_SECONDS,
            registry=registry,
            clock=clock,
        )
        if longest_pause is not None:  # a run whose process died is made again as soon
            self._executor.RETRY_BACKOFF_SECONDS = longest_pause  # type: ignore[assignment]
        processor.add_execution_observer(self._executor)
        scheduler.start()  # type: ignore[no-untyped-call]
        self._router = Router()
        # Of the library's server only its handlers are used: no socket is opened.
        server = WebServer.__new__(WebServer)
        server.config, server.executor = WebServiceConfig(), self._executor
        self._handlers = server._create_endpoint_handlers()
        self._started: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterator[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else b""
        path = environ.get("RAW_URI") or environ["PATH_INFO"]
        path = path.partition("?")[0]
        try:
            answer = self._answer(environ, path, body)
        except AwsApiException as error:
            answer = HTTPResponse.create_error_from_exception(error)
        except Exception as error:
            answer = HTTPResponse.create_error_from_exception(ServiceException(str(error)))
        kind = [("x-amzn-errortype", str(answer.body["Type"]))] if answer.status_code >= 400 else []
        start_response(f"{answer.status_code} ", [*answer.headers.items(), *kind])
        yield answer.body_to_bytes() if answer.body else b""

    def _answer(self, environ: "WSGIEnvironment", path: str, body: bytes) -> HTTPResponse:
        if path == "/runs":
            self._runs.serve_at(int(body))
            return HTTPResponse.create_empty(204)
        if path.startswith("/2015-03-31/functions/") and path.endswith("/invocations"):
            return self._start(environ, unquote(path.split("/")[3]), body.decode())
        route = self._router.find_route(path, environ["REQUEST_METHOD"])
        query = parse_qs(environ.get("QUERY_STRING", ""))
        method = environ["REQUEST_METHOD"]
        if isinstance(route, BytesPayloadRoute):
            request = HTTPRequest.from_raw_bytes(body, method, route, {}, query)
        else:
            request = HTTPRequest.from_bytes(body, None, method, route, {}, query)
        answer: HTTPResponse = self._handlers[type(route)].handle(route, request)
        return answer

    def _start(self, environ: "WSGIEnvironment", function: str, payload: str) -> HTTPResponse:
        """Invoke, with Lambda's rules for the name of an execution."""
        name = environ["HTTP_X_AMZ_DURABLE_EXECUTION_NAME"]
        with self._lock:
            arn, original = self._started.get(name, ("", payload))
            if original != payload:
                fields = {"Type": "DurableExecutionAlreadyStartedException", "message": arn}
                return HTTPResponse.create_json(409, fields)
            if not arn:
                request = StartDurableExecutionInput(
                    account_id="123456789012",
                    function_name=function.partition(":")[0],
                    function_qualifier=function.partition(":")[2] or "$LATEST",
                    execution_name=name,
                    execution_timeout_seconds=MAX_EXECUTION_SECONDS,
                    execution_retention_period_days=1,
                    input=payload,
                )
                arn = self._executor.start_execution(request).execution_arn or ""
                self._started[name] = arn, payload
        return HTTPResponse.create_json(202, {}, {"X-Amz-Durable-Execution-Arn": arn})
