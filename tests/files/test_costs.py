"""What a large file costs, in the table and in the bucket. `make costs` prints it."""

import asyncio
import json
import time
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from a2a_lambda.agent.agent import Agent
from a2a_lambda.aws import clients, hot_path
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.files.bucket import Bucket
from a2a_lambda.files.files import Files
from a2a_lambda.operations.messages import Messages
from a2a_lambda.operations.service import Service
from a2a_lambda.protocol.model import Message, Part, Role, Task
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Namespace, RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall
from tests.conftest import AGENTS
from tests.files.fake_s3 import FakeS3
from tests.helpers.rpc import intent
from tests.store.calls import Calls
from tools.costs import units
from tools.costs.aws import MILLION, READ_UNIT, S3_GET, S3_PUT, WRITE_UNIT

pytestmark = pytest.mark.usefixtures("no_timed_calls")


MEGABYTE = 1_000_000


@dataclass
class Cost:
    """Of one turn that puts out a file, and of one read of its task. seconds: processor time of both."""

    writes: int
    puts: int
    reads: float
    read_bytes: int
    seconds: float

    @property
    def dollars(self) -> float:
        """For a million turns, each of whose tasks is read once, and its file once."""
        gets = 1 if self.puts else 0
        table = self.writes * WRITE_UNIT + self.reads * READ_UNIT
        return (table + self.puts * S3_PUT + gets * S3_GET) * MILLION


class Bench:
    def __init__(self, settings: Settings, namespace: Namespace, *, with_bucket: bool) -> None:
        self.calls = Calls(hot_path.dynamodb(settings))
        self.s3 = FakeS3(keeps=False)
        files = Files(Bucket(lambda: self.s3, "files")) if with_bucket else Files()  # type: ignore[arg-type,return-value]
        store = Store(Table(self.calls, settings.table), ttl=86_400)  # type: ignore[arg-type]
        agents = Agents.of(Agent.load(AGENTS / "probe"))
        self.messages = Messages(store, agents, repeat_seconds=60, files=files)
        self.service = Service(store, files=files)
        self.namespace = Namespace(namespace.owner, "probe")
        self.writes = 0
        self.calls.after = self._count

    def _count(self, operation: str, arguments: Any) -> None:
        if operation == "put_item":
            self.writes += units.of_write(0.0, {}, arguments["Item"]).writes

    def send(self, skill: str, **slots: str) -> Task:
        message = Message(messageId="m", role=Role.USER, parts=[Part(text="x")])
        message["metadata"] = intent(skill, **slots)
        identity = RequestIdentity.of(self.namespace, "send", uuid.uuid4().bytes)
        call = MessageCall(self.namespace, identity)
        return asyncio.run(self.messages.send(call, SendMessageRequest(message=message)))["task"]

    def get(self, task_id: str) -> Task:
        return asyncio.run(self.service.get(self.namespace, task_id)).task

    def cost_of(self, size: int) -> Cost:
        self.writes, began = 0, time.process_time()
        task = self.send("draw-slowly", size=str(size))
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task["status"]
        content = json.dumps(self.get(task["id"])).encode()
        seconds = time.process_time() - began
        puts = sum(count for name, count in self.s3.calls.items() if "presigned" not in name)
        # Strongly consistent, and rounded up together.
        return Cost(self.writes, puts, max(1, self.writes / 4), len(content), seconds)


def test_what_a_large_file_costs(settings: Settings, namespace: Namespace) -> None:
    before, after = (Bench(settings, namespace, with_bucket=with_bucket) for with_bucket in (False, True))
    rows = {
        "5 MB, in the table": before.cost_of(5 * MEGABYTE),
        "5 MB, in the bucket": after.cost_of(5 * MEGABYTE),
        "50 MB, in the bucket": Bench(settings, namespace, with_bucket=True).cost_of(50 * MEGABYTE),
    }
    print(
        "\nan answer with a file     write units  S3 requests  bytes of a get   CPU (ms)   USD for a million"
    )
    for name, cost in rows.items():
        print(
            f"{name:<25}{cost.writes:>12,}{cost.puts:>13}{cost.read_bytes:>16,}"
            f"{cost.seconds * 1000:>11.0f}{cost.dollars:>20,.2f}"
        )
    table, bucket = rows["5 MB, in the table"], rows["5 MB, in the bucket"]
    assert table.writes > 100 * bucket.writes
    assert table.read_bytes > 1000 * bucket.read_bytes
    assert rows["50 MB, in the bucket"].writes == bucket.writes
    with pytest.raises(AssertionError, match="50,000,000 bytes"):
        before.cost_of(50 * MEGABYTE)  # it was never possible


def test_a_task_with_ten_files_is_read_fast(settings: Settings, namespace: Namespace) -> None:
    bench = Bench(settings, namespace, with_bucket=True)
    # A real client signs the urls, as on AWS.
    bucket = Bucket(lambda: clients.s3(settings), settings.files_bucket)
    bench.service = Service(bench.messages.store, files=Files(bucket))
    task = bench.send("gallery", count="10", size=str(5 * MEGABYTE))
    reads: list[str] = []
    bench.calls.before = lambda operation, _: reads.append(operation)
    answer = bench.get(task["id"])
    assert reads == ["get_item"], "the events are in the head, and the URLs are signed without a call"
    assert len(answer["artifacts"][0]["parts"]) == 10
    assert len(json.dumps(answer)) < 50_000
    times = []
    for _ in range(5):
        began = time.process_time()
        bench.get(task["id"])
        times.append(time.process_time() - began)
    print(f"\na get of a task with ten files takes {min(times) * 1000:.1f} ms of CPU time")
