"""`make run`, as the one who forks the kit meets it; in a copy, so that an agent can be edited."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx2
import pytest

from tests.conftest import replace_in
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.dev_server import DevServer, refusal
from tests.helpers.rpc import Rpc, bare_events, message, request, texts
from tests.push.courier import Webhook
from tools.dev import server as server_module
from tools.dev.console import ENDING
from tools.dev.server import NOT_RELOADED, RELOADED_FILES

pytestmark = pytest.mark.slow(seconds=40)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[DevServer]:
    dev_server = DevServer(folder)
    dev_server.until(dev_server.serves)
    yield dev_server
    dev_server.interrupt()


def test_the_server_prints_what_can_be_pasted(server: DevServer) -> None:
    output = server.output.read_text()
    for card in (".well-known/agent.json", ".well-known/agent-card.json", "alibaba/.well-known/agent.json"):
        assert httpx2.get(f"{server.url}/{card}").json()["url"].startswith(server.url)
        assert f"{server.url}/{card}" in output
    assert "Key: local-key" in output
    [curl] = re.findall(r"^curl .*$", output, re.MULTILINE)
    ids = set()
    for _ in range(2):
        pieces = bare_events(subprocess.check_output(["sh", "-c", curl], text=True))
        assert "Example: Repeat what I said." in json.dumps(pieces)
        assert pieces[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        ids.add(pieces[0]["task"]["id"])
    assert len(ids) == 2, "every paste is a new message"


def test_an_edit_is_used_and_no_task_is_lost(server: DevServer, folder: Path) -> None:
    question = server.rpc().send("coach")
    source = folder / "functions/agents/assistant/agent.py"
    source.write_text(source.read_text().replace('"Flash!"', '"Edited!"'))
    server.until(lambda: is_edited(server.rpc()))
    assert server.rpc().call("tasks/get", {"id": question["id"]}) == question
    assert "Dribble" in texts(server.rpc().send("basketball", contextId=question["contextId"]))


def test_a_turn_runs_in_the_background_and_notifies(server: DevServer) -> None:
    """The queue and the stream are emulated, and the webhook is on this machine."""
    webhook = Webhook()
    params = {
        "message": message("What is 1 plus 2?"),
        "configuration": {"blocking": False, "pushNotificationConfig": {"url": webhook.url, "token": "t"}},
    }
    task = server.rpc().call("message/send", params)
    assert task["status"]["state"] == "submitted"
    rpc = server.rpc()
    server.until(lambda: texts(rpc.call("tasks/get", {"id": task["id"]})) == "1 plus 2 is 3.")
    server.until(lambda: any(body["status"]["state"] == "completed" for _, body, _ in webhook.seen))
    headers, body, _ = webhook.seen[-1]
    assert headers["x-a2a-notification-token"] == "t"
    assert body["id"] == task["id"]
    webhook.close()


def test_a_broken_edit_is_answered_with_why(server: DevServer, folder: Path) -> None:
    """Only its own agent answers so."""
    source = folder / "functions/agents/assistant/agent.py"
    whole = source.read_text()
    line = whole.count("\n") + 1
    assistant, noisy = server.rpc(), server.rpc()
    noisy.path = "/a2a/noisy"
    for edit, why in (
        ("def (\n", f"agent.py:{line}: invalid syntax"),
        ("import nowhere\n", f"agent.py:{line}: there is no module 'nowhere'"),
        ("@skill\ndef extra(turn): ...\n", "not in card.yaml"),
    ):
        before = len(server.output.read_text())
        source.write_text(whole + edit)
        server.until(partial(is_refused, assistant, why))
        output = server.output.read_text()[before:]
        assert "functions/agents/assistant/agent.py" in output
        assert "Traceback" not in output, "one frame of the author's code, and none of the kit's"
        assert noisy.send("hi")["status"]["state"] == "failed", "it is there, and raises as always"
        source.write_text(whole)
        server.until(partial(is_refused, assistant, "none"))


def test_a_new_agent_is_served_with_warnings_until_it_is_moved_away(server: DevServer, folder: Path) -> None:
    agent = folder / "functions/agents/asker"
    agent.mkdir()
    skill = "{ id: hello, name: Hello, description: Asks. }"
    code = "from a2a_lambda import Ask, skill\n\n\n@skill\ndef hello():\n    size = yield Ask('Which?')\n"
    (agent / "agent.py").write_text(code)
    (agent / "card.yaml").write_text(f"name: A\ndescription: A.\nversion: 0.1.0\nskills: [{skill}]\n")
    try:
        server.until(lambda: server.serves("asker"))
        assert "asker/agent.py:6: this `yield` never returns the reply" in server.output.read_text()
    finally:
        agent.rename(folder / "asker")
    server.until(lambda: not server.serves("asker"))
    assert "removed agent: asker" in server.output.read_text()


def is_edited(rpc: Rpc) -> bool:
    return "Edited!" in rpc.post(request("message/send", {"message": message("flash")})).text


def is_refused(rpc: Rpc, why: str) -> bool:
    return why in refusal(rpc)


def test_keys_are_made_listed_and_revoked(server: DevServer) -> None:
    key_output = server.key(NAME="alice", OWNER="team", AGENTS="assistant", DAYS="9")
    secret = key_output.split()[0]
    assert secret.startswith("a2a_")
    assert key_output.endswith(f"Next: make chat PORT={server.port} AGENT=assistant KEY=<key>\n")
    list_output = server.key()
    assert re.search(r"alice +owner team +agents assistant +expires 20\d\d", list_output)
    assert secret not in list_output
    server.until(lambda: server.rpc(secret).post({}).status_code == 200)
    assert "already" in server.key(NAME="alice")
    assert "revoked alice" in server.key(NAME="alice", REVOKE="1")
    assert "alice" not in server.key()
    assert "no key" in server.key(NAME="alice", REVOKE="1")
    assert "greater than 0" in server.key(NAME="bob", DAYS="-1")
    assert "no agent 'nobody'" in server.key(NAME="bob", DAYS="", AGENTS="nobody")
    assert "add NAME" in server.key(OWNER="team")
    assert "DAYS must be a number" in server.key(NAME="bob", DAYS="soon")


def test_a_taken_port_is_one_line(server: DevServer, folder: Path) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "tools.dev.server"],
        cwd=folder,
        env=server.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert f"port {server.port}" in second.stderr


def test_each_request_is_a_line_and_agents_log_what_they_like(server: DevServer) -> None:
    rpc = server.rpc()
    rpc.path = "/a2a/noisy"
    task = rpc.send("break")
    server.until(lambda: task["id"] in server.output.read_text())
    lines = server.output.read_text().splitlines()
    assert any(re.search(rf"POST /a2a/noisy  noisy  {task['id']}  200  \d+ ms$", line) for line in lines)
    assert any(line.endswith("INFO     mine: I saw break") for line in lines)
    trace = "\n".join(
        lines[next(n for n, line in enumerate(lines) if "skill" in line and "failed" in line) :]
    )
    assert "RuntimeError: broken on purpose" in trace
    assert "agents/noisy/agent.py" in trace
    assert "a2a_lambda/agent/executor.py" not in trace
    assert "\x1b[" not in trace, "colours are for terminals"


def test_programs_that_an_agent_starts_can_be_interrupted(server: DevServer) -> None:
    rpc = server.rpc()
    rpc.path = "/a2a/noisy"
    assert texts(rpc.send("interrupt a program")) == str(-signal.SIGINT)


def test_an_edit_tells_those_who_wait(server: DevServer, folder: Path) -> None:
    """Their turns end at once, with a word that says what to do, and no traceback of the server's. Who calls
    meanwhile waits for the next process."""
    rpc = server.rpc()
    rpc.path = "/a2a/noisy"
    before = len(server.output.read_text())
    with ThreadPoolExecutor(3) as pool:
        waiting = pool.submit(rpc.post, request("message/send", {"message": message("slow")}))
        following = pool.submit(rpc.stream, "slow")
        server.until(lambda: server.output.read_text()[before:].count("I saw slow") == 2)
        source = folder / "functions/agents/noisy/agent.py"
        with httpx2.stream("GET", f"{server.url}/playground/log", timeout=PATIENCE_SECONDS) as log:
            source.write_text(source.read_text() + "\n")
            log.read()  # it ends when the process begins to end
        late = server.rpc()
        late.path = "/a2a/noisy"
        late_task = pool.submit(late.send, "nap")
        sent_status = waiting.result(PATIENCE_SECONDS).json()["result"]["status"]
        streamed_status = following.result(PATIENCE_SECONDS)[-1]["status"]
    for status in (sent_status, streamed_status):
        assert status["state"] == "failed"
        assert status["message"]["parts"] == [{"kind": "text", "text": ENDING}]
    assert texts(late_task.result()) == "awake"
    server.until(server.serves)
    assert "Traceback" not in server.output.read_text()[before:]


def test_turns_that_begin_while_the_process_ends_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """After one grace for all, also while another one is slow to end. Those that begin later get none: their
    requests would be cancelled."""
    steps: list[object] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        steps.append(seconds)
        await sleep(0.01)

    async def stop(reason: str, *, after: float) -> None:
        steps.append((reason, after))
        await asyncio.Event().wait()

    async def go() -> None:
        with monkeypatch.context() as patch:
            replace_in(server_module, asyncio, patch, sleep=pause)
            ending = asyncio.create_task(server_module._stop_all_turns())
            while steps.count((ENDING, 0.0)) < 3:
                await sleep(0)
        ending.cancel()
        await asyncio.wait([ending])
        assert steps[0] == server_module.GRACE_SECONDS
        assert set(steps[1:]) == {(ENDING, 0.0), server_module.LATE_TURNS_SECONDS}

    monkeypatch.setattr(server_module, "stop_turns", stop)
    asyncio.run(go())


def test_an_edit_ends_a_turn_whose_client_has_left(server: DevServer, folder: Path) -> None:
    rpc = server.rpc()
    rpc.path = "/a2a/noisy"
    body = request("message/stream", {"message": message("slow")})
    with rpc.client.stream("POST", rpc.path, json=body, headers={"X-API-Key": rpc.key}) as answer:
        first = next(line for line in answer.iter_lines() if line.startswith("data:"))
    task_id = json.loads(first[5:])["result"]["id"]
    source = folder / "functions/agents/noisy/agent.py"
    source.write_text(source.read_text() + "\n")
    server.until(lambda: rpc.call("tasks/get", {"id": task_id})["status"]["state"] == "failed")
    status = rpc.call("tasks/get", {"id": task_id})["status"]
    assert status["message"]["parts"] == [{"kind": "text", "text": ENDING}], "it was not lost"


@pytest.mark.parametrize(
    ("path", "is_read"),
    [
        ("agents/tests/agent.py", True),
        ("agents/tests/tests/test_it.py", False),
        ("agents/hello/tests/recordings/asks-1.yaml", False),
        ("agents/hello/card.yaml", True),
        ("agents/hello/prompts/system.md", True),
        ("agents/hello/tests/data.json", False),
        ("agents/hello/README.md", False),
    ],
)
def test_an_agent_may_be_called_tests(path: str, is_read: bool) -> None:
    """Its code is reloaded, with what it reads, and its tests are not."""
    assert any(Path("functions", path).match(pattern) for pattern in NOT_RELOADED) is not is_read
    assert any(Path("functions", path).match(pattern) for pattern in RELOADED_FILES)


def test_idle_is_idle(server: DevServer) -> None:
    """In CPU time of the server, its reloader and its emulator, over a quiet while: a few percent of a core,
    where polling would take 40."""
    tree = descendants(server.process.pid)
    assert len(tree) >= 3

    def is_quiet() -> bool:
        start = cpu_seconds(tree)
        time.sleep(1)
        return cpu_seconds(tree) - start < 0.1

    server.until(is_quiet)  # what came before is over
    before, began = cpu_seconds(tree), time.monotonic()
    time.sleep(8)
    share = (cpu_seconds(tree) - before) / (time.monotonic() - began)
    print(f"\nidle: {100 * share:.2f} % of a core")
    assert share < 0.1


def descendants(pid: int) -> list[int]:
    pids = [pid]
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if parent in pids and int(path.parent.name) not in pids:
                pids.append(int(path.parent.name))
    return pids


def cpu_seconds(pids: list[int]) -> float:
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")
