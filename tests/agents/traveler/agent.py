"""Durable skills."""

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from a2a_lambda import Artifact, Ask, File, Progress, Reply, Retry, SkillError, StepFailed, Turn, skill
from a2a_lambda.errors import FilesUnavailable

CALLS: Counter[str] = Counter()
"""How often each step ran in this process."""

DRIFT = itertools.count()


@dataclass
class Plan:
    city: str
    nights: int


def make_plan(city: str) -> Plan:
    CALLS["plan"] += 1
    return Plan(city, 3)


async def book(what: str, plan: Plan) -> str:
    CALLS[what] += 1
    return f"{what} in {plan.city}"


@skill(default=True)
async def plan_trip(turn: Turn) -> AsyncIterator[Any]:
    yield Progress("planning", stage="/plan")
    plan = await turn.step("plan", make_plan, turn.text or "Rome")
    yield f"A plan for {plan.city}. "
    await turn.sleep(hours=24)
    yield f"{plan.nights} nights. "
    answer = await turn.wait_for("approval", Ask("Shall I book it?"), timeout=timedelta(days=3))
    if answer.text != "yes":
        yield "Not booked."
        return
    hotel, train, table = await turn.parallel(
        turn.step("hotel", book, "hotel", plan),
        turn.step("train", book, "train", plan),
        turn.step("table", book, "table", plan),
    )
    turn.memory.set("city", plan.city)
    yield Artifact("report", f"{hotel}, {train}, {table}")
    yield "Booked."


@skill
async def album(turn: Turn) -> AsyncIterator[Any]:
    """Puts out a large file on each side of a pause, and reads its own."""
    yield File("first.bin", b"1" * 200_000)
    await turn.sleep(hours=24)
    yield File("second.bin", b"2" * 200_000)
    await turn.sleep(hours=24)
    yield str([len(file.read()) for file in turn.files])


@skill
async def count(turn: Turn) -> str:
    """Counts its steps, with a pause between."""
    for name in ("a", "b", "c"):
        await turn.step(name, lambda name=name: CALLS.update([name]))
        await turn.sleep(minutes=5)
    return "counted"


@skill
async def ask(turn: Turn) -> AsyncGenerator[Any, Reply]:
    city = yield "Well. ", Ask("Which city?")
    nights = yield Ask("How many nights?")
    yield f"{nights.text} nights in {city.text}"


@skill
async def pay(turn: Turn, seconds: int = 600) -> AsyncIterator[Any]:
    yield {"pay at": turn.callback_url("payment")}
    try:
        payment = await turn.wait_for("payment", timeout=seconds)
    except TimeoutError:
        yield "It was not paid in time."
        return
    yield {"paid": payment.data or payment.text}


@skill
async def cash(turn: Turn, seconds: int = 600) -> AsyncIterator[Any]:
    yield {"pay at": turn.callback_url("payment")}
    payment = await turn.wait_for("payment", messages=True, timeout=seconds)
    yield {"paid": payment.data, "said": payment.text, "by url": payment.is_callback}


@skill
async def fail(turn: Turn, how: str = "boom") -> str:
    """Tries twice."""

    def boom() -> None:
        CALLS["boom"] += 1
        if how == "refuse":
            raise SkillError("The client may read this.")
        raise OSError("secret" if how != "long" else "x" * 100_000)

    try:
        await turn.step("boom", boom, retry=Retry(attempts=2, pause_seconds=1))
    except StepFailed as error:
        if how in ("catch", "long"):
            return f"caught {error.kind} {len(error.text)}"
        raise
    return "never"


@skill
async def giving_up(turn: Turn) -> str:
    """A branch that is canceled by its own code."""

    async def stop() -> None:
        raise asyncio.CancelledError

    try:
        await turn.parallel(stop)
    except StepFailed as error:
        return f"caught {error.kind}"
    return "never"


@skill
async def drift(turn: Turn) -> AsyncIterator[str]:
    yield f"run {next(DRIFT)}"
    await turn.sleep(hours=1)
    yield "done"


@skill
async def nap(turn: Turn, size: int = 0) -> AsyncIterator[Any]:
    for number in range(1, 4):
        yield f"{number} {'x' * size}"
        await turn.sleep(seconds=1, name=f"nap-{number}")
    yield Artifact("end", "awake")


async def forever() -> None:
    CALLS["stall"] += 1
    try:
        await asyncio.sleep(600)
    finally:
        CALLS["stalled"] += 1


@skill
async def stall(turn: Turn) -> None:
    await turn.step("stall", forever)


@skill
async def poll(turn: Turn) -> AsyncIterator[str]:
    async def ask() -> str:
        reply = await turn.wait_for("guests", Ask("How many guests?"))
        return reply.text

    async def ask_below() -> list[Any]:
        return await turn.parallel(ask)

    results = await turn.parallel(ask_below, turn.step("menu", lambda: "fish"))
    await turn.sleep(hours=1)
    yield str(results)


@skill
async def crowd(turn: Turn) -> None:
    await turn.parallel(turn.step("one", forever), turn.step("two", forever))


