"""POST /callbacks/<token>: the reply of another system to a durable turn. The token stands for a key.

200  the turn has the reply
400  the body is not JSON, or its Content-Type is not application/json
404  no running turn made this URL
409  the turn does not wait for it yet: send it again after Retry-After
410  the wait has had its reply, or its timeout
413  the body has more than MAX_REPLY_BYTES
503  send it again
"""

from starlette.requests import Request
from starlette.responses import Response

from a2a_lambda import strictjson
from a2a_lambda.errors import Unavailable
from a2a_lambda.http.error_responses import JSON, failure_response
from a2a_lambda.http.request import check_media_type, read_body
from a2a_lambda.kit import Kit
from a2a_lambda.tasks.callback_token import CallbackToken

MAX_REPLY_BYTES = 256_000
"""Maximum size of a reply, in bytes."""


async def handle(request: Request, token_text: str) -> Response:
    kit: Kit = request.app.state.kit
    try:
        token = CallbackToken.read(token_text)
        if kit.waits is None:  # rolled back to a release without durable skills, which may be for a while
            raise Unavailable("this deployment does not continue durable turns at the moment")
        check_media_type(request)
        body = await read_body(request, MAX_REPLY_BYTES)
        data = strictjson.loads(body) if body.strip() else None
        await kit.waits.end(token, data)
    except Exception as cause:
        return failure_response(cause)
    return Response(b"{}", media_type=JSON)
