"""An agent for the public conformance kit (https://github.com/a2aproject/a2a-tck): the kit's messages
say by a prefix what they want to see. Those of its 0.3 line have none, and want a task that stays open.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from a2a_lambda import Artifact, Ask, Authorize, File, Message, Progress, Reject, Turn, skill

STREAMING_TIMEOUT = 2.0
RESUBSCRIBED = 4.5
MOMENT = 1.0

FILE = File("output.txt", b"tck", media_type="text/plain")

OUTPUTS: Mapping[str, tuple[Any, ...]] = {
    "tck-complete-task": ("Hello from TCK",),
    "tck-artifact-text": ("Generated text content",),
    "tck-artifact-file-url": (
        File("output.txt", url="https://example.com/output.txt", media_type="text/plain"),
    ),
    "tck-artifact-file": (FILE,),
    "tck-artifact-data": ({"key": "value", "count": 42},),
    "tck-message-response": (Message("Direct message response"),),
    "tck-input-required": (Ask("What else?"),),
    "tck-auth-required": (Authorize("Who are you?"),),
    "tck-reject-task": (Reject("rejected"),),
    "tck-stream-001": (Progress("Working"), "Stream hello from TCK"),
    "tck-stream-002": (),
    "tck-stream-003": (Progress("Working"), "Stream task lifecycle"),
    "tck-stream-ordering-001": (Progress("Working"), "Ordered output"),
    "tck-stream-artifact-text": (Progress("Working"), "Streamed text content"),
    "tck-stream-artifact-file": (Progress("Working"), FILE),
    "tck-stream-artifact-chunked": (Artifact("chunked", "chunk-1 "), Artifact("chunked", "chunk-2")),
}


@skill
async def conform(turn: Turn) -> AsyncIterator[Any]:
    said_texts = (turn.message["messageId"], turn.text)
    if _starts(said_texts, "test-resubscribe-message-id"):
        yield Progress("Working")
        await asyncio.sleep(RESUBSCRIBED)
    elif _starts(said_texts, "tck-delayed-complete"):
        yield Progress("Working")
        await asyncio.sleep(STREAMING_TIMEOUT)
        yield "Hello from TCK"
    elif prefix := next((name for name in _longest_first() if _starts(said_texts, name)), None):
        for output in OUTPUTS[prefix]:
            yield output
            await asyncio.sleep(0.01)
    elif _starts(said_texts, "tck-"):
        yield "Hello from TCK"
    else:
        await asyncio.sleep(MOMENT)
        yield Ask("And then?")


def _starts(said: tuple[str, str], prefix: str) -> bool:
    return any(text.startswith(prefix) for text in said)


def _longest_first() -> list[str]:
    return sorted(OUTPUTS, key=len, reverse=True)
