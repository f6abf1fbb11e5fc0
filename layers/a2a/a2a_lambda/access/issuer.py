"""An issuer of tokens as Parameter Store has it, and whom its tokens speak for.

Each issuer is one parameter, `<path>/<name>`, beside the keys. It holds nothing secret: anyone may know which
issuer a deployment trusts.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from a2a_lambda.errors import ConfigurationError, TokenRefused
from a2a_lambda.net.addresses import is_loopback_url
from a2a_lambda.protocol.card import SCOPE_PATTERN
from a2a_lambda.protocol.model import Json
from a2a_lambda.strictjson import text_in

ISSUER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")

ENTRA_ENDPOINT = re.compile(r"https://login\.microsoftonline\.com/(common|organizations|consumers)(/|$)")
"""Endpoints that stand for a tenant, and are in no token."""

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

COMMON_CLAIMS = frozenset({*CLIENT_CLAIMS, "iss", "aud", "tid", "scope", "scp", "exp", "iat"})
"""Claims that many callers share. If one named the owner, each caller could read the others' tasks."""

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

TOKENINFO_FORM = re.compile(r"https://(?:[a-z0-9]+\.)?(?:googleapis|google)\.com/(?:.*/)?tokeninfo/?")
"""URLs of the same endpoint, some of them older."""


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


def check_issuer(issuer: Issuer, *, is_local: bool) -> None:
    """Raises ConfigurationError for an issuer that an operator must not add, with what to write instead."""
    if not ISSUER_NAME.fullmatch(issuer.name):
        raise ConfigurationError(
            "the name of an issuer is 1 to 32 letters, digits, _ . or -, and begins with a letter or a"
            f" digit; {issuer.name!r} does not fit"
        )
    if issuer.name == IAM:
        raise ConfigurationError("the name iam is reserved for callers with an AWS role: choose another")
    check_url(issuer.url, is_local=is_local)
    if match := ENTRA_ENDPOINT.match(issuer.url):
        raise ConfigurationError(
            f"ISSUER={issuer.url}: Entra's tokens name their tenant, so write its id instead of {match[1]}"
        )
    _check_introspection(issuer, is_local=is_local)
    if wrong_scope := next((scope for scope in issuer.scopes if not re.match(SCOPE_PATTERN, scope)), None):
        raise ConfigurationError(
            f"SCOPE={wrong_scope}: no token can have this scope. Write it in ASCII letters, digits and"
            " punctuation except quotes and backslashes"
        )
    if not issuer.audiences:
        raise ConfigurationError("add AUDIENCE=…: the aud claim of tokens for this deployment")
    if "," in issuer.owner_claim and issuer.owner_claim != SUBJECT_OR_CLIENT:
        raise ConfigurationError(
            f"OWNER={issuer.owner_claim}: write one claim, or {SUBJECT_OR_CLIENT} if a token without sub is"
            " always a program's own"
        )
    if issuer.owner_claim in DISPLAY_CLAIMS:
        raise ConfigurationError(
            f"OWNER={issuer.owner_claim} can change, or be reassigned to another person: choose sub, oid or"
            " uid"
        )
    if issuer.owner_claim in COMMON_CLAIMS:
        raise ConfigurationError(
            f"OWNER={issuer.owner_claim} is the same for many callers: choose sub, oid or uid; or client, if"
            " everyone who uses an application may see its tasks"
        )


def _check_introspection(issuer: Issuer, *, is_local: bool) -> None:
    """Raises ConfigurationError unless INTROSPECTION, CLIENT and SECRET fit together."""
    if issuer.introspection:
        check_url(issuer.introspection, is_local=is_local, variable="INTROSPECTION")
    elif issuer.client or issuer.secret:
        raise ConfigurationError("CLIENT and SECRET are for INTROSPECTION: add INTROSPECTION=https://…")
    if TOKENINFO_FORM.fullmatch(issuer.introspection) and not issuer.asks_google:
        raise ConfigurationError(f"INTROSPECTION={issuer.introspection}: write {TOKENINFO}")
    if issuer.client and issuer.asks_google:
        raise ConfigurationError("Google is asked without a client: leave out CLIENT and SECRET")
    if bool(issuer.client) != bool(issuer.secret):
        raise ConfigurationError("CLIENT=… and SECRET=<its name in make secret> belong together: add both")


def check_url(url: str, *, is_local: bool, variable: str = "ISSUER") -> None:
    """Raises ConfigurationError for a URL that no issuer may have (RFC 8414 section 2)."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for one that is no number up to 65,535
    except ValueError:
        raise ConfigurationError(
            f"{variable}={url}: this is not a valid URL: write one that begins with https://"
        ) from None
    if "<" in url or ">" in url:
        raise ConfigurationError(f"{variable}={url}: replace what is in angle brackets")
    if parts.scheme != "https" and not (is_local and parts.scheme == "http" and is_loopback_url(url)):
        raise ConfigurationError(f"{variable}={url}: write a URL that begins with https://")
    if not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ConfigurationError(f"{variable}={url}: write the URL without a query, a fragment or a user")


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
