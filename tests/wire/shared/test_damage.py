"""Whatever is damaged in an object, its reader names the place, and nothing else happens."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from a2a_lambda.errors import InvalidParams
from a2a_lambda.wire.shared import json_0x, protojson

Place = tuple[str | int, ...]

FREE = {"metadata", "data"}
"""Fields whose content may be anything."""

MAY_BE_EMPTY = {
    *("text", "raw", "bytes", "url", "uri", "token", "credentials", "name", "description", "filename"),
    *("mediaType", "mimeType", "contextId", "taskId", "id", "artifacts", "history", "timestamp", "kind"),
}
"""Fields that may be an empty text, or are then as if they were not there."""

WRONG: list[Any] = [7.5, "", [1], {"x": 1}, True]

MESSAGE: Any = {
    "messageId": "m",
    "role": "ROLE_AGENT",
    "contextId": "c",
    "taskId": "t",
    "parts": [
        {"text": "hi", "metadata": {"a": 1}},
        {"raw": "AAAA", "filename": "a.bin", "mediaType": "a/b"},
        {"url": "https://example.com"},
        {"data": [1]},
    ],
    "metadata": {"a": 1},
    "extensions": ["urn:a"],
    "referenceTaskIds": ["t"],
}

ARTIFACT: Any = {
    "artifactId": "a",
    "name": "N",
    "description": "D",
    "parts": [{"text": "hi"}],
    "metadata": {"a": 1},
    "extensions": ["urn:a"],
}

STATUS: Any = {"state": "TASK_STATE_WORKING", "timestamp": "2026-01-01T00:00:00.000Z", "message": MESSAGE}

TASK: Any = {
    "id": "t",
    "contextId": "c",
    "status": STATUS,
    "artifacts": [ARTIFACT],
    "history": [MESSAGE],
    "metadata": {"a": 1},
}

CONFIG: Any = {
    "url": "https://example.com",
    "id": "i",
    "token": "t",
    "authentication": {"scheme": "Bearer", "credentials": "c"},
}

MESSAGE_0X: Any = {
    **MESSAGE,
    "kind": "message",
    "role": "agent",
    "parts": [
        {"kind": "text", "text": "hi", "metadata": {"a": 1}},
        {"kind": "file", "file": {"bytes": "AAAA", "name": "a.bin", "mimeType": "a/b"}},
        {"kind": "file", "file": {"uri": "https://example.com"}},
        {"kind": "data", "data": {"a": 1}},
    ],
}

ARTIFACT_0X: Any = {**ARTIFACT, "parts": [{"kind": "text", "text": "hi"}]}

STATUS_0X: Any = {**STATUS, "state": "working", "message": MESSAGE_0X}

TASK_0X: Any = {**TASK, "status": STATUS_0X, "artifacts": [ARTIFACT_0X], "history": [MESSAGE_0X]}

CONFIG_0X: Any = {**CONFIG, "authentication": {"schemes": ["Bearer"], "credentials": "c"}}

READERS: dict[str, tuple[Callable[[Any, str], Any], Any]] = {
    "message": (protojson.decode_message, MESSAGE),
    "artifact": (protojson.decode_artifact, ARTIFACT),
    "status": (protojson.decode_status, STATUS),
    "task": (protojson.decode_task, TASK),
    "config": (protojson.decode_config, CONFIG),
    "message of 0.x": (json_0x.decode_message, MESSAGE_0X),
    "artifact of 0.x": (json_0x.decode_artifact, ARTIFACT_0X),
    "status of 0.x": (json_0x.decode_status, STATUS_0X),
    "task of 0.x": (json_0x.decode_task, TASK_0X),
    "config of 0.x": (json_0x.decode_config, CONFIG_0X),
}


def places(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every place in a value whose type is checked, with what is there."""
    if place:
        yield place, value
    if place and place[-1] in FREE:
        return
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from places(inner, (*place, key))


def with_change(value: Any, place: Place, change: Callable[[Any, str | int], None]) -> Any:
    result = json.loads(json.dumps(value))
    parent = result
    for key in place[:-1]:
        parent = parent[key]
    change(parent, place[-1])
    return result


def put(new: Any) -> Callable[[Any, str | int], None]:
    def change(parent: Any, key: str | int) -> None:
        parent[key] = new

    return change


