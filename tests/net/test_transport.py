"""Urls that came from someone else."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx2
import pytest

from a2a_lambda.net import addresses, transport
from a2a_lambda.net.addresses import Refused, Unresolved, is_loopback_url, is_public, resolve
from a2a_lambda.net.transport import GuardedTransport
from tests.conftest import replace_in

INNER = [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fd00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "2002:7f00:1::",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "no address",
    "fec0::1",
    "::127.0.0.1",
    "::a9fe:a9fe",
    "::ffff:0:127.0.0.1",
    "3fff::1",
    "5f00::1",
    "64:ff9b:1::7f00:1",
]


@pytest.mark.parametrize("address", INNER)
def test_inner_addresses(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("agent.localhost", True),
        ("127.0.0.1:8080", True),
        ("127.1", True),
        ("2130706433", True),
        ("[::1]:8080", True),
        ("localhost.example", False),
        ("mylocalhost", False),
        ("127.0.0.1.example", False),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("127.0.0.1%20evil.example", False),
        ("127.0.0.1 evil.example", False),
        ("a\0b", False),
        ("", False),
    ],
)
def test_a_url_of_this_machine_is_known_without_a_lookup(host: str, is_local: bool) -> None:
    assert is_loopback_url(f"http://{host}/path") is is_local


def get(url: str, **where: bool) -> httpx2.Response:
    async def go() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=GuardedTransport(**where), timeout=60) as client:
            return await client.get(url)

    return asyncio.run(go())


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "https://localhost/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://017700000001/",
        "https://[::1]/",
        "https://[::ffff:7f00:1]/",
        "http://example.com/",
        "https://no-such-name.invalid/",
        "https://8.8.8.8:65536/",
    ],
)
def test_what_no_one_should_call(url: str) -> None:
    with pytest.raises((Refused, Unresolved, httpx2.InvalidURL)):
        get(url)


def answer_lookups(monkeypatch: pytest.MonkeyPatch, getaddrinfo: Callable[..., Any]) -> None:
    replace_in(addresses, socket, monkeypatch, getaddrinfo=getaddrinfo)


def test_the_name_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name whose address changes between the check and the call is called at the checked one."""
    answers = iter(["93.184.216.34", "127.0.0.1"])
    names: list[str] = []

    def getaddrinfo(host: Any, port: Any, *_: Any, **__: Any) -> Any:
        names.append(host)
        address = host if host[0].isdigit() else next(answers)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    answer_lookups(monkeypatch, getaddrinfo)
    calls: list[Any] = []

    async def inner(request: httpx2.Request) -> httpx2.Response:
        calls.append((request.url.host, request.headers["host"], request.extensions["sni_hostname"]))
        return httpx2.Response(200)

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", lambda _, request: inner(request))
    guarded_transport = GuardedTransport()

    async def go() -> None:
        async with httpx2.AsyncClient(transport=guarded_transport) as client:
            await client.get("https://rebinding.example.com/hook")

    asyncio.run(go())
    assert calls == [("93.184.216.34", "rebinding.example.com", "rebinding.example.com")]
    assert names == ["rebinding.example.com"]


def test_one_inner_address_of_several_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses_found = [(socket.AF_INET, 1, 6, "", (address, 443)) for address in ("8.8.8.8", "10.0.0.1")]
    answer_lookups(monkeypatch, lambda *_, **__: addresses_found)
    with pytest.raises(Refused):
        asyncio.run(resolve("mixed.example.com", 443))


def test_each_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses_found = [(socket.AF_INET, 1, 6, "", (address, 443)) for address in ("8.8.8.8", "1.1.1.1")]
    answer_lookups(monkeypatch, lambda *_, **__: addresses_found)
    monkeypatch.setattr(transport, "CONNECT_SECONDS", 2.0)
    attempts: list[tuple[str, float]] = []

    async def inner(request: httpx2.Request) -> httpx2.Response:
        attempts.append((request.url.host, request.extensions["timeout"]["connect"]))
        if len(attempts) == 1:
            raise httpx2.ConnectTimeout("no one there")
        return httpx2.Response(200)

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", lambda _, request: inner(request))
    guarded_transport = GuardedTransport()

    async def go() -> None:
        async with httpx2.AsyncClient(transport=guarded_transport, timeout=7.0) as client:
            await client.post("https://two.example.com/hook", content=b"x")

    asyncio.run(go())
    assert attempts == [("8.8.8.8", 2.0), ("1.1.1.1", 7.0)], "the last one may take all of the time"


def test_an_error_names_the_host_and_not_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_lookups(monkeypatch, lambda *_, **__: [(socket.AF_INET, 1, 6, "", ("8.8.8.8", 443))])

    async def inner(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", lambda _, request: inner(request))

    async def go() -> str:
        async with httpx2.AsyncClient(transport=GuardedTransport()) as client:
            with pytest.raises(httpx2.ConnectError) as failure:
                await client.post("https://two.example.com/hook", content=b"x")
            return failure.value.request.url.host

    assert asyncio.run(go()) == "two.example.com"


def test_a_slow_name_server_holds_up_no_one(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    answer_lookups(monkeypatch, lambda *_, **__: over.wait(60))
    monkeypatch.setattr(addresses, "LOOKUP_SECONDS", 0.1)
    try:
        with pytest.raises(Unresolved):
            asyncio.run(resolve("slow.example.com", 443))
    finally:
        over.set()


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "http://169.254.169.254/", "http://[::ffff:10.0.0.1]/"])
def test_this_machine_is_no_other(url: str) -> None:
    with pytest.raises(Refused):
        get(url, allow_loopback=True)


def test_ones_own_network_when_it_is_meant() -> None:
    class Hello(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hello) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        assert get(url, private=True).status_code == 200
        assert get(url, allow_loopback=True).status_code == 200
        with pytest.raises(Refused):
            get(url)
        server.shutdown()


@pytest.mark.parametrize(
    ("level", "expected_level"), [(logging.NOTSET, logging.WARNING), (logging.DEBUG, logging.DEBUG)]
)
def test_a_client_logs_no_urls_unless_its_operator_wants_them(level: int, expected_level: int) -> None:
    logger = logging.getLogger("httpx2")
    level_before = logger.level
    try:
        logger.setLevel(level)
        GuardedTransport()
        assert logger.level == expected_level
    finally:
        logger.setLevel(level_before)
