"""How a client signs in to another agent: with a token of an identity provider, or with its AWS role.

Both are `httpx2.Auth`, so what they need to ask goes through the client's own guarded connections.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus
from weakref import WeakValueDictionary

import httpx2

from a2a_lambda import strictjson
from a2a_lambda.client.answers import compressions_of
from a2a_lambda.client.keys import KEY
from a2a_lambda.client.sse import TooLarge
from a2a_lambda.errors import KitError, ParseError, excerpt
from a2a_lambda.net.addresses import place_of

RENEW_EARLY_SECONDS = 60.0
"""Seconds before its expiry at which a token is renewed. One that is valid for less than twice as long is
renewed at half of its lifetime."""

DEFAULT_LIFE_SECONDS = 300.0
"""Life of a token whose issuer does not say (RFC 6749 section 5.1 only recommends it)."""

MAX_CACHED_TOKENS = 1_000
"""Tokens that a process remembers: an agent may sign in with other credentials for each of its users."""

TOKEN_ANSWER_BYTES = 64_000
"""Maximum size of an answer with a token, in bytes."""


class _Limited(httpx2.AsyncByteStream):
    """A stream's bytes. Raises TooLarge if there are more than `limit`."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream = stream
        self._bytes_left = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._bytes_left -= len(chunk)
            if self._bytes_left < 0:
                raise TooLarge
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class SignInFailed(KitError):
    """The identity provider gave no token. The text has its error code (RFC 6749 section 5.2), and no
    secret."""

    safe_to_log = True


@dataclass(slots=True)
class _Token:
    """A token of this process.

    until: when to renew it, a `time.monotonic()` value. locks: one for each event loop that is renewing the
        token. The locks are held weakly, and not the loops, because a lock may refer to its loop.
    """

    value: str = ""
    until: float = float("-inf")
    locks: WeakValueDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = field(
        default_factory=WeakValueDictionary
    )


_tokens: dict[bytes, _Token] = {}


USER_AGENT = "a2a-lambda-kit"
"""What a request for a token is from: firewalls in front of issuers refuse one that does not say so."""


class ClientCredentials(httpx2.Auth):
    """A program's own token (RFC 6749 section 4.4). All clients in a process with the same arguments share
    it, and renew it once.

    token_url: where the identity provider gives tokens. scope: scopes, separated by spaces. The other agent's
    card has no say in either, because a forged card would get the secret, or a token that allows more.
    audience: Auth0's parameter of this name. resource: the parameter of RFC 8707.
    """

    def __init__(
        self,
        token_url: str,
        client_id: str,
        client_secret: str,
        *,
        scope: str = "",
        audience: str = "",
        resource: str = "",
    ) -> None:
        self._token_url = token_url
        # RFC 6749 section 2.3.1: both are encoded first.
        self._basic = httpx2.BasicAuth(quote_plus(client_id), quote_plus(client_secret))
        fields = {"scope": scope, "audience": audience, "resource": resource}
        self._form = {
            "grant_type": "client_credentials",
            **{name: value for name, value in fields.items() if value},
        }
        identity = strictjson.dumps([token_url, client_id, client_secret, self._form])
        digest = hashlib.sha256(identity).digest()
        if digest not in _tokens and len(_tokens) >= MAX_CACHED_TOKENS:
            _tokens.pop(next(iter(_tokens)), None)  # clients that have it keep it
        self._token = _tokens.setdefault(digest, _Token())

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Raises SignInFailed."""
        token = self._token
        if time.monotonic() >= token.until:
            async with token.locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                if time.monotonic() >= token.until:  # another call may have renewed it meanwhile
                    headers = {
                        "Accept": "application/json",
                        "Accept-Encoding": "identity",
                        "User-Agent": USER_AGENT,
                    }
                    token_request = httpx2.Request("POST", self._token_url, data=self._form, headers=headers)
                    answer = yield next(self._basic.auth_flow(token_request))
                    await self._keep(answer)
        value = token.value
        request.headers["Authorization"] = f"Bearer {value}"
        answer = yield request
        if answer.status_code == 401 and token.value == value:  # withdrawn: the next call asks for another
            token.until = float("-inf")

    async def _keep(self, answer: httpx2.Response) -> None:
        """Keep the token in an answer. Raises SignInFailed."""
        place, status = place_of(self._token_url), answer.status_code
        if compressions_of(answer):
            raise SignInFailed(f"{place}: status {status}, a compressed answer, which was not asked for")
        answer.stream = _Limited(answer.stream, TOKEN_ANSWER_BYTES)
        try:
            content = strictjson.loads(await answer.aread())
        except TooLarge:
            problem = f"an answer of more than {TOKEN_ANSWER_BYTES:,} bytes"
            raise SignInFailed(f"{place}: status {status}, {problem}") from None
        except ParseError:
            content = None
        fields = content if isinstance(content, dict) else {}
        value, life = fields.get("access_token"), fields.get("expires_in", DEFAULT_LIFE_SECONDS)
        if status != 200 or not isinstance(value, str) or not KEY.fullmatch(value):
            reason = excerpt(str(fields.get("error", "no token")))
            raise SignInFailed(f"{place}: status {status}, {reason}")
        seconds = float(life) if isinstance(life, int | float) else DEFAULT_LIFE_SECONDS
        self._token.value = value
        self._token.until = time.monotonic() + max(seconds - RENEW_EARLY_SECONDS, seconds / 2)


class AwsSignature(httpx2.Auth):
    """A call signed with the function's role, as AgentCore Runtime, function URLs and APIs with `AWS_IAM`
    want it.

    service: "bedrock-agentcore", "lambda" for a function URL, or "execute-api". region: "" = the function's.
    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
    """

    requires_request_body = True

    def __init__(self, service: str, region: str = "") -> None:
        self._service = service
        self._region = region

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Raises SignInFailed if there are no credentials."""
        from botocore.auth import SigV4Auth  # only a client that signs needs it
        from botocore.awsrequest import AWSRequest

        def find_credentials() -> tuple[Any, str]:
            """The process's credentials, or None, and the region, or ""."""
            from a2a_lambda.aws import clients

            credentials = clients.session().get_credentials()
            frozen_credentials = None if credentials is None else credentials.get_frozen_credentials()
            region = self._region or clients.session().get_config_variable("region") or ""
            return frozen_credentials, region

        credentials, region = await asyncio.to_thread(find_credentials)
        if credentials is None or not region:
            raise SignInFailed(
                "no AWS credentials, or no region, to sign the call with: set AWS_PROFILE and AWS_REGION"
            )
        aws_request = AWSRequest(request.method, str(request.url), data=await request.aread())
        for name in ("content-type", "accept"):
            if name in request.headers:
                aws_request.headers[name] = request.headers[name]
        SigV4Auth(credentials, self._service, region).add_auth(aws_request)
        request.headers.update(dict(aws_request.headers.items()))
        yield request
