"""Checks the tokens of callers who sign in at an issuer (RFC 9068, and what providers make of it).

    JWT ── iss ── issuer that the operator added ── kid ── its public key ── signature ── claims ── Caller
    opaque token ── issuers that the operator added with an introspection endpoint ── claims ── Caller

A token chooses nothing: not the algorithm, which must fit the issuer's key and be one of TOKEN_ALGORITHMS,
and not where a key comes from. Until its signature is checked, its claims choose only among the known
issuers.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from a2a_lambda import strictjson
from a2a_lambda.access.credentials import Grant, digest_of, is_token
from a2a_lambda.access.issuer import Issuer, client_of, issuer_of, scopes_of
from a2a_lambda.access.key import LATEST_UNIX_TIME
from a2a_lambda.access.keys import Keys
from a2a_lambda.access.tokens.issuer_keys import IssuerKeys
from a2a_lambda.errors import IssuerDown, KeysUnavailable, ParseError, TokenRefused
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.model import Json, decode_raw
from a2a_lambda.strictjson import text_in

MAX_TOKEN_BYTES = 16_000

TOKEN_TYPES = frozenset({"", "jwt", "at+jwt"})
"""Values of `typ` in the header of an access token, in lower case (RFC 9068 section 2.1)."""

ID_TOKEN_CLAIMS = ("nonce", "at_hash", "c_hash", "s_hash")
"""Claims that only ID tokens have (OpenID Connect Core sections 2, 3.1.3.6 and 3.3.2.11)."""

USES = ("", "access", "access_token")
"""Values of `token_use` of an access token: Amazon Cognito's, and Ory Hydra's. OpenIddict calls it
`token_usage`."""

SKEW_SECONDS = 60.0
"""Seconds by which the issuer's clock may differ."""

KNOWN_SECONDS = 60.0
"""Seconds for which a container knows a token that it has checked."""

SILENT_SECONDS = 5.0
"""Seconds for which an issuer that did not answer a question about a token is not asked about that token
again; if it answers no questions at all, it is asked about no token."""

KNOWN_TOKENS = 10_000
"""Tokens that a container remembers."""


Introspect = Callable[[Issuer, str], dict[str, Json] | None]
"""Claims of a token that its issuer knows, else None. Blocks. Raises TokenRefused, KeysUnavailable."""


@dataclass(frozen=True, slots=True)
class CheckedToken:
    """A token that was checked. until: Unix time."""

    grant: Grant
    issuer: Issuer
    until: float


