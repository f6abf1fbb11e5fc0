"""Public keys of issuers, which the containers of a deployment share as they share API keys.

    known kid, read from the table within a minute   nothing is read
    known kid, older                                 the table is read; one container renews an old copy
    unknown kid, or a signature of no known key      the table is read, then the issuer

The whole deployment asks an issuer at most once in FETCH_COOLDOWN_SECONDS, whatever tokens say. An issuer
that does not answer changes nothing for callers whose keys are known, until these are STALE_JWKS_SECONDS old.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from a2a_lambda import telemetry
from a2a_lambda.access.issuer import Issuer
from a2a_lambda.errors import KeysUnavailable, StoreError, TokenRefused, WriteRefused
from a2a_lambda.protocol.model import Json
from a2a_lambda.store.issuer_copies import Fetch, FetchState, IssuerCopies, IssuerCopy

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    PublicKey = RSAKey | ECKey | OKPKey

TOKEN_ALGORITHMS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "RS256": {"kty": "RSA"},
        "PS256": {"kty": "RSA"},
        "ES256": {"kty": "EC", "crv": "P-256"},
        "EdDSA": {"kty": "OKP", "crv": "Ed25519"},
        "Ed25519": {"kty": "OKP", "crv": "Ed25519"},
    }
)
"""Algorithms that a token may be signed with, and the fields of a key that fits (RFC 7518; RFC 8037,
and RFC 9864, which renames EdDSA)."""

MIN_RSA_BITS = 2048

COPY_LOOK_SECONDS = 60.0
"""Seconds for which a container does not look for a newer copy in the table."""

RELOOK_SECONDS = 5.0
"""Minimum seconds between two looks for a key that is unknown, or too old."""

RENEW_SECONDS = 600.0
"""Age at which a copy is renewed, so that a key which the issuer withdrew ends soon."""

STALE_JWKS_SECONDS = 86_400.0
"""Age at which a copy is not used any more."""

FETCH_COOLDOWN_SECONDS = 30.0
"""Seconds in which the deployment asks an issuer once at most."""

FETCH_WAIT_SECONDS = 5.0
"""Seconds for which a request waits for another container that asks the issuer."""

FETCH_POLL_SECONDS = 0.2

RENEW_WAIT_SECONDS = 1.0
"""Seconds for which a caller whose key is known waits for a renewal, which may find that the issuer withdrew
the key. Lambda freezes the process after the answer, so a renewal that continues without a caller might never
end."""

logger = logging.getLogger(__name__)

FetchKeys = Callable[[Issuer], list[Json]]
"""JSON Web Keys of an issuer. Raises KeysUnavailable."""


@dataclass(slots=True)
class Keyring:
    """An issuer's keys in this container. looked_at: when the table was read; Unix time."""

    copy: IssuerCopy
    looked_at: float
    keys: dict[str, list["PublicKey"]] = field(default_factory=dict)

    def is_stale(self, now: float) -> bool:
        """Whether the keys are too old to use."""
        return now - self.copy.fetched_at >= STALE_JWKS_SECONDS

    def find(self, kid: str) -> "list[PublicKey]":
        """The keys with an id: keys of different algorithms may share one (RFC 7517 section 4.5). kid: "" =
        the token names none, so it may be any key."""
        return self.keys.get(kid, []) if kid else [key for keys in self.keys.values() for key in keys]

    def has_usable_key(self, kid: str, now: float) -> bool:
        """Whether the key is there, and not too old to use."""
        return bool(self.find(kid)) and not self.is_stale(now)


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """The last look for a key that this container did not have, or that was too old. at: Unix time.
    failure: why there was no answer; "" = there was one."""

    at: float
    failure: str = ""


