"""Tools that MCP's conformance kit calls."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from a2a_lambda import Ask, File, Progress, SkillError, Turn, skill

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


@dataclass
class address:  # the name in $defs
    street: str
    city: str


@skill("test_simple_text", default=True)
def simple_text() -> str:
    return "This is a simple text response for testing."


@skill("test_image_content")
def image_content() -> File:
    return File("red.png", PNG, media_type="image/png")


@skill("test_audio_content")
def audio_content() -> File:
    return File("silence.wav", b"RIFF\x24\0\0\0WAVEfmt ", media_type="audio/wav")


@skill("test_embedded_resource")
def embedded_resource() -> File:
    return File("note.txt", b"This is an embedded resource content.", media_type="text/plain")


@skill("test_multiple_content_types")
def multiple_content_types() -> Iterator[str | File]:
    yield "Multiple content types test:"
    yield File("red.png", PNG, media_type="image/png")
    yield File("data.json", b'{"test":"data","value":123}', media_type="application/json")


@skill("test_error_handling")
def error_handling() -> str:
    raise SkillError("This tool intentionally returns an error for testing")


@skill("test_tool_with_progress")
async def tool_with_progress() -> AsyncIterator[str | Progress]:
    for done in (0, 50, 100):
        yield Progress(f"{done} of 100")
        await asyncio.sleep(0.05)
    yield "done"


@skill("json_schema_2020_12_tool")
def json_schema_2020_12_tool(name: str = "", address: address | None = None) -> str:
    return name


@skill
def greet(turn: Turn, name: str = "") -> str:
    return f"Hello, {name}!"


@skill("slow_compute")
async def slow_compute(turn: Turn, seconds: float = 0, label: str = "") -> str:
    if seconds:
        await turn.sleep(seconds=seconds)
    return f"computed {label}"


@skill("failing_job")
async def failing_job(turn: Turn, reason: str = "the job failed") -> str:
    await turn.sleep(seconds=1)
    raise SkillError(reason)


@skill("confirm_delete")
async def confirm_delete(turn: Turn, filename: str = "") -> str:
    answer = await turn.wait_for("confirmation", Ask(f"Delete {filename}?", choices=["yes", "no"]))
    return f"{filename}: {answer.text}"


@skill("test_input_required_result_elicitation")
def elicitation(name: str) -> str:
    return f"Hello, {name}!"


@skill("test_input_required_result_request_state")
def request_state(ok: bool) -> str:
    return f"state-ok: {ok}"


@skill("test_input_required_result_tampered_state")
def tampered_state(ok: bool) -> str:
    return f"accepted: {ok}"


@skill("test_input_required_result_multi_round")
def multi_round(name: str, color: str) -> str:
    return f"{name} likes {color}."


@skill("test_streaming_elicitation")
def streaming_elicitation(name: str) -> str:
    return f"Hello, {name}!"


@skill("test_logging_tool")
def logging_tool() -> str:
    return "nothing is logged to the client"
