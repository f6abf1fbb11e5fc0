"""Calls another agent, in any version of A2A.

URL ── card ── discovery ── wire, URL, header for the key
message ── wire.encode ── POST ── wire.decode ── task, message, events of A2A 1.0
"""

import asyncio
import time
import uuid
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, suppress
from typing import Any, Self

import httpx2

from a2a_lambda import mistakes, strictjson, tracing
from a2a_lambda.client import discovery, signatures, sse
from a2a_lambda.client.answers import (
    CLIENT_ANSWER_BYTES,
    AgentError,
    compressions_of,
    read_whole,
    reason_in,
    result_of,
)
from a2a_lambda.client.keys import card_headers, check_key
from a2a_lambda.errors import ParseError, ProtocolError
from a2a_lambda.net.addresses import NotPublic, Refused, Unresolved, place_of
from a2a_lambda.net.transport import GuardedTransport
from a2a_lambda.protocol.model import (
    STOPPED,
    Event,
    Json,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    ends_task,
    plain_media_type,
    state_word,
    text_of,
)
from a2a_lambda.protocol.requests import Operation, SendMessageConfiguration, SendMessageRequest, TaskRequest
from a2a_lambda.strictjson import object_in
from a2a_lambda.wire.interface import Wire

TASK_POLL_SECONDS = 1.0
"""Seconds between looks at a task that has not stopped."""

EVENT_STREAM = "text/event-stream"

Outgoing = str | Sequence[Part] | Message
"""A message to send: its text, its parts, or all of it."""

CARD_ABSENT_STATUSES = (401, 403, 405, 410)
"""Statuses with which gateways and file servers answer at a path that is not there. Another path may have the
card."""


