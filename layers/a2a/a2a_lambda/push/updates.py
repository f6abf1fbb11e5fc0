"""What a webhook is sent of a task: what its log has after the last notification.

wire posts events         each event, as in a stream; consecutive chunks of an artifact are one
wire posts tasks          the task as of each question that was answered since, then the task as it is
no earlier notification   the task as it is
is known
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from a2a_lambda.files.links import Links
from a2a_lambda.protocol.model import Event, Json, Published, Task, TaskState
from a2a_lambda.protocol.requests import Recipient
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.event_log import apply, coalesce_numbered, publish
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.push_registration import Cursor, PushRegistration
from a2a_lambda.wire.interface import Wire

MAX_EVENTS = 100
"""Events that a webhook gets one by one. If there are more, it gets the questions, and then the task."""


class Update(NamedTuple):
    """One POST to a webhook.

    body: body of the POST. cursor: how far the webhook is once it has the update.
    """

    body: Json
    cursor: Cursor


class Backlog(NamedTuple):
    """What a webhook has not had yet.

    updates: what the webhook is to be sent, in order. Each is made when it is asked for, because each may
    be a whole task; that blocks, and raises StoreError. end: how far a webhook is that has them all.
    """

    updates: Iterator[Update]
    end: Cursor


_WithCursor = tuple[Cursor, Event]


def read_backlog(store: Store, links: Links, wire: Wire, head: Head, push: PushRegistration) -> Backlog:
    """What a webhook has not been sent of a task. Blocks. Raises StoreError."""
    encoder = _Encoder(links, wire, head)
    if push.cursor is None:
        return Backlog(_task_as_it_is(store, encoder), Cursor(head.sequence, 0, head.state))
    # The cursor may point into an entry that holds several events, because a delivery can break off between
    # two of them.
    pairs = publish(store.get_events(head, after=push.cursor.sequence))
    pairs_with_cursors = list(_with_cursors(pairs, push.cursor._replace(part=0)))
    news = _with_status(head, pairs_with_cursors[push.cursor.part :], push.cursor)
    if not news:
        return Backlog(iter(()), push.cursor)
    end = news[-1][0]
    if wire.notifies_events:
        events = coalesce_numbered(news)
        if len(events) <= MAX_EVENTS:
            return Backlog(encoder.events(events), end)
        questions = encoder.events([entry for entry in events if "past" in entry[1]])
    else:
        questions = _tasks_of_questions(store, encoder, [cursor for cursor, event in news if "past" in event])
    return Backlog(chain(questions, _task_as_it_is(store, encoder, push.cursor.sequence)), end)


def _with_cursors(pairs: Iterable[Published], cursor: Cursor) -> Iterator[_WithCursor]:
    """Events with the cursor after each. cursor: before the first of them."""
    for number, event in pairs:
        state = event["statusUpdate"]["status"]["state"] if "statusUpdate" in event else cursor.state
        sequence, part = (number, 0) if number is not None else (cursor.sequence, cursor.part + 1)
        cursor = Cursor(sequence, part, state)
        yield cursor, event


def _with_status(head: Head, news: list[_WithCursor], cursor: Cursor) -> list[_WithCursor]:
    """The news, with the head's status where it belongs, unless the webhook has it already. The log does not
    have it: the closing status comes last, and that of a running turn before the turn's events."""
    last_cursor = news[-1][0] if news else cursor
    if head.is_stopped:
        if head.sequence <= last_cursor.sequence and head.state == last_cursor.state:
            return news
        return [
            *news,
            (Cursor(max(head.sequence, last_cursor.sequence), 0, head.state), head.closing_event()),
        ]
    if head.state == last_cursor.state:
        return news
    # A running turn's status was set when the turn began, so it belongs before the turn's events and after
    # the question that it answers.
    index = len(news)
    if head.state == TaskState.WORKING:
        index = max((number for number, (_, event) in enumerate(news, 1) if "past" in event), default=0)
    status_cursor = news[index - 1][0] if index else cursor
    later_news = [
        (position if "statusUpdate" in event else position._replace(state=head.state), event)
        for position, event in news[index:]
    ]
    return [*news[:index], (status_cursor._replace(state=head.state), head.closing_event()), *later_news]


class _Encoder(NamedTuple):
    """Makes updates of a task, with a URL for each stored file. head: head of the task."""

    links: Links
    wire: Wire
    head: Head

    def events(self, news: Iterable[_WithCursor]) -> Iterator[Update]:
        for cursor, event in news:
            shown_event = self.links.show_blocking(self.head.namespace, event)
            for body in self.wire.encode_event(shown_event, Recipient(self.head.namespace.owner)):
                yield Update(body, cursor)

    def task(self, task: Task, cursor: Cursor) -> Update:
        return Update(
            self.wire.encode_notification(self.links.show_blocking(self.head.namespace, task)), cursor
        )


def _tasks_of_questions(store: Store, encoder: _Encoder, questions: Sequence[Cursor]) -> Iterator[Update]:
    head = encoder.head
    events = store.get_events(head) if questions else []
    for cursor in questions:
        task = head.empty_task()
        apply(task, (event for sequence, event in events if sequence <= cursor.sequence))
        yield encoder.task(task, cursor)


def _task_as_it_is(store: Store, encoder: _Encoder, number: int = 0) -> Iterator[Update]:
    """One update. number: number of the last entry that the webhook has."""
    task, sequence = store.get_task(encoder.head)
    yield encoder.task(task, Cursor(max(sequence, number), 0, encoder.head.state))
