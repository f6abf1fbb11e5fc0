"""A Lambda Runtime API on a socket: it hands out invocations and notes what comes back, and when.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html, with the parts that AWS's own emulator
leaves out: chunks as they arrive, trailers, a connection that breaks, 410.
"""

import base64
import json
import queue
import socketserver
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedIOBase
from typing import Any

from tests.conftest import AGENTS, ROOT
from tests.helpers.clock import PATIENCE_SECONDS, wait_until
from tests.helpers.rpc import events

PROBE = {"A2A_AGENTS": str(AGENTS), "A2A_AGENT_NAMES": "probe"}
"""The tests' agent, instead of the one that is in the build."""


@dataclass
class Invocation:
    """One invocation, and what the function answered."""

    event: Any
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    invocation_id: str | None = None
    deadline: float = field(default_factory=lambda: time.time() + 60)
    status: int = 202
    close_after: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    chunks: list[tuple[float, bytes]] = field(default_factory=list)
    trailers: dict[str, str] = field(default_factory=dict)
    error: Any = None
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def content(self) -> bytes:
        return b"".join(chunk for _, chunk in self.chunks)

    @property
    def prelude(self) -> Any:
        return json.loads(self.content.split(bytes(8), 1)[0])

    @property
    def body(self) -> bytes:
        return self.content.split(bytes(8), 1)[1]

    @property
    def streamed(self) -> bool:
        return self.headers.get("lambda-runtime-function-response-mode") == "streaming"

    @property
    def fault(self) -> Any:
        """The error in the trailers, or None."""
        error = self.trailers.get("lambda-runtime-function-error-body")
        return None if error is None else json.loads(base64.b64decode(error))

    def wait_for(self, text: bytes, count: int = 1) -> None:
        """Wait until a text has arrived that many times."""
        wait_until(lambda: self.content.count(text) >= count)


class RuntimeApi:
    """Serves one function process at a time."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[Invocation] = queue.Queue()
        self._given: dict[str, Invocation] = {}
        self.init_error: Any = None
        self.polls = 0
        self.polled = threading.Event()
        self.snapshot = threading.Event()
        """The function is initialized, and waits to be restored."""
        self.restore = threading.Event()
        """Set by the test: the function is restored."""
        api = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with suppress(ConnectionError):  # the function's process was killed
                    while api._serve(self.rfile, self.wfile):
                        pass

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def invoke(self, event: Any, *, patience: float = PATIENCE_SECONDS, **options: Any) -> Invocation:
        """Give an event to the function; returns once it has answered."""
        invocation = self.start(event, **options)
        assert invocation.done.wait(patience), "the function did not answer"
        return invocation

    def start(self, event: Any, **options: Any) -> Invocation:
        invocation = Invocation(event, **options)
        self._given[invocation.id] = invocation
        self._waiting.put(invocation)
        return invocation

    def _serve(self, source: BufferedIOBase, target: BufferedIOBase) -> bool:
        """One request; False when the connection is over."""
        line = source.readline().decode()
        if not line:
            return False
        method, path, _ = line.split()
        headers = _headers(source)
        if method == "GET" and path.endswith("/restore/next"):
            self.snapshot.set()
            self.restore.wait()
            return _answer(target, 200)
        if method == "GET" and path.endswith("/invocation/next"):
            self.polls += 1
            self.polled.set()
            self._next(target)
            return True
        name, kind = path.split("/")[-2:]
        if kind == "error" and name == "init":
            self.init_error = json.loads(source.read(int(headers["content-length"])))
            return _answer(target, 202)
        invocation = self._given[name]
        invocation.headers = headers
        if kind == "error":
            invocation.error = json.loads(source.read(int(headers["content-length"])))
        elif not self._body(invocation, source):
            invocation.done.set()
            return False
        _answer(target, invocation.status)
        invocation.done.set()
        return headers.get("connection") != "close"

    def _next(self, target: BufferedIOBase) -> None:
        invocation = self._waiting.get()
        extra = {
            "Lambda-Runtime-Aws-Request-Id": invocation.id,
            "Lambda-Runtime-Deadline-Ms": str(int(invocation.deadline * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:123456789012:function:rpc",
            "Lambda-Runtime-Trace-Id": "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1",
        }
        if invocation.invocation_id is not None:
            extra["Lambda-Runtime-Invocation-Id"] = invocation.invocation_id
        _answer(target, 200, json.dumps(invocation.event).encode(), extra)

    def _body(self, invocation: Invocation, source: BufferedIOBase) -> bool:
        """Note the body; False when it was cut off, by `close_after` or by the process's end."""
        if "content-length" in invocation.headers:
            content = source.read(int(invocation.headers["content-length"]))
            invocation.chunks.append((time.monotonic_ns() / 1e9, content))
            return True
        while size := int(source.readline() or b"-1", 16):
            if size < 0:
                return False
            chunk = source.read(size)
            source.readline()
            invocation.chunks.append((time.monotonic_ns() / 1e9, chunk))
            if invocation.close_after is not None and len(invocation.chunks) > invocation.close_after:
                return False
        invocation.trailers = _headers(source)
        return True


def _headers(source: BufferedIOBase) -> dict[str, str]:
    headers: dict[str, str] = {}
    while line := source.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return headers


def _answer(target: BufferedIOBase, status: int, body: bytes = b"", extra: Any = None) -> bool:
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(extra or {})}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    target.write("\r\n".join(lines).encode() + body)
    target.flush()
    return True


def event(body: Any, path: str = "/", **fields: Any) -> Any:
    example = json.loads((ROOT / "events" / "send.json").read_text())
    return example | {"body": body and json.dumps(body), "path": path} | fields


def streamed(invocation: Invocation) -> list[Any]:
    return events(invocation.body.decode())
