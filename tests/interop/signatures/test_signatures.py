"""Signed cards, verified by both official SDKs."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.testclient import TestClient

from a2a_lambda.aws.signing import Signer
from a2a_lambda.client import Undiscovered
from a2a_lambda.client.signatures import signed_part
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from tests.aws.fake_kms import Kms
from tests.conftest import BASE_URL, ROOT
from tests.interop.provider import run_client

pytestmark = [pytest.mark.slow, pytest.mark.interop]

CARDS = ["/.well-known/agent-card.json", "/a2a/v1/.well-known/agent-card.json"]


def verifies(folder: Path, program: str, card: Any, keys: Any) -> bool:
    files = {"card.json": card, "jwks.json": keys}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    if program.endswith(".py"):
        command = [str(ROOT / ".venvs" / "a2a-1" / "bin" / "python")]
    else:
        command = [str(shutil.which("node"))]
        if not (folder / "node_modules").exists():
            (folder / "node_modules").symlink_to(ROOT / ".venvs/js/node_modules")
    shutil.copy(ROOT / "tests" / "interop" / "signatures" / program, folder)
    result = subprocess.run(
        [*command, program, *files], cwd=folder, env={}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0 or "No valid" in result.stderr, result.stderr
    return result.returncode == 0


@pytest.mark.parametrize("spec", ["RSA_2048", "ECC_NIST_P256"])
@pytest.mark.parametrize("program", ["client_verify.py", "client_verify.mjs"])
def test_a_signed_card_is_verified(settings: Settings, tmp_path: Path, spec: str, program: str) -> None:
    """One that was changed is not."""
    if program.endswith(".mjs") and not (ROOT / ".venvs/js/node_modules").exists():
        pytest.skip("no npm on this machine")
    kit = Kit(settings)
    kit.signer = Signer(cast(Any, Kms(spec)), "arn:aws:kms:us-east-1:1:key/k")
    client = TestClient(create_app(kit), base_url=BASE_URL)
    keys = client.get("/.well-known/jwks.json").json()
    for path in CARDS:
        card = client.get(path).json()
        assert verifies(tmp_path, program, card, keys)
        assert not verifies(tmp_path, program, {**card, "description": "Something else."}, keys)


def test_a_card_that_a2a_sdk_has_signed_is_verified() -> None:
    """Its server adds fields of 0.3 afterwards, which are not used."""
    python = str(ROOT / ".venvs" / "a2a-1" / "bin" / "python")
    answer = run_client(python, str(ROOT / "tests/interop/signatures/client_sign.py"), BASE_URL)
    card, keys = answer["card"], answer["keys"]
    assert card["preferredTransport"] == "JSONRPC"
    signed_card = signed_part(card, keys, BASE_URL)
    assert "preferredTransport" not in signed_card
    assert signed_card["securitySchemes"] == {
        "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}
    }
    with pytest.raises(Undiscovered):
        signed_part({**card, "description": "Something else."}, keys, BASE_URL)
