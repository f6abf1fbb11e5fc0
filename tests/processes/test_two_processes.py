"""Two processes that share nothing but a table, as two Lambda containers do."""

import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rpc import Rpc, Streaming, events, intent, message, request, texts
from tests.processes.servers import KEY, Server

pytestmark = pytest.mark.slow


class Remote(Rpc):
    """Rpc over the network."""

    def __init__(self, url: str) -> None:
        super().__init__(httpx2.Client(base_url=url, timeout=120), KEY)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def pair(servers: Server) -> tuple[Remote, Remote]:
    return Remote(servers()), Remote(servers())


def test_a_task_made_in_one_is_everything_in_the_other(pair: tuple[Remote, Remote]) -> None:
    one, other = pair
    question = one.send(metadata=intent("add", a="40"))
    assert question["status"]["state"] == "input-required"
    assert other.call("tasks/get", {"id": question["id"]}) == question
    result = other.send("2", taskId=question["id"])
    assert result["artifacts"][0]["parts"] == [
        {"kind": "data", "data": {"value": 42}, "metadata": {"data_part_compat": True}}
    ]
    assert one.call("tasks/get", {"id": question["id"]}) == result
    by_context = one.send(metadata=intent("add", a="1"))
    assert other.send("2", contextId=by_context["contextId"])["id"] == by_context["id"]


def test_a_running_task_is_canceled_and_followed_from_the_other(pair: tuple[Remote, Remote]) -> None:
    one, other = pair
    with ThreadPoolExecutor() as pool:
        running = Streaming(one, pool, skill="pause", seconds="60")
        task_id = running.until(2)
        follower = pool.submit(other.post, request("tasks/resubscribe", {"id": task_id}))
        assert other.call("tasks/get", {"id": task_id})["status"]["state"] == "working"
        assert other.call("tasks/cancel", {"id": task_id})["status"]["state"] == "canceled"
        running.ended.result(PATIENCE_SECONDS)
        follow_events = events(follower.result(PATIENCE_SECONDS).text)
    assert running.seen[-1]["status"]["state"] == follow_events[-1]["status"]["state"] == "canceled"


def test_a_stream_is_followed_from_the_other_without_loss(pair: tuple[Remote, Remote]) -> None:
    one, other = pair
    with ThreadPoolExecutor() as pool:
        running = Streaming(one, pool, skill="pieces", count="20", every="0.1")
        target = {"id": running.until(1)}
        snapshot, *later = events(other.post(request("tasks/resubscribe", target)).text)
        running.ended.result(PATIENCE_SECONDS)
    stream_text = texts(snapshot) + "".join(
        texts({"artifacts": [event["artifact"]]}) for event in later if event["kind"] == "artifact-update"
    )
    assert stream_text == "".join(f"{number} " for number in range(20))
    assert later[-1]["status"]["state"] == "completed"


class TestEightThreads:
    """The same request from eight threads at once, over two processes: one run, one answer."""

    def ask(self, pair: tuple[Remote, Remote], body: bytes, **headers: str) -> list[Any]:
        barrier = threading.Barrier(8)

        def post(number: int) -> Any:
            barrier.wait()
            return pair[number % 2].post(body, **headers).json()["result"]

        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(post, range(8)))

    def runs(self, pair: tuple[Remote, Remote], context_id: str) -> int:
        """How often `look` ran in a context, this time not counted."""
        task = pair[0].send(contextId=context_id, metadata=intent("look"))
        turns: int = task["artifacts"][0]["parts"][0]["data"]["turns"]
        return turns - 1

    def test_a_new_task(self, pair: tuple[Remote, Remote]) -> None:
        context_id = str(uuid.uuid4())
        look = message(contextId=context_id, metadata=intent("look"))
        body = json.dumps(request("message/send", {"message": look})).encode()
        first, *others = self.ask(pair, body)
        assert others == [first] * 7
        assert self.runs(pair, context_id) == 1

    def test_an_idempotency_key(self, pair: tuple[Remote, Remote]) -> None:
        context_id = str(uuid.uuid4())
        look = message(contextId=context_id, metadata=intent("look"))
        body = json.dumps(request("message/send", {"message": look})).encode()
        first, *others = self.ask(pair, body, **{"Idempotency-Key": context_id})
        assert others == [first] * 7
        assert self.runs(pair, context_id) == 1

    def test_a_follow_up_by_context_alone(self, pair: tuple[Remote, Remote]) -> None:
        question = pair[0].send(metadata=intent("add", a="40"))
        answer = message("2", contextId=question["contextId"])
        body = json.dumps(request("message/send", {"message": answer})).encode()
        first, *others = self.ask(pair, body)
        assert others == [first] * 7
        assert first["id"] == question["id"]
        assert len(first["history"]) == 3

    def test_eight_messages_are_eight_turns(self, pair: tuple[Remote, Remote]) -> None:
        """What differs in its request id only is another request; no add to the memory is lost."""
        context_id = str(uuid.uuid4())
        look = message(contextId=context_id, metadata=intent("look"))

        def post(number: int) -> Any:
            return pair[number % 2].call("message/send", {"message": look})["id"]

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(post, range(8)))) == 8
        assert self.runs(pair, context_id) == 8
