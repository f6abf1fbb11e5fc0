"""The operations of a durable turn, and the engine that keeps their results.

    skill ── await turn.step(…) ── Engine ──┬─ the result is kept: return it
                                            └─ it is not: run the step, keep its result

A durable turn may wait for hours. Meanwhile no process has it: the engine raises `Suspended` in the skill.
Later the skill runs again from its beginning, in another process, and gets the kept results until it reaches
the place where it stopped. That is a replay.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from a2a_lambda.errors import AgentMistake
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.model import Json, Part, text_of
from a2a_lambda.settings import MAX_EXECUTION_SECONDS

STEP_NAME_CHARACTERS = 100

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a step is tried, and the pauses in between.

    attempts: tries in all. pause_seconds: before the second try; each pause is `factor` times the one before
    it, and at most longest_seconds.
    """

    attempts: int = 3
    pause_seconds: float = 5.0
    factor: float = 2.0
    longest_seconds: float = 300.0

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise ValueError(f"Retry(attempts=…) must be an integer, 1 or more, not {self.attempts!r}")
        for name in ("pause_seconds", "factor", "longest_seconds"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"Retry({name}=…) must be a number, not a {type(value).__name__}")
            if not value >= 0:  # nor is it NaN
                raise ValueError(f"Retry({name}=…) must be 0 or more, not {value}")

    def pause_after(self, attempt: int) -> float | None:
        """Seconds to wait after a failed try; None if it was the last. attempt: counts from 1."""
        if attempt >= self.attempts:
            return None
        try:
            return min(self.pause_seconds * float(self.factor) ** (attempt - 1), self.longest_seconds)
        except OverflowError:
            return self.longest_seconds


@dataclass(frozen=True, slots=True)
class Reply:
    """What ended a wait: a message of the client, or a call of the wait's URL.

    parts: the message's parts; the JSON of a call is one data part. is_callback: it came to the URL.
    caller: who sent the message, who need not be the one who started the turn; None for a call.
    """

    parts: list[Part]
    is_callback: bool = False
    caller: Caller | None = None

    @property
    def text(self) -> str:
        """Texts of the reply, each on a line."""
        return text_of(self.parts)

    @property
    def data(self) -> list[Json]:
        """Values of the data parts."""
        return [part["data"] for part in self.parts if "data" in part]

    def document(self) -> dict[str, Any]:
        """The reply as JSON."""
        document = {"parts": self.parts, "is_callback": self.is_callback}
        if self.caller is not None:
            document |= {"owner": self.caller.owner, "caller": self.caller.document()}
        return document

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> "Reply":
        """The reply that `document` described."""
        caller = None
        if "caller" in document:
            caller = Caller.of_document(document["owner"], document["caller"])
        return cls(document["parts"], document["is_callback"], caller)


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait as the skill wants it.

    key: unique in the turn. question: what the client is asked, or None. choices: answers to offer with it.
    is_sign_in: whether it asks for credentials.
    takes_messages: a message of the client ends it. Otherwise only a call of its URL does.
    seconds: until it times out; None = never.
    """

    key: str
    question: str | None = None
    choices: tuple[str, ...] = ()
    is_sign_in: bool = False
    takes_messages: bool = False
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class OpenWait:
    """A wait, and what ends it. callback_id: the engine's id, with which the turn is woken. until: Unix time
    of its timeout, or 0."""

    wait: Wait
    callback_id: str = ""
    until: float = 0.0


def branch_order(wait: Wait) -> list[str]:
    """Sorts waits by their branches: the second one comes before the tenth."""
    return [part.zfill(6) for part in wait.key.split("/")]


class Suspended(BaseException):
    """The turn is suspended: the skill must end now, and runs again later. It is not an Exception, so that
    `except Exception` in a skill does not catch it.

    waits: those that are open, in the order of their branches. until: Unix time at which the turn continues
    by itself; 0 = never.
    """

    def __init__(self, waits: Sequence[OpenWait] = (), until: float = 0.0) -> None:
        super().__init__("the turn is suspended")
        self.waits = tuple(sorted(waits, key=lambda item: branch_order(item.wait)))
        self.until = until


def error_besides_suspension(error: BaseException) -> BaseException | None:
    """The error without what suspends, cancels or closes the code: itself, the rest of its group, or None.

    What suspended code raises besides must be logged at once, because it is raised again only if the turn
    continues.
    """
    ends = (Suspended, asyncio.CancelledError, GeneratorExit)
    if isinstance(error, BaseExceptionGroup):  # a TaskGroup makes one
        return error.split(ends)[1]
    return None if isinstance(error, ends) else error


def error_after_cancellation(operation: str) -> RuntimeError:
    """What an operation raises after another one of its branch was canceled, because a replay could not know
    how far it got. operation: such as "step release"."""
    return RuntimeError(
        f"{operation} begins after another operation was canceled. If asyncio.timeout canceled that one, use"
        " the timeout of turn.wait_for, or asyncio.timeout inside a step. If the task was canceled, clean"
        " up without a step"
    )


@dataclass(frozen=True, slots=True)
class OperationNotice:
    """What an operation does now, for clients that show it. A replay does not repeat it.

    kind: step, sleep or wait. state: started, ended or failed. until: Unix time at which a pause or a wait
    ends by itself, or 0.
    """

    kind: str
    name: str
    state: str
    until: float = 0.0


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question, or "" for a wait without one, and the user's reply. A replay says it again."""

    question: str
    reply: list[Part]


class NotAwaited(AgentMistake):
    """A durable operation was used, or its turn ended, before it was awaited. operation: its name."""

    def __init__(self, operation: str) -> None:
        super().__init__(
            f"{operation!r} was never awaited: write `await` before turn.step, turn.sleep, turn.wait_for and"
            " turn.parallel"
        )


