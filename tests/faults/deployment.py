"""Processes that a test may kill, and what a client of them has seen."""

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Any

import httpx2

from a2a_lambda.aws import clients
from a2a_lambda.protocol.model import STOPPED, Json
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Namespace
from tests.conftest import AGENTS
from tests.faults import forks, node
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rest import PLAIN_HTTP
from tests.processes.servers import answers
from tools.build.built_functions import free_port
from tools.dev import event_sources
from tools.registers.keys import KeyRegister

VISIBILITY_SECONDS = "2"


@dataclass
class Outcome:
    """What a client has seen. acknowledged: texts of events that an `id:` followed."""

    status: int = 0
    task_id: str = ""
    acknowledged: list[str] = field(default_factory=list)
    finished: bool = False


class Deployment:
    """Processes over one ministack, and what this test can see of its table."""

    def __init__(self, ministack: Settings) -> None:
        sqs = clients.sqs(ministack)
        queues = event_sources.create_queues(sqs, f"faults-{uuid.uuid4().hex[:8]}")
        for url in (queues.turns, queues.notices):  # a message of a dead process comes again as soon
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": VISIBILITY_SECONDS})
        bucket = f"faults-{uuid.uuid4().hex[:8]}"
        self.s3 = clients.s3(ministack)
        self.s3.create_bucket(Bucket=bucket)
        self.settings = ministack.model_copy(
            update={
                "files_bucket": bucket,
                # A process that has read the others' a moment ago would know no newer keys.
                "keys_path": f"/{bucket}",
                "queue": queues.turns,
                "dead_letters": queues.dead_arn,
                "notices": queues.notices,
                "loopback_webhooks": True,
                "agents": AGENTS,
            }
        )
        label = f"k{uuid.uuid4().hex[:8]}"
        self.key = KeyRegister(clients.ssm(ministack), self.settings.keys_path).create(label, local=True)
        self.namespace = Namespace(label, "probe")
        self.store = Store(Table(clients.dynamodb(ministack), ministack.table), ttl=86_400)
        self.environment = {
            f"A2A_{name.upper()}": str(value)
            for name, value in self.settings.model_dump().items()
            if value not in ("", (), False)
        }

    @contextmanager
    def serving(self, *death: str) -> Iterator[str]:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        with self._running("serve", str(port), *death) as child:
            give_up_at = time.monotonic() + PATIENCE_SECONDS
            while not answers(f"{url}/.well-known/agent.json"):
                assert child.is_alive(), f"the server ended with {child.exitcode}"
                assert time.monotonic() < give_up_at, f"{url} does not answer"
                time.sleep(0.02)
            yield url

    @contextmanager
    def working(self, *death: str) -> Iterator[BaseProcess]:
        with self._running("work", "0", *death) as child:
            yield child

    @contextmanager
    def _running(self, *arguments: str) -> Iterator[BaseProcess]:
        child = forks.start(node.main, *arguments, environment=self.environment)
        try:
            yield child
        finally:
            child.kill()
            child.join()

    def head(self, task_id: str) -> Any:
        return self.store.get_head(self.namespace, task_id)

    def has_died(self, worker: BaseProcess, task_id: str) -> bool:
        """Whether a worker died before a task stopped. Waits until one of these happens."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while worker.is_alive() and time.monotonic() < deadline:
            head = self.head(task_id)
            if head is None or head.state in STOPPED:
                break
            time.sleep(0.05)
        return not worker.is_alive()

    def wait_until_stopped(self, task_id: str) -> Any:
        """The head, after its task stopped. It must stop, whichever process died."""
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < give_up_at:
            head = self.head(task_id)
            if head is None or head.state in STOPPED:
                return head
            time.sleep(0.1)
        raise AssertionError(f"task {task_id} is still {head.state}")

    def objects(self) -> set[str]:
        """Keys of the bucket's objects."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.settings.files_bucket)
        return {item["Key"] for page in pages for item in page.get("Contents", [])}

    def turns(self, context_id: str) -> int:
        """How often the agent's memory was written in a conversation."""
        context: int = self.store.get_context(self.namespace, context_id).memory.get("turns", 0)
        return context


def send(url: str, key: str, body: Json, *, streaming: bool = False) -> Outcome:
    """Ask, and see what comes before the server dies."""
    outcome = Outcome()
    headers = {"X-API-Key": key, "A2A-Version": "1.0"}
    path = f"{url}/a2a/probe/message:{'stream' if streaming else 'send'}"
    waiting: list[str] = []
    try:
        with httpx2.stream(
            "POST", path, json=body, headers=headers, timeout=PATIENCE_SECONDS, verify=PLAIN_HTTP
        ) as answer:
            outcome.status = answer.status_code
            if not streaming:
                answer.read()
                outcome.task_id = answer.json().get("task", {}).get("id", "")
                outcome.finished = answer.status_code == 200
                return outcome
            numbered = False
            for line in answer.iter_lines():
                if line.startswith("id:"):
                    numbered = True
                elif line.startswith("data:"):
                    event = json.loads(line[5:])
                    outcome.task_id = outcome.task_id or event.get("task", {}).get("id", "")
                    artifact = event.get("artifactUpdate", {}).get("artifact", {"parts": []})
                    waiting += [part["text"] if "text" in part else part["url"] for part in artifact["parts"]]
                    if numbered:
                        outcome.acknowledged += waiting
                        waiting = []
                    numbered = False
            outcome.finished = True
    except (httpx2.TransportError, json.JSONDecodeError):
        pass  # it died
    return outcome
