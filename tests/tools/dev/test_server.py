"""`make run`, as the one who forks the kit meets it; in a copy, so that an agent can be edited."""

import json
import os
import re
import shutil
import socket
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

from tests.conftest import ROOT
from tests.helpers.dev_server import PATIENCE, DevServer
from tests.helpers.project import copy_kit
from tests.helpers.rest import bare_events
from tests.helpers.rpc import Rpc, message, request, texts
from tests.processes.servers import answers
from tests.push.courier import Webhook
from tools.dev.server import NOT_RELOADED
from tools.state import state_file

pytestmark = pytest.mark.slow(seconds=90)


NOISY = """
import logging
import time

from a2a_lambda import Turn, skill


@skill
def hello(turn: Turn) -> str:
    logging.getLogger("mine").info("I saw %s", turn.text)
    if turn.text == "slow":
        time.sleep(600)
    raise RuntimeError("broken on purpose")
"""

IMPORT = "IMPORT_SECONDS = 7.0"
"""Instead of 30 s, in the copy."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = copy_kit(tmp_path_factory.mktemp("fork"))
    noisy = made / "functions/agents/noisy"
    noisy.mkdir()
    skill = "{ id: hello, name: Hello, description: Logs. }"
    (noisy / "card.yaml").write_text(f"name: N\ndescription: N.\nversion: 0.1.0\nskills: [{skill}]\n")
    (noisy / "agent.py").write_text(NOISY)
    agents = made / "layers/a2a/a2a_lambda/catalog/agents.py"
    text = agents.read_text()
    for limit, shorter in (("SERVE_SECONDS = 8.0", "SERVE_SECONDS = 2.0"), ("IMPORT_SECONDS = 30.0", IMPORT)):
        assert limit in text
        text = text.replace(limit, shorter)
    agents.write_text(text)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[DevServer]:
    made = DevServer(folder)
    made.until(lambda: answers(f"{made.url}/.well-known/agent.json"))
    yield made
    made.interrupt()


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_it_prints_what_can_be_pasted(server: DevServer) -> None:
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
    asked = server.rpc().send("coach")
    source = folder / "functions/agents/assistant/agent.py"
    source.write_text(source.read_text().replace('"Flash!"', '"Edited!"'))
    server.until(lambda: is_edited(server.rpc()))
    assert server.rpc().call("tasks/get", {"id": asked["id"]}) == asked
    assert "Dribble" in texts(server.rpc().send("basketball", contextId=asked["contextId"]))


def test_it_runs_in_the_background_and_notifies(server: DevServer) -> None:
    """With an emulated queue and stream, and a webhook on this machine."""
    webhook = Webhook()
    sent = {
        "message": message("What is 1 plus 2?"),
        "configuration": {"blocking": False, "pushNotificationConfig": {"url": webhook.url, "token": "t"}},
    }
    task = server.rpc().call("message/send", sent)
    assert task["status"]["state"] == "submitted"
    found = server.rpc()
    server.until(lambda: texts(found.call("tasks/get", {"id": task["id"]})) == "1 plus 2 is 3.")
    server.until(lambda: any(body["status"]["state"] == "completed" for _, body, _ in webhook.seen))
    headers, body, _ = webhook.seen[-1]
    assert headers["x-a2a-notification-token"] == "t"
    assert body["id"] == task["id"]
    webhook.close()


def test_a_broken_edit_is_answered_with_why(server: DevServer, folder: Path) -> None:
    """And only by its own agent."""
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
        said = server.output.read_text()[before:]
        assert "functions/agents/assistant/agent.py" in said
        assert "Traceback" not in said, "one frame of the author's code, and none of the kit's"
        assert noisy.send("hi")["status"]["state"] == "failed", "it is there, and raises as always"
        source.write_text(whole)
        server.until(partial(is_refused, assistant, "none"))


def is_edited(rpc: Rpc) -> bool:
    return "Edited!" in rpc.post(request("message/send", {"message": message("flash")})).text


def is_refused(rpc: Rpc, why: str) -> bool:
    return why in refusal(rpc)


def refusal(rpc: Rpc) -> str:
    """Why a message gets 503, "none" if it does not."""
    found = rpc.post(request("message/send", {"message": message("hi")}))
    return found.json()["error"]["message"] if found.status_code == 503 else "none"


def test_keys_are_made_listed_and_revoked(server: DevServer) -> None:
    made = server.key(NAME="alice", OWNER="team", AGENTS="assistant", DAYS="9")
    secret = made.split()[0]
    assert secret.startswith("a2a_")
    assert made.endswith(f"Next: make chat PORT={server.port} AGENT=assistant KEY=<key>\n")
    listed = server.key()
    assert re.search(r"alice +owner team +agents assistant +expires 20\d\d", listed)
    assert secret not in listed
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


def test_two_that_race_for_a_port(folder: Path) -> None:
    """One serves, the other says so and ends, at whatever moment they meet."""
    first = DevServer(folder)
    second = DevServer(folder, PORT=str(first.port))
    second.url = first.url
    first.until(lambda: None not in (first.process.poll(), second.process.poll()) or answers_card(first.url))
    first.until(lambda: first.process.poll() is not None or second.process.poll() is not None)
    [ended, serving] = sorted((first, second), key=lambda server: server.process.poll() is None)
    assert ended.process.returncode == 1
    assert serving.process.poll() is None
    assert f"port {first.port}: Address already in use" in ended.output.read_text()
    serving.interrupt()


def answers_card(url: str) -> bool:
    return answers(f"{url}/.well-known/agent.json")


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


def test_an_edit_tells_those_who_wait(server: DevServer, folder: Path) -> None:
    """Their turn is lost: a 503 that says so, and no traceback of the server's."""
    rpc = server.rpc()
    rpc.path = "/a2a/noisy"
    before = len(server.output.read_text())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(rpc.post, request("message/send", {"message": message("slow")}))
        server.until(lambda: "I saw slow" in server.output.read_text()[before:])
        source = folder / "functions/agents/noisy/agent.py"
        source.write_text(source.read_text() + "\n")
        answered = waiting.result(PATIENCE)
    assert answered.status_code == 503
    assert "send the message again" in answered.json()["error"]["message"]
    server.until(lambda: answers(f"{server.url}/.well-known/agent.json"))
    assert "Traceback" not in server.output.read_text()[before:]


