"""Records what models and other services answer, for `make eval`, and replays it."""

import json
import os
import re
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote, quote_plus

import httpx2
import vcr
from botocore.session import Session
from urllib3.connectionpool import HTTPConnectionPool
from vcr.cassette import Cassette
from vcr.filters import decode_response

from a2a_lambda.agent.configuration import (
    ENVIRONMENT_FILE,
    SECRET_ARN,
    Configuration,
    kind_of,
    read_variables,
    variable_of,
)
from a2a_lambda.client import AwsSignature, ClientCredentials

CREDENTIAL_URL = re.compile(
    r"^\w+://(?:169\.254\.|(?:[^/?#]*[.@])?(?:sts|sso|oidc|oauth2?|secretsmanager|ssm|kms|cognito-identity"
    r"|secretmanager|vault)\.)"
    r"|^\w+://[^?#]*/(?:oauth|(?:access_?)?tokens?(?:[/?#;]|$)|v1/secret/|[^/?#]*:generate(?:Access|Id)Token)",
    re.IGNORECASE,
)
"""URLs whose answers may hold secrets, by a label of their host or a segment of their path: they are called
as ever, and not recorded."""

SECRET_PARAMETERS = ("key", "api_key", "api-key", "access_token")
"""Query parameters that a recording does not keep."""

SECRET_CHARACTERS = 8
"""Characters from which on the value of a secret is replaced wherever a request or a response has it."""

UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Ids of messages and turns, which are new in each run."""


class Recorder:
    """Records what models and other services answer, in an agent's tests/recordings, and replays it. A
    request is the same if its URL and its body are.

    mode: "record" replaces the recordings; "replay" uses them, and calls nothing else, if there are any;
    "live" ignores them.
    """

    def __init__(self, folder: Path, mode: str) -> None:
        self._folder = folder / "tests" / "recordings"
        self._mode = mode
        self._values: dict[str, str] = {}  # of the secrets that agents have read, by variable
        self.has_missed = False
        """Whether a call of the current case had no recorded answer."""
        self._vcr = vcr.VCR(
            filter_query_parameters=list(SECRET_PARAMETERS),
            before_record_request=partial(_without_secrets, self._values),
            before_record_response=partial(_response_without_secrets, self._values),
            match_on=("method", "scheme", "host", "port", "path", "query", "body"),
        )

    @property
    def replays(self) -> bool:
        """Whether it has recordings, and uses them."""
        return self._mode == "replay" and self._folder.exists()

    @property
    def configuration(self) -> Configuration:
        """What agents get as their secrets and settings."""
        kind = ReplayedConfiguration if self.replays else RecordedConfiguration
        return kind(self._values)

    @contextmanager
    def environment(self) -> Iterator[None]:
        """The environment of an agent. While it replays, boto3 finds credentials that it can use, because it
        signs a request before a recording can answer it."""
        values: dict[str, str] = {}
        with patch.dict(os.environ, AWS_EC2_METADATA_DISABLED="true"):
            if self.replays and not _has_credentials():
                values = {"AWS_ACCESS_KEY_ID": "replayed", "AWS_SECRET_ACCESS_KEY": "replayed"}
                values |= {"AWS_SESSION_TOKEN": "", "AWS_CREDENTIAL_EXPIRATION": ""}
        with patch.dict(os.environ, values):
            yield

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Record, or replay, what a case calls meanwhile."""
        path = self._folder / f"{name}.yaml"
        self.has_missed = False
        with ExitStack() as stack:
            if self._mode == "record" or self.replays:
                stack.enter_context(_one_call_at_a_time())
            if self._mode == "record":
                path.unlink(missing_ok=True)
                self._folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(self._vcr.use_cassette(str(path), record_mode=vcr.mode.ALL))
            elif self.replays:
                cassette = stack.enter_context(self._vcr.use_cassette(str(path), record_mode=vcr.mode.NONE))
                self._note_misses(cassette)
                # A sign-in would call its identity provider, and no recording has its token.
                for sign_in in (ClientCredentials, AwsSignature):
                    stack.enter_context(patch.object(sign_in, "async_auth_flow", _skip_sign_in))
            yield

    def _note_misses(self, cassette: Cassette) -> None:
        """Note a request that has no recorded answer. The exception that vcr raises for it may not arrive,
        because boto3 wraps it, a step of a durable skill keeps only its text, and an agent may catch it."""
        can_play_response_for = cassette.can_play_response_for

        def can_play(request: Any) -> bool:
            is_known = bool(can_play_response_for(request))
            self.has_missed |= not is_known and cassette.filter_request(request) is not None
            return is_known

        cassette.can_play_response_for = can_play


