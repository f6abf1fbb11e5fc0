"""Connections to one host, each for one request at a time. Failures are raised as botocore's exceptions."""

import os
import select
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPSConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import botocore
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    SSLError,
)


class Timeouts(NamedTuple):
    """Seconds, to connect and between two pieces of an answer."""

    connect: float
    read: float


TIMEOUTS = Timeouts(connect=2, read=5)

EMULATOR_TIMEOUTS = Timeouts(connect=10, read=120)
"""For the emulator. The machine may be busy, and one slow read must not end the development server."""


class Answer(NamedTuple):
    status: int
    headers: HTTPMessage
    body: bytes


@cache
def trusted() -> ssl.SSLContext:
    """TLS with the certificates that botocore trusts. Reading them takes some 20 ms of the processor."""
    given = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
    path = Path(given) if given else Path(botocore.__file__).parent / "cacert.pem"
    return (
        ssl.create_default_context(capath=path) if path.is_dir() else ssl.create_default_context(cafile=path)
    )


class Connections:
    """Connections to the host of a url, kept open. Threads may share them."""

    def __init__(self, url: str, timeouts: Timeouts) -> None:
        parts = urlsplit(url)
        self.host = parts.netloc
        self.url = url
        self._is_secure = parts.scheme == "https"
        self._timeouts = timeouts
        self._idle: deque[HTTPConnection] = deque()
        if self._is_secure:
            trusted()

    def post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Post to the root. Blocks. Raises botocore's HTTPClientError, ConnectionError."""
        connection = self._take()
        try:
            if connection.sock is None:
                self._connect(connection)
            connection.request("POST", "/", body, headers)
            response = connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        except TimeoutError as error:
            connection.close()
            raise ReadTimeoutError(endpoint_url=self.url, error=error) from error
        except (OSError, HTTPException) as error:
            connection.close()
            raise ConnectionClosedError(endpoint_url=self.url, error=error) from error
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:  # the service did not ask to close it
            self._idle.append(connection)
        return answer

    def _take(self) -> HTTPConnection:
        """The connection that was used last, or a new one."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took it
                break
            if not _has_input(connection.sock):
                return connection
            connection.close()  # the service closed it, for example while Lambda had frozen the process
        if self._is_secure:
            return HTTPSConnection(self.host, timeout=self._timeouts.connect, context=trusted())
        return HTTPConnection(self.host, timeout=self._timeouts.connect)

    def _connect(self, connection: HTTPConnection) -> None:
        try:
            connection.connect()
        except TimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=self.url, error=error) from error
        except ssl.SSLError as error:
            raise SSLError(endpoint_url=self.url, error=error) from error
        except OSError as error:
            raise EndpointConnectionError(endpoint_url=self.url, error=error) from error
        connection.sock.settimeout(self._timeouts.read)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _has_input(found: socket.socket) -> bool:
    """Whether something arrived that no one asked for: nearly always, the end of the connection."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([found], [], [], 0)[0])
    poll = select.poll()  # `select` refuses the numbers of a process with many files
    poll.register(found, select.POLLIN)
    return bool(poll.poll(0))
