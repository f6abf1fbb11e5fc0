"""What each version reads of a request's parameters, and what it refuses: with the path of the mistake."""

from contextlib import nullcontext
from typing import Any, cast

import pytest

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import Task, TaskState, make_status
from a2a_lambda.wire import negotiation, v0_1, v0_3, v0_3_http, v1_0
from a2a_lambda.wire.interface import Wire
from a2a_lambda.wire.shared import fields, json_0x, protojson

WIRES = {wire.name: wire for group in negotiation.DIALECTS.values() for wire in group}

CONFIG = {"url": "https://example.com/hook", "token": "t"}


@pytest.mark.parametrize(
    ("params", "request_"),
    [
        (None, {}),
        ({"contextId": "c", "tenant": "t"}, {"contextId": "c", "tenant": "t"}),
        ({"context_id": "c", "page_size": 7}, {"contextId": "c", "pageSize": 7}),
        ({"pageSize": 1}, {"pageSize": 1}),
        ({"pageSize": "7", "historyLength": 2.0}, {"pageSize": 7, "historyLength": 2}),
        ({"pageSize": 100, "pageToken": "x"}, {"pageSize": 100, "pageToken": "x"}),
        ({"pageToken": "", "contextId": ""}, {}),
        ({"status": "TASK_STATE_UNSPECIFIED"}, {}),
        ({"status": 0}, {}),
        ({"status": 1}, {"status": TaskState.SUBMITTED}),
        ({"status": 2}, {"status": TaskState.WORKING}),
        ({"historyLength": 0}, {"historyLength": 0}),
        ({"includeArtifacts": True}, {"includeArtifacts": True}),
        ({"includeArtifacts": "true"}, {"includeArtifacts": True}),
        ({"includeArtifacts": "false"}, {"includeArtifacts": False}),
        ({"statusTimestampAfter": None}, {}),
    ],
)
def test_a_list_of_1_0(params: Any, request_: Any) -> None:
    assert v1_0.WIRE.requests["list"].decode(params) == request_


@pytest.mark.parametrize(
    ("name", "time", "instant"),
    [
        ("statusTimestampAfter", "2026-01-02T03:04:05.6789+01:00", "2026-01-02T02:04:05.678Z"),
        ("statusTimestampAfter", "0999-01-01T00:00:00Z", "0999-01-01T00:00:00.000Z"),
        ("statusTimestampAfter", "1990-12-31T23:59:60Z", "1990-12-31T23:59:59.999Z"),
        ("lastUpdatedAfter", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),  # as a2a-go sends it
    ],
)
def test_a_list_of_1_0_has_an_instant(name: str, time: str, instant: str) -> None:
    assert v1_0.WIRE.requests["list"].decode({name: time}) == {"statusTimestampAfter": instant}


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ([], "params"),
        ({"pageSize": 0}, "params.pageSize"),
        ({"pageSize": 101}, "params.pageSize"),
        ({"pageToken": 7}, "params.pageToken"),
        ({"pageToken": "x" * (v1_0.PAGE_TOKEN_CHARACTERS + 1)}, "params.pageToken"),
        ({"status": "WORKING"}, "params.status"),
        ({"status": False}, "params.status"),
        ({"historyLength": -1}, "params.historyLength"),
        ({"includeArtifacts": "yes"}, "params.includeArtifacts"),
        ({"statusTimestampAfter": "2026-01-02"}, "params.statusTimestampAfter"),
        ({"statusTimestampAfter": "2026-13-02T00:00:00Z"}, "params.statusTimestampAfter"),
        ({"statusTimestampAfter": "0001-01-01T00:00:00+23:00"}, "params.statusTimestampAfter"),
        ({"contextId": "é" * 257}, "params.contextId"),
    ],
)
def test_a_list_that_1_0_refuses(params: Any, path: str) -> None:
    with pytest.raises(InvalidParams) as error:
        v1_0.WIRE.requests["list"].decode(params)
    assert error.value.path == path


def test_a_page_token_may_have_its_most_characters() -> None:
    token = "x" * v1_0.PAGE_TOKEN_CHARACTERS
    assert v1_0.WIRE.requests["list"].decode({"pageToken": token}) == {"pageToken": token}


