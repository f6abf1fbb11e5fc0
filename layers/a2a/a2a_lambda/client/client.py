"""Calls another agent, whatever version of A2A it speaks.

url ── card ── discovery ── wire, url, key's header
message ── wire.encode ── POST ── wire.decode ── canonical task, message, events
"""

import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Self

import httpx2

from a2a_lambda import strictjson
from a2a_lambda.client import discovery
from a2a_lambda.errors import KitError, ProtocolError
from a2a_lambda.guard import Guarded
from a2a_lambda.model import Event, Json, Message, Part, Role, Task
from a2a_lambda.operation import Operation, SendMessageConfiguration, SendMessageRequest, TaskRequest
from a2a_lambda.wire import Wire

MAX_BYTES = 20 * 1024 * 1024
"""Of one answer."""


class AgentError(KitError):
    """The other agent refused, or could not be understood. code: its JSON-RPC error code, or None."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


class Client:
    """An agent elsewhere.

    url: its own, or its card's. key: sent to that url's origin and nowhere else. hosts: other hosts its
    card may send callers to. private: it may be in one's own network, and speak plain http.
    timeout: seconds of silence after which a call is given up.

    async with Client("https://agents.example.com", key=key) as agent:
        task = await agent.send("What is 1 plus 2?")
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        hosts: Sequence[str] = (),
        private: bool = False,
        timeout: float = 60.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = url
        self._key = key
        self._hosts = hosts
        self._http = httpx2.AsyncClient(
            transport=transport or Guarded(private=private), timeout=timeout, trust_env=False
        )
        self._agent: discovery.Agent | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def discover(self) -> discovery.Agent:
        """The agent, from its card; read once. Raises Undiscovered, Refused, AgentError."""
        if self._agent is None:
            self._agent = await self._discovered()
        return self._agent

    async def card(self) -> Mapping[str, Json]:
        return (await self.discover()).card

    async def send(
        self,
        message: str | Sequence[Part] | Message,
        *,
        configuration: SendMessageConfiguration | None = None,
        **fields: Any,
    ) -> Task | Message:
        """The task a message led to, or the message the agent answered with.

        fields: of the message, such as contextId, taskId, metadata. Raises as `discover`.
        """
        request = _request(message, configuration, fields)
        outcome = await self._call("send", request)
        result: Task | Message = outcome["task"] if "task" in outcome else outcome["message"]
        return result

    async def stream(
        self,
        message: str | Sequence[Part] | Message,
        *,
        configuration: SendMessageConfiguration | None = None,
        **fields: Any,
    ) -> AsyncGenerator[Event, None]:
        """The same as events, as they come. Raises as `discover`."""
        agent = await self.discover()
        request = agent.wire.REQUESTS["stream"].encode(_request(message, configuration, fields))
        body = _rpc(agent.wire, "stream", request)
        headers = {**_headers(agent), "Accept": "text/event-stream"}
        try:
            async with self._http.stream("POST", agent.url, content=body, headers=headers) as answer:
                if answer.headers.get("content-type", "").partition(";")[0] != "text/event-stream":
                    _result(await _whole(answer))
                    raise AgentError(f"{agent.url}: the answer is no stream of events")
                async for line in answer.aiter_lines():
                    if line.startswith("data:"):
                        yield agent.wire.decode_event(_result(line[5:].encode()))
        except (httpx2.HTTPError, ProtocolError) as error:
            raise AgentError(f"{agent.url}: {type(error).__name__}: {error}") from error

    async def get(self, task_id: str, *, history_length: int | None = None) -> Task:
        """Raises as `discover`."""
        request = TaskRequest(id=task_id)
        if history_length is not None:
            request["historyLength"] = history_length
        task: Task = await self._call("get", request)
        return task

    async def cancel(self, task_id: str) -> Task:
        """Raises as `discover`."""
        task: Task = await self._call("cancel", TaskRequest(id=task_id))
        return task

    async def _call(self, operation: Operation, request: Any) -> Any:
        agent = await self.discover()
        wire = agent.wire
        body = _rpc(wire, operation, wire.REQUESTS[operation].encode(request))
        try:
            content, _ = await self._read("POST", agent.url, _headers(agent), body)
            return wire.RESULTS[operation].decode(_result(content))
        except (httpx2.HTTPError, ProtocolError) as error:
            raise AgentError(f"{agent.url}: {type(error).__name__}: {error}") from error

    async def _read(
        self, verb: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> tuple[bytes, int]:
        async with self._http.stream(verb, url, content=body, headers=headers) as answer:
            return await _whole(answer), answer.status_code

    async def _discovered(self) -> discovery.Agent:
        headers = {"X-API-Key": self._key, "Authorization": f"Bearer {self._key}"} if self._key else {}
        for url in discovery.card_urls(self._url):
            try:
                content, status = await self._read("GET", url, headers)
                if status == 200:
                    return discovery.read(strictjson.loads(content), url, self._key, self._hosts)
                if status != 404:
                    raise AgentError(f"{url}: the card is answered with status {status}")
            except (httpx2.HTTPError, ProtocolError) as error:
                raise AgentError(f"{url}: {type(error).__name__}: {error}") from error
        raise discovery.Undiscovered(f"{self._url}: it has no agent card")


def _request(
    message: str | Sequence[Part] | Message,
    configuration: SendMessageConfiguration | None,
    fields: Mapping[str, Json],
) -> SendMessageRequest:
    if isinstance(message, dict):
        made = Message(**{**message, **fields})  # type: ignore[typeddict-item]
    else:
        parts = [Part(text=message)] if isinstance(message, str) else list(message)
        made = Message(messageId=str(uuid.uuid4()), role=Role.USER, parts=parts)
        made.update(fields)  # type: ignore[typeddict-item]
    request = SendMessageRequest(message=made)
    if configuration is not None:
        request["configuration"] = configuration
    return request


def _rpc(wire: Wire, operation: Operation, params: Json) -> bytes:
    method = next(name for name, meant in wire.METHODS.items() if meant == operation)
    return strictjson.dumps({"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": params})


def _headers(agent: discovery.Agent) -> dict[str, str]:
    """The version is said from 1.0 on; older servers know no such header."""
    said = {"A2A-Version": agent.wire.VERSIONS[-1]} if agent.wire.LIVE else {}
    return {"Content-Type": "application/json", **said, **agent.headers}


def _result(body: bytes) -> Json:
    """Result of a JSON-RPC answer. Raises AgentError, ParseError."""
    value = strictjson.loads(body)
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        error = value["error"]
        code = error.get("code")
        raise AgentError(str(error.get("message")), code if isinstance(code, int) else None)
    if not isinstance(value, dict) or "result" not in value:
        raise AgentError("the answer is no JSON-RPC response")
    return value["result"]


async def _whole(answer: httpx2.Response) -> bytes:
    """The body of an answer. Raises AgentError where it is too large."""
    body = b""
    async for chunk in answer.aiter_bytes():
        body += chunk
        if len(body) > MAX_BYTES:
            raise AgentError(f"the answer has more than {MAX_BYTES} bytes")
    return body
