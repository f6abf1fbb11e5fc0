"""The head of a durable turn, when it is suspended, and when it continues.

WORKING, held ── pause or wait ── WORKING, suspended ────────── the execution runs again ── WORKING, held
           └──── wait with a question ── INPUT_REQUIRED, suspended ── reply, or timeout ──┘
"""

import secrets
import uuid
from dataclasses import replace

from a2a_lambda.durable.engine import Suspended, Wait
from a2a_lambda.protocol.model import Event, Part, TaskState, agent_message, status
from a2a_lambda.tasks.head import Execution, Head, WaitState
from a2a_lambda.turns.claim import LEASE_SECONDS, minute_after

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


def suspended_head(suspended: Suspended, asked: Wait | None, sequence: int, now: float, head: Head) -> Head:
    """The head of a turn that is suspended. asked: the wait with the question. sequence: last number
    stored."""
    assert head.execution is not None
    times = [time for time in (suspended.until, *(each.until for each in suspended.waits)) if time]
    waits = [
        WaitState(key=each.wait.key, callback=each.callback, asks=bool(each.wait.question))
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
    message = agent_message(head.task_id, head.context_id, [Part(text=asked.question)])
    state = TaskState.AUTH_REQUIRED if asked.is_sign_in else TaskState.INPUT_REQUIRED
    stopped = head.with_closing_status(status(state, now, message), sequence, head.pending)
    return replace(stopped, attempts=0, execution=execution)


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
    resumed = replace(
        head,
        status=status(TaskState.WORKING, now),
        holder=str(uuid.uuid4()),
        lease=now + LEASE_SECONDS,
        due=minute_after(now + LEASE_SECONDS),
        is_background=True,
        attempts=head.attempts + 1,
        execution=execution,
    )
    return resumed, events


def answered_head(head: Head, wait: WaitState, reply: Event, now: float) -> tuple[Head, list[Event]]:
    """The head of a suspended turn that has the reply to a wait, and the events that it cannot hold. The turn
    must be woken. While such events are appended, the head is held, so that no run continues without them."""
    assert head.execution is not None
    execution = Execution(
        {
            **head.execution,
            "waits": [each for each in head.execution["waits"] if each != wait],
            "wakes": [*head.execution["wakes"], wait["callback"]],
        }
    )
    answered, events = head.with_reply(reply)
    answered = replace(
        answered,
        status=status(TaskState.WORKING, now),
        due=minute_after(now + LATE_SECONDS),
        is_background=True,
        holder=REPLYING if events else "",
        lease=now + REPLY_SECONDS if events else 0.0,
        execution=execution,
    )
    return answered, events
