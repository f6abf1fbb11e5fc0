"""Issuers as Parameter Store has them, and whom their tokens speak for."""

from typing import Any

import pytest

from a2a_lambda.access.issuer import (
    CLIENT_OWNER,
    OWNER_BYTES,
    SUBJECT_OR_CLIENT,
    Issuer,
    client_of,
    is_issuer_row,
    scopes_of,
)
from a2a_lambda.errors import TokenRefused
from a2a_lambda.strictjson import text_in

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


def issuer(**fields: Any) -> Issuer:
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
def test_what_no_release_wrote_is_refused(content: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        Issuer.of_row(["idp", content])


@pytest.mark.parametrize("name", ["iam", "", "a|b", "-a", "a" * 33, "a b"])
def test_a_name_that_no_issuer_may_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not an issuer"):
        Issuer.of_row([name, {"url": URL, "audiences": ["a"]}])


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
    for claims in ({"azp": "app"}, {"azp": "app", "sub": "ann"}, {"azp": "app", "sub": "app"}):
        assert client_issuer.owner_of(claims) == "idp|client:app"


def test_a_client_owns_the_tasks_of_tokens_without_a_subject_if_the_operator_says_so() -> None:
    mixed_issuer = issuer(owner_claim=SUBJECT_OR_CLIENT)
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
def test_a_token_without_an_owner_is_refused(claim: str, claims: Any) -> None:
    with pytest.raises(TokenRefused, match="names the owner") as error:
        issuer(owner_claim=claim).owner_of(claims)
    assert error.value.reason == "owner"


def test_an_owner_has_a_maximum_length() -> None:
    room = OWNER_BYTES - len("idp|sub:")
    assert len(issuer().owner_of({"sub": "x" * room})) == OWNER_BYTES
    with pytest.raises(TokenRefused, match="too long"):
        issuer().owner_of({"sub": "x" * (room + 1)})


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
