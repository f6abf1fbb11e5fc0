import asyncio
import hashlib
import hmac
from pathlib import Path

import pytest

from a2a_lambda import Agent

agent = Agent.load(Path(__file__).parents[1])

SECRETS = {"approval": "shared"}


def code_for(task_id: str) -> str:
    return hmac.new(b"shared", task_id.encode(), hashlib.sha256).hexdigest()[:12]


def ask(amount: str) -> dict[str, object]:
    return {"skill": "refund", "slots": {"order": "7", "amount": amount}, "secrets": SECRETS}


@pytest.mark.parametrize(
    ("said", "state", "text"),
    [("Yes", "completed", "Refunded $20 for order 7."), ("no", "rejected", "Nothing was refunded.")],
)
def test_a_person_confirms(said: str, state: str, text: str) -> None:
    async def talk() -> None:
        asked = await agent.run(**ask("20"))
        assert asked.state == "input-required"
        assert asked.text == "Refund $20 for order 7? yes or no"
        answer = await agent.run(said, after=asked, secrets=SECRETS)
        assert (answer.state, answer.text) == (state, text)

    asyncio.run(talk())


@pytest.mark.parametrize("is_right", [True, False])
def test_a_manager_approves_what_is_large(is_right: bool) -> None:
    async def talk() -> None:
        asked = await agent.run(**ask("500"))
        authorize = await agent.run("yes", after=asked, secrets=SECRETS)
        assert authorize.state == "auth-required"
        code = code_for(authorize.task["id"]) if is_right else "wrong"
        answer = await agent.run(code, after=authorize, secrets=SECRETS)
        assert answer.state == ("completed" if is_right else "rejected")
        assert ("Refunded $500" in answer.text) is is_right

    asyncio.run(talk())


def test_an_answer_cannot_change_what_was_asked() -> None:
    async def talk() -> None:
        asked = await agent.run(**ask("20"))
        slots = {"order": "8", "amount": "90"}
        answer = await agent.run("yes", after=asked, skill="refund", slots=slots, secrets=SECRETS)
        assert answer.text == "Refunded $20 for order 7."

    asyncio.run(talk())


def test_a_yes_without_a_question_is_none() -> None:
    answer = asyncio.run(agent.run("yes", **ask("20")))
    assert answer.state == "input-required"
