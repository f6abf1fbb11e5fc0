"""JSON-RPC 2.0 (https://www.jsonrpc.org/specification): the envelope, for every version."""

import uuid
from dataclasses import dataclass

from a2a_lambda import strictjson
from a2a_lambda.errors import InvalidRequest
from a2a_lambda.protocol.model import Json

Id = str | int | None

RPC_ID_BYTES = 512
"""Maximum size of the text of an id, in bytes. Each event of a stream repeats it."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A request. params: None if it is absent."""

    id: Id
    method: str
    params: Json


def read_id(value: Json) -> Id:
    """Id of a request, or None if it is not valid. An error answers to it."""
    return short_id(value.get("id")) if isinstance(value, dict) else None


def short_id(value: Json) -> Id:
    """A client's text or integer that may be repeated in each event of a stream; None if it is neither, or
    too long for that."""
    if isinstance(value, float) and value.is_integer():  # 1.0 is an integer, as in JSON Schema
        value = int(value)
    is_id = isinstance(value, str | int) and not isinstance(value, bool)
    return value if is_id and len(str(value).encode()) <= RPC_ID_BYTES else None


def is_unique(request_id: Id) -> bool:
    """Whether an id is a UUID, which no other request has. Some clients count from 1, or always send the same
    id."""
    try:
        uuid.UUID(str(request_id))
    except ValueError:
        return False
    return True


def decode(value: Json) -> Envelope:
    """Request of a JSON value. Raises InvalidRequest."""
    if isinstance(value, list):
        raise InvalidRequest("batch requests are not supported; send one request at a time")
    if not isinstance(value, dict):
        raise InvalidRequest("a request must be an object")
    if value.get("jsonrpc") != "2.0":
        raise InvalidRequest('jsonrpc must be "2.0"', path="jsonrpc")
    request_id = value.get("id")
    if request_id is not None and short_id(request_id) is None:
        raise InvalidRequest(f"id must be a string or an integer of at most {RPC_ID_BYTES} bytes", path="id")
    method = value.get("method")
    if not isinstance(method, str):
        raise InvalidRequest("method must be a string", path="method")
    return Envelope(request_id, method, value.get("params"))


def result(request_id: Id, value: Json) -> bytes:
    return strictjson.dumps({"jsonrpc": "2.0", "id": request_id, "result": value})


def error(request_id: Id, value: Json) -> bytes:
    return strictjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": value})
