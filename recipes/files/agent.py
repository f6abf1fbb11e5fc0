"""Files in and out. Small ones are part of the message; large ones go through a bucket.

A request and an answer hold a few MB. A presigned URL lets the client send a file to S3, or get it from
there, without permissions of its own.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-presigned-url.html
"""

import csv
import io
from functools import cache
from typing import Annotated, Any

import boto3
from botocore.config import Config

from a2a_lambda import Ask, File, SkillError, Turn, skill

SMALL_BYTES = 1_000_000
"""Results up to this size are part of the answer."""

LARGE_BYTES = 50_000_000
"""Most bytes of a file: it is read into the function's memory."""

LINK_SECONDS = 3600


@cache
def s3() -> Any:
    """The client: made in the first turn, not at import, and then kept."""
    # Links name the region's own host: the global one redirects, and does not serve some regions.
    return boto3.client("s3", config=Config(signature_version="s3v4", s3={"addressing_style": "virtual"}))


@skill
def upload(turn: Turn, name: Annotated[str, "the file's name"] = "data.csv") -> dict[str, Any]:
    # Keys begin with the owner of the caller's API key, so no one can name another one's file.
    key = f"{turn.owner}/{turn.id}/{name.rpartition('/')[2]}"
    form = s3().generate_presigned_post(
        turn.setting("bucket"),
        key,
        Conditions=[["content-length-range", 1, LARGE_BYTES]],
        ExpiresIn=LINK_SECONDS,
    )
    return {"key": key, **form}


@skill(default=True)
def add_up(turn: Turn, key: Annotated[str, "the key of an uploaded file"] = "") -> tuple[str, File] | Ask:
    if key:
        content = read_upload(turn, key)
    elif turn.files and turn.files[0].content is not None:
        content = turn.files[0].content
    else:
        return Ask("Please send a CSV file.")
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
    except (UnicodeDecodeError, csv.Error):
        raise SkillError("This is not a CSV file in UTF-8.") from None
    totals: dict[str, float] = {}
    for row in rows:
        for column, value in row.items():
            if (number := number_of(value)) is not None:
                totals[column] = totals.get(column, 0) + number
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(totals))
    writer.writeheader()
    writer.writerow(totals)
    return f"Rows: {len(rows)}.", file_of(turn, "totals.csv", text.getvalue().encode())


def read_upload(turn: Turn, key: str) -> bytes:
    if not key.startswith(f"{turn.owner}/"):
        raise SkillError("There is no such file.")
    try:
        found = s3().get_object(Bucket=turn.setting("bucket"), Key=key)
    except s3().exceptions.NoSuchKey:
        raise SkillError("There is no such file.") from None
    if found["ContentLength"] > LARGE_BYTES:
        raise SkillError("The file is too large.")
    content: bytes = found["Body"].read()
    return content


def file_of(turn: Turn, name: str, content: bytes) -> File:
    """The file itself if it is small, else a link to it that is valid for an hour."""
    if len(content) <= SMALL_BYTES:
        return File(name, content, media_type="text/csv")
    place = {"Bucket": turn.setting("bucket"), "Key": f"{turn.owner}/{turn.id}/{name}"}
    s3().put_object(**place, Body=content, ContentType="text/csv")
    url = s3().generate_presigned_url("get_object", Params=place, ExpiresIn=LINK_SECONDS)
    return File(name, url=url, media_type="text/csv")


def number_of(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None
