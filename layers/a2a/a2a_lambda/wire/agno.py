"""JSON-RPC of 0.3, which agno's clients send to the paths of 0.3's HTTP+JSON.

They read what an agent says from messages alone, show the first text of each, and end a stream at its first
task.
Source: https://github.com/agno-agi/agno, libs/agno/agno/client/a2a/client.py
"""

from dataclasses import replace

from a2a_lambda.protocol.model import (
    STOPPED,
    Event,
    Json,
    Message,
    Role,
    is_final,
    parts_of_artifacts,
)
from a2a_lambda.protocol.requests import Recipient, SendMessageResponse
from a2a_lambda.wire import v0_3, v0_3_http
from a2a_lambda.wire.interface import Codec
from a2a_lambda.wire.shared import json_0x


def encode_outcome(outcome: SendMessageResponse) -> Json:
    """The task, whose history ends with the agent's output and its last words. The agent's earlier messages
    are left out, because the client would show all of them as the answer."""
    task = outcome["task"]
    parts = [*parts_of_artifacts(task), *task["status"].get("message", {}).get("parts", [])]
    reply = Message(messageId=task["id"], role=Role.AGENT, parts=parts)
    sent_messages = [message for message in task.get("history", []) if message["role"] == Role.USER]
    return json_0x.encode_task({**task, "history": [*sent_messages, reply]})


def encode_event(event: Event, recipient: Recipient) -> list[Json]:
    if "task" in event:
        task = event["task"]
        # Before a task has stopped, its artifacts come as chunks.
        artifacts = task.get("artifacts", []) if task["status"]["state"] in STOPPED else []
        return [
            json_0x.encode_whole_artifact(task["id"], task["contextId"], artifact, append=False)
            for artifact in artifacts
        ]
    events = v0_3.encode_event(event, recipient)
    message = event["statusUpdate"]["status"].get("message") if "statusUpdate" in event else None
    if message is None or not is_final(event):
        return events
    # The client shows the text of a message, and not that of a status.
    texts = [part for part in message["parts"] if "text" in part]
    return [*(json_0x.encode_message({**message, "parts": [part]}) for part in texts), *events]


WIRE = replace(
    v0_3.WIRE,
    blocking_by_default=True,
    answers_with_messages=False,
    replaces_artifacts=False,
    stream_errors_as_events=False,
    results={**v0_3.WIRE.results, "send": Codec(v0_3.decode_outcome, encode_outcome)},
    encode_event=encode_event,
    encode_http_error=v0_3_http.WIRE.encode_http_error,
)
