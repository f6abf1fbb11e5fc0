"""What a million messages cost, worked out from what one is measured to take; `make costs` prints it.

The agent's own time is not in it. Prices are those of us-east-1, arm64, without the free tier:
https://aws.amazon.com/lambda/pricing/, …/api-gateway/pricing/, …/dynamodb/pricing/on-demand/, …/sqs/pricing/,
…/cloudwatch/pricing/.
"""

import asyncio
import json
import os
import uuid
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda.kit import Kit
from a2a_lambda.operations.service import Service
from a2a_lambda.operations.stream_limit import StreamLimit
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.identity import Scope
from a2a_lambda.turns.worker import Worker
from tests.conftest import ROOT
from tests.lambda_.runtime_api import RuntimeApi
from tests.store.calls import Calls
from tests.store.test_budget import Counted
from tests.turns.test_worker import Line
from tools.build.built_functions import Built

Json = Any

MILLION = 1_000_000
GIGABYTE_SECOND = 0.0000133334
REQUEST = 0.20 / MILLION
API_CALL = 3.50 / MILLION
WRITE_UNIT = 0.625 / MILLION
READ_UNIT = 0.125 / MILLION
QUEUED = 3 * 0.40 / MILLION
"""A message of a standard queue: sent, received, deleted."""
LOGGED = 0.50 / 1e9

PLATFORM = 700
"""Bytes of the lines Lambda itself writes about an invocation, about."""

ACCESS = 400
"""Bytes of the API's line about a request, about."""

MEMORY = 1.0
"""GB, template.yaml's default."""

CALL = 0.006
"""Seconds a call to DynamoDB takes on AWS, about."""

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
            before, told = processor(process.pid), path.stat().st_size
            for _ in range(SENDS):
                assert api.invoke(unique(event)).prelude["statusCode"] == 200
            cpu = (processor(process.pid) - before) / SENDS
            lines = (path.stat().st_size - told) / SENDS
            status = Path(f"/proc/{process.pid}/status").read_text()
    api.close()
    [peak] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return Warm(cpu, lines, int(peak) / 1024)


def unique(event: Json) -> Json:
    body = json.loads(event["body"])
    body["id"] = str(uuid.uuid4())
    return {**event, "body": json.dumps(body)}


def processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def units(calls: Calls) -> list[int]:
    """Collects the write units of each put: the item's, and those of its index entries."""
    found: list[int] = []
    items: dict[str, Json] = {}

    def count(operation: str, arguments: Json) -> None:
        if operation == "delete_item":
            found.append(1)
        if operation != "put_item":
            return
        item = arguments["Item"]
        key = item["pk"]["S"] + item["sk"]["S"]
        old, items[key] = items.get(key, {}), item
        found.append(ceil(size(item) / 1024) + sum(entry(old, item, index) for index in INDEXES))

    calls.after = count
    return found


INDEXES = (("listing", "changed", "state", "context", "expires"), ("shard", "due"))
"""Keys of each index, and what else is in its entries."""


def entry(old: Json, new: Json, index: tuple[str, ...]) -> int:
    """Units an index costs: an entry put, deleted, or both where its key changes."""
    before, after = ([item.get(name) for name in index] if index[0] in item else None for item in (old, new))
    if before == after:
        return 0
    if before is None or after is None:
        return 1
    return 1 if before[:2] == after[:2] else 2


def size(item: Json) -> int:
    """Bytes of an item, nearly as DynamoDB counts them."""
    values = {name: next(iter(value.values())) for name, value in item.items()}
    return sum(len(name) + (1 if isinstance(value, bool) else len(value)) for name, value in values.items())


def test_what_a_million_messages_cost(kit: Kit, settings: Settings, scope: Scope, warm: Warm) -> None:
    counted = Counted(kit, settings, scope)
    written = units(counted.calls)

    def taken() -> tuple[int, int]:
        """Write units and reads, and none from here on."""
        found = sum(written), counted.calls.count["get_item"] + counted.calls.count["query"]
        written.clear()
        counted.calls.count.clear()
        return found

    asyncio.run(counted.service.send(*counted.message("What is 1 plus 2?")))
    send = taken()
    asyncio.run(drained(counted))
    stream = taken()
    asyncio.run(in_the_background(counted, kit))
    background = taken()
    run = REQUEST + (warm.cpu + 3 * CALL) * MEMORY * GIGABYTE_SECOND
    log = (warm.log + PLATFORM) * LOGGED
    access = ACCESS * LOGGED
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
    written, read = taken
    return written * WRITE_UNIT + read * READ_UNIT


async def drained(counted: Counted) -> None:
    async with StreamLimit(counted.service._store, 100).hold_slot(counted.scope.owner):
        async for _ in await counted.service.stream(*counted.message("Teach me basketball")):
            pass


async def in_the_background(counted: Counted, kit: Kit) -> None:
    line = Line()
    store = counted.service._store
    service = Service(store, kit.agents, repeat_seconds=60, queue=line)
    call, request = counted.message("What is 1 plus 2?")
    request["configuration"] = {"returnImmediately": True}
    await service.send(call, request)
    [ticket] = line.waiting
    await Worker(store, kit.agents, line).run_turn(ticket, None)
