"""A function whose stream tells when each of its chunks was sent; and one that sends a chunk only once the
one before it has arrived."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from a2a_lambda.lambda_.streaming import CAN_STREAM, Streaming

CHUNKS = 50


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    path = Path(scope["headers"][0][1].decode()) if scope.get("headers") else None
    for number in range(CHUNKS):
        await asyncio.sleep(0.01)
        body = b"%d" % time.monotonic_ns()
        await send({"type": "http.response.body", "body": body, "more_body": True})
        while path is not None and int(path.read_text() or 0) <= number:
            await asyncio.sleep(0.002)
    await send({"type": "http.response.body", "body": b""})


async def settle() -> None: ...


handler = Streaming(app, settle=settle, release=lambda: None, can_stream=CAN_STREAM in os.environ)
