"""The request examples of the seed documents, answered with the shapes of their response examples.

000: https://help.aliyun.com/en/model-studio/multimodal-integration-a2a-agent
001: …/multimodal-integration-a2a-protocol    002: …/multimodal-integration-a2a-intent
"""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda import Turn
from a2a_lambda.protocol.alibaba_metadata import Intent, intents
from a2a_lambda.protocol.model import Message, Role
from tests.helpers.rpc import Rpc, events, intent, message, request

pytestmark = pytest.mark.slow


RAIN = {
    "messageId": "msg-1",
    "kind": "message",
    "role": "user",
    "parts": [{"kind": "text", "text": "Will it rain today?"}],
}
CLIENT = {
    "user": {"userId": "your_user_id"},
    "device": {"clientIp": "your_device_ip", "deviceId": "your_device_id"},
    "location": {"city": "your_city", "longitude": "your_longitude", "latitude": "your_latitude"},
    "userDefinedParams": {"param1": "value1"},
    "images": [{"type": "url", "value": "https://image_url****"}],
    "chatId": "3eca6a13-fcfd-48b0-b1b7-34bfe735****",
}
SUM = {
    "messageId": "msg-1",
    "kind": "message",
    "role": "user",
    "parts": [{"kind": "text", "text": "What is 101 plus 102?"}],
    "metadata": {
        "intentInfos": [
            {
                "intent": "ai-calculate",
                "slots": [
                    {"name": "num1", "value": "101", "normValue": "101"},
                    {"name": "num2", "value": "102", "normValue": "102"},
                ],
            }
        ]
    },
}
REQUESTS = {
    "000": (RAIN, "Will it rain today?"),
    "001": (RAIN | {"metadata": CLIENT}, "Will it rain today?"),
    "002": (SUM, "101 plus 102 is 203."),
}

TASK = {"id", "contextId", "kind", "status", "artifacts"}
SNAPSHOT = {"id", "contextId", "kind", "status"}
ARTIFACT_UPDATE = {"taskId", "contextId", "kind", "artifact", "append", "lastChunk"}
STATUS_UPDATE = {"taskId", "contextId", "kind", "status", "final"}


def exactly(path: str, found: Any, fields: set[str]) -> None:
    """Alibaba's own card path answers with its fields alone; elsewhere a history may be there too."""
    extra = found.keys() - fields
    assert fields <= found.keys()
    assert extra <= (set() if path.startswith("/alibaba") else {"history"})


@pytest.mark.parametrize("document", REQUESTS)
@pytest.mark.parametrize("path", ["/", "/alibaba", "/alibaba/", "/a2a/assistant", "/alibaba/assistant"])
def test_send(client: TestClient, key: str, path: str, document: str) -> None:
    body, text = REQUESTS[document]
    answer = Rpc(client, key, path).post(request("message/send", {"message": body}, "request-1")).json()
    assert answer.keys() == {"jsonrpc", "id", "result"}
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", "request-1")
    task = answer["result"]
    exactly(path, task, TASK)
    assert task["kind"] == "task"
    assert task["status"].keys() == {"state", "timestamp"}
    assert task["status"]["state"] == "completed"
    assert task["artifacts"] == [
        {"artifactId": task["artifacts"][0]["artifactId"], "parts": [{"kind": "text", "text": text}]}
    ]


@pytest.mark.parametrize("document", REQUESTS)
@pytest.mark.parametrize(
    "path",
    # The suite appends /stream to the card's url, which may end with a slash.
    ["/stream", "/alibaba/stream", "/alibaba/stream/", "/", "/alibaba", "//stream", "/alibaba//stream"],
)
def test_stream(client: TestClient, key: str, path: str, document: str) -> None:
    body, text = REQUESTS[document]
    response = Rpc(client, key, path).post(request("message/stream", {"message": body}, "request-1"))
    assert response.headers["content-type"].startswith("text/event-stream")
    snapshot, chunk, end = events(response.text)
    exactly(path, snapshot, SNAPSHOT)
    assert snapshot["kind"] == "task"
    assert snapshot["status"]["state"] == "submitted"
    assert chunk.keys() == ARTIFACT_UPDATE
    assert (chunk["kind"], chunk["lastChunk"]) == ("artifact-update", True)
    assert chunk["artifact"]["parts"] == [{"kind": "text", "text": text}]
    assert end.keys() == STATUS_UPDATE
    assert (end["kind"], end["status"]["state"], end["final"]) == ("status-update", "completed", True)
    assert {snapshot["id"], chunk["taskId"], end["taskId"]} == {snapshot["id"]}
    assert {snapshot["contextId"], chunk["contextId"], end["contextId"]} == {snapshot["contextId"]}


