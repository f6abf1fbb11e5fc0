"""A request of MCP: JSON-RPC, and the headers that mirror it (Streamable HTTP, section "Headers")."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass

from a2a_lambda.errors import InvalidParams, InvalidRequest, excerpt
from a2a_lambda.protocol.model import Json
from a2a_lambda.wire.mcp.revisions import (
    CAPABILITIES_KEY,
    STATELESS,
    VERSION_KEY,
    WITH_HANDSHAKE,
    HeaderMismatch,
    UnknownRevision,
)
from a2a_lambda.wire.shared import jsonrpc

VERSION_HEADER = "mcp-protocol-version"

ENCODED = ("=?base64?", "?=")
"""Prefix and suffix of a header value that is not plain ASCII."""

NAME_PARAMETERS = {"tools/call": "name"}
"""Parameter that the header Mcp-Name mirrors, by method."""

OPTIONAL_NAME_PARAMETERS = {"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}
"""The same, for methods whose clients must send the header, too, but are heard without it."""


@dataclass(frozen=True, slots=True)
class McpRequest:
    """A request or a notification of MCP.

    id: None for a notification, which gets no answer. capabilities: what the client can do. In a
    revision with a handshake they belong to a session, which this server does not keep.
    """

    id: jsonrpc.Id
    method: str
    params: Mapping[str, Json]
    meta: Mapping[str, Json]
    revision: str
    capabilities: Mapping[str, Json]

    @property
    def is_stateless(self) -> bool:
        return self.revision == STATELESS

    @property
    def progress_token(self) -> str | int | None:
        """Token of the progress notifications that the client wants; None = it wants none."""
        return jsonrpc.short_id(self.meta.get("progressToken"))

    @property
    def request_state(self) -> Json:
        """The state that this server sealed into the question that the client answers; None = it answers
        none."""
        return self.params.get("requestState") if self.is_stateless else None

    @property
    def shows_forms(self) -> bool:
        """Whether the client can ask its user by a form. An empty capability means so, too."""
        elicitation = self.capabilities.get("elicitation")
        return isinstance(elicitation, dict) and ("form" in elicitation or "url" not in elicitation)

    def has_extension(self, name: str) -> bool:
        extensions = self.capabilities.get("extensions")
        return isinstance(extensions, dict) and isinstance(extensions.get(name), dict)


def decode(value: Json, headers: Mapping[str, str]) -> McpRequest | None:
    """The request in a body; None if the body is a client's answer. headers: by lower-case name.

    Raises InvalidRequest, InvalidParams, HeaderMismatch, UnknownRevision.
    """
    if isinstance(value, dict) and "method" not in value and ("result" in value or "error" in value):
        return None
    envelope = jsonrpc.decode(value)
    if "id" in value and envelope.id is None:
        raise InvalidRequest("id must be a string or an integer", path="id")
    params = {} if envelope.params is None else envelope.params
    if not isinstance(params, dict):
        raise InvalidParams("params must be an object", path="params")
    meta = params.get("_meta", {})
    if not isinstance(meta, dict):
        raise InvalidParams("params._meta must be an object", path="params._meta")
    # A notification need not have a `_meta`, and its header says the revision alone.
    if envelope.id is None and meta.get(VERSION_KEY) is None and headers.get(VERSION_HEADER) == STATELESS:
        meta = {**meta, VERSION_KEY: STATELESS}
    revision = _revision_of(envelope.method, params, meta, headers)
    capabilities: Json = {}
    if revision == STATELESS:
        _check_headers(envelope.method, params, headers)
        if envelope.id is not None:
            capabilities = meta.get(CAPABILITIES_KEY)
            if not isinstance(capabilities, dict):
                raise InvalidParams(f"params._meta must have {CAPABILITIES_KEY}, an object")
    return McpRequest(envelope.id, envelope.method, params, meta, revision, capabilities)


def _revision_of(
    method: str, params: Mapping[str, Json], meta: Mapping[str, Json], headers: Mapping[str, str]
) -> str:
    """The revision that a request speaks: the body's, or the header's. Without either, the client has not
    initialized yet, or speaks the first revision that had this transport."""
    header, meta_version = headers.get(VERSION_HEADER, ""), meta.get(VERSION_KEY)
    if meta_version is not None:
        if not isinstance(meta_version, str):
            raise InvalidParams(f"params._meta.{VERSION_KEY} must be a string")
        if meta_version != header:
            raise HeaderMismatch(
                f"MCP-Protocol-Version must be {excerpt(meta_version)!r}, as in params._meta"
            )
        if meta_version != STATELESS:
            raise UnknownRevision(meta_version)
        return meta_version
    if header == STATELESS:
        raise InvalidParams(f"params._meta must have {VERSION_KEY}")
    if method == "initialize":
        version: Json = params.get("protocolVersion")
        is_known = isinstance(version, str) and version in WITH_HANDSHAKE
        return version if is_known else WITH_HANDSHAKE[0]
    if header and header not in WITH_HANDSHAKE:
        raise UnknownRevision(header)
    return header or WITH_HANDSHAKE[-1]


def _check_headers(method: str, params: Mapping[str, Json], headers: Mapping[str, str]) -> None:
    """Raises HeaderMismatch."""
    expected_headers = {"mcp-method": method}
    name_parameters = NAME_PARAMETERS | (OPTIONAL_NAME_PARAMETERS if "mcp-name" in headers else {})
    if method in name_parameters:
        expected_headers["mcp-name"] = str(params.get(name_parameters[method], ""))
    begin, end = ENCODED
    for name, value in expected_headers.items():
        header = headers.get(name, "").strip()
        if header.startswith(begin) and header.endswith(end):
            try:
                header = base64.b64decode(header[len(begin) : -len(end)], validate=True).decode()
            except ValueError:
                raise HeaderMismatch(f"the value of the header {name.title()} is not base64") from None
        if header != value:
            raise HeaderMismatch(f"the header {name.title()} must be {excerpt(value)!r}, as in the body")
