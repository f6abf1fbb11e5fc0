"""The files of one turn: those that came with its message, and those that it outputs."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from a2a_lambda.errors import ConfigurationError
from a2a_lambda.files.bucket import Bucket, key_of, version_of
from a2a_lambda.protocol.stored_file import SCHEME, output_reference
from a2a_lambda.tasks.head import Head

if TYPE_CHECKING:
    from a2a_lambda.files.writer import Writer


@dataclass(frozen=True, slots=True)
class TurnFiles:
    """Files of the turn that a head has. Calls block.

    bucket: None = every file stays in its task. allow_loopback: foreign URLs may lead to this machine.
    """

    head: Head
    bucket: Bucket | None
    allow_loopback: bool = field(kw_only=True)

    def writer(self, number: int, *, is_replayed: bool, inline_bytes: int) -> "Writer":
        """A writer for a file that the turn outputs. number: counts such files, from 1. is_replayed: the
        skill is durable, so that each of its runs outputs the same. inline_bytes: size of the largest file
        that stays in its task.

        A replayed skill does not write a file again that is already there. Any other run of the turn writes
        something else, perhaps while a run that has lost the task still writes, so its keys have the epoch.
        Raises FilesUnavailable.
        """
        from a2a_lambda.files.writer import Writer  # few turns output large files

        turn = self.head.turn_id
        if not is_replayed:
            turn = f"{turn}-{self.head.epoch}"
        reference = output_reference(self.head.task_id, turn, number)
        key = key_of(self.head.namespace, reference)
        is_stored = is_replayed and self.bucket is not None and self.bucket.find(key) is not None
        return Writer(self.bucket, key, reference, inline_bytes, is_stored=is_stored)

    def open(self, url: str) -> BinaryIO:
        """The content at a reference, or at a URL outside the deployment, which is hostile until proved
        otherwise.

        Raises FileAbsent, FilesUnavailable, and NotFetched for a URL that must not, or cannot, be read.
        """
        if url.startswith(SCHEME):
            return self._require_bucket().open(key_of(self.head.namespace, url), version_of(url))
        from a2a_lambda.net.fetch import fetch  # few turns read from elsewhere

        return fetch(url, allow_loopback=self.allow_loopback)

    def link(self, reference: str, name: str, media_type: str) -> str:
        """A URL of a stored file, for a model's API, say."""
        return self._require_bucket().link(key_of(self.head.namespace, reference), name, media_type)

    def _require_bucket(self) -> Bucket:
        if self.bucket is None:
            raise ConfigurationError(
                "environment variable A2A_FILES_BUCKET is not set, but a task has a file in the bucket: set"
                " it to the bucket's name"
            )
        return self.bucket
