"""The media type of a request."""

from fastapi import Request

from a2a_lambda.errors import UnsupportedMediaType
from a2a_lambda.http.error_responses import JSON


def check_media_type(request: Request) -> None:
    """Raises UnsupportedMediaType for what is not JSON."""
    media_type = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if media_type != JSON and not media_type.endswith("+json"):
        raise UnsupportedMediaType(f"Content-Type is {media_type[:100]}, and must be {JSON}")
