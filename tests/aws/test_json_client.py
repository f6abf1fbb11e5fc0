"""The client of the hot path beside botocore's: the same faults, the same tries, the same errors."""

import io
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partialmethod
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.retries.standard import ExponentialBackoff
from botocore.session import Session

from a2a_lambda.aws.lean import connections
from a2a_lambda.aws.lean.json_client import DYNAMODB, SQS, THROTTLED_COST, AwsService, JsonClient, RetryQuota
from a2a_lambda.aws.lean.sigv4 import Credentials
from a2a_lambda.aws.limits import ATTEMPTS, Timeouts
from tests.aws.fake_service import (
    CHUNKED,
    CLOSE,
    CUT,
    CUT_CHUNK,
    ECHO,
    GOOD,
    ITEM,
    NO_LENGTH,
    RESET,
    SILENCE,
    STORED,
    FakeService,
    answer,
    refusal,
)
from tests.conftest import replace_in
from tests.helpers.clock import wait_until

READ_SECONDS = 60.0

SILENT_SECONDS = 0.5
"""For a service that does not answer."""


@pytest.fixture
def serve() -> Iterator[Callable[..., FakeService]]:
    services: list[FakeService] = []

    def make(*answers: bytes) -> FakeService:
        services.append(FakeService(list(answers)))
        return services[-1]

    yield make
    for service in services:
        service.close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses that botocore's client would make. It makes none."""
    pause_list: list[float] = []
    own = threading.current_thread()

    def sleep(seconds: float) -> None:
        if threading.current_thread() is own:
            pause_list.append(seconds)
        else:  # a thread that another test has left: its clients may try again, too
            time.sleep(seconds)

    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=sleep, time=time.time))
    monkeypatch.setattr("a2a_lambda.aws.lean.json_client.random.random", lambda: 0.75)
    initialize = ExponentialBackoff.__init__
    monkeypatch.setattr(ExponentialBackoff, "__init__", partialmethod(initialize, random=lambda: 0.75))
    return pause_list


def ours(
    url: str,
    sleep: Callable[[float], None] = lambda seconds: None,
    *,
    service: AwsService = DYNAMODB,
    read: float = READ_SECONDS,
) -> Any:
    return JsonClient(
        service,
        url,
        "us-east-1",
        lambda: Credentials("id", "secret", "token"),
        timeouts=Timeouts(connect=5, read=read),
        attempts=ATTEMPTS,
        sleep=sleep,
    )


