"""The head of a durable turn, when it is suspended, and when it continues.

WORKING, held ── pause or wait ── WORKING, suspended ────────── the execution runs again ── WORKING, held
           └──── wait with a question ── INPUT_REQUIRED, suspended ── reply, or timeout ──┘
"""

import secrets
from dataclasses import replace

from a2a_lambda.durable.engine import Suspended, Wait
from a2a_lambda.protocol.model import Event, Part, TaskState, agent_message, status
from a2a_lambda.tasks.head import Execution, Head, WaitState
from a2a_lambda.turns.claim import held_head, minute_after

LATE_SECONDS = 120.0
"""Seconds after the end of a pause at which the sweep looks whether the turn has continued."""

REPLYING = "reply"
"""Holder of a task while a reply is stored that its head cannot hold."""

REPLY_SECONDS = 10.0
"""Seconds for which it is held. A process that stores a reply is dead after that."""

LOOK_SECONDS = 86_400.0
"""Most seconds until the sweep looks whether the execution of a suspended turn is still there."""


def new_execution(url: str) -> Execution:
    """The execution of a turn that has not begun. url: of the deployment."""
    secret = secrets.token_urlsafe(32)
    return Execution(arn="", url=url, secret=secret, is_suspended=False, until=0.0, waits=[], wakes=[])


def question_of(suspended: Suspended, before: Head | None) -> Wait | None:
    """The wait whose question the client is asked. If there are several, the one that was asked before stays.

    before: the head before this run, if it asked then.
    """
    asking = [each.wait for each in suspended.waits if each.wait.question is not None]
    known = before.execution["waits"] if before is not None and before.execution is not None else []
    keys = {wait["key"] for wait in known if wait["asks"]}
    return next((wait for wait in asking if wait.key in keys), next(iter(asking), None))


def suspended_head(suspended: Suspended, asked: Wait | None, sequence: int, now: float, head: Head) -> Head:
    """The head of a turn that is suspended. asked: the wait whose question the client is asked, or None.
    sequence: last number stored."""
    assert head.execution is not None
    times = [time for time in (suspended.until, *(each.until for each in suspended.waits)) if time]
    waits = [
        WaitState(
            key=each.wait.key,
            callback=each.callback,
            asks=each.wait is asked,
            takes_messages=each.wait.takes_messages,
        )
        for each in suspended.waits
    ]
    execution = Execution(
        {**head.execution, "is_suspended": True, "until": min(times, default=0.0), "waits": waits}
    )
    due = minute_after(min([*times, now + LOOK_SECONDS]) + LATE_SECONDS)
    if asked is None:
        working = status(TaskState.WORKING, now)
        rested = replace(head, status=working, sequence=sequence, holder="", lease=0.0, attempts=0)
        return replace(rested, due=due, execution=execution)
    message = agent_message(head.task_id, head.context_id, [Part(text=asked.question or "")])
    state = TaskState.AUTH_REQUIRED if asked.is_sign_in else TaskState.INPUT_REQUIRED
    stopped = head.with_closing_status(status(state, now, message), sequence, head.pending)
    return replace(stopped, attempts=0, due=due, execution=execution)


def still_asking(again: Head, before: Head) -> Head:
    """The head of a turn that asks the same again, because the run died that asked, or a timer woke the
    turn. The question stays one. again: as `suspended_head` made it, with no event after the question.
    before: as it was."""
    asked = [head.status.get("message", {}).get("parts") for head in (again, before)]
    if again.state != before.state or asked[0] != asked[1]:
        return again
    return replace(
        again,
        status=before.status,
        inline=before.inline,
        sequence=before.sequence,
        committed=max(0, before.sequence - 1),
    )


def resumed_head(head: Head, arn: str, now: float) -> tuple[Head, list[Event]]:
    """The head of a turn that a process continues, and the events that it cannot hold. arn: of the
    execution."""
    assert head.execution is not None
    execution = Execution(
        {**head.execution, "arn": arn, "is_suspended": False, "until": 0.0, "waits": [], "wakes": []}
    )
    events: list[Event] = []
    if head.is_stopped:  # it asked, and no one replied in time
        head, events = head.next_epoch().with_events([head.closing_event()])
    return replace(held_head(head, now), is_background=True, execution=execution), events


def reply_events(head: Head, reply: Event) -> list[Event]:
    """What a reply adds to the log. If the task asked, the question becomes an event, too."""
    return [head.closing_event(), reply] if head.is_stopped else [reply]


def held_for_reply(head: Head, now: float) -> Head:
    """The head of a suspended turn while a reply is appended that the head cannot hold. Meanwhile no run
    continues without the reply, and no other reply comes between."""
    return replace(head.with_new_epoch(), holder=REPLYING, lease=now + REPLY_SECONDS)


def answered_head(head: Head, wait: WaitState, now: float) -> Head:
    """The head of a suspended turn whose log has the reply to a wait. The turn must be woken."""
    assert head.execution is not None
    execution = Execution(
        {
            **head.execution,
            "waits": [each for each in head.execution["waits"] if each != wait],
            "wakes": [*head.execution["wakes"], wait["callback"]],
        }
    )
    return replace(
        head,
        status=status(TaskState.WORKING, now),
        due=minute_after(now + LATE_SECONDS),
        is_background=True,
        holder="",
        lease=0.0,
        execution=execution,
    )
