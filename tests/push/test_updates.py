"""What is posted to a webhook: what changed, once and in order."""

import random
import uuid
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.files.links import Links
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import (
    Artifact,
    Event,
    Message,
    Part,
    Role,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
    status,
)
from a2a_lambda.push.updates import MAX_EVENTS, Update, read_backlog
from a2a_lambda.settings import Settings
from a2a_lambda.store.items import Cursor, PushRegistration
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Scope
from a2a_lambda.wire import negotiation
from tests.helpers.clock import Clock
from tests.helpers.rest import Rest
from tests.helpers.rpc import Rpc, intent, message
from tests.push.courier import Courier, Webhook

pytestmark = pytest.mark.slow


Json = Any


def kinds(webhook: Webhook) -> list[str]:
    """Of 1.0: artifacts' texts, and states."""
    return [kind_of(body) for _, body, _ in webhook.seen]


def kind_of(body: Json) -> str:
    if "artifactUpdate" in body:
        return "".join(part.get("text", "") for part in body["artifactUpdate"]["artifact"]["parts"])
    if "task" in body:
        return "task"
    return str(body["statusUpdate"]["status"]["state"].removeprefix("TASK_STATE_").lower())


def test_a_delivery_may_break_off_at_each_event_of_an_entry(
    rest: Rest, webhook: Webhook, courier: Courier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a slow webhook, of which one delivery after another has no time for a second call."""
    monkeypatch.setattr("a2a_lambda.push.delivery.DELIVERY_SECONDS", 0.0)
    config = {"taskPushNotificationConfig": {"url": webhook.url}}
    rest.send("shelf", slots={"count": "20"}, configuration=config)
    courier.relay()
    courier.deliver()
    assert kinds(webhook) == [*(f"text {number}" for number in range(20)), "completed"]


def test_each_change_is_posted_once_and_in_order(rest: Rest, webhook: Webhook, courier: Courier) -> None:
    rest.send("everything", configuration={"taskPushNotificationConfig": {"url": webhook.url}})
    courier.relay()
    assert courier.deliver() == [True, True]  # claimed, and completed: both are told by the first
    said = kinds(webhook)
    assert said[:2] == ["working", "text"]
    assert said.count("first second") == 1
    assert said[-1] == "completed"
    assert said.count("completed") == said.count("working") == 1
    assert webhook.seen[0][1]["statusUpdate"]["status"]["message"]["parts"][0]["text"] == "thinking"


def test_a_question_is_posted_however_soon_it_is_answered(
    rest: Rest, webhook: Webhook, courier: Courier
) -> None:
    asked = rest.send(
        "question", slots={"length": 3}, configuration={"taskPushNotificationConfig": {"url": webhook.url}}
    )
    rest.send("question", taskId=asked["id"])
    courier.relay()
    courier.deliver()
    assert kinds(webhook) == ["input_required", "thanks", "completed"]
    assert webhook.seen[0][1]["statusUpdate"]["status"]["message"]["parts"] == [{"text": "???"}]


def test_in_0_3_it_is_the_task_as_of_the_question(rest: Rest, webhook: Webhook, courier: Courier) -> None:
    rpc = Rpc(rest.client, rest.headers["X-API-Key"], "/a2a/probe")
    options = {"configuration": {"pushNotificationConfig": {"url": webhook.url}}}
    slots = intent("question", length="3")
    asked = rpc.call("message/send", {"message": message(metadata=slots), **options})
    rpc.call("message/send", {"message": message(taskId=asked["id"], metadata=intent("question"))})
    courier.relay()
    courier.deliver()
    [first, last] = [body for _, body, _ in webhook.seen]
    assert first["status"]["state"] == "input-required"
    assert first["status"]["message"]["parts"][0]["text"] == "???"
    assert "artifacts" not in first
    assert last["status"]["state"] == "completed"
    assert last["artifacts"][0]["parts"][0]["text"] == "thanks"


def test_a_call_that_fails_repeats_none_before_it(rest: Rest, webhook: Webhook, courier: Courier) -> None:
    rest.send("step", configuration={"taskPushNotificationConfig": {"url": webhook.url}})
    courier.relay()
    webhook.answers = [200, 503]
    assert courier.deliver() == [True, True, True], "the rest has a message, and attempts, of its own"
    assert kinds(webhook) == ["working", "It is done.", "It is done.", "completed"]


def test_neither_within_an_entry_of_the_log(rest: Rest, webhook: Webhook, courier: Courier) -> None:
    slots = {"count": 40}
    rest.send("shelf", slots=slots, configuration={"taskPushNotificationConfig": {"url": webhook.url}})
    courier.relay()
    webhook.answers = [200] * 25 + [503]
    courier.deliver()
    books = [f"text {number}" for number in range(40)]
    assert kinds(webhook) == [*books[:25], *books[25:26], *books[25:], "completed"]


def test_a_webhook_gets_the_task_instead_of_very_many_events(
    rest: Rest, webhook: Webhook, courier: Courier
) -> None:
    slots = {"count": MAX_EVENTS}
    rest.send("shelf", slots=slots, configuration={"taskPushNotificationConfig": {"url": webhook.url}})
    courier.relay()
    courier.deliver()
    [(_, body, _)] = webhook.seen
    assert len(body["task"]["artifacts"]) == MAX_EVENTS


@pytest.mark.parametrize("status", [410, 200])
def test_a_webhook_that_is_gone_is_left_alone(
    rest: Rest, webhook: Webhook, courier: Courier, status: int
) -> None:
    webhook.status = status
    rest.send("shelf", configuration={"taskPushNotificationConfig": {"url": webhook.url}})
    courier.relay()
    assert courier.deliver() == [True, True]
    assert len(webhook.seen) == (1 if status == 410 else 11)


@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_a_config_that_is_sent_again_keeps_its_place(
    rest: Rest, webhook: Webhook, courier: Courier, version: str
) -> None:
    """A client may repeat its config with every message, or change a token that the webhook refused."""
    rpc = Rpc(rest.client, rest.headers["X-API-Key"], "/a2a/probe")
    if version == "1.0":
        options: Json = {"configuration": {"taskPushNotificationConfig": {"id": "a", "url": webhook.url}}}
        asked = rest.send("question", slots={"length": 3}, **options)
        rest.send("question", taskId=asked["id"], **options)
    else:
        options = {"configuration": {"pushNotificationConfig": {"url": webhook.url}}}
        first = message(metadata=intent("question", length="3"))
        asked = rpc.call("message/send", {"message": first, **options})
        answer = message(taskId=asked["id"], metadata=intent("question"))
        rpc.call("message/send", {"message": answer, **options})
    courier.relay()
    courier.deliver()
    bodies = [body for _, body, _ in webhook.seen]
    if version == "1.0":
        assert kinds(webhook) == ["input_required", "thanks", "completed"]
    else:
        assert [body["status"]["state"] for body in bodies] == ["input-required", "completed"]


def updates_of(store: Store, wire: Any, head: Head, push: PushRegistration) -> list[Update]:
    return list(read_backlog(store, Links(None), wire, head, push).updates)


def test_one_task_at_a_time_is_made_for_a_webhook(store: Store, scope: Scope) -> None:
    """A backlog of large tasks, one for each question, would not fit into the function's memory."""
    head = store.new_head(scope, str(uuid.uuid4()), "c", status(TaskState.WORKING, 1), "0.3")
    store.create_head(head)
    number = 0
    for turn in range(3):
        question = replace(head, status=status(TaskState.INPUT_REQUIRED, turn)).closing_event()
        number = store.append(head, [chunk(head, "x", "a"), question], after=number)
    made: list[int] = []

    def encode(task: Any) -> Json:
        made.append(1)
        return {}

    wire = replace(negotiation.wire_named("0.3"), encode_notification=encode)
    config: Any = {"id": "a", "taskId": head.task_id, "url": "https://example.com/"}
    push = PushRegistration(config, "0.3", Cursor(0, 0, TaskState.WORKING))
    backlog = read_backlog(store, Links(None), wire, head, push)
    assert [len(made) for _ in backlog.updates] == [1, 2, 3, 4]


def test_an_end_in_the_place_of_a_question_is_told(store: Store, scope: Scope) -> None:
    """A turn that could not begin ends its task with the number that the question had."""
    head = store.new_head(scope, str(uuid.uuid4()), "c", status(TaskState.INPUT_REQUIRED, 1), "1.0")
    head = replace(head, sequence=3)
    config: Any = {"id": "a", "taskId": head.task_id, "url": "https://example.com/"}
    for name in ("1.0", "0.3"):
        push = PushRegistration(config, name, Cursor(3, 0, TaskState.INPUT_REQUIRED))
        wire = negotiation.wire_named(name)
        assert updates_of(store, wire, head, push) == []
        failed = replace(head, status=status(TaskState.FAILED, 2))
        [update] = updates_of(store, wire, failed, push)
        assert "failed" in str(update.body).lower()
        assert updates_of(store, wire, failed, push._replace(cursor=update.cursor)) == []


def test_a_slow_webhook_gets_the_rest_from_the_next_delivery(
    rest: Rest, webhook: Webhook, courier: Courier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a2a_lambda.push.delivery.DELIVERY_SECONDS", 0.0)
    slots = {"count": 4}
    rest.send("shelf", slots=slots, configuration={"taskPushNotificationConfig": {"url": webhook.url}})
    courier.relay()
    assert courier.deliver().count(True) >= 5
    assert kinds(webhook) == [*(f"text {number}" for number in range(4)), "completed"]


def test_a_config_that_was_set_on_an_ended_task_is_told_nothing(
    rest: Rest, webhook: Webhook, courier: Courier
) -> None:
    task = rest.send()
    rest.call("POST", f"tasks/{task['id']}/pushNotificationConfigs", {"url": webhook.url})
    courier.relay()
    courier.deliver()
    assert webhook.seen == []


def test_a_config_of_an_earlier_release_gets_the_task_once(
    rest: Rest, webhook: Webhook, courier: Courier, posting: Kit
) -> None:
    task = rest.send(configuration={"taskPushNotificationConfig": {"url": webhook.url, "id": "a"}})
    courier.relay()
    table, dynamodb = posting.settings.table, clients.dynamodb(posting.settings)
    pages = dynamodb.get_paginator("scan").paginate(TableName=table)
    for item in (item for page in pages for item in page["Items"]):
        if item["pk"]["S"].endswith(task["id"]) and item["sk"]["S"] == "push#a":
            dynamodb.put_item(
                TableName=table,
                Item={name: value for name, value in item.items() if name != "told"},
            )
    assert courier.deliver() == [True, True]
    [(_, body, _)] = webhook.seen
    assert body["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.fixture
def store(settings: Settings, clock: Clock) -> Store:
    return Store(Table(clients.dynamodb(settings), settings.table, clock=clock), ttl=1000)


def test_a_cursor_moves_forward_only_and_outlives_a_change_of_its_config(store: Store, scope: Scope) -> None:
    head = store.new_head(scope, str(uuid.uuid4()), "c", status(TaskState.WORKING, 0))
    config: Any = {"id": "a", "taskId": head.task_id, "url": "https://example.com/old"}
    cursor = Cursor(3, 1, TaskState.WORKING)
    push = PushRegistration(config, "1.0", cursor)
    store.put_push_config(head, push)
    for late in (Cursor(2, 5, TaskState.COMPLETED), Cursor(3, 0, TaskState.COMPLETED)):
        store.advance_push(scope, head.task_id, "a", late)
        assert store.get_push_config(scope, head.task_id, "a") == push
    # Set again: the cursor stays, because the webhook has not been told what follows it.
    newer = PushRegistration(config | {"url": "https://example.com/new"}, "0.3", cursor)
    store.put_push_config(head, newer._replace(cursor=Cursor(9, 0, TaskState.COMPLETED)))
    assert store.get_push_config(scope, head.task_id, "a") == newer
    store.put_push_config(head, push._replace(cursor=None))
    assert store.get_push_config(scope, head.task_id, "a") == newer
    later = Cursor(4, 0, TaskState.COMPLETED)
    store.advance_push(scope, head.task_id, "a", later)
    assert store.get_push_config(scope, head.task_id, "a") == newer._replace(cursor=later)
    store.delete_push_config(scope, head.task_id, "a")
    store.advance_push(scope, head.task_id, "a", later)
    assert store.get_push_config(scope, head.task_id, "a") is None


@pytest.mark.parametrize("seed", range(20))
def test_deliveries_at_any_moment_add_up_to_the_task(store: Store, scope: Scope, seed: int) -> None:
    """A task of three turns, two of them with a question. Whenever the webhook is called, 1.0 has each event
    once, in order; 0.3 has every question, and the task at last."""
    chance = random.Random(seed)
    head = store.new_head(scope, str(uuid.uuid4()), "c", status(TaskState.WORKING, 1), "1.0")
    store.create_head(head)
    config: Any = {"id": "a", "taskId": head.task_id, "url": "https://example.com/"}
    pushes = {
        name: PushRegistration(config, name, Cursor(0, 0, TaskState.WORKING)) for name in ("1.0", "0.3")
    }
    told: dict[str, list[Json]] = {name: [] for name in pushes}
    wanted: list[str] = []

    def look(head: Head, share: float = 0.5) -> None:
        for name, push in pushes.items():
            if chance.random() < share:
                found = updates_of(store, negotiation.wire_named(name), head, push)
                reached = chance.randint(1, len(found)) if found and share < 1 else len(found)
                for body, cursor in found[:reached]:  # the next call fails
                    told[name].append(body)
                    pushes[name] = push._replace(cursor=cursor)
                chunks = [body.get("artifactUpdate", {}).get("artifact") for body, _ in found]
                for before, after in pairwise(chunks):
                    assert not (before and after) or before["artifactId"] != after["artifactId"], "one"

    for turn, end in enumerate((TaskState.INPUT_REQUIRED, TaskState.INPUT_REQUIRED, TaskState.COMPLETED)):
        last = head.log_end
        opening: list[Event] = [head.closing_event()] if head.is_stopped else []
        opening.append(Event(message=words(f"turn {turn}", Role.USER)))
        last = store.append(head, opening, after=last)
        if turn:
            head = store.update_head(replace(head, status=status(TaskState.WORKING, turn), sequence=last))
        look(head)
        for _ in range(chance.randint(0, 4)):
            events = [
                chance.choice((progress, chunk, chunk))(
                    head, f"{turn}.{chance.random()}", chance.choice("ab")
                )
                for _ in range(chance.choice((1, 2, 20)))
            ]
            wanted += [text_of(event) for event in events]
            last = store.append(head, events, after=last)
            look(head)
        closing = status(end, 10 + turn, message=words(f"{end} {turn}"))
        head = store.update_head(replace(head, status=closing, sequence=last + 1))
        wanted.append(text_of(head.closing_event()))
        look(head)
    look(head, 1)
    look(head, 1)
    # A turn's first status has no text, and is told only if the webhook is called while it counts.
    assert "".join(text_of(body) for body in told["1.0"]) == "".join(wanted)
    statuses = [body["statusUpdate"]["status"] for body in told["1.0"] if "statusUpdate" in body]
    for before, after in pairwise(statuses):
        assert before["state"] != after["state"] or text_of_status(after), "a state is no news twice"
    for earlier, body in pairwise(told["1.0"]):
        if "statusUpdate" in body and not text_of(body):
            assert "INPUT_REQUIRED" in str(earlier), "a turn's first status comes before its events"
    states = [body["status"] for body in told["0.3"]]
    questions = [each["message"]["parts"][0]["text"] for each in states if each["state"] == "input-required"]
    assert questions == [f"{TaskState.INPUT_REQUIRED} 0", f"{TaskState.INPUT_REQUIRED} 1"]
    assert [each["state"] for each in states].count("completed") == 1
    assert len({str(body) for body in told["0.3"]}) == len(told["0.3"]), "no body twice"


def words(text: str, role: Role = Role.AGENT) -> Message:
    return Message(messageId=str(uuid.uuid4()), role=role, parts=[Part(text=text)])


def progress(head: Head, text: str, _: str) -> Event:
    made = status(TaskState.WORKING, 5, message=words(text))
    return Event(statusUpdate=TaskStatusUpdateEvent(taskId=head.task_id, contextId="c", status=made))


def chunk(head: Head, text: str, identity: str) -> Event:
    artifact = Artifact(artifactId=identity, parts=[Part(text=text)])
    return Event(
        artifactUpdate=TaskArtifactUpdateEvent(
            taskId=head.task_id, contextId="c", artifact=artifact, append=True, lastChunk=False
        )
    )


def text_of(body: Json) -> str:
    if "artifactUpdate" in body:
        return "".join(part["text"] for part in body["artifactUpdate"]["artifact"]["parts"])
    return text_of_status(body["statusUpdate"]["status"])


def text_of_status(found: Json) -> str:
    return "".join(part["text"] for part in found.get("message", {"parts": []})["parts"])
