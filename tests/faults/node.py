"""A process of a deployment that dies at a write: python -m tests.faults.node ROLE PORT [before|after N].

ROLE: serve (the application), work (the worker and the notifier, polling) or stay (the application, which is
not killed). It is killed, as a container is, before or after its Nth write to DynamoDB, SQS or S3. Leases are
short, so that no test waits long. Those of one that stays outlast any pause of a busy machine.
"""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import uvicorn

from a2a_lambda.access import keys
from a2a_lambda.aws.lean.connections import HttpAnswer
from a2a_lambda.aws.lean.json_client import JsonClient
from a2a_lambda.files.bucket import Bucket
from a2a_lambda.http.app import create_app
from a2a_lambda.kit import Kit
from a2a_lambda.operations import follow, intake
from a2a_lambda.tasks import head
from a2a_lambda.turns import lease
from tests.helpers.clock import PATIENCE_SECONDS
from tools.dev import event_sources

LEASE_SECONDS = 1.0
LONG_LEASE = 600.0

WRITES = ("PutItem", "DeleteItem", "SendMessage")

BUCKET_WRITES = ("put", "begin_parts", "put_part", "end_parts")
"""Methods of `Bucket` that write."""


def short_leases() -> None:
    """And a sweep that looks at a turn at once."""
    for module in (head, intake, lease):
        replace(module, LEASE_SECONDS=LEASE_SECONDS)
    for module in (head, intake):
        replace(module, sweep_minute=lambda _: 0)
    replace(lease, LEASE_RENEWAL_SECONDS=0.3, CANCEL_POLL_SECONDS=0.1)
    replace(follow, FOLLOW_POLL_SECONDS=0.05)


def long_leases() -> None:
    for module in (head, intake, lease):
        replace(module, LEASE_SECONDS=LONG_LEASE)


def replace(module: ModuleType, **values: object) -> None:
    """Give a module's names other values. They must be there: one that has moved would stay as it is."""
    for name, value in values.items():
        assert hasattr(module, name), f"{module.__name__} has no {name}"
        setattr(module, name, value)


def die_at(when: str, number: int, counting: threading.Event) -> None:
    """Count writes of this process's AWS clients, from `counting` on; be killed at one of them."""
    lock = threading.Lock()
    call_count = 0
    post = JsonClient._post

    def count() -> None:
        nonlocal call_count
        with lock:
            call_count += counting.is_set()
            if call_count == number:
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)

    def count_and_post(self: JsonClient, operation: str, body: bytes) -> HttpAnswer:
        if operation in WRITES and when == "before":
            count()
        answer = post(self, operation, body)
        if operation in WRITES and when == "after":
            count()
        return answer

    def counted_write(write: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if when == "before":
                count()
            answer = write(*args)
            if when == "after":
                count()
            return answer

        return call

    JsonClient._post = count_and_post  # type: ignore[method-assign]
    for name in BUCKET_WRITES:
        setattr(Bucket, name, counted_write(getattr(Bucket, name)))


def main(role: str, port: str, when: str = "", number: str = "0") -> None:
    long_leases() if role == "stay" else short_leases()
    replace(keys, KEYS_WAIT_SECONDS=PATIENCE_SECONDS)
    counting = threading.Event()
    if when:
        die_at(when, int(number), counting)
    kit = Kit.of_environment()
    kit.warm_up()
    if role != "work":
        kit.keys.find("no one's")  # the keys are read, and shared, before anything is counted
    counting.set()
    if role in ("serve", "stay"):
        uvicorn.run(create_app(kit), host="127.0.0.1", port=int(port), log_level="error")
        return
    # Other processes write, too, and ring no bell here.
    replace(event_sources, SWEEP_SECONDS=0.5, PAUSES_SECONDS=(0.05, 0.2))
    event_sources.start(kit)
    asyncio.run(asyncio.sleep(600))


if __name__ == "__main__":
    main(*sys.argv[1:])