class Client:
    """Client of another agent.

    url: URL of the agent, or of its card. key: sent only to the origin of that URL (scheme, host and port),
        in the header that the card names. A `BearerToken("…")` goes into `Authorization`.
    auth: signs in there instead, or too: `ClientCredentials`, `AwsSignature`.
    hosts: other hosts that its card may send callers to. private: the agent may be in a private network,
        and use plain http. extensions: URIs to activate. timeout: seconds of silence after which a call
        fails. If the agent answers before its task has stopped, `ask` looks at the task for as long.
    agent: the agent, if its card is known already. verify: public keys, as {"keys": […]} (RFC 7517); the card
        must have a signature of one of them.
    Raises ConfigurationError if the key cannot be sent in a header.

    async with Client("https://agents.example.com", key=key) as agent:
        task = await agent.send("What is 1 plus 2?")
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        auth: httpx2.Auth | None = None,
        hosts: Sequence[str] = (),
        private: bool = False,
        extensions: Sequence[str] = (),
        timeout: float = 60.0,
        transport: httpx2.AsyncBaseTransport | None = None,
        agent: discovery.DiscoveredAgent | None = None,
        verify: signatures.Jwks | None = None,
    ) -> None:
        self._url = url
        self._verify = verify
        self._key = check_key(key) if key else None
        self._auth = auth
        self._hosts = hosts
        self._extensions = ", ".join(extensions)
        self._timeout = timeout
        self._http = httpx2.AsyncClient(
            transport=transport or GuardedTransport(private=private),
            headers={"Accept-Encoding": "identity"},
            timeout=timeout,
            trust_env=False,
        )
        self._agent = agent

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def discover(self) -> discovery.DiscoveredAgent:
        """The agent, from its card, which is read once. Raises Undiscovered, including for a card that no key
        in `verify` has signed; Refused, AgentError, SignInFailed, ConfigurationError."""
        if self._agent is not None:
            return self._agent
        # A signature is of the strict card of 1.0.
        version_header = {"A2A-Version": "1.0"} if self._verify is not None else {}
        credentials = card_headers(self._key) if self._key else {}
        refusal: AgentError | None = None
        for url in discovery.card_urls(self._url):
            # All of these URLs are of the host that the caller named, so they may get the key.
            headers = {**credentials, **version_header, **tracing.headers()}
            place = place_of(url)
            async with self._open("GET", url, headers) as answer:
                content, status = await read_whole(answer), answer.status_code
            if status == 200:
                try:
                    card = strictjson.loads(content.removeprefix(BOM_UTF8))
                except ParseError as problem:  # a site may have a page for every path
                    refusal = refusal or AgentError(
                        f"{place}: the card is not JSON: {problem}", status=status
                    )
                    continue
                if self._verify is not None and isinstance(card, dict):
                    card = signatures.signed_part(card, self._verify, place)
                try:
                    self._agent = discovery.agent_of_card(card, url, self._key, self._hosts)
                except Refused as reason:
                    raise Refused(f"{reason}: name its host in `hosts` if you trust it") from None
                return self._agent
            if status != 404:
                text = f"{place}: the card has the status {status}{reason_in(content)}"
                error = AgentError(text, status=status)
                if status not in CARD_ABSENT_STATUSES:
                    raise refusal or error
                refusal = refusal or error
        raise refusal or discovery.Undiscovered(f"{place_of(self._url)}: there is no agent card")

    async def card(self) -> Mapping[str, Json]:
        """The agent's card. Raises what `discover` raises."""
        return (await self.discover()).card

    async def send(
        self, message: Outgoing, *, configuration: SendMessageConfiguration | None = None, **fields: Any
    ) -> Task | Message:
        """Send a message; returns its task, or the message that the agent answers with.

        fields: further fields of the message, such as contextId, taskId, metadata. Raises what `discover`
        raises, and TypeError for a field that no message has.
        """
        outcome = await self._call("send", _request(message, configuration, fields))
        result: Task | Message | None = outcome.get("task") or outcome.get("message")
        if result is None:
            raise AgentError("the agent answered with neither a task nor a message")
        return result

    async def ask(
        self, message: Outgoing, *, configuration: SendMessageConfiguration | None = None, **fields: Any
    ) -> str:
        """Send a message, and wait until its task stops. Returns the text of the artifacts, or of the message
        that ends the task if they have none.

        fields: see `send`. Raises AgentError, with the task and the agent's own words, if the task did not
        complete, for example because it asks a question; and what `send` raises.
        """
        answer = await self._send_and_wait(message, configuration, fields)
        if "status" not in answer:
            return text_of(answer["parts"])
        # Some servers keep each piece of a streamed text as a part, or even an artifact, of its own.
        pieces_by_id: defaultdict[str, list[str]] = defaultdict(list)
        for artifact in answer.get("artifacts", []):
            pieces_by_id[artifact["artifactId"]] += [part.get("text", "") for part in artifact["parts"]]
        texts = ["".join(pieces) for pieces in pieces_by_id.values()]
        words = text_of(answer["status"].get("message", {}).get("parts", []))
        state = answer["status"]["state"]
        if state != TaskState.COMPLETED:
            # Dialects without status messages send a question as the last artifact.
            words = words or next(reversed(texts), "")
            raise AgentError(f"the agent's task is {state_word(state)}{words and f': {words}'}", task=answer)
        return "\n".join(filter(None, texts)) or words

    async def stream(
        self, message: Outgoing, *, configuration: SendMessageConfiguration | None = None, **fields: Any
    ) -> AsyncGenerator[Event, None]:
        """Send a message; yields its events as they come. If the last one does not end the task, it may still
        be running: ask for it with `get`. An agent whose card does not say that it streams gets the
        message as `ask` sends it, and its answer is the only event, as is the answer of an agent that sends
        JSON instead of a stream. Raises what `discover` raises."""
        agent = await self.discover()
        if object_in(agent.card, "capabilities").get("streaming") is not True:
            outcome = await self._send_and_wait(message, configuration, fields)
            yield Event(task=outcome) if "status" in outcome else Event(message=outcome)
            return
        body = rpc_body(agent.wire, "stream", _request(message, configuration, fields), agent.tenant)
        # Not as the current span: the caller's code runs between the events.
        with self._span(agent, is_current=False) as span:
            headers = {**self._headers(agent), **span.headers(), "Accept": EVENT_STREAM}
            async with self._open("POST", agent.url, headers, body) as answer:
                status = answer.status_code
                span.set_status(status)
                if plain_media_type(answer.headers.get("content-type")) != EVENT_STREAM:
                    response: Any = agent.wire.results["send"].decode(
                        result_of(await read_whole(answer), status)
                    )
                    yield response
                    return
                async with aclosing(sse.data(answer.aiter_bytes(), CLIENT_ANSWER_BYTES)) as stream:
                    async for data in stream:
                        event = agent.wire.decode_event(result_of(data, status))
                        yield event
                        if ends_task(event):  # a server may keep the connection open
                            return
                if status >= 400:
                    raise AgentError(f"the agent answered with status {status}", status=status)

    async def _send_and_wait(
        self, message: Outgoing, configuration: SendMessageConfiguration | None, fields: Mapping[str, Any]
    ) -> Any:
        """The task of a message after it has stopped, or as it is after `timeout`; or a message."""
        options = SendMessageConfiguration(**{"returnImmediately": False, **(configuration or {})})
        answer: Any = await self.send(message, configuration=options, **fields)
        # Some servers answer at once anyway.
        give_up_at = time.monotonic() + self._timeout
        while (
            not options["returnImmediately"]
            and "status" in answer
            and answer["status"]["state"] not in STOPPED
            and time.monotonic() < give_up_at
        ):
            await asyncio.sleep(TASK_POLL_SECONDS)
            try:
                answer = await self.get(answer["id"])
            except AgentError as error:
                # The task does not depend on this look, and the next one may succeed.
                if not error.is_temporary or time.monotonic() >= give_up_at:
                    error.task = answer
                    raise
        return answer

    async def get(self, task_id: str, *, history_length: int | None = None) -> Task:
        """The task with this id. Raises what `discover` raises."""
        request = TaskRequest(id=task_id)
        if history_length is not None:
            request["historyLength"] = history_length
        task: Task = await self._call("get", request)
        return task

    async def cancel(self, task_id: str) -> Task:
        """Cancel a task; returns it. Raises what `discover` raises."""
        task: Task = await self._call("cancel", TaskRequest(id=task_id))
        return task

    async def _call(self, operation: Operation, request: Any) -> Any:
        agent = await self.discover()
        body = rpc_body(agent.wire, operation, request, agent.tenant)
        with self._span(agent) as span:
            headers = {**self._headers(agent), **span.headers()}
            async with self._open("POST", agent.url, headers, body) as answer:
                span.set_status(answer.status_code)
                result = result_of(await read_whole(answer), answer.status_code)
                return agent.wire.results[operation].decode(result)

    def _span(
        self, agent: discovery.DiscoveredAgent, *, is_current: bool = True
    ) -> AbstractContextManager[tracing.Span]:
        """A span of a call of the agent, which continues the caller's trace."""
        name = str(agent.card.get("name", ""))
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        return tracing.http_span(
            agent.url, attributes, name=f"invoke_agent {name}".strip(), is_current=is_current
        )

    @asynccontextmanager
    async def _open(
        self, verb: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """An answer while it is read and decoded. Raises AgentError for CALL_ERRORS, even if the block that
        reads it raises them."""
        try:
            # Only the host that the caller named gets a token, or a signature.
            is_home = discovery.is_same_origin(httpx2.URL(url), httpx2.URL(self._url))
            auth = self._auth if is_home else None
            async with self._http.stream(verb, url, content=body, headers=headers, auth=auth) as answer:
                if compressions := compressions_of(answer):
                    names = ", ".join(compressions)
                    place = place_of(url)
                    text = f"{place}: the answer is compressed ({names}), which the request does not allow"
                    raise AgentError(text, status=answer.status_code)
                yield answer
        except NotPublic as error:
            raise NotPublic(f"{error}; if you trust it, write Client(…, private=True)") from error
        except CALL_ERRORS as error:
            if isinstance(error, httpx2.RequestError):
                with suppress(RuntimeError):  # it has no request
                    url = str(error.request.url)  # which may have been a sign-in's
            name = type(error).__name__
            if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
                # Without a valid form, it is not known which part of the URL is a secret.
                raise AgentError(f"{name}: write a URL that begins with https://") from error
            raise AgentError(f"{place_of(url)}: {name}: {error}") from error

    def _headers(self, agent: discovery.DiscoveredAgent) -> dict[str, str]:
        """Headers of every call."""
        headers = {"A2A-Version": agent.wire.versions[-1]} if agent.wire.sends_version else {}
        if self._extensions:
            headers |= {"A2A-Extensions": self._extensions, "X-A2A-Extensions": self._extensions}
        return {"Content-Type": "application/json", **headers, **agent.headers}


CALL_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, ProtocolError, sse.TooLarge, Unresolved, UnicodeError)
"""Errors of a call, or of its answer."""


