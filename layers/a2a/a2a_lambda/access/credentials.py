"""What callers send to be let in, and what it allows."""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass

from a2a_lambda.errors import Forbidden, InsufficientScope
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.tasks.identity import Namespace

KEY_PREFIX = "a2a_"

KEY_FORM = re.compile(rf"{KEY_PREFIX}[A-Za-z0-9_-]{{43}}")

JSON_OBJECT_STARTS = ("ey", "ew")
"""How a JSON object begins in base64url: a brace, and then a quote, a space, a tab or a line break."""


def is_token(secret: str) -> bool:
    """Whether a secret has the form of a JWT: three parts, of which the first is a JSON object."""
    return secret.startswith(JSON_OBJECT_STARTS) and secret.count(".") == 2


def digest_of(secret: str) -> str:
    """SHA-256 of a secret, hex. No store and no cache has the secret itself."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Grant:
    """What a key or a token allows.

    agents: names of those that the caller may call; empty = all. scopes: those that every token of the
    caller's issuer needs. key_name: name of the caller's key; "" = the caller has none."""

    caller: Caller
    agents: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    key_name: str = ""

    def namespace(self, agent: str, scopes: Collection[str]) -> Namespace:
        """Namespace of the caller's tasks with an agent. scopes: those that a token needs for the agent.

        Raises Forbidden, InsufficientScope.
        """
        if self.agents and agent not in self.agents:
            raise Forbidden(f"agent {agent!r}")
        if self.caller.kind == "token" and not set(scopes) <= set(self.caller.scopes):
            # Both lists, because a client that asks for exactly these scopes must then be let in.
            raise InsufficientScope(f"agent {agent!r}", dict.fromkeys([*self.scopes, *scopes]))
        return Namespace(self.caller.owner, agent)
