"""Callers with a token of an identity provider, over HTTP: what they may do, and what each reads first."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pytest_httpserver import HTTPServer
from starlette.testclient import TestClient

from a2a_lambda import threads
from a2a_lambda.access import audit
from a2a_lambda.access.tokens.issuer import Issuer
from a2a_lambda.access.tokens.issuer_register import IssuerRegister
from a2a_lambda.aws import clients, hot_path
from a2a_lambda.errors import KeysUnavailable
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from tests.access.tokens.identity_provider import IdentityProvider
from tests.background.fake_queue import FakeQueue
from tests.conftest import BASE_URL, forget, new_key
from tests.helpers.rest import message_1_0
from tests.helpers.rpc import message, request
from tests.wire.versions.specs import validate

Json = Any

AGENT = """
import dataclasses
from a2a_lambda import Turn, skill

@skill
def who(turn: Turn):
    return dataclasses.asdict(turn.caller)
"""

CARD = "name: {name}\ndescription: D.\nversion: 0.1.0\nskills: [{{ id: who, name: Who, description: W. }}]\n"


@pytest.fixture
def provider(httpserver: HTTPServer) -> IdentityProvider:
    return IdentityProvider(httpserver)


@pytest.fixture
def kit(settings: Settings, tmp_path: Path) -> Kit:
    """A deployment with keys and issuers of its own. Agent `strict` needs a scope; `hidden` has no public
    card."""
    for name, more in (
        ("who", "default: true\n"),
        ("strict", "scopes: [agents.admin]\n"),
        ("hidden", "public: false\n"),
    ):
        folder = tmp_path / "agents" / name
        folder.mkdir(parents=True)
        (folder / "agent.py").write_text(AGENT)
        (folder / "card.yaml").write_text(CARD.format(name=name) + more)
    path = f"/{uuid.uuid4().hex}/keys"
    return Kit(settings.model_copy(update={"agents": tmp_path / "agents", "keys_path": path}))


@pytest.fixture
def client(kit: Kit) -> Iterator[TestClient]:
    with TestClient(create_app(kit), base_url=BASE_URL) as made:
        yield made


@pytest.fixture
def accept(kit: Kit) -> Callable[[Issuer], None]:
    """Adds an issuer, as make issuer does."""

    def accept(issuer: Issuer) -> None:
        IssuerRegister(hot_path.ssm(kit.settings), kit.settings.keys_path).add(issuer)
        forget(kit)

    return accept


def send(client: TestClient, token: str, agent: str = "who", **fields: Json) -> Json:
    return client.post(
        f"/a2a/{agent}/message:send",
        json={"message": message_1_0("hi"), **fields},
        headers={"Authorization": f"Bearer {token}", "A2A-Version": "1.0"},
    )


def caller_of(answer: Json) -> Json:
    assert answer.status_code == 200, answer.text
    return answer.json()["task"]["artifacts"][0]["parts"][0]["data"]


Accept = Callable[[Issuer], None]


def test_an_unknown_secret_is_called_a_token_only_if_an_issuer_is_asked_about_tokens(
    client: TestClient, accept: Accept, provider: IdentityProvider
) -> None:
    refusal = send(client, "who-knows")
    assert refusal.status_code == 401
    assert "the key is not valid" in refusal.text
    accept(provider.issuer(introspection=provider.introspect(lambda _: (200, {"active": False}))))
    refusal = send(client, "who-knows")
    assert "the token is not valid" in refusal.text


def test_an_agent_knows_its_caller(client: TestClient, accept: Accept, provider: IdentityProvider) -> None:
    accept(provider.issuer(claims=("tid",)))
    token = provider.token(sub="alice", client_id="app", tid="t-1", email="a@example.com")
    assert caller_of(send(client, token)) == {
        "owner": "idp|sub:alice",
        "kind": "token",
        "issuer": "idp",
        "subject": "alice",
        "client": "app",
        "scopes": ["agents.call", "agents.read"],
        "claims": {"tid": "t-1"},
    }


def test_a_key_is_a_caller_too(
    client: TestClient, kit: Kit, accept: Accept, provider: IdentityProvider
) -> None:
    accept(provider.issuer())
    key = new_key(kit, owner="team")
    caller = caller_of(send(client, key))
    assert (caller["owner"], caller["kind"], caller["scopes"]) == ("team", "key", [])
    assert caller_of(send(client, key, "strict"))["owner"] == "team", "a key needs no scope"


def test_a_token_whose_key_is_known_does_not_wait_behind_others(
    client: TestClient, accept: Accept, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads that ask issuers are few, and anybody can keep them waiting with keys of no issuer."""

    async def refuse(*_: Any) -> None:
        raise KeysUnavailable("every thread waits for an issuer")

    accept(provider.issuer())
    assert send(client, provider.token(sub="alice")).status_code == 200
    monkeypatch.setattr(threads, "run_for_keys", refuse)
    assert send(client, provider.token(sub="bob")).status_code == 200
    assert send(client, provider.token({"kid": "new"})).status_code == 503


