"""Whose task it is, and what makes two requests the same one."""

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from a2a_lambda import strictjson
from a2a_lambda.errors import InvalidParams

KEPT_REQUESTS = 8
"""Requests that a context remembers, or a head besides the one that made its task."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """The owner of a task, and the agent it was made with. A task does not exist outside of its namespace."""

    owner: str
    agent: str


@dataclass(frozen=True, slots=True)
class TurnReference:
    """Which turn: its namespace, its task and its id. A queue or an execution carries nothing else of it."""

    namespace: Namespace
    task_id: str
    turn_id: str

    def encode(self) -> str:
        """The reference as JSON."""
        namespace = self.namespace
        return json.dumps(
            {"owner": namespace.owner, "agent": namespace.agent, "task": self.task_id, "turn": self.turn_id}
        )

    @classmethod
    def read(cls, text: str) -> "TurnReference":
        """The reference that `encode` has written. Raises ValueError, KeyError."""
        ids = json.loads(text)
        return cls(Namespace(ids["owner"], ids["agent"]), ids["task"], ids["turn"])


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """Two requests with the same key are the same request.

    key: hash of owner, agent, operation and body. An Idempotency-Key takes the place of the body.
    body: hash of the body; with an Idempotency-Key, of the parameters. It shows that the key was used for two
    different requests.
    is_idempotent: the client sent an Idempotency-Key.
    has_own_id: the client gave the message or the request an id, so another message has other bytes.
    """

    key: str
    body: str
    is_idempotent: bool = False
    has_own_id: bool = True

    @classmethod
    def of(
        cls,
        namespace: Namespace,
        operation: str,
        body: bytes,
        idempotency_key: str | None = None,
        *,
        has_own_id: bool = True,
    ) -> "RequestIdentity":
        digest = hashlib.sha256(body).hexdigest()[:32]
        source = ("body", digest) if idempotency_key is None else ("key", idempotency_key)
        identity = strictjson.dumps([namespace.owner, namespace.agent, operation, *source])
        key = hashlib.sha256(identity).hexdigest()[:32]
        return cls(key, digest, idempotency_key is not None, has_own_id)

    def find(self, requests: "Sequence[KnownRequest]") -> "KnownRequest | None":
        """This request among those that a task or a context knows, or None. The newest counts."""
        return next((request for request in reversed(requests) if request["key"] == self.key), None)

    def repeats(self, requests: "Sequence[KnownRequest]", *, since: float) -> bool:
        """Whether this request repeats a known one.

        since: Unix time. The same bytes count as the same request only after it, and only if they have an id
            of their own; the same Idempotency-Key always does.
        Raises InvalidParams for an Idempotency-Key that came with another body.
        """
        known_request = self.find(requests)
        if known_request is None:
            return False
        is_recent = self.has_own_id and known_request["at"] > since
        if not is_recent and not self.is_idempotent:
            return False
        self.check_body(known_request)
        return True

    def check_body(self, known_request: "KnownRequest") -> None:
        """Raises InvalidParams for an Idempotency-Key that came with another body."""
        if known_request["body"] != self.body:
            raise InvalidParams("this Idempotency-Key was used with another request: use a new one for each")

    def task_id(self, previous: str = "") -> str:
        """Id of the task that this request makes. It is the same for every retry.

        previous: id of the request's last task, if the request was repeated after its repeat window.
        """
        return _uuid(self.key + previous)

    def turn_id(self, answer: str = "") -> str:
        """Id of the turn that this request starts.

        answer: id of the previous answer to the same bytes, if there was one. The same bytes are then a new
            request, with a new turn.
        """
        return self._turn_prefix + _uuid(f"{self.key}#turn#{answer}")[len(self._turn_prefix) :]

    def has_started(self, turn: str) -> bool:
        """Whether these bytes started a turn."""
        return turn.startswith(self._turn_prefix)

    @property
    def _turn_prefix(self) -> str:
        return _uuid(f"{self.key}#turn")[:13]


class KnownRequest(TypedDict):
    """A request that a turn has claimed: its RequestIdentity, its task, and when (Unix seconds)."""

    key: str
    body: str
    task: str
    at: float


def context_of_task(task_id: str) -> str:
    """Id of the conversation of a task whose id the client has chosen without naming a conversation. The
    conversation outlives the task, whose expiry is counted from its first message."""
    return _uuid(f"{task_id}#context")


def config_id_of(task_id: str, url: str) -> str:
    """Id of a push notification config to which the client gave none. url: URL of the webhook."""
    return _uuid(f"{task_id}#push#{url}")


def question_id(turn_id: str, key: str, text: str) -> str:
    """Id of the message that asks the question of a wait. It is the same however often the turn continues and
    asks again, so that the answer to any of these messages counts. key: the wait's, unique in the turn."""
    return _uuid(f"{turn_id}#question#{key}#{text}")


def _uuid(source: str) -> str:
    return str(uuid.UUID(hashlib.sha256(source.encode()).hexdigest()[:32], version=4))
