"""Connections to one host, each for one request at a time. Failures are raised as botocore's exceptions.

http.client would send a request in two pieces, and parse each answer as an email: together they take longer
than all the rest of a call.
Source: RFC 9112, as far as an answer to a POST needs it.
"""

import importlib
import importlib.util
import math
import os
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Mapping
from functools import cache, partial
from io import BufferedReader
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

from a2a_lambda.aws.limits import Timeouts

LINE_BYTES = 65_536
"""Maximum size of a line of an answer's head, in bytes."""

PIECE_BYTES = 65_536
"""Maximum bytes that are read at once."""

AWS_ANSWER_BYTES = 64_000_000
"""Maximum size of an answer, in bytes. DynamoDB's largest has 16 MB, and a little more as JSON."""

AWS_ANSWER_SECONDS = 30.0
"""Seconds in which an answer must be complete, from its first byte."""

IDLE_SECONDS = 50.0
"""Seconds after which an unused connection is not used again. While Lambda freezes the process, the service
or the network may forget the connection, which this side does not notice."""


class HttpAnswer(NamedTuple):
    """An answer of AWS, read whole.

    headers: their names are lowercase.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


@cache
def aws_tls_context() -> ssl.SSLContext:
    """TLS as in botocore. Reading the certificates takes tens of milliseconds of CPU time."""
    path = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
    if not path and importlib.util.find_spec("certifi") is not None:
        # As botocore does: certifi's, if an agent's package has brought it.
        path = str(importlib.import_module("certifi").where())
    path = path or str(Path(botocore.__file__).parent / "cacert.pem")
    is_folder = os.path.isdir(path)
    context = ssl.create_default_context(
        capath=path if is_folder else None, cafile=None if is_folder else path
    )
    # Python 3.13 sets it, and the certificates of some firewalls fail it.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class Connections:
    """Connections to the host of a URL, kept open. Threads may share them."""

    def __init__(self, url: str, timeouts: Timeouts) -> None:
        parts = urlsplit(url)
        self.url = url
        self.host = parts.netloc
        self._is_secure = parts.scheme == "https"
        self._address = (parts.hostname or "", parts.port or (443 if self._is_secure else 80))
        self._timeouts = timeouts
        self._idle: deque[_Connection] = deque()
        if self._is_secure:
            aws_tls_context()

    def post(self, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Post to the root. Blocks. Raises botocore's HTTPClientError, ConnectionError.

        headers: headers of the request, with `host`.
        """
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST / HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n"
        connection = self._take() or self._connect()
        try:
            answer, is_kept = connection.ask(head.encode("latin-1") + body)
        except TimeoutError as error:
            connection.close()
            raise ReadTimeoutError(endpoint_url=self.url, error=error) from error
        except (OSError, ValueError) as error:
            connection.close()
            raise ConnectionClosedError(endpoint_url=self.url, error=error) from error
        except BaseException:
            connection.close()
            raise
        if is_kept:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _take(self) -> "_Connection | None":
        """The connection that was used last, if any is left."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not connection.has_input() and time.monotonic() - connection.used_at < IDLE_SECONDS:
                return connection
            connection.close()  # the service closed it, or it was idle for too long

    def _connect(self) -> "_Connection":
        try:
            connection = socket.create_connection(self._address, self._timeouts.connect)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._is_secure:
                connection = aws_tls_context().wrap_socket(connection, server_hostname=self._address[0])
        except TimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=self.url, error=error) from error
        except ssl.SSLError as error:
            raise SSLError(endpoint_url=self.url, error=error) from error
        except OSError as error:
            raise EndpointConnectionError(endpoint_url=self.url, error=error) from error
        connection.settimeout(self._timeouts.read)
        return _Connection(connection)


class _Connection:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.used_at = time.monotonic()

    def ask(self, request: bytes) -> tuple[HttpAnswer, bool]:
        """The answer to a request, and whether the connection can be used again. Raises OSError, and
        ValueError if the answer is cut off or is not HTTP."""
        is_sent = True
        try:
            self._socket.sendall(request)
        except (BrokenPipeError, ConnectionResetError):  # perhaps it has answered, without reading all
            is_sent = False
        with self._socket.makefile("rb") as file:
            answer, is_kept = _Reader(file).read()
        self.used_at = time.monotonic()
        return answer, is_kept and is_sent

    def has_input(self) -> bool:
        """Whether something arrived that no one asked for: nearly always, the end of the connection."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        if not hasattr(select, "poll"):  # Windows
            return bool(select.select([self._socket], [], [], 0)[0])
        poll = select.poll()  # `select` refuses file descriptors of 1024 and more
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._socket.close()


class _Reader:
    """Reads one answer, of a size and within a time that have a limit."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._room = AWS_ANSWER_BYTES
        self._give_up_at = math.inf  # until its first byte is there

    def read(self) -> tuple[HttpAnswer, bool]:
        """The answer, and whether the connection stays open. Raises what `_Connection.ask` raises."""
        status = 100
        while 100 <= status < 200:  # an interim answer has no body
            version, _, rest = self.read_line().partition(" ")
            status = int(rest[:3])
            headers: dict[str, str] = {}
            while line := self.read_line():
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
        is_kept = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        if status in {204, 304}:
            body = b""
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            chunks: list[bytes] = []
            while size := int(self.read_line().partition(";")[0], 16):
                chunks.append(self.read_bytes(size))
                self.read_line()
            body = b"".join(chunks)
            while self.read_line():
                pass  # trailers
        elif "content-length" in headers:
            body = self.read_bytes(int(headers["content-length"]))
        else:
            body, is_kept = b"".join(iter(partial(self.read_piece, PIECE_BYTES), b"")), False
        return HttpAnswer(status, headers, body), is_kept

    def read_line(self) -> str:
        line = b""
        while not line.endswith(b"\n"):
            buffer = self._file.peek(1)
            self._give_up_at = min(self._give_up_at, time.monotonic() + AWS_ANSWER_SECONDS)
            if not buffer or len(line) >= LINE_BYTES:
                raise ValueError("the answer's head is cut off")
            line += self.read_piece(buffer.find(b"\n") + 1 or len(buffer))
        return line.decode("latin-1").rstrip("\r\n")

    def read_bytes(self, count: int) -> bytes:
        pieces: list[bytes] = []
        while count > 0:
            if not (piece := self.read_piece(min(count, PIECE_BYTES))):
                raise ValueError("the answer's body is cut off")
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    def read_piece(self, limit: int) -> bytes:
        piece = self._file.read1(limit)
        self._room -= len(piece)
        if self._room < 0:
            raise ValueError(f"the answer has more than {AWS_ANSWER_BYTES} bytes")
        if time.monotonic() > self._give_up_at:
            raise ValueError(f"the answer takes more than {AWS_ANSWER_SECONDS:.0f} s")
        return piece