def test_in_the_background_an_agent_knows_its_caller(
    kit: Kit, accept: Accept, provider: IdentityProvider
) -> None:
    """The task keeps the caller until then, and nothing else of the token."""
    accept(provider.issuer())
    queue = kit.__dict__["queue"] = FakeQueue()
    token = provider.token(sub="alice", client_id="app", email="a@example.com")
    with TestClient(create_app(kit), base_url=BASE_URL) as client:
        task = send(client, token, configuration={"returnImmediately": True}).json()["task"]
        [queued_turn] = queue.waiting
        [item] = [item for item in scan(kit) if "options" in str(item)]
        assert "a@example.com" not in str(item)
        assert token.rpartition(".")[2] not in str(item)
        asyncio.run(kit.worker.run_turn(queued_turn, None))
        headers = {"Authorization": f"Bearer {token}", "A2A-Version": "1.0"}
        ended = client.get(f"/a2a/who/tasks/{task['id']}", headers=headers).json()
    caller = ended["artifacts"][0]["parts"][0]["data"]
    assert (caller["owner"], caller["client"], caller["kind"]) == ("idp|sub:alice", "app", "token")


def scan(kit: Kit) -> list[Json]:
    items: list[Json] = clients.dynamodb(kit.settings).scan(TableName=kit.settings.table)["Items"]
    return items


def test_tasks_of_others_are_not_there(
    client: TestClient, kit: Kit, accept: Accept, provider: IdentityProvider
) -> None:
    accept(provider.issuer())
    task = send(client, provider.token(sub="alice", client_id="app")).json()["task"]

    def get(secret: str) -> int:
        headers = {"Authorization": f"Bearer {secret}", "A2A-Version": "1.0"}
        return client.get(f"/a2a/who/tasks/{task['id']}", headers=headers).status_code

    assert get(provider.token(sub="alice", client_id="another app")) == 200
    for secret in (
        provider.token(sub="bob", client_id="app"),
        provider.token(sub="alice", client_id="alice"),
        new_key(kit, owner="alice"),
        new_key(kit, owner="idp"),
    ):
        assert get(secret) == 404


def test_no_way_in_is_named_for_an_agent_that_no_issuer_may_call(
    client: TestClient, accept: Accept, provider: IdentityProvider
) -> None:
    accept(provider.issuer(agents=("strict",)))
    for agent, is_named in (("strict", True), ("who", False)):
        path = f"/.well-known/oauth-protected-resource/a2a/{agent}"
        challenge = client.get(f"/a2a/{agent}/tasks").headers["www-authenticate"]
        assert (path in challenge) is is_named
        assert (client.get(path).status_code == 200) is is_named


