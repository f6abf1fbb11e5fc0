"""An agent that does on purpose what agents do by mistake."""

import asyncio
import hashlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

from a2a_lambda import (
    Artifact,
    Ask,
    Authorize,
    Command,
    File,
    Message,
    Progress,
    Reject,
    SkillError,
    Turn,
    skill,
)
from a2a_lambda.protocol.model import Role

from .drawings import content_of, drawing, noise_png  # noqa: TID252  # as an author imports it

gate = asyncio.Event()


@skill(default=True)
def echo(turn: Turn) -> str:
    return turn.text


@skill
async def pieces(turn: Turn, count: int = 3, every: float = 0.0) -> AsyncIterator[str]:
    for number in range(count):
        yield f"{number} "
        await asyncio.sleep(every)


@skill
async def gated(turn: Turn, gate: str) -> AsyncIterator[str]:
    """The second piece comes when there is a file at `gate`."""
    yield "first "
    while not os.path.exists(gate):  # noqa: ASYNC240
        await asyncio.sleep(0.01)
    yield "second"


@skill
async def pause(turn: Turn, seconds: float = 60.0) -> AsyncIterator[str]:
    yield "waiting "
    await asyncio.sleep(seconds)
    yield "done"


@skill
def block(turn: Turn, seconds: float = 60.0, gate: str = "") -> Iterator[str]:
    """The second piece comes after `seconds`, or as soon as there is a file at `gate`."""
    yield "waiting "
    until = time.monotonic() + seconds
    while time.monotonic() < until and not turn.cancelled and not (gate and os.path.exists(gate)):
        time.sleep(0.01)
    yield "done"


@skill
async def stall(turn: Turn, seconds: float = 60.0) -> str:
    time.sleep(seconds)  # noqa: ASYNC251
    return "done"


@skill
def boom(turn: Turn, aloud: bool = False) -> str:
    if aloud:
        raise SkillError("The printer is out of paper.")
    raise RuntimeError(f"secret detail: {turn.text}")


@skill
def refuse(turn: Turn) -> Reject:
    return Reject("Not mine.")


@skill
def everything(turn: Turn) -> Iterator[Any]:
    yield Progress("thinking")
    yield "text"
    yield {"number": 9007199254740993}
    yield File("note.txt", b"bytes", media_type="text/plain")
    yield Artifact("report", "first ", description="A report")
    yield Artifact("report", "second")
    yield Command("beep", times=("3", "03"))


@skill
def add(a: int, b: Annotated[int, "the second number"]) -> int | Ask:
    return a + b


@skill
def look(turn: Turn) -> dict[str, Any]:
    return {
        "user": turn.user.user_id,
        "device": turn.device.device_id,
        "city": turn.location.city,
        "images": [image.value for image in turn.images],
        "parameters": turn.parameters,
        "chat": turn.chat_id,
        "files": [[file.name, file.media_type, file.url, len(file.content or b"")] for file in turn.files],
        "said": [said.text for said in turn.history],
        "turns": turn.memory.add("turns"),
        "owner": turn.owner,
    }


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@skill
def wrong(turn: Turn, how: str) -> Iterator[Any]:
    match how:
        case "metadata":
            yield Artifact("r", "x", metadata={"when": object()})
        case "memory":
            turn.memory.set("x", float("nan"))
        case "surrogate":
            yield Ask("\ud800?")
        case "deep":
            yield {"deep": nested(100)}
        case "long":
            yield Ask("?" * 100_000)
        case "message":
            yield "said first"
            yield Message("m" * 500_000)
        case "commands":
            yield Command("beep", words="x" * 500_000)
            yield Ask("?")
        case "fills":
            yield Ask("Which?", fills="hwo")
        case "known":
            yield Ask("?", known={"a": object()})  # type: ignore[dict-item]
        case "command":
            yield Command("beep", colour="\ud800"), Ask("?")
        case "words":
            raise SkillError("x" * 100_000)
        case "half":
            yield "said", object()
        case "slots":
            turn.slots["how"] = [object()]  # type: ignore[list-item]
            yield Ask("?")
        case "exit":
            raise SystemExit
        case "cancel":
            raise asyncio.CancelledError


@skill
def order(turn: Turn, how: str) -> Iterator[Any]:
    yield "text", Command("beep")
    match how:
        case "artifact":
            yield Artifact("report", "content")
        case "ask":
            yield Ask("Again?")
        case "reject":
            yield Reject("No.")


@skill
def recall(turn: Turn) -> dict[str, Any]:
    return {"history": len(turn.history), "attempt": turn.attempt}


@skill
def question(turn: Turn, length: int = 5000) -> Ask | str:
    return "thanks" if turn.answering else Ask("?" * length)


@skill
def mutate(turn: Turn, fail: bool = False) -> dict[str, Any]:
    items = turn.memory.get("list", [])
    items.append("changed")
    turn.memory.set("list", [])
    if fail:
        turn.memory.get("list").append("changed")
        turn.memory.set("other", 1)
        raise RuntimeError
    return {name: turn.memory.get(name) for name in turn.memory}


