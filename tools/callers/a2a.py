"""Calls an agent as a client of one version would, and reports everything that is sent and received.

    card ── discovery ── URL, header of the key
    request of A2A 1.0 ── wire.encode ── HTTP ── wire.decode ── results and events of A2A 1.0

The playground and `make chat` show what these records say.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import httpx2

from a2a_lambda import strictjson
from a2a_lambda.client import AgentError, discovery, sse
from a2a_lambda.client.answers import json_of, read_whole
from a2a_lambda.client.client import EVENT_STREAM, rpc_body
from a2a_lambda.client.keys import card_headers
from a2a_lambda.net.addresses import Refused
from a2a_lambda.protocol.model import Json, plain_media_type
from a2a_lambda.protocol.requests import STREAMED, Operation
from a2a_lambda.wire import alibaba, qianfan, v0_1, v0_3, v1_0
from a2a_lambda.wire.interface import Wire
from tools.agents.card_checks import check_card
from tools.callers.records import MAX_BYTES, Record, RecordingClient, error_text, response_record


@dataclass(frozen=True, slots=True)
class Version:
    """How clients of a version, or of a platform, call an agent.

    card: path of the card, with {agent} for "/a2a/<name>" or "". card_wire: finds the URL in that card; it is
    the wire itself, unless the card is of another version. stream_suffix: appended to the URL for a stream.
    key_header: header to send the key in, instead of the one that the card asks for.
    """

    name: str
    title: str
    wire: Wire
    card: str
    card_wire: Wire
    is_rest: bool = False
    stream_suffix: str = ""
    key_header: str = ""

    def agent_of_card(self, card: Json, url: str, key: str) -> discovery.DiscoveredAgent:
        """The agent that a card describes. url: URL of the card. Raises Undiscovered, Refused."""
        binding = "HTTP+JSON" if self.is_rest else discovery.JSONRPC
        return discovery.agent_of_card(card, url, key or None, wires=(self.card_wire,), binding=binding)


CARD, OLD_CARD = "{agent}/.well-known/agent-card.json", "{agent}/.well-known/agent.json"

VERSIONS: Mapping[str, Version] = {
    version.name: version
    for version in (
        Version("1.0", "A2A 1.0", v1_0.WIRE, CARD, v1_0.WIRE),
        Version("1.0-http", "A2A 1.0, HTTP+JSON", v1_0.WIRE, CARD, v1_0.WIRE, is_rest=True),
        Version("0.3", "A2A 0.3", v0_3.WIRE, CARD, v0_3.WIRE),
        Version("0.2", "A2A 0.2.5, 0.2.6", v0_3.WIRE, OLD_CARD, v0_3.WIRE),
        Version("0.1", "A2A 0.1", v0_1.WIRE, OLD_CARD, v0_3.WIRE),
        Version(
            "alibaba",
            "Alibaba Model Studio",
            alibaba.WIRE,
            "/alibaba{name}/.well-known/agent.json",
            v0_3.WIRE,
            stream_suffix="/stream",
        ),
        Version(
            "qianfan",
            "Baidu Qianfan",
            qianfan.WIRE,
            "/v2/a2a{name}/.well-known/agent.json",
            v0_3.WIRE,
            key_header="X-Appbuilder-Authorization",
        ),
    )
}
"""The kit's versions, by the names that the playground and `make chat` use."""


