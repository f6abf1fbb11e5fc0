"""What callers send to be let in, and what it allows."""

import pytest

from a2a_lambda.access.credentials import Grant, is_token
from a2a_lambda.errors import Forbidden, InsufficientScope
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.tasks.identity import Namespace

PERSON = Caller("ann", kind="token", scopes=("read", "write"))


@pytest.mark.parametrize(
    ("secret", "has_form"),
    [("eyJ.a.b", True), ("eyJ.a", False), ("eyJ.a.b.c", False), ("abc.a.b", False), ("", False)],
)
def test_a_token_has_three_parts(secret: str, has_form: bool) -> None:
    assert is_token(secret) is has_form


def test_a_grant_without_agents_allows_all() -> None:
    assert Grant(Caller("ann")).namespace("weather", []) == Namespace("ann", "weather")


def test_a_grant_with_agents_allows_no_other() -> None:
    grant = Grant(Caller("ann"), agents=("weather",))
    assert grant.namespace("weather", []) == Namespace("ann", "weather")
    with pytest.raises(Forbidden, match="'trip'"):
        grant.namespace("trip", [])


@pytest.mark.parametrize("scopes", [[], ["read"], ["write", "read"]])
def test_a_token_with_the_agents_scopes_is_let_in(scopes: list[str]) -> None:
    assert Grant(PERSON).namespace("weather", scopes) == Namespace("ann", "weather")


def test_a_token_that_lacks_a_scope_is_told_all_that_it_needs() -> None:
    """The scopes of its issuer are among them, so that a client which asks for these gets in."""
    with pytest.raises(InsufficientScope) as error:
        Grant(PERSON, scopes=("read",)).namespace("weather", ["write", "admin"])
    assert list(error.value.scopes) == ["read", "write", "admin"]


def test_a_key_needs_no_scope() -> None:
    assert Grant(Caller("ann")).namespace("weather", ["admin"]) == Namespace("ann", "weather")
