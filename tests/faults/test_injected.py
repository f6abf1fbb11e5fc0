"""Throttling, timeouts and conflicts in every call to DynamoDB: tried again or reported, never
half-written."""

import asyncio
import contextlib
import itertools
import json
import random
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from starlette.testclient import TestClient

from a2a_lambda.agent.agent import Agent
from a2a_lambda.aws import clients
from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.background.sweep import Sweep
from a2a_lambda.background.worker import Worker
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.errors import StoreError
from a2a_lambda.files.files import Files
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.operations import call_slots, intake
from a2a_lambda.protocol.model import STOPPED, Json
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks import head
from a2a_lambda.turns import lease, recovery
from tests.background.worker_bench import WorkerBench
from tests.conftest import AGENTS, BASE_URL, new_key, replace_in
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import bare_events, intent

pytestmark = [pytest.mark.slow(seconds=60), pytest.mark.usefixtures("no_timed_calls")]


OPERATIONS = ("get_item", "put_item", "delete_item", "query")


class Faulty:
    """A DynamoDB client whose Nth call fails: before it is made, or when it has been made already."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.exceptions = client.exceptions
        self.calls = 0
        self.at = 0
        self.how = ""
        self.injected: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name not in OPERATIONS:
            return method

        def call(**arguments: Any) -> Any:
            self.calls += 1
            if self.calls != self.at:
                return method(**arguments)
            self.injected[f"{self.how} in {name}"] += 1
            match self.how:
                case "throttled":
                    code = "ProvisionedThroughputExceededException"
                    raise ClientError({"Error": {"Code": code, "Message": ""}}, name)
                case "lost":  # made, and the answer never came
                    method(**arguments)
                    raise ReadTimeoutError(endpoint_url="dynamodb")
                case "conflict" if name == "put_item":
                    error: Json = {"Error": {"Code": "ConditionalCheckFailedException", "Message": ""}}
                    key = {part: arguments["Item"][part] for part in ("pk", "sk")}
                    there = self._client.get_item(TableName=arguments["TableName"], Key=key).get("Item")
                    raise ClientError(error | ({"Item": there} if there else {}), name)
            raise ReadTimeoutError(endpoint_url="dynamodb")

        return call


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn whose first write was made, and whose answer never came, is no one's for so long."""
    for module in (head, intake, lease):
        monkeypatch.setattr(module, "LEASE_SECONDS", 2.0)
    monkeypatch.setattr(recovery, "CLAIM_SECONDS", 0.5)  # the same for a message that was written ahead


