"""The queue of background turns, on an emulated SQS."""

import uuid
from typing import Any

from a2a_lambda.aws import clients
from a2a_lambda.aws.queue import Sqs
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.identity import Namespace, TurnReference


def test_a_failed_message_comes_again_soon(settings: Settings) -> None:
    client = clients.sqs(settings)
    name = f"turns-{uuid.uuid4().hex[:8]}"
    urls = {each: client.create_queue(QueueName=each)["QueueUrl"] for each in (name, f"{name}-dead")}
    queue = Sqs(client, urls[name])
    changes: list[Any] = []
    client.meta.events.register("provide-client-params.sqs", lambda params, **_: changes.append(params))
    for each, url in urls.items():
        client.send_message(QueueUrl=url, MessageBody="x")
        [message] = client.receive_message(QueueUrl=url, VisibilityTimeout=5_400)["Messages"]
        for attempt, pause in ((1, 15), (9, 900)):
            queue.postpone(f"arn:aws:sqs:us-east-1:123456789012:{each}", message["ReceiptHandle"], attempt)
            assert (changes[-1]["QueueUrl"], changes[-1]["VisibilityTimeout"]) == (url, pause)
    queue.postpone("arn:aws:sqs:us-east-1:123456789012:nosuch", "handle", 1)


def test_turns_of_one_owner_are_one_group(settings: Settings) -> None:
    """SQS can then let the others go first. An owner's name may be too long for a group, or have letters that
    no group has."""
    client = clients.sqs(settings)
    queue = Sqs(client, client.create_queue(QueueName=f"fair-{uuid.uuid4().hex[:8]}")["QueueUrl"])
    groups: list[str] = []
    client.meta.events.register(
        "provide-client-params.sqs", lambda params, **_: groups.append(params["MessageGroupId"])
    )
    for owner, task_id in (("entra|oid:ä", "t1"), ("entra|oid:ä", "t2"), ("o" * 512, "t3")):
        queue.send(TurnReference(Namespace(owner, "agent"), task_id, "turn"))
    assert groups[0] == groups[1] != groups[2]