@pytest.mark.parametrize(
    ("codec", "values"),
    [
        (v1_0.WIRE.requests["get"], {"historyLength": 0}),
        (v1_0.WIRE.requests["cancel"], {"metadata": {"a": 1}}),
        (v1_0.WIRE.requests["subscribe"], {}),
        (v0_3.WIRE.requests["get"], {"historyLength": 0, "metadata": {"a": 1}}),
    ],
)
def test_a_request_for_a_task(codec: Any, values: Any) -> None:
    """A field that the operation does not have is ignored, whatever it holds."""
    for request in ({"id": "x" * 512}, {"id": "t", **values}):
        assert codec.encode(request) == codec.decode(request) == request
    wrong_values = (("id", ""), ("id", "x" * 513), ("historyLength", True), ("metadata", "x"))
    for name, value in wrong_values:
        is_field = name in {"id", *values}
        with pytest.raises(InvalidParams, match=f"params.{name}") if is_field else nullcontext():
            assert codec.decode({"id": "t", name: value}) == {"id": "t"}


@pytest.mark.parametrize(
    ("wire", "operation", "params", "request_"),
    [
        (v1_0.WIRE, "get_push", {"taskId": "t", "id": "c"}, {"taskId": "t", "id": "c"}),
        (
            v1_0.WIRE,
            "get_push",
            {"task_id": "t", "id": "c", "tenant": "x"},
            {"taskId": "t", "id": "c", "tenant": "x"},
        ),
        (
            v1_0.WIRE,
            "list_push",
            {"taskId": "t", "pageSize": 3, "pageToken": "p"},
            {"taskId": "t", "pageSize": 3, "pageToken": "p"},
        ),
        (v1_0.WIRE, "list_push", {"taskId": "t", "pageToken": ""}, {"taskId": "t"}),
        (v1_0.WIRE, "list_push", {"taskId": "t", "pageSize": 0}, {"taskId": "t"}),
        (v1_0.WIRE, "list_push", {"taskId": "t", "pageSize": 2.0}, {"taskId": "t", "pageSize": 2}),
        (v1_0.WIRE, "list_push", {"taskId": "t", "pageSize": 1000}, {"taskId": "t", "pageSize": 1000}),
        (v1_0.WIRE, "set_push", {"taskId": "t", **CONFIG}, {"taskId": "t", **CONFIG}),
        (v0_3.WIRE, "get_push", {"id": "t"}, {"taskId": "t"}),
        (v0_3.WIRE, "get_push", {"id": "t", "pushNotificationConfigId": "c"}, {"taskId": "t", "id": "c"}),
        (v0_3.WIRE, "delete_push", {"id": "t", "pushNotificationConfigId": "c"}, {"taskId": "t", "id": "c"}),
        (v0_3.WIRE, "list_push", {"id": "t"}, {"taskId": "t"}),
    ],
)
def test_a_request_for_push_configs(wire: Any, operation: str, params: Any, request_: Any) -> None:
    assert wire.requests[operation].decode(params) == request_


@pytest.mark.parametrize(
    ("wire", "operation", "params", "path"),
    [
        (v1_0.WIRE, "get_push", {"taskId": "t"}, "params.id"),
        (v1_0.WIRE, "get_push", {"id": "c"}, "params.taskId"),
        (v1_0.WIRE, "list_push", {"taskId": "t", "pageSize": 1.5}, "params.pageSize"),
        (v1_0.WIRE, "set_push", {"url": "https://x"}, "params.taskId"),
        (v0_3.WIRE, "delete_push", {"id": "t"}, "params.pushNotificationConfigId"),
        (v0_3.WIRE, "set_push", {"taskId": "t"}, "params.pushNotificationConfig"),
        (v0_3.WIRE, "set_push", {"pushNotificationConfig": CONFIG}, "params.taskId"),
        (v0_1.WIRE, "set_push", {"id": "t", "pushNotificationConfig": []}, "params.pushNotificationConfig"),
    ],
)
def test_a_request_for_push_configs_that_is_refused(
    wire: Any, operation: str, params: Any, path: str
) -> None:
    with pytest.raises(InvalidParams) as error:
        wire.requests[operation].decode(params)
    assert error.value.path == path


def task(number: int) -> Task:
    return Task(
        id=f"t{number}", contextId="c", status=make_status(TaskState.WORKING, 1_800_000_000.0 + number)
    )


def test_a_page_of_tasks_is_read_as_it_is_written() -> None:
    page = {"tasks": [task(1), task(2)], "nextPageToken": "p", "pageSize": 2, "totalSize": 5}
    codec = v1_0.WIRE.results["list"]
    assert codec.decode(codec.encode(page)) == page
    assert codec.decode({"tasks": [], "nextPageToken": ""}) == {
        "tasks": [],
        "nextPageToken": "",
        "pageSize": 0,
        "totalSize": 0,
    }
    with pytest.raises(InvalidParams) as error:
        codec.decode({"tasks": [codec.encode(page)["tasks"][0], {}], "nextPageToken": ""})
    assert error.value.path is not None
    assert error.value.path.startswith("result.tasks[1]")


