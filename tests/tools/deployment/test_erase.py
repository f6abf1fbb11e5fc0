"""make erase: all that a stack keeps of an owner goes, and nothing else."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.files.keys import owner_prefix
from a2a_lambda.kit import Kit
from a2a_lambda.settings import Settings
from tests.conftest import new_key
from tests.files.objects import objects_of
from tests.files.uploading import inline, upload
from tests.helpers.rest import Rest
from tools.deployment import erase
from tools.deployment.erase import Counts, Erasure, Selection

Json = Any


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the cursor of an interrupted erasure is."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def erasure(settings: Settings) -> Erasure:
    return Erasure(clients.dynamodb(settings), settings.table, clients.s3(settings), settings.files_bucket)


class Owner:
    """An owner with tasks, conversations and files."""

    def __init__(self, client: TestClient, kit: Kit, settings: Settings) -> None:
        self.name = f"owner-{uuid.uuid4()}"
        self.rest = Rest(client, new_key(kit.keys, owner=self.name))
        self._settings = settings

    def talk(self, **fields: Json) -> Json:
        """A task with files of every kind: sent, uploaded and put out."""
        reference = upload(self.rest, b"u" * 200_000)
        parts = [{"text": "hi"}, inline(b"m" * 200_000), {"url": reference}]
        return self.rest.send("draw", parts=parts, **fields)

    def rows(self) -> list[Json]:
        pages = (
            clients.dynamodb(self._settings).get_paginator("scan").paginate(TableName=self._settings.table)
        )
        return [
            item for page in pages for item in page["Items"] if item["pk"]["S"].startswith(f"{self.name}#")
        ]

    def objects(self) -> set[str]:
        prefix = owner_prefix(self.name)
        return {key for key in objects_of(self._settings) if key.startswith(prefix)}


@pytest.fixture
def alice(client: TestClient, kit: Kit, settings: Settings) -> Owner:
    return Owner(client, kit, settings)


@pytest.fixture
def bob(client: TestClient, kit: Kit, settings: Settings) -> Iterator[Owner]:
    """Someone whose data stays."""
    owner = Owner(client, kit, settings)
    owner.talk(contextId="shared-name")
    before = owner.rows(), owner.objects()
    yield owner
    assert (owner.rows(), owner.objects()) == before


def run(erasure: Erasure, selection: Selection) -> Counts:
    erase.run(erasure, selection, ["assistant", "probe"], lambda reads, total: None)
    return erasure.counts


def test_an_owner_is_erased(alice: Owner, bob: Owner, erasure: Erasure) -> None:
    for _ in range(2):
        alice.talk()
    assert len(alice.objects()) == 8
    counts = run(erasure, Selection(alice.name))
    assert (counts.tasks, counts.conversations, counts.files, counts.running) == (2, 2, 8, 0)
    assert not alice.rows()
    assert not alice.objects()


def test_a_conversation_is_erased_with_its_tasks(alice: Owner, bob: Owner, erasure: Erasure) -> None:
    kept = alice.talk(contextId="other")
    for _ in range(2):
        alice.talk(contextId="shared-name")
    counts = run(erasure, Selection(alice.name, context="shared-name"))
    assert (counts.tasks, counts.conversations, counts.files) == (2, 1, 8)
    assert len(alice.objects()) == 4
    assert alice.rest.call("GET", f"tasks/{kept['id']}")["artifacts"] is not None
    assert "shared-name" not in str(alice.rows())


def test_a_task_is_erased(alice: Owner, bob: Owner, erasure: Erasure) -> None:
    kept, task = alice.talk(), alice.talk()
    counts = run(erasure, Selection(alice.name, task=task["id"]))
    assert (counts.tasks, counts.files) == (1, 4)
    assert alice.rest.ask("GET", f"tasks/{task['id']}").status_code == 404
    assert alice.rest.ask("GET", f"tasks/{kept['id']}").status_code == 200
    assert len(alice.objects()) == 4
    with pytest.raises(ConfigurationError, match="AGENT=… names another agent"):
        run(erasure, Selection(alice.name, task=task["id"]))


def test_one_agents_part_is_erased(alice: Owner, bob: Owner, erasure: Erasure, client: TestClient) -> None:
    alice.talk()
    alice.rest.path = "/a2a/assistant"
    kept = alice.rest.send("echo")
    run(erasure, Selection(alice.name, agent="probe"))
    assert not alice.objects()
    assert alice.rest.ask("GET", f"tasks/{kept['id']}").status_code == 200


def test_an_erasure_continues_where_it_stopped(
    alice: Owner, bob: Owner, erasure: Erasure, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        alice.talk()

    class Small:
        """Pages of three items; the third is never read to its end."""

        def __init__(self) -> None:
            self.starts: list[Json] = []

        def __getattr__(self, name: str) -> Any:
            return getattr(clients.dynamodb(settings), name)

        def scan(self, **query: Any) -> Any:
            self.starts.append(query.get("ExclusiveStartKey"))
            if len(self.starts) == 3:
                raise KeyboardInterrupt
            return clients.dynamodb(settings).scan(**query, Limit=3)

    small = Small()
    interrupted = Erasure(small, settings.table, clients.s3(settings), settings.files_bucket)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        run(interrupted, Selection(alice.name))
    cursor = json.loads(erase.CURSOR.read_text())["cursor"]
    assert cursor == small.starts[2]
    # Another erasure begins at the beginning; the same one continues.
    assert run(erasure, Selection("nobody")).items == 0
    erase.CURSOR.write_text(
        json.dumps(
            {
                "selection": {"owner": alice.name, "agent": "", "context": "", "task": ""},
                "cursor": cursor,
                "reads": 6,
                "counts": {"tasks": 1, "conversations": 0, "items": 2, "files": 0, "running": 0},
            }
        )
    )
    counts = run(erasure, Selection(alice.name))
    assert counts.items >= 2
    assert not alice.rows()
    assert not alice.objects()
    assert not erase.CURSOR.exists()


def test_a_task_that_runs_is_counted(alice: Owner, erasure: Erasure) -> None:
    configuration = {"returnImmediately": True}
    task = alice.rest.send("echo", configuration=configuration)
    client, table = erasure._dynamodb, erasure._table
    [row] = [row for row in alice.rows() if row["sk"]["S"] == "head" and task["id"] in row["pk"]["S"]]
    client.put_item(TableName=table, Item={**row, "holder": {"S": "run"}, "lease": {"N": "99999999999"}})
    assert run(erasure, Selection(alice.name)).running == 1


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "name an owner"),
        ({"OWNER": "a#b"}, "name an owner"),
        ({"OWNER": "a", "CONTEXT": "c", "TASK": "t"}, "not both"),
    ],
)
def test_what_must_be_named(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        erase.selection_of(environ)


def test_it_asks_first(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], erasure: Erasure
) -> None:
    monkeypatch.setattr(erase, "erasure_of", lambda environ: erasure)
    monkeypatch.setattr("builtins.input", lambda question: print(question) or "no")
    assert erase.main({"OWNER": "nobody", "TASK": "t"}) == 1
    assert (
        "Erase task t of nobody in the development server? This cannot be undone." in capsys.readouterr().out
    )
