"""What goes out through a version comes in through it again, and reads the same through every other."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from a2a_lambda import strictjson
from a2a_lambda.protocol.model import Json, TaskState, artifact_id, artifact_index, is_empty_end
from a2a_lambda.protocol.requests import Recipient
from a2a_lambda.wire import negotiation, v0_1, v0_3, v1_0
from a2a_lambda.wire.interface import Wire
from tests.wire import objects, v0_3_http_reader

pytestmark = pytest.mark.slow


WIRES: dict[str, Wire] = {
    "0.1": v0_1.WIRE,
    "0.3": v0_3.WIRE,
    "0.3 HTTP+JSON": v0_3_http_reader.WIRE,
    "1.0": v1_0.WIRE,
}

OF_OTHERS = ["kind", "type", "file", "bytes", "uri", "mime", "mimeType", "name", "content", "fileWithUri"]

TOLD_IN_0_1 = sorted(set(TaskState) - {TaskState.REJECTED, TaskState.AUTH_REQUIRED})
"""States 0.1 has; the others it tells as their nearest."""

LIMITS: dict[str, dict[str, Any]] = {
    "0.1": {"states": TOLD_IN_0_1},
    "0.3": {},
    "0.3 HTTP+JSON": {"strict": True},
    "1.0": {},
}
"""What a version can hold."""


def as_known(task: Json, version: str) -> Json:
    """The task without what 1.0 leaves out of its history: fields of no version."""
    if version != "1.0" or "history" not in task:
        return task

    def known(source: Json) -> Json:
        return {name: value for name, value in source.items() if name not in objects.OF_NO_VERSION}

    messages = [{**known(each), "parts": [known(part) for part in each["parts"]]} for each in task["history"]]
    return {**task, "history": messages}


def sent(value: Json) -> Json:
    """A value, encoded to bytes and decoded again."""
    return strictjson.loads(strictjson.dumps(value))


@pytest.mark.parametrize("version", WIRES)
@given(data=st.data())
def test_a_task(version: str, data: st.DataObject) -> None:
    task = data.draw(objects.tasks(**LIMITS[version]))
    codec = WIRES[version].results["get"]
    encoded = codec.encode(task)
    assert codec.decode(sent(encoded)) == as_known(task, version)


@pytest.mark.parametrize("version", ["0.1", "0.3", "1.0"])
@given(data=st.data())
def test_an_answer(version: str, data: st.DataObject) -> None:
    task = data.draw(objects.tasks(**LIMITS[version]))
    codec = WIRES[version].results["send"]
    assert codec.decode(sent(codec.encode({"task": task}))) == {"task": as_known(task, version)}


@pytest.mark.parametrize("version", WIRES)
@given(data=st.data())
def test_an_event(version: str, data: st.DataObject) -> None:
    event = data.draw(objects.updates(**LIMITS[version]))
    wire = WIRES[version]
    assume(not is_empty_end(event))  # only dialects send it
    [encoded] = wire.encode_event(event, Recipient())
    assert wire.decode_event(sent(encoded)) == event


@pytest.mark.parametrize("version", WIRES)
def test_an_empty_text_ends_a_text_and_nothing_else(version: str) -> None:
    """Some clients show an artifact at its last chunk. Those that collect parts get no text beside a file."""

    def frames(parts: Json) -> list[Json]:
        update = {"taskId": "t", "contextId": "c", "append": True, "lastChunk": True}
        event: Json = {"artifactUpdate": {**update, "artifact": {"artifactId": "artifact-1", "parts": parts}}}
        return WIRES[version].encode_event(event, Recipient())

    assert frames([]) == []
    assert "lastChunk" in str(frames([{"text": ""}]))


@pytest.mark.parametrize("wire", [wire for group in negotiation.DIALECTS.values() for wire in group])
@given(part=objects.parts(strict=False), others=st.dictionaries(st.sampled_from(OF_OTHERS), objects.values))
def test_a_part_may_have_what_other_versions_call_their_fields(wire: Wire, part: Json, others: Json) -> None:
    """A client of one version wrote it, and each version shows it."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [part | others]}
    artifact = {"artifactId": "a", "parts": [part | others]}
    status = {"state": TaskState.COMPLETED, "message": message, "timestamp": "2026-01-01T00:00:00.000Z"}
    task: Any = {"id": "t", "contextId": "c", "status": status, "history": [message], "artifacts": [artifact]}
    update: Any = {"taskId": "t", "contextId": "c", "artifact": artifact, "append": False, "lastChunk": True}
    strictjson.dumps(wire.results["get"].encode(task))
    strictjson.dumps([*wire.encode_event({"artifactUpdate": update}, Recipient("owner"))])


