"""What a key or a token allows."""

from collections.abc import Collection
from dataclasses import dataclass

from a2a_lambda.errors import Forbidden, InsufficientScope
from a2a_lambda.tasks.caller import Caller
from a2a_lambda.tasks.identity import Scope


@dataclass(frozen=True, slots=True)
class Grant:
    """agents: names of those that the caller may call; empty = all. scopes: those that every token of the
    caller's issuer needs."""

    caller: Caller
    agents: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()

    def scope(self, agent: str, scopes: Collection[str]) -> Scope:
        """Scope of the caller and an agent. scopes: those that a token needs for the agent.

        Raises Forbidden, InsufficientScope.
        """
        if self.agents and agent not in self.agents:
            raise Forbidden(f"agent {agent!r}")
        if self.caller.kind == "token" and not set(scopes) <= set(self.caller.scopes):
            # Both lists, because a client that asks for exactly these scopes must then be let in.
            raise InsufficientScope(f"agent {agent!r}", dict.fromkeys([*self.scopes, *scopes]))
        return Scope(self.caller.owner, agent)
