"""What each path answers before any agent runs, and whom a deployment behind a CDN serves."""

import hashlib
import logging
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from tests.conftest import BASE_URL, new_key
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc, message, request

Make = Callable[..., TestClient]


@pytest.fixture
def deploy(settings: Settings) -> Make:
    """A client of a deployment with other settings."""

    def make(**changes: Any) -> TestClient:
        app = create_app(Kit(settings.model_copy(update=changes)))
        return TestClient(app, base_url=BASE_URL)

    return make


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("GET", "/", {"POST"}),
        ("GET", "/a2a/assistant", {"POST"}),
        ("PUT", "/alibaba/assistant", {"POST"}),
        ("GET", "/v2/assistant", {"POST"}),
        ("GET", "/mcp", {"POST"}),
        ("GET", "/mcp/assistant", {"POST"}),
        ("GET", "/uploads", {"POST"}),
        ("PUT", "/a2a/assistant/uploads", {"POST"}),
        ("GET", "/callbacks/token", {"POST"}),
        ("POST", "/openapi.json", {"GET", "HEAD"}),
        ("PUT", "/.well-known/agent-card.json", {"GET", "HEAD"}),
        ("POST", "/a2a/assistant/openapi.json", {"GET", "HEAD"}),
        ("GET", "/message:send", {"POST"}),
        ("PUT", "/a2a/assistant/tasks/t", {"GET"}),
        ("PATCH", "/v1/tasks/t/pushNotificationConfigs/c", {"GET", "DELETE"}),
    ],
)
def test_a_refused_method_names_those_that_are_allowed(
    client: TestClient, key: str, verb: str, path: str, allowed: set[str]
) -> None:
    answer = client.request(verb, path, json={}, headers={"X-API-Key": key})
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == allowed
    methods = answer.text.partition(f"{verb} is not allowed here. Allowed: ")[2].partition('"')[0]
    assert set(methods.split(", ")) == allowed


@pytest.mark.parametrize(
    "path", ["/nothing", "/a2a/assistant/nothing", "/v1/nothing", "/mcp/a/b", "/callbacks"]
)
def test_an_unknown_path_is_named(client: TestClient, key: str, path: str) -> None:
    answer = client.post(path, json={}, headers={"X-API-Key": key})
    assert answer.status_code == 404
    assert f"nothing is served at {path}" in answer.text


def test_a_long_path_is_cut(client: TestClient) -> None:
    assert f'/{"x" * 100}…"' in client.post(f"/{'x' * 300}", json={}).text


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/stream",
        "/a2a/assistant",
        "/a2a/assistant/",
        "/a2a//assistant",
        "/a2a/assistant/stream",
        "/a2a/assistant//stream/",
    ],
)
def test_extra_slashes_do_not_change_a_path(client: TestClient, key: str, path: str) -> None:
    body = request("message/send", {"message": message("hello")})
    answer = client.post(path, json=body, headers={"X-API-Key": key})
    assert answer.json()["result"]["kind"] == "task", answer.text


def test_a_base_path_of_a_domain_is_no_part_of_a_path(deploy: Make) -> None:
    site = deploy(base_url=f"{BASE_URL}/agents")
    assert site.get("/agents/.well-known/agent-card.json").status_code == 200
    assert site.get("/.well-known/agent-card.json").status_code == 200
    refusal = site.post("/agents", json={})
    assert (refusal.status_code, refusal.json()["jsonrpc"]) == (401, "2.0")
    assert site.get("/agentsx/.well-known/agent-card.json").status_code == 404


def test_pages_of_other_sites_may_call_if_the_deployment_says_so(deploy: Make) -> None:
    page = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    gateway = deploy(cors_origins=["https://page.example"])
    answer = gateway.options(
        "/", headers={**page, "Access-Control-Request-Headers": "X-API-Key, A2A-Version"}
    )
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://page.example"
    assert answer.headers["access-control-max-age"] == "600"
    assert {"POST", "DELETE", "GET"} <= set(answer.headers["access-control-allow-methods"].split(", "))
    other = gateway.options("/", headers={**page, "Origin": "https://other.example"})
    assert "access-control-allow-origin" not in other.headers
    assert "access-control-allow-origin" not in deploy().options("/", headers=page).headers


@pytest.mark.parametrize(
    ("types", "answered"),
    [
        ("application/json", "application/json"),
        ("*/*", "application/a2a+json"),
        ("application/json, application/a2a+json", "application/a2a+json"),
        ("application/json; q=1, application/*", "application/a2a+json"),
        ("text/html", "application/a2a+json"),
        ("application/json;q=0.5, application/a2a+json; q=0", "application/json"),
    ],
)
def test_http_answers_in_the_versions_type_unless_a_client_takes_json_only(
    rest: Rest, types: str, answered: str
) -> None:
    assert rest.ask("GET", "tasks", Accept=types).headers["content-type"] == answered


