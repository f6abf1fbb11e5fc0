"""Cards signed by a key of KMS, checked as a client would."""

import base64
import json
from pathlib import Path
from typing import Any, cast

import pytest
import rfc8785
from botocore.exceptions import ClientError
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from starlette.testclient import TestClient

from a2a_lambda.aws.signing import Signer
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.signed_card import signed_forms
from a2a_lambda.settings import Settings
from tests.agent.folders import CARD, write
from tests.aws.fake_kms import Kms
from tests.conftest import BASE_URL, new_key


@pytest.fixture(params=["RSA_2048", "ECC_NIST_P256"])
def kms(request: pytest.FixtureRequest) -> Kms:
    return Kms(request.param)


@pytest.fixture
def signing(settings: Settings, kms: Kms) -> TestClient:
    """A deployment with a signing key."""
    kit = Kit(settings)
    kit.signer = Signer(cast(Any, kms), "arn:aws:kms:us-east-1:1:key/k")
    return TestClient(create_app(kit), base_url=BASE_URL)


def decode_base64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def number(text: str) -> int:
    return int.from_bytes(decode_base64url(text))


def verify(card: Any, signature: Any, jwk: Any) -> None:
    """Raises InvalidSignature."""
    payload = base64.urlsafe_b64encode(rfc8785.dumps(card)).rstrip(b"=")
    signing_input = signature["protected"].encode() + b"." + payload
    raw = decode_base64url(signature["signature"])
    if jwk["kty"] == "RSA":
        rsa_key = rsa.RSAPublicNumbers(number(jwk["e"]), number(jwk["n"])).public_key()
        rsa_key.verify(raw, signing_input, padding.PKCS1v15(), hashes.SHA256())
        return
    point = ec.EllipticCurvePublicNumbers(number(jwk["x"]), number(jwk["y"]), ec.SECP256R1())
    r, s = int.from_bytes(raw[:32]), int.from_bytes(raw[32:])
    point.public_key().verify(utils.encode_dss_signature(r, s), signing_input, ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize("path", ["/a2a/v1/.well-known/agent-card.json", "/.well-known/agent-card.json"])
def test_a_signature_holds(signing: TestClient, kms: Kms, path: str) -> None:
    [jwk] = signing.get("/.well-known/jwks.json").json()["keys"]
    strict = signing.get(path, headers={"A2A-Version": "1.0"}).json()
    signature, of_sdks = strict.pop("signatures")
    header = json.loads(decode_base64url(signature["protected"]))
    assert header["kid"] == jwk["kid"]
    assert header["alg"] == jwk["alg"]
    assert header["typ"] == "JOSE"
    assert header["jku"] == f"{BASE_URL}/.well-known/jwks.json"
    verify(strict, signature, jwk)
    verify(json.loads(signed_forms(strict)[1]), of_sdks, jwk)
    assert signing.get("/.well-known/agent-card.json").json()["signatures"] == [signature, of_sdks]
    again = signing.get("/.well-known/agent-card.json", headers={"A2A-Version": "1.0"})
    assert again.json()["signatures"] == [signature, of_sdks]
    assert kms.signed == 2


def test_the_extended_card_is_signed_too(settings: Settings, kms: Kms, tmp_path: Path) -> None:
    write(tmp_path, "@skill\ndef hello(turn): return 'hi'", CARD + "extended: {{ description: In full. }}\n")
    kit = Kit(settings.model_copy(update={"agents": tmp_path}))
    kit.signer = Signer(cast(Any, kms), "arn:aws:kms:us-east-1:1:key/k")
    client = TestClient(create_app(kit), base_url=BASE_URL)
    [jwk] = client.get("/.well-known/jwks.json").json()["keys"]
    headers = {"X-API-Key": new_key(kit), "A2A-Version": "1.0"}
    card = client.get("/extendedAgentCard", headers=headers).json()
    signature, _ = card.pop("signatures")
    assert card["description"] == "In full."
    verify(card, signature, jwk)


def test_no_key_is_no_signature(client: TestClient) -> None:
    assert "signatures" not in client.get("/.well-known/agent-card.json").json()
    assert client.get("/.well-known/jwks.json").status_code == 404


def test_a_card_that_cannot_be_signed_goes_out_unsigned(
    signing: TestClient, kms: Kms, monkeypatch: pytest.MonkeyPatch
) -> None:
    def throttled(**_: Any) -> Any:
        raise ClientError({"Error": {"Code": "ThrottlingException"}}, "Sign")

    monkeypatch.setattr(kms, "sign", throttled)
    answer = signing.get("/.well-known/agent-card.json")
    assert answer.status_code == 200
    assert "signatures" not in answer.json()


def test_a_signature_does_not_change_what_is_cached(signing: TestClient, client: TestClient) -> None:
    path = "/.well-known/agent-card.json"
    assert signing.get(path).headers["etag"] == client.get(path).headers["etag"]
