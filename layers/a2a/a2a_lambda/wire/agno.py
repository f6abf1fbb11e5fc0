"""agno's clients: JSON-RPC of 0.3, sent to the paths of its HTTP+JSON.

They read what an agent says from messages alone, and end a stream at its first task.
Source: https://github.com/agno-agi/agno, libs/agno/agno/client/a2a/client.py
"""

from dataclasses import replace

from a2a_lambda.protocol.model import Event, Json, Message, Role, is_final, parts_of_artifacts
from a2a_lambda.protocol.requests import Recipient, SendMessageResponse
from a2a_lambda.wire import v0_3
from a2a_lambda.wire.interface import Codec
from a2a_lambda.wire.shared import json_0x


def encode_outcome(outcome: SendMessageResponse) -> Json:
    """The task, whose history ends with what the agent has put out and says. Its earlier messages are left
    out, because the client would show all of them as the answer."""
    task = outcome["task"]
    parts = [*parts_of_artifacts(task), *task["status"].get("message", {}).get("parts", [])]
    reply = Message(messageId=task["id"], role=Role.AGENT, parts=parts)
    sent_messages = [message for message in task.get("history", []) if message["role"] == Role.USER]
    return json_0x.encode_task({**task, "history": [*sent_messages, reply]})


def encode_event(event: Event, recipient: Recipient) -> list[Json]:
    """A status that ends the stream follows its message, which the client would not show otherwise."""
    if "task" in event:
        return []
    events = v0_3.encode_event(event, recipient)
    if "statusUpdate" in event and is_final(event):
        message = event["statusUpdate"]["status"].get("message")
        return [*([] if message is None else [json_0x.encode_message(message)]), *events]
    return events


WIRE = replace(
    v0_3.WIRE,
    answers_with_messages=False,
    results={**v0_3.WIRE.results, "send": Codec(v0_3.decode_outcome, encode_outcome)},
    encode_event=encode_event,
)
