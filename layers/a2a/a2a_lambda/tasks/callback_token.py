"""The token in the URL of a wait. With it, a caller may end that wait, and do nothing else.

    <owner, agent, task and key of the wait, in base64>.<HMAC-SHA256 of the turn and the key>

The key of the HMAC is in the task's head, and every turn has its own.
"""

import hashlib
import hmac
import json
from dataclasses import dataclass

from a2a_lambda import strictjson
from a2a_lambda.errors import ParseError, RouteNotFound
from a2a_lambda.protocol.model import decode_raw, encode_base64url
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.tasks.suspension import execution_of

MAX_TOKEN_CHARACTERS = 2_000

UNKNOWN_URL = "this URL does not belong to a waiting turn"


@dataclass(frozen=True, slots=True)
class CallbackToken:
    """Where a wait is, and the signature that its URL has."""

    namespace: Namespace
    task_id: str
    key: str
    signature: str

    @classmethod
    def read(cls, token: str) -> "CallbackToken":
        """Decode a token, which `is_genuine` must check then. Raises RouteNotFound for another text."""
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise RouteNotFound(UNKNOWN_URL)
        fields_text, _, signature = token.partition(".")
        try:
            fields = strictjson.loads(decode_raw(fields_text))
        except (ValueError, ParseError):
            raise RouteNotFound(UNKNOWN_URL) from None
        is_list = isinstance(fields, list) and len(fields) == 4
        if not is_list or not all(isinstance(field, str) for field in fields):
            raise RouteNotFound(UNKNOWN_URL)
        owner, agent, task_id, key = fields
        return cls(Namespace(owner, agent), task_id, key, signature)

    def is_genuine(self, head: Head) -> bool:
        """Whether the current turn of a task has given out this token."""
        if head.place is not Place.EXECUTION:
            return False
        return hmac.compare_digest(self.signature.encode(), _sign(head, self.key).encode())


def callback_token(head: Head, key: str) -> str:
    """Token for a wait of a durable turn."""
    fields = strictjson.dumps([head.namespace.owner, head.namespace.agent, head.task_id, key])
    return f"{encode_base64url(fields)}.{_sign(head, key)}"


def _sign(head: Head, key: str) -> str:
    content = json.dumps([head.turn_id, key]).encode()
    digest = hmac.digest(execution_of(head).secret.encode(), content, hashlib.sha256)
    return encode_base64url(digest)