class IssuerKeys:
    """Checks tokens' signatures with their issuers' public keys. Calls block, except `knows`."""

    def __init__(
        self,
        copies: IssuerCopies,
        fetch: FetchKeys,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._copies = copies
        self._fetch = fetch
        self._clock = clock
        self._sleep = sleep
        self._keyrings: dict[Issuer, Keyring] = {}
        self._lookups: dict[Issuer, KeyLookup] = {}
        self._rechecked_at: dict[Issuer, float] = {}
        self._lock = threading.Lock()

    def verify(self, issuer: Issuer, token: str, header: Mapping[str, Json]) -> None:
        """Check a token's signature. Raises TokenRefused, KeysUnavailable."""
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in TOKEN_ALGORITHMS:
            raise TokenRefused("algorithm", f"its alg is not one of {', '.join(TOKEN_ALGORITHMS)}")
        kid = header.get("kid", "")
        if not isinstance(kid, str):
            raise TokenRefused("form", "its kid is not a string")
        try:
            keyring = self._keyring_with(issuer, kid)
            if _has_signed(keyring.find(kid), token, algorithm):
                return
            current_keyring = self._check_again(issuer, keyring)
        except StoreError as error:
            raise KeysUnavailable(f"keys of issuer {issuer.name} cannot be read: {error}") from error
        if current_keyring is keyring or not _has_signed(current_keyring.find(kid), token, algorithm):
            raise TokenRefused("signature", "no key of its issuer has signed it with this alg")

    def knows(self, issuer: Issuer, kid: str) -> bool:
        """Whether this container has such a key."""
        keyring = self._keyrings.get(issuer)
        return keyring is not None and bool(keyring.find(kid))

    def _keyring_with(self, issuer: Issuer, kid: str) -> Keyring:
        """The issuer's keys, among them one with an id; any, if a token names none. Raises KeysUnavailable,
        StoreError, TokenRefused if there is none."""
        keyring = self._keyrings.get(issuer)
        if (
            keyring is None
            or self._clock() - keyring.looked_at >= COPY_LOOK_SECONDS
            or not keyring.has_usable_key(kid, self._clock())
        ):
            keyring = self._look(issuer, kid)
            now = self._clock()
            is_old = now - keyring.copy.fetched_at >= RENEW_SECONDS
            # Also in a container that starts cold, because a stack that is seldom called has no others.
            if (
                is_old
                and keyring.has_usable_key(kid, now)
                and (fetch := self._copies.begin_fetch(issuer, cooldown_seconds=FETCH_COOLDOWN_SECONDS))
            ):
                thread = threading.Thread(target=self._renew, args=[issuer, fetch], daemon=True)
                thread.start()
                thread.join(RENEW_WAIT_SECONDS)
                with suppress(StoreError):  # the old keys are still usable
                    keyring = self._read(issuer)
        if keyring.is_stale(self._clock()):
            raise KeysUnavailable(f"issuer {issuer.name} has not given its keys for a day")
        if not keyring.find(kid):
            raise TokenRefused("kid", "its issuer has no key with this kid")
        return keyring

    def _check_again(self, issuer: Issuer, keyring: Keyring) -> Keyring:
        """The issuer's keys, read again for a signature of an unknown key, because the issuer may have
        replaced a key without a kid, or under the same one. Raises StoreError.

        Forged tokens come here, too. So a container looks once in RELOOK_SECONDS, one thread of the
        deployment asks the issuer, and no other waits for it.
        """
        now = self._clock()
        if now - self._rechecked_at.get(issuer, float("-inf")) < RELOOK_SECONDS:
            return self._keyrings[issuer]
        self._rechecked_at[issuer] = now
        current_keyring = self._read(issuer)
        if current_keyring is keyring:
            fetch = self._copies.begin_fetch(issuer, cooldown_seconds=FETCH_COOLDOWN_SECONDS)
            if fetch is not None:
                self._renew(issuer, fetch)
                current_keyring = self._read(issuer)
        return current_keyring

    def _look(self, issuer: Issuer, kid: str) -> Keyring:
        """Use the shared copy. A request whose key it lacks, or has for longer than STALE_JWKS_SECONDS, waits
        for the issuer."""
        if self.knows(issuer, kid):
            keyring = self._read(issuer)
            if keyring.has_usable_key(kid, self._clock()):
                return keyring
        # One request at a time: the others find what it has found.
        with self._lock:
            lookup = self._lookups.get(issuer)
            if lookup is not None and self._clock() - lookup.at < RELOOK_SECONDS:
                if lookup.failure:
                    raise KeysUnavailable(lookup.failure)
                return self._keyrings[issuer]
            try:
                keyring = self._read(issuer)
                if not keyring.has_usable_key(kid, self._clock()):
                    keyring = self._ask(issuer, keyring, kid)
            except KeysUnavailable as error:
                self._lookups[issuer] = KeyLookup(self._clock(), str(error))
                raise
            keyring.looked_at = self._clock()
            self._lookups[issuer] = KeyLookup(keyring.looked_at)
            return keyring

    def _ask(self, issuer: Issuer, keyring: Keyring, kid: str) -> Keyring:
        """Ask the issuer, or wait for the container that does. Raises KeysUnavailable if it is silent: the
        key may be a new one."""
        if fetch := self._copies.begin_fetch(issuer, cooldown_seconds=FETCH_COOLDOWN_SECONDS):
            self._renew(issuer, fetch)
            keyring = self._read(issuer)
        give_up_at = self._clock() + FETCH_WAIT_SECONDS
        while not keyring.has_usable_key(kid, self._clock()):
            state = self._copies.read_fetch_state(issuer)
            is_late = self._clock() >= give_up_at
            if state == FetchState.FAILED or (state == FetchState.BUSY and is_late):
                raise KeysUnavailable(f"issuer {issuer.name} does not answer")
            if state != FetchState.BUSY:
                return self._read(issuer)
            self._sleep(FETCH_POLL_SECONDS)
            keyring = self._read(issuer)
        return keyring

    def _read(self, issuer: Issuer) -> Keyring:
        copy = self._copies.read_copy(issuer)
        keyring = self._keyrings.get(issuer)
        if keyring is None or keyring.copy != copy:
            keyring = Keyring(copy, float("-inf"), _import_keys(issuer, copy.jwks))
            self._keyrings[issuer] = keyring
        if keyring.keys:
            keyring.looked_at = self._clock()
        return keyring

    def _renew(self, issuer: Issuer, fetch: Fetch) -> None:
        """Ask the issuer, and share what it says. If it or the table does not answer, the old copy stays."""
        try:
            self._copies.finish_fetch(issuer, fetch, self._fetch(issuer))
        except (KeysUnavailable, WriteRefused) as error:
            telemetry.measure({"KeyFailures": 1})
            logger.warning("%s; its keys that were read before still work", error)
            with suppress(StoreError):  # the fetch ends by itself when its cooldown does
                self._copies.end_fetch(issuer, fetch, FetchState.FAILED)
        except StoreError as error:
            logger.warning("keys of issuer %s could not be stored: %s", issuer.name, error)


def _has_signed(keys: "list[PublicKey]", token: str, algorithm: str) -> bool:
    """Whether one of an issuer's keys has signed a token."""
    jose = _jose()
    # What a header says about its key is ignored, and so are unknown fields (RFC 7515 section 4). `tokens`
    # refuses `crit`, and limits the length.
    registry = jose.jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    registry.header_registry = {}
    registry.max_header_length = len(token)
    for key in (key for key in keys if _fits(key, algorithm)):
        with suppress(jose.errors.JoseError, ValueError):
            jose.jws.deserialize_compact(token, key, registry=registry)
            return True
    return False


def _fits(key: "PublicKey", algorithm: str) -> bool:
    fields = {"alg": algorithm, **TOKEN_ALGORITHMS[algorithm]}
    return all(key.as_dict().get(name, value) == value for name, value in fields.items())


def count_usable(issuer: Issuer, jwks: list[Json]) -> int:
    """How many keys of a JSON Web Key Set can verify a token."""
    keys = [key for same_kid in _import_keys(issuer, jwks).values() for key in same_kid]
    return sum(any(_fits(key, algorithm) for algorithm in TOKEN_ALGORITHMS) for key in keys)


def _import_keys(issuer: Issuer, jwks: list[Json]) -> dict[str, list["PublicKey"]]:
    """The keys that can verify, by their kid. The others are ignored: a set may hold keys of other uses and
    algorithms (RFC 7517 section 5)."""
    jose = _jose()
    keys: dict[str, list[Any]] = {}
    for entry in jwks:
        try:
            if not isinstance(entry, dict):
                continue
            # Some issuers write null, or an empty list, for what they do not say.
            fields = {name: value for name, value in entry.items() if value not in (None, [])}
            # Private and symmetric keys are not imported.
            if fields.get("kty") not in ("RSA", "EC", "OKP") or "d" in fields:
                continue
            if fields.get("use", "sig") != "sig" or "verify" not in fields.get("key_ops", ["verify"]):
                continue
            if fields["kty"] == "OKP" and fields.get("alg") in ("EdDSA", "Ed25519"):
                del fields["alg"]  # two names of one algorithm, either of which a token may have
            key: Any = jose.jwk.import_key(fields)
            if fields["kty"] == "RSA" and key.public_key.key_size < MIN_RSA_BITS:
                raise ValueError("an RSA key that is too short")
            keys.setdefault(str(fields.get("kid") or ""), []).append(key)
        except (jose.errors.JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
            logger.warning("a key of issuer %s cannot be used: %s", issuer.name, type(error).__name__)
    return keys


class _Jose:
    """joserfc, which takes a while to import: only a token needs it."""

    def __init__(self) -> None:
        from joserfc import errors, jwk, jws

        self.errors, self.jwk, self.jws = errors, jwk, jws


_jose = cache(_Jose)
