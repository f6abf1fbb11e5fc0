"""Sends files as clients do."""

import base64
from typing import Any

import httpx2

from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rest import Rest

NAMED = {"filename": "drawing.png", "mediaType": "image/png"}


def inline(content: bytes) -> Any:
    """A file within a message."""
    return {"raw": base64.b64encode(content).decode(), **NAMED}


def ask_for_upload(rest: Rest, size: int, media_type: str = "image/png") -> Any:
    """The response."""
    return rest.ask("POST", "uploads", {"size": size, "mediaType": media_type})


def upload(rest: Rest, content: bytes) -> str:
    """Reference of a file that was uploaded."""
    answer = ask_for_upload(rest, len(content)).json()
    post(answer["form"], content)
    reference: str = answer["url"]
    return reference


def post(form: Any, content: bytes) -> None:
    """As `curl -F` does: the fields, and then the file."""
    fields, files = form["fields"], {"file": content}
    httpx2.post(form["url"], data=fields, files=files, timeout=PATIENCE_SECONDS).raise_for_status()
