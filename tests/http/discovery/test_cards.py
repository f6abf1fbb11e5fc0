"""What a client learns of an agent before it calls it."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.testclient import TestClient

from a2a_lambda.errors import ConfigurationError, InvalidParams, TooManyRequests, Unavailable
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.protocol import alibaba_metadata
from a2a_lambda.settings import Settings
from a2a_lambda.wire.shared import card_json
from tests.conftest import BASE_URL, new_key

CARDS = {
    "/.well-known/agent.json": ("0.2.5", "/"),
    "/.well-known/agent-card.json": ("0.3.0", "/"),
    "/alibaba/.well-known/agent.json": ("0.2.5", "/alibaba"),
    "/a2a/assistant/.well-known/agent.json": ("0.2.5", "/a2a/assistant"),
    "/a2a/assistant/.well-known/agent-card.json": ("0.3.0", "/a2a/assistant"),
    "/alibaba/assistant/.well-known/agent.json": ("0.2.5", "/alibaba/assistant"),
}


@pytest.mark.parametrize("path", CARDS)
def test_a_skill_without_tags_has_its_name_as_one(tmp_path: Path, settings: Settings, path: str) -> None:
    """1.0 section 5.7: a required array has an element."""
    folder = tmp_path / "agents" / "assistant"
    folder.mkdir(parents=True)
    (folder / "agent.py").write_text("from a2a_lambda import skill\n\n\n@skill\ndef hello(turn): ...\n")
    skills = "[{ id: hello, name: Say Hello, description: Greets. }]"
    (folder / "card.yaml").write_text(f"name: H\ndescription: H.\nversion: 0.1.0\nskills: {skills}\n")
    app = create_app(Kit(settings.model_copy(update={"agents": tmp_path / "agents"})))
    [skill] = TestClient(app, base_url=BASE_URL).get(path).json()["skills"]
    assert skill["tags"] == ["say hello"]


@pytest.mark.parametrize("path", CARDS)
def test_a_card(client: TestClient, path: str) -> None:
    version, url = CARDS[path]
    card = client.get(path).json()
    assert card["protocolVersion"] == version
    assert card["url"] == BASE_URL + url
    assert card["name"] == "Super AI Assistant"
    assert [skill["id"] for skill in card["skills"]] == [
        "ai-repeat",
        "ai-calculate",
        "ai-count",
        "ai-flash",
        "ai-coach",
    ]
    for field in ("description", "version", "capabilities", "defaultInputModes", "defaultOutputModes"):
        assert card[field]
    for skill in card["skills"]:
        assert skill["tags"]
        assert skill["examples"]
    assert (
        card["securitySchemes"]["apiKey"].items()
        >= {
            "type": "apiKey",
            "in": "header",
            "name": "X-API-Key",
        }.items()
    )


@pytest.mark.parametrize("path", CARDS)
def test_both_extensions_are_declared_with_their_params(client: TestClient, path: str) -> None:
    extensions = client.get(path).json()["capabilities"]["extensions"]
    params = {extension["uri"]: extension["params"] for extension in extensions}
    assert alibaba_metadata.PROTOCOL_EXTENSION in params
    skills = {
        skill["id"]: skill["inputSchema"] for skill in params[alibaba_metadata.INTENT_EXTENSION]["skills"]
    }
    assert skills["ai-calculate"] == {
        "type": "object",
        "properties": {
            "num1": {"type": "number", "description": "The first number"},
            "num2": {"type": "number", "description": "The second number"},
        },
    }


def test_a_card_for_go_has_the_security_of_0_3_alone(client: TestClient) -> None:
    """a2a-go up to 2.3.1 cannot read 1.0's security requirements."""
    path = "/.well-known/agent-card.json"
    answer = client.get(path, headers={"User-Agent": "Go-http-client/1.1"})
    card = client.get(path).json()
    del card["securityRequirements"]
    assert answer.json() == card
    assert "User-Agent" in answer.headers["vary"]
    other = client.get(path, headers={"User-Agent": "Gopher/1.1"})
    assert other.json().keys() - card.keys() == {"securityRequirements"}
    assert "User-Agent" in other.headers["vary"]


@pytest.mark.parametrize(
    ("path", "scopes"),
    [
        ("/.well-known/agent-card.json", {"list": []}),  # a2a-rs cannot read a card without the list
        ("/a2a/v1/.well-known/agent-card.json", {}),  # what is signed has no default values
    ],
)
def test_keys_need_no_scopes(client: TestClient, path: str, scopes: dict[str, list[str]]) -> None:
    requirements = client.get(path).json()["securityRequirements"]
    assert requirements == [{"schemes": {name: scopes}} for name in ("bearer", "apiKey")]


def test_alibabas_security_is_a_list_of_strings(client: TestClient) -> None:
    assert client.get("/alibaba/.well-known/agent.json").json()["security"] == []
    assert client.get("/.well-known/agent.json").json()["security"] == [{"bearer": []}, {"apiKey": []}]


