import asyncio
import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import Agent

agent = Agent.load(Path(__file__).parents[1])

SECRETS = {"approval": "shared"}


def code_for(question: str, order: str, amount: str) -> str:
    """What the manager's page computes."""
    request = question.rpartition("request ")[2].rstrip(".")
    text = "\n".join((request, order, amount))
    return hmac.new(b"shared", text.encode(), hashlib.sha256).hexdigest()[:16]


def ask(amount: str) -> dict[str, Any]:
    return {"skill": "refund", "slots": {"order": "7", "amount": amount}, "secrets": SECRETS}


@pytest.mark.parametrize(
    ("said", "state", "text"),
    [
        ("Yes", "completed", "Refunded $20 for order 7."),
        ("同意", "completed", "Refunded $20 for order 7."),
        ("no", "rejected", "Nothing was refunded."),
    ],
)
def test_a_person_confirms(said: str, state: str, text: str) -> None:
    async def talk() -> None:
        question = await agent.run(**ask("20"))
        assert question.state == "input-required"
        assert question.text == "Refund $20 for order 7? yes or no"
        answer = await agent.run(said, after=question, secrets=SECRETS)
        assert (answer.state, answer.text) == (state, text)

    asyncio.run(talk())


@pytest.mark.parametrize("approved", ["500", "900", ""])
def test_a_manager_approves_what_is_large(approved: str) -> None:
    """The code is for one amount."""

    async def talk() -> None:
        question = await agent.run(**ask("500"))
        authorize = await agent.run("yes", after=question, secrets=SECRETS)
        assert authorize.state == "auth-required"
        code = code_for(authorize.text, "7", approved)
        answer = await agent.run(
            code, after=authorize, skill="refund", slots={"amount": "900"}, secrets=SECRETS
        )
        assert answer.state == ("completed" if approved == "500" else "rejected")
        assert answer.text.startswith("Refunded $500" if approved == "500" else "This is not")

    asyncio.run(talk())


def test_a_code_is_spent_by_its_refund() -> None:
    async def talk() -> None:
        first = await agent.run("yes", after=await agent.run(**ask("500")), secrets=SECRETS)
        code = code_for(first.text, "7", "500")
        paid = await agent.run(code, after=first, secrets=SECRETS)
        assert paid.state == "completed"
        again = await agent.run("yes", after=await agent.run(**ask("500"), after=paid), secrets=SECRETS)
        assert (await agent.run(code, after=again, secrets=SECRETS)).state == "rejected"

    asyncio.run(talk())


def test_an_amount_below_zero_is_refused() -> None:
    assert asyncio.run(agent.run(**ask("-5"))).state == "rejected"


def test_an_answer_cannot_change_what_was_asked() -> None:
    async def talk() -> None:
        question = await agent.run(**ask("20"))
        slots = {"order": "8", "amount": "90"}
        answer = await agent.run("yes", after=question, skill="refund", slots=slots, secrets=SECRETS)
        assert answer.text == "Refunded $20 for order 7."

    asyncio.run(talk())


def test_a_yes_without_a_question_is_none() -> None:
    answer = asyncio.run(agent.run("yes", **ask("20")))
    assert answer.state == "input-required"
