"""What a durable skill can do besides its outputs: steps, pauses, waits and branches. `Turn` has these
methods.

A durable skill may run for hours or days. docs/long-running.md explains it.
"""

import asyncio
import contextvars
import inspect
import json
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar, overload

from a2a_lambda import agent_threads, strictjson, tracing
from a2a_lambda.agent.outputs import Ask, Authorize, check_kept, check_status_text
from a2a_lambda.agent.skills.annotations import return_hint
from a2a_lambda.durable.engine import (
    STEP_NAME_CHARACTERS,
    DurableOperation,
    Engine,
    Exchange,
    NotAwaited,
    Reply,
    Retry,
    Suspended,
    Wait,
    error_besides_suspension,
    labels_of,
    whole_seconds,
)
from a2a_lambda.durable.outcomes import (
    RESULT_BYTES,
    encode_result,
    perform_step,
    restore_step,
    value_of_step,
)
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.protocol.model import Json

STEP_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{STEP_NAME_CHARACTERS}}}")

EXCHANGES = "a2a:exchanges"
"""In addition to a branch's result: what the user replied in it."""


@dataclass(frozen=True, slots=True)
class _Branch:
    """A branch of `turn.parallel`."""

    engine: Engine
    exchanges: list[Exchange] = field(default_factory=list)


running_branch: contextvars.ContextVar[_Branch | None] = contextvars.ContextVar("branch", default=None)
"""The branch that runs now."""

running_step: contextvars.ContextVar[str] = contextvars.ContextVar("step", default="")
"""Name of the step that runs now, or "". What a step changes besides its result would be lost in a replay."""

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