@pytest.mark.parametrize("version", ["0.3", "0.3 HTTP+JSON", "1.0"])
@given(data=st.data())
def test_a_task_or_a_message_as_an_event(version: str, data: st.DataObject) -> None:
    strict = LIMITS[version].get("strict", False)
    kind = data.draw(st.sampled_from(["task", "message"]))
    strategy = objects.tasks(strict=strict) if kind == "task" else objects.messages(strict=strict)
    event: Any = {kind: data.draw(strategy)}
    wire = WIRES[version]
    [encoded] = wire.encode_event(event, Recipient())
    expected = {"task": as_known(event["task"], version)} if kind == "task" else event
    assert wire.decode_event(sent(encoded)) == expected


@pytest.mark.parametrize("version", ["0.3", "1.0"])
@given(request=objects.requests())
def test_a_request(version: str, request: Json) -> None:
    codec = WIRES[version].requests["send"]
    assert codec.decode(sent(codec.encode(request))) == request


@given(request=objects.requests(), task_id=objects.names)
def test_a_request_of_0_1(request: Json, task_id: str) -> None:
    """It names its task, and always says how much history it wants."""
    request["message"]["taskId"] = task_id
    decoded = v0_1.WIRE.requests["send"].decode(sent(v0_1.WIRE.requests["send"].encode(request)))
    assert decoded["message"] == request["message"]
    configuration = request.get("configuration", {})
    assert decoded["configuration"]["historyLength"] == configuration.get("historyLength", 0)
    assert decoded["creates_task"] is True


@pytest.mark.parametrize("version", ["0.1", "0.3", "1.0"])
@given(data=st.data())
def test_a_push_config(version: str, data: st.DataObject) -> None:
    config = data.draw(objects.configs(named=version != "0.1"))
    wire = WIRES[version]
    assert wire.requests["set_push"].decode(sent(wire.requests["set_push"].encode(config))) == config
    assert wire.results["set_push"].decode(sent(wire.results["set_push"].encode(config))) == config


@given(task=objects.tasks(states=TOLD_IN_0_1))
def test_a_task_reads_the_same_through_every_version(task: Json) -> None:
    """One after the other: what one version has no field for, it carries all the same."""
    task = as_known(task, "1.0")
    for version in ("0.1", "0.3", "1.0", "0.3", "0.1"):
        codec = WIRES[version].results["get"]
        task_again = codec.decode(sent(codec.encode(task)))
        assert task_again == task, version


@pytest.mark.parametrize("version", WIRES)
def test_large_integers_and_order_survive(version: str) -> None:
    metadata = {"z": 9007199254740993, "a": [3, 2, 1], "nested": {"b": 1, "a": 2}}
    task: Json = {
        "id": "t",
        "contextId": "c",
        "status": {"state": TaskState.COMPLETED, "timestamp": "2026-01-02T03:04:05.678Z"},
        "artifacts": [{"artifactId": "artifact-1", "parts": [{"data": metadata}], "metadata": metadata}],
    }
    codec = WIRES[version].results["get"]
    [artifact] = codec.decode(sent(codec.encode(task)))["artifacts"]
    assert strictjson.dumps(artifact["metadata"]) == strictjson.dumps(metadata)
    assert strictjson.dumps(artifact["parts"][0]["data"]) == strictjson.dumps(metadata)


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ("2025-08-27T08:20:43.604369041+08:00", "2025-08-27T00:20:43.604Z"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
        ("2026-01-02t03:04:05.1z", "2026-01-02T03:04:05.100Z"),
    ],
)
def test_times_are_utc_with_milliseconds(given_: str, told: str) -> None:
    task = {"id": "t", "contextId": "c", "status": {"state": "completed", "timestamp": given_}}
    assert v0_3.WIRE.results["get"].decode(task)["status"]["timestamp"] == told


def test_an_artifacts_place_is_in_its_id() -> None:
    assert [artifact_index(artifact_id(index)) for index in range(12)] == list(range(12))
    assert artifact_index("somebody-elses") == 0
