"""What a deployment does with files. `Files` has its parts, which share the bucket.

a message's files   ── inbox ── bucket ── turn_files ── turn.files
a turn's outputs    ── writer ── bucket ── links ── URLs in answers
a client's upload   ── new_upload ── bucket ── inbox
"""

import uuid
from typing import NamedTuple

from a2a_lambda import threads
from a2a_lambda.errors import UnsupportedOperation
from a2a_lambda.files.bucket import FORM_SECONDS, Bucket, Form, key_of
from a2a_lambda.files.links import Links
from a2a_lambda.protocol.model import Message
from a2a_lambda.protocol.stored_file import SCHEME
from a2a_lambda.tasks.identity import Namespace, RequestIdentity


class UploadPlace(NamedTuple):
    """Where a client sends a file.

    reference: names the file in a message. form: the URL and the fields with which the client posts the file.
    seconds: how long the form is valid.
    """

    reference: str
    form: Form
    seconds: int


class Files:
    """The files of a deployment: received, output, shown and uploaded.

    bucket: None = every file stays in its task. repeat_seconds: see `Inbox`. allow_loopback: URLs of files
    may lead to this machine.
    """

    def __init__(
        self,
        bucket: Bucket | None = None,
        *,
        repeat_seconds: float = 0.0,
        allow_loopback: bool = False,
    ) -> None:
        self.bucket = bucket
        self.allow_loopback = allow_loopback
        self._repeat_seconds = repeat_seconds
        self.links = Links(bucket)

    async def receive(self, namespace: Namespace, request: RequestIdentity, message: Message) -> Message:
        """A message that `is_stored_apart`, as it is stored. Raises what `Inbox.receive` raises."""
        from a2a_lambda.files.inbox import Inbox  # few messages have large files

        return await Inbox(self.bucket, self._repeat_seconds).receive(namespace, request, message)

    async def new_upload(self, namespace: Namespace, max_bytes: int) -> UploadPlace:
        """A place for a file of the caller, with the form to write it. Raises UnsupportedOperation if the
        deployment has no bucket."""
        if self.bucket is None:
            raise UnsupportedOperation("this deployment does not accept uploads: send files within messages")
        reference = f"{SCHEME}uploads/{uuid.uuid4().hex}"
        form = await threads.run_for_files(self.bucket.form, key_of(namespace, reference), max_bytes)
        return UploadPlace(reference, form, FORM_SECONDS)