class DurableOperation(Generic[Result]):
    """A step, a pause or a wait that begins when it is awaited. It is also a branch for `turn.parallel`,
    which keeps the result as JSON.

    kind: step, sleep or wait. start: begins it; returns the result as JSON. restore: makes the result from
    that.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        start: Callable[[], Coroutine[Any, Any, Json]],
        restore: Callable[[Json], Result],
    ) -> None:
        self.kind = kind
        self.name = name
        self.is_awaited = False
        self.restore = restore
        self._start = start

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report a missing `await`

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            raise NotAwaited(self.name)

        def __getitem__(self, _: Any) -> Any:
            raise NotAwaited(self.name)

    def __await__(self) -> Generator[Any, Any, Result]:
        return self.restore((yield from self().__await__()))

    def __call__(self) -> Coroutine[Any, Any, Json]:
        self.is_awaited = True
        return self._start()


def whole_seconds(duration: timedelta | float, more: float = 0) -> int:
    """Whole seconds, at least one. more: seconds to add. Raises TypeError, ValueError."""
    if not isinstance(duration, timedelta | int | float):
        raise TypeError(
            f"a pause or a timeout must be a timedelta or a number of seconds, not {duration!r:.80}: write"
            " timedelta(days=3), for example"
        )
    seconds = more + (duration.total_seconds() if isinstance(duration, timedelta) else duration)
    if not 0 <= seconds <= MAX_EXECUTION_SECONDS:
        raise ValueError(
            f"a pause or a wait must last 0 to {MAX_EXECUTION_SECONDS:,} seconds, not {seconds:,}"
        )
    return max(1, math.ceil(seconds))


def labels_of(branches: Sequence[Callable[[], Awaitable[Any]]]) -> list[str]:
    """A label for each branch of `parallel`, from what can be seen without running it: an operation's name,
    or a function's, with the texts and whole numbers that `partial`, or the defaults of a lambda, give it.
    With other branches, or with the same in another order, a replay would give them each other's
    results."""
    labels: list[str] = []
    for branch in branches:
        if isinstance(branch, DurableOperation):
            labels.append(f"{branch.kind} {branch.name}")
            continue
        function: Any = branch.func if isinstance(branch, partial) else branch
        name = getattr(function, "__qualname__", type(function).__name__)
        arguments: list[Any] = []
        if name.endswith("<lambda>"):  # `lambda city=city: …`
            arguments += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        if isinstance(branch, partial):
            arguments += [*branch.args, *branch.keywords.values()]
        values = [value for value in arguments if isinstance(value, str | int)]
        labels.append(f"{name}{values}" if values else name)
    return labels


Work = Callable[[], Awaitable[Any]]
"""Runs a step, or a branch."""


class Engine(Protocol):
    """Keeps the results of a turn's operations, for the turn or for one branch of `parallel`.

    Methods that wait raise Suspended. All raise CodeChanged if an earlier run had another operation there.
    """

    @property
    def keys(self) -> "OperationKeys": ...
    @property
    def suspension(self) -> Suspended | None:
        """How the turn was suspended in this run. It stays so, even if the skill does not end."""

    async def step(
        self, name: str, call: Callable[[], Awaitable[bytes]], retry: Retry, *, at_most_once: bool
    ) -> bytes:
        """Outcome of a step, as JSON: see `perform_step`. It also holds a SkillError of the step.
        at_most_once: the step is not started again, whatever ended it. Raises StepFailed."""

    async def sleep(self, name: str, seconds: int) -> None: ...

    async def wait_for(self, wait: Wait) -> Reply:
        """Raises TimeoutError after the wait's seconds."""

    async def parallel(
        self, name: str, branches: Sequence[Callable[["Engine"], Awaitable[bytes]]], labels: Sequence[str]
    ) -> list[bytes]:
        """Results of branches that run at the same time, in their order. Each has an engine of its own.
        labels: see `labels_of`. Raises what the first failed branch raised, after all have ended."""

    def callback_url(self, key: str) -> str:
        """URL whose call ends a wait."""

    def observe(self, observer: Callable[[OperationNotice], None]) -> None:
        """Tell an observer what the operations do, on the agents' loop."""


@dataclass(slots=True)
class OperationKeys:
    """Gives the operations of the turn, or of one branch, their keys. prefix: where in the agent's code
    the operation is."""

    prefix: str = ""
    _used: Counter[str] = field(default_factory=Counter)
    _running: str = ""

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Held while an operation runs. Raises RuntimeError if another one runs: a replay could not tell them
        apart."""
        if self._running:
            raise RuntimeError(
                f"{name!r} begins before {self._running!r} has ended: operations run at the same time only in"
                " `await turn.parallel(…)`"
            )
        self._running = name
        try:
            yield
        finally:
            self._running = ""

    def take(self, name: str) -> str:
        """Key of the next operation with this name."""
        key = self.next(name)
        self._used[name] += 1
        return key

    def next(self, name: str) -> str:
        """Key that the next operation with this name will take. It is not taken yet."""
        count = self._used[name]
        return f"{self.prefix}{name}#{count + 1}" if count else f"{self.prefix}{name}"


async def gather(runs: Sequence[Awaitable[bytes]]) -> list[bytes]:
    """Results of branches, after all have ended. A suspended branch suspends the turn; else the first failure
    is raised."""
    outcomes = await asyncio.gather(*runs, return_exceptions=True)
    suspensions = [outcome for outcome in outcomes if isinstance(outcome, Suspended)]
    if suspensions:
        times = [outcome.until for outcome in suspensions if outcome.until]
        raise Suspended([wait for outcome in suspensions for wait in outcome.waits], min(times, default=0.0))
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, bytes)]
