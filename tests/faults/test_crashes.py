"""A process is killed at every write of a send, a stream, a background run and a push; then another
process picks up what is left, and nothing that was promised is missing.
"""

import base64
import time
import uuid
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx2
import pytest

from a2a_lambda.protocol.model import Json
from a2a_lambda.settings import Settings
from tests.agents.probe.drawings import drawing
from tests.faults import node
from tests.faults.deployment import Deployment, send
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rest import PLAIN_HTTP, message_1_0
from tests.helpers.rpc import intent
from tests.push.courier import Webhook

pytestmark = pytest.mark.slow(seconds=225)


POINTS = 8
"""Writes at which a process is killed; a flow with fewer is seen to the end."""


@pytest.fixture(scope="module")
def deployment(ministack: Settings) -> Deployment:
    return Deployment(ministack)


def body(skill: str, context_id: str = "", **slots: str) -> Json:
    fields = {"contextId": context_id} if context_id else {}
    return {"message": message_1_0(metadata=intent(skill, **slots), **fields)}


def points() -> list[tuple[str, str]]:
    return [(when, str(number)) for number in range(1, POINTS + 1) for when in ("before", "after")]


def get_task(url: str, key: str, task_id: str) -> Json:
    headers = {"X-API-Key": key, "A2A-Version": "1.0"}
    url = f"{url}/a2a/probe/tasks/{task_id}"
    return httpx2.get(url, headers=headers, timeout=PATIENCE_SECONDS, verify=PLAIN_HTTP).json()


def every_point(flow: Callable[[str, str], bool]) -> int:
    """Go through a flow with a death at each of its writes; it says whether one happened. Returns the
    number of deaths."""
    deaths = 0
    for when, number in points():
        if not flow(when, number):
            break
        deaths += 1
    return deaths


def test_a_send(deployment: Deployment) -> None:
    def flow(when: str, number: str) -> bool:
        context_id = str(uuid.uuid4())
        request = body("look", context_id)
        with deployment.serving(when, number) as url:
            first = send(url, deployment.key, request)
        time.sleep(node.LEASE_SECONDS)
        with deployment.serving() as url:
            again = send(url, deployment.key, request)
        assert again.finished, (when, number)
        head = deployment.wait_until_stopped(again.task_id)
        assert head.state == "TASK_STATE_COMPLETED"
        if first.finished:
            assert again.task_id == first.task_id
        assert deployment.turns(context_id) in ((1,) if first.finished else (1, 2)), (when, number)
        return not first.finished

    print(f"\nsend: killed at {(deaths := every_point(flow))} points, nothing lost")
    assert deaths >= 5


def test_a_stream(deployment: Deployment) -> None:
    looks: list[str] = []

    def flow(when: str, number: str) -> bool:
        with deployment.serving(when, number) as url:
            client = send(url, deployment.key, body("pieces", count="8", every="0.1"), streaming=True)
        if not client.task_id:  # it died before its client had a task
            return not client.finished
        looks.append(client.task_id)
        time.sleep(node.LEASE_SECONDS)
        with deployment.serving() as url:  # a look ends what no one runs
            task = get_task(url, deployment.key, client.task_id)
        assert task["status"]["state"] in ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
        text = "".join(part["text"] for item in task.get("artifacts", []) for part in item["parts"])
        assert text.startswith("".join(client.acknowledged)), (when, number)
        return not client.finished

    print(f"\nstream: killed at {(deaths := every_point(flow))} points, nothing acknowledged was lost")
    assert deaths >= 5
    assert len(looks) >= 5


FILE = b"f" * 300_000


def with_files(context_id: str = "", **slots: str) -> Json:
    """A message with a large file, to an agent that puts out three."""
    request = body("gallery", context_id, count="3", **slots)
    raw = base64.b64encode(FILE).decode()
    request["message"]["parts"].append({"raw": raw, "filename": "sent.bin", "mediaType": "image/png"})
    return request


def urls_in(task: Json) -> list[str]:
    messages = [*task.get("history", []), *task.get("artifacts", [])]
    return [part["url"] for item in messages for part in item["parts"] if "url" in part]


def read(url: str) -> bytes:
    answer = httpx2.get(url, timeout=PATIENCE_SECONDS, verify=PLAIN_HTTP)
    assert answer.status_code == 200, answer.text
    return answer.content


