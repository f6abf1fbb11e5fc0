"""Google's ADK sends and gets a file: client_adk.py URL KEY, the file on standard input."""

import asyncio
import json
import sys

import httpx
from a2a.client import ClientConfig, ClientFactory
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import InMemoryRunner
from google.genai.types import Blob, Content, Part


async def main(url, key):
    content = sys.stdin.buffer.read()
    async with httpx.AsyncClient(headers={"X-API-Key": key}, timeout=60) as http:
        factory = ClientFactory(ClientConfig(httpx_client=http, streaming=False))
        card = f"{url}/.well-known/agent-card.json"
        agent = RemoteA2aAgent(name="mirror", agent_card=card, httpx_client=http, a2a_client_factory=factory)
        runner = InMemoryRunner(agent, app_name="app")
        session = await runner.session_service.create_session(app_name="app", user_id="ann")
        picture = Part(inline_data=Blob(data=content, mime_type="image/png", display_name="sent.png"))
        message = Content(role="user", parts=[Part(text="hi"), picture])
        parts = []
        async for event in runner.run_async(user_id="ann", session_id=session.id, new_message=message):
            parts += (event.content and event.content.parts) or []
        files = [part.file_data for part in parts if part.file_data]
        return {
            "text": "".join(part.text or "" for part in parts),
            "files": [[file.display_name, file.mime_type, file.file_uri] for file in files],
        }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