class Steps:
    """What a durable skill calls: steps, pauses, waits and branches.

    engine: keeps the results; None = the skill is not durable. tell: takes what the user has replied, for
    the conversation.
    """

    engine: Engine | None = None
    tell: Callable[[Exchange], None]
    _operations: list[DurableOperation[Any]]

    # The options stand between *args and **kwargs, so a ParamSpec cannot check the arguments of a function.
    @overload
    def step(
        self,
        name: str,
        function: Callable[..., Awaitable[Result]],
        /,
        *args: Any,
        retry: Retry = ...,
        at_most_once: bool = ...,
        **kwargs: Any,
    ) -> DurableOperation[Result]: ...
    @overload
    def step(
        self,
        name: str,
        function: Callable[..., Result],
        /,
        *args: Any,
        retry: Retry = ...,
        at_most_once: bool = ...,
        **kwargs: Any,
    ) -> DurableOperation[Result]: ...
    def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        retry: Retry = Retry(),  # noqa: B008  # immutable
        at_most_once: bool = False,
        **kwargs: Any,
    ) -> DurableOperation[Any]:
        """Run `function(*args, **kwargs)`, which may be async, and return its result. It runs once: a replay
        gets the result that was kept. Everything that takes long, costs money, or differs from call to call
        belongs in a step. Results are JSON, at most 250,000 bytes. A pydantic model or a dataclass is kept if
        the function's annotation says that it returns one. Raises StepFailed after the last try.

        name: what it is called in logs; 1 to 100 letters, digits, `.`, `_` and `-`.
        retry: for a function that raises. A SkillError is not tried again.
        at_most_once: the function is never started a second time, neither if its process died nor if it
            raised, so `retry` has no effect. Otherwise it may be started again, so it should be safe to
            repeat.
        """

        async def run() -> Json:
            engine = self._require_engine(name)
            if not callable(function):
                raise TypeError(
                    f"turn.step needs the function, not its result: turn.step({name!r}, make_plan, city)"
                )
            if not isinstance(retry, Retry):
                raise TypeError("retry must be a Retry, such as retry=Retry(attempts=5)")
            call = partial(_run_step, name, partial(function, *args, **kwargs), hint)
            with engine.keys.hold(name):
                result = await engine.step(name, call, retry, at_most_once=at_most_once)
            return value_of_step(result)

        hint = return_hint(function)
        return self._register("step", name, run, lambda value: restore_step(value, hint))

    def sleep(
        self,
        duration: timedelta | float = 0,
        /,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        name: str = "sleep",
    ) -> DurableOperation[None]:
        """Pause. Nothing runs meanwhile, and nothing is charged. duration: a timedelta or seconds."""
        pause = whole_seconds(duration, days * 86_400 + hours * 3_600 + minutes * 60 + seconds)

        async def run() -> None:
            engine = self._require_engine(name)
            with engine.keys.hold(name):
                await engine.sleep(name, pause)

        return self._register("sleep", name, run, lambda _: None)

    def wait_for(
        self,
        name: str,
        ask: Ask | None = None,
        *,
        messages: bool = False,
        timeout: timedelta | float | None = None,
    ) -> DurableOperation[Reply]:
        """Wait for what is sent to `callback_url(name)` or, with a question, for the client's answer,
        whichever comes first.

        ask: the client is asked, and the task is `input-required` meanwhile. Without it, the task is
        `working`, and a message of the client is refused.
        messages: a message of the client ends a wait without a question, too. Then `reply.is_callback` says
            which of the two came.
        timeout: seconds or a timedelta; None = as long as a durable turn may take. Raises TimeoutError.
        """
        seconds = None if timeout is None else whole_seconds(timeout)
        if ask is not None and not isinstance(ask, Ask):
            raise TypeError(f'the question must be an Ask: write turn.wait_for({name!r}, Ask("…"))')
        if ask is not None and (ask.fills or ask.known):
            raise TypeError(
                "a durable skill continues with the reply, so its questions have neither `fills` nor `known`:"
                " offer values with choices=[…], and read reply.text"
            )
        if ask is not None:
            check_status_text(ask.question, ask.choices)

        async def run() -> Json:
            engine = self._require_engine(name)
            wait = Wait(
                key=engine.keys.take(name),
                question=ask.question if ask else None,
                choices=tuple(ask.choices) if ask else (),
                is_sign_in=isinstance(ask, Authorize),
                takes_messages=messages or ask is not None,
                seconds=seconds,
            )
            with engine.keys.hold(name):
                reply = await engine.wait_for(wait)
            if not reply.is_callback:
                self._tell_exchange(Exchange(wait.question or "", reply.parts))
            # A skill may change a reply. What was sent stays as it is, for replays and the conversation.
            return strictjson.copy_of(reply.document())

        return self._register("wait", name, run, Reply.of_document)

    async def parallel(self, *branches: Callable[[], Awaitable[Any]]) -> list[Any]:
        """Run branches at the same time, and return their results in order.

            await turn.parallel(turn.step("hotel", find_hotel), turn.step("flight", find_flight))

        A branch may also be an async function without arguments, with several steps, pauses and waits. If
        branches fail, the first failure is raised after all have ended. The results of functions are JSON;
        those of steps and waits are as if they were awaited alone.
        """
        for branch in branches:
            if inspect.iscoroutine(branch):
                branch.close()
            if not callable(branch):
                if isinstance(branch, list | tuple):
                    raise TypeError(
                        "turn.parallel takes branches, not a list of them: write `turn.parallel(*branches)`"
                    )
                raise TypeError(
                    "a branch must be a function, because a replay calls it again: write `lambda: book(turn)`"
                    " instead of `book(turn)`"
                )
            if isinstance(branch, DurableOperation):
                branch.is_awaited = True  # here, because a replay that knows all results calls no branch
        engine = self._require_engine("parallel")
        name = engine.keys.take("parallel")
        with engine.keys.hold(name):
            runs = [partial(_run_branch, branch) for branch in branches]
            results = await engine.parallel(name, runs, labels_of(branches))
        values = [json.loads(result) for result in results]
        for index, value in enumerate(values):
            if isinstance(value, dict) and value.keys() == {EXCHANGES, "result"}:
                for question, reply in value[EXCHANGES]:
                    self._tell_exchange(Exchange(question, reply))
                values[index] = value["result"]
        return [
            branch.restore(value) if isinstance(branch, DurableOperation) else value
            for branch, value in zip(branches, values, strict=True)
        ]

    def callback_url(self, name: str) -> str:
        """Return the URL that ends the next `wait_for(name)` when another system sends a POST with JSON to
        it. Treat it as a secret. Raises ConfigurationError if the deployment does not know its URL."""
        engine = self._require_engine(name)
        url = engine.callback_url(engine.keys.next(name))
        if url.startswith("/"):  # no request has named it: a schedule, or an event, has started the turn
            raise ConfigurationError("the deployment does not know its own URL: set BaseUrl or DomainName")
        return url

    def check_operations(self) -> None:
        """Raises AgentMistake for an operation that was made, and never awaited."""
        for operation in self._operations:
            if not operation.is_awaited:
                raise NotAwaited(operation.name)

    def _register(
        self,
        kind: str,
        name: str,
        start: Callable[[], Coroutine[Any, Any, Json]],
        restore: Callable[[Json], Result],
    ) -> DurableOperation[Result]:
        operation = DurableOperation(kind, name, start, restore)
        self._operations.append(operation)
        return operation

    def _tell_exchange(self, exchange: Exchange) -> None:
        # A replay that knows a branch's result does not call the branch. So the result says it again.
        if (branch := running_branch.get()) is not None:
            branch.exchanges.append(exchange)
        else:
            self.tell(exchange)

    def _require_engine(self, name: str) -> Engine:
        """What keeps an operation's result. Raises ConfigurationError, ValueError."""
        branch = running_branch.get()
        engine = self.engine if branch is None else branch.engine
        if engine is None:
            raise ConfigurationError(
                "only a durable skill has steps and waits: write `durable: true` in card.yaml"
            )
        if not isinstance(name, str):
            raise TypeError(
                f"the first argument must be a name, not {type(name).__name__}: write turn.step("
                '"plan", make_plan, city), or turn.wait_for("approval", Ask("…"))'
            )
        if not STEP_NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} cannot name a step: use 1 to {STEP_NAME_CHARACTERS} letters, digits, . _ and -"
            )
        if step := running_step.get():
            raise ConfigurationError(
                f"{name!r} is inside step {step!r}: a step cannot contain steps, pauses or waits"
            )
        return engine


