"""a2a-sdk 1.x sends and gets a file: client_1.py URL KEY BINDING, the file on standard input."""

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import ClientConfig, create_client
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest


async def main(url, key, binding):
    content = sys.stdin.buffer.read()
    file = Part(raw=content, filename="sent.png", media_type="image/png")
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text="hi"), file])
    async with httpx.AsyncClient(headers={"X-API-Key": key}, timeout=60) as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])
        client = await create_client(url, config)
        events = [event async for event in client.send_message(SendMessageRequest(message=message))]
        streamed = [
            part
            for event in events
            if event.HasField("artifact_update")
            for part in event.artifact_update.artifact.parts
        ]
        task = await client.get_task(GetTaskRequest(id=events[0].task.id))
        stored = [part for artifact in task.artifacts for part in artifact.parts]
        files = [part for part in (*streamed, *stored) if part.url]
        return {
            "text": "".join(part.text for part in stored),
            "files": [[part.filename, part.media_type, part.url] for part in files],
            "sent": task.history[0].parts[1].url,
        }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