@contextmanager
def _one_call_at_a_time() -> Iterator[None]:
    """Makes urllib3, which boto3 and requests use, call from one thread at a time. vcr takes its patches back
    for the whole process while it connects, and another thread's call would neither be recorded nor
    replayed."""
    lock, urlopen = threading.RLock(), HTTPConnectionPool.urlopen

    def urlopen_alone(pool: HTTPConnectionPool, *arguments: Any, **options: Any) -> Any:
        with lock:
            return urlopen(pool, *arguments, **options)

    with patch.object(HTTPConnectionPool, "urlopen", urlopen_alone):
        yield


class RecordedConfiguration(Configuration):
    """Remembers the secrets that it gives, because one may be the text of an ARN. values: takes them, by
    variable."""

    def __init__(self, values: dict[str, str]) -> None:
        super().__init__("", os.environ, Path(".env"))
        self._values = values

    def secret(self, name: str) -> str:
        value = self._values[variable_of("secret", name)] = super().secret(name)
        return value


class ReplayedConfiguration(RecordedConfiguration):
    """Asks no service: a secret that is not on this machine is the name of its variable, as in recordings."""

    def secret(self, name: str) -> str:
        value = self._find("secret", name)
        return value if value and not SECRET_ARN.fullmatch(value) else variable_of("secret", name)


def _has_credentials() -> bool:
    """Whether boto3 finds credentials, and they have not expired."""
    try:
        credentials = Session().get_credentials()
        return credentials is not None and bool(credentials.get_frozen_credentials())
    except Exception:  # a provider is code, such as a credential_process, and may raise anything
        return False


async def _skip_sign_in(
    _: httpx2.Auth, request: httpx2.Request
) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
    yield request


def _without_secrets(values: Mapping[str, str], request: Any) -> Any:
    """A request as it is recorded and compared. Any of its headers may hold a key, and none is compared."""
    if CREDENTIAL_URL.search(request.uri):
        return None
    spellings = _secret_spellings(values)
    request.headers = {}
    request.uri = _without_values(request.uri, spellings)
    request.body = _without_values(request.body, spellings)
    if isinstance(request.body, bytes):  # an id of a message, or of a turn, is new in each run
        request.body = UUID.sub(b"<uuid>", request.body)
    return request


def _secret_spellings(values: Mapping[str, str]) -> list[tuple[str, str]]:
    """Values of secrets as a request may have them, the longest first, and their variables."""
    variables = {**read_variables(ENVIRONMENT_FILE), **os.environ, **values}
    spellings: set[tuple[str, str]] = set()
    for variable, value in variables.items():
        if kind_of(variable) == "secret" and len(value) >= SECRET_CHARACTERS:
            in_json = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
            in_url = (quote(value), quote(value, safe=""), quote_plus(value))
            spellings |= {(spelling, variable) for spelling in (value, *in_json, *in_url)}
    return sorted(spellings, key=lambda spelling: -len(spelling[0]))


def _without_values(content: Any, spellings: list[tuple[str, str]]) -> Any:
    """A URL or a body without the values. A body may be text, bytes, or what becomes JSON; others stay."""
    if isinstance(content, dict):
        pairs = content.items()
        return {_without_values(name, spellings): _without_values(value, spellings) for name, value in pairs}
    if isinstance(content, list):
        return [_without_values(item, spellings) for item in content]
    for spelling, variable in spellings:
        if isinstance(content, str):
            content = content.replace(spelling, variable)
        elif isinstance(content, bytes):
            content = content.replace(spelling.encode(), variable.encode())
    return content


def _response_without_secrets(values: Mapping[str, str], response: dict[str, Any]) -> dict[str, Any]:
    """A response as it is recorded. A service may repeat the key that it was sent."""
    spellings = _secret_spellings(values)
    plain_response = decode_response(response)  # a body may be compressed
    body = _without_values(plain_response["body"], spellings)
    has_secret = body != plain_response["body"]
    headers = {
        name: _without_values(lines, spellings)
        for name, lines in (plain_response if has_secret else response)["headers"].items()
        if name.lower() != "set-cookie" and not (has_secret and name.lower() == "content-length")
    }
    return {**response, "headers": headers, "body": body if has_secret else response["body"]}