@skill
async def pair(turn: Turn) -> str:
    both = await turn.parallel(turn.step("one", str, 1), turn.step("two", str, 2))
    await turn.sleep(seconds=1)
    return "".join(both)


@skill
async def two(turn: Turn) -> str:
    async def wait(name: str) -> str:
        return str((await turn.wait_for(name)).data[0])

    return "".join(await turn.parallel(lambda: wait("a"), lambda: wait("b")))


GATE = threading.Event()
"""Set by the test: the step of `watch` may end."""


@skill
async def watch(turn: Turn) -> str:
    async def ask() -> str:
        return (await turn.wait_for("go", Ask("Shall I?"))).text

    def look() -> bool:
        CALLS["look"] += 1
        return GATE.wait(60)

    async def look_later() -> None:
        await turn.sleep(hours=1)
        await turn.step("look", look)
        await turn.sleep(hours=1)

    [answer, _] = await turn.parallel(ask, look_later)
    return str(answer)


PAY_AT: list[str] = []
"""Where the runs of `checkout` have waited for a payment."""


@skill
async def checkout(turn: Turn) -> str:
    async def ask() -> str:
        return (await turn.wait_for("wrap", Ask("Gift wrap?"))).text

    async def wait() -> str:
        PAY_AT.append(turn.callback_url("payment"))
        return (await turn.wait_for("payment")).text

    [answer, _] = await turn.parallel(ask, wait)
    return str(answer)


@skill
async def two_questions(turn: Turn) -> str:
    async def ask(name: str) -> str:
        return (await turn.wait_for(name, Ask(f"{name}?"))).text

    pause = turn.sleep(seconds=1)
    a, b, _ = await turn.parallel(lambda: ask("a"), lambda: ask("b"), pause)
    return f"{a} {b}"


@skill
async def self_cancel(turn: Turn) -> str:
    async def cancel() -> None:
        CALLS["self-cancel"] += 1
        raise asyncio.CancelledError

    try:
        await turn.step("cancel", cancel, at_most_once=True)
    except StepFailed as error:
        return error.kind
    return "never"


@skill
async def hasty(turn: Turn) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(0.2):
            await turn.step("long", asyncio.sleep, 600)
    await turn.sleep(hours=1)


@skill
async def late(turn: Turn) -> None:
    with suppress(TimeoutError):
        await turn.wait_for("first", timeout=1)
    await turn.wait_for("second")


@skill
async def slow(turn: Turn) -> str:
    async def wait() -> None:
        CALLS["slow"] += 1
        await asyncio.sleep(600)

    try:
        await turn.step("slow", wait, retry=Retry(attempts=2, pause_seconds=1))
    except StepFailed as error:
        return error.kind
    return "never"


@skill
async def remember(turn: Turn) -> str:
    before = turn.memory.get("learned")
    turn.memory.add("remembered")
    await turn.wait_for("go", messages=True)
    return f"{before} {turn.memory.get('learned')}"


@skill
def learn(turn: Turn) -> None:
    turn.memory.set("learned", "much")


@skill
async def rush(turn: Turn) -> str:
    """The second step of a branch begins while that of another branch runs."""

    async def retry() -> str:
        CALLS["retry"] += 1
        if CALLS["retry"] == 1:
            raise OSError("busy")
        return "at last"

    began = asyncio.Event()

    async def last() -> None:
        began.set()
        await asyncio.sleep(2.5)

    async def branch() -> str:
        await turn.step("first", began.wait)
        CALLS["first"] += 1
        return str(await turn.step("second", retry, retry=Retry(attempts=3, pause_seconds=1)))

    return str((await turn.parallel(turn.step("long", last), branch))[1])


@skill
async def stray(turn: Turn, how: str = "drift") -> str:
    """Branches that a replay cannot repeat, or one that ends with an error."""
    if how == "order":
        names = ["Oslo", "Rome"]
        hotels = await turn.parallel(*[turn.step(name, int) for name in names[:: (-1) ** next(DRIFT)]])
        await turn.sleep(hours=1)
        return f"hotels {hotels}"

    async def branch() -> None:
        if how != "drift":
            raise {"no file": FilesUnavailable("S3 did not answer"), "exit": GeneratorExit()}[how]
        await turn.step(f"stray-{next(DRIFT)}", int)
        await turn.sleep(hours=1)

    try:
        await turn.parallel(branch, turn.step("other", int))
    except StepFailed as error:
        return f"caught {error.kind}"
    return "never"


@skill
async def naps(turn: Turn) -> str:
    """Branches with one pause, a wait and several pauses."""

    async def several() -> None:
        for number in range(3):
            await turn.sleep(hours=number + 1)

    pause, wait = turn.sleep(hours=1, name="pause"), turn.wait_for("other", messages=True, timeout=1_000)
    await turn.parallel(pause, wait, several)
    return "awake"


@skill
def name(turn: Turn, who: str) -> str:
    return f"Hello, {who}"


@skill
def now(turn: Turn) -> str:
    return f"at once: {turn.text}"
