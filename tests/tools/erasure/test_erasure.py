"""make erase: all that a stack keeps of an owner goes, and nothing else."""

import io
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Event
from a2a_lambda.settings import Settings
from a2a_lambda.store.documents import unpack
from a2a_lambda.tasks.event_log import ENTRY_BYTES
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.turns.lease import LEASE_LOOK_SECONDS
from tests.tools.erasure.owner import Owner, run
from tools.erasure import main as erase
from tools.erasure.erasure import OF_MESSAGES, Erasure, Selection


def test_an_owner_is_erased(alice: Owner, bob: Owner, erasure: Erasure) -> None:
    for _ in range(2):
        alice.talk()
    assert len(alice.objects()) == 8
    counts = run(erasure, Selection(alice.name))
    assert (counts.tasks, counts.conversations, counts.files, counts.running) == (2, 2, 8, 0)
    assert not alice.rows()
    assert not alice.objects()


def test_a_conversation_is_erased_with_its_tasks(
    alice: Owner, bob: Owner, erasure: Erasure, settings: Settings
) -> None:
    other_task = alice.talk(contextId="other")
    slot = {"pk": {"S": f"{alice.name}#slots"}, "sk": {"S": "slot#0001"}}  # of a stream
    clients.dynamodb(settings).put_item(TableName=settings.table, Item=slot)
    for _ in range(2):
        alice.talk(contextId="shared-name")
    counts = run(erasure, Selection(alice.name, context="shared-name"))
    assert (counts.tasks, counts.conversations, counts.files) == (2, 1, 8)
    assert len(alice.objects()) == 4
    assert alice.rest.call("GET", f"tasks/{other_task['id']}")["artifacts"] is not None
    assert "shared-name" not in str(alice.rows())
    assert b"shared-name" not in json_in(alice.rows())


def test_a_task_is_erased(alice: Owner, bob: Owner, erasure: Erasure) -> None:
    other_task, task = alice.talk(), alice.talk()
    counts = run(erasure, Selection(alice.name, task=task["id"]))
    assert (counts.tasks, counts.files) == (1, 4)
    assert alice.rest.ask("GET", f"tasks/{task['id']}").status_code == 404
    assert alice.rest.ask("GET", f"tasks/{other_task['id']}").status_code == 200
    assert len(alice.objects()) == 4
    with pytest.raises(ConfigurationError, match="AGENT=… names another agent"):
        run(erasure, Selection(alice.name, task=task["id"]))


def json_in(rows: list[Any]) -> bytes:
    """JSON of items, which is compressed in some of them."""
    documents = (unpack(item["document"]) for item in rows if "document" in item)
    return b"".join((*documents, *(bytes(item["body"]["B"]) for item in rows if "body" in item)))


def contents(owner: Owner, task_id: str) -> bytes:
    """JSON of a task's items."""
    return json_in([item for item in owner.rows() if item["pk"]["S"].endswith(task_id)])


def test_files_of_earlier_tasks_stay_when_a_durable_task_is_erased(
    alice: Owner, erasure: Erasure, kit: Kit
) -> None:
    """Its log has the conversation as its turn saw it, in several items if that is large."""
    earlier, task = alice.talk(contextId="c"), alice.rest.send("echo", contextId="c")
    references = [match.decode() for match in OF_MESSAGES.findall(contents(alice, earlier["id"]))]
    assert len(references) == 2
    head = kit.store.get_head(Namespace(alice.name, "probe"), task["id"])
    assert head is not None
    context = {"memory": {"padding": "x" * ENTRY_BYTES}, "conversation": references}
    kit.store.append(head, [Event(context=context)], after=head.sequence)
    objects = alice.objects()
    assert run(erasure, Selection(alice.name, task=task["id"])).files == 0
    assert alice.objects() == objects


def test_files_of_an_expired_task_are_erased_with_the_conversation(
    alice: Owner, erasure: Erasure, settings: Settings
) -> None:
    alice.talk(contextId="c")
    for item in alice.rows():
        if "#task#" in item["pk"]["S"]:  # as its time to live does
            key = {"pk": item["pk"], "sk": item["sk"]}
            clients.dynamodb(settings).delete_item(TableName=settings.table, Key=key)
    assert run(erasure, Selection(alice.name, context="c")).files == 2
    assert not [key for key in alice.objects() if "/messages/" in key or "/uploads/" in key]


