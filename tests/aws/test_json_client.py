"""The client of the hot path beside botocore's: the same faults, the same tries, the same errors."""

import json
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partialmethod
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.retries.standard import ExponentialBackoff
from botocore.session import Session

from a2a_lambda.aws.connections import Timeouts
from a2a_lambda.aws.json_client import ATTEMPTS, DYNAMODB, THROTTLED_COST, JsonClient, RetryQuota
from a2a_lambda.aws.sigv4 import Credentials

ITEM = {"pk": {"S": "鍵"}, "n": {"N": "1"}, "body": {"B": b"\x00\xff"}, "B": {"M": {"B": {"BOOL": True}}}}

STORED = json.dumps({"Attributes": {**ITEM, "body": {"B": "AP8="}}}).encode()

READ_SECONDS = 0.5


def answer(body: bytes, status: int = 200, **headers: str | None) -> bytes:
    lines = {
        "content-type": "application/x-amz-json-1.0",
        "content-length": str(len(body)),
        "x-amz-crc32": str(zlib.crc32(body)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
    return f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode() + body


def refusal(code: str, status: int = 400, **fields: Any) -> bytes:
    kind = f"com.amazonaws.dynamodb.v20120810#{code}"
    return answer(json.dumps({"__type": kind, "message": "because", **fields}).encode(), status)


GOOD = answer(STORED)
CUT = GOOD[:-5]
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"5\r\n%b\r\n%x;extension=1\r\n%b\r\n" % (STORED[:5], len(STORED) - 5, STORED[5:])
    + b"0\r\nTrailer: 1\r\n\r\n"
)
CUT_CHUNK = CHUNKED[:-40]
NO_LENGTH = b"HTTP/1.1 200 OK\r\n\r\n" + STORED
SILENCE = b"silence"
RESET = b"reset"
CLOSE = b"close"


class Service:
    """A service that answers each request with the next of its answers, and then well."""

    def __init__(self, answers: list[bytes]) -> None:
        self.answers = answers
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.connections = 0
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        while line := stream.readline():
            assert line.startswith(b"POST / HTTP/1.1")
            lines = iter(lambda: stream.readline().decode().strip(), "")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            self.requests.append((headers, stream.read(int(headers["content-length"]))))
            given = self.answers.pop(0) if self.answers else GOOD
            if given == SILENCE:
                continue
            if given == RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if given not in {RESET, CLOSE}:
                connection.sendall(given)
            if given in {RESET, CLOSE, CUT, NO_LENGTH} or given == CUT_CHUNK or given.startswith(b"SSH"):
                break
        stream.close()
        connection.close()

    def close_connections(self) -> None:
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.close_connections()


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    made: list[Service] = []

    def make(*answers: bytes) -> Service:
        made.append(Service(list(answers)))
        return made[-1]

    yield make
    for service in made:
        service.close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses of botocore's client. None of them is waited for."""
    made: list[float] = []
    monkeypatch.setattr("botocore.endpoint.time.sleep", made.append)
    monkeypatch.setattr("a2a_lambda.aws.json_client.random.random", lambda: 0.75)
    initialize = ExponentialBackoff.__init__
    monkeypatch.setattr(ExponentialBackoff, "__init__", partialmethod(initialize, random=lambda: 0.75))
    return made


def ours(url: str, sleep: Callable[[float], None] = lambda seconds: None) -> Any:
    return JsonClient(
        DYNAMODB,
        url,
        "us-east-1",
        lambda: Credentials("id", "secret", "token"),
        timeouts=Timeouts(connect=5, read=READ_SECONDS),
        attempts=ATTEMPTS,
        sleep=sleep,
    )


def botocores(url: str) -> Any:
    return Session().create_client(
        "dynamodb",
        "us-east-1",
        endpoint_url=url,
        aws_access_key_id="id",
        aws_secret_access_key="secret",
        aws_session_token="token",
        config=Config(
            connect_timeout=5,
            read_timeout=READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        ),
    )


CALL = {"TableName": "t", "Item": ITEM, "ConditionExpression": "attribute_not_exists(pk)"}

FAULTS = {
    "well": [],
    "throttled": [refusal("ProvisionedThroughputExceededException")] * 2,
    "throttled for ever": [refusal("ThrottlingException")] * ATTEMPTS,
    "too many requests of the control plane": [refusal("LimitExceededException")] * ATTEMPTS,
    "throttled, with a pause": [
        answer(b'{"__type":"x#ThrottlingException"}', 400, x_amz_retry_after="2500"),
        answer(b"{}", 503, x_amz_retry_after="60000"),
        answer(b"{}", 500, x_amz_retry_after="soon"),
    ],
    "an error of the service": [refusal("InternalServerError", 500)],
    "errors of a proxy": [
        answer(b"<html>Bad Gateway", 502, x_amz_crc32=None),
        answer(b"", 503, x_amz_crc32=None),
    ],
    "an error of a proxy for ever": [answer(b"<html>Bad Gateway", 502, x_amz_crc32=None)] * ATTEMPTS,
    "not ours": [refusal("AccessDeniedException")],
    "too large": [refusal("ValidationException")],
    "a token that is too old": [refusal("ExpiredTokenException")],
    "429": [answer(b"", 429, x_amz_crc32=None)],
    "unknown status": [answer(b"", 418, x_amz_crc32=None)],
    "a failed condition": [refusal("ConditionalCheckFailedException", Item={"body": {"B": "AP8="}})],
    "in chunks": [CHUNKED],
    "in chunks, cut": [CUT_CHUNK] * 2,
    "no length": [NO_LENGTH],
    "not HTTP": [b"SSH-2.0-OpenSSH_9.6\r\n", GOOD],
    "damaged": [answer(STORED, x_amz_crc32="1")] * 2,
    "cut": [CUT],
    "closed": [CLOSE] * 2,
    "closed for ever": [CLOSE] * ATTEMPTS,
    "reset": [RESET],
    "silence": [SILENCE],
    "silence for ever": [SILENCE] * ATTEMPTS,
}


def outcome(call: Callable[..., Any]) -> Any:
    """What a caller sees: an answer, or an exception with all that the kit reads of it."""
    try:
        found = call(**CALL)
    except ClientError as error:
        return error.response["Error"]["Code"], error.response.get("Item")
    except BotoCoreError as error:
        return type(error).__name__
    found.pop("ResponseMetadata", None)
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_it_is_botocores(fault: str, serve: Callable[..., Service], pauses: list[float]) -> None:
    mine, theirs = serve(*FAULTS[fault]), serve(*FAULTS[fault])
    waited: list[float] = []
    assert outcome(ours(mine.url, waited.append).put_item) == outcome(botocores(theirs.url).put_item)
    assert len(mine.requests) == len(theirs.requests)
    assert waited == pauses
    assert len(pauses) == len(mine.requests) - 1
    (headers, body), (their_headers, their_body) = mine.requests[0], theirs.requests[0]
    assert json.loads(body) == json.loads(their_body)
    for name in ("x-amz-target", "content-type", "x-amz-security-token"):
        assert headers[name] == their_headers[name]


def test_no_one_is_there(pauses: list[float]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        waited: list[float] = []
        assert outcome(ours(url, waited.append).put_item) == outcome(botocores(url).put_item)
        assert waited == pauses
        assert len(pauses) == ATTEMPTS - 1


def test_pauses_grow_and_are_random(serve: Callable[..., Service]) -> None:
    service = serve(*[refusal("ThrottlingException")] * 50)
    waited: list[float] = []
    client = ours(service.url, waited.append)
    for _ in range(10):
        with pytest.raises(ClientError):
            client.put_item(TableName="t")
    for attempt in range(ATTEMPTS - 1):
        pauses = waited[attempt :: ATTEMPTS - 1]
        assert len(set(pauses)) == 10
        assert all(0 <= pause <= 2**attempt for pause in pauses)


def test_a_connection_is_used_again(serve: Callable[..., Service]) -> None:
    service = serve()
    client = ours(service.url)
    for _ in range(5):
        assert client.put_item(TableName="t")["Attributes"] == ITEM
    assert service.connections == 1


def test_a_connection_that_was_closed_while_it_was_idle_costs_no_try(serve: Callable[..., Service]) -> None:
    service = serve()
    client = ours(service.url)
    client.put_item(TableName="t")
    service.close_connections()
    assert client.put_item(TableName="t")["Attributes"] == ITEM
    assert len(service.requests) == service.connections == 2


def test_a_connection_that_the_service_closes_is_not_kept(serve: Callable[..., Service]) -> None:
    service = serve(answer(STORED, connection="close"))
    client = ours(service.url)
    client.put_item(TableName="t")
    client.put_item(TableName="t")
    assert service.connections == 2


def test_threads_share_a_client(serve: Callable[..., Service]) -> None:
    service = serve()
    client = ours(service.url)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.extend(client.put_item(TableName="t") for _ in range(20)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{"Attributes": ITEM}] * 160
    assert service.connections <= 8


def test_a_service_that_fails_for_all_is_asked_less_often(serve: Callable[..., Service]) -> None:
    service = serve(*[refusal("ThrottlingException")] * 10_000)
    client = ours(service.url)
    for _ in range(60):
        with pytest.raises(ClientError):
            client.put_item(TableName="t")
    assert len(service.requests) == 60 + 500 // THROTTLED_COST, "100 retries, and then none"


def test_retries_come_back_with_success() -> None:
    quota = RetryQuota(capacity=10)
    assert quota.take(10)
    assert not quota.take(5)
    quota.give(5)
    assert quota.take(5)
    quota.give(1000)
    assert not quota.take(11)
