"""OpenAPI documents: of the deployment, and of each agent. Their paths and schemas are in openapi.json, which
`python -m tools.build.openapi` writes."""

from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from a2a_lambda import strictjson
from a2a_lambda.http.discovery.cards import cache_headers, describe, find_agent, is_unchanged
from a2a_lambda.http.error_responses import JSON
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Json
from a2a_lambda.wire.shared import openapi


async def handle(request: Request, name: str | None) -> Response:
    """The document of an agent, or of the deployment: the default agent, and others whose card is public.

    Raises as `find_agent` does.
    """
    agent, needs_key = await find_agent(request, name)
    agents = [await describe(request, agent, is_root=name is None)]
    if name is not None:
        document = openapi.encode_agent(_api(), agents[0])
    else:
        kit: Kit = request.app.state.kit
        for profile in kit.agents.values():
            if profile.card.public and profile.name != agent.name:
                agents.append(await describe(request, profile, is_root=False))
        document = openapi.encode_deployment(_api(), agents)
    body = strictjson.dumps(document)
    headers = cache_headers(body, agents, needs_key=needs_key)
    if is_unchanged(request, headers["ETag"]):
        return Response(None, 304, headers)
    return Response(body, 200, headers, JSON)


@cache
def _api() -> dict[str, Json]:
    api: dict[str, Json] = strictjson.loads(Path(__file__).with_name("openapi.json").read_bytes())
    return api