class Tokens:
    """Checks tokens of the issuers that a deployment accepts.

    keys: reads Parameter Store, which has the issuers, too. introspect: asks an issuer about a token.
    Calls of `check` block.
    """

    def __init__(
        self,
        keys: Keys,
        issuer_keys: IssuerKeys,
        introspect: Introspect,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._issuer_keys = issuer_keys
        self._introspect = introspect
        self._clock = clock
        self._refused: dict[str, tuple[float, TokenRefused | None]] = {}
        self._issuers: Sequence[Issuer] = ()
        self._silent_until = float("-inf")
        self._checked: dict[str, CheckedToken] = {}

    def find_cached(self, token: str) -> Grant | None:
        """What a token allows, if that is known without a call, else None."""
        return self._find_grant(token, self._keys.find_cached_issuers() or ())

    def _find_grant(self, token: str, issuers: Collection[Issuer]) -> Grant | None:
        """What a token allowed when it was checked, if that was a moment ago."""
        entry = self._checked.get(digest_of(token))
        if entry is None or entry.until <= self._clock():
            return None
        # An issuer that was changed or removed must not live on in what was checked before.
        return entry.grant if entry.issuer in issuers else None

    def asks_no_issuer(self, token: str) -> bool:
        """Whether `check` waits for no issuer: the public key that the token names is known, or the token is
        refused before any call. After a forged signature, one request in half a minute still waits."""
        if not is_token(token):
            return False
        try:
            header, claims = _read(token)
        except TokenRefused:
            return True
        issuer = issuer_of(claims, self._keys.find_cached_issuers() or ())
        if issuer is None or issuer.introspection:
            return False
        return self._issuer_keys.knows(issuer, str(header.get("kid", "")))

    def check(self, token: str) -> Grant:
        """What a token allows. Raises TokenRefused, KeysUnavailable."""
        issuers = self._keys.find_issuers()
        if issuers != self._issuers:  # one that was refused may be let in now
            self._issuers, self._refused = issuers, {}
        # While Parameter Store does not answer, no issuers are cached, and each request comes here.
        if (grant := self._find_grant(token, issuers)) is not None:
            return grant
        if not is_token(token):
            # Only one issuer is asked: another one would get tokens that are not its own.
            introspecting_issuer = next((issuer for issuer in issuers if issuer.introspection), None)
            return self._check_at_issuer(token, introspecting_issuer)
        header, claims = _read(token)
        issuer = issuer_of(claims, issuers)
        if issuer is None:
            raise TokenRefused("issuer", "this deployment does not accept its issuer")
        # Where an issuer is asked, nothing else counts. Google signs ID tokens for any audience, for example.
        if issuer.introspection:
            return self._check_at_issuer(token, issuer)
        try:
            self._issuer_keys.verify(issuer, token, header)
        except TokenRefused as error:
            error.issuer = issuer.name
            raise
        return self._grant(issuer, token, claims)

    def _check_at_issuer(self, token: str, issuer: Issuer | None) -> Grant:
        """What a token allows, as an issuer says."""
        if len(token) > MAX_TOKEN_BYTES:
            raise TokenRefused("form", f"it is longer than {MAX_TOKEN_BYTES} bytes")
        # If the issuers change, another thread replaces `_refused`. What is refused here belongs to the old
        # one.
        digest, now, refusals = digest_of(token), self._clock(), self._refused
        until, refusal = refusals.get(digest, (0.0, None))
        if now < until:
            if refusal is not None:
                raise refusal.copy()
            raise KeysUnavailable("the issuer of this token did not answer about it a moment ago")
        if now < self._silent_until:
            raise KeysUnavailable("the issuer of opaque tokens did not answer a moment ago")
        try:
            claims = None if issuer is None else self._introspect(issuer, token)
            if issuer is None or claims is None:
                raise TokenRefused(
                    "inactive", "it has expired or was revoked, or its issuer does not know it"
                )
            if claims.get("exp") is None:  # valid now, and asked about again when it is not known any more
                claims = {**claims, "exp": now}
            return self._grant(issuer, token, claims)
        except IssuerDown:
            self._silent_until = now + SILENT_SECONDS
            raise
        except (TokenRefused, KeysUnavailable) as error:
            # One token must not keep out the others: a long one may be refused by a proxy in front of the
            # issuer.
            if len(refusals) >= KNOWN_TOKENS:
                refusals.clear()
            # Not the error itself, whose frames hold the token, and what the issuer said.
            if isinstance(error, TokenRefused):
                refusals[digest] = (now + KNOWN_SECONDS, error.copy())
            else:
                refusals[digest] = (now + SILENT_SECONDS, None)
            raise

    def _grant(self, issuer: Issuer, token: str, claims: dict[str, Json]) -> Grant:
        """What a token of an issuer allows, whose claims are the issuer's. Raises TokenRefused."""
        now, client = self._clock(), client_of(claims)
        try:
            end = self._check_claims(issuer, claims, now)
            caller = Caller(
                owner=issuer.owner_of(claims),
                kind="token",
                issuer=issuer.name,
                subject=text_in(claims, "sub"),
                client=client,
                scopes=scopes_of(claims),
                claims={name: claims[name] for name in issuer.claims if name in claims},
            )
            grant = Grant(caller, issuer.agents, issuer.scopes)
            if not set(issuer.scopes) <= set(grant.caller.scopes):
                raise TokenRefused("scope", "it lacks a scope", scopes=issuer.scopes)
        except TokenRefused as error:
            error.issuer, error.client = issuer.name, client
            raise
        if len(self._checked) >= KNOWN_TOKENS:
            self._checked.clear()
        self._checked[digest_of(token)] = CheckedToken(grant, issuer, min(end, now + KNOWN_SECONDS))
        return grant

    def _check_claims(self, issuer: Issuer, claims: dict[str, Json], now: float) -> float:
        """Check what a signed token, or its issuer, says about it; returns the Unix time at which it ends.

        Raises TokenRefused.
        """
        use: Any = claims.get("token_use", claims.get("token_usage", ""))
        kind: Any = claims.get("typ", "")
        if not isinstance(use, str) or not isinstance(kind, str):
            raise TokenRefused("form", "its token_use or typ is not a string")
        use, kind = use.lower(), kind.lower()
        if "id" in (use, kind) or any(name in claims for name in ID_TOKEN_CLAIMS):
            raise TokenRefused("kind", "it is an ID token: send an access token")
        is_event = isinstance(claims.get("events"), dict)  # RFC 8417, of which a logout token is one
        if use not in USES or kind in ("refresh", "offline", "logout") or is_event:
            raise TokenRefused("kind", "it is not an access token")
        if "cnf" in claims:
            raise TokenRefused("kind", "it is bound to its client (cnf), which cannot be checked here")
        expires, begins = _time(claims, "exp"), _time(claims, "nbf")
        if expires is None:
            raise TokenRefused("expired", "it has no exp")
        if expires + SKEW_SECONDS <= now:
            raise TokenRefused("expired", "it has expired")
        if begins is not None and begins - SKEW_SECONDS > now:
            raise TokenRefused("early", "it is not valid yet (nbf)")
        audience: Any = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        # Amazon Cognito's access tokens have no audience, and an issuer that is asked need not name one
        # (RFC 7662 section 2.2). Then the client is compared instead.
        if "aud" not in claims and (issuer.introspection or use == "access"):
            audiences = [claims.get("client_id")]
        if not any(isinstance(each, str) and each in issuer.audiences for each in audiences):
            raise TokenRefused("audience", "its audience (aud) is not this deployment")
        return expires + SKEW_SECONDS


def _read(token: str) -> tuple[dict[str, Json], dict[str, Json]]:
    """Header and claims of a token, not verified. Raises TokenRefused."""
    if len(token) > MAX_TOKEN_BYTES:
        raise TokenRefused("form", f"it is longer than {MAX_TOKEN_BYTES} bytes")
    try:
        parts = token.split(".")[:2]
        if set("".join(parts)) & set("+/="):  # of base64, and the padding, which RFC 7515 does not have
            raise ValueError
        header, claims = (strictjson.loads(decode_raw(part)) for part in parts)
    except (ParseError, ValueError):
        raise TokenRefused("form", "it is not a JWT") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise TokenRefused("form", "it is not a JWT")
    kind = "" if header.get("typ") is None else header["typ"]
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in TOKEN_TYPES:
        raise TokenRefused("kind", "its typ is not that of an access token")
    if "crit" in header or "b64" in header:
        raise TokenRefused("form", "its header has fields that must be understood (crit)")
    return header, {name: value for name, value in claims.items() if value is not None}


def _time(claims: dict[str, Json], name: str) -> float | None:
    """A NumericDate (RFC 7519 section 2), or None. Raises TokenRefused for another value."""
    value: Any = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LATEST_UNIX_TIME:
        raise TokenRefused("form", f"its {name} is not a time")
    return float(value)
