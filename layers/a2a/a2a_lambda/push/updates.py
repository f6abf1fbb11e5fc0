"""What a webhook has to be told of a task: what its log has after the last notification.

wire posts events      each event, as in a stream; consecutive chunks of an artifact are one
wire posts tasks       the task as of each question that was answered since, then the task as it is
nothing is known of    the task as it is
earlier notifications
"""

from collections.abc import Iterator
from typing import NamedTuple

from a2a_lambda.protocol.model import Json, Published, TaskState
from a2a_lambda.protocol.requests import Recipient
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.event_log import apply, coalesce_published, publish
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.push import PushRegistration
from a2a_lambda.wire.interface import Wire


class Update(NamedTuple):
    """body: of a POST. delivered, state: as in PushRegistration, after it."""

    body: Json
    delivered: int
    state: TaskState


def list_updates(store: Store, wire: Wire, head: Head, push: PushRegistration) -> list[Update]:
    """What the webhook has to be told, in order. Blocks. Raises StoreError."""
    if push.delivered is None or push.state is None:
        return [_task_as_it_is(store, wire, head)]
    published = list(publish(store.get_events(head, after=push.delivered)))
    if head.is_stopped and head.sequence > push.delivered:
        published.append((head.sequence, head.closing_event()))
    elif not head.is_stopped and head.state != _last_state(published, push.state):
        published.append((None, head.closing_event()))
    if not published:
        return []
    if wire.notifies_events:
        return list(_events(wire, head, published, push.delivered, push.state))
    return [*_tasks_of_questions(store, wire, head, published), _task_as_it_is(store, wire, head)]


def _events(
    wire: Wire, head: Head, published: list[Published], delivered: int, state: TaskState
) -> Iterator[Update]:
    for sequence, event in coalesce_published(published):
        delivered = sequence or delivered
        state = _last_state([(sequence, event)], state)
        for body in wire.encode_event(event, Recipient(head.scope.owner)):
            yield Update(body, delivered, state)


def _tasks_of_questions(store: Store, wire: Wire, head: Head, published: list[Published]) -> Iterator[Update]:
    for asked, event in published:
        if asked is not None and "past" in event:
            task = head.empty_task()
            apply(task, (each for sequence, each in store.get_events(head) if sequence <= asked))
            yield Update(wire.encode_notification(task), asked, task["status"]["state"])


def _task_as_it_is(store: Store, wire: Wire, head: Head) -> Update:
    task, sequence = store.get_task(head)
    return Update(wire.encode_notification(task), sequence, head.state)


def _last_state(published: list[Published], default: TaskState) -> TaskState:
    states = [event["statusUpdate"]["status"]["state"] for _, event in published if "statusUpdate" in event]
    return states[-1] if states else default