def test_without_issuers_there_is_no_way_in_and_none_is_named(
    client: TestClient, provider: IdentityProvider
) -> None:
    answer = send(client, provider.token())
    assert answer.status_code == 401
    assert "resource_metadata" not in answer.headers["www-authenticate"]
    assert client.get("/.well-known/oauth-protected-resource").status_code == 404
    schemes = client.get("/.well-known/agent-card.json").json()["securitySchemes"]
    assert schemes.keys() == {"bearer", "apiKey"}


@pytest.mark.parametrize("secret", ["", "a2a_" + "x" * 43, "eyJhbGciOiJub25lIn0.e30."])
def test_a_refusal_leads_to_the_metadata(
    client: TestClient, accept: Accept, provider: IdentityProvider, secret: str
) -> None:
    accept(provider.issuer(scopes=("agents.call",)))
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    for path, agent, body in (
        ("/", "", request("message/send", {"message": message("hi")})),
        ("/a2a/strict/message:send", "/a2a/strict", {}),
    ):
        answer = client.post(path, json=body, headers=headers)
        assert answer.status_code == 401
        challenge = answer.headers["www-authenticate"]
        url = f"{BASE_URL}/.well-known/oauth-protected-resource{agent}"
        assert f'resource_metadata="{url}"' in challenge
        assert ('error="invalid_token"' in challenge) == secret.startswith("eyJ")
        document = client.get(url.removeprefix(BASE_URL))
        assert document.headers["cache-control"] == "public, max-age=60"
        metadata = document.json()
        assert metadata == client.get(f"{agent}/.well-known/oauth-protected-resource").json()
        assert metadata["resource"] == BASE_URL + agent
        assert metadata["authorization_servers"] == [provider.url]
        assert metadata["scopes_supported"] == ["agents.call", *(["agents.admin"] if agent else [])]
        assert metadata["bearer_methods_supported"] == ["header"]


def test_a_client_of_mcp_is_led_to_the_issuers_of_its_agent(
    client: TestClient, accept: Accept, provider: IdentityProvider
) -> None:
    accept(provider.issuer(agents=("strict",)))
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    url = f"{BASE_URL}/.well-known/oauth-protected-resource/mcp/strict"
    refused = client.post("/mcp/strict", json=body)
    assert refused.status_code == 401
    assert f'resource_metadata="{url}"' in refused.headers["www-authenticate"]
    metadata = client.get(url.removeprefix(BASE_URL)).json()
    assert metadata["resource"] == f"{BASE_URL}/mcp/strict"
    assert (metadata["authorization_servers"], metadata["scopes_supported"]) == (
        [provider.url],
        ["agents.admin"],
    )

    def post(token: str) -> httpx2.Response:
        return client.post("/mcp/strict", json=body, headers={"Authorization": f"Bearer {token}"})

    without_scope = post(provider.token())
    assert without_scope.status_code == 403
    assert f'scope="agents.admin", resource_metadata="{url}"' in without_scope.headers["www-authenticate"]
    assert "result" in post(provider.token(scope="agents.admin")).json()


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_the_tools_of_the_default_agent_have_metadata_of_their_own(
    client: TestClient, accept: Accept, provider: IdentityProvider, path: str
) -> None:
    """A client takes it only if its resource is the url that it has called (RFC 9728 section 3.3)."""
    accept(provider.issuer(scopes=("other",)))
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    url = f"{BASE_URL}/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{url}"' in client.post(path, json=body).headers["www-authenticate"]
    assert client.get(url.removeprefix(BASE_URL)).json()["resource"] == f"{BASE_URL}/mcp"
    headers = {"Authorization": f"Bearer {provider.token()}"}
    assert 'scope="other"' in client.post(path, json=body, headers=headers).headers["www-authenticate"]


