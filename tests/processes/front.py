"""An address of this machine for a server, for clients that run in an environment of their own."""

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

import httpx2

from tests.helpers.clock import PATIENCE_SECONDS

HOP_BY_HOP = ("content-length", "transfer-encoding", "connection")


@contextmanager
def front(
    origin: str,
    transport: httpx2.BaseTransport | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """Url at which a server answers. Its answers name this url instead of their own. transport: how it is
    reached. headers: what every request has in addition."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            forwarded_headers = {
                name: value.strip() for name, value in self.headers.items() if name.lower() != "host"
            }
            with httpx2.Client(transport=transport, timeout=PATIENCE_SECONDS) as client:
                place = origin + self.path
                answer = client.request(
                    self.command, place, content=body, headers={**forwarded_headers, **headers}
                )
            content = answer.content.replace(origin.encode(), url.encode())
            with suppress(ConnectionError):  # the client has left
                self.send_response(answer.status_code)
                for name, value in answer.headers.items():
                    if name not in HOP_BY_HOP:
                        self.send_header(name, value.replace(origin, url))
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_POST = do_DELETE = pass_on

        def log_message(self, *_: object) -> None:
            pass

    class Front(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # the client has left
                super().handle_error(request, client_address)

    server = Front(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()
