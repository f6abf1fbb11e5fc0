"""Issuers as Parameter Store has them, and whom their tokens speak for."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from a2a_lambda.access.issuer import (
    CLIENT_OWNER,
    COMMON_CLAIMS,
    DISPLAY_CLAIMS,
    OWNER_BYTES,
    SUBJECT_OR_CLIENT,
    Issuer,
    check_issuer,
    check_url,
    client_of,
    is_issuer_row,
    scopes_of,
)
from a2a_lambda.access.issuer_register import IssuerRegister
from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError, KeysUnavailable, TokenRefused
from a2a_lambda.settings import Settings
from a2a_lambda.strictjson import text_in

Json = Any

URL = "https://idp.example"

GOOGLE = "https://oauth2.googleapis.com/tokeninfo"

FULL = Issuer(
    name="idp",
    url=URL,
    audiences=("a", "b"),
    owner_claim="oid",
    scopes=("s",),
    agents=("weather",),
    claims=("tenant",),
    private=True,
    introspection="https://idp.example/introspect",
    client="c",
    secret="NAME",
    metadata="https://idp.example/.well-known/oauth-authorization-server",
)


def issuer(**fields: Json) -> Issuer:
    return Issuer(**{"name": "idp", "url": URL, "audiences": ("a",), **fields})


@pytest.mark.parametrize("example", [issuer(), FULL], ids=["smallest", "full"])
def test_a_parameter_and_a_row_bring_an_issuer_back(example: Issuer) -> None:
    assert Issuer.of_parameter(example.name, example.parameter()) == example
    assert Issuer.of_row(example.row()) == example


def test_what_is_stored_has_only_what_was_said() -> None:
    assert issuer().row() == ["idp", {"url": URL, "audiences": ["a"]}]
    assert is_issuer_row(issuer().row())
    assert not is_issuer_row(["label", "digest", "owner", None, [], False])


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"url": "", "audiences": ["a"]},
        {"url": URL, "audiences": []},
        {"url": 1, "audiences": ["a"]},
        {"url": URL, "audiences": "a"},
        {"url": URL, "audiences": [1]},
        {"url": URL, "audiences": ["a"], "scopes": {}},
        {"url": URL, "audiences": ["a"], "private": "no"},
        {"url": URL, "audiences": ["a"], "secret": 1},
        {"url": URL, "audiences": ["a"], "metadata": 1},
        {"url": URL, "audiences": ["a"], "unknown": 1},
    ],
)
def test_what_no_release_wrote_is_refused(content: Json) -> None:
    with pytest.raises((ValueError, TypeError)):
        Issuer.of_row(["idp", content])


@pytest.mark.parametrize("name", ["iam", "", "a|b", "-a", "a" * 33, "a b"])
def test_a_name_that_no_issuer_may_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not an issuer"):
        Issuer.of_row([name, {"url": URL, "audiences": ["a"]}])
    with pytest.raises(ConfigurationError, match="name"):
        check_issuer(issuer(name=name), is_local=False)


def test_the_owner_is_the_subject_or_a_claim() -> None:
    assert issuer().owner_of({"sub": "ann"}) == "idp|sub:ann"
    assert issuer().owner_of({"sub": "ann", "client_id": "app"}) == "idp|sub:ann"
    assert issuer(owner_claim="oid").owner_of({"oid": "1|2", "sub": "ann"}) == "idp|oid:1%7C2"
    assert issuer().owner_of({"sub": "a@b/ü"}) == "idp|sub:a@b%2F%C3%BC"


@pytest.mark.parametrize("subject", ["app", "app@clients"])
def test_a_program_that_signs_in_by_itself_owns_as_its_client(subject: str) -> None:
    claims = {"azp": "app", "sub": subject}
    assert issuer().owner_of(claims) == "idp|client:app"


def test_a_client_owns_the_tasks_of_all_its_tokens_if_the_operator_says_so() -> None:
    client_issuer = issuer(owner_claim=CLIENT_OWNER)
    check_issuer(client_issuer, is_local=False)
    for claims in ({"azp": "app"}, {"azp": "app", "sub": "ann"}, {"azp": "app", "sub": "app"}):
        assert client_issuer.owner_of(claims) == "idp|client:app"


def test_a_client_owns_the_tasks_of_tokens_without_a_subject_if_the_operator_says_so() -> None:
    mixed_issuer = issuer(owner_claim=SUBJECT_OR_CLIENT)
    check_issuer(mixed_issuer, is_local=False)
    for claims in ({"azp": "app"}, {"azp": "app", "sub": "app"}, {"azp": "app", "sub": "app@clients"}):
        assert mixed_issuer.owner_of(claims) == "idp|client:app"
    assert mixed_issuer.owner_of({"azp": "app", "sub": "ann"}) == "idp|sub:ann"


@pytest.mark.parametrize(
    ("claim", "claims"),
    [
        *(
            (SUBJECT_OR_CLIENT, {"azp": "app", name: "x"})
            for name in ("username", "Username", "sid", "auth_time")
        ),
        (SUBJECT_OR_CLIENT, {"azp": "app", "sub": ""}),
        (SUBJECT_OR_CLIENT, {}),
        ("", {}),
        ("", {"azp": "app"}),
        ("", {"azp": "app", "sub": ""}),
        ("", {"azp": "app", "sub": 17}),
        ("oid", {"sub": "ann"}),
        ("oid", {"oid": 1}),
        (CLIENT_OWNER, {"sub": "ann"}),
    ],
)
def test_a_token_without_an_owner_is_refused(claim: str, claims: Json) -> None:
    with pytest.raises(TokenRefused, match="names the owner") as error:
        issuer(owner_claim=claim).owner_of(claims)
    assert error.value.reason == "owner"


def test_an_owner_has_a_maximum_length() -> None:
    room = OWNER_BYTES - len("idp|sub:")
    assert len(issuer().owner_of({"sub": "x" * room})) == OWNER_BYTES
    with pytest.raises(TokenRefused, match="too long"):
        issuer().owner_of({"sub": "x" * (room + 1)})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"url": "http://idp.example"}, "ISSUER=http"),
        ({"url": "https://<tenant>.example/"}, "replace what is in angle brackets"),
        ({"url": "https://login.microsoftonline.com/common/v2.0"}, "write its id instead of common"),
        ({"url": "https://login.microsoftonline.com/consumers"}, "write its id instead of consumers"),
        ({"introspection": "http://idp.example"}, "INTROSPECTION=http"),
        ({"client": "c"}, "are for INTROSPECTION"),
        ({"secret": "NAME"}, "are for INTROSPECTION"),
        ({"introspection": URL, "client": "c"}, "belong together"),
        ({"introspection": URL, "secret": "NAME"}, "belong together"),
        (
            {"introspection": "https://oauth2.googleapis.com/tokeninfo", "client": "c", "secret": "N"},
            "Google",
        ),
        *(
            ({"introspection": f"https://{other_url}"}, f"INTROSPECTION=.*: write {GOOGLE}")
            for other_url in (
                "oauth2.googleapis.com/tokeninfo/",
                "www.googleapis.com/oauth2/v3/tokeninfo",
                "accounts.google.com/o/oauth2/tokeninfo",
            )
        ),
        ({"audiences": ()}, "AUDIENCE"),
        ({"scopes": ("agents.call", "读取")}, "SCOPE=读取: no token can have this scope"),
        ({"scopes": ('a"b',)}, "no token can have this scope"),
        ({"owner_claim": "oid,client"}, "write one claim, or sub,client"),
        *(({"owner_claim": claim}, "another person") for claim in DISPLAY_CLAIMS),
        *(({"owner_claim": claim}, "many callers") for claim in COMMON_CLAIMS),
    ],
)
def test_an_operators_mistake_is_explained(changes: Json, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        check_issuer(issuer(**changes), is_local=False)


def test_a_valid_issuer_is_accepted() -> None:
    check_issuer(issuer(), is_local=False)
    check_issuer(FULL, is_local=False)
    check_issuer(issuer(introspection=URL), is_local=False)
    check_issuer(issuer(introspection=GOOGLE), is_local=False)
    for other_url in (
        "https://idp.example/googleapis.com/introspect",
        "https://sts.googleapis.com/v1/introspect",
    ):
        check_issuer(issuer(introspection=other_url, client="c", secret="N"), is_local=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_only_a_local_server_may_ask_an_issuer_on_this_machine_without_tls(host: str) -> None:
    check_url(f"http://{host}:8080", is_local=True)
    with pytest.raises(ConfigurationError, match="https"):
        check_url(f"http://{host}:8080", is_local=False)
    with pytest.raises(ConfigurationError, match="https"):
        check_url("http://idp.example", is_local=True)
    with pytest.raises(ConfigurationError, match="https"):
        check_url(f"ftp://{host}", is_local=True)


@pytest.mark.parametrize("url", [f"{URL}:abc", f"{URL}:99999", "https://[::1"])
def test_a_malformed_url_is_explained(url: str) -> None:
    with pytest.raises(ConfigurationError, match="not a valid URL"):
        check_url(url, is_local=False)


@pytest.mark.parametrize("url", [f"{URL}/?a=1", f"{URL}/#a", "https://user@host", "https://"])
def test_a_url_has_no_query_fragment_or_user(url: str) -> None:
    with pytest.raises(ConfigurationError, match="without a query"):
        check_url(url, is_local=False)


def test_the_client_is_the_first_claim_that_names_one() -> None:
    assert client_of({"cid": "okta", "appid": "entra", "azp": "oidc", "client_id": "rfc"}) == "rfc"
    assert client_of({"cid": "okta", "appid": "entra", "client_id": ""}) == "entra"
    assert client_of({"cid": "okta"}) == "okta"
    assert client_of({"azp": 1}) == ""


def test_scopes_are_texts_or_lists() -> None:
    claims = {"scope": "a  b", "scp": ["b", "c", 1, ""], "roles": {"d": 1}, "permissions": ["e"]}
    assert scopes_of(claims) == ("a", "b", "c", "e")
    assert scopes_of({}) == ()
    assert scopes_of({"scope": "x\u00a0agents.admin"}) == ("x\u00a0agents.admin",), "only a space separates"


def test_a_claim_that_is_no_text_is_empty() -> None:
    assert text_in({"a": 1}, "a") == text_in({}, "a") == ""


def test_an_issuer_is_added_replaced_listed_and_removed(settings: Settings) -> None:
    register = IssuerRegister(clients.ssm(settings), "/registered/keys")
    issuer, other = (Issuer(name, URL, ("a",)) for name in ("one", "other"))
    register.add(issuer)
    register.add(other)
    assert sorted(each.name for each in register.list()) == ["one", "other"]
    register.add(replace(issuer, audiences=("b",)))
    register.remove("other")
    assert [each.audiences for each in register.list()] == [("b",)]
    with pytest.raises(ConfigurationError, match="there is no issuer 'other'"):
        register.remove("other")
    register.remove("one")
    assert register.list() == []


def test_issuers_that_cannot_be_read_are_not_an_empty_list(caplog: pytest.LogCaptureFixture) -> None:
    """The operator is told once why."""
    client = Mock()
    text = "not authorized to perform: ssm:GetParametersByPath on x"
    error = ClientError({"Error": {"Code": "AccessDeniedException", "Message": text}}, "GetParametersByPath")
    client.get_parameters_by_path.side_effect = error
    with pytest.raises(KeysUnavailable, match=r"not authorized to perform: ssm:GetParametersByPath"):
        IssuerRegister(client, "/k").list()
    assert caplog.records == []
