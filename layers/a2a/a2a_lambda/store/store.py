"""Operations on the table. Every change is one conditional write of one item, unless the list below says
otherwise. A write that conflicts changes nothing.

    operation       item      condition                       use
    create_head     head      absent, or expired              a task begins; a retry finds its head
    append,         entry     absent, or of a lower epoch     see `event_log.Fence`
    write_ahead
    update_head     head      version unchanged               renewal, next turn, end
    seal            entry,    as append, then as update_head  ends a task that another run holds
                    head
    update_context  context   revision unchanged              else the change is made on the newer context
    slots.take      slot      absent, or expired              a stream begins
    slots.renew     slot      holder unchanged                it continues
    slots.free      slot      holder unchanged                it ends
    count_requests  count     none                            an owner makes requests
    put_push_config config    absent, else present            the head decides whether it counts
    advance_push    config    present, and not further        its webhook was called
    delete_push_config  config  none                          the head no longer names it

After a timeout, we cannot know whether a write was made. So it is tried again, and a write that conflicts
with the very same item counts as made. Expired items count as absent, because DynamoDB's TTL deletes them
late.
"""

import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from a2a_lambda.errors import StoreError
from a2a_lambda.protocol.model import Event, Task, TaskPushNotificationConfig, TaskState, TaskStatus
from a2a_lambda.store import items
from a2a_lambda.store.items import number
from a2a_lambda.store.table import ABSENT_CONDITION, ConditionFailed, Table
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.event_log import Entry, Numbered, apply, join, split
from a2a_lambda.tasks.head import Head, Pending, Place
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.tasks.push_registration import Cursor, PushRegistration

if TYPE_CHECKING:
    from a2a_lambda.store.indexes import Indexes
    from a2a_lambda.store.slots import Slots

CONTEXT_MERGES = 20
"""Number of times that a change is made on a newer context, before the store gives up."""

MERGE_PAUSE_SECONDS = 0.02
"""Maximum seconds before the next try to change a context. They double with each try, up to
MAX_MERGE_PAUSE_SECONDS."""

MAX_MERGE_PAUSE_SECONDS = 0.5

OVER_OLD_EPOCH = "attribute_not_exists(pk) OR epoch < :over"
"""Condition of a put of an entry: there is none, or one of an epoch below `:over`."""

REPLACE_PUSH = (
    "SET document = :document, wire = :wire, expires = :expires,"
    " sent_sequence = if_not_exists(sent_sequence, :sent_sequence),"
    " sent_part = if_not_exists(sent_part, :sent_part), sent_state = if_not_exists(sent_state, :sent_state)"
)


class Conflict(StoreError):
    """The item is not what the writer expected. head: the head that is there instead, or None."""

    def __init__(self, head: Head | None = None) -> None:
        super().__init__("another process changed the item first")
        self.head = head