@pytest.mark.parametrize("request_", [{"taskId": "t"}, {"taskId": "t", "id": "c"}])
def test_what_a_client_asks_about_a_push_config_is_read(request_: Any) -> None:
    codec = v0_3.WIRE.requests["get_push"]
    assert codec.decode(codec.encode(request_)) == request_


@pytest.mark.parametrize("wire", [v1_0.WIRE, v0_3.WIRE])
def test_a_list_of_push_configs_is_read_as_it_is_written(wire: Any) -> None:
    configs = [{"taskId": "t", "id": "a", **CONFIG}, {"taskId": "t", "id": "b", "url": "https://x"}]
    codec = wire.results["list_push"]
    page = {"configs": configs, "nextPageToken": ""}
    assert codec.decode(codec.encode(page)) == page


@pytest.mark.parametrize("wire", [v1_0.WIRE, v0_3_http.WIRE])
def test_a_page_of_push_configs_names_the_next(wire: Any) -> None:
    encode = wire.results["list_push"].encode
    assert encode({"configs": [], "nextPageToken": "b"})["nextPageToken"] == "b"
    assert not encode({"configs": [], "nextPageToken": ""}).get("nextPageToken")


def test_an_answer_may_be_a_message() -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}
    for wire in (v1_0.WIRE, v0_3.WIRE):
        codec = wire.results["send"]
        encoded = codec.encode({"message": message, "task": task(1)})
        assert codec.decode(encoded) == {"message": message}


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"kind": "task"}, "m.kind"),
        ({"parts": []}, "m.parts"),
        ({"parts": "x"}, "m.parts"),
        ({"parts": [{"kind": "video"}]}, "m.parts[0].kind"),
        ({"parts": [{"kind": "file", "file": {}}]}, "m.parts[0].file"),
        ({"parts": [{"kind": "file", "file": {"bytes": "eA==", "uri": "https://x"}}]}, "m.parts[0].file"),
        ({"parts": [{"kind": "file", "file": {"bytes": "é"}}]}, "m.parts[0].file.bytes"),
        ({"parts": [{"kind": "data", "data": []}]}, "m.parts[0].data"),
        ({"parts": [{"kind": "text"}]}, "m.parts[0].text"),
        ({"role": "system"}, "m.role"),
        ({"extensions": ["a", 1]}, "m.extensions[1]"),
        ({"messageId": ""}, "m.messageId"),
        ({"metadata": []}, "m.metadata"),
        ({"referenceTaskIds": {}}, "m.referenceTaskIds"),
    ],
)
def test_a_message_of_0_3_that_is_refused(message: Any, path: str) -> None:
    whole = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}], **message}
    with pytest.raises(InvalidParams) as error:
        json_0x.decode_message(whole, "m")
    assert error.value.path == path


@pytest.mark.parametrize("text", ["YWI=", "YWI"])
def test_base64_comes_in_any_form(text: str) -> None:
    assert fields.base64_text({"x": text}, "x", "p") == "YWI="
    assert fields.base64_text({"x": "-_8"}, "x", "p") == "+/8="


@pytest.mark.parametrize(
    ("config", "read"),
    [
        ({"schemes": ["Bearer"], "credentials": "c"}, {"scheme": "Bearer", "credentials": "c"}),
        ({"schemes": ["a", "b"]}, {"scheme": "a", "schemes": ["a", "b"]}),
        ({"schemes": []}, {"schemes": []}),
        (None, None),
    ],
)
def test_how_a_webhook_of_0_3_is_called(config: Any, read: Any) -> None:
    decoded = json_0x.decode_config({"url": "https://x", "authentication": config}, "p")
    assert decoded.get("authentication") == read
    assert json_0x.encode_config(decoded).get("authentication") == config
    in_1_0: Any = protojson.encode_config(decoded)
    assert config is None or in_1_0["authentication"]["scheme"], "1.0 requires it"


@pytest.mark.parametrize(
    ("authentication", "path"),
    [
        ({"schemes": [], "scheme": 5}, "p.authentication.scheme"),
        ({"schemes": 5}, "p.authentication.schemes"),
        ({"schemes": [5]}, "p.authentication.schemes[0]"),
        ({"schemes": ["Bearer"], "credentials": 5}, "p.authentication.credentials"),
    ],
)
def test_how_no_webhook_of_0_3_is_called(authentication: Any, path: str) -> None:
    with pytest.raises(InvalidParams) as error:
        json_0x.decode_config({"url": "https://x", "authentication": authentication}, "p")
    assert error.value.path == path


def test_a_webhook_of_1_0_has_one_scheme() -> None:
    """`schemes` is a field of earlier versions."""
    authentication = {"scheme": "Bearer", "schemes": [5], "credentials": "c"}
    decoded = protojson.decode_config({"url": "https://x", "authentication": authentication}, "p")
    assert decoded["authentication"] == {"scheme": "Bearer", "credentials": "c"}


