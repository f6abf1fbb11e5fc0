"""Keys and items of the table.

    pk                              sk                         item
    owner#agent#task#<task id>      e#<generation>#<number>    entry of the log
    owner#agent#task#<task id>      head                       head (sorts after the entries)
    owner#agent#task#<task id>      push#<config id>           push notification config
    owner#agent#context#<context>   context                    context
    owner#slots                     slot#<number>              a stream, or a long send, of the owner
    owner#requests                  window#<number>            requests of the owner in a window of time
    owner#<n>#requests              window#<number>            the same, of an owner with a high limit
    #keys#<path>                    copy, load                 copy of the API keys; who loads them now
    #keys#<path>                    jwks#<issuer>              copy of an issuer's keys
    #keys#<path>                    fetch#<issuer>             who asks the issuer now
    #secrets#<path>                 <name>                     a secret that containers share
    #schedules                      mark#<agent>#<schedule>    how far a schedule has been looked at

Index (listing, changed): tasks of an owner and agent by status time. A task that was answered with a
message only is not in it. Index (shard, due): tasks that should be running, for the sweep.

JSON is stored in binary attributes: as DynamoDB numbers, large integers would lose digits. That of heads,
contexts and key copies is compressed (`documents`). From 0.3 on, names in the table do not change, because
tables outlive releases.
"""

import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

from a2a_lambda import strictjson
from a2a_lambda.protocol.model import TaskState, unix_time
from a2a_lambda.store.documents import pack, unpack
from a2a_lambda.tasks.context import Context, Undo, conversation_of
from a2a_lambda.tasks.event_log import SEQUENCE_DIGITS, Entry
from a2a_lambda.tasks.execution import Execution
from a2a_lambda.tasks.head import Head, Place
from a2a_lambda.tasks.identity import Namespace
from a2a_lambda.tasks.push_registration import Cursor, PushRegistration

Item = Mapping[str, Any]

DUE_SHARDS = 8
"""Partitions of the sweep's index."""

CHANGED_BYTES = 1_000
"""Maximum size of `changed`, in bytes. The sort key of an index may have 1,024."""

RESTORED_AGE_SECONDS = 600.0
"""A head that is new in the table, with a status older than this many seconds, was restored from a backup."""

LAST_SEQUENCE = 10**SEQUENCE_DIGITS - 1


def partition_prefix(owner: str, agent: str = "") -> str:
    """What the partition keys of an owner's items begin with; with an agent, those of its tasks and
    conversations."""
    return f"{owner}#{agent}#" if agent else f"{owner}#"


def head_key(namespace: Namespace, task_id: str) -> dict[str, Any]:
    return _key(_task_partition(namespace, task_id), "head")


def context_key(namespace: Namespace, context_id: str) -> dict[str, Any]:
    return _key(f"{partition_prefix(namespace.owner, namespace.agent)}context#{context_id}", "context")


def push_key(namespace: Namespace, task_id: str, config_id: str) -> dict[str, Any]:
    return _key(_task_partition(namespace, task_id), f"push#{config_id}")


def push_prefix(namespace: Namespace, task_id: str) -> dict[str, Any]:
    """Values :pk and :prefix of a query for the configs of a task."""
    return {":pk": {"S": _task_partition(namespace, task_id)}, ":prefix": {"S": "push#"}}


def slot_key(owner: str, slot: int) -> dict[str, Any]:
    return _key(f"{partition_prefix(owner)}slots", f"slot#{slot:04d}")


def from_slot(owner: str, slot: int, holder: str, until: float) -> dict[str, Any]:
    return {**slot_key(owner, slot), "holder": {"S": holder}, "expires": number(math.ceil(until))}


def count_key(owner: str, window: int, counter: int) -> dict[str, Any]:
    """Key of the item that counts an owner's requests in a window. template.yaml allows the cards' function
    to write only keys that end as these do."""
    partition = f"{counter}#requests" if counter else "requests"
    return _key(partition_prefix(owner) + partition, f"window#{window}")


def keys_key(path: str, what: str) -> dict[str, Any]:
    """Key in the partition of the API keys, which no owner can have, because no owner's name is empty.
    template.yaml allows the cards' function to read this partition alone. what: copy, load, jwks#<issuer> or
    fetch#<issuer>."""
    return _key(f"#keys#{path}", what)


def secret_key(path: str, name: str) -> dict[str, Any]:
    """A secret that the containers of a deployment share."""
    return _key(f"#secrets#{path}", name)


def schedule_mark_key(agent: str, schedule: str) -> dict[str, Any]:
    """No owner's name is empty, so no owner has this key. schedule: see `ScheduleMarks`."""
    return _key("#schedules", f"mark#{agent}#{schedule}")


