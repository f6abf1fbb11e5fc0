"""An engine without AWS and without waiting, for tests of agents.

Results are kept in a list for the turn, and for each branch of `parallel`. Every pause suspends the
turn, as on AWS. So the skill runs again from its beginning, and a test notices code that a replay cannot
repeat.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

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
    gather,
)
from a2a_lambda.durable.outcomes import MISTAKES, shorten_error, timeout_of
from a2a_lambda.errors import CodeChanged, SkillError, StepFailed, error_text
from a2a_lambda.protocol.caller import LOCAL_CALLER, Caller
from a2a_lambda.protocol.model import Part

PARALLEL = "parallel"
"""Kind of an operation that runs branches."""

MAX_OPERATIONS = 3_000
"""Operations that Lambda allows in a durable execution; docs/long-running.md lists its limits."""

KnownReplies = Mapping[str, Any]
"""Replies by the key of their wait: a string, another JSON value, a Reply, or TimeoutError."""


@dataclass(slots=True)
class KeptResult:
    """An operation of an earlier run. outcome: what it returned, or the exception that it raised."""

    kind: str
    name: str
    outcome: Any

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"

    def result(self) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@dataclass(slots=True)
class KeptResults:
    """Operations by branch, in order; the turn itself is the branch "". open: the waits that no reply has
    ended."""

    results: dict[str, list[KeptResult]] = field(default_factory=dict)
    open: list[Wait] = field(default_factory=list)

    def copy(self) -> "KeptResults":
        return KeptResults(
            {branch: list(operations) for branch, operations in self.results.items()}, list(self.open)
        )

    @property
    def names(self) -> list[str]:
        """Names of the operations that have ended, those of the turn first. Branches have none."""
        kept_results = [result for operations in self.results.values() for result in operations]
        return [result.name for result in kept_results if result.kind != PARALLEL]


class MemoryEngine:
    """Keeps the results of one test's turn.

    kept_results: results of earlier runs; this run adds to them. replies: those that are known.
    caller: who sends them.
    """

    def __init__(
        self,
        kept_results: KeptResults,
        replies: KnownReplies,
        branch: str = "",
        caller: Caller = LOCAL_CALLER,
    ) -> None:
        self.keys = OperationKeys(branch)
        self._kept_results = kept_results
        self._replies = replies
        self._caller = caller
        self._branch = branch
        self._next = 0
        self._is_interrupted = False
        self.suspension: Suspended | None = None
        if not branch:
            kept_results.open.clear()

    def check_end(self) -> None:
        """Raises CodeChanged if an earlier run had more operations than this one, which has ended."""
        operations = self._kept_results.results.get(self._branch, [])
        if self._next < len(operations):
            raise CodeChanged(f"it ended where the earlier run had the {operations[self._next]}")

    async def step(
        self, name: str, call: Callable[[], Awaitable[bytes]], retry: Retry, *, at_most_once: bool
    ) -> bytes:
        with self._note_cancellation():
            await asyncio.sleep(0)  # as on AWS, where other code runs meanwhile
            if (operation := self._replay("step", name)) is None:
                result = await _try_step(name, call, Retry(attempts=1) if at_most_once else retry)
                operation = self._keep("step", name, result)
        kept_result: bytes = operation.result()
        return kept_result

    async def sleep(self, name: str, seconds: int) -> None:
        with self._note_cancellation():
            await asyncio.sleep(0)
        if self._replay("sleep", name) is None:
            self._keep("sleep", name, None)
            self._suspend(Suspended())

    async def wait_for(self, wait: Wait) -> Reply:
        with self._note_cancellation():
            await asyncio.sleep(0)
        if (operation := self._replay("wait", wait.key)) is None:
            # Suspended in either case, as on AWS. With a reply, the next run returns it.
            if wait.key not in self._replies:
                self._kept_results.open.append(wait)
                self._suspend(Suspended([OpenWait(wait)]))
            self._keep("wait", wait.key, _reply(self._replies[wait.key], wait, self._caller))
            self._suspend(Suspended())
        reply: Reply = operation.result()
        return reply

    async def parallel(
        self, name: str, branches: Sequence[Callable[[Engine], Awaitable[bytes]]], labels: Sequence[str]
    ) -> list[bytes]:
        if self._replay(PARALLEL, ", ".join(labels)) is None:
            self._keep(PARALLEL, ", ".join(labels), None)
        prefix = f"{self._branch}{name}/"
        runs = [
            _run(
                branch,
                MemoryEngine(self._kept_results, self._replies, f"{prefix}{index}/", self._caller),
                f"{name}/{index}",
            )
            for index, branch in enumerate(branches)
        ]
        try:
            with self._note_cancellation():
                return await gather(runs)
        except Suspended as suspension:
            self._suspend(suspension)

    def callback_url(self, key: str) -> str:
        return f"https://callbacks.invalid/{key}"

    def observe(self, observer: Callable[[OperationNotice], None]) -> None:
        """Does nothing, because a test reads `Answer.steps`."""

    @contextmanager
    def _note_cancellation(self) -> Iterator[None]:
        """Notes that an operation was canceled, so that no other one begins."""
        try:
            yield
        except asyncio.CancelledError:
            self._is_interrupted = True
            raise

    def _replay(self, kind: str, name: str) -> KeptResult | None:
        """The next operation, if an earlier run has kept it. Raises CodeChanged."""
        if self.suspension is not None:
            raise self.suspension
        if self._is_interrupted:
            raise error_after_cancellation(f"{kind} {name}")
        operations = self._kept_results.results.setdefault(self._branch, [])
        if self._next == len(operations):
            if sum(map(len, self._kept_results.results.values())) >= MAX_OPERATIONS:
                raise RuntimeError(
                    f"a turn may have {MAX_OPERATIONS:,} operations, and fails on Lambda with more: do more"
                    " in each step"
                )
            return None
        operation = operations[self._next]
        if (operation.kind, operation.name) != (kind, name):
            raise CodeChanged(f"it has the {kind} {name!r} where the earlier run had the {operation}")
        self._next += 1
        return operation

    def _suspend(self, suspension: Suspended) -> NoReturn:
        self.suspension = suspension
        raise suspension

    def _keep(self, kind: str, name: str, outcome: Any) -> KeptResult:
        operation = KeptResult(kind, name, outcome)
        self._kept_results.results[self._branch].append(operation)
        self._next += 1
        return operation


async def _try_step(name: str, call: Callable[[], Awaitable[bytes]], retry: Retry) -> bytes | StepFailed:
    """What a step returned, tried without pauses; or how its last try failed."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return await asyncio.ensure_future(call())  # which may cancel its own task
        except (Exception, asyncio.CancelledError) as raised:
            error: Exception = InterruptedError(f"step {name!r} was canceled")
            if isinstance(raised, Exception):
                error = raised
            elif (task := asyncio.current_task()) and task.cancelling():  # not by the step's own code
                raise
            if isinstance(error, MISTAKES) or retry.pause_after(attempt) is None:
                failure = StepFailed(name, type(error).__name__, str(shorten_error(error)))
                failure.__cause__ = error
                return failure


async def _run(branch: Callable[[Engine], Awaitable[bytes]], engine: Engine, name: str) -> bytes:
    """What a branch returned. Raises StepFailed for an error of its code, as on AWS, where only the error's
    type and text are kept."""
    try:
        return await branch(engine)
    except (CodeChanged, StepFailed):
        raise
    except SkillError as error:
        raise SkillError(error_text(error)) from error
    except TimeoutError as error:
        raise TimeoutError(str(error)) from error
    except (Exception, asyncio.CancelledError) as error:
        raise StepFailed(name, type(error).__name__, str(shorten_error(error))) from error


def _reply(reply: Any, wait: Wait, caller: Caller) -> Reply | TimeoutError:
    if reply is TimeoutError or isinstance(reply, TimeoutError):
        if wait.seconds is None:
            raise ValueError(f"the wait {wait.key!r} has no timeout, so it never raises TimeoutError")
        return timeout_of(wait)
    if isinstance(reply, Reply):
        return reply
    if not wait.takes_messages:  # it came to the URL, where a string is JSON, too
        return Reply([Part(data=reply)], is_callback=True)
    return Reply([Part(text=reply) if isinstance(reply, str) else Part(data=reply)], caller=caller)
