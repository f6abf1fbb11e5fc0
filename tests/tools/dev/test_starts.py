"""`make run` from its start to its end: ports, what cannot be served, and what it does by itself."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.helpers.clock import wait_until
from tests.helpers.dev_server import DevServer, refusal
from tests.helpers.rpc import Rpc, message, request, texts
from tools.build.built_functions import free_port
from tools.state import state_file

pytestmark = pytest.mark.slow(seconds=80)


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_two_that_race_for_a_port(folder: Path) -> None:
    """One serves, the other says so and ends, at whatever moment they meet."""
    first = DevServer(folder)
    second = DevServer(folder, PORT=str(first.port))
    second.url = first.url
    first.until(lambda: None not in (first.process.poll(), second.process.poll()) or first.serves())
    first.until(lambda: first.process.poll() is not None or second.process.poll() is not None)
    [loser, serving] = sorted((first, second), key=lambda server: server.process.poll() is None)
    assert loser.process.returncode == 1
    assert serving.process.poll() is None
    assert f"port {first.port}: Address already in use" in loser.output.read_text()
    serving.interrupt()


def test_the_agents_that_are_named_are_served_and_shown(folder: Path) -> None:
    server = DevServer(folder, A2A_AGENT_NAMES="noisy")
    server.until(lambda: server.serves() and server.serves("noisy"))
    output = server.output.read_text()
    serves_others = server.serves("assistant")
    server.interrupt()
    assert not serves_others
    assert f"Serving noisy on {server.url}" in output
    assert f"curl -sN {server.url}/message:stream" in output
    assert "assistant" not in output


def test_variables_that_no_one_reads_are_named(folder: Path) -> None:
    (folder / ".env").write_text("SECRET_A=1\nOTHER=2\n")
    server = DevServer(folder, A2A_AGENT_NAME="noisy")
    server.until(server.serves)
    (folder / ".env").unlink()
    server.interrupt()
    assert (
        "note: make run reads only SECRET_… and SETTING_… from .env, not OTHER." in server.output.read_text()
    )


def test_a_killed_servers_state_does_not_stay_readable(folder: Path) -> None:
    """It has the key."""
    port = free_port()
    state = folder / state_file(port)
    state.touch(mode=0o644)
    server = DevServer(folder, port, A2A_AGENT_NAMES="noisy")
    server.until(lambda: server.serves("noisy"))
    mode = stat.S_IMODE(state.stat().st_mode)
    server.interrupt()
    assert mode == 0o600


def test_a_server_whose_parent_was_killed_gives_up_its_port(folder: Path) -> None:
    """The next `make run` needs it."""
    server = DevServer(folder, A2A_AGENT_NAMES="noisy")
    server.until(lambda: server.serves("noisy"))
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    wait_until(lambda: not listening(server.port))


def test_ctrl_c_ends_everything(folder: Path) -> None:
    server = DevServer(folder, LOCAL_KEY="another")
    server.until(server.serves)
    assert server.rpc("another").send("hi")["status"]["state"] == "completed"
    emulator = int(json.loads((folder / state_file(server.port)).read_text())["emulator"].rsplit(":", 1)[1])
    assert listening(emulator)
    server.interrupt()
    assert not listening(emulator)
    assert not listening(server.port)
    assert not (folder / state_file(server.port)).exists()


def test_ctrl_c_while_agents_are_imported_prints_no_traceback(folder: Path) -> None:
    place = folder / "functions/agents/slow"
    place.mkdir()
    skill = "{ id: hello, name: Hello, description: Says hello. }"
    (place / "card.yaml").write_text(f"name: S\ndescription: S.\nversion: 0.1.0\nskills: [{skill}]\n")
    (place / "agent.py").write_text("import time\n\nprint('it imports', flush=True)\ntime.sleep(60)\n")
    server = DevServer(folder)
    try:
        server.until(lambda: "it imports" in server.output.read_text())
        assert server.interrupt() == 0
        assert "Traceback" not in server.output.read_text()
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.killpg(server.process.pid, signal.SIGKILL)
        shutil.rmtree(place)


STARTS = """
import contextlib, multiprocessing, signal
from tools.dev.server import block_interrupts


def print_block():
    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []), flush=True)


if __name__ == "__main__":
    for manager in (block_interrupts(), contextlib.nullcontext()):
        process = multiprocessing.get_context("spawn").Process(target=print_block)
        with manager:
            process.start()
        process.join()
