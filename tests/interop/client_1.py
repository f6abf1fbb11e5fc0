"""a2a-sdk 1.x at its default timeouts; run in its own environment: client_1.py URL KEY BINDING."""

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import ClientConfig, create_client
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from google.protobuf.json_format import MessageToDict, ParseDict


def request(skill, **slots):
    slot_list = [{"name": name, "value": value} for name, value in slots.items()]
    message = {
        "messageId": str(uuid.uuid4()),
        "role": "ROLE_USER",
        "parts": [{"text": "hello"}],
        "metadata": {"intentInfos": [{"intent": skill, "slots": slot_list}]},
    }
    return ParseDict({"message": message}, SendMessageRequest())


def text(events):
    artifacts = []
    for event in map(MessageToDict, events):
        artifacts += event.get("task", {}).get("artifacts", [])
        if "artifactUpdate" in event:
            artifacts.append(event["artifactUpdate"]["artifact"])
    return "".join(part.get("text", "") for artifact in artifacts for part in artifact["parts"])


def state(task):
    return MessageToDict(task)["status"]["state"].removeprefix("TASK_STATE_").lower()


def end(events):
    last = events[-1]
    return state(last.status_update if last.HasField("status_update") else last.task)


async def main(url, key, binding):
    async with httpx.AsyncClient(headers={"X-API-Key": key}) as http:
        options = {"httpx_client": http, "supported_protocol_bindings": [binding]}
        streaming_client = await create_client(url, ClientConfig(**options))
        plain_client = await create_client(url, ClientConfig(**options, streaming=False))

        async def send(client, skill, started=None, **slots):
            events = []
            async for event in client.send_message(request(skill, **slots)):
                events.append(event)
                if started is not None and not started.done():
                    started.set_result(event.task.id)
            return events

        silent, blocked, streamed, quick = await asyncio.gather(
            send(plain_client, "pause", seconds="12"),
            send(plain_client, "block", seconds="12"),
            send(streaming_client, "pause", seconds="12"),
            send(streaming_client, "pieces", count="5", every="0.05"),
        )
        [question] = await send(plain_client, "add", a="1")
        task = await plain_client.get_task(GetTaskRequest(id=question.task.id))
        started = asyncio.get_running_loop().create_future()
        work = asyncio.create_task(send(streaming_client, "pause", started, seconds="2"))
        following = SubscribeToTaskRequest(id=await started)
        follow_events = [event async for event in streaming_client.subscribe(following)]
        await work
        page = await plain_client.list_tasks(ListTasksRequest(page_size=2, include_artifacts=True))
        task_id = quick[0].task.id
        hook = TaskPushNotificationConfig(
            task_id=task_id, id="hook", url="https://example.com/hook", token="t"
        )
        await plain_client.create_task_push_notification_config(hook)
        params = {"task_id": task_id, "id": "hook"}
        config = await plain_client.get_task_push_notification_config(
            GetTaskPushNotificationConfigRequest(**params)
        )
        of_task = ListTaskPushNotificationConfigsRequest(task_id=task_id)
        hooks = await plain_client.list_task_push_notification_configs(of_task)
        await plain_client.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(**params)
        )
        left = await plain_client.list_task_push_notification_configs(of_task)
        canceled = await plain_client.cancel_task(CancelTaskRequest(id=question.task.id))
        return {
            "send": text(silent),
            "blocked": text(blocked),
            "stream": text(streamed),
            "ends": [end(streamed), end(quick)],
            "quick": text(quick),
            "get": state(task).replace("_", "-"),
            "cancel": state(canceled),
            "resubscribe": text(follow_events),
            "push": config.url,
            "pushes": [len(hooks.configs), len(left.configs)],
            "list": [len(page.tasks), page.page_size, page.total_size > 2, bool(page.next_page_token)],
        }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