@pytest.fixture(autouse=True)
def take_new_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stream tries a slot that no other has tried. A slot whose release failed stays taken, and meeting
    it would cost one more call."""
    numbers = itertools.count()
    replace_in(call_slots, random, monkeypatch, randrange=lambda limit: next(numbers) % limit)


@pytest.fixture
def faulty(settings: Settings) -> Faulty:
    return Faulty(clients.dynamodb(settings))


@pytest.fixture
def rest(settings: Settings, faulty: Faulty) -> Iterator[Rest]:
    kit = Kit(settings)
    client: Any = faulty
    kit.store = Store(Table(client, settings.table), ttl=86_400)
    with TestClient(create_app(kit), base_url=BASE_URL, raise_server_exceptions=False) as test_client:
        yield Rest(test_client, new_key(kit))


FAULTS = {
    "send": 4,
    "stream": 6,
    "answer": 7,
    "get": 1,
    "list": 1,
    "cancel": 4,
    "push": 2,
    "delete push": 3,
    "worker": 6,
}
"""Calls of each operation to the table, so the faults of one kind that are injected into it."""


def operations(rest: Rest, task_id: str) -> dict[str, tuple[str, str, Json]]:
    params = {"message": message_1_0(metadata=intent("pieces", count="3"), contextId=str(uuid.uuid4()))}
    answer = {"message": message_1_0("yes", taskId=task_id, metadata=intent("question"))}
    hook = {"id": "a", "url": "https://example.com/"}
    return {
        "send": ("POST", "message:send", params),
        "stream": ("POST", "message:stream", params),
        "answer": ("POST", "message:send", answer),
        "get": ("GET", f"tasks/{task_id}", None),
        "list": ("GET", "tasks?includeArtifacts=true&pageSize=3", None),
        "cancel": ("POST", f"tasks/{task_id}:cancel", None),
        "push": ("POST", f"tasks/{task_id}/pushNotificationConfigs", hook),
        "delete push": ("DELETE", f"tasks/{task_id}/pushNotificationConfigs/a", None),
    }


@pytest.mark.parametrize("how", ["throttled", "timed out", "lost", "conflict"])
@pytest.mark.parametrize("name", operations(Rest, ""))  # type: ignore[arg-type]
def test_every_call_of_every_operation(
    rest: Rest, faulty: Faulty, name: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for at in range(1, 30):
        faulty.at = 0
        question = rest.send("question", text=str(at), configuration={})
        rest.call(
            "POST",
            f"tasks/{question['id']}/pushNotificationConfigs",
            {"id": "a", "url": "https://example.com/"},
        )
        verb, path, body = operations(rest, question["id"])[name]
        faulty.calls, faulty.at, faulty.how = 0, at, how
        answer = rest.ask(verb, path, body)
        calls = faulty.calls
        faulty.at = 0
        assert answer.status_code in (200, 503), answer.text
        if answer.status_code == 200 and name == "stream":
            last = bare_events(answer.text)[-1]
            assert "error" in last or last["statusUpdate"]["status"]["state"] in STOPPED
        if answer.status_code == 503:
            assert answer.json()["error"]["message"]
            assert "Traceback" not in answer.text
        whole(rest, answer, name)
        again = rest.ask(verb, path, body)  # what a client does
        is_over = name == "cancel" and again.status_code == 400  # the first try has canceled it
        assert again.status_code == 200 or is_over, (at, how, again.text)
        whole(rest, again, name)
        if calls < at:
            break
    else:
        raise AssertionError("it makes more calls than this test tries")
    assert sum(faulty.injected.values()) == FAULTS[name]
    with capsys.disabled():
        print(f"\n{name}, {how}: {FAULTS[name]} faults, none half-written", end="")


def whole(rest: Rest, answer: Any, name: str) -> None:
    """Every task of the owner's can be read, and what it says it holds is there."""
    if answer.status_code == 200 and name == "send":
        task = answer.json()["task"]
        assert task["status"]["state"] in STOPPED
        if task["status"]["state"] == "TASK_STATE_COMPLETED":
            [artifact] = task["artifacts"]
            assert artifact["parts"] == [{"text": "0 1 2 "}]
    for task in rest.call("GET", "tasks?includeArtifacts=true&pageSize=5")["tasks"]:
        again = rest.call("GET", f"tasks/{task['id']}")
        assert again["history"]
        assert json.dumps(again.get("artifacts", [])) == json.dumps(task.get("artifacts", []))


@pytest.mark.parametrize("how", ["throttled", "timed out", "lost", "conflict"])
def test_every_call_of_the_worker_and_of_the_sweep(
    settings: Settings, faulty: Faulty, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message that could not be worked off comes again; the turn is run to its end, and once."""
    bench = WorkerBench(settings)
    client: Any = faulty
    store = Store(Table(client, settings.table, clock=bench.clock), ttl=86_400)
    agents = Agents.of(Agent.load(AGENTS / "probe"))
    worker, sweep = Worker(store, agents, files=Files()), Sweep(store, Dispatcher(bench.queue))
    for at in range(1, 40):
        context_id = str(uuid.uuid4())
        task_id = bench.send("look", contextId=context_id)["id"]
        ticket = bench.ticket(task_id)
        faulty.calls, faulty.at, faulty.how = 0, at, how
        with contextlib.suppress(StoreError):
            asyncio.run(worker.run_turn(ticket, None))
        calls = faulty.calls
        for _ in range(3):
            faulty.at = 0
            bench.clock.now += 400  # its worker is dead; the sweep and SQS deliver it again
            asyncio.run(sweep.run())
            asyncio.run(worker.run_turn(ticket, None))
        head = bench.head(task_id)
        assert head.state in STOPPED, (at, how, head.state)
        if head.state == "TASK_STATE_COMPLETED":
            turns = bench.store.get_context(bench.namespace, context_id).memory["turns"]
            assert turns == 1, (at, how)
        if calls < at:
            break
    else:
        raise AssertionError("it makes more calls than this test tries")
    assert sum(faulty.injected.values()) == FAULTS["worker"]
    with capsys.disabled():
        print(f"\nworker, {how}: {FAULTS['worker']} faults, each turn counted once", end="")