def remove(parent: Any, key: str | int) -> None:
    del parent[key]


def is_damage(name: str, place: Place, wrong: Any, right: Any) -> bool:
    """Whether a value is wrong at a place."""
    field, is_0x = place[-1], "0.x" in name
    if field == "data" and not is_0x:
        return False  # any value is data
    if wrong == "":
        return field not in MAY_BE_EMPTY and not isinstance(field, int)
    may_be_any_object = field in FREE or (field == "authentication" and is_0x)
    return not (may_be_any_object and type(wrong) is type(right))


@pytest.mark.parametrize("name", READERS)
def test_a_whole_object_is_read(name: str) -> None:
    read, value = READERS[name]
    assert read(value, "p")


@pytest.mark.parametrize("name", READERS)
def test_a_value_of_another_type_is_refused_by_its_place(name: str) -> None:
    read, value = READERS[name]
    for place, right in places(value):
        for wrong in WRONG:
            if is_damage(name, place, wrong, right):
                with pytest.raises(InvalidParams) as error:
                    read(with_change(value, place, put(wrong)), "p")
                path = "p" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)
                # Of an object with other fields, the first one that is missing is named.
                assert (error.value.path or "").startswith(path), wrong


@pytest.mark.parametrize(
    ("name", "place"),
    [
        *(("message", (field,)) for field in ("messageId", "role", "parts")),
        ("artifact", ("artifactId",)),
        *(("status", (field,)) for field in ("state",)),
        *(("task", (field,)) for field in ("id", "status")),
        *(("config", place) for place in (("url",), ("authentication", "scheme"))),
        *(("message of 0.x", (field,)) for field in ("messageId", "role", "parts")),
        ("artifact of 0.x", ("artifactId",)),
        *(("status of 0.x", (field,)) for field in ("state",)),
        *(("task of 0.x", (field,)) for field in ("id", "contextId", "status")),
        ("config of 0.x", ("url",)),
    ],
)
def test_a_missing_required_field_is_named(name: str, place: Place) -> None:
    read, value = READERS[name]
    with pytest.raises(InvalidParams) as error:
        read(with_change(value, place, remove), "p")
    assert error.value.path == "p." + ".".join(map(str, place))


@pytest.mark.parametrize("read", [protojson.decode_message, json_0x.decode_message])
def test_a_message_has_a_part(read: Callable[[Any, str], Any]) -> None:
    for value in (MESSAGE, MESSAGE_0X):
        with pytest.raises(InvalidParams) as error:
            read({**value, "parts": []}, "p")
        assert error.value.path == "p.parts"


@pytest.mark.parametrize("part", [{}, {"text": "a", "url": "b"}, {"filename": "a"}])
def test_a_part_of_1_0_has_one_content(part: Any) -> None:
    with pytest.raises(InvalidParams, match="must have one of text, raw, url, data"):
        protojson.decode_part(part, "p")


@pytest.mark.parametrize(
    "file", [{}, {"bytes": "AAAA", "uri": "https://a"}, {"name": "a"}, {"bytes": "", "uri": ""}]
)
def test_a_file_of_0_x_has_one_content(file: Any) -> None:
    with pytest.raises(InvalidParams, match="must have either bytes or uri"):
        json_0x.decode_part({"kind": "file", "file": file}, "p")


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ({"bytes": "", "uri": "https://a"}, {"url": "https://a"}),
        ({"bytes": "AAAA", "uri": ""}, {"raw": "AAAA"}),
        ({"bytes": ""}, {"raw": ""}),
    ],
)
def test_a_client_with_typed_fields_may_send_the_other_content_empty(file: Any, part: Any) -> None:
    assert json_0x.decode_part({"kind": "file", "file": file}, "p") == part


def test_null_is_as_if_a_field_was_not_there() -> None:
    for name, place in (
        ("message", ("contextId",)),
        ("message", ("metadata",)),
        ("message", ("extensions",)),
        ("message of 0.x", ("taskId",)),
        ("artifact", ("name",)),
        ("task of 0.x", ("artifacts",)),
        ("config of 0.x", ("authentication",)),
    ):
        read, value = READERS[name]
        result = read(with_change(value, place, put(None)), "p")
        assert result == read(with_change(value, place, remove), "p"), (name, place)
        assert place[0] not in result
