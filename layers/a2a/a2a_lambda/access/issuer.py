"""An issuer of tokens as Parameter Store has it, and whom its tokens speak for.

Each issuer is one parameter, `<path>/<name>`, beside the keys. It holds nothing secret: anyone may know which
issuer a deployment trusts.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from a2a_lambda.errors import TokenRefused
from a2a_lambda.protocol.model import Json
from a2a_lambda.strictjson import text_in

ISSUER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")

IAM = "iam"
"""Begins the owners of callers whom AWS has authenticated. No issuer of tokens has this name."""

CLIENT_CLAIMS = ("client_id", "azp", "appid", "cid")
"""Claims that name the application: of RFC 9068, OpenID Connect, Entra's version 1 and Okta."""

SCOPE_CLAIMS = ("scope", "scp", "roles", "permissions")
"""Claims that say what a token allows: texts with spaces (RFC 6749 section 3.3), or lists of texts."""

DISPLAY_CLAIMS = frozenset(
    [
        *("name", "nickname", "given_name", "family_name", "preferred_username", "username", "unique_name"),
        *("upn", "email", "mail", "phone_number"),
    ]
)
"""Claims that can change, or be reassigned to another person. They cannot name an owner."""

PERSON_CLAIMS = DISPLAY_CLAIMS | {"sid", "auth_time"}
"""Claims that only a person's token has, in lower case."""

CLIENT_OWNER = "client"
"""The owner_claim with which the application owns the tasks of all its tokens."""

SUBJECT_OR_CLIENT = "sub,client"
"""The owner_claim with which the application owns the tasks of its tokens that have no subject. Many issuers
give a program's own token none (RFC 7662 section 2.2), but some give people's tokens none either."""

LISTS = ("audiences", "scopes", "agents", "claims")
"""Fields of an issuer that are lists."""

OWNER_BYTES = 512
"""Maximum length of an owner. A subject has 255 ASCII characters at most (OpenID Connect Core section 2), and
the keys of the table, which an owner is part of, 2,048 bytes."""

TOKENINFO = "https://oauth2.googleapis.com/tokeninfo"
"""Google's endpoint in place of introspection.

Source: getTokenInfo of https://github.com/googleapis/google-auth-library-nodejs
"""


