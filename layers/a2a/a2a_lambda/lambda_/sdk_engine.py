"""The engine of durable turns on Lambda: AWS's SDK for durable executions.

The SDK is synchronous: an operation blocks its thread, and a pause leaves it with an exception. Agents are
asynchronous. So the turn, and each branch of `parallel`, has a thread that runs its operations for it:

    agent loop     await turn.step(…) ── request ──┐         ┌── result, or Suspended
    the branch's thread                            └─ context.step(…) ─┘

Sources: https://docs.aws.amazon.com/lambda/latest/dg/durable-execution-sdk.html
https://docs.aws.amazon.com/lambda/latest/dg/durable-execution-sdk-retries.html
"""

import asyncio
import contextvars
import hashlib
import logging
import queue
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import wait as wait_for_futures
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from aws_durable_execution_sdk_python import DurableContext
from aws_durable_execution_sdk_python.config import (
    CallbackConfig,
    CompletionConfig,
    Duration,
    NestingType,
    ParallelBranch,
    ParallelConfig,
    StepConfig,
    StepSemantics,
)
from aws_durable_execution_sdk_python.exceptions import (
    CallbackError,
    CallbackTimeoutError,
    NonDeterministicExecutionError,
    StepError,
    SuspendExecution,
    TimedSuspendExecution,
)
from aws_durable_execution_sdk_python.retries import RetryDecision
from aws_durable_execution_sdk_python.serdes import PassThroughSerDes

from a2a_lambda.background.execution_worker import EarlierRuns
from a2a_lambda.durable import outcomes
from a2a_lambda.durable.engine import (
    Engine,
    OpenWait,
    OperationKeys,
    OperationNotice,
    Reply,
    Retry,
    Suspended,
    Wait,
    error_after_cancellation,
)
from a2a_lambda.errors import CodeChanged, SkillError, StepFailed, StoreError
from a2a_lambda.tasks.replay import NoticeKey

STEP_END_MARGIN_SECONDS = 5.0
"""Seconds before the end of a run at which a step must end. Then its failure can be stored."""

STEP_PART = 0.5
"""A step starts in a new run if less than this part of a run's time is left. So it always has that much."""

MAX_MOVES = 4
"""Tries that a step may have in addition to its attempts, because each move to a later run counts as one."""

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

# It logs a step that only moves to the next run as an error. Here, steps that fail are logged.
logging.getLogger("aws_durable_execution_sdk_python.operation.step").setLevel(logging.CRITICAL)


class OutOfTime(Exception):
    """The run has too little time left for a step, or has ended; the next run does the step."""


@dataclass(slots=True)
class RunState:
    """What the operation threads of a run share.

    deadline: a `time.monotonic()` value. seconds: how long a step may take at the start of the run. The
    worker sets three later: earlier_runs (what they left), url_of (a wait's URL from its key) and observer
    (gets notices). sent_notices: those of this run. waits, times: what suspended operations wait for,
    by key. work: steps and branches that run now. steps: the steps in `work`. moves: a step's postponements.
    """

    deadline: float
    seconds: float
    earlier_runs: EarlierRuns = field(default_factory=EarlierRuns)
    url_of: Callable[[str], str] = str
    observer: Callable[[OperationNotice], None] = lambda _: None
    waits: dict[str, OpenWait] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    sent_notices: set[NoticeKey] = field(default_factory=set)
    work: "set[Future[Any]]" = field(default_factory=set)
    steps: "set[Future[Any]]" = field(default_factory=set)
    moves: Counter[str] = field(default_factory=Counter)
    is_canceled: bool = False

    def cancel(self) -> None:
        """End all steps and branches."""
        self.is_canceled = True
        for future in list(self.work):
            future.cancel()

    def watch(self, future: "Future[Result]") -> "Future[Result]":
        """Cancel a step, or a branch, with the run."""
        self.work.add(future)
        future.add_done_callback(self.work.discard)
        future.add_done_callback(self.steps.discard)
        if self.is_canceled:
            future.cancel()
        return future

    @property
    def time_left(self) -> float:
        """Seconds that a step has now."""
        return self.deadline - STEP_END_MARGIN_SECONDS - time.monotonic()

    def announce(self, notice: OperationNotice) -> None:
        """Tell what a pause or a wait does, unless this run or an earlier one has told it."""
        key = (notice.kind, notice.name, notice.state)
        if key not in self.sent_notices and key not in self.earlier_runs.notices:
            self.sent_notices.add(key)
            self.observer(notice)

    def suspension(self) -> Suspended:
        return Suspended([*self.waits.values()], min(self.times.values(), default=0.0))


