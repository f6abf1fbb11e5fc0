"""a2a-sdk 1.x with its own interceptor for tokens; run in its own environment: client_sign_in.py URL TOKEN."""

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import AuthInterceptor, ClientCallContext, ClientConfig, create_client
from a2a.client.auth import CredentialService
from a2a.types import SendMessageRequest
from google.protobuf.json_format import MessageToDict, ParseDict


class Token(CredentialService):
    """Has a token for the scheme of one issuer, and for no other."""

    def __init__(self, token):
        self.token = token

    async def get_credentials(
        self, security_scheme_name: str, context: ClientCallContext | None
    ) -> str | None:
        return self.token if security_scheme_name == "openIdConnect-idp" else None


async def main(url, token):
    async with httpx.AsyncClient() as http:
        client = await create_client(
            url, ClientConfig(httpx_client=http), interceptors=[AuthInterceptor(Token(token))]
        )
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        events = [
            MessageToDict(event)
            async for event in client.send_message(ParseDict({"message": message}, SendMessageRequest()))
        ]
        print(json.dumps(events[-1]))


asyncio.run(main(*sys.argv[1:]))
