"""make chat, as someone at a terminal uses it, against `make run`."""

import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.probe.drawings import drawing
from tests.conftest import ROOT
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.dev_server import DevServer
from tests.helpers.project import copy_kit
from tools.callers.a2a import VERSIONS

pytestmark = pytest.mark.slow


ASKED = "Which sport should I coach"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    dev_server = DevServer(copy_kit(tmp_path_factory.mktemp("chat"), agents=("assistant", "probe")))
    dev_server.until(dev_server.serves)
    yield dev_server
    dev_server.interrupt()


def start(server: DevServer, **variables: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tools.client.chat"],
        cwd=server.folder,
        env={**server.environment, "URL": server.url, "KEY": "local-key", **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def chat(server: DevServer, *lines: str, **variables: str) -> tuple[int, str]:
    """Exit status, and what was printed."""
    process = start(server, **variables)
    output, _ = process.communicate("".join(f"{line}\n" for line in lines), timeout=PATIENCE_SECONDS)
    return process.returncode, output


def test_one_message_ends_with_its_status(server: DevServer) -> None:
    assert chat(server, TEXT="What is 1 plus 2?")[0] == 0
    status, output = chat(server, TEXT="/skill ai-calculate num1=1 num2=2")
    assert (status, "1 plus 2 is 3." in output) == (0, True)
    assert chat(server, TEXT="/skill ai-guess")[0] == 1
    status, output = chat(server, TEXT="coach me")
    assert status == 1
    assert ASKED in output
    assert "answers: basketball, football" in output
    assert "input-required" in output
    assert re.search("To answer, add TASK=[0-9a-f-]{36}", output)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_asks_and_is_answered(server: DevServer, version: str) -> None:
    _, output = chat(server, "coach me", "football", VERSION=version, AGENT="assistant")
    assert ASKED in output
    assert output.count("Football, then.") == 1


def test_a_host_of_mcp_calls_tools(server: DevServer) -> None:
    lines = (
        "/skill ai-calculate num1=40 num2=2",
        "hello",
        "/skill ai-coach",
        "football",
        "/skill no",
        "/skill\u3000ai-repeat\u3000my own words",  # the space of Chinese input methods
    )
    status, output = chat(server, *lines, VERSION="mcp", AGENT="assistant")
    assert status == 0
    assert output.count("40 plus 2 is 42.") == 1
    assert output.count("hello\n") == 1  # the first tool repeats it
    assert output.count("my own words\n") == 1
    assert ASKED in output
    assert "Football, then." in output
    assert "there is no skill no" in output
    assert chat(server, VERSION="2.0")[1].startswith("error: VERSION=2.0: use one of 1.0, ")


def test_everything_is_shown_once(server: DevServer, tmp_path: Path) -> None:
    saved_file = tmp_path / "saved.txt"
    lines = (
        "/save 1 nowhere",
        "/skill everything",
        f"/save 1 {saved_file}",
        "/save 2 nowhere",
        "/skill add a=1 b=2",
        "/skill everything city=Rome",
        "/skill",
        "/quit",
        "never sent",
    )
    _, output = chat(server, *lines, AGENT="probe")
    for text in ("thinking", '"number": 9007199254740993', "first second", 'command: {"name":"beep"', "3"):
        assert output.count(text) >= 1, text
    assert output.count("thinking") == 1
    assert saved_file.read_bytes() == b"bytes"
    assert "everything has no parameter city. It has: none" in output
    assert "there is no file 1; none has come" in output
    assert "there is no file 2; the last is 1" in output
    assert "  everything: " in output
    assert "never sent" not in output


def test_a_large_file_is_uploaded_and_one_is_saved_from_its_url(server: DevServer, tmp_path: Path) -> None:
    large, saved_file = tmp_path / "large.png", tmp_path / "saved.png"
    large.write_bytes(b"x" * 6_000_000)
    lines = (f"/file {large}", "/skill examine", "/skill draw size=6000000", f"/save 1 {saved_file}")
    _, output = chat(server, *lines, AGENT="probe")
    assert hashlib.sha256(b"x" * 6_000_000).hexdigest() in output, output
    assert saved_file.read_bytes() == drawing(6_000_000)
    status, output = chat(server, AGENT="probe", TEXT="hi", FILE=str(large))
    assert status == 0, output
    for variables in ({"AGENT": "assistant"}, {"AGENT": "probe", "VERSION": "alibaba"}):
        status, output = chat(server, TEXT="hi", FILE=str(large), **variables)
        assert status == 1
        assert "Larger ones need uploads" in " ".join(output.split())


def test_the_files_of_one_answer_are_saved_in_a_folder(server: DevServer, tmp_path: Path) -> None:
    """Small ones, which have no URL, are saved, too. What is there already is kept."""
    folder = tmp_path / "a" / "b"
    for _ in range(2):
        status, output = chat(server, AGENT="probe", TEXT="/skill draw size=60000", SAVE=str(folder))
        assert status == 0, output
    assert "saved" in output
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["again-2.pdf", "again.pdf", "drawing-2.png", "drawing.png"]
    assert {path.read_bytes() for path in folder.iterdir()} == {drawing(60_000)}


def test_a_file_goes_with_the_next_message(server: DevServer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    lines = (f"/file {tmp_path / 'a.txt'}", "/file /no/such/file", "/skill look")
    _, output = chat(server, *lines, AGENT="probe")
    assert '"a.txt"' in output
    assert "error: /no/such/file: No such file or directory" in output


def test_the_first_message_may_have_files(server: DevServer, tmp_path: Path) -> None:
    for name in ("a.txt", "b c.txt"):
        (tmp_path / name).write_text("hello")
    files = f"{tmp_path}/a.txt '{tmp_path}/b c.txt'"
    _, output = chat(server, "/skill look", FILE=files, AGENT="probe")
    assert '"a.txt"' in output
    assert '"b c.txt"' in output
    _, output = chat(
        server, f'/file "{tmp_path}/a.txt"', "/skill look", FILE=f"{tmp_path}/b c.txt", AGENT="probe"
    )
    assert '"a.txt"' in output
    assert '"b c.txt"' in output
    status, output = chat(server, TEXT="look", FILE=f"{tmp_path}/nothing.txt", AGENT="probe")
    assert status == 1
    assert "nothing.txt: No such file" in output


def test_ctrl_c_cancels_the_task_only(server: DevServer) -> None:
    process = start(server, AGENT="probe")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("/skill pause seconds=600\n")
    process.stdin.flush()
    output_so_far = ""
    while "waiting" not in output_so_far:
        output_so_far += os.read(process.stdout.fileno(), 1000).decode()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate("/skill echo echo\n", timeout=PATIENCE_SECONDS)
    assert "canceled" in output
    assert "echo" in output.partition("canceled")[2], "the conversation continues"
    assert "Traceback" not in output


def test_mistakes_are_explained(server: DevServer) -> None:
    assert "use one of 1.0, 1.0-http" in chat(server, VERSION="7")[1]
    assert "error: unknown command /nope" in chat(server, "/nope")[1]
    assert "there is no skill nope. The agent has ai-repeat" in chat(server, "/skill nope")[1]
    status, output = chat(server, KEY="wrong", TEXT="hello")
    assert status == 1
    assert "key" in output
    status, output = chat(server, URL="http://127.0.0.1:1", TEXT="hello")
    assert (status, "does not answer" in output) == (1, True)


def test_text_has_one_command(server: DevServer) -> None:
    status, output = chat(server, TEXT="/skil echo hello")
    assert (status, "error: /skil: the only command that TEXT= takes is /skill" in output) == (1, True)
    assert chat(server, AGENT="probe", TEXT=" /skil echo hello")[0] == 0


def test_the_cause_of_a_failure_is_in_the_servers_output(server: DevServer) -> None:
    hint = "The output of make run says why."
    assert hint in chat(server, "/skill boom", AGENT="probe")[1]
    assert hint not in chat(server, "/skill boom aloud=true", AGENT="probe")[1], "it has given its reason"


def test_a_task_of_before_is_gone_on_with(server: DevServer) -> None:
    task = server.rpc().send("coach me")
    _, output = chat(server, "football", TASK=task["id"])
    assert ASKED in output
    assert "Football, then." in output
    status, output = chat(server, TASK="unknown")
    assert (status, "no such task" in output) == (1, True)


def test_a_server_that_runs_is_not_to_be_started(server: DevServer) -> None:
    status, output = chat(server, VERSION="qianfan", TEXT="hi")
    assert (status, "Name one, as in AGENT=" in output) == (1, True)
    assert "start it in another terminal" not in output
    assert "start it in another terminal" in chat(server, URL="http://127.0.0.1:1", TEXT="hi")[1]


ENDLESS = """
import asyncio
from tools.client.chat import ChatConsole


async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(show())


async def show():
    console = ChatConsole()
    while True:
        console.print("a line")


asyncio.run(main())
"""


def test_a_reader_that_has_enough_ends_it_quietly() -> None:
    """`head` is such a reader."""
    command = [sys.executable, "-c", ENDLESS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"a line\n"
        process.stdout.close()
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert (errors, process.returncode) == (b"", 141)
