"""What `make run` does in the place of Lambda's event sources."""

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from a2a_lambda.aws import clients, hot_path
from a2a_lambda.aws.lean.json_client import JsonClient
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from tools.dev import event_sources, server
from tools.dev.event_sources import StreamRecords


def record(sort_key: str, **image: Any) -> dict[str, Any]:
    change = {"ApproximateCreationDateTime": time.time(), "SequenceNumber": "1"}
    return {"dynamodb": {**change, "NewImage": {"sk": {"S": sort_key}, **image}}}


def stream(monkeypatch: pytest.MonkeyPatch, pages: list[Any], *, is_closed: bool = False) -> list[int]:
    """A stream with one shard. Returns the numbers of the pages that are read, as they are."""
    reads: list[int] = []

    def get_records(ShardIterator: str) -> dict[str, Any]:  # AWS's name
        number = int(ShardIterator)
        reads.append(number)
        next_iterator = {} if is_closed else {"NextShardIterator": str(number + 1)}
        return {"Records": pages[number], **next_iterator}

    client = SimpleNamespace(
        list_streams=lambda **_: {"Streams": [{"StreamArn": "arn"}]},
        describe_stream=lambda **_: {"StreamDescription": {"Shards": [{"ShardId": "one"}]}},
        get_shard_iterator=lambda **_: {"ShardIterator": "0"},
        get_records=get_records,
    )
    monkeypatch.setattr(clients, "streams", lambda _: client)
    return reads


@pytest.mark.parametrize("botocore", [False, True])
def test_the_bell_rings_after_a_write(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, *, botocore: bool
) -> None:
    """Without it, a background turn would wait for up to five seconds. A read does not ring it, nor a write
    that is refused."""
    monkeypatch.setattr(JsonClient, "listeners", {})
    bell = event_sources.Bell()
    hot_path.listen(event_sources.WRITES, bell.ring)
    client = hot_path.dynamodb(settings.model_copy(update={"botocore": botocore}))
    key: Any = {"pk": {"S": "bell"}, "sk": {"S": "bell"}}
    client.put_item(TableName=settings.table, Item=key)
    assert bell.count() == 1
    client.get_item(TableName=settings.table, Key=key)
    with pytest.raises(ClientError):
        client.put_item(TableName="absent", Item=key)
    assert bell.count() == 1


def test_a_page_of_other_records_is_not_the_end(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an edit, the stream is read from its beginning, and few of its records are for webhooks."""
    pages = [[record("context")], [record("head")], [record("head", pushes={"N": "1"})], []]
    stream(monkeypatch, pages)
    records = StreamRecords(kit)
    delivery = records.next()
    assert delivery is not None
    event, finish = delivery
    assert [each["dynamodb"]["NewImage"]["pushes"] for each in event["Records"]] == [{"N": "1"}]
    finish({})
    assert records.next() is None


def test_a_closed_shard_is_read_once_in_a_poll(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = stream(monkeypatch, [[record("context")]], is_closed=True)
    assert StreamRecords(kit).next() is None
    assert reads == [0]


@pytest.mark.parametrize(
    ("url", "allowed"), [("http://127.0.0.1:8080", True), ("https://tunnel.example.com", False)]
)
def test_callers_through_a_tunnel_cannot_name_urls_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, url: str, allowed: bool
) -> None:
    environ = {"A2A_BASE_URL": url}
    queues = event_sources.Queues("turns", "dead-arn", "notices")
    monkeypatch.setattr(event_sources, "create_queues", lambda *_: queues)
    monkeypatch.setattr(os, "environ", environ)
    server._create_queues(Settings(table="t"))
    assert (environ.get("A2A_LOOPBACK_WEBHOOKS") == "1") is allowed