def test_a_missing_scope_is_403_and_named(
    client: TestClient, accept: Accept, provider: IdentityProvider
) -> None:
    accept(provider.issuer())
    answer = send(client, provider.token(), "strict")
    assert answer.status_code == 403
    challenge = answer.headers["www-authenticate"]
    assert 'error="insufficient_scope", scope="agents.admin"' in challenge
    assert f'resource_metadata="{BASE_URL}/.well-known/oauth-protected-resource/a2a/strict"' in challenge
    assert caller_of(send(client, provider.token(scope=None, roles=["agents.admin"]), "strict"))
    accept(provider.issuer(scopes=("other",)))
    answer = send(client, provider.token())
    assert answer.status_code == 403
    assert 'scope="other"' in answer.headers["www-authenticate"]
    for token in (provider.token(), provider.token(scope="other"), provider.token(scope="agents.admin")):
        answer = send(client, token, "strict")
        assert 'scope="other agents.admin"' in answer.headers["www-authenticate"], "with both it gets in"
    assert caller_of(send(client, provider.token(scope="other agents.admin"), "strict"))


def test_an_issuer_may_be_for_some_agents(
    client: TestClient, accept: Accept, provider: IdentityProvider
) -> None:
    accept(provider.issuer(agents=("who",)))
    token = provider.token(scope="agents.admin")
    assert caller_of(send(client, token))
    assert send(client, token, "strict").status_code == 403


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/.well-known/agent.json", ("0.2.5", "AgentCard")),
        ("/.well-known/agent-card.json", ("0.3.0", "AgentCard")),
        ("/a2a/v1/.well-known/agent-card.json", ("1.0.1", "Agent Card")),
    ],
)
def test_a_card_says_how_to_sign_in(
    client: TestClient, accept: Accept, provider: IdentityProvider, path: str, kind: tuple[str, str]
) -> None:
    """In the form of its version, beside the keys."""
    before = client.get(path)
    accept(provider.issuer(scopes=("agents.call",)))
    answer = client.get(path, headers={"If-Modified-Since": before.headers["last-modified"]})
    card = answer.json()
    validate(*kind, card)
    discovery = f"{provider.url}/.well-known/openid-configuration"
    scheme = card["securitySchemes"]["openIdConnect-idp"]
    if kind[0] == "1.0.1":
        assert scheme == {"openIdConnectSecurityScheme": {"openIdConnectUrl": discovery}}
        [first, *others] = card["securityRequirements"]
        assert first == {"schemes": {"openIdConnect-idp": {"list": ["agents.call"]}}}
    else:
        assert scheme.items() >= {"type": "openIdConnect", "openIdConnectUrl": discovery}.items()
        [first, *others] = card["security"]
        assert first == {"openIdConnect-idp": ["agents.call"]}
    assert len(others) == 2


def test_a_card_that_is_not_public_takes_a_token(
    client: TestClient, accept: Accept, provider: IdentityProvider
) -> None:
    accept(provider.issuer())
    path = "/a2a/hidden/.well-known/agent-card.json"
    assert client.get(path).status_code == 401
    assert (
        client.get(path, headers={"Authorization": f"Bearer {provider.token()}"}).json()["name"] == "hidden"
    )


def test_a_token_in_the_header_of_keys(
    client: TestClient, accept: Accept, provider: IdentityProvider
) -> None:
    accept(provider.issuer())
    headers = {"X-API-Key": provider.token(), "A2A-Version": "1.0"}
    answer = client.post("/a2a/who/message:send", json={"message": message_1_0("hi")}, headers=headers)
    assert caller_of(answer)["kind"] == "token"