def slot_number(item: Item) -> int:
    return int(item["sk"]["S"].removeprefix("slot#"))


def listing_partition(namespace: Namespace, shard: int) -> dict[str, str]:
    """Partition of the index that lists tasks. The first shard has all tasks of a deployment with one."""
    partition = f"{namespace.owner}#{namespace.agent}"
    return {"S": f"{partition}#{shard}" if shard else partition}


def listed_id(position: str) -> str:
    """Id of a task, from its position in the list."""
    return position.split("#", 1)[1]


def listing_key(namespace: Namespace, shard: int, position: str) -> dict[str, Any]:
    """Key of a position in a list: right after the task whose `changed` it names. Raises ValueError."""
    _, separator, task_id = position.partition("#")
    if not separator or not task_id or len(position.encode()) > CHANGED_BYTES:
        raise ValueError("not a position in a list")
    return {
        **head_key(namespace, task_id),
        "listing": listing_partition(namespace, shard),
        "changed": {"S": position},
    }


def due_partition(shard: int) -> dict[str, str]:
    """Partition of the sweep's index."""
    return {"S": f"shard-{shard}"}


def namespace_and_id_of(item: Item) -> tuple[Namespace, str]:
    """Namespace and id of a task, or of a conversation, from one of its items or from the sweep's index."""
    # No owner and no agent has a # in its name. An agent may be called "task".
    owner, agent, _, id_ = item["pk"]["S"].split("#", 3)
    return Namespace(owner, agent), id_


def status_change(new: Item, old: Item | None, write_time: float) -> tuple[int, tuple[str, ...]] | None:
    """Version and push configs of a head whose status changed, from a record of the table's stream. None
    for any other change, and for a head that was restored from a backup.

    write_time: Unix time of the change.
    """
    if new["sk"]["S"] != "head":
        return None
    if old and all(old.get(name) == new[name] for name in ("changed", "state")):
        return None
    change_time = unix_time(new["changed"]["S"].partition("#")[0])
    if old is None and write_time - change_time > RESTORED_AGE_SECONDS:
        return None
    names = json.loads(unpack(new["document"]))["push"]
    return int(new["version"]["N"]), tuple(names)


def entry_range(head: Head, after: int) -> dict[str, Any]:
    """Values :pk, :first and :last of a query for the entries after a sequence number."""
    return {
        ":pk": {"S": _task_partition(head.namespace, head.task_id)},
        ":first": {"S": _sort(head, after + 1)},
        ":last": {"S": _sort(head, LAST_SEQUENCE)},
    }


def progress_range(head: Head, after: int) -> dict[str, Any]:
    """Values of a query for the entries after a number, and for the head."""
    return {**entry_range(head, after), ":last": {"S": "head"}}


def has_expired(item: Item, now: float) -> bool:
    """Whether an item counts as absent. DynamoDB deletes it only some time later."""
    return int(item["expires"]["N"]) <= now


def number(value: float) -> dict[str, str]:
    """DynamoDB number, of an integer or a time with milliseconds. Times that are compared with each other
    are stored exactly, as `{"N": str(time)}`."""
    # As DynamoDB returns it: without zeros at the end.
    return {"N": str(value) if isinstance(value, int) else f"{value:.3f}".rstrip("0").rstrip(".")}


def from_head(head: Head, list_shards: int) -> dict[str, Any]:
    digest = zlib.crc32(head.task_id.encode())
    item: dict[str, Any] = {
        **head_key(head.namespace, head.task_id),
        "version": number(head.version),
        "state": {"S": head.state},
        "context": {"S": head.context_id},
        "created": number(head.created),
        "expires": number(head.expires),
        "generation": {"S": head.generation},
        "epoch": number(head.epoch),
        "committed": number(head.committed),
        "sequence": number(head.sequence),
        "lease": number(head.lease),
        "turn": {"S": head.turn_id},
        "holder": {"S": head.holder},
        "successor": {"S": head.successor},
        "wire": {"S": head.wire_name},
        "changed": {"S": f"{head.status['timestamp']}#{head.task_id}"},
        "document": pack(head.document()),
    }
    if not head.message_only:
        item["listing"] = listing_partition(head.namespace, digest % list_shards)
    if head.push_config_ids:
        item["pushes"] = number(len(head.push_config_ids))
    if not head.is_stopped or head.is_suspended:
        item["shard"] = due_partition(digest % DUE_SHARDS)
        item["due"] = number(head.due)
    return item


