"""A task that takes days: it plans, sleeps, asks, books three things at the same time, and reports."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from a2a_lambda import Artifact, Ask, Turn, skill

YES = {"yes", "y", "ok", "是", "是的", "好", "好的", "可以", "同意", "确认"}


@dataclass
class Plan:
    city: str
    nights: int


@skill
async def plan_trip(turn: Turn) -> AsyncIterator[Any]:
    plan = await turn.step("plan", make_plan, turn.text)
    yield f"{plan.nights} nights in {plan.city}. I'll ask you again tomorrow.\n"
    await turn.sleep(hours=24)
    try:
        answer = await turn.wait_for(
            "approval", Ask("Shall I book it?", choices=["yes", "no"]), timeout=timedelta(days=3)
        )
    except TimeoutError:
        yield "You did not answer, so nothing is booked."
        return
    if answer.text.strip().lower() not in YES:
        yield "Nothing is booked."
        return
    hotel, train, table = await turn.parallel(
        turn.step("hotel", book_hotel, plan, turn.id),
        turn.step("train", book_train, plan, turn.id),
        turn.step("table", book_table, plan, turn.id),
    )
    yield Artifact("bookings", {"hotel": hotel, "train": train, "table": table})
    yield "Everything is booked."


async def make_plan(city: str) -> Plan:
    """Replace it with a model, or a search. It runs once: a replay gets the plan that was kept."""
    return Plan(city or "Rome", nights=3)


async def book_hotel(plan: Plan, request: str) -> str:
    """Replace these with calls of your booking services. A step may run twice if its process dies, so give
    the services the turn's id as an idempotency key."""
    return f"H-{plan.city}-{plan.nights}"


async def book_train(plan: Plan, request: str) -> str:
    return f"T-{plan.city}"


async def book_table(plan: Plan, request: str) -> str:
    return f"R-{plan.city}"
