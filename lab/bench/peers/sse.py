"""A bare Starlette that streams server-sent events, through the kit's adapter for streams."""

import os
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from a2a_lambda.lambda_.streaming import CAN_STREAM, Streaming


async def events(count: int) -> AsyncIterator[str]:
    for number in range(count):
        yield f'data: {{"chunk":"chunk {number} "}}\n\n'


async def stream(request: Request) -> StreamingResponse:
    body = await request.json()
    count = int(body["params"]["message"]["parts"][0]["text"])
    return StreamingResponse(events(count), media_type="text/event-stream")


async def settle() -> None: ...


app = Starlette(routes=[Route("/", stream, methods=["POST"])])

handler = Streaming(app, settle=settle, release=lambda: None, can_stream=CAN_STREAM in os.environ)