def to_head(namespace: Namespace, item: Item) -> Head:
    document = json.loads(unpack(item["document"]))
    status = document["status"]
    status["state"] = TaskState(status["state"])
    return Head(
        namespace=namespace,
        task_id=namespace_and_id_of(item)[1],
        context_id=item["context"]["S"],
        generation=item["generation"]["S"],
        created=float(item["created"]["N"]),
        expires=int(item["expires"]["N"]),
        version=int(item["version"]["N"]),
        epoch=int(item["epoch"]["N"]),
        committed=int(item["committed"]["N"]),
        sequence=int(item["sequence"]["N"]),
        status=status,
        inline=tuple((sequence, event) for sequence, event in document["inline"]),
        turn_id=item["turn"]["S"],
        holder=item["holder"]["S"],
        lease=float(item["lease"]["N"]),
        due=int(item["due"]["N"]) if "due" in item else 0,
        requests=tuple(document["requests"]),
        successor=item["successor"]["S"],
        pending=document["pending"],
        wire_name=item["wire"]["S"],
        push_config_ids=tuple(document["push"]),
        message_only=document["message_only"],
        place=Place(document["place"]),
        attempts=document["attempts"],
        artifact_count=document["artifacts"],
        execution=Execution.of_document(document["execution"]) if "execution" in document else None,
        trace=document.get("trace", ""),
        reopened_at=document.get("reopened", 0),
    )


def from_entry(head: Head, entry: Entry) -> dict[str, Any]:
    return {
        **_key(_task_partition(head.namespace, head.task_id), _sort(head, entry.sequence)),
        "epoch": number(entry.epoch),
        "piece": number(entry.piece),
        "more": {"BOOL": entry.more},
        "expires": number(head.expires),
        "body": {"B": entry.body},
    }


def to_entry(item: Item) -> Entry:
    return Entry(
        sequence=int(item["sk"]["S"].rsplit("#", 1)[1]),
        epoch=int(item["epoch"]["N"]),
        body=item["body"]["B"],
        piece=int(item["piece"]["N"]),
        more=item["more"]["BOOL"],
    )


def from_push(head: Head, push: PushRegistration) -> dict[str, Any]:
    item = {
        **push_key(head.namespace, head.task_id, push.config["id"]),
        "wire": {"S": push.wire_name},
        "expires": number(head.expires),
        "document": {"B": strictjson.dumps(push.config)},
    }
    return item if push.cursor is None else item | from_cursor(push.cursor)


def from_cursor(cursor: Cursor) -> dict[str, Any]:
    """Attributes of a config."""
    return {
        "sent_sequence": number(cursor.sequence),
        "sent_part": number(cursor.part),
        "sent_state": {"S": cursor.state},
    }


def to_push(item: Item) -> PushRegistration:
    cursor = None
    if "sent_sequence" in item:
        state = TaskState(item["sent_state"]["S"])
        cursor = Cursor(int(item["sent_sequence"]["N"]), int(item["sent_part"]["N"]), state)
    return PushRegistration(json.loads(item["document"]["B"]), item["wire"]["S"], cursor)


def from_context(namespace: Namespace, context_id: str, context: Context, expires: int) -> dict[str, Any]:
    undo = context.undo
    optional_fields = {
        "failed_turns": context.failed_turns,
        "omitted_turns": context.omitted_turns,
        "asking_task": context.asking_task_id,
        "earlier_asking_tasks": context.earlier_asking_tasks,
        "undo": (undo.turn_id, dict(undo.values)) if undo.turn_id else (),
    }
    document = {
        "memory": context.memory,
        "conversation": context.conversation_rows(),
        "turns": context.turns,
        "requests": context.requests,
        **{name: value for name, value in optional_fields.items() if value},
    }
    return {
        **context_key(namespace, context_id),
        "revision": number(context.revision),
        "expires": number(expires),
        "document": pack(document),
    }


def to_context(item: Item) -> Context:
    document = json.loads(unpack(item["document"]))
    return Context(
        revision=int(item["revision"]["N"]),
        memory=document["memory"],
        conversation=conversation_of(document["conversation"]),
        turns=tuple(document["turns"]),
        failed_turns=tuple(document.get("failed_turns", ())),
        omitted_turns=tuple(document.get("omitted_turns", ())),
        asking_task_id=document.get("asking_task", ""),
        earlier_asking_tasks=tuple(document.get("earlier_asking_tasks", ())),
        requests=tuple(document["requests"]),
        undo=Undo(*document.get("undo", ())),
    )


def _key(partition: str, sort: str) -> dict[str, Any]:
    return {"pk": {"S": partition}, "sk": {"S": sort}}


def _task_partition(namespace: Namespace, task_id: str) -> str:
    return f"{partition_prefix(namespace.owner, namespace.agent)}task#{task_id}"


def _sort(head: Head, sequence: int) -> str:
    return f"e#{head.generation}#{sequence:0{SEQUENCE_DIGITS}d}"
