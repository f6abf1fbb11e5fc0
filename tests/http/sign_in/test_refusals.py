"""Refusals: where they lead, what they name, and what the audit has of them."""

import logging

import httpx2
import pytest
from starlette.testclient import TestClient

from a2a_lambda.access import audit
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from tests.access.tokens.identity_provider import IdentityProvider
from tests.conftest import BASE_URL, new_key
from tests.helpers.rpc import message, request
from tests.http.sign_in.calls import Accept, caller_of, send


def test_an_unknown_secret_is_called_a_token_only_if_an_issuer_is_asked_about_tokens(
    client: TestClient, accept: Accept, provider: IdentityProvider
) -> None:
    refusal = send(client, "who-knows")
    assert refusal.status_code == 401
    assert "the key is not valid" in refusal.text
    accept(provider.issuer(introspection=provider.introspect(lambda _: (200, {"active": False}))))
    refusal = send(client, "who-knows")
    assert "the token is not valid" in refusal.text


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({}, "send a key as X-API-Key"),
        ({"api-key": "k"}, "send a key as X-API-Key"),
        ({"Authorization": "k"}, "write `Bearer` and a space before the key or the token in Authorization"),
        ({"Authorization": "Basic azo="}, "write `Bearer` and a space before the key"),
        ({"X-Appbuilder-Authorization": "k"}, "before the key or the token in X-Appbuilder-Authorization"),
        ({"Authorization": "Bearer"}, "send a key as X-API-Key"),
        ({"Authorization": ""}, "send a key as X-API-Key"),
        ({"X-API-Key": "Bearer k"}, "write the key or the token alone in X-API-Key"),
        ({"X-API-Key": '"k"'}, "write the key or the token alone in X-API-Key, without quotation marks"),
        ({"Authorization": "Bearer 'k'"}, "alone after one `Bearer`, without quotation marks"),
        ({"Authorization": "Bearer Bearer k"}, "alone after one `Bearer`"),
        ({"X-API-Key": "k"}, "the key is not valid"),
    ],
)
def test_a_refusal_says_how_to_send_a_key(client: TestClient, headers: dict[str, str], words: str) -> None:
    answer = client.post("/", json=request("message/send", {"message": message("hi")}), headers=headers)
    assert answer.status_code == 401
    assert words in answer.text


def test_a_key_in_quotation_marks_reaches_no_issuer(
    client: TestClient, kit: Kit, accept: Accept, provider: IdentityProvider
) -> None:
    asked: list[object] = []

    def introspect(form: object) -> tuple[int, dict[str, bool]]:
        asked.append(form)
        return 200, {"active": False}

    accept(provider.issuer(introspection=provider.introspect(introspect)))
    for secret in (f'"{new_key(kit)}"', f"Bearer {new_key(kit)}"):
        assert "alone after one `Bearer`" in send(client, secret).text
    assert asked == []


@pytest.mark.parametrize("allowed", ["strict", "who"])
def test_no_way_in_is_named_for_an_agent_that_no_issuer_may_call(
    client: TestClient, accept: Accept, provider: IdentityProvider, allowed: str
) -> None:
    accept(provider.issuer(agents=(allowed,)))
    for agent, place in (("strict", "/a2a/strict"), ("who", "/a2a/who"), ("who", "")):
        path = f"/.well-known/oauth-protected-resource{place}"
        challenge = client.get(f"{place}/tasks").headers["www-authenticate"]
        assert (f'{path}"' in challenge) is (agent == allowed)
        assert (client.get(path).status_code == 200) is (agent == allowed)


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
    refusal = client.post("/mcp/strict", json=body)
    assert refusal.status_code == 401
    assert f'resource_metadata="{url}"' in refusal.headers["www-authenticate"]
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
    url = f"{BASE_URL}/.well-known/oauth-protected-resource{path}"
    assert f'resource_metadata="{url}"' in client.post(path, json=body).headers["www-authenticate"]
    assert client.get(url.removeprefix(BASE_URL)).json()["resource"] == f"{BASE_URL}{path}"
    headers = {"Authorization": f"Bearer {provider.token()}"}
    assert 'scope="other"' in client.post(path, json=body, headers=headers).headers["www-authenticate"]


@pytest.mark.parametrize(
    "path", ["/a2a/strict", "/alibaba/strict", "/v2/a2a/strict", "/v2/strict", "/strict/message:send"]
)
def test_every_path_of_an_agent_names_its_scopes(
    client: TestClient, accept: Accept, provider: IdentityProvider, path: str
) -> None:
    accept(provider.issuer(scopes=("call",)))
    answer = client.post(path, json={}, headers={"Authorization": f"Bearer {provider.token()}"})
    challenge = answer.headers["www-authenticate"]
    assert 'scope="call agents.admin"' in challenge
    assert f'resource_metadata="{BASE_URL}/.well-known/oauth-protected-resource/a2a/strict"' in challenge


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


