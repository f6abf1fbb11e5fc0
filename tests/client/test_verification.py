"""Whether a card is signed by those whom its client trusts."""

import asyncio
import json
from typing import Any, cast

import httpx2
import pytest
from joserfc import jwk, jws
from joserfc.registry import HeaderParameter

from a2a_lambda.aws.signing import Signer
from a2a_lambda.client import Client, Undiscovered
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Json, TaskState
from a2a_lambda.protocol.signed_card import signed_forms
from a2a_lambda.settings import Settings
from tests.aws.fake_kms import Kms
from tests.client.served import Answering
from tests.conftest import BASE_URL, new_key


@pytest.fixture
def kms() -> Kms:
    return Kms("ECC_NIST_P256")


@pytest.mark.parametrize("change", ["", "description", "signatures", "keys", "none"])
def test_a_card_is_verified(settings: Settings, kms: Kms, change: str) -> None:
    """It is verified by keys that the caller has, and not by those that the card names."""
    kit = Kit(settings)
    key = new_key(kit)
    signer = Signer(cast(Any, kms), "arn:aws:kms:us-east-1:1:key/k")
    kit.signer = signer
    keys = {"keys": [signer.fetch_jwk()]}
    other = Signer(cast(Any, Kms("RSA_2048")), "arn:aws:kms:us-east-1:1:key/k")
    if change == "keys":
        keys = {"keys": [other.fetch_jwk()]}

    class Changed(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            answer = await httpx2.ASGITransport(create_app(kit)).handle_async_request(request)
            if not request.url.path.endswith(".json"):
                return answer
            card = json.loads(await answer.aread())
            if change == "description":
                card["description"] = "Something else."
            if change == "signatures":
                card["signatures"] = [{"protected": "e30", "signature": ""}, 7, {"protected": None}]
            if change == "none":
                del card["signatures"]
            return httpx2.Response(200, json=card)

    async def send() -> Any:
        async with Client(f"{BASE_URL}/a2a/probe", key=key, transport=Changed(), verify=keys) as agent:
            return await agent.send("hi")

    if change:
        with pytest.raises(Undiscovered, match="none of the keys in `verify` has signed the card"):
            asyncio.run(send())
    else:
        assert asyncio.run(send())["status"]["state"] == TaskState.COMPLETED


@pytest.mark.parametrize(
    ("algorithm", "kind", "curve"),
    [
        ("ES256", "EC", "P-256"),
        ("ES384", "EC", "P-384"),
        ("ES512", "EC", "P-521"),
        ("Ed25519", "OKP", "Ed25519"),
    ],
)
@pytest.mark.parametrize("ids", [(None, None), ("a", "a"), ("other", "another")])
def test_a_key_needs_no_id(algorithm: str, kind: str, curve: str, ids: tuple[str | None, ...]) -> None:
    """It is optional, and need not be unique (RFC 7517 section 4.5)."""
    keys = [jwk.generate_key(kind, curve, {"kid": name} if name else None) for name in ids]  # type: ignore[call-overload]
    interface = {"url": BASE_URL, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    card: Json = {"name": "Other", "supportedInterfaces": [interface]}
    signed_card = sign(card, keys[-1], {"alg": algorithm, "typ": "JOSE", "kid": "a"})
    assert read(signed_card, *keys)["name"] == "Other"


CARD: Json = {
    "name": "Other",
    "supportedInterfaces": [{"url": BASE_URL, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {"streaming": True, "extensions": [{"uri": "urn:x"}]},
    "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}}},
    "skills": [{"id": "a", "name": "A", "description": "D.", "tags": ["a"]}],
}


@pytest.mark.parametrize(
    "extra",
    [{"jku": None}, {"jku": "https://x/" + "y" * 1000}, {"x5c": ["M" * 2000]}, {"iat": 1, "spiffe_id": "x"}],
)
def test_what_a_signature_says_of_its_key_is_ignored(extra: Json) -> None:
    key = jwk.generate_key("EC", "P-256")
    signed_card = sign(CARD, key, {"alg": "ES256", **extra})
    assert read(signed_card, key) == signed_card


def test_what_a_signature_calls_critical_must_be_understood() -> None:
    key = jwk.generate_key("EC", "P-256")
    with pytest.raises(Undiscovered, match="has signed the card"):
        read(sign(CARD, key, {"alg": "ES256", "crit": ["spiffe_id"], "spiffe_id": "x"}), key)


def test_a_large_card_is_verified_up_to_a_limit() -> None:
    key = jwk.generate_key("EC", "P-256")
    assert read(sign({**CARD, "description": "x" * 900_000}, key, {"alg": "ES256"}), key)
    with pytest.raises(Undiscovered, match="is not verified"):
        read(sign({**CARD, "description": "x" * 1_000_000}, key, {"alg": "ES256"}), key)


def test_what_a_server_adds_to_a_signed_card_is_not_used() -> None:
    """a2a-sdk's adds fields of 0.3, at any depth."""
    key = jwk.generate_key("EC", "P-256")
    signed_card = sign(CARD, key, {"alg": "ES256"})
    scheme = {**CARD["securitySchemes"]["key"], "type": "apiKey", "in": "header", "name": "X-Other"}
    additions = {
        "url": "https://other.example.com/",
        "protocolVersion": "0.3",
        "preferredTransport": "JSONRPC",
        "capabilities": {
            "streaming": True,
            "extensions": [{"uri": "urn:x", "required": False}],
            "stateTransitionHistory": True,
        },
        "securitySchemes": {"key": scheme},
        "skills": [{**CARD["skills"][0], "security": []}],
    }
    assert read({**signed_card, **additions}, key) == signed_card
    with pytest.raises(Undiscovered, match="has signed the card"):
        read({**signed_card, **additions, "description": "Something else."}, key)
    # Nor what the signature says nothing about, because its payload has no empty values.
    empty_values: Json = {"securityRequirements": [{}], "provider": {"url": ""}, "x": 2**60}
    assert read({**signed_card, **empty_values}, key) == signed_card


def sign(card: Json, key: Any, header: Json) -> Json:
    """The card with a signature of a key."""
    registry = jws.JWSRegistry(algorithms=[header["alg"]], strict_check_header=False)
    registry.header_registry = {name: HeaderParameter(name, lambda _: None) for name in header}
    token = jws.serialize_compact(header, signed_forms(card)[0], key, registry=registry)
    encoded_header, _, signature = token.split(".")
    return {**card, "signatures": [{"protected": encoded_header, "signature": signature}]}


def read(card: Json, *keys: Any) -> Any:
    """The card as a client has it that trusts these keys."""

    async def discover() -> Any:
        verify = {"keys": [key.as_dict(private=False) for key in keys]}
        transport = Answering(lambda _: httpx2.Response(200, json=card))
        async with Client(BASE_URL, transport=transport, verify=verify) as agent:
            return await agent.card()

    return asyncio.run(discover())


def test_keys_that_are_none_are_a_mistake_of_the_caller(kit: Kit) -> None:
    async def discover(verify: Json) -> None:
        async with Client(BASE_URL, transport=httpx2.ASGITransport(create_app(kit)), verify=verify) as agent:
            await agent.discover()

    wrong: list[Json] = [{}, {"keys": [{}]}, {"keys": 7}]
    for verify in wrong:
        with pytest.raises(ConfigurationError, match="verify is not a set of public keys"):
            asyncio.run(discover(verify))
