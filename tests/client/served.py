"""Cards of other agents, and transports that stand for them."""

from collections.abc import AsyncIterator, Callable

import httpx2

from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Event, Json
from tests.conftest import BASE_URL

STREAMING = {"capabilities": {"streaming": True}}

CARDS: dict[str, Json] = {
    "0.1": {"url": f"{BASE_URL}/a2a/probe", "authentication": {"schemes": ["Bearer"]}, **STREAMING},
    "0.2.5": {"url": f"{BASE_URL}/a2a/probe", "protocolVersion": "0.2.5", **STREAMING},
    "0.3": {
        "url": f"{BASE_URL}/grpc",
        "protocolVersion": "0.3.0",
        "preferredTransport": "GRPC",
        "additionalInterfaces": [{"transport": "JSONRPC", "url": f"{BASE_URL}/a2a/probe"}],
        **STREAMING,
    },
    "1.0": {
        "supportedInterfaces": [
            {"url": f"{BASE_URL}/a2a/probe", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            {"url": f"{BASE_URL}/a2a/probe", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
            {"url": f"{BASE_URL}/a2a/probe", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        ],
        **STREAMING,
    },
}


class Served(httpx2.AsyncBaseTransport):
    """The kit's own application with a card of one version. It keeps the requests it saw."""

    def __init__(self, kit: Kit, card: Json) -> None:
        self._inner = httpx2.ASGITransport(create_app(kit))
        self._card = card
        self.seen: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        if request.url.path.endswith(".json") and self._card is not None:
            return httpx2.Response(200, json=self._card)
        return await self._inner.handle_async_request(request)


class Answering(httpx2.AsyncBaseTransport):
    """Another agent, as a function that answers each request."""

    def __init__(self, response: Callable[[httpx2.Request], httpx2.Response]) -> None:
        self._response = response

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return self._response(request)


async def collect(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events]
