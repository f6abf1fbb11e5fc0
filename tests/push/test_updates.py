"""What is posted to a webhook: what changed, once and in order."""

from typing import Any

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.kit import Kit
from a2a_lambda.push.updates import MAX_EVENTS
from tests.helpers.rest import Rest
from tests.helpers.rpc import Rpc, intent, message
from tests.push.courier import Courier, Webhook

pytestmark = pytest.mark.slow


def kinds(webhook: Webhook) -> list[str]:
    """Of 1.0: artifacts' texts, and states."""
    return [kind_of(body) for _, body, _ in webhook.seen]


def kind_of(body: Any) -> str:
    if "artifactUpdate" in body:
        return "".join(part.get("text", "") for part in body["artifactUpdate"]["artifact"]["parts"])
    if "task" in body:
        return "task"
    return str(body["statusUpdate"]["status"]["state"].removeprefix("TASK_STATE_").lower())


def test_a_slow_webhook_gets_each_event_from_the_next_delivery(
    rest: Rest, webhook: Webhook, courier: Courier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the events within an entry of the log so, too: no delivery has time for a second call."""
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
    posted_kinds = kinds(webhook)
    assert posted_kinds[:2] == ["working", "text"]
    assert posted_kinds.count("first second") == 1
    assert posted_kinds[-1] == "completed"
    assert posted_kinds.count("completed") == posted_kinds.count("working") == 1
    assert webhook.seen[0][1]["statusUpdate"]["status"]["message"]["parts"][0]["text"] == "thinking"


def test_a_question_is_posted_however_soon_it_is_answered(
    rest: Rest, webhook: Webhook, courier: Courier
) -> None:
    question = rest.send(
        "question", slots={"length": 3}, configuration={"taskPushNotificationConfig": {"url": webhook.url}}
    )
    rest.send("question", taskId=question["id"])
    courier.relay()
    courier.deliver()
    assert kinds(webhook) == ["input_required", "thanks", "completed"]
    assert webhook.seen[0][1]["statusUpdate"]["status"]["message"]["parts"] == [{"text": "???"}]


def test_in_0_3_it_is_the_task_as_of_the_question(rest: Rest, webhook: Webhook, courier: Courier) -> None:
    rpc = Rpc(rest.client, rest.headers["X-API-Key"], "/a2a/probe")
    options = {"configuration": {"pushNotificationConfig": {"url": webhook.url}}}
    slots = intent("question", length="3")
    question = rpc.call("message/send", {"message": message(metadata=slots), **options})
    rpc.call("message/send", {"message": message(taskId=question["id"], metadata=intent("question"))})
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
        options: Any = {"configuration": {"taskPushNotificationConfig": {"id": "a", "url": webhook.url}}}
        question = rest.send("question", slots={"length": 3}, **options)
        rest.send("question", taskId=question["id"], **options)
    else:
        options = {"configuration": {"pushNotificationConfig": {"url": webhook.url}}}
        first = message(metadata=intent("question", length="3"))
        question = rpc.call("message/send", {"message": first, **options})
        answer = message(taskId=question["id"], metadata=intent("question"))
        rpc.call("message/send", {"message": answer, **options})
    courier.relay()
    courier.deliver()
    bodies = [body for _, body, _ in webhook.seen]
    if version == "1.0":
        assert kinds(webhook) == ["input_required", "thanks", "completed"]
    else:
        assert [body["status"]["state"] for body in bodies] == ["input-required", "completed"]


def test_a_config_that_was_set_on_an_ended_task_is_told_nothing(
    rest: Rest, webhook: Webhook, courier: Courier
) -> None:
    task = rest.send()
    rest.call("POST", f"tasks/{task['id']}/pushNotificationConfigs", {"url": webhook.url})
    courier.relay()
    courier.deliver()
    assert webhook.seen == []


def test_a_config_without_a_cursor_gets_the_task_once(
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
                Item={name: value for name, value in item.items() if not name.startswith("sent_")},
            )
    assert courier.deliver() == [True, True]
    [(_, body, _)] = webhook.seen
    assert body["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
