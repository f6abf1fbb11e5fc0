"""A service of AWS on a socket, with the faults that a network and a service have."""

import json
import socket
import struct
import threading
import zlib
from contextlib import suppress
from typing import Any

ITEM = {"pk": {"S": "鍵"}, "n": {"N": "1"}, "body": {"B": b"\x00\xff"}, "B": {"M": {"B": {"BOOL": True}}}}

STORED = json.dumps({"Attributes": {**ITEM, "body": {"B": "AP8="}}}).encode()


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
ECHO = b"echo"
CLOSE = b"close"


class FakeService:
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
        with suppress(ConnectionResetError):  # the client has content up
            self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        while line := stream.readline():
            assert line.startswith(b"POST / HTTP/1.1")
            lines = iter(lambda: stream.readline().decode().strip(), "")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            body = stream.read(int(headers["content-length"]))
            self.requests.append((headers, body))
            content = self.answers.pop(0) if self.answers else GOOD
            if content == ECHO:
                content = answer(body)
            if content == SILENCE:
                continue
            if content == RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if content not in {RESET, CLOSE}:
                connection.sendall(content)
            if (
                content in {RESET, CLOSE, CUT, NO_LENGTH}
                or content == CUT_CHUNK
                or content.startswith(b"SSH")
            ):
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