@pytest.mark.parametrize("path", ["message:send", "message:stream"])
@pytest.mark.parametrize("body", ["[]", '"text"', "1"])
def test_a_body_is_an_object(rest: Rest, path: str, body: str) -> None:
    headers = {**rest.headers, "Content-Type": "application/json"}
    answer = rest.client.post(f"{rest.path}/{path}", content=body, headers=headers)
    assert answer.status_code == 400
    assert "the body must be an object" in answer.text


def test_the_path_and_the_body_name_one_task(rest: Rest) -> None:
    task = rest.send()
    path = f"tasks/{task['id']}:cancel"
    assert "differ in id" in rest.ask("POST", path, {"id": "other"}).text
    for same in ({"id": task["id"]}, {"id": ""}, {"id": None}, None):
        assert "the task has already ended" in rest.ask("POST", path, same).text


def test_a_path_of_one_version_is_none_of_another(rest: Rest) -> None:
    answer = rest.ask("GET", "tasks", **{"A2A-Version": "0.3"})
    assert answer.status_code == 400
    assert "The paths of 0.3 begin with /v1" in answer.text
    assert answer.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


def send_to(client: TestClient, key: str, tenant: str) -> Any:
    """The answer to a message at the path of the agent probe."""
    body = request("SendMessage", {"message": message_1_0(), "tenant": tenant})
    headers = {"X-API-Key": key, "A2A-Version": "1.0"}
    return client.post("/a2a/probe", json=body, headers=headers).json()


@pytest.mark.parametrize("tenant", ["probe", ""])
def test_a_tenant_may_repeat_the_agent_of_the_path(client: TestClient, key: str, tenant: str) -> None:
    assert "task" in send_to(client, key, tenant)["result"]


def test_a_tenant_that_names_another_agent_than_the_path_is_refused(client: TestClient, key: str) -> None:
    message = send_to(client, key, "assistant")["error"]["message"]
    assert "the path and the tenant name different agents" in message


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, "message is missing: it must be an object"),
        ({"text": "hi"}, "message is missing: it must be an object"),
        ({"message": message_1_0(parts=[None])}, "message.parts[0] must be an object"),
    ],
)
def test_a_body_that_is_wrong_is_described_without_the_params_of_json_rpc(
    rest: Rest, body: Any, problem: str
) -> None:
    answer = rest.ask("POST", "message:send", body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["message"].endswith(f": {problem}")
    [violation] = error["details"][-1]["fieldViolations"]
    assert violation["description"] == error["message"]


@pytest.mark.parametrize("path", ["/uploads", "/a2a/probe/uploads"])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "body.size"),
        ({"size": 0, "mediaType": "image/png"}, "from 1 to"),
        ({"size": -1, "mediaType": "image/png"}, "an integer of 0 or more"),
        ({"size": 10**12, "mediaType": "image/png"}, "from 1 to"),
        ({"size": 1}, "mediaType"),
        ([], "body must be an object"),
    ],
)
def test_an_invalid_upload_request_is_refused_with_400(
    client: TestClient, key: str, path: str, body: Any, words: str
) -> None:
    answer = client.post(path, json=body, headers={"X-API-Key": key})
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


def test_an_upload_has_a_form_that_nobody_keeps(client: TestClient, key: str) -> None:
    wish = {"size": 5, "mediaType": "image/png"}
    answer = client.post("/a2a/probe/uploads", json=wish, headers={"X-API-Key": key})
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert body.keys() == {"url", "form", "expires"}
    assert body["form"].keys() == {"url", "fields"}
    assert client.post("/a2a/probe/uploads", json=wish).status_code == 401
    text = {"X-API-Key": key, "Content-Type": "text/plain"}
    assert client.post("/a2a/probe/uploads", content="{}", headers=text).status_code == 400
    assert client.post("/a2a/nobody/uploads", json=wish, headers={"X-API-Key": key}).status_code == 404


def test_an_upload_that_the_kit_fails_has_an_error_in_the_form_of_the_others(
    client: TestClient, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app: Any = client.app
    monkeypatch.setattr(app.state.kit.files, "new_upload", None)
    wish = {"size": 5, "mediaType": "image/png"}
    answer = client.post("/a2a/probe/uploads", json=wish, headers={"X-API-Key": key})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["status"]) == (500, 500, "INTERNAL")