class Store:
    """Tasks and contexts in one table. Calls block: run them in `threads`.

    ttl: seconds for which a task is kept from its creation, and a context from its last turn.
    execution_seconds: time that a durable turn may take. A context, and a task whose turns may be suspended,
        is kept for that much longer.
    list_shards: partitions over which an owner's list of tasks is spread.
    Every method raises StoreError if DynamoDB does not answer. Methods that write raise WriteRefused if
    DynamoDB refuses the item for good.
    """

    def __init__(self, table: Table, *, ttl: int, list_shards: int = 1, execution_seconds: int = 0) -> None:
        self._table = table
        self._ttl = ttl
        self._execution_seconds = execution_seconds
        self._list_shards = list_shards
        self.clock = table.clock

    @cached_property
    def slots(self) -> "Slots":
        from a2a_lambda.store.slots import Slots  # only a stream, or a send that takes long, holds one

        return Slots(self._table)

    @cached_property
    def indexes(self) -> "Indexes":
        from a2a_lambda.store.indexes import Indexes

        return Indexes(self._table, self._list_shards)

    def count_requests(self, owner: str, window: int, counter: int, requests: int, *, until: float) -> int:
        """Add requests to an owner's count in a window of time; returns the count.

        counter: index of the counter, if an owner has several.
        until: Unix time after which the count is no longer needed.
        """
        key = items.count_key(owner, window, counter)
        return self._table.add(key, "requests", requests, expires=int(until) + 1)

    def new_head(
        self,
        namespace: Namespace,
        task_id: str,
        context_id: str,
        status: TaskStatus,
        wire_name: str = "",
        *,
        may_suspend: bool = False,
    ) -> Head:
        """Head of a task that is not stored yet. may_suspend: its turns may be suspended, so it is kept for
        the time that they may take, too."""
        now = self.clock()
        return Head(
            namespace=namespace,
            task_id=task_id,
            context_id=context_id,
            generation=f"{int(now * 1000):012x}{secrets.token_hex(4)}",
            created=now,
            expires=int(now) + self._ttl + (self._execution_seconds if may_suspend else 0),
            status=status,
            wire_name=wire_name,
        )

    def create_head(self, head: Head) -> None:
        """Store a new task. Raises Conflict, with the head that is there."""
        item = items.from_head(head, self._list_shards)
        self._put(item, ABSENT_CONDITION, {":now": number(int(self.clock()))}, head)

    def update_head(self, head: Head) -> Head:
        """Store a changed head; returns it with its new version. Raises Conflict."""
        new_head = replace(head, version=head.version + 1)
        item = items.from_head(new_head, self._list_shards)
        self._put(item, "version = :version", {":version": number(head.version)}, head)
        return new_head

    def get_head(self, namespace: Namespace, task_id: str) -> Head | None:
        """Head of a task, or None. The read is strongly consistent."""
        item = self._table.get(items.head_key(namespace, task_id))
        return None if item is None else items.to_head(namespace, item)

    def get_heads(self, namespace: Namespace, task_ids: Sequence[str]) -> dict[str, Head]:
        """Heads of tasks by id; those of tasks that are absent are left out. As consistent as `get_head`."""
        rows = self._table.get_many([items.head_key(namespace, id_) for id_ in dict.fromkeys(task_ids)])
        return {head.task_id: head for head in (items.to_head(namespace, item) for item in rows)}

    def append(self, head: Head, events: Sequence[Event], *, after: int) -> int:
        """Append events after the sequence number `after`; returns the last number. A run may try again
        with the same events.

        Raises Conflict if the run no longer holds the task.
        """
        entries = split(events, after=after, epoch=head.epoch)
        for entry in entries:
            self._put(items.from_entry(head, entry), OVER_OLD_EPOCH, {":over": number(head.epoch)})
        return after + len(entries)

    def write_ahead(self, head: Head, events: Sequence[Event]) -> Head:
        """Append the events that a head cannot hold, before the head itself is stored; returns the head with
        them. If this process dies in between, they count for no one.

        head: the head of a new task, or that of a stopped task in its next epoch. Raises Conflict if other
            events were written ahead in that epoch.
        """
        # No stored head has this epoch, so an entry of it counts only when a head commits it. An entry of a
        # later epoch replaces it. A stopped task has no run that could append meanwhile.
        last_sequence = self.append(replace(head, epoch=head.epoch - 1), events, after=head.committed)
        return replace(head, sequence=last_sequence, committed=last_sequence)

    def get_events(self, head: Head, *, after: int = 0, include_artifacts: bool = True) -> list[Numbered]:
        """Events of a task after the sequence number `after`, in order, those that count under its head.

        after: the number of an event, not one inside it. include_artifacts: with events of artifacts. The
            closing status of a stopped task is in its head, not among its events.
        """
        entries = () if head.is_inline else self._entries(head, after)
        pairs = join(head.inline, filter(head.fence.admits, entries), after=after)
        return [pair for pair in pairs if include_artifacts or "artifactUpdate" not in pair[1]]

    def get_progress(self, head: Head, *, after: int) -> tuple[Head | None, list[Numbered]]:
        """The head as it is now, and the events after a sequence number. One read, unless more than events
        has changed.

        head: the task's head when it was last read.
        """
        rows = list(
            self._table.query("pk = :pk AND sk BETWEEN :first AND :last", items.progress_range(head, after))
        )
        # The head sorts after its entries (`e#…` < `head`), so one query returns both, and the head last.
        if not rows or rows[-1]["sk"]["S"] != "head" or items.has_expired(rows[-1], self.clock()):
            return None, []
        current_head = items.to_head(head.namespace, rows.pop())
        if current_head.version != head.version:
            # A query does not read its items at one moment: the head may close while the entries are read.
            return current_head, self.get_events(current_head, after=after)
        entries = filter(current_head.fence.admits, map(items.to_entry, rows))
        return current_head, list(join(current_head.inline, entries, after=after))

    def get_task(self, head: Head, *, include_artifacts: bool = True) -> tuple[Task, int]:
        """The task as stored, with or without its artifacts, and the last sequence number in it."""
        task, events = head.empty_task(), self.get_events(head, include_artifacts=include_artifacts)
        apply(task, (event for _, event in events))
        if head.is_stopped:
            apply(task, [head.closing_event()])
            return task, head.sequence
        # When a turn runs again, the last progress of the dead run is over. An execution continues from it.
        run_start = 0 if head.place is Place.EXECUTION else head.committed
        last_update = max((number for number, event in events if "statusUpdate" in event), default=0)
        has_progress = task["status"]["state"] == TaskState.WORKING and last_update > run_start
        if not has_progress or head.state != TaskState.WORKING:
            task["status"] = head.status
        return task, events[-1][0] if events else 0

    def seal(self, head: Head, status: TaskStatus, pending: Pending | None = None) -> Head:
        """End the turn of a task that another run holds, with a closing status; returns its head. pending: of
        a task that asks then; see `Head`.

        Raises Conflict, with the head that is there, if that run or another process was first.
        """
        if head.is_replying:  # what the reply has appended does not count, and its process finds this head
            return self.update_head(head.with_new_epoch().with_closing_status(status, head.sequence, pending))
        # The run may be alive, and append while this runs. Two writes keep its log whole:
        #
        #     1. An empty entry of the next epoch takes the next number, if it is free. If the run was faster,
        #        its entry is there: the number after it is next.
        #     2. The head closes, if no one has changed it since. Only now does the task end.
        #
        # After 1, the run cannot append: a higher epoch has its number. It finds the closed head when it
        # looks at the task, or when it renews its lease. If this process dies after 1, the lease runs out.
        last_sequence = self._put_seal(head)
        return self.update_head(
            replace(head, epoch=head.epoch + 1, committed=last_sequence).with_closing_status(
                status, last_sequence, pending
            )
        )

    def take_over(self, head: Head) -> Head:
        """The head for a run that takes the task from a dead run. What the dead run stored stays, and it
        can store no more. Nothing remains of a reply whose process died. The head is not stored yet. Raises
        what `seal` raises."""
        if head.is_replying:
            return head.with_new_epoch()
        last_sequence = self._put_seal(head)
        # Above the seal's epoch, so that the seal does not count and the run's first entry replaces it.
        return replace(head, epoch=head.epoch + 2, committed=last_sequence, sequence=last_sequence)

    def _put_seal(self, head: Head) -> int:
        """Put an empty entry of the next epoch after the log; returns the log's last number. Raises
        Conflict, with the head that is there, if another process has changed it."""
        last_sequence = head.sequence
        for entry in self._entries(head, last_sequence):
            if head.fence.admits(entry):
                last_sequence = entry.sequence
        while True:
            seal = items.from_entry(head, Entry(last_sequence + 1, head.epoch + 1, b"{}"))
            try:
                self._table.put(seal, OVER_OLD_EPOCH, {":over": number(head.epoch)})
                return last_sequence
            except ConditionFailed as conflict:
                # The run has appended this entry since. Nothing else is read: a run that appends without a
                # pause would be faster.
                winner = items.to_entry(conflict.item) if conflict.item else None
                if winner is not None and head.fence.admits(winner):
                    last_sequence = winner.sequence
                    continue
            current = self.get_head(head.namespace, head.task_id)
            if current is None or current.version != head.version:
                raise Conflict(current)

    def get_context(self, namespace: Namespace, context_id: str) -> Context:
        """A context, or an empty one if there is none. The read is strongly consistent."""
        item = self._table.get(items.context_key(namespace, context_id))
        return Context() if item is None else items.to_context(item)

    def update_context(
        self, namespace: Namespace, context_id: str, context: Context, change: Callable[[Context], Context]
    ) -> None:
        """Store `change(context)`. If another turn was first, `change` gets the newer context. It returns its
        argument if there is nothing to change. Blocks."""
        pause = MERGE_PAUSE_SECONDS
        for _ in range(CONTEXT_MERGES):
            new_context = change(context)
            if new_context is context:
                return
            now = int(self.clock())
            new_context = replace(new_context, revision=context.revision + 1)
            expires = now + self._ttl + self._execution_seconds
            item = items.from_context(namespace, context_id, new_context, expires)
            try:
                if context.revision:
                    self._put(item, "revision = :revision", {":revision": number(context.revision)})
                else:
                    self._put(item, ABSENT_CONDITION, {":now": number(now)})
                return
            except Conflict:
                # When turns end together, one succeeds at a time, and each try costs a write of the whole
                # context: without pauses, n turns would need about n² of them.
                time.sleep(random.uniform(0.0, pause))  # noqa: S311  # no secret
                pause = min(2 * pause, MAX_MERGE_PAUSE_SECONDS)
                context = self.get_context(namespace, context_id)
        raise StoreError("the context is changed by too many turns at once")

    def put_push_config(self, head: Head, push: PushRegistration) -> None:
        """Store a config of a task under its id. One that is there keeps its cursor, because its webhook may
        lack some of the events. A config without a cursor is stored only if the task has none with that id
        yet."""
        item = items.from_push(head, push)
        try:
            self._table.put(item, ABSENT_CONDITION, {":now": number(int(self.clock()))})
        except ConditionFailed:
            if push.cursor is not None:
                key = items.push_key(head.namespace, head.task_id, push.config["id"])
                values = {f":{name}": value for name, value in item.items() if name not in key}
                with suppress(ConditionFailed):  # it was deleted just now
                    self._table.update(key, REPLACE_PUSH, "attribute_exists(pk)", values)

    def advance_push(self, namespace: Namespace, task_id: str, config_id: str, cursor: Cursor) -> None:
        """Store how far a config's notifications have come, unless it was deleted, or they have come further,
        in the meantime."""
        values = {f":{name}": value for name, value in items.from_cursor(cursor).items()}
        changes = ", ".join(f"{name[1:]} = {name}" for name in values)
        condition = (
            "attribute_not_exists(sent_sequence) OR sent_sequence < :sent_sequence"
            " OR (sent_sequence = :sent_sequence AND sent_part <= :sent_part)"
        )
        with suppress(ConditionFailed):
            key = items.push_key(namespace, task_id, config_id)
            self._table.update(key, f"SET {changes}", f"attribute_exists(pk) AND ({condition})", values)

    def get_push_config(self, namespace: Namespace, task_id: str, config_id: str) -> PushRegistration | None:
        item = self._table.get(items.push_key(namespace, task_id, config_id))
        return None if item is None else items.to_push(item)

    def list_push_configs(self, namespace: Namespace, task_id: str) -> list[TaskPushNotificationConfig]:
        """Push notification configs of a task, ordered by id."""
        rows = self._table.query_unexpired(
            "pk = :pk AND begins_with(sk, :prefix)", items.push_prefix(namespace, task_id)
        )
        return [items.to_push(item).config for item in rows]

    def delete_push_config(self, namespace: Namespace, task_id: str, config_id: str) -> None:
        self._table.delete(items.push_key(namespace, task_id, config_id))

    def _entries(self, head: Head, after: int) -> Iterator[Entry]:
        condition = "pk = :pk AND sk BETWEEN :first AND :last"
        yield from map(items.to_entry, self._table.query(condition, items.entry_range(head, after)))

    def _put(
        self, item: dict[str, Any], condition: str, values: Mapping[str, Any], head: Head | None = None
    ) -> None:
        try:
            self._table.put(item, condition, values)
        except ConditionFailed as conflict:
            raise Conflict(
                items.to_head(head.namespace, conflict.item) if head and conflict.item else None
            ) from None
