"""Strategies of canonical objects, as large as a version can hold."""

import base64
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from a2a_lambda.protocol.model import Json, Role, TaskState
from a2a_lambda.wire.shared import json_0x

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = texts.filter(bool)
integers = st.integers(min_value=-(2**70), max_value=2**70)
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=4)
uris = st.lists(names, min_size=1, max_size=2)
times = st.datetimes(datetime(1970, 1, 1), datetime(9998, 1, 1)).map(
    lambda time: time.replace(tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
)

OF_NO_VERSION = ["x-vendor", "anything", "élan"]

UNKNOWN = st.dictionaries(st.sampled_from(OF_NO_VERSION), values, max_size=2)

NOTHING: st.SearchStrategy[dict[str, Json]] = st.just({})


@st.composite
def parts(draw: st.DrawFn, *, strict: bool) -> Json:
    """strict: only what 0.3's a2a.proto has."""
    kind = draw(st.sampled_from(["text", "raw", "url", "data"]))
    content: dict[str, st.SearchStrategy[Json]] = {
        "text": texts,
        "raw": st.binary(max_size=20).map(lambda raw: base64.b64encode(raw).decode()),
        "url": texts,
        "data": objects if strict else values,
    }
    file_fields = {} if strict and kind in ("text", "data") else {"filename": texts, "mediaType": texts}
    # Beside a value that has to be wrapped, absent and empty metadata are the same, and the key that marks
    # the wrapping is reserved.
    with_data = objects.filter(lambda metadata: metadata and json_0x.WRAPPED not in metadata)
    optional: Any = {**file_fields, "metadata": with_data if kind == "data" else objects}
    return {
        kind: draw(content[kind]),
        **draw(st.fixed_dictionaries({}, optional=optional)),
        **draw(NOTHING if strict else UNKNOWN),
    }


@st.composite
def messages(draw: st.DrawFn, *, strict: bool = False) -> Json:
    optional: Any = {"metadata": objects, "extensions": uris}
    if not strict:
        optional |= {"contextId": names, "taskId": names, "referenceTaskIds": uris}
    return {
        "messageId": draw(names),
        "role": draw(st.sampled_from(Role)),
        "parts": draw(st.lists(parts(strict=strict), min_size=1, max_size=3)),
        **draw(st.fixed_dictionaries({}, optional=optional)),
        **draw(NOTHING if strict else UNKNOWN),
    }


@st.composite
def artifacts(draw: st.DrawFn, *, strict: bool = False) -> Json:
    optional: Any = {"name": texts, "description": texts, "metadata": objects, "extensions": uris}
    return {
        "artifactId": draw(names),
        "parts": draw(st.lists(parts(strict=strict), min_size=1, max_size=3)),
        **draw(st.fixed_dictionaries({}, optional=optional)),
    }


@st.composite
def statuses(draw: st.DrawFn, *, strict: bool = False, states: Any = TaskState) -> Json:
    optional: Any = {"message": messages(strict=strict)}
    return {
        "state": draw(st.sampled_from(states)),
        "timestamp": draw(times),
        **draw(st.fixed_dictionaries({}, optional=optional)),
    }


@st.composite
def tasks(draw: st.DrawFn, *, strict: bool = False, states: Any = TaskState) -> Json:
    optional: Any = {
        "artifacts": st.lists(artifacts(strict=strict), min_size=1, max_size=2),
        "history": st.lists(messages(strict=strict), min_size=1, max_size=2),
        "metadata": objects,
    }
    return {
        "id": draw(names),
        "contextId": draw(names),
        "status": draw(statuses(strict=strict, states=states)),
        **draw(st.fixed_dictionaries({}, optional=optional)),
    }


@st.composite
def updates(draw: st.DrawFn, *, strict: bool = False, states: Any = TaskState) -> Json:
    """Events that tell of a change."""
    ids: Any = {"taskId": draw(names), "contextId": draw(names)}
    ids |= draw(st.fixed_dictionaries({}, optional={"metadata": objects}))
    if draw(st.booleans()):
        return {"statusUpdate": {**ids, "status": draw(statuses(strict=strict, states=states))}}
    flags = {"append": draw(st.booleans()), "lastChunk": draw(st.booleans())}
    return {"artifactUpdate": {**ids, "artifact": draw(artifacts(strict=strict)), **flags}}


@st.composite
def configs(draw: st.DrawFn, *, named: bool = True) -> Json:
    authentication: Any = st.fixed_dictionaries({"scheme": names}, optional={"credentials": texts})
    optional: Any = {"token": texts, "authentication": authentication}
    ids = {"id": draw(names)} if named else {}
    return {
        "url": draw(names),
        "taskId": draw(names),
        **ids,
        **draw(st.fixed_dictionaries({}, optional=optional)),
    }


@st.composite
def requests(draw: st.DrawFn) -> Json:
    """Of a message; 0.1 names its task."""
    lengths = st.integers(min_value=1, max_value=100)
    optional: Any = {
        "acceptedOutputModes": uris,
        "historyLength": lengths,
        "returnImmediately": st.booleans(),
    }
    request: Any = {"message": draw(messages())}
    request |= draw(st.fixed_dictionaries({}, optional={"metadata": objects}))
    if draw(st.booleans()):
        request["configuration"] = draw(st.fixed_dictionaries({}, optional=optional))
        if draw(st.booleans()):
            config = draw(configs())
            config.pop("taskId")
            request["configuration"]["taskPushNotificationConfig"] = config
    return request
