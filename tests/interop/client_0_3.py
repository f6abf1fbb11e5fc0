"""a2a-sdk 0.3 at its default timeouts; run in its own environment: client_0_3.py URL KEY BINDING."""

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    Message,
    PushNotificationConfig,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
)


def message(skill, **slots):
    slot_list = [{"name": name, "value": value} for name, value in slots.items()]
    return Message(
        message_id=str(uuid.uuid4()),
        role="user",
        parts=[{"kind": "text", "text": "hello"}],
        metadata={"intentInfos": [{"intent": skill, "slots": slot_list}]},
    )


def text(task):
    return "".join(part.root.text for artifact in task.artifacts for part in artifact.parts)


async def main(url, key, binding):
    async with httpx.AsyncClient(headers={"X-API-Key": key}) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        options = {"httpx_client": http, "supported_transports": [binding]}
        streaming_client = ClientFactory(ClientConfig(**options)).create(card)
        plain_client = ClientFactory(ClientConfig(**options, streaming=False)).create(card)

        async def last(client, skill, **slots):
            task = None
            async for event, _ in client.send_message(message(skill, **slots)):
                task = event
            return task

        silent, blocked, streamed, quick = await asyncio.gather(
            last(plain_client, "pause", seconds="12"),
            last(plain_client, "block", seconds="12"),
            last(streaming_client, "pause", seconds="12"),
            last(streaming_client, "pieces", count="5", every="0.05"),
        )
        question = await last(plain_client, "add", a="1")
        read_task = await plain_client.get_task(TaskQueryParams(id=question.id))
        followed = None
        async for event, _ in streaming_client.resubscribe(TaskIdParams(id=quick.id)):
            followed = event
        canceled = await plain_client.cancel_task(TaskIdParams(id=question.id))
        hook = PushNotificationConfig(id="hook", url="https://example.com/hook", token="t")
        await plain_client.set_task_callback(
            TaskPushNotificationConfig(task_id=quick.id, push_notification_config=hook)
        )
        params = GetTaskPushNotificationConfigParams(id=quick.id, push_notification_config_id="hook")
        config = await plain_client.get_task_callback(params)
        return {
            "send": text(silent),
            "blocked": text(blocked),
            "stream": text(streamed),
            "ends": [streamed.status.state.value, quick.status.state.value],
            "quick": text(quick),
            "get": read_task.status.state.value,
            "cancel": canceled.status.state.value,
            "resubscribe": text(followed),
            "push": config.push_notification_config.url,
        }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
