"""An owner whose data is erased."""

import uuid
from typing import Any

from starlette.testclient import TestClient

from a2a_lambda.aws import clients
from a2a_lambda.files.bucket import owner_prefix
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from tests.conftest import new_key
from tests.files.objects import objects_of
from tests.files.uploading import inline, upload
from tests.helpers.rest import Rest
from tools.erasure import main as erase
from tools.erasure.erasure import Counts, Erasure, Selection


class Owner:
    """An owner with tasks, conversations and files."""

    def __init__(self, client: TestClient, kit: Kit, settings: Settings) -> None:
        self.name = f"owner-{uuid.uuid4()}"
        self.rest = Rest(client, new_key(kit, owner=self.name))
        self._settings = settings

    def talk(self, **fields: Any) -> Any:
        """A task with files of every kind: sent, uploaded and put out."""
        reference = upload(self.rest, b"u" * 200_000)
        parts = [{"text": "hi"}, inline(b"m" * 200_000), {"url": reference}]
        return self.rest.send("draw", parts=parts, **fields)

    def rows(self) -> list[Any]:
        pages = (
            clients.dynamodb(self._settings).get_paginator("scan").paginate(TableName=self._settings.table)
        )
        return [
            item for page in pages for item in page["Items"] if item["pk"]["S"].startswith(f"{self.name}#")
        ]

    def objects(self) -> set[str]:
        prefix = owner_prefix(self.name)
        return {key for key in objects_of(self._settings) if key.startswith(prefix)}


def run(erasure: Erasure, selection: Selection) -> Counts:
    erase.run(erasure, selection, ["assistant", "probe"], lambda reads, total: None)
    return erasure.counts
