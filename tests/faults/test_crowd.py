"""200 clients at once, two owners, two agents, every operation: no error, no one sees another's."""

import asyncio
import os
import random
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from a2a_lambda.aws import clients
from a2a_lambda.protocol.model import Json
from a2a_lambda.settings import Settings
from tests.conftest import AGENTS as FOLDER
from tests.helpers.rest import message_1_0
from tests.helpers.rpc import bare_events, intent
from tests.processes.servers import process
from tools.build.built_functions import free_port
from tools.registers.keys import KeyRegister

pytestmark = pytest.mark.slow(seconds=50)


CLIENTS = 200
AT_ONCE = 40
AGENTS = ("probe", "assistant")


@pytest.fixture(scope="module")
def crowded(ministack: Settings) -> Iterator[tuple[list[str], list[str]]]:
    """Urls of two processes, and keys of two owners."""
    # A path that no other process reads: one that has read it a moment ago would know no newer keys.
    keys_path = f"/crowd-{uuid.uuid4().hex[:8]}/keys"
    register = KeyRegister(clients.ssm(ministack), keys_path)
    keys = [register.create(label, local=True) for label in ("one", "other")]
    environment = {
        "A2A_TABLE": ministack.table,
        "A2A_KEYS_PATH": keys_path,
        "A2A_LOCAL": "1",
        "A2A_AGENTS": str(FOLDER),
        "A2A_EMULATOR": ministack.emulator,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    ports = [free_port(), free_port()]
    urls = [f"http://127.0.0.1:{port}" for port in ports]

    def node(port: int, url: str) -> Any:
        command = [sys.executable, "-m", "tests.faults.node", "stay", str(port)]
        return process(command, f"{url}/.well-known/agent.json", **environment)

    with node(ports[0], urls[0]), node(ports[1], urls[1]):
        yield urls, keys


def test_a_crowd(crowded: tuple[list[str], list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    urls, keys = crowded
    counts: Counter[str] = Counter()
    crossings = 0

    async def visit(number: int, gate: asyncio.Semaphore, http: httpx2.AsyncClient) -> None:
        nonlocal crossings
        owner = number % 2
        agent = AGENTS[number // 2 % 2]
        place = f"{random.choice(urls)}/a2a/{agent}"
        mine = {"X-API-Key": keys[owner], "A2A-Version": "1.0"}
        others = {**mine, "X-API-Key": keys[1 - owner]}
        context_id = f"context-{number}"

        async def ask(verb: str, path: str, body: Json = None, headers: Any = mine, ok: int = 200) -> Json:
            answer = await http.request(verb, f"{place}/{path}", json=body, headers=headers)
            assert answer.status_code == ok, (verb, path, answer.status_code, answer.text[:300])
            counts[verb + " " + path.split("?", maxsplit=1)[0].split("/", maxsplit=1)[0]] += 1
            return answer

        async with gate:
            skill = intent("question") if agent == "probe" else {}
            text = f"coach me {number}"
            message = message_1_0(text, contextId=context_id, metadata=skill)
            task = (await ask("POST", "message:send", {"message": message})).json()["task"]
            path = f"tasks/{task['id']}"
            assert task["history"][0]["parts"] == [{"text": text}]
            assert (await ask("GET", path)).json() == task
            await ask("GET", path, headers=others, ok=404)
            elsewhere = place.replace(f"/a2a/{agent}", f"/a2a/{AGENTS[1 - AGENTS.index(agent)]}")
            crossing = await http.get(f"{elsewhere}/{path}", headers=mine)
            crossings += crossing.status_code != 404
            if task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED":
                answer = message_1_0("basketball", taskId=task["id"], metadata=skill)
                stream = (await ask("POST", "message:stream", {"message": answer})).text
                last = bare_events(stream)[-1]["statusUpdate"]["status"]
                assert last["state"] == "TASK_STATE_COMPLETED", last
            hooks = f"{path}/pushNotificationConfigs"
            hook = {"id": "a", "url": "https://example.com/"}
            await ask("POST", hooks, hook, headers=others, ok=404)
            await ask("POST", hooks, hook)
            await ask("GET", f"{hooks}/a", headers=others, ok=404)
            await ask("DELETE", f"{hooks}/a")
            await ask("POST", f"{path}:subscribe", headers=others, ok=404)
            await ask("POST", f"{path}:subscribe", ok=400)  # it has ended
            tasks = (await ask("GET", f"tasks?contextId={context_id}")).json()["tasks"]
            assert {item["contextId"] for item in tasks} == {context_id}
            stranger = (await ask("GET", f"tasks?contextId={context_id}", headers=others)).json()["tasks"]
            crossings += len(stranger)
            waiting = (
                await ask("POST", "message:send", {"message": message_1_0("coach", metadata=skill)})
            ).json()
            if waiting["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED":
                await ask("POST", f"tasks/{waiting['task']['id']}:cancel", headers=others, ok=404)
                await ask("POST", f"tasks/{waiting['task']['id']}:cancel")

    async def crowd() -> None:
        gate = asyncio.Semaphore(AT_ONCE)
        async with httpx2.AsyncClient(timeout=120, limits=httpx2.Limits(max_connections=AT_ONCE)) as http:
            await asyncio.gather(*(visit(number, gate, http) for number in range(CLIENTS)))

    asyncio.run(crowd())
    assert crossings == 0
    with capsys.disabled():
        total = sum(counts.values())
        print(f"\n{CLIENTS} clients: {total} operations, no error, nothing crossed: {dict(counts)}")
