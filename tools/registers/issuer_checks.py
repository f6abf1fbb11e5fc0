"""Which issuers an operator must not add, and what to write instead."""

import re
from urllib.parse import urlsplit

from a2a_lambda.access.issuer import (
    CLIENT_CLAIMS,
    DISPLAY_CLAIMS,
    IAM,
    ISSUER_NAME,
    SUBJECT_OR_CLIENT,
    TOKENINFO,
    Issuer,
)
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.net.addresses import is_loopback_url
from a2a_lambda.protocol.card import SCOPE_PATTERN

ENTRA_ENDPOINT = re.compile(r"https://login\.microsoftonline\.com/(common|organizations|consumers)(/|$)")
"""Endpoints that stand for a tenant, and are in no token."""

COMMON_CLAIMS = frozenset({*CLIENT_CLAIMS, "iss", "aud", "tid", "scope", "scp", "exp", "iat"})
"""Claims that many callers share. If one named the owner, each caller could read the others' tasks."""

TOKENINFO_FORM = re.compile(r"https://(?:[a-z0-9]+\.)?(?:googleapis|google)\.com/(?:.*/)?tokeninfo/?")
"""URLs of the same endpoint, some of them older."""


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
    if re.search(r"\s", url):
        raise ConfigurationError(f"{variable}={url!r}: write the URL without white space")
    if "<" in url or ">" in url:
        raise ConfigurationError(f"{variable}={url}: replace what is in angle brackets")
    if parts.scheme != "https" and not (is_local and parts.scheme == "http" and is_loopback_url(url)):
        raise ConfigurationError(f"{variable}={url}: write a URL that begins with https://")
    if not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ConfigurationError(f"{variable}={url}: write the URL without a query, a fragment or a user")