def test_a_task_is_erased_from_its_conversation(alice: Owner, erasure: Erasure) -> None:
    """Later turns do not hear what was said in it. The rest of the conversation stays."""
    first, second = (alice.rest.send("echo", text, contextId="c") for text in ("first-words", "other-words"))
    run(erasure, Selection(alice.name, task=first["id"]))
    [conversation] = [item for item in alice.rows() if item["sk"]["S"] == "context"]
    content = json_in([conversation])
    assert b"first-words" not in content
    assert b"other-words" in content
    run(erasure, Selection(alice.name, task=second["id"]))
    assert b"words" not in json_in(alice.rows())


def test_a_run_that_ends_during_the_erasure_leaves_no_words(
    alice: Owner, erasure: Erasure, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stores the conversation, and only then sees that its task is gone."""
    task = alice.rest.send("echo", "held-words", contextId="c")
    client = clients.dynamodb(settings)
    [head] = [row for row in alice.rows() if row["sk"]["S"] == "head"]
    [conversation] = [row for row in alice.rows() if row["sk"]["S"] == "context"]
    client.put_item(TableName=settings.table, Item={**head, "holder": {"S": "run"}})
    pauses = []

    def store_again(seconds: float) -> None:
        pauses.append(seconds)
        client.put_item(TableName=settings.table, Item=conversation)

    # Not `time.sleep` of the process, because a thread of an earlier test may use that.
    clock = SimpleNamespace(time=time.time, sleep=store_again)
    monkeypatch.setattr("tools.erasure.erasure.time", clock)
    run(erasure, Selection(alice.name, task=task["id"]))
    assert pauses == [LEASE_LOOK_SECONDS + 1]
    assert b"held-words" not in json_in(alice.rows())


def test_one_agents_part_is_erased(alice: Owner, bob: Owner, erasure: Erasure, client: TestClient) -> None:
    alice.talk()
    alice.rest.path = "/a2a/assistant"
    other_task = alice.rest.send("echo")
    run(erasure, Selection(alice.name, agent="probe"))
    assert not alice.objects()
    assert alice.rest.ask("GET", f"tasks/{other_task['id']}").status_code == 200


class Interrupted:
    """A DynamoDB that is asked for pages of three items. most: calls of `name` that end; the next is
    interrupted."""

    def __init__(self, settings: Settings, name: str, most: int) -> None:
        self.starts: list[Any] = []
        self._client = clients.dynamodb(settings)
        self._name = name
        self._left = most

    def __getattr__(self, name: str) -> Any:
        def call(**query: Any) -> Any:
            if name == self._name:
                self._left -= 1
                if self._left < 0:
                    raise KeyboardInterrupt
            if name == "scan":
                self.starts.append(query.get("ExclusiveStartKey"))
                query["Limit"] = 3
            return getattr(self._client, name)(**query)

        return getattr(self._client, name) if name == "get_paginator" else call


def erasure_on(client: Interrupted, settings: Settings) -> Erasure:
    return Erasure(client, settings.table, clients.s3(settings), settings.files_bucket, None)  # type: ignore[arg-type]


def interrupt(alice: Owner, settings: Settings) -> Any:
    """Where an erasure of all of hers was interrupted."""
    for _ in range(5):
        alice.talk()
    with pytest.raises(KeyboardInterrupt):
        run(erasure_on(Interrupted(settings, "scan", 2), settings), Selection(alice.name))
    return json.loads(cursor_of(alice, settings).read_text())["cursor"]


def cursor_of(alice: Owner, settings: Settings) -> Path:
    table, _ = erasure_on(Interrupted(settings, "scan", 1000), settings).describe_table()
    return erase.cursor_path(Selection(alice.name), table)


def test_an_erasure_continues_where_it_stopped(alice: Owner, bob: Owner, settings: Settings) -> None:
    cursor = interrupt(alice, settings)
    client = Interrupted(settings, "scan", 1000)
    run(erasure_on(client, settings), Selection(alice.name))
    assert client.starts[0] == cursor
    assert not alice.rows()
    assert not alice.objects()
    assert not cursor_of(alice, settings).exists()


@pytest.mark.parametrize("change", ["selection", "age", "damage"])
def test_another_erasure_begins_at_the_beginning(alice: Owner, settings: Settings, change: str) -> None:
    interrupt(alice, settings)
    path = cursor_of(alice, settings)
    selection, client = Selection(alice.name), Interrupted(settings, "scan", 1000)
    if change == "selection":
        selection = Selection("nobody")
    elif change == "age":
        day_ago = time.time() - erase.CURSOR_SECONDS - 60
        os.utime(path, (day_ago, day_ago))
    else:
        path.write_text("[]")
    run(erasure_on(client, settings), selection)
    assert client.starts[0] is None
    assert path.exists() is (change == "selection"), "another erasure's is its own"


def test_each_erasure_has_a_cursor_of_its_own() -> None:
    """Two may run at once."""
    selections = [Selection("a"), Selection("b"), Selection("a", "weather"), Selection("a", context="c")]
    paths = {erase.cursor_path(selection, table) for selection in selections for table in ("t", "u")}
    assert len(paths) == 8


def test_a_conversation_that_was_erased_in_part_is_found_again(alice: Owner, settings: Settings) -> None:
    alice.talk(contextId="c")
    before, selection = len(alice.rows()), Selection(alice.name, context="c")
    with pytest.raises(KeyboardInterrupt):
        run(erasure_on(Interrupted(settings, "batch_write_item", 1), settings), selection)
    assert len(alice.rows()) < before
    run(erasure_on(Interrupted(settings, "scan", 1000), settings), selection)
    assert not alice.rows()


def test_a_conversation_whose_name_ends_alike_stays(alice: Owner, erasure: Erasure) -> None:
    alice.rest.send("echo", contextId="a#context#b")
    before = alice.rows()
    assert run(erasure, Selection(alice.name, context="b")).items == 0
    assert alice.rows() == before


def test_a_task_that_runs_is_counted(alice: Owner, erasure: Erasure, settings: Settings) -> None:
    configuration = {"returnImmediately": True}
    task = alice.rest.send("echo", configuration=configuration)
    [row] = [row for row in alice.rows() if row["sk"]["S"] == "head" and task["id"] in row["pk"]["S"]]
    held_row = {**row, "holder": {"S": "run"}, "lease": {"N": "99999999999"}}
    clients.dynamodb(settings).put_item(TableName=settings.table, Item=held_row)
    assert run(erasure, Selection(alice.name)).running == 1


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "name an owner"),
        ({"OWNER": "a#b"}, "name an owner"),
        ({"OWNER": "a", "CONTEXT": "c", "TASK": "t"}, "not both"),
        ({"OWNER": "a", "TASK": ""}, "TASK is empty"),
        ({"OWNER": "a", "AGENT": ""}, "AGENT is empty"),
    ],
)
def test_what_must_be_named(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        erase.selection_of(environ)


def test_erasing_asks_first(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], erasure: Erasure
) -> None:
    monkeypatch.setattr(erase, "erasure_of", lambda environ: erasure)
    monkeypatch.setattr("builtins.input", lambda question: print(question) or "no")
    assert erase.main({"OWNER": "nobody", "TASK": "t"}) == 1
    output = capsys.readouterr().out
    assert "Erase task t of nobody in the development server? This cannot be undone." in output
    assert "nothing was erased" in output


def test_erasing_says_that_there_was_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], erasure: Erasure
) -> None:
    monkeypatch.setattr(erase, "erasure_of", lambda environ: erasure)
    assert erase.main({"OWNER": "nobody", "YES": "1"}) == 0
    assert "nothing was found; make key lists the owners" in capsys.readouterr().out
    assert erase.main({"OWNER": "nobody", "AGENT": "nope", "YES": "1"}) == 0
    assert "nothing was found with the agent nope; make key" in capsys.readouterr().out


@pytest.mark.parametrize("stdin", [io.StringIO(), None])
def test_without_a_terminal_the_answer_is_no(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    erasure: Erasure,
    stdin: io.StringIO | None,
) -> None:
    monkeypatch.setattr(erase, "erasure_of", lambda environ: erasure)
    monkeypatch.setattr("sys.stdin", stdin)
    assert erase.main({"OWNER": "nobody"}) == 1
    assert "there is no terminal to ask in: add YES=1" in capsys.readouterr().out