class A2aCaller(RecordingClient):
    """A client of one version.

    base: URL of a deployment, or of another agent. name: name of the agent there; "" for the one at the base.
    agent: what its card said, if it was read before.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        base: str,
        version: Version,
        *,
        key: str = "",
        name: str = "",
        agent: discovery.DiscoveredAgent | None = None,
    ) -> None:
        super().__init__(http, base, key)
        self._version = version
        self._name = name
        self.agent = agent

    async def read_card(self) -> AsyncGenerator[Record, None]:
        """Read the card. Ends with a record `result`, or `error`."""
        async for record in self._safely(self._discover()):
            yield record

    async def call(
        self, operation: Operation, request: Json, *, after: str = ""
    ) -> AsyncGenerator[Record, None]:
        """Run an operation; its request is of A2A 1.0. after: id of the last event that the client has."""
        async for record in self._safely(self._call(operation, request, after)):
            yield record

    async def _discover(self) -> AsyncGenerator[Record, None]:
        version = self._version
        if version.key_header and not self._name:
            raise AgentError(f"{version.title} has no default agent. Name one, as in AGENT=assistant")
        place = f"/{self._name}" if self._name else ""
        path = version.card.format(agent=f"/a2a{place}" if place else "", name=place)
        url = discovery.card_url(self._base, path)
        version_header = {"A2A-Version": version.wire.versions[-1]} if version.wire.sends_version else {}
        needs_key = bool(version.key_header)
        while True:
            headers = {**version_header, **(self._key_headers() if needs_key else {})}
            request = self._http.build_request("GET", url, headers=headers)
            yield self._request_record(request, "")
            answer = await self._http.send(request, stream=True)
            try:
                content = await read_whole(answer, MAX_BYTES)
            finally:
                await answer.aclose()
            yield response_record(answer)
            yield {"kind": "body", "text": content.decode(errors="replace")}
            if answer.status_code in (401, 403) and self._key and not needs_key:
                needs_key = True
                continue
            break
        if answer.status_code != 200:
            raise AgentError(error_text(content, answer.status_code), status=answer.status_code)
        card = strictjson.loads(content)
        try:
            self.agent = version.agent_of_card(card, url, self._key)
        except Refused as error:
            raise Refused(f"{error}. To trust it, write that host into the URL") from None
        except discovery.Undiscovered as error:
            raise discovery.Undiscovered(f"{error}{_version_advice(card, url)}") from None
        findings = [list(finding) for finding in check_card(version.name, card)]
        yield {"kind": "result", "result": card, "findings": findings}

    async def _call(self, operation: Operation, request: Json, last_id: str) -> AsyncGenerator[Record, None]:
        if self.agent is None:
            async with aclosing(self._discover()) as records:
                async for record in records:
                    if record["kind"] != "result":
                        yield record
        assert self.agent is not None
        streams = operation in STREAMED
        http_request = self._encode(self.agent, operation, request, last_id, streams=streams)
        yield self._request_record(http_request, http_request.content.decode())
        answer = await self._http.send(http_request, stream=True)
        try:
            yield response_record(answer)
            if plain_media_type(answer.headers.get("content-type")) == EVENT_STREAM:
                async with aclosing(self._events(answer)) as records:
                    async for record in records:
                        yield record
                return
            content = await read_whole(answer, MAX_BYTES)
            yield {"kind": "body", "text": content.decode(errors="replace")}
            result = self._result(content, answer.status_code)
            if streams:
                yield {"kind": "event", "event": self._version.wire.decode_event(result), "id": ""}
            else:
                response = self._version.wire.results[operation].decode(result)
                yield {"kind": "result", "result": response}
        finally:
            await answer.aclose()

    def _encode(
        self,
        agent: discovery.DiscoveredAgent,
        operation: Operation,
        request: Json,
        last_id: str,
        *,
        streams: bool,
    ) -> httpx2.Request:
        version, wire = self._version, self._version.wire
        headers = {"Content-Type": "application/json", **self._key_headers(agent.headers)}
        if wire.sends_version:
            headers["A2A-Version"] = wire.versions[-1]
        if streams:
            headers["Accept"] = EVENT_STREAM
        if last_id:
            headers["Last-Event-ID"] = last_id
        if version.is_rest:
            params = wire.requests[operation].encode(request)
            if agent.tenant:
                params = {**params, "tenant": agent.tenant}
            return self._encode_rest(agent.url.rstrip("/"), operation, params, headers)
        suffix = version.stream_suffix if streams else ""
        url = agent.url.rstrip("/") + suffix if suffix else agent.url
        content = rpc_body(wire, operation, request, agent.tenant)
        return self._http.build_request("POST", url, headers=headers, content=content)

    def _encode_rest(
        self, base: str, operation: Operation, params: dict[str, Json], headers: dict[str, str]
    ) -> httpx2.Request:
        route = next(route for route in self._version.wire.routes if route.operation == operation)
        variables = {name: value for name, value in params.items() if f"{{{name}}}" in route.path}
        rest = {name: value for name, value in params.items() if name not in variables}
        segments = {name: quote(str(value), safe="") for name, value in variables.items()}
        url = f"{base}/{route.path.format(**segments)}"
        if route.verb == "GET":
            del headers["Content-Type"]
            query = f"?{urlencode(rest)}" if rest else ""
            return self._http.build_request("GET", url + query, headers=headers)
        content = strictjson.dumps(rest)
        return self._http.build_request(route.verb, url, headers=headers, content=content)

    async def _events(self, answer: httpx2.Response) -> AsyncGenerator[Record, None]:
        async with aclosing(sse.events(answer.aiter_bytes(), MAX_BYTES)) as frames:
            async for frame in frames:
                yield {"kind": "frame", "text": frame.text.decode(errors="replace")}
                if frame.data:
                    result = self._result(frame.data, answer.status_code)
                    event = self._version.wire.decode_event(result)
                    event_id = frame.event_id.decode(errors="replace")
                    yield {"kind": "event", "event": event, "id": event_id}
        if answer.status_code >= 400:
            raise AgentError(error_text(b"", answer.status_code), status=answer.status_code)

    def _result(self, content: bytes, status: int) -> Json:
        """Result of an answer. Raises AgentError if it is an error."""
        value = json_of(content, status)
        error = value.get("error") if isinstance(value, dict) else None
        if isinstance(error, dict) or status >= 400:
            code = error.get("code") if isinstance(error, dict) else None
            raise AgentError(error_text(content, status), code if isinstance(code, int) else None, status)
        if self._version.is_rest:
            return value
        if not isinstance(value, dict) or "result" not in value:
            raise AgentError(f"the answer, with status {status}, is not a JSON-RPC response", status=status)
        return value["result"]

    def _key_headers(self, of_card: Mapping[str, str] | None = None) -> dict[str, str]:
        if not self._key:
            return {}
        if self._version.key_header:
            return {self._version.key_header: f"Bearer {self._key}"}
        return dict(of_card if of_card is not None else card_headers(self._key))


def _version_advice(card: Json, url: str) -> str:
    """Which version to choose for a card instead; "" if none fits."""
    for version in VERSIONS.values():
        with suppress(discovery.Undiscovered, Refused):
            version.agent_of_card(card, url, "")
            return f". Choose {version.title} (VERSION={version.name})"
    return ""