def _request(
    message: Outgoing, configuration: SendMessageConfiguration | None, fields: Mapping[str, Json]
) -> SendMessageRequest:
    for name in fields:
        if name not in Message.__annotations__:
            hint = mistakes.did_you_mean(name, Message.__annotations__)
            names = ", ".join(Message.__annotations__)
            raise TypeError(
                f"a message has no field {name!r}{hint} It has: {names}. Options of the request, such as"
                " returnImmediately, go into configuration={…}"
            )
    if isinstance(message, dict):
        new_message = Message(**{**message, **fields})  # type: ignore[typeddict-item]
    else:
        parts = [Part(text=message)] if isinstance(message, str) else list(message)
        new_message = Message(messageId=str(uuid.uuid4()), role=Role.USER, parts=parts)
        new_message.update(fields)  # type: ignore[typeddict-item]
    request = SendMessageRequest(message=new_message)
    if configuration is not None:
        request["configuration"] = configuration
    return request


def rpc_body(wire: Wire, operation: Operation, request: Any, tenant: str = "") -> bytes:
    """A JSON-RPC request. tenant: the agent's tenant, if it has one (1.0 section 8.3.2). Raises AgentError if
    the wire does not have the operation."""
    if operation not in wire.requests:
        raise AgentError(f"A2A {wire.name} has no operation {operation}: use 1.0")
    params = wire.requests[operation].encode(request)
    if tenant:
        params = {**params, "tenant": tenant}
    return strictjson.dumps(
        {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": wire.method_of(operation), "params": params}
    )
