"""make erase: deletes what a stack keeps of an owner: tasks, conversations, push configs and files.

make erase OWNER=alice STACK=my-stack                  everything of the owner
make erase OWNER=alice CONTEXT=… STACK=…               one conversation, with its tasks
make erase OWNER=alice TASK=… STACK=…                  one task
… AGENT=weather                                        only what the owner has with one agent
… without STACK                                        the same in the running development server

It reads the whole table, except for a task. If it is interrupted, the same command continues within a day
where it stopped. It asks before it begins, unless YES=1. docs/operations.md says what backups still have.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import Progress

from a2a_lambda.aws import clients
from a2a_lambda.aws.executions import LambdaExecutions
from a2a_lambda.catalog.agents import read_cards
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.files.keys import folder_key, key_of, owner_prefix
from a2a_lambda.protocol.stored_file import SCHEME, output_folder
from a2a_lambda.settings import Settings
from a2a_lambda.store import items
from a2a_lambda.store.items import Item
from a2a_lambda.tasks.identity import Scope
from a2a_lambda.turns.lease import LEASE_LOOK_SECONDS
from tools.command import reports_errors
from tools.deployment.stack import aws_errors, outputs_of
from tools.state import BUCKET, STATE, TABLE

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

OWNER = re.compile(r"[^#\s]{1,512}")

CURSOR = Path(".erase.json")
"""Where an erasure that was interrupted continues."""

CURSOR_SECONDS = 86_400
"""Seconds for which it does. Later, much may have been written before the cursor, so it begins again."""

WRITES = 25
"""Deletions of a BatchWriteItem."""

DELETIONS = 1000
"""Deletions of a DeleteObjects."""

RETRY_SECONDS = 0.5
"""Seconds after which items are deleted again that DynamoDB did not take."""

OF_MESSAGES = re.compile(rf"{SCHEME}(?:messages|uploads)/[0-9a-f]{{32}}".encode())
"""References in a log to files that clients have sent. Those of agents have the task's id in their keys."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is erased. agent, context, task: "" = all."""

    owner: str
    agent: str = ""
    context: str = ""
    task: str = ""

    @property
    def prefix(self) -> str:
        """What the partition keys of its items begin with."""
        return f"{self.owner}#{self.agent}#" if self.agent else f"{self.owner}#"

    def __str__(self) -> str:
        named = {"task": self.task, "conversation": self.context, "agent": self.agent}
        parts = [f"{name} {value}" for name, value in named.items() if value]
        return f"{' of '.join(parts)} of {self.owner}" if parts else f"everything of {self.owner}"


@dataclass(slots=True)
class Counts:
    """running: tasks that a run still held, which may write once more."""

    tasks: int = 0
    conversations: int = 0
    items: int = 0
    files: int = 0
    running: int = 0

    def __str__(self) -> str:
        return (
            f"tasks: {self.tasks:,}, conversations: {self.conversations:,}, files: {self.files:,};"
            f" items of the table: {self.items:,}"
        )