def test_a_webhook_of_1_0_shows_no_unknown_field() -> None:
    """Its schema is closed."""
    config = {"url": "https://x", "unknown": 1, "authentication": {"scheme": "Bearer", "unknown": 1}}
    assert protojson.encode_config(protojson.decode_config(config, "p")) == {
        "url": "https://x",
        "authentication": {"scheme": "Bearer"},
    }


@pytest.mark.parametrize(
    ("configuration", "decoded"),
    [
        ({"blocking": True}, {"returnImmediately": False}),
        ({"blocking": False, "historyLength": 2}, {"returnImmediately": True, "historyLength": 2}),
        ({"pushNotificationConfig": CONFIG}, {"taskPushNotificationConfig": CONFIG}),
        ({"acceptedOutputModes": ["text/plain"]}, {"acceptedOutputModes": ["text/plain"]}),
    ],
)
def test_the_configuration_of_a_send_of_0_3(configuration: Any, decoded: Any) -> None:
    message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    request = v0_3.WIRE.requests["send"].decode({"message": message, "configuration": configuration})
    assert request["configuration"] == decoded


def test_the_time_of_a_status_of_0_x_is_read() -> None:
    answer = {"state": "working", "timestamp": "2026-01-02T03:04:05+01:00"}
    assert json_0x.decode_status(answer, "status") == make_status(TaskState.WORKING, 1767319445)
    assert json_0x.decode_status({"state": "working"}, "status") == {"state": TaskState.WORKING}


def test_1_0_shows_no_field_that_it_does_not_have() -> None:
    """The field may be one of a message, or of one of its parts alone."""
    plain = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    assert protojson.encode_message(cast(Any, {**plain, "kind": "message"})) == plain
    kind_of_part = {**plain, "parts": [{"text": "hi", "kind": "text"}]}
    assert protojson.encode_message(cast(Any, kind_of_part)) == plain


def test_the_parts_of_a_message_of_0_1_win_over_its_data() -> None:
    parts, data = ([{"type": "text", "text": text}] for text in ("parts", "data"))
    message = v0_1.decode_message({"role": "user", "parts": parts, "data": data}, "p")
    assert message["parts"] == [{"text": "parts"}]


def test_a_status_of_0_1_has_a_message_of_0_1() -> None:
    source = {
        "state": "input-required",
        "message": {"role": "agent", "parts": [{"type": "text", "text": "?"}]},
    }
    decoded = v0_1.decode_status(source, "p")
    assert decoded["state"] == TaskState.INPUT_REQUIRED
    assert decoded["message"]["parts"] == [{"text": "?"}]


def test_only_1_0_sends_webhooks_each_event() -> None:
    assert [name for name, wire in WIRES.items() if wire.notifies_events] == ["1.0"]


def test_only_clients_of_alibaba_name_no_tasks() -> None:
    assert [name for name, wire in WIRES.items() if not wire.names_tasks] == ["alibaba"]


@pytest.mark.parametrize(("mark", "other"), [("kind", "type"), ("type", "kind")])
def test_the_kind_of_a_part_may_have_the_name_of_another_version(mark: str, other: str) -> None:
    """The part may have any other fields."""
    part = json_0x.decode_part({other: "data", "data": {"a": 1}, "file": {}}, "p", mark)
    assert part["data"] == {"a": 1}
    assert "raw" not in part


@pytest.mark.parametrize("wire", [v0_1.WIRE, v0_3.WIRE, v1_0.WIRE], ids=lambda wire: wire.name)
def test_a_notification_is_the_task_and_in_1_0_within_a_stream_response(wire: Wire) -> None:
    body = wire.encode_notification(Task(id="t", contextId="c", status=make_status(TaskState.COMPLETED, 0)))
    assert (body["task"] if wire is v1_0.WIRE else body)["id"] == "t"


@pytest.mark.parametrize(("role", "name"), [(1, "ROLE_USER"), (2, "ROLE_AGENT")])
def test_a_role_may_be_its_number(role: int, name: str) -> None:
    """Readers of ProtoJSON accept it."""
    message = {"messageId": "m", "role": role, "parts": [{"text": "hi"}]}
    assert v1_0.decode_send({"message": message})["message"]["role"] == name


@pytest.mark.parametrize("role", [0, 3, -1, True, 1.5])
def test_a_number_that_no_role_has_is_refused(role: Any) -> None:
    message = {"messageId": "m", "role": role, "parts": [{"text": "hi"}]}
    with pytest.raises(InvalidParams) as error:
        v1_0.decode_send({"message": message})
    assert error.value.path == "params.message.role"
