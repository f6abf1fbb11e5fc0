"""What clients see of a kit that runs somewhere: `make run`, or a stack on AWS, with agents of the tests.

traveler waits ── url of its wait ── webhook of a background turn of probe ── the wait ends
"""

import asyncio
import hashlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from a2a_lambda.client import Client
from a2a_lambda.protocol.model import TERMINAL, Json, Part, Task, TaskState, state_word
from a2a_lambda.protocol.requests import SendMessageConfiguration
from tests.agents.probe.drawings import drawing
from tests.helpers.rpc import intent
from tools.callers.uploads import upload

AGENTS = ("assistant", "probe", "traveler")

BACKGROUND_SECONDS = 300.0
"""Seconds for what happens in the background."""

POLL_SECONDS = 1.0

AT_ONCE = SendMessageConfiguration(returnImmediately=True)


@dataclass(frozen=True, slots=True)
class Live:
    """A deployment. Its url names no agent. It is private if it is on this machine."""

    url: str
    key: str
    is_private: bool = False

    async def check_stream(self, seconds: int) -> str:
        """A stream takes its time, and its events come one by one. Returns what was seen."""
        start = time.monotonic()
        texts, times = [], []
        async with self._client("probe") as agent:
            async for event in agent.stream("hi", metadata=intent("pieces", count=str(seconds), every="1")):
                for part in event.get("artifactUpdate", {}).get("artifact", {}).get("parts", []):
                    if text := part.get("text"):
                        texts.append(text)
                        times.append(time.monotonic() - start)
        assert "".join(texts).split() == [str(number) for number in range(seconds)]
        assert times[-1] >= seconds - 1
        took = times[-1] - times[0]
        assert took > (seconds - 1) / 2, f"the first event came after {times[0]:.1f} s of {times[-1]:.1f}"
        return f"{len(texts)} events, the first after {times[0]:.1f} s, the last after {times[-1]:.1f}"

    async def check_background_turn_and_webhook(self) -> str:
        """A background turn ends, and its webhook is called. The webhook is the url of a durable turn's wait,
        so that the turn puts out what the webhook got."""
        async with self._client("traveler") as traveler, self._client("probe") as probe:
            waiting = await traveler.send("", metadata=intent("pay"), configuration=AT_ONCE)
            waits = await _until(traveler, waiting, lambda task: bool(_data(task)))
            url = _data(waits)[0]["pay at"]
            config = SendMessageConfiguration(returnImmediately=True, taskPushNotificationConfig={"url": url})
            start = await probe.send("in the background", configuration=config)
            task_at_end = await _until(probe, start, _has_ended)
            payment_task = await _until(traveler, waits, _has_ended)
        assert task_at_end["status"]["state"] == payment_task["status"]["state"] == TaskState.COMPLETED
        assert _task_ids(_data(payment_task)[-1]["paid"]) == {task_at_end["id"]}
        return f"task {task_at_end['id']}, webhook and callback in the turn of {payment_task['id']}"

    async def check_files(self) -> str:
        """A file is uploaded, read by an agent, and comes back as a url that anyone can read."""
        content = b"0123456789" * 600_000
        headers = {"X-API-Key": self.key}
        async with httpx2.AsyncClient(timeout=BACKGROUND_SECONDS) as http, self._client("probe") as probe:
            url = f"{self.url.rstrip('/')}/a2a/probe/uploads"
            part = Part(filename="large.bin", mediaType="application/octet-stream")
            part = await upload(http, url, io.BytesIO(content), part, size=len(content), headers=headers)
            task: Any = await probe.send([Part(text="hi"), part], metadata=intent("examine"))
            [[_, _, size, digest]] = _data(task)[0]
            assert (size, digest) == (len(content), hashlib.sha256(content).hexdigest())
            picture: Any = await probe.send("hi", metadata=intent("draw", size="9000000", kind="path"))
            [link, _] = [
                part["url"] for item in picture["artifacts"] for part in item["parts"] if "url" in part
            ]
            answer = await http.get(link)
        assert answer.content == drawing(9_000_000)
        return f"{size:,} bytes in, {len(answer.content):,} bytes out, as {answer.headers['content-type']}"

    async def check_pause(self) -> str:
        """A durable turn pauses three times, and continues."""
        began = time.monotonic()
        async with self._client("traveler") as traveler:
            task = await traveler.send("", metadata=intent("nap"), configuration=AT_ONCE)
            task_at_end = await _until(traveler, task, _has_ended)
        texts = [part.get("text", "") for artifact in task_at_end["artifacts"] for part in artifact["parts"]]
        assert "".join(texts).split() == ["1", "2", "3", "awake"]
        return f"three pauses, {time.monotonic() - began:.1f} s"

    def _client(self, agent: str) -> Client:
        return Client(f"{self.url.rstrip('/')}/a2a/{agent}", key=self.key, private=self.is_private)


async def _until(agent: Client, sent: Any, holds: Callable[[Task], bool]) -> Task:
    """The task, as soon as something holds for it."""
    give_up_at = time.monotonic() + BACKGROUND_SECONDS
    while not holds(task := await agent.get(sent["id"])):
        assert time.monotonic() < give_up_at, f"task {task['id']} is {state_word(task['status']['state'])}"
        await asyncio.sleep(POLL_SECONDS)
    return task


def _has_ended(task: Task) -> bool:
    return task["status"]["state"] in TERMINAL


def _data(task: Task) -> list[Json]:
    """Values of the data parts of a task's artifacts."""
    artifacts = task.get("artifacts", [])
    return [part["data"] for artifact in artifacts for part in artifact["parts"] if "data" in part]


def _task_ids(posted: Json) -> set[str]:
    """Ids of the tasks in what a webhook got."""
    return {update.get("taskId") or update["id"] for body in posted for update in body.values()}
