"""The head of a durable turn, when it is suspended, and when it continues.

WORKING, held ── pause or wait ── WORKING, suspended ────────── the execution runs again ── WORKING, held
           └──── wait with a question ── INPUT_REQUIRED, suspended ── reply, or timeout ──┘
"""

import secrets
from dataclasses import replace

from a2a_lambda.durable.engine import Suspended, Wait
from a2a_lambda.protocol.model import Event, TaskState, TaskStatus, make_status, text_message
from a2a_lambda.tasks.execution import Execution, StoredWait
from a2a_lambda.tasks.head import REPLYING, Head, Place, sweep_minute
from a2a_lambda.tasks.identity import question_id

LATE_SECONDS = 120.0
"""Seconds after the end of a pause at which the sweep checks whether the turn has continued."""

REPLY_SECONDS = 10.0
"""Seconds for which other processes wait while a reply is stored. A process that has not stored it by then
counts as dead."""

REPLY_POLL_SECONDS = 0.2
"""Seconds between looks at a task whose reply is being stored."""

EXECUTION_LOOK_SECONDS = 86_400.0
"""Seconds after which, at the latest, the sweep checks whether a suspended turn still has its execution."""


def new_execution(url: str) -> Execution:
    """The execution of a turn that has not begun. url: base URL of the deployment."""
    return Execution(url, secrets.token_urlsafe(32))


def execution_of(head: Head) -> Execution:
    """The execution of a durable turn. The head must have one."""
    assert head.execution is not None
    return head.execution


def wait_to_ask(suspension: Suspended, old_head: Head | None) -> Wait | None:
    """The wait whose question the client is asked. If there are several, the one that was asked before stays.

    old_head: the head before this run, which may have asked already.
    """
    questions = [open_wait.wait for open_wait in suspension.waits if open_wait.wait.question is not None]
    waits = old_head.execution.waits if old_head is not None and old_head.execution is not None else ()
    keys = {wait.key for wait in waits if wait.is_question}
    return next((wait for wait in questions if wait.key in keys), next(iter(questions), None))


def question_status(turn_id: str, task_id: str, context_id: str, wait: Wait, now: float) -> TaskStatus:
    """Status of a task whose client is asked the question of a turn's wait."""
    message = text_message(task_id, context_id, wait.question or "", wait.choices)
    message["messageId"] = question_id(turn_id, wait.key, wait.question or "")
    return make_status(TaskState.AUTH_REQUIRED if wait.is_sign_in else TaskState.INPUT_REQUIRED, now, message)


def suspended_head(
    head: Head, suspension: Suspended, question: Wait | None, sequence: int, now: float
) -> Head:
    """The head of a turn that is suspended.

    question: the wait whose question the client is asked, or None. sequence: last number stored.
    """
    times = [
        time for time in (suspension.until, *(open_wait.until for open_wait in suspension.waits)) if time
    ]
    waits = tuple(
        StoredWait(
            key=open_wait.wait.key,
            callback=open_wait.callback_id,
            is_question=open_wait.wait is question,
            takes_messages=open_wait.wait.takes_messages,
            until=open_wait.until,
        )
        for open_wait in suspension.waits
    )
    execution = replace(execution_of(head), is_suspended=True, until=min(times, default=0.0), waits=waits)
    # The sweep looks shortly after the timer should have fired, but at least once a day, to see whether the
    # execution still exists.
    due = sweep_minute(min([*times, now + EXECUTION_LOOK_SECONDS]) + LATE_SECONDS)
    # A turn that asks is stopped for its client, as after `Ask`. One that pauses, or waits for another
    # system, is still working.
    if question is None:
        working_status = make_status(TaskState.WORKING, now)
        new_head = replace(head, status=working_status, sequence=sequence, holder="", lease=0.0)
    else:
        asking_status = question_status(head.turn_id, head.task_id, head.context_id, question, now)
        new_head = head.with_closing_status(asking_status, sequence, head.pending)
    return replace(new_head, attempts=0, due=due, place=Place.EXECUTION, execution=execution)


def with_old_question(new_head: Head, old_head: Head, *, has_new_events: bool) -> Head:
    """The head of a turn that asks the same question again, because the run that asked it died, or a timer
    woke the turn. The client sees one question, not two.

    new_head: what `suspended_head` made. old_head: the head before that. has_new_events: the turn has output
    something since.
    """
    new_question, old_question = (head.status.get("message") for head in (new_head, old_head))
    if has_new_events or new_head.state != old_head.state or new_question != old_question:
        return new_head
    return replace(
        new_head,
        status=old_head.status,
        inline=old_head.inline,
        sequence=old_head.sequence,
        committed=old_head.log_end,
    )


def resumed_head(head: Head, arn: str, now: float) -> tuple[Head, list[Event]]:
    """The head of a turn that a process continues, and the events that it cannot hold. arn: ARN of the
    execution."""
    execution = execution_of(head)
    # Another timer than the question's own may have woken the turn, while the client's reply is on its way.
    questions = tuple(wait for wait in execution.waits if wait.is_question and not 0 < wait.until <= now)
    execution = replace(execution, arn=arn, is_suspended=False, until=0.0, waits=questions, wakes=())
    events: list[Event] = []
    if head.is_stopped:  # it asked, and no one replied in time
        head, events = head.with_new_epoch().with_events([head.closing_event()])
    return replace(head.with_holder(now), execution=execution), events


def reply_events(head: Head, reply: Event) -> list[Event]:
    """What a reply adds to the log. If the task asked, the question becomes an event, too."""
    return [head.closing_event(), reply] if head.is_stopped else [reply]


def replying_head(head: Head, now: float) -> Head:
    """The head of a suspended turn while a reply is appended that the head cannot hold. Meanwhile no run
    continues without the reply, and no other reply comes between."""
    return replace(head.with_new_epoch(), holder=REPLYING, lease=now + REPLY_SECONDS)


def answered_head(head: Head, wait: StoredWait, now: float) -> Head:
    """The head of a suspended turn whose log has the reply to a wait. The execution must be woken."""
    execution = execution_of(head)
    waits = tuple(other for other in execution.waits if other != wait)
    return replace(
        head,
        status=make_status(TaskState.WORKING, now),
        due=sweep_minute(now + LATE_SECONDS),
        holder="",
        lease=0.0,
        execution=replace(execution, waits=waits, wakes=(*execution.wakes, wait.callback)),
    )
