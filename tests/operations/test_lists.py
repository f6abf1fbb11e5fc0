"""Lists of tasks (A2A 1.0 section 3.1.4)."""

import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda.kit import Kit
from a2a_lambda.operations import list_tasks
from a2a_lambda.protocol.model import (
    Event,
    Part,
    TaskState,
    TaskStatusUpdateEvent,
    agent_message,
    make_status,
)
from a2a_lambda.protocol.requests import ListTasksRequest
from a2a_lambda.settings import Settings
from a2a_lambda.store import items
from a2a_lambda.tasks.head import Head
from tests.conftest import new_key
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.rest import Rest
from tests.helpers.rpc import Rpc
from tests.turns.run_bench import RunBench, within

pytestmark = pytest.mark.slow


def test_an_empty_list_has_all_its_fields(rest: Rest) -> None:
    assert rest.call("GET", "tasks") == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


def test_the_latest_status_is_first_and_artifacts_are_left_out(rest: Rest) -> None:
    ids = [rest.send(text=str(number))["id"] for number in range(3)]
    waiting = rest.send("question")
    rest.send("question", taskId=waiting["id"])
    whole_list = rest.call("GET", "tasks")
    assert [task["id"] for task in whole_list["tasks"]] == [waiting["id"], *reversed(ids)]
    assert whole_list["totalSize"] == 4
    assert not any("artifacts" in task for task in whole_list["tasks"])
    times = [task["status"]["timestamp"] for task in whole_list["tasks"]]
    assert times == sorted(times, reverse=True)
    for options in ("includeArtifacts=true", "includeArtifacts=True&historyLength=0"):
        page = rest.call("GET", f"tasks?{options}")
        assert all("artifacts" in task for task in page["tasks"])


def test_a_task_whose_last_turn_is_a_message_stays_in_the_list(rest: Rest) -> None:
    """Its client knows it: it was asked in it."""
    question = rest.send("words", slots={"asks": "true"})
    answered_task = rest.send("words", taskId=question["id"])
    assert answered_task["status"]["message"]["parts"] == [{"text": "Just words."}]
    assert [task["id"] for task in rest.call("GET", "tasks")["tasks"]] == [question["id"]]


def test_pages(rest: Rest) -> None:
    ids = [rest.send(text=str(number))["id"] for number in range(5)]
    all_ids: list[str] = []
    token, pages = "", 0
    while pages == 0 or token:
        page = rest.call("GET", f"tasks?pageSize=2&pageToken={token}")
        assert page["pageSize"] == 2
        assert page["totalSize"] == 5
        all_ids += [task["id"] for task in page["tasks"]]
        token, pages = page["nextPageToken"], pages + 1
    assert (all_ids, pages) == (ids[::-1], 3)


def test_filters(rest: Rest) -> None:
    result = rest.send(contextId="one")
    question = rest.send("question", contextId="two")

    def ids(query: str) -> list[str]:
        page = rest.call("GET", f"tasks?{query}")
        assert page["totalSize"] == len(page["tasks"])
        return [task["id"] for task in page["tasks"]]

    assert ids("contextId=one") == [result["id"]]
    assert ids("contextId=three") == []
    assert ids("status=TASK_STATE_INPUT_REQUIRED") == [question["id"]]
    assert ids("status=TASK_STATE_COMPLETED&contextId=two") == []
    since = question["status"]["timestamp"]
    assert ids(f"statusTimestampAfter={since}") == [question["id"]]
    assert ids("statusTimestampAfter=2000-01-01T00:00:00Z") == [question["id"], result["id"]]
    assert ids("statusTimestampAfter=9000-01-01T00:00:00%2B08:00") == []


def test_pages_of_a_filtered_list(rest: Rest) -> None:
    for number in range(3):
        rest.send(contextId="here", text=str(number))
        rest.send(contextId="elsewhere", text=str(number))
    first = rest.call("GET", "tasks?contextId=here&pageSize=2")
    token = first["nextPageToken"]
    second = rest.call("GET", f"tasks?contextId=here&pageSize=2&pageToken={token}")
    assert [len(first["tasks"]), len(second["tasks"])] == [2, 1]
    assert {task["contextId"] for task in first["tasks"] + second["tasks"]} == {"here"}
    assert (first["totalSize"], second["totalSize"], second["nextPageToken"]) == (3, 3, "")


@pytest.mark.parametrize(
    ("length", "kept"), [("", 1), ("?historyLength=", 1), ("?historyLength=0", 0), ("?historyLength=1", 1)]
)
def test_history(rest: Rest, length: str, kept: int) -> None:
    rest.send()
    [task] = rest.call("GET", f"tasks{length}")["tasks"]
    assert len(task.get("history", [])) == kept


