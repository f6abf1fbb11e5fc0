"""What a million messages cost, worked out from what one is measured to take; `make costs` prints it.

The agent's own time is not in it. Prices are those of tools/costs/aws.py.
"""

import asyncio
import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.background.worker import Worker
from a2a_lambda.files.files import Files
from a2a_lambda.kit import Kit
from a2a_lambda.operations.call_slots import CallSlots
from a2a_lambda.operations.messages import Messages
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.identity import Namespace
from tests.background.fake_queue import FakeQueue
from tests.conftest import ROOT
from tests.lambda_.runtime.runtime_api import RuntimeApi
from tests.store.calls import Calls, Counted
from tools.build.built_functions import Built
from tools.costs import units
from tools.costs.aws import (
    API_CALL,
    CALL_SECONDS,
    GIGABYTE_SECOND,
    LOGGED_BYTE,
    MILLION,
    QUEUED,
    READ_UNIT,
    REQUEST,
    WRITE_UNIT,
)

pytestmark = pytest.mark.slow


PLATFORM = 700
"""Bytes of the lines Lambda itself writes about an invocation, about."""

ACCESS = 400
"""Bytes of the API's line about a request, about."""

MEMORY = 1.0
"""GB, template.yaml's default."""

SENDS = 40


@dataclass
class Warm:
    """Of an invocation: seconds of the processor, bytes of log. memory: MB the process had at most."""

    cpu: float
    log: float
    memory: float


@pytest.fixture(scope="module")
def warm(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Warm:
    api = RuntimeApi()
    path = tmp_path_factory.mktemp("log") / "lines"
    event = json.loads((ROOT / "events" / "send.json").read_text())
    with path.open("wb") as log:
        variables = {"AWS_LAMBDA_RUNTIME_API": api.address}
        with built.running("rpc", output=log, variables=variables) as process:
            for _ in range(5):
                api.invoke(unique(event))
            before, size = processor(process.pid), path.stat().st_size
            for _ in range(SENDS):
                assert api.invoke(unique(event)).prelude["statusCode"] == 200
            cpu = (processor(process.pid) - before) / SENDS
            lines = (path.stat().st_size - size) / SENDS
            status = Path(f"/proc/{process.pid}/status").read_text()
    api.close()
    [peak] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return Warm(cpu, lines, int(peak) / 1024)


def unique(event: Any) -> Any:
    body = json.loads(event["body"])
    body["id"] = str(uuid.uuid4())
    return {**event, "body": json.dumps(body)}


def processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def written(calls: Calls) -> list[int]:
    """Collects the write units of each put: the item's, and those of its index entries."""
    write_units: list[int] = []
    items: dict[str, Any] = {}

    def count(operation: str, arguments: Any) -> None:
        if operation == "delete_item":
            write_units.append(1)
        if operation == "put_item":
            item = arguments["Item"]
            key = item["pk"]["S"] + item["sk"]["S"]
            put = units.of_write(0.0, items.get(key, {}), item)
            write_units.append(put.writes + put.listing + put.due)
            items[key] = item

    calls.after = count
    return write_units


def test_what_a_million_messages_cost(kit: Kit, settings: Settings, namespace: Namespace, warm: Warm) -> None:
    counted_kit = Counted(kit, settings, namespace)
    puts = written(counted_kit.calls)

    def taken() -> tuple[int, int]:
        """Write units and reads, and none from here on."""
        costs = sum(puts), counted_kit.calls.count["get_item"] + counted_kit.calls.count["query"]
        puts.clear()
        counted_kit.calls.count.clear()
        return costs

    asyncio.run(counted_kit.messages.send(*counted_kit.message("What is 1 plus 2?")))
    send = taken()
    asyncio.run(drained(counted_kit))
    stream = taken()
    asyncio.run(in_the_background(counted_kit, kit))
    background = taken()
    run = REQUEST + (warm.cpu + 3 * CALL_SECONDS) * MEMORY * GIGABYTE_SECOND
    log = (warm.log + PLATFORM) * LOGGED_BYTE
    access = ACCESS * LOGGED_BYTE
    rows = {
        "short sends": (run, table(send), API_CALL, log + access, 0.0),
        "short streams": (run, table(stream), API_CALL, log + access, 0.0),
        "background sends": (2 * run, table(background), API_CALL, 2 * log + access, QUEUED),
    }
    print(
        f"\nwarm send: {warm.cpu * 1000:.1f} ms of the processor, {warm.log:.0f} bytes of log;"
        f" {warm.memory:.0f} MB at most"
        f"\nwrite units, reads: send {send}, stream {stream}, background {background}"
        "\na million of          Lambda  DynamoDB     API    logs     SQS   total (USD)"
    )
    for name, row in rows.items():
        print(f"{name:<20}" + "".join(f"{value * MILLION:>8.2f}" for value in (*row, sum(row))))
    assert warm.memory < 256, "the functions fit the least memory of the template"
    assert warm.cpu < 0.1
    assert send[0] <= 12


def table(taken: tuple[int, int]) -> float:
    write_units, read_units = taken
    return write_units * WRITE_UNIT + read_units * READ_UNIT


async def drained(counted: Counted) -> None:
    async with CallSlots(counted.messages.store, 100).hold(counted.namespace.owner):
        async for _ in await counted.messages.stream(*counted.message("Teach me basketball")):
            pass


async def in_the_background(counted: Counted, kit: Kit) -> None:
    queue = FakeQueue()
    store = counted.messages.store
    messages = Messages(store, kit.agents, dispatcher=Dispatcher(queue), repeat_seconds=60, files=Files())
    call, request = counted.message("What is 1 plus 2?")
    request["configuration"] = {"returnImmediately": True}
    await messages.send(call, request)
    [ticket] = queue.waiting
    await Worker(store, kit.agents, files=Files()).run_turn(ticket, None)
