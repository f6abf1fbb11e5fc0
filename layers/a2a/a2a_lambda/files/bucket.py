"""The bucket with the content of files. Its objects have no type, so that no browser runs one: each URL says
how its file is served. A key is the owner's digest, then the agent, then the path of the reference:

    <SHA-256 of the owner, 32 hex digits>/<agent>/tasks/<digest>/<turn>[-<epoch>]/<number>

Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-presigned-url.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
"""

import hashlib
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from urllib.parse import quote

from botocore.exceptions import BotoCoreError, ClientError

from a2a_lambda import tracing
from a2a_lambda.errors import FileAbsent, FilesUnavailable
from a2a_lambda.protocol.model import plain_media_type
from a2a_lambda.protocol.stored_file import REFERENCE, SCHEME
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.threads import Once

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        CompletedPartTypeDef,
        GetObjectOutputTypeDef,
        HeadObjectOutputTypeDef,
    )

logger = logging.getLogger(__name__)

LINK_SECONDS = 3600
"""Seconds for which a URL is valid, unless the credentials that signed it end sooner."""

FORM_SECONDS = 3600
"""Seconds in which an upload must begin."""

BINARY_TYPE = "application/octet-stream"

TEXT_TYPE = "text/plain; charset=utf-8"

SHOWN = (
    r"image/(png|jpeg|gif|webp|avif|bmp)|text/plain|application/pdf"
    r"|(audio|video)/(?![\w.+-]*\+xml$)[\w.+-]{1,127}"
)
"""Media types that a browser shows and cannot run; XML could hold a script. Every other type is served as a
download. A subtype has at most 127 characters (RFC 6838 section 4.2)."""

DENIED_CODES = frozenset({"403", "AccessDenied"})
"""Codes of S3 for an object that is not there, because the functions may not list the bucket; and for one
that a policy, or the policy of a KMS key, denies."""

OBJECT_ABSENT_CODES = frozenset({"404", "NoSuchKey", "NotFound", "412", "PreconditionFailed"}) | DENIED_CODES

NAME_CHARACTERS = 120
"""Characters of a file's name that a URL has. A client may write a name of megabytes."""


def owner_prefix(owner: str) -> str:
    """What the keys of all files of an owner begin with."""
    return f"{hashlib.sha256(owner.encode()).hexdigest()[:32]}/"


def key_of(namespace: Namespace, reference: str) -> str:
    """Key of the object that a reference of this owner and agent means. Raises FileAbsent if it is none."""
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise FileAbsent("this is no reference")
    return folder_key(namespace, f"{SCHEME}{match['path']}")


def version_of(reference: str) -> str:
    """Version that the object of a reference must have; "" = any."""
    match = REFERENCE.fullmatch(reference)
    return (match["version"] or "") if match else ""


def folder_key(namespace: Namespace, folder: str) -> str:
    """Prefix of the keys of all files whose references begin with `folder`."""
    return f"{owner_prefix(namespace.owner)}{namespace.agent}/{folder.removeprefix(SCHEME)}"


class StoredObject(NamedTuple):
    """An object in the bucket.

    version: its ETag without the quotes, and the second in which it was written, because the ETag of an
    upload is an MD5, and two files with the same MD5 can be constructed. written_at: when it was written.
    """

    version: str
    written_at: datetime


class Form(NamedTuple):
    """What a client posts as multipart/form-data: these fields, and after them `file`."""

    url: str
    fields: dict[str, str]


