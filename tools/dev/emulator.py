"""moto's DynamoDB, S3, SSM and SQS over HTTP, in a process of its own, so that data survives a reload.
Durable executions are beside them.

    python -m tools.dev.emulator

It prints its port after every service has answered a call: the first call takes seconds on a busy machine.
It ends when its standard input ends, so it never outlives the process that started it. moto serves one
request at a time: with threads, its conditional writes race.
"""

import inspect
import logging
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from werkzeug.sansio.utils import host_is_trusted

from a2a_lambda.errors import ConfigurationError
from tools.command import HOST, HOSTS

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

FIRST_CALLS = {
    "dynamodb": "list_tables",
    "dynamodbstreams": "list_streams",
    "ssm": "describe_parameters",
    "sqs": "list_queues",
    "s3": "list_buckets",
}
"""A call to each service that the development server uses."""

FIRST_CALL_SECONDS = 300

DURABLE_PATHS = ("/2015-03-31/functions/", "/2025-12-01/durable-execution", "/runs")


@contextmanager
def running(longest_pause: str = "") -> Iterator[str]:
    """Run an emulator; yields its URL. Raises ConfigurationError.

    longest_pause: seconds that a pause of a durable turn takes at most; "" = as long as it says.
    """
    with run_apart(__name__, "the emulator of AWS", LONGEST_PAUSE=longest_pause) as url:
        yield url


@contextmanager
def run_apart(module: str, name: str, **environment: str) -> Iterator[str]:
    """Run a server in a process of its own; yields its URL. Raises ConfigurationError.

    module: a module that prints its port, and serves until its standard input ends. name: its name in the
    message if it does not start. environment: its further variables.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
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


class Services:
    """moto, and what it does not have. That is made when it is first needed: it imports much."""

    def __init__(self, moto: "WSGIApplication") -> None:
        self._moto = moto
        self._durable: WSGIApplication | None = None
        self._lock = threading.Lock()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        # No page of a browser calls here, by this name or another one.
        if "HTTP_ORIGIN" in environ or not host_is_trusted(environ.get("HTTP_HOST"), HOSTS):
            start_response("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"the emulator is for make run alone"]
        if not environ["PATH_INFO"].startswith(DURABLE_PATHS):
            return self._moto(environ, start_response)
        with self._lock:
            if self._durable is None:
                from tools.dev.executions import DurableExecutions

                longest = os.environ.get("LONGEST_PAUSE")
                self._durable = DurableExecutions(float(longest) if longest else None)
        return self._durable(environ, start_response)


class OneAtATime:
    """WSGI application behind a lock."""

    def __init__(self, app: "WSGIApplication") -> None:
        self._app = app
        self._lock = threading.Lock()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterator[bytes]:
        with self._lock:
            yield from self._app(environ, start_response)


def leave_out_ec2() -> None:
    """Spare moto the import of its EC2, which takes a second. Its Parameter Store needs it only for commands
    to machines."""
    ec2 = ModuleType("moto.ec2")
    vars(ec2)["ec2_backends"] = {}
    sys.modules.setdefault(ec2.__name__, ec2)


def narrow_queries() -> None:
    """Make moto search only the partition that a query names. By itself, it sorts the whole table for each
    query, so that the development server would become slower with each task. Calls come one at a time."""
    from moto.dynamodb.models.table import Table

    query_table = Table.query
    signature = inspect.signature(query_table)

    def query_partition(table: Table, hash_key: Any, *arguments: Any, **options: Any) -> Any:
        call = signature.bind(table, hash_key, *arguments, **options)
        all_items = table.items
        if call.arguments.get("index_name") is None:
            items = {hash_key: all_items[hash_key]} if hash_key in all_items else {}
            table.items = defaultdict(dict, items)
        try:
            return query_table(table, hash_key, *arguments, **options)
        finally:
            table.items = all_items

    Table.query = query_partition  # type: ignore[assignment]


def main() -> None:
    leave_out_ec2()
    # It calls no account. The server says what is wrong with a profile, and in one line.
    for variable in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        os.environ.pop(variable, None)
    os.environ |= {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    from botocore.config import Config
    from botocore.session import Session
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    for name in ("werkzeug", "aws_durable_execution_sdk_python_testing"):
        logging.getLogger(name).setLevel(logging.ERROR)
    narrow_queries()
    app = Services(OneAtATime(DomainDispatcherApplication(create_backend_app)))
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
