"""The backlog of a webhook: in order, and each change once, whenever a delivery breaks off."""

import random
import uuid
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.files.links import Links
from a2a_lambda.protocol.model import (
    Artifact,
    Event,
    Message,
    Part,
    Role,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
    make_status,
)
from a2a_lambda.push.updates import Update, read_backlog
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.tasks.push_registration import Cursor, PushRegistration
from a2a_lambda.wire import negotiation
from tests.helpers.clock import Clock


def updates_of(store: Store, wire: Any, head: Head, push: PushRegistration) -> list[Update]:
    return list(read_backlog(store, Links(None), wire, head, push).updates)


def test_one_task_at_a_time_is_made_for_a_webhook(store: Store, namespace: Namespace) -> None:
    """A backlog of large tasks, one for each question, would not fit into the function's memory."""
    head = store.new_head(namespace, str(uuid.uuid4()), "c", make_status(TaskState.WORKING, 1), "0.3")
    store.create_head(head)
    number = 0
    for turn in range(3):
        question = replace(head, status=make_status(TaskState.INPUT_REQUIRED, turn)).closing_event()
        number = store.append(head, [chunk(head, "x", "a"), question], after=number)
    encodings: list[int] = []

    def encode(task: Any) -> Any:
        encodings.append(1)
        return {}

    wire = replace(negotiation.wire_named("0.3"), encode_notification=encode)
    config: Any = {"id": "a", "taskId": head.task_id, "url": "https://example.com/"}
    push = PushRegistration(config, "0.3", Cursor(0, 0, TaskState.WORKING))
    backlog = read_backlog(store, Links(None), wire, head, push)
    assert [len(encodings) for _ in backlog.updates] == [1, 2, 3, 4]


def test_an_end_in_the_place_of_a_question_is_told(store: Store, namespace: Namespace) -> None:
    """A turn that could not begin ends its task with the number that the question had."""
    head = store.new_head(namespace, str(uuid.uuid4()), "c", make_status(TaskState.INPUT_REQUIRED, 1), "1.0")
    head = replace(head, sequence=3)
    config: Any = {"id": "a", "taskId": head.task_id, "url": "https://example.com/"}
    for name in ("1.0", "0.3"):
        push = PushRegistration(config, name, Cursor(3, 0, TaskState.INPUT_REQUIRED))
        wire = negotiation.wire_named(name)
        assert updates_of(store, wire, head, push) == []
        head_at_end = replace(head, status=make_status(TaskState.FAILED, 2))
        [update] = updates_of(store, wire, head_at_end, push)
        assert "failed" in str(update.body).lower()
        assert updates_of(store, wire, head_at_end, push._replace(cursor=update.cursor)) == []


@pytest.fixture
def store(settings: Settings, clock: Clock) -> Store:
    return Store(Table(clients.dynamodb(settings), settings.table, clock=clock), ttl=1000)


def test_a_cursor_moves_forward_only_and_outlives_a_change_of_its_config(
    store: Store, namespace: Namespace
) -> None:
    head = store.new_head(namespace, str(uuid.uuid4()), "c", make_status(TaskState.WORKING, 0))
    config: Any = {"id": "a", "taskId": head.task_id, "url": "https://example.com/old"}
    cursor = Cursor(3, 1, TaskState.WORKING)
    push = PushRegistration(config, "1.0", cursor)
    store.put_push_config(head, push)
    for late in (Cursor(2, 5, TaskState.COMPLETED), Cursor(3, 0, TaskState.COMPLETED)):
        store.advance_push(namespace, head.task_id, "a", late)
        assert store.get_push_config(namespace, head.task_id, "a") == push
    # The client sets it again. Its cursor stays, because the webhook still has to get what comes after it.
    newer = PushRegistration(config | {"url": "https://example.com/new"}, "0.3", cursor)
    store.put_push_config(head, newer._replace(cursor=Cursor(9, 0, TaskState.COMPLETED)))
    assert store.get_push_config(namespace, head.task_id, "a") == newer
    store.put_push_config(head, push._replace(cursor=None))
    assert store.get_push_config(namespace, head.task_id, "a") == newer
    later = Cursor(4, 0, TaskState.COMPLETED)
    store.advance_push(namespace, head.task_id, "a", later)
    assert store.get_push_config(namespace, head.task_id, "a") == newer._replace(cursor=later)
    store.delete_push_config(namespace, head.task_id, "a")
    store.advance_push(namespace, head.task_id, "a", later)
    assert store.get_push_config(namespace, head.task_id, "a") is None


