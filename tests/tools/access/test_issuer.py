"""make issuer, and the token that other commands sign in with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwk
from pytest_httpserver import HTTPServer

from a2a_lambda.access.issuer import Issuer
from a2a_lambda.access.keys import Keys
from a2a_lambda.aws import clients, parameters
from a2a_lambda.client.keys import card_headers
from a2a_lambda.errors import ConfigurationError, ConfigurationUnavailable
from a2a_lambda.settings import Settings
from tests.access.tokens.identity_provider import AUDIENCE, IdentityProvider
from tests.access.unshared_copies import UnsharedKeyCopies
from tests.conftest import ROOT
from tools import state
from tools.access import issuer
from tools.build.built_functions import free_port
from tools.state import key_for, state_file

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs the command beside a development server; returns its exit status, and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(state, "is_listening", lambda port: True)
    state_file(8080).write_text(json.dumps({"emulator": settings.emulator, "port": 8080}))
    monkeypatch.setenv("A2A_AGENTS", str(ROOT / "tests/agents"))

    def run(**environ: str) -> tuple[int, str]:
        status = issuer.main({"A2A_KEYS_PATH": f"/{tmp_path.name}/keys", **environ})
        streams = capsys.readouterr()
        return status, streams.out + streams.err

    return run


@pytest.fixture
def provider(httpserver: HTTPServer) -> IdentityProvider:
    return IdentityProvider(httpserver)


def test_an_issuer_is_added_changed_and_removed(
    run: Run, provider: IdentityProvider, settings: Settings, tmp_path: Path
) -> None:
    assert "no issuers, so only keys are accepted" in run()[1]
    status, output = run(NAME="idp", ISSUER=provider.url, AUDIENCE=f"{AUDIENCE} b", SCOPE="x,y", CLAIMS="tid")
    assert (status, "public keys: 1." in output) == (0, True)
    keys = Keys(clients.ssm(settings), f"/{tmp_path.name}/keys", UnsharedKeyCopies())
    assert keys.find_issuers() == (
        Issuer("idp", provider.url, (AUDIENCE, "b"), scopes=("x", "y"), claims=("tid",)),
    )
    run(NAME="idp", ISSUER=provider.url, AUDIENCE=AUDIENCE, OWNER="oid")
    assert f"audience {AUDIENCE}  owner oid  scopes none  agents all" in run()[1]
    assert "idp already has this ISSUER" in run(NAME="b", ISSUER=provider.url, AUDIENCE="a")[1]
    other = run(NAME="idp", ISSUER="https://idp.example", AUDIENCE=AUDIENCE)
    assert f"idp has another ISSUER, {provider.url}." in other[1]
    assert "removed idp" in run(NAME="idp", REMOVE="1")[1]
    assert run(NAME="idp", REMOVE="1") == (1, "error: there is no issuer 'idp'\n")


@pytest.mark.parametrize("content", ["", "[]", "{", "{}"])
def test_a_damaged_state_of_the_server_is_one_sentence(run: Run, content: str) -> None:
    state_file(8080).write_text(content)
    assert run() == (1, "error: .local-8080.json is damaged: delete it, and start make run again\n")


def test_one_of_several_servers_is_named_by_its_port(
    run: Run, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was killed has left its file, which does not count."""
    listening = {8080, 8090}
    monkeypatch.setattr(state, "is_listening", lambda port: port in listening)
    for port in (8090, 8091):
        state_file(port).write_text(json.dumps({"emulator": settings.emulator, "port": port}))
    several = "error: several development servers are running: add PORT=8080 or PORT=8090\n"
    assert run() == (1, several)
    assert run(PORT="8090")[0] == 0
    none = "error: no development server has PORT=8091: write PORT=8080 or PORT=8090\n"
    assert run(PORT="8091") == (1, none)
    listening.remove(8080)
    assert run()[0] == 0
    listening.clear()
    assert "no development server with an emulator is running" in run()[1]


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"ISSUER": "https://x"}, "ISSUER requires NAME"),
        ({"NAME": "a"}, "add ISSUER=…"),
        ({"NAME": "a", "ISSUER": "https://x"}, "add AUDIENCE=…"),
        ({"NAME": "a|b", "ISSUER": "https://x", "AUDIENCE": "a"}, "the name of an issuer is"),
        ({"NAME": "a", "ISSUER": "http://login.example.com", "AUDIENCE": "a"}, "begins with https://"),
        ({"NAME": "a", "ISSUER": "https://x?y=1", "AUDIENCE": "a"}, "without a query"),
        ({"NAME": "a", "ISSUER": "https://x", "AUDIENCE": "a", "OWNER": "email"}, "choose sub, oid or uid"),
        ({"NAME": "a", "ISSUER": "https://x", "AUDIENCE": "a", "AGENTS": "nobody"}, "no agent 'nobody'"),
        ({"NAME": "a", "ISSUER": "https://x", "AUDIENCE": "a", "AGENTS": "."}, "no agent '.'"),
        ({"NAME": "a", "ISSUER": "https://[::1", "AUDIENCE": "a"}, "this is not a valid URL"),
    ],
)
def test_a_mistake_says_what_to_write(run: Run, environ: dict[str, str], words: str) -> None:
    status, output = run(**environ)
    assert status == 1
    assert words in output


def test_another_spelling_of_the_issuer_is_told_at_once(run: Run, provider: IdentityProvider) -> None:
    provider.metadata["issuer"] += "/"
    status, output = run(NAME="idp", ISSUER=provider.url, AUDIENCE="a")
    assert status == 1
    assert f"names the issuer '{provider.url}/': write exactly that" in output


