"""A copy of the kit, in which agents can be edited."""

from pathlib import Path

import pytest

from tests.helpers.project import copy_kit

NOISY = """
import logging
import signal
import subprocess
import time

from a2a_lambda import Turn, skill


@skill
def hello(turn: Turn) -> str:
    logging.getLogger("mine").info("I saw %s", turn.text)
    if turn.text == "slow":
        time.sleep(600)
    if turn.text == "nap":
        time.sleep(5)
        return "awake"
    if turn.text == "interrupt a program":
        program = subprocess.Popen(["sleep", "600"])
        program.send_signal(signal.SIGINT)
        return str(program.wait(60))
    raise RuntimeError("broken on purpose")
"""


IMPORT = "IMPORT_SECONDS = 7.0"
"""Instead of 30 s, in the copy."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fork = copy_kit(tmp_path_factory.mktemp("fork"))
    noisy = fork / "functions/agents/noisy"
    noisy.mkdir()
    skill = "{ id: hello, name: Hello, description: Logs. }"
    (noisy / "card.yaml").write_text(f"name: N\ndescription: N.\nversion: 0.1.0\nskills: [{skill}]\n")
    (noisy / "agent.py").write_text(NOISY)
    agents = fork / "layers/a2a/a2a_lambda/catalog/agents.py"
    text = agents.read_text()
    for limit, shorter in (("SERVE_SECONDS = 8.0", "SERVE_SECONDS = 2.0"), ("IMPORT_SECONDS = 30.0", IMPORT)):
        assert limit in text
        text = text.replace(limit, shorter)
    agents.write_text(text)
    return fork