async def _run_step(name: str, function: Callable[[], Any], hint: Any) -> bytes:
    async def call() -> Any:
        with _contain_exit(f"step {name}"):
            if inspect.iscoroutinefunction(function):
                return await function()
            result = await agent_threads.call_in_thread(function, f"step {name}")
            return await result if inspect.isawaitable(result) else result

    with _set(running_step, name), tracing.span(f"step {name}", {"a2a.step": name}):
        return await perform_step(name, call, hint, check_kept)


async def _run_branch(branch: Callable[[], Awaitable[Any]], engine: Engine) -> bytes:
    current_branch = _Branch(engine)
    with _set(running_branch, current_branch), _contain_exit("a branch"):
        try:
            pending = branch()
            if not inspect.isawaitable(pending):
                raise ConfigurationError(
                    "a branch must be an async function without yield, or an operation such as turn.step(…):"
                    " put other code in a step, and yield after turn.parallel"
                )
            result = await pending
        except (Exception, BaseExceptionGroup) as error:
            if engine.suspension is None:
                raise
            # A TaskGroup has put the suspension into a group, or a `finally` has replaced it.
            if (other := error_besides_suspension(error)) is not None:
                logger.warning("a branch raised an error while it was suspended", exc_info=other)
            raise engine.suspension from None
        body = encode_result(result, "a branch")
        value = json.loads(body)
        check_kept(result, value, "a branch")
        exchanges = [[exchange.question, exchange.reply] for exchange in current_branch.exchanges]
        if exchanges and len(body) + len(strictjson.dumps(exchanges)) > RESULT_BYTES:
            exchanges = []
        # Another system may have sent a value that looks like this form, and must not speak for the user.
        if exchanges or (isinstance(value, dict) and EXCHANGES in value):
            return strictjson.dumps({EXCHANGES: exchanges, "result": value})
        return body


@contextmanager
def _contain_exit(what: str) -> Iterator[None]:
    """An exit of an agent's code must not end the event loop that agents share, nor pass for a suspension."""
    try:
        yield
    except (Exception, Suspended, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise RuntimeError(f"{what} ended with {type(error).__name__}") from error


@contextmanager
def _set(variable: "contextvars.ContextVar[Any]", value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