"""


def test_ctrl_c_is_blocked_in_a_process_that_starts(tmp_path: Path) -> None:
    """It is not blocked in later ones."""
    (tmp_path / "starts.py").write_text(STARTS)
    output = subprocess.check_output([sys.executable, str(tmp_path / "starts.py")], text=True)
    assert output.split() == ["True", "False"]


def test_a_broken_card_is_named_and_the_others_are_served(folder: Path) -> None:
    card = folder / "functions/agents/assistant/card.yaml"
    text = card.read_text()
    card.write_text(text + "colour: red\n")
    try:
        server = DevServer(folder)
        server.until(lambda: server.serves("noisy"))
        problem = f"card.yaml:{text.count(chr(10)) + 1}: colour is not a field of a card."
        server.until(lambda: problem in server.output.read_text())
        assert problem in refusal(server.rpc()), "no other agent answers in its place"
        server.interrupt()
    finally:
        card.write_text(text)


@pytest.mark.parametrize("code", ["while True:\n    pass\n", "import threading\nthreading.Event().wait()\n"])
def test_an_endless_import_is_named_and_an_edit_or_ctrl_c_frees_the_server(folder: Path, code: str) -> None:
    place = folder / "functions/agents/endless"
    place.mkdir()
    try:
        skill = "{ id: hello, name: Hello, description: Says hello. }"
        (place / "card.yaml").write_text(f"name: E\ndescription: E.\nversion: 0.1.0\nskills: [{skill}]\n")
        (place / "agent.py").write_text(code)
        server = DevServer(folder)
        warning = r"warning: functions/agents/endless/agent\.py:[12] has been importing for 3 s"
        server.until(lambda: re.search(warning, server.output.read_text()) is not None)
        endless = Rpc(server.rpc().client, "local-key", "/a2a/endless")
        body = request("message/send", {"message": message("hi")})
        # The others are served.
        server.until(lambda: server.rpc().send("hi")["status"]["state"] == "completed")
        server.until(lambda: "its import takes longer than 7 s" in server.output.read_text())
        assert "its import takes longer than 7 s" in refusal(endless)
        good = "from a2a_lambda import skill\n\n\n@skill\ndef hello(turn): return 'hello'\n"
        (place / "agent.py").write_text(good)
        server.until(lambda: "result" in endless.post(body).json())
        (place / "agent.py").write_text(code)
        server.until(lambda: server.output.read_text().count("has been importing for") >= 2)
        server.interrupt()
    finally:
        shutil.rmtree(place)


def test_schedules_run_by_themselves_and_by_hand(folder: Path) -> None:
    """They go on after an edit has started the server again. Keys are those of the server started last."""
    server = DevServer(folder)

    def fire(**variables: str) -> str:
        server.environment |= {"AGENT": "", "SCHEDULE": "", "COLUMNS": "200", **variables}
        return server.run("tools.client.fire", stdout=subprocess.PIPE).communicate()[0]

    server.until(lambda: "has a schedule: add one" in fire())  # it may be starting again
    shutil.copytree(ROOT / "recipes/nightly", folder / "functions/agents/nightly")
    card = folder / "functions/agents/nightly/card.yaml"
    card.write_text(card.read_text().replace('"0 22 * * 1-5"', '"* * * * *"'))
    server.until(lambda: "* * * * *" in fire())
    assert re.search(r"nightly +nightly +\* \* \* \* \* +Asia/Shanghai +20\S+ \S+ +reports", fire())
    answer = fire(AGENT="nightly", SCHEDULE="nightly")
    assert "started: task" in answer
    assert "terminal of make run" in answer
    assert "Schedules: nightly/nightly" in fire(AGENT="nightly", SCHEDULE="daily")
    assert "give both" in fire(AGENT="nightly")
    secret = server.key(NAME="reports").split()[0]
    assert secret.startswith("a2a_")
    reports = server.rpc(secret)
    reports.path = "/a2a/nightly"
    server.until(lambda: "error" not in reports.post(request("ListTasks", {})).json())  # a key takes seconds

    def texts_at_the_end() -> list[str]:
        tasks = reports.call("ListTasks", {"includeArtifacts": True})["tasks"]
        return [texts(task) for task in tasks if task["status"]["state"] == "TASK_STATE_COMPLETED"]

    server.until(lambda: len(texts_at_the_end()) >= 2)  # by hand, and at the next minute
    assert all("all was quiet" in text for text in texts_at_the_end())
    shutil.rmtree(folder / "functions/agents/nightly")
    server.until(lambda: "has a schedule: add one" in fire())
    server.interrupt()
