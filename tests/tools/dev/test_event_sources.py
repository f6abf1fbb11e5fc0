"""What `make run` does in the place of Lambda's event sources."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.kit import Kit
from tools.dev.event_sources import StreamRecords


def record(sort_key: str, **image: Any) -> dict[str, Any]:
    change = {"ApproximateCreationDateTime": time.time(), "SequenceNumber": "1"}
    return {"dynamodb": {**change, "NewImage": {"sk": {"S": sort_key}, **image}}}


def test_a_page_of_other_records_is_not_the_end(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an edit, the stream is read from its beginning, and few of its records are for webhooks."""
    pages = [[record("context")], [record("head")], [record("head", pushes={"N": "1"})], []]
    client = SimpleNamespace(
        list_streams=lambda **_: {"Streams": [{"StreamArn": "arn"}]},
        describe_stream=lambda **_: {"StreamDescription": {"Shards": [{"ShardId": "one"}]}},
        get_shard_iterator=lambda **_: {"ShardIterator": "0"},
        get_records=lambda ShardIterator: {  # AWS's name
            "Records": pages[int(ShardIterator)],
            "NextShardIterator": str(int(ShardIterator) + 1),
        },
    )
    monkeypatch.setattr(clients, "streams", lambda _: client)
    records = StreamRecords(kit)
    delivery = records.next()
    assert delivery is not None
    event, done = delivery
    assert [each["dynamodb"]["NewImage"]["pushes"] for each in event["Records"]] == [{"N": "1"}]
    done({})
    assert records.next() is None