def test_the_audit_has_a_line_for_each_refusal_and_for_the_first_sign_in(
    client: TestClient, kit: Kit, accept: Accept, provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    audit.logged_callers.clear()
    accept(provider.issuer())
    token, expired_token = provider.token(), provider.token(exp=1)
    key, newer_key = new_key(kit, owner="team"), new_key(kit, owner="team")
    limited_key = new_key(kit, owner="team", agents=("who",))
    with caplog.at_level(logging.INFO):
        for secret in (
            token,
            token,
            key,
            key,
            newer_key,
            expired_token,
            "a2a_" + "x" * 43,
            "",
            provider.token(iss="x"),
        ):
            send(client, secret)
        send(client, token, "strict")
        send(client, limited_key, "strict")
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
        {"sign_in": "accepted", "kind": "key", "owner": "team"},
        {"sign_in": "refused", "kind": "token", "issuer": "idp", "client": "robot", "reason": "expired"},
        {"sign_in": "refused", "kind": "key", "reason": "unknown"},
        {"sign_in": "refused", "kind": "none", "reason": "absent"},
        {"sign_in": "refused", "kind": "token", "reason": "issuer"},
        {"sign_in": "refused", "kind": "token", "issuer": "idp", "client": "robot", "reason": "scope"},
        {"sign_in": "accepted", "kind": "key", "owner": "team"},
        {"sign_in": "refused", "kind": "key", "reason": "agent"},
    ]
    names = [record.key_name for record in caplog.records if hasattr(record, "key_name")]
    assert names == [
        entry.label for secret in (key, newer_key, limited_key) if (entry := kit.keys.find(secret))
    ]
    assert len(names) == 3
    for secret in (token, expired_token, key):
        assert secret not in caplog.text
        assert not any(secret in str(vars(record)) for record in caplog.records)


def test_the_metadata_of_an_agent_that_is_not_public_names_only_the_way_in(
    client: TestClient, accept: Accept, provider: IdentityProvider
) -> None:
    accept(provider.issuer())
    path = "/.well-known/oauth-protected-resource/a2a"
    assert client.get(f"{path}/strict").json()["scopes_supported"] == ["agents.admin"]
    metadata = client.get(f"{path}/hidden").json()
    assert metadata["authorization_servers"] == [provider.url]
    assert "resource_name" not in metadata
    assert "scopes_supported" not in metadata, "an empty list would make a client ask for none"


@pytest.mark.parametrize("path", ["/", "/mcp/", "/mcp/strict/", "/a2a/strict/"])
def test_the_metadata_of_a_url_with_a_slash_at_its_end(
    client: TestClient, accept: Accept, provider: IdentityProvider, path: str
) -> None:
    """The resource is the url that the client calls (RFC 9728 section 3.3)."""
    accept(provider.issuer())
    metadata = client.get(f"/.well-known/oauth-protected-resource{path}").json()
    assert metadata["resource"] == BASE_URL + path


def test_whether_an_agent_exists_is_as_public_as_the_default_agents_card(
    kit: Kit, accept: Accept, provider: IdentityProvider
) -> None:
    accept(provider.issuer())
    card = kit.settings.agents / "who" / "card.yaml"
    for is_public in (True, False):
        if not is_public:
            card.write_text(card.read_text() + "public: false\n")
        with TestClient(create_app(Kit(kit.settings)), base_url=BASE_URL) as client:
            metadata, absent_metadata = (
                client.get(f"/.well-known/oauth-protected-resource/a2a/{name}") for name in ("hidden", "nope")
            )
            is_same = metadata.status_code == absent_metadata.status_code
            assert is_same is not is_public
            assert not is_same or metadata.text == absent_metadata.text.replace("nope", "hidden")
            for prefix in ("a2a", "mcp", "alibaba", "v2/a2a", "v2"):
                challenge, absent_challenge = (
                    client.post(f"/{prefix}/{name}", json={}).headers["www-authenticate"]
                    for name in ("hidden", "nope")
                )
                assert (challenge == absent_challenge.replace("nope", "hidden")) is not is_public, prefix
            tenant_paths = [f"/{name}/tasks" for name in ("hidden", "nope")]
            tenants = {client.get(path).headers["www-authenticate"] for path in tenant_paths}
            assert (len(tenants) == 1) is not is_public
            assert client.get("/.well-known/oauth-protected-resource/a2a/v1").status_code == 404


def test_a_container_remembers_so_many_callers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit.logged_callers.clear()
    monkeypatch.setattr(audit, "CALLERS", 2)
    with caplog.at_level(logging.INFO):
        for owner in ("a", "b", "a", "c", "b", "a"):
            audit.log_accepted("key", owner, "", "", "")
    assert [record.owner for record in caplog.records] == ["a", "b", "c", "a"]  # type: ignore[attr-defined]


def test_a_line_has_so_much_of_a_clients_name(caplog: pytest.LogCaptureFixture) -> None:
    """Its issuer may call it anything."""
    with caplog.at_level(logging.INFO):
        audit.log_refused("token", "scope", issuer="idp", client="x" * 600)
    assert [record.client for record in caplog.records] == ["x" * 512]  # type: ignore[attr-defined]