class OperationThread:
    """Engine of a turn, or of a branch. Its operations run in the thread that calls `run_operations`."""

    def __init__(self, context: DurableContext, run: RunState, prefix: str = "") -> None:
        self.keys = OperationKeys(prefix)
        self.suspension: Suspended | None = None
        self._pauses = OperationKeys(prefix)
        self._context = context
        self._run = run
        self._requests: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._sdk_exit: BaseException | None = None
        self._is_interrupted = False

    def run_operations(self, start: Callable[[], "Future[Result]"]) -> Result:
        """Run operations until the work that `start` begins has ended; returns its result.

        Raises what ended the work; after a suspension, the SDK's exception with which an operation left.
        """
        # The SDK's calls block, and it ends a run by raising through them. So they run in this thread, one
        # after another, while the agent's coroutine waits on its own loop.
        work = start()
        work.add_done_callback(lambda _: self._requests.put(None))
        while (request := self._requests.get()) is not None:
            operation, future = request
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(operation())
            except (Exception, Suspended) as error:
                future.set_exception(error)
            except BaseException as error:  # of the SDK: the run must end
                self._sdk_exit = error
                future.set_exception(Suspended())
        try:
            result = work.result()
        except Suspended:
            raise self._sdk_exit or SuspendExecution("the run has ended") from None
        except CancelledError:  # a branch of a turn that has ended
            raise SuspendExecution("the run has ended") from None
        # A branch cannot end after it was suspended. A turn can: it was canceled.
        if self._sdk_exit is not None and self.keys.prefix:
            raise self._sdk_exit
        return result

    async def step(
        self, name: str, call: Callable[[], Awaitable[bytes]], retry: Retry, *, at_most_once: bool
    ) -> bytes:
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        semantics = (
            StepSemantics.AT_MOST_ONCE_PER_RETRY if at_most_once else StepSemantics.AT_LEAST_ONCE_PER_RETRY
        )
        key = self.keys.prefix + name

        def decide(error: Exception, attempt: int) -> RetryDecision:
            # While code of another branch runs, the SDK tries a late step again in this run, every second.
            return decide_retry(retry, at_most_once, error, attempt - max(0, self._run.moves[key] - 1))

        config = StepConfig(retry_strategy=decide, step_semantics=semantics, serdes=PassThroughSerDes())

        def body(_: Any) -> str:
            # With too little time left for a step, the run leaves it to the next one, which has all of it.
            if self._run.time_left < STEP_PART * self._run.seconds:
                # As long as a step of another branch runs, the SDK would continue this branch in this run. No
                # step begins in it any more.
                wait_for_futures(list(self._run.steps), max(0.0, self._run.time_left))
                self._run.moves[key] += 1
                raise OutOfTime(f"step {name!r} begins too late in each run: make slow code before it a step")
            future = _submit(partial(self._call_and_report, name, call), loop, context)
            self._run.steps.add(future)
            return self._result_of(name, self._run.watch(future), at_most_once=at_most_once).decode()

        def operation() -> bytes:
            try:
                return str(self._context.step(body, name=name, config=config)).encode()
            except StepError as error:
                kind = (error.error_type or "Exception").rpartition(".")[2]
                raise StepFailed(name, kind, error.message or "") from None  # it has been logged

        return await self._run_in_branch(f"step {name}", operation)

    async def _call_and_report(self, name: str, call: Callable[[], Awaitable[bytes]]) -> bytes:
        self._run.observer(OperationNotice("step", name, "started"))
        try:
            result = await call()
        except Exception as error:
            logger.exception("step %s failed", name)
            self._run.observer(OperationNotice("step", name, "failed"))
            raise outcomes.shorten_error(error) from None
        state = "failed" if outcomes.is_refused_step(result) else "ended"
        self._run.observer(OperationNotice("step", name, state))
        return result

    def _result_of(self, name: str, future: "Future[bytes]", *, at_most_once: bool) -> bytes:
        """A step's result. It blocks. Raises OutOfTime, InterruptedError, TimeoutError, the step's error."""
        try:
            return future.result(self._run.time_left)
        except CancelledError:
            if self._run.is_canceled and not at_most_once:
                raise OutOfTime("the run has ended") from None
            raise InterruptedError(f"step {name!r} was canceled") from None
        except TimeoutError:
            if future.done():  # the step raised it
                raise
            future.cancel()
            problem = "took too long: a step can rely on only half of DurableTimeout, so split it"
            logger.error("step %s %s", name, problem)
            raise TimeoutError(f"step {name!r} {problem}") from None

    async def sleep(self, name: str, seconds: int) -> None:
        pause = partial(self._context.wait, Duration(seconds=seconds), name=name)
        notice = OperationNotice("sleep", self._pauses.take(name), "started", time.time() + seconds)
        await self._run_in_branch(f"sleep {name}", pause, notice)

    async def wait_for(self, wait: Wait) -> Reply:
        config = CallbackConfig(timeout=Duration(seconds=wait.seconds or 0))

        def operation() -> Reply:
            callback = self._context.create_callback(name=wait.key, config=config)
            if (reply := self._run.earlier_runs.replies.get(wait.key)) is not None:
                return reply
            self._run.waits[wait.key] = OpenWait(wait, callback.callback_id, until)
            try:
                callback.result()
            except CallbackTimeoutError:
                del self._run.waits[wait.key]
                raise outcomes.timeout_of(wait) from None
            except CallbackError as error:
                raise StoreError(f"the wait {wait.key!r} failed") from error
            # The process that took the reply died before it had stored all of it.
            raise SkillError("A reply to this task was lost. Send the request again.")

        # A replay comes here again, later.
        timeouts = self._run.earlier_runs.timeouts
        until = timeouts.get(wait.key, time.time() + wait.seconds) if wait.seconds else 0.0
        notice = OperationNotice("wait", wait.key, "started", until)
        return await self._run_in_branch(f"wait {wait.key}", operation, notice)

    async def parallel(
        self, name: str, branches: Sequence[Callable[[Engine], Awaitable[bytes]]], labels: Sequence[str]
    ) -> list[bytes]:
        # A replay that has all results calls no branch, and compares nothing but this name.
        digest = hashlib.sha256("\n".join(labels).encode()).hexdigest()[:8]
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()

        def branch(index: int, inner: DurableContext) -> str:
            engine = OperationThread(inner, self._run, f"{self.keys.prefix}{name}/{index}/")
            work = partial(outcomes.perform_branch, f"{name}/{index}", partial(branches[index], engine))
            return engine.run_operations(lambda: self._run.watch(_submit(work, loop, context)))

        def operation() -> list[str]:
            functions: list[ParallelBranch[str]] = [
                ParallelBranch(func=partial(branch, index), name=f"{name}-{index}")
                for index in range(len(branches))
            ]
            # No branch raises: what it raised is in its outcome.
            config = ParallelConfig(completion_config=CompletionConfig(), nesting_type=NestingType.FLAT)
            return self._context.parallel(functions, name=f"{name}-{digest}", config=config).get_results()

        return list(map(outcomes.read_branch, await self._run_in_branch(f"branches {name}", operation)))

    def callback_url(self, key: str) -> str:
        return self._run.url_of(key)

    def observe(self, observer: Callable[[OperationNotice], None]) -> None:
        self._run.observer = observer

    async def _run_in_branch(
        self, what: str, operation: Callable[[], Result], notice: OperationNotice | None = None
    ) -> Result:
        """Run an operation in the branch's thread. notice: says that a pause or a wait has begun."""
        if self.suspension is not None:
            raise self.suspension
        if self._is_interrupted:
            raise error_after_cancellation(what)
        key = self.keys.prefix + what
        self._run.times.pop(key, None)

        def run_and_note_pause() -> Result:
            try:
                return operation()
            except NonDeterministicExecutionError as error:
                logger.error("a replay took a different path: %s", error)
                raise CodeChanged("the replay took a different path") from None
            except TimedSuspendExecution as error:
                self._run.times[key] = error.scheduled_timestamp
                raise

        def tell_end() -> None:
            if notice is not None:
                self._run.announce(OperationNotice(notice.kind, notice.name, "ended"))

        future: Future[Result] = Future()
        self._requests.put((run_and_note_pause, future))
        try:
            result = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._is_interrupted = True
            raise
        except Suspended:
            if notice is not None:
                self._run.announce(notice)
            self.suspension = self._run.suspension()
            raise self.suspension from None
        except TimeoutError:
            tell_end()
            raise
        tell_end()
        return result


def _submit(
    call: Callable[[], Awaitable[Result]], loop: asyncio.AbstractEventLoop, context: contextvars.Context
) -> "Future[Result]":
    """Run a coroutine on the agents' loop, with the variables of a context."""

    async def run() -> Result:
        return await call()

    return context.copy().run(asyncio.run_coroutine_threadsafe, run(), loop)


def decide_retry(retry: Retry, at_most_once: bool, error: Exception, attempt: int) -> RetryDecision:
    """What the SDK does after a failed try. attempt: counts moves to later runs, too; see MAX_MOVES."""
    if isinstance(error, OutOfTime):
        if attempt < retry.attempts + MAX_MOVES:
            return RetryDecision.retry(Duration(seconds=1))
        logger.error("a durable turn cannot continue: %s", error)
    pause = None if at_most_once or isinstance(error, outcomes.MISTAKES) else retry.pause_after(attempt)
    if pause is None:
        return RetryDecision.no_retry()
    return RetryDecision.retry(Duration(seconds=max(1, int(pause))))