@skill
def edit(turn: Turn, unstorable: bool = False) -> str:
    turn.message["parts"][0]["text"] = "edited"
    turn.message["role"] = Role.AGENT
    turn.message["metadata"]["seen"] = object() if unstorable else "yes"
    turn.parts.append({"data": object() if unstorable else "more"})
    return "edited"


@skill
def shelf(turn: Turn, count: int = 10) -> tuple[Artifact, ...]:
    return tuple(Artifact(f"book {number}", f"text {number}") for number in range(count))


@skill("bytes")
def bytes_of(turn: Turn) -> list[str]:
    return [(file.content or b"").hex() for file in turn.files]


@skill
def words(turn: Turn, before: bool = False, asks: bool = False) -> Iterator[Any]:
    if asks and not turn.answering:
        yield Ask("Which?")
    if before:
        yield "work"
    yield Message("Just words.")


@skill
def sign_in(turn: Turn) -> Authorize | str:
    return f"Hello, {turn.text}!" if turn.answering else Authorize("Who are you?")


@skill
def step(turn: Turn) -> Iterator[Any]:
    yield Progress("First this, then that.", stage="/thought/plan")
    yield "It is "
    yield "done."


@skill
def client(turn: Turn) -> dict[str, Any]:
    return {
        "modes": turn.accepted_output_modes,
        "extensions": turn.extensions,
        "metadata": turn.request_metadata,
    }


@skill
def flood(turn: Turn, bytes: int = 1_000) -> Iterator[str]:
    while True:
        yield "x" * bytes


@skill
async def pour(turn: Turn, bytes: int = 1_000) -> AsyncIterator[str]:
    while True:
        yield "x" * bytes


@skill
async def end_loop(turn: Turn, how: str) -> str:
    """Ends the event loop that asynchronous skills share."""

    async def exit() -> None:
        raise SystemExit if how == "exit" else KeyboardInterrupt

    if how == "stop":
        asyncio.get_running_loop().stop()
    else:
        turn.child = asyncio.create_task(exit())  # type: ignore[attr-defined]
    await asyncio.sleep(60)
    return "done"


@skill
def wait(turn: Turn, seconds: float = 60.0) -> Any:
    return asyncio.sleep(seconds, "done")


@skill
def return_much(turn: Turn, bytes: int) -> str:
    return "x" * bytes


@skill
async def tidy(turn: Turn) -> AsyncIterator[str]:
    """Cleans up, which takes a moment."""
    try:
        while True:
            yield "x" * 1_000
    finally:
        await asyncio.sleep(0.2)
        vars(tidy)["cleaned"].append("cleaned")


@skill
async def patient(turn: Turn) -> Ask | str:
    """Asks at once; the answer takes its time, as long as others hold the slots."""
    turn.memory.add("turns")
    if turn.message["messageId"].startswith("m-") and not vars(patient).setdefault("seen", set()) >= {
        turn.message["messageId"]
    }:
        vars(patient)["seen"].add(turn.message["messageId"])
        await asyncio.sleep(600)
    return "thanks" if turn.answering else Ask("Which?")


@skill
def draw(turn: Turn, size: int = 200_000, kind: str = "bytes", name: str = "drawing.png") -> Iterator[Any]:
    content = content_of(kind, size)
    yield "Here it is. ", File(name, content)
    if hasattr(content, "close"):
        content.close()  # what was put out is stored by now
    if isinstance(content, Path):
        content.unlink()
    yield Artifact("copy", File("again.pdf", content_of("bytes", size), media_type="application/pdf"))


@skill
async def draw_slowly(turn: Turn, size: int = 200_000, kind: str = "pieces") -> AsyncIterator[Any]:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in content_of("pieces", size):
            await asyncio.sleep(0)
            yield piece

    content = pieces() if kind == "pieces" else content_of(kind, size)
    yield File("drawing.png", content)
    if isinstance(content, Path):
        content.unlink()


@skill
def examine(turn: Turn) -> list[Any]:
    rows = []
    for file in turn.files:
        content = file.read()
        with file.open() as stream:
            assert stream.read() == content
        with tempfile.TemporaryDirectory() as folder:
            assert file.save(Path(folder) / "saved").read_bytes() == content
        rows.append([file.name, file.media_type, len(content), hashlib.sha256(content).hexdigest()])
    return rows


@skill
def reread(turn: Turn) -> int:
    """Reads a file of the conversation's first message."""
    return len(turn.files_in(turn.history[0].parts)[0].read())


@skill
def give_back(turn: Turn) -> Any:
    return turn.files[0]


@skill
def retell(turn: Turn) -> str:
    return " | ".join(str(entry["content"]) for entry in turn.messages()[:-1])


@skill
def picture(turn: Turn) -> File:
    """A picture that a browser can show, too large for a task."""
    return File("noise.png", noise_png())


@skill
def gallery(turn: Turn, count: int = 10, size: int = 200_000) -> Iterator[File]:
    for number in range(count):
        yield File(f"{number}.png", drawing(size))