def test_a_card_is_cached_and_asked_for_again(client: TestClient) -> None:
    path = "/.well-known/agent.json"
    first = client.get(path)
    assert first.headers["cache-control"] == "public, max-age=300"
    assert first.headers["content-type"] == "application/json"
    assert first.headers["last-modified"].endswith(" GMT")  # RFC 9110 section 5.6.7
    for headers in (
        {"If-None-Match": first.headers["etag"]},
        {"If-None-Match": f'"x", W/{first.headers["etag"]}'},
        {"If-None-Match": "*"},
    ):
        again = client.get(path, headers=headers)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
    for headers in (
        {"If-None-Match": '"x"'},
        {"If-None-Match": ""},
        {"If-Modified-Since": first.headers["last-modified"]},  # a setting may have changed since then
    ):
        assert client.get(path, headers=headers).status_code == 200


def test_head(client: TestClient) -> None:
    response = client.head("/.well-known/agent-card.json")
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["etag"]


def test_an_unknown_agent_has_no_card(client: TestClient) -> None:
    for path in ("/a2a/nobody/.well-known/agent.json", "/alibaba/nobody/.well-known/agent.json"):
        response = client.get(path)
        assert response.status_code == 404
        assert "nobody" in response.json()["error"]["message"]


def test_no_header_changes_a_cards_url(client: TestClient) -> None:
    headers = {"Host": "evil.example", "X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example"}
    assert "evil" not in client.get("/.well-known/agent.json", headers=headers).text


def test_cors_is_off_unless_set(client: TestClient, settings: Settings) -> None:
    origin = {"Origin": "https://app.example"}
    assert "access-control-allow-origin" not in client.get("/.well-known/agent.json", headers=origin).headers
    open_to = settings.model_copy(update={"cors_origins": ("https://app.example",)})
    with TestClient(create_app(Kit(open_to)), base_url=BASE_URL) as allowed:
        answer = allowed.get("/.well-known/agent.json", headers=origin)
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        preflight_headers = {
            **origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "x-api-key",
        }
        preflight = allowed.options("/", headers=preflight_headers)
        assert preflight.status_code == 200
        assert "x-api-key" in preflight.headers["access-control-allow-headers"].lower()


def test_a_base_path_is_taken_off(settings: Settings) -> None:
    below = settings.model_copy(update={"base_url": "https://example.com/agents"})
    with TestClient(create_app(Kit(below)), base_url="https://example.com") as client:
        card = client.get("/agents/alibaba/.well-known/agent.json").json()
        assert card["url"] == "https://example.com/agents/alibaba"
        assert client.get("/agentsx/.well-known/agent.json").status_code == 404


def test_schemas_come_from_the_hints(kit: Kit) -> None:
    probe = kit.agents["probe"]
    schema: dict[str, Any] = probe.input_schemas["add"]
    assert schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "integer", "description": "the second number"},
        },
        "required": ["a", "b"],
    }
    assert probe.input_schemas["pieces"]["properties"]["every"] == {"type": "number", "default": 0.0}


def test_card_of_the_document(client: TestClient) -> None:
    """Every field of document 000's example, with its value."""
    card = client.get("/alibaba/.well-known/agent.json").json()
    assert card["description"].startswith("Repeats user input, calculates the sum of two numbers, counts")
    assert card["version"] == "1.0.0"
    assert card["defaultInputModes"] == card["defaultOutputModes"] == ["text/plain"]
    assert card["skills"][1] == {
        "id": "ai-calculate",
        "name": "AI Calculator",
        "description": "Calculates the 'sum' of two numbers.",
        "tags": ["demo", "calculate"],
        "examples": ["Example: What is 1 plus 2?"],
    }


def test_a_card_that_needs_a_key_needs_one_for_its_agent(kit: Kit, client: TestClient) -> None:
    key = new_key(kit, agents=("assistant",))
    for agent, status in (("assistant", 200), ("probe", 403)):
        path = f"/v2/a2a/{agent}/.well-known/agent.json"
        assert client.get(path, headers={"Authorization": f"Bearer {key}"}).status_code == status


def test_appbuilder_gets_errors_in_its_own_form(client: TestClient, kit: Kit) -> None:
    secret = new_key(kit, agents=("probe",))
    errors = {
        ("/v2/a2a/probe", ""): (401, "Unauthorized", "InvalidAuthorization"),
        ("/v2/a2a/plain", secret): (403, "AccessDenied", "NoPermissionForThisApp"),
        ("/v2/a2a/no-such-agent", secret): (404, "NotFoundResource", "A2AServerNotPublishedYet"),
    }
    for (path, key), expected in errors.items():
        headers = {"X-Appbuilder-Authorization": f"Bearer {key}"} if key else {}
        answer = client.get(f"{path}/.well-known/agent.json", headers=headers)
        body = answer.json()
        assert (answer.status_code, body["code"], body["message"]) == expected
        assert body["request_id"]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ConfigurationError("a private reason"), 500, "InternalError"),
        (TooManyRequests("wait", after=1), 429, "TooManyRequests"),
        (InvalidParams("wrong"), 400, "InvalidParameter"),
        (Unavailable("later"), 503, "ServiceUnavailable"),
    ],
)
def test_appbuilder_is_told_whose_mistake_an_error_is(
    client: TestClient, kit: Kit, monkeypatch: pytest.MonkeyPatch, *, error: Exception, status: int, code: str
) -> None:
    monkeypatch.setattr(card_json, "qianfan", Mock(side_effect=error))
    headers = {"X-API-Key": new_key(kit)}
    answer = client.get("/v2/a2a/probe/.well-known/agent.json", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert "private" not in answer.text
