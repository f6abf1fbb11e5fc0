"""A collector of spans."""

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """An OTLP endpoint. status: status of every answer. posts: headers and body of each request."""

    def __init__(self, status: int = 200, *, pause_seconds: float = 0) -> None:
        self.posts: list[tuple[dict[str, str], bytes]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.posts.append(({**self.headers, "path": self.path}, body))
                time.sleep(pause_seconds)
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def traces(self) -> list[tuple[str, str]]:
        """Trace and name of each span."""
        requests = [ExportTraceServiceRequest.FromString(body) for _, body in self.posts]
        scopes = [scope for each in requests for spans in each.resource_spans for scope in spans.scope_spans]
        return [(span.trace_id.hex(), span.name) for scope in scopes for span in scope.spans]
