"""Files that are too large for a message: the deployment's bucket takes them (docs/files.md)."""

from collections.abc import Mapping
from typing import BinaryIO

import httpx2

from a2a_lambda import strictjson
from a2a_lambda.client import AgentError, discovery
from a2a_lambda.net.addresses import is_loopback_url
from a2a_lambda.protocol.model import Json, Part
from a2a_lambda.strictjson import object_in, objects_in, text_in
from a2a_lambda.wire.shared.card_json import UPLOADS_EXTENSION
from tools.callers.records import error_text

MESSAGE_BYTES = 3_300_000
"""Bytes of the files that a message holds. In base64 they are a third more, and a request has 4.5 MB."""

NO_UPLOADS = (
    f"the files of a message have at most {MESSAGE_BYTES:,} bytes. Larger ones need uploads, which this"
    " agent's card does not offer, or this version does not have"
)

UNKNOWN_TYPE = "application/octet-stream"

UPLOAD_SECONDS = 600.0
"""Seconds of silence after which an upload fails."""


def upload_url(card: Mapping[str, Json], home: str) -> str:
    """Where an agent takes uploads, or "" if it takes none. home: URL at which the agent is called, whose key
    goes nowhere else. Raises AgentError."""
    for extension in objects_in(object_in(card, "capabilities"), "extensions"):
        if extension.get("uri") == UPLOADS_EXTENSION:
            url = text_in(object_in(extension, "params"), "url")
            if url and not discovery.is_same_origin(httpx2.URL(url), httpx2.URL(home)):
                raise AgentError(f"the card sends uploads to another origin, {url}")
            return url
    return ""


async def upload(
    http: httpx2.AsyncClient,
    url: str,
    file: BinaryIO,
    part: Part,
    *,
    size: int,
    headers: Mapping[str, str],
) -> Part:
    """Upload a file; returns the part that names it. Raises AgentError, and what httpx raises.

    url: by `upload_url`. part: the file's filename, and its mediaType if it is known. size: its bytes.
    headers: those of the key.
    """
    media_type = part.get("mediaType", UNKNOWN_TYPE)
    answer = await http.post(url, headers=headers, json={"size": size, "mediaType": media_type})
    if answer.status_code != 200:
        raise AgentError(error_text(answer.content, answer.status_code), status=answer.status_code)
    place = strictjson.loads(answer.content)
    form = object_in(place, "form") if isinstance(place, dict) else {}
    target, download = text_in(form, "url"), text_in(place, "url") if form else ""
    if not target or not download:
        raise AgentError("the agent's answer does not say where to upload the file")
    # A service of this machine, or of its network, has no certificate for a name of the agent's choice.
    if not target.startswith("https://") and not is_loopback_url(url):
        raise AgentError(f"the agent's answer sends the file to a place without https, {target}")
    form_fields = object_in(form, "fields")
    if not all(isinstance(value, str) for value in form_fields.values()):
        raise AgentError("the agent's answer has a form with fields that are not strings")
    files = {"file": (part["filename"], file)}
    answer = await http.post(target, data=form_fields, files=files, timeout=UPLOAD_SECONDS)
    if answer.status_code >= 300:
        raise AgentError(f"the upload was refused with status {answer.status_code}: {answer.text[:300]}")
    return {**part, "url": download}
