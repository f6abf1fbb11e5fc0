"""A client that signs in: with a token of an identity provider, or with its AWS role."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import httpx2
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from a2a_lambda.aws import clients
from a2a_lambda.client import AgentError, AwsSignature, Client, ClientCredentials, SignInFailed
from a2a_lambda.client import auth as client_auth
from a2a_lambda.strictjson import loads
from tests.conftest import BASE_URL, replace_in

TOKEN_URL = "https://login.example.com/token"


def card_at(url: str) -> Any:
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {"name": "Other", "supportedInterfaces": [interface]}


class Elsewhere(httpx2.AsyncBaseTransport):
    """An agent, and an identity provider. tokens: what it gives, in order. accepted: tokens that the agent
    accepts; None = all."""

    def __init__(self, *tokens: Any, url: str = BASE_URL) -> None:
        self.card = card_at(url)
        self.tokens = list(tokens)
        self.accepted: list[str] | None = None
        self.asked: list[httpx2.Request] = []
        self.called: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if str(request.url) == TOKEN_URL:
            self.asked.append(request)
            await asyncio.sleep(0)
            answer = self.tokens.pop(0)
            return httpx2.Response(answer.pop("status", 200), json=answer)
        self.called.append(request)
        if request.url.path.endswith(".json"):
            return httpx2.Response(200, json=self.card)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.accepted is not None and token not in self.accepted:
            return httpx2.Response(401, json={})
        body = loads(await request.aread())
        task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
        return httpx2.Response(200, json={"jsonrpc": "2.0", "id": body["id"], "result": {"task": task}})


@pytest.fixture(autouse=True)
def forget_tokens() -> None:
    client_auth._tokens.clear()


def sign_in(**options: str) -> ClientCredentials:
    return ClientCredentials(TOKEN_URL, "me", "my secret", scope="agents.call", **options)


def send(elsewhere: Elsewhere, times: int = 1, make: Callable[[], httpx2.Auth] = sign_in) -> list[Any]:
    """Outcomes of so many calls at once, each of a client of its own."""

    async def call() -> Any:
        async with Client(BASE_URL, auth=make(), transport=elsewhere) as client:
            return await client.send("hi")

    async def go() -> list[Any]:
        return await asyncio.gather(*(call() for _ in range(times)), return_exceptions=True)

    return asyncio.run(go())


def test_a_token_is_fetched_once_for_many_calls() -> None:
    elsewhere = Elsewhere({"access_token": "one", "expires_in": 600})
    assert all(outcome["id"] == "t" for outcome in send(elsewhere, 20))
    send(elsewhere)
    [request] = elsewhere.asked
    assert request.headers["authorization"] == "Basic bWU6bXkrc2VjcmV0", (
        "me:my+secret (RFC 6749 section 2.3.1)"
    )
    assert request.headers["user-agent"], "firewalls want one"
    form = parse_qs(request.content.decode())
    assert form == {"grant_type": ["client_credentials"], "scope": ["agents.call"]}
    assert {call.headers["authorization"] for call in elsewhere.called} == {"Bearer one"}


def test_what_is_shared_ends_with_its_event_loop() -> None:
    """A synchronous skill that calls `asyncio.run` has a new loop in each turn."""
    tokens = [{"access_token": str(number), "expires_in": 0} for number in range(6)]
    elsewhere = Elsewhere(*tokens)
    for _ in range(3):
        send(elsewhere, 2)
    [token] = client_auth._tokens.values()
    gc.collect()
    assert not token.locks


def test_of_very_many_programs_the_oldest_token_is_forgotten() -> None:
    for number in range(client_auth.MAX_CACHED_TOKENS):
        ClientCredentials(TOKEN_URL, f"program {number}", "secret")
    oldest, second, *_ = client_auth._tokens
    ClientCredentials(TOKEN_URL, "program 0", "secret")
    assert oldest in client_auth._tokens, "one that is there makes no room"
    ClientCredentials(TOKEN_URL, "another", "secret")
    assert oldest not in client_auth._tokens
    assert second in client_auth._tokens
    assert len(client_auth._tokens) == client_auth.MAX_CACHED_TOKENS


def test_an_identity_provider_that_is_away_is_named() -> None:
    """The error does not blame the agent, which answers."""

    class Away(Elsewhere):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if str(request.url) == TOKEN_URL:
                raise httpx2.ConnectError("refused", request=request)
            return await super().handle_async_request(request)

    async def go() -> None:
        sign_in = ClientCredentials(TOKEN_URL, "id", "secret")
        async with Client(BASE_URL, auth=sign_in, transport=Away()) as agent:
            await agent.send("hi")

    with pytest.raises(AgentError, match=f"^{TOKEN_URL}: ConnectError"):
        asyncio.run(go())


def test_a_token_is_renewed_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    replace_in(client_auth, time, monkeypatch, monotonic=lambda: now)
    elsewhere = Elsewhere(
        {"access_token": "one", "expires_in": 600}, {"access_token": "two", "expires_in": 60}
    )
    send(elsewhere)
    now += 539
    send(elsewhere)
    assert len(elsewhere.asked) == 1
    now += 1
    send(elsewhere)
    assert elsewhere.called[-1].headers["authorization"] == "Bearer two"
    now += 29
    send(elsewhere)
    assert len(elsewhere.asked) == 2


def test_a_token_that_was_withdrawn_is_replaced_at_the_next_call() -> None:
    elsewhere = Elsewhere({"access_token": "one"}, {"access_token": "two"})
    elsewhere.accepted = ["two"]
    [first] = send(elsewhere)
    assert first.status == 401
    [second] = send(elsewhere)
    assert second["id"] == "t"


def test_a_late_refusal_of_the_old_token_leaves_the_new_one() -> None:
    elsewhere = Elsewhere({"access_token": "one"}, {"access_token": "two"})

    async def go() -> None:
        calls = [sign_in().async_auth_flow(httpx2.Request("POST", BASE_URL)) for _ in range(3)]

        async def authorize(call: Any) -> str:
            request = await anext(call)
            if str(request.url) == TOKEN_URL:
                request = await call.asend(await elsewhere.handle_async_request(request))
            return str(request.headers["authorization"])

        async def refuse(call: Any) -> None:
            with pytest.raises(StopAsyncIteration):
                await call.asend(httpx2.Response(401))

        slow, fast, last = calls
        assert [await authorize(slow), await authorize(fast)] == ["Bearer one"] * 2
        await refuse(fast)
        flow = sign_in().async_auth_flow(httpx2.Request("POST", BASE_URL))
        assert await authorize(flow) == "Bearer two"
        await refuse(slow)
        assert await authorize(last) == "Bearer two"

    asyncio.run(go())


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 401, "error": "invalid_client"},
        {"status": 200, "token_type": "Bearer"},
        {"status": 200, "access_token": 7},
        {"status": 500},
    ],
)
def test_a_refusal_says_why_and_no_secret(answer: Any) -> None:
    elsewhere = Elsewhere({**answer})
    [outcome] = send(elsewhere)
    assert isinstance(outcome, SignInFailed)
    assert f"{TOKEN_URL}: status {answer['status']}, {answer.get('error', 'no token')}" == str(outcome)
    assert elsewhere.called == []


class Endless(httpx2.AsyncByteStream):
    """An answer of 100 MB. sent_bytes: bytes that were sent so far."""

    sent_bytes = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.sent_bytes < 100_000_000:
            self.sent_bytes += 10_000
            yield b" " * 10_000


@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}])
def test_an_endless_answer_is_not_read_to_its_end(headers: dict[str, str]) -> None:
    stream = Endless()

    class Provider(Elsewhere):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if str(request.url) == TOKEN_URL:
                assert request.headers["accept-encoding"] == "identity"
                return httpx2.Response(200, headers=headers, stream=stream)
            return await super().handle_async_request(request)

    [outcome] = send(Provider([]))
    assert isinstance(outcome, SignInFailed)
    assert stream.sent_bytes < 200_000


def test_the_url_of_a_token_is_named_without_its_secrets() -> None:
    def make() -> ClientCredentials:
        return ClientCredentials(f"{TOKEN_URL}?code=hidden".replace("//", "//app:hidden@"), "me", "s")

    class Provider(Elsewhere):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if "code=" in str(request.url):
                return httpx2.Response(503, json={})
            return await super().handle_async_request(request)

    [outcome] = send(Provider([]), make=make)
    assert isinstance(outcome, SignInFailed)
    assert "status 503" in str(outcome)
    assert "hidden" not in str(outcome)


def test_another_host_gets_no_token() -> None:
    elsewhere = Elsewhere({"access_token": "one"}, url="https://other.example")

    async def go() -> None:
        async with Client(BASE_URL, auth=sign_in(), hosts=["other.example"], transport=elsewhere) as client:
            await client.send("hi")

    asyncio.run(go())
    [*_, call] = elsewhere.called
    assert call.url.host == "other.example"
    assert "authorization" not in call.headers


def test_a_call_is_signed_with_the_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore itself makes the same signature."""
    clients.session.cache_clear()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    elsewhere = Elsewhere()
    [outcome] = send(elsewhere, make=lambda: AwsSignature("bedrock-agentcore"))
    assert outcome["id"] == "t"
    call = elsewhere.called[-1]
    again = AWSRequest("POST", str(call.url), data=call.content)
    for name in ("content-type", "accept"):
        if name in call.headers:
            again.headers[name] = call.headers[name]
    again.headers["X-Amz-Date"] = call.headers["x-amz-date"]
    again.context["timestamp"] = call.headers["x-amz-date"]
    signer = SigV4Auth(Credentials("AKID", "secret", "session"), "bedrock-agentcore", "eu-west-1")
    again.headers["X-Amz-Security-Token"] = "session"
    canonical = signer.canonical_request(again)
    signature = signer.signature(signer.string_to_sign(again, canonical), again)
    assert call.headers["authorization"].endswith(f"Signature={signature}")
    assert call.headers["x-amz-security-token"] == "session"
    clients.session.cache_clear()


def test_without_credentials_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    session = SimpleNamespace(get_credentials=lambda: None)
    monkeypatch.setattr(clients, "session", lambda: session)
    elsewhere = Elsewhere()
    [outcome] = send(elsewhere, make=lambda: AwsSignature("lambda", "eu-west-1"))
    assert isinstance(outcome, SignInFailed)
    assert elsewhere.called == []