@pytest.mark.parametrize(
    ("path", "is_read"),
    [
        ("agents/tests/agent.py", True),
        ("agents/tests/tests/test_it.py", False),
        ("agents/hello/tests/recordings/asks-1.yaml", False),
        ("agents/hello/card.yaml", True),
    ],
)
def test_an_agent_may_be_called_tests(path: str, is_read: bool) -> None:
    """Its code is reloaded, and its tests are not."""
    assert any(Path("functions", path).match(pattern) for pattern in NOT_RELOADED) is not is_read


def test_idle_is_idle(server: DevServer) -> None:
    """In the processor's time of the server, its reloader and its emulator, over a quiet while: under 3 % of
    a core here, and on a slow one far from the 40 % it takes to poll."""
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
    found = [pid]
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if parent in found and int(path.parent.name) not in found:
                found.append(int(path.parent.name))
    return found


def cpu_seconds(pids: list[int]) -> float:
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def test_ctrl_c_ends_everything(folder: Path) -> None:
    made = DevServer(folder, LOCAL_KEY="another")
    made.until(lambda: answers(f"{made.url}/.well-known/agent.json"))
    assert made.rpc("another").send("hi")["status"]["state"] == "completed"
    emulator = int(json.loads((folder / state_file(made.port)).read_text())["emulator"].rsplit(":", 1)[1])
    assert listening(emulator)
    made.interrupt()
    assert not listening(emulator)
    assert not listening(made.port)
    assert not (folder / state_file(made.port)).exists()


