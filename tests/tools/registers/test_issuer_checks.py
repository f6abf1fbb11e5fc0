"""What an operator may add as an issuer."""

from typing import Any

import pytest

from a2a_lambda.access.issuer import CLIENT_OWNER, DISPLAY_CLAIMS, SUBJECT_OR_CLIENT, Issuer
from a2a_lambda.errors import ConfigurationError
from tools.registers.issuer_checks import COMMON_CLAIMS, check_issuer, check_url

URL = "https://idp.example"

GOOGLE = "https://oauth2.googleapis.com/tokeninfo"


def issuer(**fields: Any) -> Issuer:
    return Issuer(**{"name": "idp", "url": URL, "audiences": ("a",), **fields})


@pytest.mark.parametrize("name", ["iam", "", "a|b", "-a", "a" * 33, "a b"])
def test_a_name_that_no_issuer_may_have_is_explained(name: str) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        check_issuer(issuer(name=name), is_local=False)


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
def test_an_operators_mistake_is_explained(changes: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        check_issuer(issuer(**changes), is_local=False)


def test_a_valid_issuer_is_accepted() -> None:
    check_issuer(issuer(), is_local=False)
    check_issuer(issuer(owner_claim=CLIENT_OWNER, scopes=("s",), claims=("tenant",)), is_local=False)
    check_issuer(issuer(owner_claim=SUBJECT_OR_CLIENT, private=True), is_local=False)
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


def test_a_url_has_no_white_space() -> None:
    with pytest.raises(ConfigurationError, match="without white space"):
        check_url("https://ex ample.com", is_local=False)


@pytest.mark.parametrize("url", [f"{URL}/?a=1", f"{URL}/#a", "https://user@host", "https://"])
def test_a_url_has_no_query_fragment_or_user(url: str) -> None:
    with pytest.raises(ConfigurationError, match="without a query"):
        check_url(url, is_local=False)
