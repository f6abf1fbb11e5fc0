"""Signatures with an asymmetric key of AWS KMS. Its private half never leaves KMS.

Sources: A2A 1.0 section 8.4 (a card is signed as RFC 8785 JSON, in a JWS of RFC 7515), RFC 7518 for the
algorithms, https://docs.aws.amazon.com/kms/latest/APIReference/API_Sign.html.
"""

import hashlib
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import rfc8785
from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda import strictjson
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.protocol.model import Json, encode_base64url
from a2a_lambda.protocol.signed_card import signed_forms

if TYPE_CHECKING:
    from mypy_boto3_kms import KMSClient

JWS_ALGORITHMS = {"RSASSA_PKCS1_V1_5_SHA_256": "RS256", "ECDSA_SHA_256": "ES256"}
"""Names in KMS, and in JWS."""

TOKEN_SECONDS = 300
"""Seconds for which a receiver accepts a JWT."""

COORDINATE_BYTES = 32
"""Bytes of a P-256 coordinate."""


class Jws(NamedTuple):
    protected: str
    signature: str


class Signer:
    """Signs with one key. Calls block, and raise ConfigurationError if KMS refuses."""

    def __init__(self, client: "KMSClient", key: str) -> None:
        self._client = client
        self._key = key
        self._signed: dict[bytes, Jws] = {}

    def sign_card(self, card: Json, jku: str) -> list[Json]:
        """AgentCardSignatures of a strict 1.0 card, one for each of its forms. They are the same for the life
        of the process. jku: URL where the public key is served."""
        forms = list(signed_forms(card))
        for payload in forms:
            if payload not in self._signed:
                self._signed[payload] = self.sign(payload, {"typ": "JOSE", "jku": jku})
        return [self._signed[payload]._asdict() for payload in forms]

    def sign(self, payload: bytes, header: dict[str, str]) -> Jws:
        """A detached JWS."""
        algorithm, jwk = self._public
        protected_header = encode_base64url(
            strictjson.dumps({"alg": JWS_ALGORITHMS[algorithm], "kid": jwk["kid"], **header})
        )
        signing_input = f"{protected_header}.{encode_base64url(payload)}".encode()
        digest = hashlib.sha256(signing_input).digest()
        try:
            answer = self._client.sign(
                KeyId=self._key, Message=digest, MessageType="DIGEST", SigningAlgorithm=algorithm
            )
        except (ClientError, BotoCoreError) as error:
            raise ConfigurationError(f"the signing key {self._key} does not sign: {error}") from error
        signature = answer["Signature"]
        if algorithm == "ECDSA_SHA_256":
            # KMS answers in DER. A JWS has R and S side by side (RFC 7518 section 3.4).
            numbers = _elements(_elements(signature)[0])
            signature = b"".join(number.lstrip(b"\0").rjust(COORDINATE_BYTES, b"\0") for number in numbers)
        return Jws(protected_header, encode_base64url(signature))

    def sign_token(self, body: bytes) -> str:
        """A JWT for the receiver of a body, as the samples of A2A 0.1 check it: with `iat`, `exp`, and the
        SHA-256 of the body in hex. It has no `aud`, because those samples refuse a token with one."""
        now = int(time.time())
        digest = hashlib.sha256(body).hexdigest()
        claims = {"iat": now, "exp": now + TOKEN_SECONDS, "request_body_sha256": digest}
        payload = strictjson.dumps(claims)
        protected_header, signature = self.sign(payload, {"typ": "JWT"})
        return f"{protected_header}.{encode_base64url(payload)}.{signature}"

    def fetch_jwk(self) -> dict[str, str]:
        """The public key (RFC 7517)."""
        return self._public[1]

    @cached_property
    def _public(self) -> tuple[Any, dict[str, str]]:
        try:
            answer = self._client.get_public_key(KeyId=self._key)
        except (ClientError, BotoCoreError) as error:
            raise ConfigurationError(f"the signing key {self._key} cannot be read: {error}") from error
        algorithms = [name for name in answer.get("SigningAlgorithms", []) if name in JWS_ALGORITHMS]
        if not algorithms:
            raise ConfigurationError(
                f"the signing key {self._key} signs neither RS256 nor ES256."
                " Make a key of type RSA_2048 or ECC_NIST_P256 for SIGN_VERIFY"
            )
        jwk = _jwk(answer["PublicKey"])
        kid = encode_base64url(hashlib.sha256(rfc8785.dumps(jwk)).digest())  # the thumbprint of RFC 7638
        return algorithms[0], {**jwk, "kid": kid, "use": "sig", "alg": JWS_ALGORITHMS[algorithms[0]]}


def _jwk(der: bytes) -> dict[str, str]:
    """The public key of a SubjectPublicKeyInfo (RFC 5280), as a JWK. Its bit string holds the key after a
    byte that counts unused bits: an uncompressed point, which begins with 4, or the two integers of an RSA
    key."""
    _, bits = _elements(_elements(der)[0])
    key = bits[1:]
    if key[0] == 4:  # an uncompressed point
        x, y = key[1 : 1 + COORDINATE_BYTES], key[1 + COORDINATE_BYTES :]
        return {"kty": "EC", "crv": "P-256", "x": encode_base64url(x), "y": encode_base64url(y)}
    modulus, exponent = _elements(_elements(key)[0])
    return {
        "kty": "RSA",
        "n": encode_base64url(modulus.lstrip(b"\0")),
        "e": encode_base64url(exponent.lstrip(b"\0")),
    }


def _elements(der: bytes) -> list[bytes]:
    """Contents of consecutive DER elements."""
    contents: list[bytes] = []
    while der:
        length, start = der[1], 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(der[2:start])
        contents.append(der[start : start + length])
        der = der[start + length :]
    return contents
