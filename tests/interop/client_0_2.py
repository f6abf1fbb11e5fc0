"""a2a-sdk 0.2 at its default timeouts; run in its own environment: client_0_2.py URL KEY."""

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, A2AClient
from a2a.types import (
    CancelTaskRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    MessageSendParams,
    SendMessageRequest,
    SendStreamingMessageRequest,
    SetTaskPushNotificationConfigRequest,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
)


def params(skill, **slots):
    slot_list = [{"name": name, "value": value} for name, value in slots.items()]
    return MessageSendParams(
        message={
            "messageId": str(uuid.uuid4()),
            "role": "user",
            "parts": [{"kind": "text", "text": "hello"}],
            "metadata": {"intentInfos": [{"intent": skill, "slots": slot_list}]},
        }
    )


def result(answer):
    document = answer.model_dump(mode="json", exclude_none=True, by_alias=True)
    assert "error" not in document, document
    return document["result"]


def text(task):
    return "".join(part.get("text", "") for artifact in task["artifacts"] for part in artifact["parts"])


async def main(url, key):
    async with httpx.AsyncClient(headers={"X-API-Key": key}) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        client = A2AClient(http, agent_card=card)
        identity = lambda: str(uuid.uuid4())  # noqa: E731

        async def send(skill, **slots):
            return result(
                await client.send_message(SendMessageRequest(id=identity(), params=params(skill, **slots)))
            )

        async def stream(skill, **slots):
            request = SendStreamingMessageRequest(id=identity(), params=params(skill, **slots))
            return [result(answer) async for answer in client.send_message_streaming(request)]

        silent, blocked, streamed, quick = await asyncio.gather(
            send("pause", seconds="12"),
            send("block", seconds="12"),
            stream("pause", seconds="12"),
            stream("pieces", count="5", every="0.05"),
        )
        question = await send("add", a="1")
        task = result(
            await client.get_task(GetTaskRequest(id=identity(), params=TaskQueryParams(id=question["id"])))
        )
        canceled = result(
            await client.cancel_task(CancelTaskRequest(id=identity(), params=TaskIdParams(id=question["id"])))
        )
        hook = {"id": "hook", "url": "https://example.com/hook", "token": "t"}
        config = TaskPushNotificationConfig(taskId=question["id"], pushNotificationConfig=hook)
        await client.set_task_callback(SetTaskPushNotificationConfigRequest(id=identity(), params=config))
        wanted = GetTaskPushNotificationConfigRequest(id=identity(), params=TaskIdParams(id=question["id"]))
        push_config = result(await client.get_task_callback(wanted))
        chunks = lambda events: text({"artifacts": [e["artifact"] for e in events if "artifact" in e]})  # noqa: E731
        return {
            "send": text(silent),
            "blocked": text(blocked),
            "stream": chunks(streamed),
            "ends": [streamed[-1]["status"]["state"], quick[-1]["status"]["state"]],
            "quick": chunks(quick),
            "get": task["status"]["state"],
            "cancel": canceled["status"]["state"],
            "push": push_config["pushNotificationConfig"]["url"],
        }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
