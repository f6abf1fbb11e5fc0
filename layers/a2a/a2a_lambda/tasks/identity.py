"""Whose task it is, and which request made it."""

import hashlib
import uuid
from dataclasses import dataclass
from typing import TypedDict

from a2a_lambda import strictjson

KEPT_REQUESTS = 8
"""Requests a head, or a context, remembers."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose task, made through which agent. Outside its scope a task does not exist."""

    owner: str
    agent: str


@dataclass(frozen=True, slots=True)
class Request:
    """What makes two requests the same one.

    key: hash of owner, agent, operation and body, or of the Idempotency-Key in the body's place.
    body: hash of the body, to tell a key that is used twice for different things.
    """

    key: str
    body: str

    @classmethod
    def of(cls, scope: Scope, operation: str, body: bytes, idempotency_key: str | None = None) -> "Request":
        digest = hashlib.sha256(body).hexdigest()[:32]
        source = ("body", digest) if idempotency_key is None else ("key", idempotency_key)
        identity = strictjson.dumps([scope.owner, scope.agent, operation, *source])
        return cls(hashlib.sha256(identity).hexdigest()[:32], digest)

    def task_id(self, previous: str = "") -> str:
        """Id of the task this request makes: the same for every retry, another after `previous`."""
        return _uuid(self.key + previous)

    def turn_id(self, answered: str = "") -> str:
        """Id of the turn this request begins. answered: names the last answer to the same bytes, if there was
        one: the same bytes now are a new request, and a new turn."""
        return self._turn_prefix + _uuid(f"{self.key}#turn#{answered}")[len(self._turn_prefix) :]

    def began(self, turn: str) -> bool:
        """Whether a turn is one that these bytes have begun."""
        return turn.startswith(self._turn_prefix)

    @property
    def _turn_prefix(self) -> str:
        return _uuid(f"{self.key}#turn")[:13]

    def config_id(self, task_id: str) -> str:
        """Id of the push notification config the request brings, if the client gave it none."""
        return _uuid(f"{self.key}#push#{task_id}")


def _uuid(source: str) -> str:
    return str(uuid.UUID(hashlib.sha256(source.encode()).hexdigest()[:32], version=4))


class AnsweredRequest(TypedDict):
    """A request that was answered: Request's hashes, the task, and when (Unix seconds)."""

    key: str
    body: str
    task: str
    at: float