def test_the_largest_upload_is_allowed_and_one_byte_more_is_not(deploy: Make) -> None:
    small = deploy(upload_megabytes=1)
    app: Any = small.app
    headers = {"X-API-Key": new_key(app.state.kit)}
    most = app.state.kit.settings.upload_bytes
    for size, status in ((most, 200), (most + 1, 400)):
        wish = {"size": size, "mediaType": "image/png"}
        assert small.post("/a2a/probe/uploads", json=wish, headers=headers).status_code == status


def test_only_the_newest_version_names_its_agent_by_a_tenant(client: TestClient, key: str) -> None:
    rpc = Rpc(client, key, "/a2a/probe")
    assert rpc.call("message/send", {"message": message("hi"), "tenant": "assistant"})["kind"] == "task"


def test_an_application_starts_and_ends_behind_every_door(deploy: Make) -> None:
    """The doors are of HTTP; the server's own start and end pass through them."""
    secret = hashlib.sha256(b"cdn").hexdigest()
    doors = {"tracing": True, "origin_digests": (secret,), "base_url": f"{BASE_URL}/agents"}
    with deploy(**doors, cors_origins=["https://page.example"]) as app_client:
        path = "/agents//.well-known/agent-card.json"
        assert app_client.get(path).status_code == 403
        assert app_client.get(path, headers={"X-Origin-Secret": "cdn"}).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/assistant/tasks", 200),
        ("/probe/tasks", 200),
        ("/nobody/tasks", 404),
        ("/v1/assistant/tasks", 404),
        ("/v1/tasks", 200),
    ],
)
def test_a_path_of_1_0_may_begin_with_its_tenant(
    client: TestClient, key: str, path: str, status: int
) -> None:
    assert client.get(path, headers={"X-API-Key": key}).status_code == status


@pytest.mark.parametrize(
    ("headers", "is_qianfan"),
    [
        ({"X-API-Key": "KEY"}, False),
        ({"Authorization": "Bearer KEY"}, True),
        ({"Authorization": "Bearer KEY", "A2A-Version": "0.3"}, False),
        ({"X-Appbuilder-Authorization": "Bearer KEY"}, True),
    ],
)
def test_a_message_without_an_id_is_appbuilders_where_it_may_be(
    client: TestClient, key: str, headers: dict[str, str], is_qianfan: bool
) -> None:
    """At a path that AppBuilder's clients share with all others, it is theirs if it has a bearer token and no
    version."""
    body = request("message/send", {"message": message(messageId=None)})
    headers = {name: value.replace("KEY", key) for name, value in headers.items()}
    answer = client.post("/a2a/probe", json=body, headers=headers).json()
    assert ("result" in answer) == is_qianfan, answer


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@pytest.fixture
def guarded(settings: Settings) -> Kit:
    digests = f"{digest('old secret')},{digest('new secret')}"
    values = {**settings.model_dump(), "origin_digests": digests}
    return Kit(Settings.model_validate(values))


@pytest.mark.parametrize("secret", [None, "", "wrong", digest("new secret"), "ü"])
def test_requests_past_the_cdn_are_refused(
    guarded: Kit, caplog: pytest.LogCaptureFixture, secret: str | None
) -> None:
    """Cards are refused, too, and so is a caller with a valid key. The log has each, for an operator who
    changes the secret."""
    caplog.set_level(logging.INFO, logger="a2a_lambda")
    headers: dict[str, Any] = {"X-API-Key": new_key(guarded)}
    if secret is not None:
        headers["X-Origin-Secret"] = secret.encode("latin-1")
    with TestClient(create_app(guarded), base_url=BASE_URL) as client:
        for answer in (
            client.get("/.well-known/agent-card.json", headers=headers),
            client.post("/", json=request("tasks/get", {"id": "x"}), headers=headers),
        ):
            assert answer.status_code == 403
            assert "public address" in answer.json()["error"]["message"]
    assert caplog.messages.count("refused: -32600 NotFromOrigin") == 2


@pytest.mark.parametrize("secret", ["old secret", "new secret"])
def test_the_cdns_requests_are_served(guarded: Kit, secret: str) -> None:
    headers = {"X-Origin-Secret": secret, "X-API-Key": new_key(guarded)}
    with TestClient(create_app(guarded), base_url=BASE_URL) as client:
        assert client.get("/.well-known/agent-card.json", headers=headers).status_code == 200
        response = client.post("/", json=request("tasks/get", {"id": "x"}), headers=headers)
        assert response.json()["error"]["code"] == -32001
