"""An address of this machine for a deployed stack, for clients that run in an environment of their own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2

from tests.e2e.stack import PATIENCE, EmulatedStack, Unwrapped


@contextmanager
def front(stack: EmulatedStack) -> Iterator[str]:
    """Url at which the stack's function URL answers. Answers name this url instead of their own."""
    origin = stack.outputs["FunctionUrl"].rstrip("/")

    class Handler(BaseHTTPRequestHandler):
        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            with httpx2.Client(transport=Unwrapped(stack), timeout=PATIENCE) as client:
                answer = client.request(self.command, origin + self.path, content=body, headers=headers)
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value.replace(origin, url))
            content = answer.content.replace(origin.encode(), url.encode())
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = pass_on

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()
