"""a2a-sdk 0.3 sends and gets a file: client_0_3.py URL KEY BINDING, the file on standard input."""

import asyncio
import base64
import json
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import FilePart, FileWithBytes, Message, TaskQueryParams, TextPart


async def main(url, key, binding):
    content = base64.b64encode(sys.stdin.buffer.read()).decode()
    file = FilePart(file=FileWithBytes(bytes=content, name="sent.png", mime_type="image/png"))
    message = Message(message_id=str(uuid.uuid4()), role="user", parts=[TextPart(text="hi"), file])
    async with httpx.AsyncClient(headers={"X-API-Key": key}, timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, supported_transports=[binding])).create(card)
        streamed = None
        async for task, _ in client.send_message(message):
            streamed = task
        task = await client.get_task(TaskQueryParams(id=streamed.id))
        parts = [
            part.root
            for source in (streamed, task)
            for artifact in source.artifacts
            for part in artifact.parts
        ]
        files = [part.file for part in parts if part.kind == "file"]
        return {
            "text": "".join(
                part.root.text
                for artifact in task.artifacts
                for part in artifact.parts
                if part.root.kind == "text"
            ),
            "files": [[file.name, file.mime_type, file.uri] for file in files],
            "sent": task.history[0].parts[1].root.file.uri,
        }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
