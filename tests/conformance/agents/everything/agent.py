"""Tools that MCP's conformance kit calls."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from a2a_lambda import File, Progress, SkillError, Turn, skill

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


@dataclass
class address:  # the name in $defs
    street: str
    city: str


@skill("test_simple_text", default=True)
def simple_text(turn: Turn) -> str:
    return "This is a simple text response for testing."


@skill("test_image_content")
def image_content(turn: Turn) -> File:
    return File("red.png", PNG, media_type="image/png")


@skill("test_audio_content")
def audio_content(turn: Turn) -> File:
    return File("silence.wav", b"RIFF\x24\0\0\0WAVEfmt ", media_type="audio/wav")


@skill("test_embedded_resource")
def embedded_resource(turn: Turn) -> File:
    return File("note.txt", b"This is an embedded resource content.", media_type="text/plain")


@skill("test_multiple_content_types")
def multiple_content_types(turn: Turn) -> Iterator[str | File]:
    yield "Multiple content types test:"
    yield File("red.png", PNG, media_type="image/png")
    yield File("data.json", b'{"test":"data","value":123}', media_type="application/json")


@skill("test_error_handling")
def error_handling(turn: Turn) -> str:
    raise SkillError("This tool intentionally returns an error for testing")


@skill("test_tool_with_progress")
async def tool_with_progress(turn: Turn) -> AsyncIterator[str | Progress]:
    for done in (0, 50, 100):
        yield Progress(f"{done} of 100")
        await asyncio.sleep(0.05)
    yield "done"


@skill("json_schema_2020_12_tool")
def json_schema_2020_12_tool(name: str = "", address: address | None = None) -> str:
    return name