@pytest.mark.parametrize("seed", range(20))
def test_deliveries_at_any_moment_add_up_to_the_task(store: Store, namespace: Namespace, seed: int) -> None:
    """A task of three turns, two of them with a question. Whenever the webhook is called, 1.0 has each event
    once, in order; 0.3 has every question, and the task at last."""
    chance = random.Random(seed)
    head = store.new_head(namespace, str(uuid.uuid4()), "c", make_status(TaskState.WORKING, 1), "1.0")
    store.create_head(head)
    config: Any = {"id": "a", "taskId": head.task_id, "url": "https://example.com/"}
    pushes = {
        name: PushRegistration(config, name, Cursor(0, 0, TaskState.WORKING)) for name in ("1.0", "0.3")
    }
    posts: dict[str, list[Any]] = {name: [] for name in pushes}
    expected_texts: list[str] = []

    def look(head: Head, share: float = 0.5) -> None:
        for name, push in pushes.items():
            if chance.random() < share:
                updates = updates_of(store, negotiation.wire_named(name), head, push)
                count = chance.randint(1, len(updates)) if updates and share < 1 else len(updates)
                for body, cursor in updates[:count]:  # the next call fails
                    posts[name].append(body)
                    pushes[name] = push._replace(cursor=cursor)
                chunks = [body.get("artifactUpdate", {}).get("artifact") for body, _ in updates]
                for before, after in pairwise(chunks):
                    assert not (before and after) or before["artifactId"] != after["artifactId"], "one"

    for turn, end in enumerate((TaskState.INPUT_REQUIRED, TaskState.INPUT_REQUIRED, TaskState.COMPLETED)):
        last = head.log_end
        opening: list[Event] = [head.closing_event()] if head.is_stopped else []
        opening.append(Event(message=words(f"turn {turn}", Role.USER)))
        last = store.append(head, opening, after=last)
        if turn:
            head = store.update_head(
                replace(head, status=make_status(TaskState.WORKING, turn), sequence=last)
            )
        look(head)
        for _ in range(chance.randint(0, 4)):
            events = [
                chance.choice((progress, chunk, chunk))(
                    head, f"{turn}.{chance.random()}", chance.choice("ab")
                )
                for _ in range(chance.choice((1, 2, 20)))
            ]
            expected_texts += [text_of(event) for event in events]
            last = store.append(head, events, after=last)
            look(head)
        closing = make_status(end, 10 + turn, message=words(f"{end} {turn}"))
        head = store.update_head(replace(head, status=closing, sequence=last + 1))
        expected_texts.append(text_of(head.closing_event()))
        look(head)
    look(head, 1)
    look(head, 1)
    # A turn's first status has no text. It is sent only if the webhook is called before the next status.
    assert "".join(text_of(body) for body in posts["1.0"]) == "".join(expected_texts)
    statuses = [body["statusUpdate"]["status"] for body in posts["1.0"] if "statusUpdate" in body]
    for before, after in pairwise(statuses):
        assert before["state"] != after["state"] or text_of_status(after), "a state is no news twice"
    for earlier, body in pairwise(posts["1.0"]):
        if "statusUpdate" in body and not text_of(body):
            assert "INPUT_REQUIRED" in str(earlier), "a turn's first status comes before its events"
    states = [body["status"] for body in posts["0.3"]]
    questions = [each["message"]["parts"][0]["text"] for each in states if each["state"] == "input-required"]
    assert questions == [f"{TaskState.INPUT_REQUIRED} 0", f"{TaskState.INPUT_REQUIRED} 1"]
    assert [each["state"] for each in states].count("completed") == 1
    assert len({str(body) for body in posts["0.3"]}) == len(posts["0.3"]), "no body twice"


def words(text: str, role: Role = Role.AGENT) -> Message:
    return Message(messageId=str(uuid.uuid4()), role=role, parts=[Part(text=text)])


def progress(head: Head, text: str, _: str) -> Event:
    status = make_status(TaskState.WORKING, 5, message=words(text))
    return Event(statusUpdate=TaskStatusUpdateEvent(taskId=head.task_id, contextId="c", status=status))


def chunk(head: Head, text: str, identity: str) -> Event:
    artifact = Artifact(artifactId=identity, parts=[Part(text=text)])
    return Event(
        artifactUpdate=TaskArtifactUpdateEvent(
            taskId=head.task_id, contextId="c", artifact=artifact, append=True, lastChunk=False
        )
    )


def text_of(body: Any) -> str:
    if "artifactUpdate" in body:
        return "".join(part["text"] for part in body["artifactUpdate"]["artifact"]["parts"])
    return text_of_status(body["statusUpdate"]["status"])


def text_of_status(task_status: Any) -> str:
    return "".join(part["text"] for part in task_status.get("message", {"parts": []})["parts"])
