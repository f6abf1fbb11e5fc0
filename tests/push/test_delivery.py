"""Push notifications: relayed from the table's stream, delivered in the dialect they were asked for in."""

import asyncio
import base64
import hashlib
import json
import uuid
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from starlette.testclient import TestClient

from a2a_lambda.aws import clients, hot_path
from a2a_lambda.aws.signing import Signer
from a2a_lambda.files.files import Files
from a2a_lambda.files.links import Links
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.lambda_.batch import NotificationHandler
from a2a_lambda.net.addresses import Unresolved
from a2a_lambda.protocol.model import unix_time
from a2a_lambda.push.delivery import CONFIG_SECONDS, PushNotifications, Undelivered
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Namespace
from tests.aws.fake_kms import Kms
from tests.conftest import BASE_URL
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc, intent, message
from tests.push.courier import Courier, Webhook
from tools.registers.keys import KeyRegister

pytestmark = pytest.mark.slow


def test_1_0(rest: Rest, webhook: Webhook, courier: Courier) -> None:
    question = rest.send("question")
    authentication = {"scheme": "Bearer", "credentials": "secret-credentials"}
    config = {"id": "a", "url": webhook.url, "token": "secret-token", "authentication": authentication}
    rest.call("POST", f"tasks/{question['id']}/pushNotificationConfigs", config)
    rest.send("question", taskId=question["id"])
    courier.relay()
    assert courier.deliver() == [True, True]
    for headers, body, _ in webhook.seen:
        assert headers["authorization"] == "Bearer secret-credentials"
        assert headers["x-a2a-notification-token"] == "secret-token"
        assert headers["content-type"] == "application/a2a+json"
        [update] = body.values()
        assert update["taskId"] == question["id"]
    assert [next(iter(body)) for _, body, _ in webhook.seen] == ["artifactUpdate", "statusUpdate"]
    assert webhook.seen[-1][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("version", ["0.1", "0.3"])
def test_older_versions_get_the_task_in_theirs(
    rest: Rest, webhook: Webhook, courier: Courier, version: str
) -> None:
    rpc = Rpc(rest.client, rest.headers["X-API-Key"], "/a2a/probe")
    config = {"url": webhook.url, "token": "t"}
    if version == "0.1":
        message_0_1 = {"role": "user", "parts": [{"type": "text", "text": "hi"}]}
        task_id = str(uuid.uuid4())
        rpc.call("tasks/send", {"id": task_id, "message": message_0_1, "pushNotification": config})
    else:
        options = {"configuration": {"pushNotificationConfig": config}}
        task_id = rpc.call("message/send", {"message": message(), **options})["id"]
    courier.relay()
    assert courier.deliver() == [True, True]
    headers, body, _ = webhook.seen[-1]
    assert headers["content-type"] == "application/json"
    assert headers["x-a2a-notification-token"] == "t"
    assert "authorization" not in headers
    assert body["id"] == task_id
    assert body["status"]["state"] == "completed"
    assert ("kind" in body) == (version == "0.3")


def test_queues_carry_no_content(rest: Rest, webhook: Webhook, courier: Courier, posting: Kit) -> None:
    config = {"url": webhook.url, "token": "secret-token"}
    rest.send(text="private words", configuration={"taskPushNotificationConfig": config})
    courier.relay()
    queue_messages = courier.sqs.receive_message(QueueUrl=posting.settings.notices, VisibilityTimeout=0)[
        "Messages"
    ]
    for queue_message in queue_messages:
        assert "secret" not in queue_message["Body"]
        assert "private" not in queue_message["Body"]
        assert len(json.loads(queue_message["Body"])) == 4


def test_a_webhook_that_fails_is_tried_again_and_delays_no_other(
    rest: Rest, webhook: Webhook, courier: Courier, caplog: pytest.LogCaptureFixture
) -> None:
    dead = Webhook()
    dead.status = 503
    for hook in (dead, webhook):
        rest.send(
            text="private", configuration={"taskPushNotificationConfig": {"url": hook.url, "token": "s3"}}
        )
    courier.relay()
    outcomes = courier.deliver()
    assert outcomes.count(True) == 2
    assert outcomes.count(False) == 1  # the second of its group waits for the first
    assert len(webhook.seen) == 2
    assert "503" in caplog.text
    assert "s3" not in caplog.text
    assert "private" not in caplog.text
    dead.close()


def test_renewals_are_no_news(rest: Rest, webhook: Webhook, courier: Courier, posting: Kit) -> None:
    question = rest.send("question", configuration={"taskPushNotificationConfig": {"url": webhook.url}})
    courier.relay()
    courier.deliver()
    owners = {
        key.owner for key in KeyRegister(hot_path.ssm(posting.settings), posting.settings.keys_path).list()
    }
    heads = [posting.store.get_head(Namespace(owner, "probe"), question["id"]) for owner in owners]
    [head] = filter(None, heads)
    posting.store.update_head(replace(head, lease=head.lease + 10))
    courier.relay()
    assert courier.deliver() == []


def test_a_deleted_config_is_sent_nothing(rest: Rest, webhook: Webhook, courier: Courier) -> None:
    config = {"url": webhook.url, "id": "gone"}
    task = rest.send(configuration={"taskPushNotificationConfig": config})
    courier.relay()
    rest.ask("DELETE", f"tasks/{task['id']}/pushNotificationConfigs/gone")
    assert courier.deliver() == [True, True]
    assert webhook.seen == []


@pytest.mark.parametrize("status", [302, 307])
def test_redirects_are_not_followed(rest: Rest, webhook: Webhook, courier: Courier, status: int) -> None:
    other = Webhook()
    webhook.status, webhook.location = status, other.url
    rest.send(configuration={"taskPushNotificationConfig": {"url": webhook.url}})
    courier.relay()
    assert courier.deliver() == [False]
    assert len(webhook.seen) == 1
    assert other.seen == []
    other.close()


def test_what_is_gone_is_not_tried_again(rest: Rest, webhook: Webhook, courier: Courier) -> None:
    webhook.status = 410
    rest.send(configuration={"taskPushNotificationConfig": {"url": webhook.url}})
    courier.relay()
    assert courier.deliver() == [True, True]
    assert len(webhook.seen) == 1


def test_what_a_backup_brings_back_is_no_news(rest: Rest, courier: Courier) -> None:
    rest.send(configuration={"taskPushNotificationConfig": {"url": "http://127.0.0.1:9/"}})
    record = courier.pending()[-1]
    record["dynamodb"].pop("OldImage", None)
    assert courier.kit.push_notifications.relay(record) == 1
    record["dynamodb"]["ApproximateCreationDateTime"] += 3600
    assert courier.kit.push_notifications.relay(record) == 0


def test_a_name_server_that_fails_once_costs_no_notification(
    rest: Rest, courier: Courier, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.send(configuration={"taskPushNotificationConfig": {"url": webhook.url}})
    courier.relay()

    async def fails(*_: Any, **__: Any) -> Any:
        raise Unresolved("try again")

    notices = courier.kit.push_notifications
    [queue_message] = courier.sqs.receive_message(QueueUrl=courier.kit.settings.notices)["Messages"]
    with monkeypatch.context() as patch:
        patch.setattr("a2a_lambda.net.transport.resolve", fails)
        with pytest.raises(Undelivered):
            asyncio.run(notices.deliver(queue_message["Body"]))
    asyncio.run(notices.deliver(queue_message["Body"]))
    assert len(webhook.seen) == 2  # the artifact, and the end


@pytest.mark.parametrize("age", [CONFIG_SECONDS - 10, CONFIG_SECONDS + 1])
def test_a_config_that_is_absent_is_waited_for_a_minute(
    rest: Rest, courier: Courier, webhook: Webhook, age: float
) -> None:
    """It is stored after the head that names it. If a process dies while it deletes one, the head keeps its
    name."""
    task = rest.send(configuration={"taskPushNotificationConfig": {"url": webhook.url, "id": "a"}})
    courier.relay()
    [notice] = courier.sqs.receive_message(QueueUrl=courier.kit.settings.notices)["Messages"]
    owner, *_ = json.loads(notice["Body"])
    courier.kit.store.delete_push_config(Namespace(owner, "probe"), task["id"], "a")
    settings, now = courier.kit.settings, unix_time(task["status"]["timestamp"]) + age
    later = Store(Table(clients.dynamodb(settings), settings.table, clock=lambda: now), ttl=86_400)
    notices = PushNotifications(courier.sqs, settings.notices, later, files=Files())
    if age > CONFIG_SECONDS:
        asyncio.run(notices.deliver(notice["Body"]))
    else:
        with pytest.raises(Undelivered, match="not stored yet"):
            asyncio.run(notices.deliver(notice["Body"]))
    assert webhook.seen == []


def test_a_message_that_cannot_be_postponed_comes_again_by_itself(courier: Courier) -> None:
    """An error of this would hide the error of the delivery, for which the message is postponed."""
    handles: list[str] = []

    class Refusing:
        def change_message_visibility(self, ReceiptHandle: str, **_: Any) -> None:  # boto3's
            handles.append(ReceiptHandle)
            raise ClientError({"Error": {"Code": "InvalidParameterValue"}}, "ChangeMessageVisibility")

    sqs: Any = Refusing()
    PushNotifications(sqs, "https://queue", courier.kit.store, files=Files()).postpone("handle", 1)
    assert handles == ["handle"]


def test_what_was_delivered_before_an_error_is_not_sent_again(
    rest: Rest, courier: Courier, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kind of error makes no difference: the next update cannot be made."""
    rest.send("shelf", slots={"count": 2}, configuration={"taskPushNotificationConfig": {"url": webhook.url}})
    courier.relay()
    show, calls = Links.show_blocking, list[int]()

    def fail_once(links: Links, namespace: Namespace, value: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("what it was is not logged")
        return show(links, namespace, value)

    monkeypatch.setattr(Links, "show_blocking", fail_once)
    courier.deliver()
    assert len(webhook.seen) == 3, "two texts, and the end, each once"


def test_a_private_address_is_never_called(
    rest: Rest, webhook: Webhook, courier: Courier, posting: Kit
) -> None:
    """It was set when that was fine; when it is called, it is not."""
    rest.send(configuration={"taskPushNotificationConfig": {"url": webhook.url}})
    courier.relay()
    strict = PushNotifications(courier.sqs, posting.settings.notices, posting.store, files=Files())
    [queue_message] = courier.sqs.receive_message(QueueUrl=posting.settings.notices, VisibilityTimeout=0)[
        "Messages"
    ]
    asyncio.run(strict.deliver(queue_message["Body"]))
    assert webhook.seen == []
    courier.deliver()


def test_a_signed_token_for_0_1(rest: Rest, webhook: Webhook, courier: Courier, posting: Kit) -> None:
    rpc = Rpc(rest.client, rest.headers["X-API-Key"], "/a2a/probe")
    config = {"url": webhook.url, "authentication": {"schemes": ["jwt"]}}
    message = {"role": "user", "parts": [{"type": "text", "text": "hi"}], "metadata": intent("echo")}
    params = {"id": str(uuid.uuid4()), "message": message, "pushNotification": config}
    refusal = rpc.error("tasks/send", params)
    assert refusal["code"] == -32602
    assert "signing key" in refusal["message"]
    kms: Any = Kms("RSA_2048")
    signer = Signer(kms, "arn:aws:kms:us-east-1:1:key/k")
    signing = Kit(posting.settings.model_copy(update={"signing_key": "arn:aws:kms:us-east-1:1:key/k"}))
    signing.agents = posting.agents
    rpc.client = TestClient(create_app(signing), base_url=BASE_URL)
    rpc.call("tasks/send", params | {"id": str(uuid.uuid4())})
    courier.relay()
    courier.handler = NotificationHandler(
        PushNotifications(
            courier.sqs,
            posting.settings.notices,
            posting.store,
            signer=signer,
            allow_loopback=True,
            files=Files(),
        )
    )
    assert courier.deliver() == [True, True]
    headers, _, body = webhook.seen[-1]
    token = headers["authorization"].removeprefix("Bearer ")
    signing_input = token.rpartition(".")[0]
    raw = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split(".")]
    assert json.loads(raw[0])["kid"] == signer.fetch_jwk()["kid"]
    assert json.loads(raw[1])["exp"] - json.loads(raw[1])["iat"] == 300
    assert json.loads(raw[1])["request_body_sha256"] == hashlib.sha256(body).hexdigest()
    jwk = signer.fetch_jwk()
    n, e = (int.from_bytes(base64.urlsafe_b64decode(jwk[name] + "==")) for name in ("n", "e"))
    key = rsa.RSAPublicNumbers(e, n).public_key()
    key.verify(raw[2], signing_input.encode(), padding.PKCS1v15(), hashes.SHA256())


HOSTILE = [
    "http://example.com/hook",
    "ftp://example.com/hook",
    "https://127.0.0.1/hook",
    "https://localhost/hook",
    "https://[::1]/hook",
    "https://[::ffff:169.254.169.254]/",
    "https://2130706433/",
    "https://user:password@example.com/",
    "https://example.com/\r\nX-Evil: 1",
    "https:///nothing",
    "not a url",
    "",
]


@pytest.mark.parametrize("url", HOSTILE)
def test_hostile_urls_are_refused_when_set(client: TestClient, key: str, url: str) -> None:
    rest = Rest(client, key)
    answer = rest.ask(
        "POST",
        "message:send",
        {"message": message_1_0(), "configuration": {"taskPushNotificationConfig": {"url": url}}},
    )
    assert answer.status_code == 400
    assert rest.call("GET", "tasks")["tasks"] == []
    task = rest.send()
    assert rest.ask("POST", f"tasks/{task['id']}/pushNotificationConfigs", {"url": url}).status_code == 400


def test_urls_do_not_reach_a_log(
    rest: Rest, webhook: Webhook, courier: Courier, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"url": f"{webhook.url}?sig=secret-signature"}
    rest.send(configuration={"taskPushNotificationConfig": config})
    courier.relay()
    webhook.status = 503
    with caplog.at_level("INFO"):
        assert courier.deliver() == [False]
    assert "a record failed" in caplog.text
    assert "secret-signature" not in caplog.text


@pytest.mark.parametrize("evil", ["x\r\nX-Evil: 1", "caf\xe9", " evil", "evil "])
@pytest.mark.parametrize("field", ["token", "credentials"])
def test_secrets_are_what_every_header_can_hold(client: TestClient, key: str, field: str, evil: str) -> None:
    rest = Rest(client, key)
    values: Any = (
        {"token": evil} if field == "token" else {"authentication": {"scheme": "Bearer", "credentials": evil}}
    )
    path = f"tasks/{rest.send()['id']}/pushNotificationConfigs"
    answer = rest.ask("POST", path, {"url": "https://example.com/", **values})
    assert answer.status_code == 400
    assert "evil" not in answer.text.lower()


def test_a_url_that_no_library_can_call_is_not_tried_again(rest: Rest, courier: Courier) -> None:
    url = "https://256.256.256.256/hook"
    rest.send(configuration={"taskPushNotificationConfig": {"url": url}})
    courier.relay()
    assert all(courier.deliver())
