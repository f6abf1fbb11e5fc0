"""What is in the tests' bucket."""

import urllib.request
from email.message import Message

from a2a_lambda.aws import clients
from a2a_lambda.settings import Settings


def objects_of(settings: Settings) -> set[str]:
    """Keys of all objects."""
    pages = clients.s3(settings).get_paginator("list_objects_v2").paginate(Bucket=settings.files_bucket)
    return {item["Key"] for page in pages for item in page.get("Contents", [])}


def get(url: str) -> tuple[bytes, Message]:
    """Content and headers of a url, for a client without a key."""
    with urllib.request.urlopen(url) as answer:
        return answer.read(), answer.headers
