"""a2a-sdk 1.x at its default timeouts; run in its own environment: client_1.py URL KEY."""

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import ClientConfig, create_client
from a2a.types import CancelTaskRequest, GetTaskRequest, SendMessageRequest, SubscribeToTaskRequest
from google.protobuf.json_format import MessageToDict, ParseDict


def request(skill, **slots):
    named = [{"name": name, "value": value} for name, value in slots.items()]
    message = {
        "messageId": str(uuid.uuid4()),
        "role": "ROLE_USER",
        "parts": [{"text": "hello"}],
        "metadata": {"intentInfos": [{"intent": skill, "slots": named}]},
    }
    return ParseDict({"message": message}, SendMessageRequest())


def text(events):
    found = [MessageToDict(event) for event in events]
    artifacts = [event["artifactUpdate"]["artifact"] for event in found if "artifactUpdate" in event]
    for event in found:
        artifacts += event.get("task", {}).get("artifacts", [])
    return "".join(part.get("text", "") for artifact in artifacts for part in artifact["parts"])


def state(task):
    return MessageToDict(task)["status"]["state"].removeprefix("TASK_STATE_").lower()


def end(events):
    last = events[-1]
    return state(last.status_update if last.HasField("status_update") else last.task)


async def main(url, key):
    async with httpx.AsyncClient(headers={"X-API-Key": key}) as http:
        streaming = await create_client(url, ClientConfig(httpx_client=http))
        plain = await create_client(url, ClientConfig(httpx_client=http, streaming=False))

        async def send(client, skill, **slots):
            return [event async for event in client.send_message(request(skill, **slots))]

        silent, blocked, streamed, quick = await asyncio.gather(
            send(plain, "pause", seconds="12"),
            send(plain, "block", seconds="12"),
            send(streaming, "pause", seconds="12"),
            send(streaming, "pieces", count="5", every="0.05"),
        )
        [asked] = await send(plain, "add", a="1")
        got = await plain.get_task(GetTaskRequest(id=asked.task.id))
        following = SubscribeToTaskRequest(id=quick[0].task.id)
        followed = [event async for event in streaming.subscribe(following)]
        canceled = await plain.cancel_task(CancelTaskRequest(id=asked.task.id))
        return {
            "send": text(silent),
            "blocked": text(blocked),
            "stream": text(streamed),
            "ends": [end(streamed), end(quick)],
            "quick": text(quick),
            "get": state(got).replace("_", "-"),
            "cancel": state(canceled),
            "resubscribe": text(followed),
        }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
