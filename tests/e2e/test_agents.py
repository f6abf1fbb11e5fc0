"""make e2e: this repository's own agents, deployed to an emulator of AWS, and called there.

Each agent must load, and answer an example of its card. What it answers is for its own tests: here it may
fail, if it needs a secret or a service that the emulator does not have.
"""

import builtins
import os
import re
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from a2a_lambda.agent.event_builder import FAILED
from a2a_lambda.catalog.agents import read_cards
from a2a_lambda.protocol.model import STOPPED, TaskState, state_word, text_of
from tests.conftest import ROOT
from tests.e2e.stack import CommandFailed, EmulatedStack
from tests.helpers.clock import wait_until
from tests.helpers.rest import message_1_0
from tests.processes.servers import running_ministack
from tools.agents.stage_parameters import named_parameters
from tools.agents.stages import default_stage, read_stages
from tools.client import logs
from tools.command import split_names

pytestmark = [pytest.mark.slow(seconds=40), pytest.mark.e2e]

LIMITS = "the emulator has no secrets, and only some of AWS's services"

STAGES = read_stages(ROOT)

STAGE = os.environ.get("E2E_STAGE") or default_stage(STAGES)

FOLDER = ROOT / "functions" / "agents"

NAMES = split_names(named_parameters({"STAGE": STAGE})[0].get("AgentNames", ""))

# A fork that has no agent yet has nothing to call, and must still be able to collect its tests.
CARDS = {
    name: card
    for name, card in (read_cards(FOLDER)[0] if any(FOLDER.glob("*/card.yaml")) else {}).items()
    if not NAMES or name in NAMES
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedStack]:
    began = time.monotonic()
    print("\nstarting the emulator (tests/e2e/stack.py lists what it cannot do)", flush=True)
    with running_ministack(tmp_path_factory.mktemp("ministack")) as url:
        config = STAGES[STAGE]
        places = {name: config[name] for name in ("region", "profile") if name in config}
        emulated_stack = EmulatedStack(url, ROOT, STAGE, config["stack_name"], **places)
        print(
            f"make deploy STAGE={STAGE}: building, then creating the stack {emulated_stack.name}", flush=True
        )
        try:
            emulated_stack.deploy()
        except CommandFailed as failed:
            print(f"\n{failed.reason}\n", flush=True)
            pytest.exit("the deployment failed, as said above", returncode=1)
        emulated_stack.mend()
        print(f"deployed after {time.monotonic() - began:.0f} s; calling each agent", flush=True)
        yield emulated_stack


@pytest.fixture(scope="module")
def key(stack: EmulatedStack) -> str:
    return stack.run("make", "--silent", "key", "NAME=e2e", f"STACK={stack.name}").split()[0]


@pytest.mark.parametrize("agent", CARDS)
def test_the_card_of_each_agent_is_served(stack: EmulatedStack, key: str, agent: str) -> None:
    path = f"/a2a/{agent}/.well-known/agent-card.json"
    card = stack.call("GET", path, **{"X-API-Key": key, "A2A-Version": "1.0"})
    assert card.json()["name"] == CARDS[agent].name


@pytest.mark.parametrize("agent", CARDS)
def test_each_agent_answers(stack: EmulatedStack, key: str, agent: str) -> None:
    headers = {"X-API-Key": key, "A2A-Version": "1.0"}
    examples = [text for skill in CARDS[agent].skills for text in skill.examples] or ["Hello!"]
    message = message_1_0(text=examples[0], messageId=str(uuid.uuid4()))
    modes = CARDS[agent].extensions
    uris = ", ".join(extension.uri for extension in modes if extension.required)
    is_durable = bool(CARDS[agent].durable_skills)
    request = {"message": message, "configuration": {"returnImmediately": is_durable}}
    path = f"/a2a/{agent}/message:send"
    answer = stack.call("POST", path, request, **headers, **{"A2A-Extensions": uris})
    if answer.status_code != 200:
        reason = reason_in_log(stack, agent)
        pytest.fail(f"{agent}: status {answer.status_code}: {answer.text}\n{reason}", pytrace=False)
    if "task" not in answer.json():
        return
    if is_durable:
        print(f"{agent}: accepted (a durable turn, which the emulator does not run)")
        return

    def ended_status() -> Any:
        task = stack.call("GET", f"/a2a/{agent}/tasks/{answer.json()['task']['id']}", **headers).json()
        return task["status"] if task["status"]["state"] in STOPPED else None

    status = wait_until(ended_status, pause=0.2)
    result, note = state_word(status["state"]), ""
    if status["state"] == TaskState.FAILED:
        text = text_of(status.get("message", {}).get("parts", []))
        note = f": {text if text != FAILED else reason_in_log(stack, agent)}"
    print(f"{agent}: {result}{note}")


def reason_in_log(stack: EmulatedStack, agent: str) -> str:
    """The last error of an agent in the log: the exception, and where the agent's code was, or else its
    text."""
    entries = logs.Log(stack.client("logs"), logs.groups_of(stack.resources)).read()
    # An import that fails may have begun before any call. Its error names the agent's file.
    errors = [
        entry
        for entry in entries
        if entry["level"] == "ERROR"
        and (entry["agent"] == agent or (not entry["agent"] and f"/{agent}/" in str(entry)))
    ]
    if not errors:
        return "the log has no error of this agent"
    trace = errors[-1].get("trace", "")
    if not trace:
        return errors[-1]["message"]
    places = re.findall(r'File "[^"]*/(agents/[^"]+)", line (\d+)', trace)
    place = "".join(f"functions/{path}:{line}: " for path, line in places[-1:])
    # The first line after the last frame and its code: more lines are of its text, or a group's members.
    _, _, end = trace.rpartition('  File "')
    line = re.search(r"^\w[\w.]*(?:: .*)?$", end, re.MULTILINE)
    exception = line[0] if line else errors[-1]["message"]
    kind = getattr(builtins, exception.partition(":")[0], OSError)
    is_own_mistake = not (isinstance(kind, type) and issubclass(kind, OSError))
    return place + exception + ("" if is_own_mistake else f" ({LIMITS})")
