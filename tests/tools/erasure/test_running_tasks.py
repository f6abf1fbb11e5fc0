"""make erase while a turn runs, which writes until it sees that its task is gone."""

import time
from types import SimpleNamespace

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.files.bucket import Bucket
from a2a_lambda.files.turn_files import TurnFiles
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Event, TaskState, make_status
from a2a_lambda.settings import Settings
from a2a_lambda.tasks.head import Head
from a2a_lambda.tasks.identity import Namespace
from tests.tools.erasure.owner import Owner, run
from tools.erasure.erasure import Erasure, Selection


def running_task(owner: Owner, kit: Kit, settings: Settings) -> Head:
    """The head of a task that a run holds."""
    task = owner.rest.send("echo", "hi", contextId="c")
    [row] = [row for row in owner.rows() if row["sk"]["S"] == "head"]
    held_row = {**row, "holder": {"S": "run"}, "lease": {"N": "99999999999"}}
    clients.dynamodb(settings).put_item(TableName=settings.table, Item=held_row)
    head = kit.store.get_head(Namespace(owner.name, "probe"), task["id"])
    assert head is not None
    return head


def write_more(head: Head, kit: Kit, settings: Settings) -> None:
    """What the run stores that has not seen yet that its task is gone."""
    update = {"taskId": head.task_id, "contextId": "c", "status": make_status(TaskState.WORKING, 0)}
    kit.store.append(head, [Event(statusUpdate=update)], after=head.sequence)  # type: ignore[typeddict-item]
    bucket = Bucket(lambda: clients.s3(settings), settings.files_bucket)
    writer = TurnFiles(head, bucket, allow_loopback=False).writer(1, is_replayed=False, inline_bytes=0)
    writer.add(b"x" * 200_000)
    writer.finish()


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("is_conversation", [False, True])
def test_what_a_run_writes_afterwards_is_erased(
    alice: Owner,
    erasure: Erasure,
    kit: Kit,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_late: bool,
    is_conversation: bool,
) -> None:
    """It is erased at once, unless the run writes later than it should. Then the same command erases it, when
    it is run again."""
    head = running_task(alice, kit, settings)

    def is_erased() -> bool:
        rows = [row for row in alice.rows() if is_conversation or head.task_id in row["pk"]["S"]]
        return not rows and not alice.objects()

    def pause(_: float) -> None:
        if not is_late:
            write_more(head, kit, settings)

    monkeypatch.setattr("tools.erasure.erasure.time", SimpleNamespace(time=time.time, sleep=pause))
    fields = {"context": "c"} if is_conversation else {"task": head.task_id}
    selection = Selection(alice.name, **fields)
    assert run(erasure, selection).running == 1
    assert is_erased()
    if is_late:
        write_more(head, kit, settings)
        assert not is_erased()
        run(erasure, selection)
        assert is_erased()
    if is_conversation:
        assert run(erasure, selection).items == 0
