"""POST /uploads, POST /a2a/<agent>/uploads: a place for a file that is too large for a message.

    client ── {"mediaType", "size"} ──► here ── {"url", "form", "expires"}
    client ── the form's fields, then the file ───► the bucket
    client ── a message with a part {"url", …} ───► the agent

The URL is a reference. Anyone with the form may write that one file until it expires, and only the
caller can send the reference. docs/files.md describes it.
"""

import time

from starlette.requests import Request
from starlette.responses import Response

from a2a_lambda import strictjson
from a2a_lambda.errors import InvalidParams
from a2a_lambda.http.error_responses import JSON, NO_STORE, failure_response
from a2a_lambda.http.operation_call import accept
from a2a_lambda.http.request import check_media_type
from a2a_lambda.protocol.model import timestamp
from a2a_lambda.wire.shared import fields


async def handle(request: Request, name: str | None) -> Response:
    """name: name of the agent; None = the default agent."""
    try:
        accepted_request = await accept(request, check_media_type)
        kit = accepted_request.kit
        agent, namespace = accepted_request.resolve_agent(name)
        source = fields.mapping(strictjson.loads(accepted_request.body), "body")
        size = fields.count(source, "size", "body")
        max_bytes = kit.settings.upload_bytes
        if not size or size > max_bytes:
            subject = "body.size" if size is not None else "body.size is missing: it"
            raise InvalidParams(f"{subject} must be from 1 to {max_bytes:,} bytes", path="body.size")
        agent.card.check_media_type(fields.text(source, "mediaType", "body"), "body.mediaType")
        upload = await kit.files.new_upload(namespace, size)
    except Exception as cause:
        return failure_response(cause)
    body = {
        "url": upload.reference,
        "form": {"url": upload.form.url, "fields": upload.form.fields},
        "expires": timestamp(time.time() + upload.seconds),
    }
    return Response(strictjson.dumps(body), headers=NO_STORE, media_type=JSON)
