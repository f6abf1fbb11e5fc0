"""What a client brings back with the answer to a question: signed, so that it is what the server gave it.

It is bound to the caller, the tool and the arguments, and ends after an hour. Once its question is answered,
it is worthless, because it names that question.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import Json
from a2a_lambda.tasks.identity import Namespace

STATE_SECONDS = 3600
"""Seconds for which a question may be answered with its state. After that, A2A's clients still can."""

STATE_ALGORITHM = "HS256"

REFUSED = "the requestState does not belong to this call, or has expired; call the tool again without it"


@dataclass(frozen=True, slots=True)
class QuestionState:
    """A question that a call has come to. key: id of the question's message."""

    task_id: str
    key: str


def seal(question: QuestionState, binding: Mapping[str, str], secret: bytes, now: float) -> str:
    """State for a client. binding: what `binding_of` returned for the call. now: Unix time."""
    from joserfc import jwt
    from joserfc.jwk import OctKey

    claims = {**binding, "task": question.task_id, "key": question.key, "exp": int(now) + STATE_SECONDS}
    return jwt.encode({"alg": STATE_ALGORITHM}, claims, OctKey.import_key(secret))


def unseal(state: Json, binding: Mapping[str, str], secret: bytes, now: float) -> QuestionState:
    """The question that a state belongs to. Raises InvalidParams."""
    from joserfc import errors, jwt
    from joserfc.jwk import OctKey

    refusal = InvalidParams(REFUSED, path="params.requestState")
    if not isinstance(state, str):
        raise refusal
    try:
        claims = jwt.decode(state, OctKey.import_key(secret), algorithms=[STATE_ALGORITHM]).claims
    except (errors.JoseError, ValueError, TypeError):  # joserfc raises TypeError for some headers
        raise refusal from None
    if any(claims.get(name) != value for name, value in binding.items()) or claims["exp"] <= now:
        raise refusal
    return QuestionState(claims["task"], claims["key"])


def binding_of(namespace: Namespace, tool: str, arguments: dict[str, Json]) -> dict[str, str]:
    """What a state is for: who calls which tool with what."""
    source = json.dumps([namespace.owner, namespace.agent, tool, arguments], sort_keys=True)
    return {"call": hashlib.sha256(source.encode()).hexdigest()}
