"""Callers with a token of an identity provider, over HTTP: what they may do, and what each reads first."""

import asyncio
import logging
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda import threads
from a2a_lambda.access import audit
from a2a_lambda.aws import clients
from a2a_lambda.errors import KeysUnavailable
from a2a_lambda.http.app import create_app
from a2a_lambda.http.discovery import cards
from a2a_lambda.kit import Kit
from a2a_lambda.store.documents import unpack
from tests.access.tokens.identity_provider import IdentityProvider
from tests.background.fake_queue import FakeQueue
from tests.conftest import BASE_URL, new_key
from tests.helpers.rest import message_1_0
from tests.http.sign_in.calls import Accept, caller_of, send
from tests.wire.versions.specs import validate


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


def test_while_the_issuers_cannot_be_read_a_client_is_told_to_try_again(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not conclude that tokens are not accepted."""

    async def refuse(*_: Any) -> None:
        raise KeysUnavailable("Parameter Store does not answer")

    monkeypatch.setattr(cards, "find_issuers", refuse)
    answer = client.get("/.well-known/oauth-protected-resource")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


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
        [head] = [unpack(item["document"]) for item in scan(kit) if item["pk"]["S"].endswith(task["id"])]
        assert b'"caller":{' in head
        assert b"a@example.com" not in head
        assert token.rpartition(".")[2].encode() not in head
        asyncio.run(kit.worker.run_turn(queued_turn, None))
        headers = {"Authorization": f"Bearer {token}", "A2A-Version": "1.0"}
        result = client.get(f"/a2a/who/tasks/{task['id']}", headers=headers).json()
    caller = result["artifacts"][0]["parts"][0]["data"]
    assert (caller["owner"], caller["client"], caller["kind"]) == ("idp|sub:alice", "app", "token")


def scan(kit: Kit) -> list[Any]:
    items: list[Any] = clients.dynamodb(kit.settings).scan(TableName=kit.settings.table)["Items"]
    return items


def test_tasks_of_others_are_not_there(
    client: TestClient, kit: Kit, accept: Accept, provider: IdentityProvider
) -> None:
    accept(provider.issuer())
    task = send(client, provider.token(sub="alice", client_id="app")).json()["task"]

    def call(secret: str, verb: str, path: str) -> Any:
        headers = {"Authorization": f"Bearer {secret}", "A2A-Version": "1.0"}
        return client.request(verb, f"/a2a/who/{path}", headers=headers)

    path = f"tasks/{task['id']}"
    assert call(provider.token(sub="alice", client_id="another app"), "GET", path).status_code == 200
    for secret in (
        provider.token(sub="bob", client_id="app"),
        provider.token(sub="alice", client_id="alice"),
        new_key(kit, owner="alice"),
        new_key(kit, owner="idp"),
    ):
        for verb, suffix in (
            ("GET", ""),
            ("POST", ":cancel"),
            ("GET", ":subscribe"),
            ("GET", "/pushNotificationConfigs"),
        ):
            assert call(secret, verb, f"{path}{suffix}").status_code == 404, suffix
        assert task["id"] not in call(secret, "GET", "tasks").text


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
    """It says so in the form of its version, beside the keys."""
    before = client.get(path)
    accept(provider.issuer(scopes=("agents.call",)))
    answer = client.get(path, headers={"If-None-Match": before.headers["etag"]})
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
    accept(provider.issuer(metadata="https://idp.example/.well-known/oauth-authorization-server"))
    assert "https://idp.example/.well-known/oauth-authorization-server" in client.get(path).text
    assert discovery not in client.get(path).text


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


def test_a_role_that_aws_has_authenticated(kit: Kit) -> None:
    """It is in the event of a function URL. A key that is sent, too, counts more; a wrong one is no way
    in."""
    arn = "arn:aws:sts::123456789012:assumed-role/orders/session"
    app = create_app(kit)
    kit.settings = kit.settings.model_copy(update={"iam_callers": True})

    async def on_lambda(scope: Any, receive: Any, send_: Any) -> None:
        event = {"requestContext": {"authorizer": {"iam": {"userArn": arn}}}}
        await app({**scope, "aws.event": event}, receive, send_)

    def call(**headers: str) -> Any:
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
    introspection = {"active": True, "aud": "client", "sub": "alice", "scope": "agents.call"}
    url = provider.introspect(
        lambda request: (200, introspection if request.form["token"] == "opaque" else {"active": False})
    )
    accept(provider.issuer(introspection=url, audiences=("client",)))
    assert caller_of(send(client, "opaque"))["owner"] == "idp|sub:alice"
    assert caller_of(send(client, key))["kind"] == "key"
    fetch_count = len(provider.fetches)
    assert caller_of(send(client, "opaque"))["kind"] == "token"
    assert send(client, "a2a_" + "x" * 43).status_code == 401
    assert len(provider.fetches) == fetch_count, (
        "neither a known token nor what has the form of a key is asked for"
    )
    mistyped_headers = {"Authorization": f"Bearer {key[:-1]}", "A2A-Version": "1.0"}
    for headers in (mistyped_headers, {"X-API-Key": "stranger", "A2A-Version": "1.0"}):
        answer = client.post("/a2a/who/message:send", json={"message": message_1_0("hi")}, headers=headers)
        assert answer.status_code == 401
    assert len(provider.fetches) == fetch_count, "a mistyped key reaches no issuer"
    answer = send(client, "stranger")
    assert answer.status_code == 401
    assert "its issuer does not know it" in answer.text
    assert "resource_metadata=" in answer.headers["www-authenticate"]
    assert caplog.records[-1].__dict__["reason"] == "inactive"
    assert send(client, "opaque", agent="strict").status_code == 403


def test_an_empty_header_of_keys_is_none(client: TestClient, kit: Kit) -> None:
    secret = new_key(kit, owner="alice")
    headers = {"Authorization": f"Bearer {secret}", "X-API-Key": "", "A2A-Version": "1.0"}
    answer = client.post("/a2a/who/message:send", json={"message": message_1_0("hi")}, headers=headers)
    assert caller_of(answer)["owner"] == "alice"
