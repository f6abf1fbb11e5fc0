"""Activation of extensions, and cards that differ by who asks."""

import json
from pathlib import Path

import pytest
import yaml
from starlette.testclient import TestClient

from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.alibaba_metadata import INTENT_EXTENSION, PROTOCOL_EXTENSION
from a2a_lambda.settings import Settings
from tests.conftest import BASE_URL, new_key
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc, intent, message

pytestmark = pytest.mark.slow


NEEDED = "https://example.com/extensions/needed"

CARD = {
    "name": "Members only",
    "description": "For members.",
    "version": "1.0.0",
    "public": False,
    "extensions": [{"uri": NEEDED, "description": "Needed", "required": True, "params": {"a": 1}}],
    "extended": {
        "description": "For members, in full.",
        "skills": [{"id": "secret", "name": "Secret", "description": "Not on the card.", "tags": ["x"]}],
    },
    "skills": [{"id": "hello", "name": "Hello", "description": "Greets.", "tags": ["x"]}],
}

AGENT = """
from a2a_lambda import Turn, skill

@skill(default=True)
def hello(turn: Turn) -> str:
    return " ".join(turn.extensions)

@skill
def secret(turn: Turn, what: str) -> str:
    return what
"""


@pytest.fixture(scope="module")
def members(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Kit:
    folder: Path = tmp_path_factory.mktemp("agents") / "members"
    folder.mkdir()
    (folder / "card.yaml").write_text(yaml.safe_dump(CARD))
    (folder / "agent.py").write_text(AGENT)
    return Kit(settings.model_copy(update={"agents": folder.parent}))


@pytest.fixture
def rest(members: Kit) -> Rest:
    client = TestClient(create_app(members), base_url=BASE_URL)
    return Rest(client, new_key(members), "")


def test_what_is_activated_is_echoed_and_sent_to_the_agent(rest: Rest) -> None:
    uris = f"{NEEDED}, https://example.com/unknown, {PROTOCOL_EXTENSION}"
    for header in ("A2A-Extensions", "X-A2A-Extensions"):
        answer = rest.ask("POST", "message:send", {"message": message_1_0()}, **{header: uris})
        for header_name in ("a2a-extensions", "x-a2a-extensions"):
            assert answer.headers[header_name] == f"{NEEDED}, {PROTOCOL_EXTENSION}"
        [artifact] = answer.json()["task"]["artifacts"]
        assert artifact["parts"][0]["text"] == f"{NEEDED} {PROTOCOL_EXTENSION}"
    stream = rest.ask("POST", "message:stream", {"message": message_1_0()}, **{"A2A-Extensions": NEEDED})
    assert stream.headers["a2a-extensions"] == NEEDED


def test_both_spellings_of_the_suites_extensions(client: TestClient, key: str) -> None:
    chinese = INTENT_EXTENSION.replace("/en/", "/zh/")
    rest = Rest(client, key)
    body = {"message": message_1_0(metadata=intent("client"))}
    answer = rest.ask("POST", "message:send", body, **{"A2A-Extensions": f"{chinese},{INTENT_EXTENSION}"})
    assert answer.headers["a2a-extensions"] == f"{chinese}, {INTENT_EXTENSION}"


def test_nothing_asked_for_is_nothing_said(client: TestClient, key: str) -> None:
    answer = Rest(client, key).ask("POST", "message:send", {"message": message_1_0()})
    assert "a2a-extensions" not in answer.headers


def test_a_required_extension_is_required(rest: Rest) -> None:
    refusal = rest.ask("POST", "message:send", {"message": message_1_0()})
    assert refusal.status_code == 400
    assert refusal.json()["error"]["details"][0]["reason"] == "EXTENSION_SUPPORT_REQUIRED"
    assert NEEDED in refusal.json()["error"]["message"]
    rpc = Rpc(rest.client, rest.headers["X-API-Key"])
    assert rpc.error("SendMessage", {"message": message_1_0()})["code"] == -32008
    assert rpc.error("message/send", {"message": message()})["code"] == -32600


def test_a_card_that_wants_a_key(rest: Rest) -> None:
    path = "/.well-known/agent-card.json"
    assert rest.client.get(path).status_code == 401
    answer = rest.client.get(path, headers=rest.headers)
    card = answer.json()
    assert answer.headers["cache-control"] == "private, max-age=300"
    assert card["description"] == "For members."
    assert [skill["id"] for skill in card["skills"]] == ["hello"]
    [extension] = [item for item in card["capabilities"]["extensions"] if item["uri"] == NEEDED]
    assert extension == CARD["extensions"][0]  # type: ignore[index]
    assert "secret" not in json.dumps(card)


def test_the_extended_card(rest: Rest) -> None:
    answer = rest.ask("GET", "extendedAgentCard")
    assert answer.headers["cache-control"] == "private, max-age=300"
    card = answer.json()
    assert card["description"] == "For members, in full."
    assert [skill["id"] for skill in card["skills"]] == ["hello", "secret"]
    assert card["capabilities"]["extendedAgentCard"] is True
    assert "secret" in json.dumps(card["capabilities"]["extensions"])
    path = "/a2a/v1/.well-known/agent-card.json"
    public = rest.client.get(path, headers=rest.headers).json()
    assert card["supportedInterfaces"] == public["supportedInterfaces"]
    rpc = Rpc(rest.client, rest.headers["X-API-Key"])
    assert rpc.call("GetExtendedAgentCard", {}) == card
    assert Rpc(rest.client, "").post(b"{}").status_code == 401
    older = rpc.call("agent/getAuthenticatedExtendedCard", None)
    assert older["supportsAuthenticatedExtendedCard"] is True
    assert [skill["id"] for skill in older["skills"]] == ["hello", "secret"]
    assert rest.client.get("/v1/card", headers=rest.headers | {"A2A-Version": ""}).json() == older
    oldest = rest.client.get("/agent/authenticatedExtendedCard", headers=rest.headers)
    assert oldest.json()["protocolVersion"] == "0.2.5"
    assert rest.client.get("/agent/authenticatedExtendedCard").status_code == 401


def test_an_agent_without_one(client: TestClient, key: str) -> None:
    rpc = Rpc(client, key)
    assert rpc.error("GetExtendedAgentCard", {})["code"] == -32004
    assert rpc.error("agent/getAuthenticatedExtendedCard", {})["code"] == -32007
    assert client.get("/agent/authenticatedExtendedCard", headers={"X-API-Key": key}).status_code == 404
