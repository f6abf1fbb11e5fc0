"""What a stack stores about an owner in its table and its bucket, and how it is deleted."""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from a2a_lambda.aws.executions import LambdaExecutions
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.files.bucket import folder_key, key_of, owner_prefix
from a2a_lambda.protocol.stored_file import SCHEME, output_folder
from a2a_lambda.store import items
from a2a_lambda.store.documents import unpack
from a2a_lambda.store.items import Item
from a2a_lambda.tasks.context import NO_CHANGE
from a2a_lambda.tasks.event_log import begins_context
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.turns.lease import LEASE_LOOK_SECONDS

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

MAX_ITEM_DELETIONS = 25
"""Deletions that a BatchWriteItem may have."""

MAX_OBJECT_DELETIONS = 1_000
"""Deletions that a DeleteObjects may have."""

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

    def __str__(self) -> str:
        named = {"task": self.task, "conversation": self.context, "agent": self.agent}
        parts = [f"{name} {value}" for name, value in named.items() if value]
        return f"{' of '.join(parts)} of {self.owner}" if parts else f"everything of {self.owner}"


@dataclass(slots=True)
class Counts:
    """How much was deleted.

    running: tasks that a run still held, which may write once more.
    """

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
        self._deleted_keys: set[str] = set()  # of files that a conversation and one of its tasks name
        self.running_tasks: list[tuple[str, str]] = []
        """Agents and ids of erased tasks whose runs may write again."""

    def describe_table(self) -> tuple[str, int]:
        """Identity of the table; and its items, about: DynamoDB counts them every six hours."""
        table = self._dynamodb.describe_table(TableName=self._table)["Table"]
        return f"{table['TableArn']} of {table['CreationDateTime'].isoformat()}", table["ItemCount"]

    def erase_pages(self, selection: Selection, start: Item | None) -> Iterator[tuple[int, Item | None]]:
        """Erase what each page of the table has of a selection. Then yield the number of items that were
        read, and where the next page begins.

        start: where to begin; None = at the beginning.
        """
        query: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "FilterExpression": "begins_with(pk, :prefix)",
            "ExpressionAttributeValues": {
                ":prefix": {"S": items.partition_prefix(selection.owner, selection.agent)}
            },
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

    def erase_task(self, namespace: Namespace, task_id: str) -> bool:
        """Erase a task with its files. Returns whether there was one."""
        rows = self._delete_task(namespace, task_id)
        for head in [row for row in rows if row["sk"]["S"] == "head" and row["holder"]["S"]]:
            self.running_tasks.append((namespace.agent, task_id))
            # The run may have written more before it saw that its head was gone.
            time.sleep(LEASE_LOOK_SECONDS + 1)
            self._forget(namespace, head["context"]["S"], task_id)
            self._delete_task(namespace, task_id)
        return bool(rows)

    def _delete_task(self, namespace: Namespace, task_id: str) -> Sequence[Item]:
        """Delete what there is of a task; returns its items."""
        partition = items.head_key(namespace, task_id)["pk"]
        pages = self._dynamodb.get_paginator("query").paginate(
            TableName=self._table,
            ConsistentRead=True,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": partition},
        )
        rows = [item for page in pages for item in page["Items"]]
        # The files first: the items say which they are.
        self._delete_files_of(namespace, rows)
        self._delete_objects(self._keys_below(folder_key(namespace, output_folder(task_id))))
        # The head last: by it, an erasure of a conversation that was interrupted finds the task again.
        heads = [item for item in rows if item["sk"]["S"] == "head"]
        for head in heads:
            self._forget(namespace, head["context"]["S"], task_id)
        self._delete([item for item in rows if item not in heads])
        self._delete(heads)
        return rows

    def erase_files(self, selection: Selection) -> None:
        """Erase all files of an owner, or of an owner with an agent."""
        agent = f"{selection.agent}/" if selection.agent else ""
        self._delete_objects(self._keys_below(owner_prefix(selection.owner) + agent))

    def _forget(self, namespace: Namespace, context_id: str, task_id: str) -> None:
        """Take what was said in a task out of its conversation."""
        key = items.context_key(namespace, context_id)
        while (item := self._read(key)) is not None:
            context = items.to_context(item)
            conversation = tuple(entry for entry in context.conversation if entry.task != task_id)
            # `undo` may hold what the task said, or what the agent has deleted since.
            newer = replace(context, conversation=conversation, undo=NO_CHANGE)
            if newer == context:
                return
            newer = replace(newer, revision=context.revision + 1)
            expires = int(item["expires"]["N"])
            with suppress(self._dynamodb.exceptions.ConditionalCheckFailedException):  # a turn was faster
                self._dynamodb.put_item(
                    TableName=self._table,
                    Item=items.from_context(namespace, context_id, newer, expires),
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
            self.erase_task(*items.namespace_and_id_of(item))
        elif item["sk"]["S"] == "context":
            namespace, context_id = items.namespace_and_id_of(item)
            if context_id == selection.context:
                # A task that has expired may have left files.
                self._delete_files_of(namespace, [item])
                self._delete([item])

    def _delete(self, rows: Sequence[Item]) -> None:
        for item in rows:
            self.counts.conversations += item["sk"]["S"] == "context"
            if item["sk"]["S"] == "head":
                self.counts.tasks += 1
                self.counts.running += bool(item["holder"]["S"]) and float(item["lease"]["N"]) > time.time()
                # While the head is there: without it, no one would find the execution again. It may have been
                # started since the page was read.
                namespace, _ = items.namespace_and_id_of(item)
                if self._executions is not None and items.to_head(namespace, item).execution is not None:
                    latest_item = self._read(item)
                    execution = items.to_head(namespace, latest_item).execution if latest_item else None
                    if execution is not None and execution.arn:
                        self._executions.stop(execution.arn)
        requests = [{"DeleteRequest": {"Key": {"pk": item["pk"], "sk": item["sk"]}}} for item in rows]
        for start in range(0, len(requests), MAX_ITEM_DELETIONS):
            request: Any = {self._table: requests[start : start + MAX_ITEM_DELETIONS]}
            while request:
                request = self._dynamodb.batch_write_item(RequestItems=request)["UnprocessedItems"]
                if request:
                    time.sleep(RETRY_SECONDS)
        self.counts.items += len(rows)

    def _delete_files_of(self, namespace: Namespace, rows: Iterable[Item]) -> None:
        """Delete the files that clients have sent, and that these items name."""
        # Joined in order: a large event is in several items, and a reference may be divided between two.
        content = b"".join(_contents_without_context(rows))
        keys = {
            key_of(namespace, match.decode()) for match in OF_MESSAGES.findall(content)
        } - self._deleted_keys
        self._delete_objects(keys)
        self._deleted_keys |= keys

    def _keys_below(self, prefix: str) -> Iterator[str]:
        if not self._bucket:
            return
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        for page in pages:
            yield from (item["Key"] for item in page.get("Contents", []))

    def _delete_objects(self, keys: Iterable[str]) -> None:
        objects = iter(keys if self._bucket else ())
        while batch := list(islice(objects, MAX_OBJECT_DELETIONS)):
            answer = self._s3.delete_objects(
                Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
            )
            if errors := answer.get("Errors"):
                code = errors[0].get("Code")
                raise ConfigurationError(f"bucket {self._bucket}: {code}; run make erase again")
            self.counts.files += len(batch)


def _contents_without_context(rows: Iterable[Item]) -> Iterator[bytes]:
    """JSON in the items of a task, in order, except the conversation that a durable turn keeps in its log: it
    names files of other tasks."""
    is_context = False
    for item in rows:
        content = bytes(item["body"]["B"]) if "body" in item else unpack(item["document"])
        if item.get("piece", {"N": "0"})["N"] == "0":  # else it continues the event before it
            is_context = begins_context(content)
        if not is_context:
            yield content
