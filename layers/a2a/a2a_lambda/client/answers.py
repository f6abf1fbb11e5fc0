"""Answers of other agents: read up to a limit, and their results or errors."""

import httpx2

from a2a_lambda import strictjson
from a2a_lambda.client import sse
from a2a_lambda.errors import KitError, ParseError, excerpt
from a2a_lambda.net.addresses import Unresolved
from a2a_lambda.protocol.model import Json, Task
from a2a_lambda.strictjson import text_in

CLIENT_ANSWER_BYTES = 20 * 1024 * 1024
"""Maximum size of an answer, or of an event, in bytes."""


TEMPORARY_STATUSES = (429, 502, 503, 504)
"""Statuses of servers and gateways that have no time now."""


ANSWER_DEPTH = strictjson.MAX_DEPTH + 16
"""Levels of an answer. It has what was sent some levels deeper than the request had it."""

COMPRESSIONS = frozenset({"gzip", "deflate", "br", "zstd"})
"""Content-Encodings that httpx2 unpacks. Some servers send others, such as none, with a plain stream."""


def compressions_of(answer: httpx2.Response) -> set[str]:
    """Compressions of an answer that httpx2 would unpack: a few bytes may become very many before a limit can
    count them."""
    encodings = answer.headers.get_list("content-encoding", split_commas=True)
    return {encoding.lower() for encoding in encodings} & COMPRESSIONS


class AgentError(KitError):
    """The other agent refused the call, or its answer is not valid.

    code: its JSON-RPC error code, or None. status: HTTP status of the answer, or None.
    task: the task that has not completed, if `ask` or `stream` raises this.
    """

    def __init__(
        self, text: str, code: int | None = None, status: int | None = None, task: Task | None = None
    ) -> None:
        super().__init__(text)
        self.code = code
        self.status = status
        self.task = task

    @property
    def is_temporary(self) -> bool:
        """Whether the same call may succeed a little later."""
        is_cut_off = isinstance(self.__cause__, httpx2.TransportError | Unresolved)
        is_lasting = isinstance(self.__cause__, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError)
        return (is_cut_off and not is_lasting) or self.status in TEMPORARY_STATUSES


def json_of(body: bytes, status: int) -> Json:
    """The JSON of an answer. Raises ParseError, and AgentError if the status says more than that would."""
    try:
        return strictjson.loads(body, ANSWER_DEPTH)
    except ParseError:
        if status != 200:
            raise AgentError(f"the agent answered with status {status}", status=status) from None
        raise


def result_of(body: bytes, status: int = 200) -> Json:
    """Result of a JSON-RPC answer. Raises AgentError, ParseError."""
    value = json_of(body, status)
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        error = value["error"]
        code = error["code"] if isinstance(error.get("code"), int) else None
        words = f"error {code}" if code is not None else "an error"
        text = text_in(error, "message") or f"the agent answered with {words}, without a text that says why"
        raise AgentError(text, code, status)
    if not isinstance(value, dict) or "result" not in value:
        text = f"the answer, with status {status}, is not a JSON-RPC response{reason_in(body)}"
        raise AgentError(text, status=status)
    return value["result"]


def reason_in(body: bytes) -> str:
    """What a gateway, such as AWS's, says in an answer that is not one of A2A; "" if it says nothing."""
    try:
        value = strictjson.loads(body)
    except ParseError:
        return ""
    fields = value if isinstance(value, dict) else {}
    message = text_in(fields, "message") or text_in(fields, "Message")
    return f": {excerpt(message)}" if message else ""


async def read_whole(answer: httpx2.Response, limit: int = CLIENT_ANSWER_BYTES) -> bytes:
    """The body of an answer. limit: most bytes of it. Raises TooLarge."""
    body = bytearray()  # not a list of chunks, because a chunk of one byte takes as much memory as 40 bytes
    async for chunk in answer.aiter_bytes():
        body += chunk
        if len(body) > limit:
            raise sse.TooLarge(f"more than {limit} bytes")
    return bytes(body)
