"""What DynamoDB charges for: calls that each operation makes, against the design's budget, and bytes."""

import asyncio
import base64
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

from a2a_lambda import strictjson
from a2a_lambda.aws import clients
from a2a_lambda.files.files import Files
from a2a_lambda.kit import Kit
from a2a_lambda.operations.messages import Messages
from a2a_lambda.protocol.model import Event, Json
from a2a_lambda.settings import Settings
from a2a_lambda.store import items
from a2a_lambda.store.documents import pack, unpack
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.identity import Namespace
from tests.conftest import ROOT
from tests.store.calls import Counted
from tests.wire.objects import values

WRITES = "put_item"


READS = "get_item"


@pytest.fixture
def counted(kit: Kit, settings: Settings, namespace: Namespace, no_timed_calls: None) -> Counted:
    return Counted(kit, settings, namespace)


def test_a_send_costs_three_writes(counted: Counted) -> None:
    _, calls = asyncio.run(counted.send("What is 1 plus 2?"))
    assert calls == {WRITES: 3}


def test_a_send_in_a_context_costs_one_read_more(counted: Counted) -> None:
    _, new = asyncio.run(counted.send("hi", contextId="c"))
    _, calls = asyncio.run(counted.send("hi again", contextId="c"))
    assert new == calls == {WRITES: 3, READS: 1}


def test_an_answer_to_a_question_costs_two_or_three_reads(counted: Counted) -> None:
    question, _ = asyncio.run(counted.send("coach"))
    by_context = {"contextId": question["contextId"]}
    _, calls = asyncio.run(counted.send("basketball", **by_context))
    assert calls == {WRITES: 3, READS: 3}
    question, _ = asyncio.run(counted.send("coach"))
    _, calls = asyncio.run(counted.send("basketball", taskId=question["id"]))
    assert calls == {WRITES: 3, READS: 2}


def test_a_stream_costs_no_more_than_a_send(counted: Counted) -> None:
    events, calls = asyncio.run(counted.stream("Teach me basketball"))
    assert len(events) > 5
    assert calls == {WRITES: 3}


def test_a_retry_costs_one_write_and_no_run(counted: Counted) -> None:
    message = counted.message("hi")
    task = asyncio.run(counted.messages.send(*message))
    counted.calls.during()
    assert asyncio.run(counted.messages.send(*message)) == task
    assert counted.calls.during() == {WRITES: 1}


def test_a_retry_of_a_large_message_costs_reads_and_does_not_store_it_again(counted: Counted) -> None:
    message = counted.message("x" * 5_000)
    task = asyncio.run(counted.messages.send(*message))
    assert counted.calls.during() == {WRITES: 5, READS: 1}
    assert asyncio.run(counted.messages.send(*message)) == task
    assert counted.calls.during() == {READS: 1, "query": 1}


def test_reading_a_small_task_costs_one_read(counted: Counted) -> None:
    task, _ = asyncio.run(counted.send("hi"))
    asyncio.run(counted.service.get(counted.namespace, task["id"]))
    assert counted.calls.during() == {READS: 1}


def test_canceling_a_waiting_task_costs_a_read_and_a_write(counted: Counted) -> None:
    question, _ = asyncio.run(counted.send("coach"))
    asyncio.run(counted.service.cancel(counted.namespace, question["id"]))
    calls = counted.calls.during()
    assert (calls[READS], calls[WRITES]) == (1, 1)


def test_a_stream_is_stored_in_pieces_not_in_tokens(counted: Counted, kit: Kit) -> None:
    """A hundred chunks that end before any must be stored because of its age: no write for them alone."""
    probe = Namespace(counted.namespace.owner, "probe")
    counted.namespace = probe
    slots = [{"name": "count", "value": "100"}, {"name": "every", "value": "0.001"}]
    metadata = {"intentInfos": [{"intent": "pieces", "slots": slots}]}
    events, calls = asyncio.run(counted.stream("go", metadata=metadata))
    chunks: list[Event] = [event for _, event in events if "artifactUpdate" in event]
    assert len(chunks) >= 100
    assert calls[WRITES] == 3, "the claim, the context and the end"


def test_the_index_of_lists_writes_three_units_a_task(counted: Counted, kit: Kit, settings: Settings) -> None:
    """A new entry is one unit, a moved one two. So one partition, which takes 1,000 a second, lists some 330
    new tasks of an owner and agent a second: docs/costs.md."""
    puts: list[Any] = []
    client = clients.dynamodb(settings)
    client.meta.events.register(
        "provide-client-params.dynamodb.PutItem", lambda params, **_: puts.append(params)
    )
    store = Store(Table(client, settings.table), ttl=1000)
    counted.messages = Messages(store, kit.agents, repeat_seconds=60, files=Files())
    asyncio.run(counted.send("What is 1 plus 2?"))
    positions = [put["Item"]["changed"]["S"] for put in puts if "listing" in put["Item"]]
    moves = sum(later != earlier for earlier, later in pairwise(positions))
    assert 1 + 2 * moves == 3


@given(values)
def test_a_document_comes_back(value: Json) -> None:
    attribute = pack(value)
    assert unpack(attribute) == strictjson.dumps(value)
    assert unpack({"B": base64.b64encode(attribute["B"]).decode()}) == strictjson.dumps(value), "in an event"


def test_a_document_that_was_not_compressed_is_read() -> None:
    """Earlier commits have stored it so, and forks that follow the kit have such items."""
    document = strictjson.dumps({"status": {"state": "TASK_STATE_WORKING"}, "inline": [[1, {"text": "ä"}]]})
    assert unpack({"B": document}) == document


def test_a_context_takes_a_fraction_of_its_text() -> None:
    """It is written whole with each turn."""
    text = (ROOT / "docs" / "long-running.md").read_text()[:20_000]
    item = items.from_context(Namespace("owner", "agent"), "c", Context(memory={"text": text}), 0)
    assert len(item["document"]["B"]) < len(text) / 1.8