def test_a_stream_of_files(deployment: Deployment) -> None:
    """What a client has seen can be read, and what the task names is there."""

    def flow(when: str, number: str) -> bool:
        with deployment.serving(when, number) as url:
            answer = send(url, deployment.key, with_files(), streaming=True)
        for link in answer.acknowledged:
            assert read(link) == drawing(200_000)
        if not answer.task_id:
            return not answer.finished
        time.sleep(node.LEASE_SECONDS)
        with deployment.serving() as url:  # a look ends what no one runs
            task = get_task(url, deployment.key, answer.task_id)
        links = urls_in(task)
        assert read(links[0]) == FILE
        assert [read(link) for link in links[1:]] == [drawing(200_000)] * (len(links) - 1)
        assert len(links) - 1 >= len(answer.acknowledged), (when, number)
        return not answer.finished

    deaths = every_point(flow)
    print(f"\nfiles: killed at {deaths} points, every file that a client saw can be read")
    assert deaths >= 8


def test_a_background_run_of_files(deployment: Deployment) -> None:
    """Another worker puts out the same files again, and never where the dead one may still write."""

    def flow(when: str, number: str) -> bool:
        before = deployment.objects()
        request = with_files() | {"configuration": {"returnImmediately": True}}
        with deployment.serving() as url:
            first = send(url, deployment.key, request)
        with deployment.working(when, number) as worker:
            died = deployment.has_died(worker, first.task_id)
        with deployment.working():
            head = deployment.wait_until_stopped(first.task_id)
        assert head.state == "TASK_STATE_COMPLETED", (when, number, head.status)
        with deployment.serving() as url:
            task = get_task(url, deployment.key, first.task_id)
        links = urls_in(task)
        assert [read(link) for link in links] == [FILE, *[drawing(200_000)] * 3]
        assert len({urlsplit(link).path.rpartition("/")[0] for link in links[1:]}) == 1, (when, number)
        assert 4 <= len(deployment.objects() - before) <= 4 + 3, (when, number)
        return died

    print(f"\nfiles, worker: killed at {(deaths := every_point(flow))} points, all files are of one run")
    assert deaths >= 6


@pytest.mark.parametrize("who", ["serve", "work"])
def test_a_background_run(deployment: Deployment, who: str) -> None:
    """It goes through SQS and the worker."""

    def flow(when: str, number: str) -> bool:
        context_id = str(uuid.uuid4())
        request = body("look", context_id) | {"configuration": {"returnImmediately": True}}
        died = False
        with deployment.serving(*([when, number] if who == "serve" else [])) as url:
            first = send(url, deployment.key, request)
        died = not first.finished
        if who == "work":
            with deployment.working(when, number) as worker:
                died = deployment.has_died(worker, first.task_id)
        with deployment.working():
            if first.task_id:
                head = deployment.wait_until_stopped(first.task_id)
            else:  # the client asks again, as it would
                with deployment.serving() as url:
                    again = send(url, deployment.key, request)
                head = deployment.wait_until_stopped(again.task_id)
        assert head.state == "TASK_STATE_COMPLETED", (when, number, head.status)
        assert deployment.turns(context_id) == 1, (when, number)
        return died

    print(f"\nbackground, {who}: killed at {(deaths := every_point(flow))} points, each turn ran once")
    assert deaths >= (3 if who == "serve" else 5)


def test_a_push(deployment: Deployment) -> None:
    webhook = Webhook()

    def flow(when: str, number: str) -> bool:
        config = {"taskPushNotificationConfig": {"id": "a", "url": f"{webhook.url}/{uuid.uuid4()}"}}
        request = body("echo") | {"configuration": {**config, "returnImmediately": True}}
        with deployment.serving() as url:
            first = send(url, deployment.key, request)
        assert first.finished
        with deployment.working(when, number) as worker:
            give_up_at = time.monotonic() + PATIENCE_SECONDS
            while worker.is_alive() and time.monotonic() < give_up_at and not told(webhook, first.task_id):
                time.sleep(0.1)
            worker.join(3.0)  # it may yet die of what follows the last call
            died = not worker.is_alive()
        with deployment.working():
            head = deployment.wait_until_stopped(first.task_id)
            give_up_at = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < give_up_at and not told(webhook, first.task_id):
                time.sleep(0.1)
        assert head.state == "TASK_STATE_COMPLETED"
        assert told(webhook, first.task_id), (when, number)
        return died

    print(f"\npush: killed at {(deaths := every_point(flow))} points, every end was told")
    webhook.close()
    assert deaths >= 3


def told(webhook: Webhook, task_id: str) -> bool:
    """Whether the end of a task was told."""
    ends = (item["statusUpdate"] for _, item, _ in webhook.seen if "statusUpdate" in item)
    return any(end["taskId"] == task_id and end["status"]["state"] == "TASK_STATE_COMPLETED" for end in ends)