class Erasure:
    """An erasure in one table and its bucket. Each step may be done again.

    bucket: "" = there is none. executions: those of durable turns, which keep the results of their steps.
    """

    def __init__(
        self,
        dynamodb: "DynamoDBClient",
        table: str,
        s3: "S3Client",
        bucket: str,
        executions: LambdaExecutions | None,
    ) -> None:
        self._dynamodb = dynamodb
        self._executions = executions
        self._table = table
        self._s3 = s3
        self._bucket = bucket
        self.counts = Counts()

    def table(self) -> tuple[str, int]:
        """Identity of the table; and its items, about: DynamoDB counts them every six hours."""
        table = self._dynamodb.describe_table(TableName=self._table)["Table"]
        return f"{table['TableArn']} of {table['CreationDateTime'].isoformat()}", table["ItemCount"]

    def pages(self, selection: Selection, start: Item | None) -> Iterator[tuple[int, Item | None]]:
        """Erase what each page of the table has of a selection. Then yield the number of items that were
        read, and where the next page begins.

        start: where to begin; None = at the beginning.
        """
        query: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "FilterExpression": "begins_with(pk, :prefix)",
            "ExpressionAttributeValues": {":prefix": {"S": selection.prefix}},
        }
        while True:
            if start is not None:
                query["ExclusiveStartKey"] = start
            answer = self._dynamodb.scan(**query)
            if selection.context:
                for item in answer["Items"]:
                    self._erase_of_context(selection, item)
            else:
                self._delete(answer["Items"])
            start = answer.get("LastEvaluatedKey")
            yield answer["ScannedCount"], start
            if start is None:
                return

    def task(self, scope: Scope, task_id: str) -> bool:
        """Erase a task with its files. Returns whether there was one."""
        partition = items.head_key(scope, task_id)["pk"]
        pages = self._dynamodb.get_paginator("query").paginate(
            TableName=self._table,
            ConsistentRead=True,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": partition},
        )
        rows = [item for page in pages for item in page["Items"]]
        # The files first: the items say which they are.
        self._delete_files_of(scope, rows)
        self._delete_objects(self._keys_below(folder_key(scope, output_folder(task_id))))
        # The head last: by it, an erasure of a conversation that was interrupted finds the task again.
        heads = [item for item in rows if item["sk"]["S"] == "head"]
        for head in heads:
            self._forget(scope, head["context"]["S"], task_id)
        self._delete([item for item in rows if item not in heads])
        self._delete(heads)
        # A run may have stored the conversation before it saw that its head was gone.
        for head in [head for head in heads if head["holder"]["S"]]:
            time.sleep(LEASE_LOOK_SECONDS + 1)
            self._forget(scope, head["context"]["S"], task_id)
        return bool(rows)

    def files(self, selection: Selection) -> None:
        """Erase all files of an owner, or of an owner with an agent."""
        agent = f"{selection.agent}/" if selection.agent else ""
        self._delete_objects(self._keys_below(owner_prefix(selection.owner) + agent))

    def _forget(self, scope: Scope, context_id: str, task_id: str) -> None:
        """Take what was said in a task out of its conversation."""
        key = items.context_key(scope, context_id)
        while (item := self._read(key)) is not None:
            context = items.to_context(item)
            conversation = tuple(entry for entry in context.conversation if entry.task != task_id)
            # `changed` may hold what the task said, or what the agent has deleted since.
            newer = replace(context, conversation=conversation, changed=("", {}))
            if newer == context:
                return
            newer = replace(newer, revision=context.revision + 1)
            expires = int(item["expires"]["N"])
            with suppress(self._dynamodb.exceptions.ConditionalCheckFailedException):  # a turn was faster
                self._dynamodb.put_item(
                    TableName=self._table,
                    Item=items.from_context(scope, context_id, newer, expires),
                    ConditionExpression="revision = :revision",
                    ExpressionAttributeValues={":revision": item["revision"]},
                )
                return

    def _read(self, key: Item) -> Item | None:
        """An item as it is now, if it is there. key: the item, or its keys."""
        answer = self._dynamodb.query(
            TableName=self._table,
            ConsistentRead=True,
            KeyConditionExpression="pk = :pk AND sk = :sk",
            ExpressionAttributeValues={":pk": key["pk"], ":sk": key["sk"]},
        )
        return next(iter(answer["Items"]), None)

    def _erase_of_context(self, selection: Selection, item: Item) -> None:
        if item["sk"]["S"] == "head" and item["context"]["S"] == selection.context:
            scope, task_id = items.task_of_item(item)
            self.task(scope, task_id)
        elif (
            item["sk"]["S"] == "context"
            and item["pk"]["S"].split("#", 2)[2] == f"context#{selection.context}"
        ):
            self._delete([item])  # its files are those of its tasks

    def _delete(self, rows: Sequence[Item]) -> None:
        for item in rows:
            self.counts.conversations += item["sk"]["S"] == "context"
            if item["sk"]["S"] == "head":
                self.counts.tasks += 1
                self.counts.running += bool(item["holder"]["S"]) and float(item["lease"]["N"]) > time.time()
                # While the head is there: without it, no one would find the execution again. It may have been
                # started since the page was read.
                scope, _ = items.task_of_item(item)
                if self._executions is not None and items.to_head(scope, item).execution is not None:
                    latest_item = self._read(item)
                    execution = items.to_head(scope, latest_item).execution if latest_item else None
                    if execution is not None and execution.arn:
                        self._executions.stop(execution.arn)
        requests = [{"DeleteRequest": {"Key": {"pk": item["pk"], "sk": item["sk"]}}} for item in rows]
        for start in range(0, len(requests), WRITES):
            request: Any = {self._table: requests[start : start + WRITES]}
            while request:
                request = self._dynamodb.batch_write_item(RequestItems=request)["UnprocessedItems"]
                if request:
                    time.sleep(RETRY_SECONDS)
        self.counts.items += len(rows)

    def _delete_files_of(self, scope: Scope, rows: Iterable[Item]) -> None:
        """Delete the files that clients have sent, and that these items name."""
        # Joined in order: a large event is in several items, and a reference may be divided between two.
        names = ("body", "document")
        content = b"".join(bytes(item[name]["B"]) for item in rows for name in names if name in item)
        references = {match.decode() for match in OF_MESSAGES.findall(content)}
        self._delete_objects(key_of(scope, reference) for reference in references)

    def _keys_below(self, prefix: str) -> Iterator[str]:
        if not self._bucket:
            return
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        for page in pages:
            yield from (item["Key"] for item in page.get("Contents", []))

    def _delete_objects(self, keys: Iterable[str]) -> None:
        objects = iter(keys if self._bucket else ())
        while batch := list(islice(objects, DELETIONS)):
            answer = self._s3.delete_objects(
                Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
            )
            if errors := answer.get("Errors"):
                raise ConfigurationError(f"bucket {self._bucket}: {errors[0].get('Code')}; run it again")
            self.counts.files += len(batch)


