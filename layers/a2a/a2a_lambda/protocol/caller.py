"""Who calls, as agents see it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from a2a_lambda.protocol.model import Json


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a message, as an agent sees it.

    owner: whom its tasks belong to. kind: "key", "token", "iam" for an AWS role, or "trigger" for a schedule
    or an event. issuer: the name that the operator gave a token's issuer. subject: the issuer's id of the
    person or the program; of a role, its account and name. client: the issuer's id of the application that
    the token was made for. scopes: scopes, roles and permissions of the token. claims: those claims that the
    issuer's entry lists.
    """

    owner: str
    kind: Literal["key", "token", "iam", "trigger"] = "key"
    issuer: str = ""
    subject: str = ""
    client: str = ""
    scopes: tuple[str, ...] = ()
    claims: Mapping[str, Json] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The caller as JSON, without its owner."""
        document = {name: value for name, value in asdict(self).items() if value and name != "owner"}
        return {**document, "scopes": list(self.scopes)} if self.scopes else document

    @classmethod
    def of_document(cls, owner: str, document: Mapping[str, Any]) -> "Caller":
        """The caller that `document` described."""
        return cls(owner, **{**document, "scopes": tuple(document.get("scopes", ()))})


LOCAL_CALLER = Caller("local")
"""Who sends the messages of a test that names no caller."""
