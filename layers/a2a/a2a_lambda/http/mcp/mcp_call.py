"""A request of MCP, with all that it needs to be answered."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from a2a_lambda import strictjson
from a2a_lambda.errors import ProtocolError
from a2a_lambda.http.request import base_url, deadline, idempotency_key
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.model import Json
from a2a_lambda.protocol.requests import SendMessageRequest
from a2a_lambda.tasks.identity import RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall
from a2a_lambda.wire import v1_0
from a2a_lambda.wire.mcp import revisions
from a2a_lambda.wire.mcp.results import INLINE_MODES, in_revision
from a2a_lambda.wire.mcp.revisions import CONTEXT_KEY
from a2a_lambda.wire.shared import jsonrpc

if TYPE_CHECKING:
    from starlette.requests import Request

    from a2a_lambda.kit import Kit
    from a2a_lambda.protocol.profile import Profile
    from a2a_lambda.tasks.identity import Namespace
    from a2a_lambda.wire.mcp import envelope


CLIENT_SECONDS = 45.0
"""Seconds within which a call is answered even if its turn takes longer. The answer then says how to ask for
the result. The official TypeScript client gives up after 60 (DEFAULT_REQUEST_TIMEOUT_MSEC)."""


@dataclass(frozen=True, slots=True)
class McpCall:
    """A request whose caller may call the agent."""

    request: "Request"
    kit: "Kit"
    caller: "Caller"
    namespace: "Namespace"
    agent: "Profile"
    message: "envelope.McpRequest"

    @property
    def server(self) -> dict[str, Json]:
        """The agent, as the implementation of a server."""
        return {"name": self.agent.name, "title": self.agent.card.name, "version": self.agent.card.version}

    def encode(self, result: dict[str, Json]) -> bytes:
        """The answer with a result."""
        return jsonrpc.result(self.message.id, in_revision(result, self.message.revision, self.server))

    def encode_error(self, error: ProtocolError) -> bytes:
        """The answer with an error."""
        return jsonrpc.error(self.message.id, revisions.encode_error(error))

    def identity(self, message_id: str = "") -> RequestIdentity:
        """Identity of the call, for retries. Request ids repeat across clients, so only an Idempotency-Key
        makes two calls the same. Raises InvalidParams.

        message_id: id of the call's message, which is new in each call, so that without a key none repeats
            another.
        """
        key = idempotency_key(self.request)
        # With a key, other parameters are a mistake. In `_meta`, only the conversation counts: a trace or a
        # progress token is new in each try.
        body = message_id.encode()
        if key is not None:
            body = strictjson.dumps({**self.message.params, "_meta": self.message.meta.get(CONTEXT_KEY)})
        return RequestIdentity.of(self.namespace, "tools/call", body, key)

    def deadline(self, *, is_long: bool) -> float:
        """When the answer must be out, on `time.monotonic`.

        is_long: the turn may take longer than the client waits for an answer, and can be asked for later.
        """
        answer_deadline = deadline(self.request)
        return min(answer_deadline, time.monotonic() + CLIENT_SECONDS) if is_long else answer_deadline

    def message_call(self, request: SendMessageRequest) -> MessageCall:
        """What surrounds a message. Raises InvalidParams."""
        return MessageCall(
            namespace=self.namespace,
            caller=self.caller,
            identity=self.identity(request["message"]["messageId"]),
            wire_name=v1_0.WIRE.name,
            # A client of MCP cannot activate them, and each is for clients of A2A.
            extensions=self.agent.card.required_extensions,
            blocking_by_default=True,
            answers_in_context=False,  # an answer to a tool names its task
            base_url=base_url(self.request),
            modes=INLINE_MODES,
            deadline=deadline(self.request),
        )