@pytest.mark.parametrize(
    "query",
    [
        "pageSize=0",
        "pageSize=101",
        "pageSize=-1",
        "pageSize=x",
        "pageToken=x",
        "pageToken=WyIiLDFd",
        "pageToken=WyIxI2IiLC01XQ",
        "pageToken=WyIxI2IiLHRydWVd",
        "pageToken=" + "x" * 3000,
        "pageToken=WyIxI2IiLDFd&statusTimestampAfter=2000-01-01T00:00:00Z",
        "status=working",
        "historyLength=-1",
        "statusTimestampAfter=yesterday",
        "statusTimestampAfter=2026-13-01T00:00:00Z",
        "includeArtifacts=maybe",
    ],
)
def test_a_mistake_is_the_clients(rest: Rest, query: str) -> None:
    answer = rest.ask("GET", f"tasks?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]["status"] == "INVALID_ARGUMENT"


def test_no_one_elses_tasks(client: TestClient, kit: Kit, rest: Rest) -> None:
    rest.send()
    other = Rest(client, new_key(kit))
    assert other.call("GET", "tasks")["tasks"] == []
    first = rest.call("GET", "tasks?pageSize=1")
    rest.send()
    token = rest.call("GET", "tasks?pageSize=1")["nextPageToken"]
    assert first["totalSize"] == 1
    assert other.call("GET", f"tasks?pageToken={token}")["tasks"] == []
    same_owner = Rest(client, "", "/a2a/assistant")
    same_owner.headers = rest.headers
    assert same_owner.call("GET", "tasks")["tasks"] == []


def test_pages_continue_after_a_long_id(client: TestClient, rest: Rest) -> None:
    """A client of 0.1 names its tasks as it likes."""
    rpc = Rpc(client, rest.headers["X-API-Key"], "/a2a/probe")
    rest.send()
    for letter in "ab":
        message = {"role": "user", "parts": [{"type": "text", "text": "hi"}]}
        rpc.call("tasks/send", {"id": letter * 500, "message": message})
    first = rest.call("GET", "tasks?pageSize=1")
    second = rest.call("GET", f"tasks?pageSize=1&pageToken={first['nextPageToken']}")
    assert [len(page["tasks"][0]["id"]) for page in (first, second)] == [500, 500]


def test_a_token_is_of_one_list(rest: Rest) -> None:
    for _ in range(2):
        rest.send(contextId="here")
    token = rest.call("GET", "tasks?contextId=here&pageSize=1")["nextPageToken"]
    assert rest.call("GET", f"tasks?contextId=here&pageSize=1&pageToken={token}")["tasks"]
    assert rest.ask("GET", f"tasks?pageSize=1&pageToken={token}").status_code == 400


def test_a_page_ends_by_bytes_and_the_next_continues(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has whole messages and artifacts; one that is too large alone still comes."""
    monkeypatch.setattr("a2a_lambda.operations.list_tasks.PAGE_BYTES", 30_000)
    sizes = [10, 12_000, 12_000, 50_000, 10, 10]
    ids = [rest.send(text="x" * size)["id"] for size in sizes]
    for options in ("", "includeArtifacts=true&", "historyLength=0&", "pageSize=2&"):
        all_ids: list[str] = []
        token = ""
        while not all_ids or token:
            page = rest.call("GET", f"tasks?{options}pageToken={token}")
            assert page["tasks"], "no page is empty"
            assert len(page["tasks"]) == 1 or len(str(page)) < 35_000
            all_ids += [task["id"] for task in page["tasks"]]
            assert page["totalSize"] == len(sizes)
            token = page["nextPageToken"]
        assert all_ids == ids[::-1]


@pytest.fixture
def bench(kit: Kit, settings: Settings) -> RunBench:
    return RunBench(kit, settings)


def states_in_list(bench: RunBench, **request: Any) -> list[TaskState]:
    """States of the tasks in a list."""
    page = within(bench.service.list(bench.namespace, ListTasksRequest(**request)))  # type: ignore[typeddict-item]
    return [task["status"]["state"] for task in page["tasks"]]


@pytest.mark.parametrize(("is_long", "count"), [(False, 4), (True, 2)])
def test_long_logs_are_read_one_after_another(
    bench: RunBench, monkeypatch: pytest.MonkeyPatch, is_long: bool, count: int
) -> None:
    """A task of 50 MB takes several times that in memory, which four at once would not fit into."""
    for _ in range(count):
        within(bench.send("pieces", slots={"count": "2", "every": "0.3"}))
    if is_long:
        monkeypatch.setattr(list_tasks, "ENTRIES_AT_ONCE", 1)
    get_task = bench.store.get_task
    meeting = threading.Barrier(count, timeout=0.2 if is_long else PATIENCE_SECONDS)
    has_met: list[bool] = []

    def note(head: Head, **options: Any) -> Any:
        with suppress(threading.BrokenBarrierError):
            meeting.wait()
            has_met.append(True)
        return get_task(head, **options)

    monkeypatch.setattr(bench.store, "get_task", note)
    assert len(states_in_list(bench)) == count
    assert has_met == ([] if is_long else [True] * count)


def test_a_full_page_reads_no_further_task(bench: RunBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_tasks, "PAGE_BYTES", 10)
    monkeypatch.setattr(list_tasks, "READ_AT_ONCE", 1)
    for _ in range(2):
        within(bench.send("echo"))
    heads: list[Head] = []
    get_task = bench.store.get_task

    def note(head: Head, **options: Any) -> Any:
        heads.append(head)
        return get_task(head, **options)

    monkeypatch.setattr(bench.store, "get_task", note)
    assert len(states_in_list(bench)) == 1
    assert len(heads) == 1


def test_a_task_whose_run_has_died_is_listed_as_it_ended(bench: RunBench) -> None:
    """The index has it as working, until someone looks."""
    claim = within(bench.messages.start(*bench.sent("echo")))
    bench.store.clock = lambda: time.time() + 3600
    assert states_in_list(bench, status=TaskState.WORKING) == []
    assert states_in_list(bench) == [TaskState.FAILED]
    assert bench.head(claim.head.task_id).is_lost


def test_a_task_that_ends_while_it_is_listed_is_left_out_of_its_old_state(bench: RunBench) -> None:
    claim = within(bench.messages.start(*bench.sent("echo")))
    head_at_end = replace(
        claim.head, status=make_status(TaskState.COMPLETED, time.time()), holder="", lease=0.0
    )

    def end(operation: str, _: object) -> None:
        """Between the read of the index and that of the heads."""
        if operation == "batch_get_item":
            bench.calls.before = lambda *_: None
            bench.store.update_head(head_at_end)

    bench.calls.before = end
    assert states_in_list(bench, status=TaskState.WORKING) == []
    assert states_in_list(bench) == [TaskState.COMPLETED]


def test_a_task_that_is_deleted_while_it_is_listed_is_left_out(bench: RunBench, settings: Settings) -> None:
    task_id = within(bench.send("echo"))["id"]

    def delete(operation: str, _: object) -> None:
        if operation == "batch_get_item":
            bench.calls.before = lambda *_: None
            bench.calls.delete_item(TableName=settings.table, Key=items.head_key(bench.namespace, task_id))

    bench.calls.before = delete
    page = within(bench.service.list(bench.namespace, ListTasksRequest()))
    assert page["tasks"] == []
    assert page["totalSize"] == 1, "the index still had it"


def test_a_task_that_runs_is_listed_by_the_time_that_it_shows(bench: RunBench) -> None:
    """It is not listed by the time of its last progress text: the next page, and a filter, know only the
    other."""
    head = bench.run_elsewhere()
    text = agent_message(head.task_id, "c", [Part(text="…")])
    newer = make_status(TaskState.WORKING, bench.store.clock() + 60, text)
    progress = TaskStatusUpdateEvent(taskId=head.task_id, contextId="c", status=newer)
    bench.store.append(head, [Event(statusUpdate=progress)], after=0)
    [task] = within(bench.service.list(bench.namespace, ListTasksRequest()))["tasks"]
    assert task["status"]["timestamp"] == head.status["timestamp"]
    assert task["status"]["message"]["parts"] == [{"text": "…"}]


def test_a_page_is_in_the_order_of_what_it_shows(bench: RunBench) -> None:
    """A head may be newer than the index that lists it."""
    first, second = (within(bench.send("echo"))["id"] for _ in range(2))
    newest = make_status(TaskState.COMPLETED, time.time() + 60)

    def touch(operation: str, _: object) -> None:
        if operation == "batch_get_item":
            bench.calls.before = lambda *_: None
            bench.store.update_head(replace(bench.head(first), status=newest))

    bench.calls.before = touch
    page = within(bench.service.list(bench.namespace, ListTasksRequest()))
    assert [task["id"] for task in page["tasks"]] == [first, second]