def run(
    erasure: Erasure, selection: Selection, agents: Sequence[str], report: Callable[[int, int], None]
) -> None:
    """Erase a selection. Continues an erasure of the same that was interrupted.

    agents: names of agents with which a task may be. report: called with the items that were read, and how
        many there are, about. Raises ConfigurationError if there is no such task.
    """
    if selection.task:
        scopes = [Scope(selection.owner, agent) for agent in agents]
        if not any([erasure.task(scope, selection.task) for scope in scopes]):
            raise ConfigurationError(
                f"{selection.owner} has no task {selection.task} with {', '.join(agents)};"
                " AGENT=… names another agent"
            )
        return
    table, total = erasure.table()
    work = {"selection": asdict(selection), "table": table}
    state = _read_cursor(work)
    erasure.counts = Counts(**state["counts"]) if state else erasure.counts
    reads = state["reads"] if state else 0
    for count, cursor in erasure.pages(selection, state["cursor"] if state else None):
        reads += count
        report(reads, total)
        progress = {"cursor": cursor, "reads": reads, "counts": asdict(erasure.counts)}
        new_cursor = CURSOR.with_suffix(".new")
        new_cursor.write_text(json.dumps({**work, **progress}))
        new_cursor.replace(CURSOR)  # all of it or nothing, whenever it is interrupted
    if not selection.context:
        erasure.files(selection)
    CURSOR.unlink(missing_ok=True)


def _read_cursor(work: Mapping[str, Any]) -> dict[str, Any] | None:
    """Where an erasure of the same selection in the same table stopped. None = it begins."""
    if not CURSOR.exists() or time.time() - CURSOR.stat().st_mtime > CURSOR_SECONDS:
        return None
    state: dict[str, Any] = json.loads(CURSOR.read_text())
    return state if state["cursor"] and work.items() <= state.items() else None


def erasure_of(environ: Mapping[str, str]) -> Erasure:
    """The erasure in STACK, or in the running development server. Raises ConfigurationError."""
    if stack := environ.get("STACK"):
        outputs = outputs_of(stack)
        settings = Settings()
        table, bucket = outputs["TableName"], outputs.get("FileBucketName", "")
        executions = LambdaExecutions(lambda: clients.lambda_(settings), "")
    elif STATE.exists():
        settings = Settings(local=True, emulator=json.loads(STATE.read_text())["emulator"])
        table, bucket = TABLE, BUCKET
        executions = None  # the server keeps them in its memory
    else:
        raise ConfigurationError("no development server is running: start make run, or add STACK=…")
    return Erasure(clients.dynamodb(settings), table, clients.s3(settings), bucket, executions)


def selection_of(environ: Mapping[str, str]) -> Selection:
    """Raises ConfigurationError."""
    owner, agent, context, task = (environ.get(name, "") for name in ("OWNER", "AGENT", "CONTEXT", "TASK"))
    if not OWNER.fullmatch(owner):
        raise ConfigurationError("name an owner, as make key lists it: make erase OWNER=alice STACK=…")
    if context and task:
        raise ConfigurationError("give CONTEXT or TASK, not both")
    return Selection(owner, agent, context, task)


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    selection = selection_of(environ)
    place = environ.get("STACK") or "the development server"
    with aws_errors(f"erasing in {place}"):
        erasure = erasure_of(environ)
        if not environ.get("YES"):
            try:
                answer = input(f"Erase {selection} in {place}? This cannot be undone. Write yes: ")
            except EOFError:
                answer = ""
            if answer.strip() != "yes":
                print("nothing was erased; YES=1 answers the question")
                return 1
        agents = [selection.agent]
        if selection.task and not selection.agent:
            agents = sorted(read_cards(Settings().agents)[0])
        with Progress(transient=True) as progress:
            bar = progress.add_task("erasing", total=None)
            try:
                run(
                    erasure,
                    selection,
                    agents,
                    lambda reads, total: progress.update(bar, completed=reads, total=max(reads, total)),
                )
            except KeyboardInterrupt:
                raise ConfigurationError("interrupted; the same command continues") from None
    if erasure.counts == Counts():
        print(f"nothing was found; make key{' STACK=…' if environ.get('STACK') else ''} lists the owners")
        return 0
    print(f"erased: {erasure.counts}")
    if erasure.counts.running:
        print(f"still running: {erasure.counts.running}; they may write again, so repeat this in 15 minutes")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
