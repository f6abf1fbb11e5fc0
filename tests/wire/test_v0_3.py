"""Translation keeps everything: what was decoded is encoded again as it came."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_lambda import strictjson
from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import (
    PART_CONTENT,
    Event,
    Part,
    Task,
    TaskState,
    TaskStatusUpdateEvent,
    agent_message,
    make_status,
)
from a2a_lambda.protocol.requests import Recipient, SendMessageRequest, SendMessageResponse
from a2a_lambda.wire import alibaba, negotiation, v0_3
from a2a_lambda.wire.shared import json_0x
from tests.wire.objects import names, objects, texts, values

TAKEN = {"kind", "metadata", "file", "filename", "mediaType", *PART_CONTENT}


def extras(taken: set[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(texts.filter(lambda name: name not in taken), values, max_size=2)


@st.composite
def parts(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(["text", "file", "data"]))
    if kind == "text":
        content: Any = draw(texts)
    elif kind == "data":
        content = draw(objects)
    else:
        content = {"bytes": base64.b64encode(draw(st.binary(max_size=20))).decode()}
        content = draw(st.sampled_from([content, {"uri": draw(texts)}]))
        content |= draw(st.fixed_dictionaries({}, optional={"name": texts, "mimeType": texts}))
        content |= draw(extras({"bytes", "uri", "name", "mimeType"}))
    metadata = draw(st.fixed_dictionaries({}, optional={"metadata": objects}))
    return {"kind": kind, kind: content, **metadata, **draw(extras(TAKEN))}


@st.composite
def messages(draw: st.DrawFn) -> Any:
    optional = {
        "contextId": names,
        "taskId": names,
        "metadata": objects,
        "extensions": st.lists(texts, min_size=1, max_size=2),
        "referenceTaskIds": st.lists(texts, min_size=1, max_size=2),
    }
    return {
        "kind": "message",
        "messageId": draw(names),
        "role": draw(st.sampled_from(["user", "agent"])),
        "parts": draw(st.lists(parts(), min_size=1, max_size=3)),
        **draw(st.fixed_dictionaries({}, optional=optional)),
        **draw(extras({"kind", "messageId", "role", "parts", *optional})),
    }


@given(messages())
def test_a_message_comes_out_as_it_went_in(message: Any) -> None:
    decoded = json_0x.decode_message(message, "m")
    assert json_0x.encode_message(decoded) == message
    stored_message = strictjson.loads(strictjson.dumps(decoded))
    assert json_0x.encode_message(stored_message) == message


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "message", "messageId": "m", "role": "agent", "parts": [], "contextId": "c"},
        {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}, "artifacts": []},
        {"kind": "status-update", "taskId": "t", "contextId": "c", "status": {"state": "working"}},
        {
            "kind": "artifact-update",
            "taskId": "t",
            "contextId": "c",
            "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "x"}]},
            "append": True,
            "lastChunk": False,
        },
    ],
)
def test_an_event_without_a_kind_shows_what_it_is(event: Any) -> None:
    """Events of fasta2a do."""
    without_kind = {name: value for name, value in event.items() if name != "kind"}
    decoded = json_0x.decode_event(event)
    assert json_0x.decode_event(without_kind) == decoded
    assert len(decoded) == 1


def test_an_event_of_no_kind_is_refused() -> None:
    for event in ({"kind": "other", "id": "t"}, {"x": 1}, {}):
        with pytest.raises(InvalidParams, match=r"result\.kind must be task"):
            json_0x.decode_event(event)


@pytest.mark.parametrize("parts", [{}, {"parts": None}, {"parts": []}])
def test_messages_of_an_answer_may_have_no_parts(parts: Any) -> None:
    """Messages of fasta2a may lack them. In a request they may not."""
    message = {"kind": "message", "messageId": "m", "role": "agent", **parts}
    status = {"state": "completed", "message": message}
    task = {"kind": "task", "id": "t", "contextId": "c", "status": status, "history": [message]}
    decoded = json_0x.decode_event(task)["task"]
    assert decoded["history"] == [decoded["status"]["message"]]
    assert decoded["history"][0]["parts"] == []
    assert json_0x.decode_event(message)["message"]["parts"] == []
    with pytest.raises(InvalidParams):
        json_0x.decode_message(message, "m")


@given(parts())
def test_parts_keep_the_order_of_their_values(part: Any) -> None:
    encoded = json_0x.encode_part(json_0x.decode_part(part, "p"))
    kind = part["kind"]
    assert json.dumps(encoded[kind]) == json.dumps(part[kind]) or kind == "file"


@given(values)
def test_data_of_any_kind_fits_a_data_part(value: Any) -> None:
    encoded = json_0x.encode_part({"data": value})
    assert isinstance(encoded["data"], dict)
    assert json_0x.decode_part(encoded, "p") == {"data": value}


@pytest.mark.parametrize("value", [5, None, "x", [], {"uri": "https://other", "size": 7}])
def test_an_unknown_field_of_a_part_of_1_0_replaces_nothing(value: Any) -> None:
    file = json_0x.encode_part({"url": "https://x", "file": value})["file"]  # type: ignore[typeddict-unknown-key]
    assert file == {"uri": "https://x"} | ({"size": 7} if isinstance(value, dict) else {})


def test_what_a_client_leaves_out_is_understood() -> None:
    lenient = {
        "messageId": "m",
        "role": "user",
        "parts": [{"text": "a"}, {"data": {}}],
        "taskId": "",
        "metadata": None,
    }
    assert json_0x.decode_message(lenient, "m") == {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [{"text": "a"}, {"data": {}}],
    }


@pytest.mark.parametrize("is_immediate", [True, False])
def test_a_client_that_waits_for_no_result_says_so(is_immediate: bool) -> None:
    message = json_0x.decode_message({"messageId": "m", "role": "user", "parts": [{"text": "a"}]}, "m")
    request = SendMessageRequest(message=message, configuration={"returnImmediately": is_immediate})
    assert v0_3.encode_send(request)["configuration"] == {"blocking": not is_immediate}


def test_every_state_has_its_word() -> None:
    for state in TaskState:
        task = Task(id="t", contextId="c", status=make_status(state, 0))
        status = json_0x.encode_task(task)["status"]
        assert status == {"state": json_0x.STATE_NAMES[state], "timestamp": "1970-01-01T00:00:00.000Z"}
        assert alibaba.encode_task(task)["status"]["state"] in {
            "submitted",
            "working",
            "completed",
            "failed",
            "input-required",
            "rejected",
        }


def test_final_says_that_the_stream_ends() -> None:
    for state in set(TaskState) - {TaskState.UNSPECIFIED}:
        update = TaskStatusUpdateEvent(taskId="t", contextId="c", status=make_status(state, 0))
        [update_json] = v0_3.encode_event(Event(statusUpdate=update), Recipient())
        assert update_json["final"] is (state not in (TaskState.SUBMITTED, TaskState.WORKING))


@pytest.mark.parametrize("name", ["0.1", "0.3", "1.0", "alibaba", "qianfan"])
def test_a_version_answers_with_a_message_if_its_clients_take_one(name: str) -> None:
    """Its tasks are in no list only then, because the client has not heard of them."""
    wire = negotiation.wire_named(name)
    message = agent_message("t", "c", [Part(text="hello")])
    task = Task(id="t", contextId="c", status=make_status(TaskState.COMPLETED, 0, message))
    encoded = wire.results["send"].encode(SendMessageResponse(task=task, message=message))
    text = strictjson.dumps(encoded)
    assert (b"COMPLETED" not in text.upper()) == wire.answers_with_messages


@pytest.mark.parametrize("name", ["0.1", "0.3", "1.0", "alibaba", "qianfan"])
def test_clients_of_0_x_read_an_error_of_a_stream_as_an_event(name: str) -> None:
    assert negotiation.wire_named(name).stream_errors_as_events == (name != "1.0")