class Bucket:
    """The deployment's bucket in S3.

    make_client: called when the client is first needed, because making botocore's client takes a tenth of
    a second.

    Calls block. They raise FilesUnavailable if S3 does not answer, or refuses.
    """

    def __init__(self, make_client: "Callable[[], S3Client]", name: str) -> None:
        self._shared_client = Once(make_client)
        self.name = name

    @property
    def _s3(self) -> "S3Client":
        return self._shared_client.get()

    def put(self, key: str, content: bytes) -> None:
        with _s3_call("PutObject"):
            self._s3.put_object(Bucket=self.name, Key=key, Body=content, ContentType=BINARY_TYPE)

    def begin_parts(self, key: str) -> str:
        """Begin an object in parts; returns the id of the upload."""
        with _s3_call("CreateMultipartUpload"):
            answer = self._s3.create_multipart_upload(Bucket=self.name, Key=key, ContentType=BINARY_TYPE)
        return answer["UploadId"]

    def put_part(self, key: str, upload_id: str, number: int, content: bytes) -> "CompletedPartTypeDef":
        """Put a part of at least 5 MiB, or the last one; returns what `end_parts` needs. number: from 1."""
        with _s3_call("UploadPart"):
            answer = self._s3.upload_part(
                Bucket=self.name, Key=key, UploadId=upload_id, PartNumber=number, Body=content
            )
        part: CompletedPartTypeDef = {"ETag": answer["ETag"], "PartNumber": number}
        # botocore asks for this checksum by default, and S3 then wants it for each part.
        if "ChecksumCRC32" in answer:
            part["ChecksumCRC32"] = answer["ChecksumCRC32"]
        return part

    def end_parts(self, key: str, upload_id: str, parts: "list[CompletedPartTypeDef]") -> None:
        """Make the parts one object. Until then there is no object."""
        with _s3_call("CompleteMultipartUpload"):
            self._s3.complete_multipart_upload(
                Bucket=self.name, Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts}
            )

    def abort_parts(self, key: str, upload_id: str) -> None:
        with _s3_call("AbortMultipartUpload"):
            self._s3.abort_multipart_upload(Bucket=self.name, Key=key, UploadId=upload_id)

    def find(self, key: str) -> StoredObject | None:
        """An object, or None if there is none."""
        try:
            with _s3_call("HeadObject"):
                answer = self._s3.head_object(Bucket=self.name, Key=key)
        except FileAbsent:
            return None
        return StoredObject(_version_of(answer), answer["LastModified"])

    def open(self, key: str, version: str = "") -> BinaryIO:
        """The content of an object. version: what `find` said of it; "" = any. Raises FileAbsent; reading
        raises it, too, and FilesUnavailable."""
        from a2a_lambda.files.content import content_of  # few requests read a file, and it imports urllib3

        answer = self._get(key)
        if version and _version_of(answer) != version:
            answer["Body"].close()
            raise FileAbsent("the object was written again")

        def read_from(position: int) -> Any:
            return self._get(key, IfMatch=answer["ETag"], Range=f"bytes={position}-")["Body"]

        return content_of(answer["Body"], answer["ContentLength"], read_from)

    def _get(self, key: str, **options: str) -> "GetObjectOutputTypeDef":
        with _s3_call("GetObject"):
            return self._s3.get_object(Bucket=self.name, Key=key, **options)  # type: ignore[arg-type]

    def link(self, key: str, name: str, media_type: str) -> str:
        """A URL of an object, for anyone who has it. It makes no call.

        name: the file's name. media_type: "" = unknown.
        """
        plain_type = plain_media_type(media_type)
        is_shown = re.fullmatch(SHOWN, plain_type, re.ASCII) is not None
        shown_type = TEXT_TYPE if plain_type == "text/plain" else plain_type
        disposition = "inline" if is_shown else "attachment"
        if len(name) > NAME_CHARACTERS:  # its end says what it is
            name = name[: NAME_CHARACTERS - 20] + name[-20:]
        params = {
            "Bucket": self.name,
            "Key": key,
            "ResponseContentType": shown_type if is_shown else BINARY_TYPE,
            "ResponseContentDisposition": f"{disposition}; filename*=UTF-8''{quote(name, safe='')}",
        }
        with _s3_call("presign"):
            return self._s3.generate_presigned_url("get_object", Params=params, ExpiresIn=LINK_SECONDS)

    def form(self, key: str, max_bytes: int) -> Form:
        """A form with which anyone who has it can write this object, of 1 to `max_bytes` bytes. It makes no
        call."""
        form_fields = {"Content-Type": BINARY_TYPE}
        conditions = [form_fields, ["content-length-range", 1, max_bytes]]
        with _s3_call("presign"):
            answer = self._s3.generate_presigned_post(
                self.name, key, Fields=dict(form_fields), Conditions=conditions, ExpiresIn=FORM_SECONDS
            )
        return Form(answer["url"], answer["fields"])


def _version_of(answer: "GetObjectOutputTypeDef | HeadObjectOutputTypeDef") -> str:
    """The version that `StoredObject` explains."""
    etag = answer["ETag"].strip('"')
    return f"{etag}-{int(answer['LastModified'].timestamp())}"


@contextmanager
def _s3_call(operation: str) -> Iterator[None]:
    """A span of a call; its failures are raised as the kit's own."""
    try:
        with tracing.aws_span("S3", operation):
            yield
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in OBJECT_ABSENT_CODES and operation in ("HeadObject", "GetObject"):
            if code in DENIED_CODES and operation == "GetObject":
                logger.warning("S3 denied GetObject: the file has expired, or a policy denies it")
            raise FileAbsent(f"S3 has no such object, or denies it: {code}") from None
        raise FilesUnavailable(f"S3 refused {operation}: {code}") from error
    except BotoCoreError as error:
        raise FilesUnavailable(f"S3 did not answer {operation}: {type(error).__name__}") from error