def test_an_issuer_that_only_the_functions_reach_is_added(run: Run, provider: IdentityProvider) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    status, output = run(NAME="idp", ISSUER=url, AUDIENCE="a")
    assert (status, "refused until it answers" in output) == (0, True)
    provider.answers = False
    status, output = run(NAME="other", ISSUER=provider.url, AUDIENCE="a")
    assert (status, "openid-configuration has the status 503" in output) == (1, True)


def test_an_issuer_that_has_no_metadata_of_openid_is_added_with_its_own(
    run: Run, provider: IdentityProvider, settings: Settings, tmp_path: Path
) -> None:
    """Cards lead to it."""
    provider.metadata["issuer"] = url = provider.server.url_for("/oauth")
    place = "/.well-known/oauth-authorization-server/oauth"
    provider.server.expect_request(place).respond_with_json(provider.metadata)
    assert run(NAME="idp", ISSUER=url, AUDIENCE="a")[0] == 0
    [issuer] = Keys(clients.ssm(settings), f"/{tmp_path.name}/keys", UnsharedKeyCopies()).find_issuers()
    assert issuer.metadata == provider.server.url_for(place)


def test_an_issuer_of_opaque_tokens_is_asked_at_once(
    run: Run, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_IDP", "hush")
    answers = [(200, {"active": False}), (401, {}), (200, {})]
    url = provider.introspect(lambda request: answers[0])
    variables = {
        "ISSUER": provider.url,
        "AUDIENCE": "a",
        "INTROSPECTION": url,
        "CLIENT": "kit",
        "SECRET": "idp",
    }
    status, output = run(NAME="idp", **variables)
    assert (status, "it answers questions about tokens" in output) == (0, True)
    assert f"introspection {url}  client kit  secret idp" in run()[1]
    second = {**variables, "ISSUER": "https://b.example.com"}
    assert "idp has INTROSPECTION already, and only one issuer can" in run(NAME="b", **second)[1]
    for words in ("check CLIENT and SECRET", "has no `active`"):
        answers.pop(0)
        assert words in run(NAME="idp", **variables)[1]
    assert "add INTROSPECTION" in run(NAME="idp", **{**variables, "INTROSPECTION": ""})[1]
    assert "belong together" in run(NAME="idp", **{**variables, "SECRET": ""})[1]
    assert "make secret NAME=other" in run(NAME="idp", **{**variables, "SECRET": "other"})[1]


def test_an_endpoint_that_may_be_another_one_is_doubted(run: Run, provider: IdentityProvider) -> None:
    """Some issuers answer 400 to a question about a token of a form that they do not know, and so does an
    endpoint of another kind. Clients read the metadata of ISSUER, which tokens do not need."""
    url = provider.introspect(lambda request: (400, {"error": "invalid_request"}))
    status, output = run(NAME="idp", ISSUER=provider.url, AUDIENCE="a", INTROSPECTION=url)
    assert (status, "Check that INTROSPECTION is the URL of its introspection endpoint" in output) == (
        0,
        True,
    )
    url = provider.introspect(lambda request: (200, {"active": False}), "other")
    run(NAME="idp", REMOVE="1")
    status, output = run(
        NAME="idp", ISSUER=f"{provider.url}/typo", AUDIENCE="a", INTROSPECTION=url, PRIVATE="1"
    )
    assert (status, "Warning: clients cannot sign in" in output) == (0, True)
    assert "private 1" in run()[1]


@pytest.mark.parametrize("kind", ["P-384", "oct", ""])
def test_an_issuer_none_of_whose_keys_can_be_used_is_refused(
    run: Run, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    key: Any = jwk.ECKey.generate_key("P-384") if kind == "P-384" else jwk.OctKey.generate_key()
    monkeypatch.setattr(provider, "publish", lambda _: key.as_dict(private=kind == "oct"))
    if not kind:
        provider.keys.clear()
    status, output = run(NAME="idp", ISSUER=provider.url, AUDIENCE="a")
    assert (status, "has no public key for RS256, PS256, ES256, EdDSA, Ed25519" in output) == (1, True)


def test_an_operator_need_not_read_the_secret(
    run: Run, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The functions may read it in Secrets Manager."""
    monkeypatch.setenv("SECRET_IDP", "arn:aws:secretsmanager:eu-central-1:123456789012:secret:idp-AbCdEf")

    def refuse(arn: str) -> str:
        raise ConfigurationUnavailable(f"{arn} could not be read: AccessDeniedException")

    monkeypatch.setattr(parameters, "get_secret", refuse)
    variables = {"ISSUER": provider.url, "AUDIENCE": "a", "CLIENT": "kit", "SECRET": "idp"}
    url = provider.introspect(lambda request: (200, {"active": False}))
    status, output = run(NAME="idp", **variables, INTROSPECTION=url)
    assert (status, "AccessDeniedException. The issuer is saved, but was not asked" in output) == (0, True)
    assert f"introspection {url}" in run()[1]


def test_a_token_may_come_from_a_command() -> None:
    url = "https://agents.example.com"
    assert key_for(url, {"TOKEN": "t"}) == "t"
    assert key_for(url, {"TOKEN_COMMAND": "echo from-a-command"}) == "from-a-command"
    assert key_for(url, {"KEY": "k", "TOKEN": "t"}) == "k"
    for environ in ({"TOKEN": "t"}, {"TOKEN_COMMAND": "echo t"}):
        assert card_headers(key_for(url, environ)) == {"Authorization": "Bearer t"}, "it may be opaque"
    with pytest.raises(ConfigurationError, match="exited with 3"):
        key_for(url, {"TOKEN_COMMAND": "exit 3"})
    with pytest.raises(ConfigurationError, match="a token and nothing else"):
        key_for(url, {"TOKEN_COMMAND": 'echo \'{"access_token": "a"}\''})
