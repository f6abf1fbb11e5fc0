"""A function whose stream tells when each of its chunks was sent."""

import asyncio
import time
from typing import Any

from a2a_lambda.lambda_.streaming import Streaming

CHUNKS = 50


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(CHUNKS):
        await asyncio.sleep(0.01)
        body = b"%d" % time.monotonic_ns()
        await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def settle() -> None: ...


handler = Streaming(app, settle=settle, release=lambda: None)