def test_the_audit_has_a_line_for_each_refusal_and_for_the_first_sign_in(
    client: TestClient, kit: Kit, accept: Accept, provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    audit.accept.cache_clear()
    assert audit.accept.cache_info().maxsize == audit.CALLERS
    accept(provider.issuer())
    key, token, expired = new_key(kit, owner="team"), provider.token(), provider.token(exp=1)
    with caplog.at_level(logging.INFO):
        for secret in (token, token, key, key, expired, "a2a_" + "x" * 43, "", provider.token(iss="x")):
            send(client, secret)
    fields = ("sign_in", "kind", "owner", "issuer", "client", "reason")
    lines = [
        {name: value for name in fields if (value := getattr(record, name, None))}
        for record in caplog.records
        if hasattr(record, "sign_in")
    ]
    assert lines == [
        {
            "sign_in": "accepted",
            "kind": "token",
            "owner": "idp|client:robot",
            "issuer": "idp",
            "client": "robot",
        },
        {"sign_in": "accepted", "kind": "key", "owner": "team"},
        {"sign_in": "refused", "kind": "token", "issuer": "idp", "client": "robot", "reason": "expired"},
        {"sign_in": "refused", "kind": "key", "reason": "unknown"},
        {"sign_in": "refused", "kind": "none", "reason": "absent"},
        {"sign_in": "refused", "kind": "token", "reason": "issuer"},
    ]
    for secret in (token, expired, key):
        assert secret not in caplog.text
        assert not any(secret in str(vars(record)) for record in caplog.records)


def test_a_role_that_aws_has_authenticated(kit: Kit) -> None:
    """In the event of a function URL. A key that is sent, too, counts more; a wrong one is no way in."""
    arn = "arn:aws:sts::123456789012:assumed-role/orders/session"
    app = create_app(kit)
    kit.settings = kit.settings.model_copy(update={"iam_callers": True})

    async def on_lambda(scope: Any, receive: Any, send_: Any) -> None:
        event = {"requestContext": {"authorizer": {"iam": {"userArn": arn}}}}
        await app({**scope, "aws.event": event}, receive, send_)

    def call(**headers: str) -> Json:
        body = {"message": message_1_0("hi")}
        return TestClient(on_lambda, base_url=BASE_URL).post(
            "/a2a/strict/message:send", json=body, headers={"A2A-Version": "1.0", **headers}
        )

    caller = caller_of(call(Authorization="AWS4-HMAC-SHA256 Credential=x"))
    assert (caller["owner"], caller["kind"]) == ("iam|123456789012:role%2Forders", "iam")
    assert caller["subject"] == "123456789012:role/orders"
    assert caller_of(call(**{"X-API-Key": new_key(kit, owner="team")}))["owner"] == "team"
    assert call(**{"X-API-Key": "a2a_" + "x" * 43}).status_code == 401
    kit.settings = kit.settings.model_copy(update={"iam_callers": False})
    assert call().status_code == 401, "no such door"


def test_an_opaque_token_is_asked_for_at_its_issuer(
    client: TestClient, kit: Kit, accept: Accept, provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, audit.logger.name)
    key = new_key(kit)
    assert send(client, "opaque").status_code == 401
    said = {"active": True, "aud": "client", "sub": "alice", "scope": "agents.call"}
    url = provider.introspect(
        lambda request: (200, said if request.form["token"] == "opaque" else {"active": False})
    )
    accept(provider.issuer(introspection=url, audiences=("client",)))
    assert caller_of(send(client, "opaque"))["owner"] == "idp|sub:alice"
    assert caller_of(send(client, key))["kind"] == "key"
    asked = len(provider.fetches)
    assert caller_of(send(client, "opaque"))["kind"] == "token"
    assert send(client, "a2a_" + "x" * 43).status_code == 401
    assert len(provider.fetches) == asked, "neither a known token nor what has the form of a key is asked for"
    mistyped = {"Authorization": f"Bearer {key[:-1]}", "A2A-Version": "1.0"}
    for headers in (mistyped, {"X-API-Key": "stranger", "A2A-Version": "1.0"}):
        answer = client.post("/a2a/who/message:send", json={"message": message_1_0("hi")}, headers=headers)
        assert answer.status_code == 401
    assert len(provider.fetches) == asked, "a mistyped key reaches no issuer"
    answer = send(client, "stranger")
    assert answer.status_code == 401
    assert "its issuer does not know it" in answer.text
    assert "resource_metadata=" in answer.headers["www-authenticate"]
    assert caplog.records[-1].__dict__["reason"] == "inactive"
    assert send(client, "opaque", agent="strict").status_code == 403