def botocores(url: str, service: str = "dynamodb", read: float = READ_SECONDS) -> Any:
    return Session().create_client(
        service,
        "us-east-1",
        endpoint_url=url,
        aws_access_key_id="id",
        aws_secret_access_key="secret",
        aws_session_token="token",
        config=Config(
            connect_timeout=5,
            read_timeout=read,
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
    "an interim answer": [b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD],
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
        result = call(**CALL)
    except ClientError as error:
        return error.response["Error"]["Code"], error.response.get("Item")
    except BotoCoreError as error:
        return type(error).__name__
    result.pop("ResponseMetadata", None)
    return result


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_botocores(fault: str, serve: Callable[..., FakeService], pauses: list[float]) -> None:
    mine, theirs = serve(*FAULTS[fault]), serve(*FAULTS[fault])
    pauses_made: list[float] = []
    read = READ_SECONDS
    if FAULTS[fault].count(SILENCE) == ATTEMPTS:
        read = SILENT_SECONDS
    elif SILENCE in FAULTS[fault]:
        read = 6 * SILENT_SECONDS  # the answer after it must arrive in time, even on a busy machine
    result = outcome(ours(mine.url, pauses_made.append, read=read).put_item)
    assert result == outcome(botocores(theirs.url, read=read).put_item)
    assert pauses_made == pauses
    # The service may record its last request after the client has given up waiting for the answer.
    wait_until(lambda: len(mine.requests) == len(theirs.requests) == len(pauses) + 1)
    (headers, body), (their_headers, their_body) = mine.requests[0], theirs.requests[0]
    assert json.loads(body) == json.loads(their_body)
    for name in ("x-amz-target", "content-type", "x-amz-security-token"):
        assert headers[name] == their_headers[name]


@pytest.mark.parametrize(
    "wrong",
    [
        answer(b"[" * 100_000, x_amz_crc32=None),
        answer(STORED, x_amz_crc32="soon"),
        answer(b'{"A": "' + b"x" * 100_000 + b'"}'),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"5000\r\n%b\r\n" % (b"x" * 0x5000) * 10,
    ],
    ids=["deep", "no checksum", "large", "in large chunks"],
)
def test_an_answer_beyond_its_limits_is_damaged(
    serve: Callable[..., FakeService], monkeypatch: pytest.MonkeyPatch, wrong: bytes
) -> None:
    """It is tried again, and then the service has not answered."""
    monkeypatch.setattr(connections, "AWS_ANSWER_BYTES", 99_999 if wrong.count(b"[") < 9 else 10**6)
    service = serve(*[wrong] * ATTEMPTS)
    assert outcome(ours(service.url, lambda _: None).put_item) in ("HTTPClientError", "ConnectionClosedError")
    assert len(service.requests) == ATTEMPTS


@pytest.mark.parametrize("place", ["head", "body"])
def test_an_answer_that_drips_ends(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """A byte at a time, each long before the time between two pieces is over."""
    now = itertools.count()
    replace_in(connections, time, monkeypatch, monotonic=lambda: next(now) / 10)
    monkeypatch.setattr(connections, "AWS_ANSWER_SECONDS", 3.0)
    head, separator, body = GOOD.partition(b"\r\n\r\n")
    pieces = [head[:1], *(head[1:], separator)] if place == "body" else []
    drops = [bytes([byte]) for byte in (body if place == "body" else GOOD)]

    class Drip(io.RawIOBase):
        left = iter([*pieces, *drops])

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            piece = next(self.left)
            buffer[: len(piece)] = piece
            return len(piece)

    with pytest.raises(ValueError, match="takes more than 3 s"):
        connections._Reader(io.BufferedReader(Drip())).read()


def test_no_one_is_there(pauses: list[float]) -> None:
    with socket.socket() as unused_socket:
        unused_socket.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused_socket.getsockname()[1]}"
        pauses_made: list[float] = []
        assert outcome(ours(url, pauses_made.append).put_item) == outcome(botocores(url).put_item)
        assert pauses_made == pauses
        assert len(pauses) == ATTEMPTS - 1


def test_pauses_grow_and_are_random(serve: Callable[..., FakeService]) -> None:
    service = serve(*[refusal("ThrottlingException")] * 50)
    pauses_made: list[float] = []
    client = ours(service.url, pauses_made.append)
    for _ in range(10):
        with pytest.raises(ClientError):
            client.put_item(TableName="t")
    for attempt in range(ATTEMPTS - 1):
        pauses = pauses_made[attempt :: ATTEMPTS - 1]
        assert len(set(pauses)) == 10
        assert all(0 <= pause <= 2**attempt for pause in pauses)


def test_a_connection_is_used_again(serve: Callable[..., FakeService]) -> None:
    service = serve()
    client = ours(service.url)
    for _ in range(5):
        assert client.put_item(TableName="t")["Attributes"] == ITEM
    assert service.connections == 1


def test_a_connection_that_was_closed_while_it_was_idle_costs_no_try(
    serve: Callable[..., FakeService],
) -> None:
    service = serve()
    client = ours(service.url)
    client.put_item(TableName="t")
    service.close_connections()
    assert client.put_item(TableName="t")["Attributes"] == ITEM
    assert len(service.requests) == service.connections == 2


def test_a_connection_that_the_service_closes_is_not_kept(serve: Callable[..., FakeService]) -> None:
    service = serve(answer(STORED, connection="close"))
    client = ours(service.url)
    client.put_item(TableName="t")
    client.put_item(TableName="t")
    assert service.connections == 2


def test_threads_share_a_client(serve: Callable[..., FakeService]) -> None:
    service = serve(*[ECHO] * 160)
    client = ours(service.url)
    wrong_answers: list[int] = []

    def call(thread: int) -> None:
        for number in range(thread, 160, 8):
            if client.put_item(Number=number) != {"Number": number}:
                wrong_answers.append(number)

    threads = [threading.Thread(target=call, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong_answers
    assert len(service.requests) == 160


def test_a_second_answer_is_no_ones(serve: Callable[..., FakeService]) -> None:
    service = serve(answer(b'{"A":1}') + answer(b'{"A":1}'), ECHO, ECHO)
    client = ours(service.url)
    assert [client.put_item(A=number) for number in (1, 2, 3)] == [{"A": 1}, {"A": 2}, {"A": 3}]


def test_an_answer_counts_that_comes_before_the_request_is_read() -> None:
    large = b'{"__type":"x#RequestEntityTooLarge"}'
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = ours(f"http://127.0.0.1:{listener.getsockname()[1]}")

        def refuse() -> None:
            connection, _ = listener.accept()
            connection.recv(1_000)
            connection.sendall(answer(large, 413, connection="close"))
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(60)
            with suppress(OSError):
                while connection.recv(65_536):
                    pass

        threading.Thread(target=refuse, daemon=True).start()
        with pytest.raises(ClientError) as error:
            client.put_item(Item={"body": {"S": "x" * 3_000_000}})
    assert error.value.response["Error"]["Code"] == "RequestEntityTooLarge"


@pytest.mark.parametrize("older", ["AWS.SimpleQueueService.NonExistentQueue;Sender", None])
def test_sqs_keeps_the_codes_of_its_older_protocol(
    older: str | None, serve: Callable[..., FakeService], pauses: list[float]
) -> None:
    reply = answer(
        b'{"__type":"com.amazonaws.sqs#QueueDoesNotExist"}', 400, x_amz_crc32=None, x_amzn_query_error=older
    )
    mine, theirs = serve(reply), serve(reply)
    call = {"QueueUrl": f"{theirs.url}/1/q", "MessageBody": "hi"}
    codes = []
    for client in (ours(mine.url, service=SQS), botocores(theirs.url, "sqs")):
        with pytest.raises(ClientError) as error:
            client.send_message(**call)
        codes.append(error.value.response["Error"]["Code"])
    assert codes[0] == codes[1]
    assert mine.requests[0][0]["x-amzn-query-mode"] == theirs.requests[0][0]["x-amzn-query-mode"] == "true"


def test_lambdas_trace_id_is_sent(serve: Callable[..., FakeService], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda stops functions and queues that call each other for ever, by this id."""
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-a;Lineage=1:b:0")
    service = serve()
    ours(service.url).put_item(TableName="t")
    assert service.requests[0][0]["x-amzn-trace-id"] == "Root=1-a;Lineage=1:b:0"


def test_a_service_that_fails_for_all_is_asked_less_often(serve: Callable[..., FakeService]) -> None:
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
