"""moto's DynamoDB, SSM and SQS over HTTP, in a process of its own, so that data survives a reload.

    python -m tools.dev.emulator

It prints its port after every service has answered a call: the first call takes seconds on a busy machine.
It ends when its standard input ends, so it never outlives the process that started it. It serves one
request at a
time: with threads, moto's conditional writes race.
"""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from a2a_lambda.errors import ConfigurationError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

HOST = "127.0.0.1"

FIRST_CALLS = {
    "dynamodb": "list_tables",
    "dynamodbstreams": "list_streams",
    "ssm": "describe_parameters",
    "sqs": "list_queues",
}
"""A call to each service that the development server uses."""

FIRST_CALL_SECONDS = 300


@contextmanager
def running() -> Iterator[str]:
    """Run an emulator; yields its url. Raises ConfigurationError."""
    with run_apart(__name__, "the emulator of AWS") as url:
        yield url


@contextmanager
def run_apart(module: str, name: str) -> Iterator[str]:
    """Run a server in a process of its own; yields its url. Raises ConfigurationError.

    module: it prints its port, and serves until its standard input ends. name: in the message if it does not
    start.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,  # Ctrl-C goes to the server: it ends first, then the emulator
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        if not port:
            raise ConfigurationError(f"{name} did not start; see its message above")
        yield f"http://{HOST}:{port}"
    finally:
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class OneAtATime:
    """WSGI application behind a lock."""

    def __init__(self, app: "WSGIApplication") -> None:
        self._app = app
        self._lock = threading.Lock()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterator[bytes]:
        with self._lock:
            yield from self._app(environ, start_response)


def main() -> None:
    from botocore.config import Config
    from botocore.session import Session
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = OneAtATime(DomainDispatcherApplication(create_backend_app))
    server = make_server(HOST, 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    session = Session()
    for service, operation in FIRST_CALLS.items():
        client = session.create_client(
            service,
            region_name="us-east-1",
            endpoint_url=f"http://{HOST}:{server.server_port}",
            aws_access_key_id="local",
            aws_secret_access_key="local",  # noqa: S106  # the emulator checks none
            config=Config(read_timeout=FIRST_CALL_SECONDS),
        )
        getattr(client, operation)()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
