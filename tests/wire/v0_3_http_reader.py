"""Reads what goes out over HTTP+JSON of 0.3: the kit has no client that does."""

from dataclasses import replace

from a2a_lambda.protocol.model import Artifact, Event, Json, Task, TaskStatus
from a2a_lambda.wire import v0_3_http
from a2a_lambda.wire.interface import Codec
from a2a_lambda.wire.shared import fields, protojson

CANONICAL = {name: state for state, name in v0_3_http.PROTO_STATE_NAMES.items()}


def decode_status(value: Json, path: str) -> TaskStatus:
    source = protojson.canonical_fields(value, path, protojson.STATUS_SPELLINGS)
    if isinstance(source.get("state"), str) and source["state"] in CANONICAL:
        source["state"] = CANONICAL[source["state"]]
    if "message" in source:
        source["message"] = v0_3_http.decode_message(source["message"], f"{path}.message")
    return protojson.decode_status(source, path)


def decode_artifact(value: Json, path: str) -> Artifact:
    source = dict(fields.mapping(value, path))
    parts = fields.array(source, "parts", path)
    source["parts"] = [
        v0_3_http.decode_part(part, f"{path}.parts[{index}]") for index, part in enumerate(parts)
    ]
    return protojson.decode_artifact(source, path)


def decode_task(value: Json, path: str = "result") -> Task:
    source = protojson.canonical_fields(value, path, protojson.TASK_SPELLINGS)
    source["status"] = decode_status(source.get("status"), f"{path}.status")
    for name, decode in (("artifacts", decode_artifact), ("history", v0_3_http.decode_message)):
        items = fields.array(source, name, path) if source.get(name) else []
        source[name] = [decode(item, f"{path}.{name}[{index}]") for index, item in enumerate(items)]
    return protojson.decode_task(source, path)


def decode_event(value: Json) -> Event:
    source = protojson.canonical_fields(value, "result", protojson.EVENT_SPELLINGS)
    if "task" in source:
        return Event(task=decode_task(source["task"], "result.task"))
    if "message" in source:
        return Event(message=v0_3_http.decode_message(source["message"], "result.message"))
    if "statusUpdate" in source:
        path = "result.statusUpdate"
        update = fields.without(fields.mapping(source["statusUpdate"], path), ("final",))
        update["status"] = decode_status(update.get("status"), f"{path}.status")
        return protojson.decode_event({"statusUpdate": update})
    path = "result.artifactUpdate"
    update = dict(fields.mapping(source.get("artifactUpdate"), path))
    update["artifact"] = decode_artifact(update.get("artifact"), f"{path}.artifact")
    return protojson.decode_event({"artifactUpdate": update})


WIRE = replace(
    v0_3_http.WIRE,
    results={**v0_3_http.WIRE.results, "get": Codec(decode_task, v0_3_http.encode_task)},
    decode_event=decode_event,
)
"""The binding as a client would have it."""