def test_a_broken_card_is_named_and_the_others_are_served(folder: Path) -> None:
    card = folder / "functions/agents/assistant/card.yaml"
    whole = card.read_text()
    card.write_text(whole + "colour: red\n")
    try:
        made = DevServer(folder)
        made.until(lambda: answers(f"{made.url}/a2a/noisy/.well-known/agent.json"))
        said = f"card.yaml:{whole.count(chr(10)) + 1}: colour is not a field of a card."
        made.until(lambda: said in made.output.read_text())
        assert said in refusal(made.rpc()), "no other agent answers in its place"
        made.interrupt()
    finally:
        card.write_text(whole)


@pytest.mark.parametrize("code", ["while True:\n    pass\n", "import threading\nthreading.Event().wait()\n"])
def test_an_endless_import_is_named_and_an_edit_or_ctrl_c_frees_the_server(folder: Path, code: str) -> None:
    place = folder / "functions/agents/endless"
    place.mkdir()
    try:
        skill = "{ id: hello, name: Hello, description: Says hello. }"
        (place / "card.yaml").write_text(f"name: E\ndescription: E.\nversion: 0.1.0\nskills: [{skill}]\n")
        (place / "agent.py").write_text(code)
        made = DevServer(folder)
        named = r"warning: functions/agents/endless/agent\.py:[12] has been importing for 3 s"
        made.until(lambda: re.search(named, made.output.read_text()) is not None)
        endless = Rpc(made.rpc().client, "local-key", "/a2a/endless")
        asked = request("message/send", {"message": message("hi")})
        made.until(lambda: made.rpc().send("hi")["status"]["state"] == "completed")  # the others are served
        made.until(lambda: "its import takes longer than 7 s" in made.output.read_text())
        assert "its import takes longer than 7 s" in refusal(endless)
        good = "from a2a_lambda import skill\n\n\n@skill\ndef hello(turn): return 'hello'\n"
        (place / "agent.py").write_text(good)
        made.until(lambda: "result" in endless.post(asked).json())
        (place / "agent.py").write_text(code)
        made.until(lambda: made.output.read_text().count("has been importing for") >= 2)
        made.interrupt()
    finally:
        shutil.rmtree(place)


def test_schedules_run_by_themselves_and_by_hand(folder: Path) -> None:
    """And on, after an edit has started the server again. Keys are those of the server started last."""
    server = DevServer(folder)

    def fire(**variables: str) -> str:
        server.environment |= {"AGENT": "", "SCHEDULE": "", "COLUMNS": "200", **variables}
        return server.run("tools.client.fire", stdout=subprocess.PIPE).communicate()[0]

    server.until(lambda: "no agent has a schedule" in fire())  # it may be starting again
    shutil.copytree(ROOT / "recipes/nightly", folder / "functions/agents/nightly")
    card = folder / "functions/agents/nightly/card.yaml"
    card.write_text(card.read_text().replace('"0 22 * * 1-5"', '"* * * * *"'))
    server.until(lambda: "* * * * *" in fire())
    assert re.search(r"nightly +nightly +\* \* \* \* \* +Asia/Shanghai +20\S+ \S+ +reports", fire())
    assert "started: task" in fire(AGENT="nightly", SCHEDULE="nightly")
    assert "There are: nightly/nightly" in fire(AGENT="nightly", SCHEDULE="daily")
    assert "give both" in fire(AGENT="nightly")
    secret = server.key(NAME="reports").split()[0]
    assert secret.startswith("a2a_")
    reports = server.rpc(secret)
    reports.path = "/a2a/nightly"
    server.until(lambda: "error" not in reports.post(request("ListTasks", {})).json())  # a key takes seconds

    def list_ended() -> list[str]:
        tasks = reports.call("ListTasks", {"includeArtifacts": True})["tasks"]
        return [texts(task) for task in tasks if task["status"]["state"] == "TASK_STATE_COMPLETED"]

    server.until(lambda: len(list_ended()) >= 2)  # by hand, and at the next minute
    assert all("all was quiet" in text for text in list_ended())
    shutil.rmtree(folder / "functions/agents/nightly")
    server.until(lambda: "no agent has a schedule" in fire())
    server.interrupt()