@dataclass(frozen=True, slots=True)
class Issuer:
    """An issuer of tokens.

    name: what the operator calls it; it begins the owners of its tokens. url: `iss` of its tokens, exactly.
    audiences: `aud` of tokens for this deployment, one of them. scopes: scopes that every token needs.
    owner_claim: claim that names the owner, CLIENT_OWNER, or SUBJECT_OR_CLIENT; "" = the client of a
    program's own token, which names it as the subject, else the subject.
    agents: names of the agents that callers with its tokens may call; empty = all. claims: names of the
    claims that agents see.
    private: its servers may have private addresses.
    introspection: URL that says what its tokens allow, which then are not verified here; "" = they are JWTs
    that its keys verify. client, secret: id of the client that may ask there, and the name of its secret.
    metadata: where its metadata was found; "" = at `openid_url`.
    """

    name: str
    url: str
    audiences: tuple[str, ...]
    owner_claim: str = ""
    scopes: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    private: bool = False
    introspection: str = ""
    client: str = ""
    secret: str = ""
    metadata: str = ""

    @property
    def openid_url(self) -> str:
        """Where OpenID Connect Discovery 1.0 (section 4) has an issuer's metadata."""
        return f"{self.url.rstrip('/')}/.well-known/openid-configuration"

    @property
    def asks_google(self) -> bool:
        """Whether Google is asked about the tokens, which follows no standard."""
        return self.introspection == TOKENINFO

    @property
    def metadata_url(self) -> str:
        """URL of its metadata."""
        return self.metadata or self.openid_url

    @classmethod
    def of_parameter(cls, name: str, text: str) -> "Issuer":
        """Issuer in the value of a parameter. Raises ValueError, TypeError, KeyError."""
        return cls.of_row([name, json.loads(text)])

    def parameter(self) -> str:
        """Value of the issuer's parameter."""
        return json.dumps(self.row()[1])

    @classmethod
    def of_row(cls, row: list[Any]) -> "Issuer":
        """The issuer in a row. Raises ValueError, TypeError, KeyError for a row that `Issuer.row` of this
        release cannot have written."""
        name, content = row
        values: dict[str, Any] = {**content}
        for field in LISTS:
            items = values.get(field, [])
            if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
                raise ValueError("not an issuer")
            values[field] = tuple(items)
        issuer = cls(name=name, **values)
        texts = (
            *(issuer.name, issuer.url, issuer.owner_claim),
            *(issuer.introspection, issuer.client, issuer.secret, issuer.metadata),
        )
        if not all(isinstance(text, str) for text in texts) or not isinstance(issuer.private, bool):
            raise ValueError("not an issuer")
        if not (ISSUER_NAME.fullmatch(issuer.name) and issuer.url and issuer.audiences) or name == IAM:
            raise ValueError("not an issuer")
        return issuer

    def row(self) -> list[Any]:
        """The issuer as JSON values: its name, and its fields that differ from their default."""
        content = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
            if value and key != "name"
        }
        return [self.name, content]

    def allows(self, agent: str) -> bool:
        """Whether callers with its tokens may call an agent."""
        return not self.agents or agent in self.agents

    def owner_of(self, claims: Mapping[str, Json]) -> str:
        """Owner of a token's tasks: the issuer's name, the claim, and its value. No other issuer, claim or
        value has the same owner, and no key has one, because no owner of a key contains `|`.

        Raises TokenRefused if the token lacks the claim. One without a subject need not be a program's: some
        issuers give people's tokens none, and all people of a client would be one owner.
        """
        claim, client, subject = self.owner_claim, client_of(claims), text_in(claims, "sub")
        # A program that signs in by itself has its own id as the subject (RFC 9068 section 2.2), as Auth0
        # writes it with a suffix.
        is_program = bool(client) and subject in (client, f"{client}@clients")
        if claim == SUBJECT_OR_CLIENT:
            has_person_claim = bool(PERSON_CLAIMS & {name.lower() for name in claims})
            is_program = is_program or ("sub" not in claims and not has_person_claim)
            claim = ""
        if claim == CLIENT_OWNER or (not claim and is_program):
            claim, value = CLIENT_OWNER, client
        else:
            claim = claim or "sub"
            value = text_in(claims, claim)
        if not value:
            raise TokenRefused("owner", f"it has no claim {claim!r}, which names the owner of tasks")
        owner = f"{self.name}|{quote(claim, safe='')}:{quote(value, safe='@')}"
        if len(owner) > OWNER_BYTES:
            raise TokenRefused("owner", f"its claim {claim!r} is too long")
        return owner


def is_issuer_row(row: list[Any]) -> bool:
    """Whether a row of a copy is an issuer's, and not a key's."""
    return len(row) == 2


def issuer_of(claims: Mapping[str, Json], issuers: Iterable[Issuer]) -> Issuer | None:
    """The issuer that a token's claims name, or None if it is not one of these. The claims need not be
    verified."""
    return next((issuer for issuer in issuers if issuer.url == claims.get("iss")), None)


def client_of(claims: Mapping[str, Json]) -> str:
    """Id of the application that a token was made for, or ""."""
    return next((value for name in CLIENT_CLAIMS if (value := text_in(claims, name))), "")


def scopes_of(claims: Mapping[str, Json]) -> tuple[str, ...]:
    """Everything that a token allows, each once, in the token's order."""
    scopes: dict[str, None] = {}
    for name in SCOPE_CLAIMS:
        value: Any = claims.get(name)
        values = value.split(" ") if isinstance(value, str) else value if isinstance(value, list) else []
        scopes |= dict.fromkeys(item for item in values if isinstance(item, str) and item)
    return tuple(scopes)