def test_stream_in_pieces_appends_and_ends_with_the_last_chunk(client: TestClient, key: str) -> None:
    _, *chunks, end = Rpc(client, key, "/alibaba/stream").stream("Teach me basketball")
    assert [chunk["append"] for chunk in chunks] == [True] * len(chunks)
    assert [chunk["lastChunk"] for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert len({chunk["artifact"]["artifactId"] for chunk in chunks}) == 1
    assert end["final"] is True


def test_standard_clients_get_a_first_chunk_that_does_not_append(client: TestClient, key: str) -> None:
    _, *chunks, _ = Rpc(client, key, "/stream").stream("Teach me basketball")
    assert [chunk["append"] for chunk in chunks] == [False] + [True] * (len(chunks) - 1)


def test_an_event_of_two_frames_has_its_id_on_the_last(client: TestClient, key: str) -> None:
    """A client that has the id has the whole event: the question, and the status."""
    body = request("message/stream", {"message": message("hi", metadata=intent("question"))})
    frames = Rpc(client, key, "/alibaba/probe/stream").post(body).text.strip().split("\n\n")
    question, end = frames[-2:]
    assert "artifact-update" in question
    assert "status-update" in end
    assert "id:" not in question.partition("data:")[0]
    assert "id:" in end.partition("data:")[0]


def test_the_suite_answers_itself_what_an_agent_rejects(client: TestClient, key: str) -> None:
    rpc = Rpc(client, key, "/alibaba/probe")
    task = rpc.send("no", metadata=intent("refuse"))
    assert task["status"]["state"] == "rejected"
    assert "artifacts" not in task
    _, end = rpc.stream("no", metadata=intent("refuse"))
    assert end["status"]["state"] == "rejected"


@pytest.mark.parametrize("path", ["/alibaba/probe", "/alibaba/probe/stream"])
def test_the_user_hears_only_what_is_new(client: TestClient, key: str, path: str) -> None:
    """The second turn of a task does not repeat the first. The suite reads each response aloud."""
    rpc = Rpc(client, key, path)
    metadata = intent("order", how="ask")
    question = rpc.send("hi", metadata=metadata)
    text = "".join(part["text"] for artifact in question["artifacts"] for part in artifact["parts"])
    if path.endswith("stream"):
        reply = request(
            "message/stream", {"message": message("yes", contextId=question["contextId"], metadata=metadata)}
        )
        streams = [events(rpc.post(reply).text) for _ in range(2)]  # the second one is a retry
        assert not any("artifacts" in snapshot for snapshot, *_ in streams)
        artifacts, repeated_artifacts = (
            [answer["artifact"] for answer in answers] for _, *answers, _ in streams
        )
        repeated_text = "".join(part["text"] for artifact in repeated_artifacts for part in artifact["parts"])
        assert repeated_text == text
    else:
        artifacts = rpc.send("yes", contextId=question["contextId"], metadata=metadata)["artifacts"]
    assert "".join(part["text"] for artifact in artifacts for part in artifact["parts"]) == text
    assert text == "textAgain?"


@pytest.mark.parametrize("streamed", [False, True])
def test_commands_come_in_the_last_artifact(client: TestClient, key: str, streamed: bool) -> None:
    rpc = Rpc(client, key, "/alibaba")
    if streamed:
        artifact = rpc.stream("Perform a flash.")[-2]["artifact"]
    else:
        artifact = rpc.send("Perform a flash.")["artifacts"][-1]
    assert artifact["metadata"] == {"commands": [{"name": "flash"}]}


@pytest.mark.parametrize("path", ["/alibaba", "/"])
def test_a_question_is_answered_by_context_alone(client: TestClient, key: str, path: str) -> None:
    rpc = Rpc(client, key, path)
    question = rpc.send("Coach me, please")
    assert question["status"]["state"] == "input-required"
    advice = rpc.send("basketball", contextId=question["contextId"])
    assert advice["id"] == question["id"]
    assert advice["status"]["state"] == "completed"
    assert "Dribble" in advice["artifacts"][-1]["parts"][0]["text"]


def test_the_suite_hears_a_question_as_an_artifact(client: TestClient, key: str) -> None:
    rpc = Rpc(client, key, "/alibaba")
    plain = rpc.send("Coach me, please")
    assert plain["status"].keys() == {"state", "timestamp"}
    assert "basketball or football" in plain["artifacts"][-1]["parts"][0]["text"]
    _, question, end = rpc.stream("Coach me, please")
    assert "basketball or football" in question["artifact"]["parts"][0]["text"]
    assert (end["status"]["state"], end["final"]) == ("input-required", True)


def test_states_the_suite_does_not_know_are_sent_as_the_nearest(client: TestClient, key: str) -> None:
    task = Rpc(client, key, "/").send("Coach me, please")
    Rpc(client, key, "/").call("tasks/cancel", {"id": task["id"]})
    assert Rpc(client, key, "/").call("tasks/get", {"id": task["id"]})["status"]["state"] == "canceled"
    assert Rpc(client, key, "/alibaba").call("tasks/get", {"id": task["id"]})["status"]["state"] == "failed"


def test_the_client_is_seen_by_the_agent(client: TestClient, key: str) -> None:
    metadata = (
        CLIENT | {"userDefinedParams": {"big": 9007199254740993}} | {"intentInfos": [{"intent": "look"}]}
    )
    task = Rpc(client, key, "/alibaba/probe").send("hi", metadata=metadata)
    document = json.loads(task["artifacts"][0]["parts"][0]["text"])  # the suite takes text alone
    assert document["user"] == "your_user_id"
    assert document["device"] == "your_device_id"
    assert document["city"] == "your_city"
    assert document["images"] == ["https://image_url****"]
    assert document["parameters"] == {"big": 9007199254740993}
    assert document["chat"] == CLIENT["chatId"]


def test_results_of_commands_are_as_the_client_sent_them() -> None:
    results = [{"name": "flash", "result": {"ok": True}}]
    metadata = {"commandResults": results}
    turn = Turn(message=Message(messageId="m", role=Role.USER, parts=[], metadata=metadata))
    assert turn.command_results == results


def test_an_unknown_intent_falls_back_and_a_bad_slot_is_asked_for(client: TestClient, key: str) -> None:
    rpc = Rpc(client, key, "/alibaba")
    unknown = {"intentInfos": [{"intent": "order-pizza", "slots": []}]}
    assert rpc.send("Hello", metadata=unknown)["artifacts"][0]["parts"][0]["text"] == "Hello"
    bad = {"intentInfos": [{"intent": "ai-calculate", "slots": [{"name": "num1", "value": "many"}]}]}
    assert rpc.send("add", metadata=bad)["status"]["state"] == "input-required"


def test_norm_value_goes_before_value(client: TestClient, key: str) -> None:
    slots = [
        {"name": "num1", "value": "a hundred", "normValue": "100"},
        {"name": "num2", "value": "0.5", "normValue": "half"},
    ]
    metadata = {"intentInfos": [{"intent": "ai-calculate", "slots": slots}]}
    task = Rpc(client, key, "/alibaba").send("add them", metadata=metadata)
    assert task["artifacts"][0]["parts"][0]["text"] == "100 plus 0.5 is 100.5."


def test_message(client: TestClient, key: str) -> None:
    """A message of document 000 needs no more than its required fields."""
    user_message = message("Hi")
    assert Rpc(client, key, "/alibaba").call("message/send", {"message": user_message})["kind"] == "task"


def test_the_suite_gets_text_alone(client: TestClient, key: str) -> None:
    """It makes no difference what the agent outputs, and what its card says of modes."""
    card = client.get("/alibaba/probe/.well-known/agent.json").json()
    assert card["defaultInputModes"] == card["defaultOutputModes"] == ["text/plain"]
    assert not [skill for skill in card["skills"] if "inputModes" in skill or "outputModes" in skill]
    plain = client.get("/a2a/probe/.well-known/agent-card.json").json()
    assert plain["defaultInputModes"] == ["*/*"], "the agent's own card keeps its own"
    rpc = Rpc(client, key, "/alibaba/probe")
    metadata = intent("everything")
    answers = [rpc.send("hi", metadata=metadata), *rpc.stream("hi", metadata=metadata)]
    artifacts = [artifact for answer in answers for artifact in artifacts_of(answer)]
    assert artifacts
    assert {part["kind"] for artifact in artifacts for part in artifact["parts"]} == {"text"}
    assert all(artifact["parts"] for artifact in artifacts)
    [reply, _] = answers[0]["artifacts"]
    assert [part["text"] for part in reply["parts"]] == ["text", '{"number":9007199254740993}']


def artifacts_of(answer: Any) -> list[Any]:
    return [*answer.get("artifacts", []), *([answer["artifact"]] if "artifact" in answer else [])]


def test_a_slot_without_a_value_is_none() -> None:
    slots = [
        {"name": "city", "value": "Hangzhou", "normValue": ""},
        {"name": "unit", "value": ""},
        {"name": "day", "value": "2", "normValue": "02"},
    ]
    [intent] = intents({"intentInfos": [{"intent": "weather", "slots": slots}]})
    assert intent.slots == {"city": ("Hangzhou",), "day": ("02", "2")}


@pytest.mark.parametrize("name", ["skillId", "skill_id", "skill"])
def test_other_clients_name_a_skill_alone(name: str) -> None:
    assert intents({name: "weather"}) == [Intent("weather", {})]
    infos = [{"intent": "chat", "slots": []}]
    assert [intent.skill for intent in intents({name: "weather", "intentInfos": infos})] == [
        "chat",
        "weather",
    ]
    for other in ("", None, ["weather"]):
        assert intents({name: other}) == []
