"""What a card of any kind makes of an agent's address and its key."""

import pytest

from a2a_lambda.client import BearerToken, Refused, Undiscovered, discovery
from a2a_lambda.protocol.model import Json
from tests.conftest import BASE_URL


@pytest.mark.parametrize(
    "card",
    [
        {"url": "https://evil.example.org/", "protocolVersion": "0.3.0"},
        {"url": "https://agents.example.com:8443/", "protocolVersion": "0.3.0"},
        {"url": "http://agents.example.com/", "protocolVersion": "0.3.0"},
    ],
)
def test_a_card_that_sends_its_callers_elsewhere(card: Json) -> None:
    with pytest.raises(Refused):
        discovery.agent_of_card(card, f"{BASE_URL}/.well-known/agent-card.json", "key")


def test_the_key_stays_at_home() -> None:
    source = f"{BASE_URL}/.well-known/agent-card.json"
    card = {"url": "https://partner.example.org/", "protocolVersion": "0.3.0"}
    assert discovery.agent_of_card(card, source, "key", ["partner.example.org"]).headers == {}
    card = {"url": f"{BASE_URL}/", "protocolVersion": "0.3.0"}
    assert discovery.agent_of_card(card, source, "key").headers == {"Authorization": "Bearer key"}
    schemes: Json = {"k": {"type": "apiKey", "in": "header", "name": "X-Its-Own"}}
    asks = card | {"securitySchemes": schemes}
    assert discovery.agent_of_card(asks, source, "key").headers == {"X-Its-Own": "key"}
    token = BearerToken("token")
    assert discovery.agent_of_card(asks, source, token).headers == {"Authorization": "Bearer token"}


HOSTILE_CARDS: list[Json] = [
    {"url": BASE_URL.replace("://", "://u:p@"), "protocolVersion": "0.3.0"},
    {"url": f"{BASE_URL}/\x00", "protocolVersion": "0.3.0"},
    {"url": f"{BASE_URL}/", "protocolVersion": "0.3.0", "preferredTransport": "GRPC"},
    {"url": "/a2a", "protocolVersion": "0.3.0"},
    {"url": 5, "protocolVersion": [], "additionalInterfaces": 5, "preferredTransport": "GRPC"},
]


@pytest.mark.parametrize("card", HOSTILE_CARDS)
def test_a_hostile_card_is_none(card: Json) -> None:
    with pytest.raises(Undiscovered):
        discovery.agent_of_card(card, f"{BASE_URL}/.well-known/agent-card.json", "key")


@pytest.mark.parametrize("name", ["X-K\xe9y", "Host", "Content-Length", "a b", "", 5])
def test_the_key_goes_in_no_odd_header(name: Json) -> None:
    schemes: Json = {
        "a": {"apiKeySecurityScheme": "x"},
        "k": {"type": "apiKey", "in": "header", "name": name},
    }
    card = {"url": f"{BASE_URL}/", "protocolVersion": "0.3.0", "securitySchemes": schemes}
    agent = discovery.agent_of_card(card, f"{BASE_URL}/.well-known/agent-card.json", "key")
    assert agent.headers == {"Authorization": "Bearer key"}


@pytest.mark.parametrize(
    "card", [[], {}, {"url": f"{BASE_URL}/", "protocolVersion": "7.0"}, {"supportedInterfaces": [1]}]
)
def test_a_card_no_one_can_go_by(card: Json) -> None:
    with pytest.raises(Undiscovered):
        discovery.agent_of_card(card, f"{BASE_URL}/.well-known/agent-card.json", None)


def test_the_url_of_a_card_may_have_a_query() -> None:
    assert discovery.card_urls("https://a.example/card.json?x=1") == ("https://a.example/card.json?x=1",)
    first_url = discovery.card_urls("https://a.example/invocations/?qualifier=DEFAULT")[0]
    assert first_url == "https://a.example/invocations/.well-known/agent-card.json?qualifier=DEFAULT"
