"""What the log has about a turn that runs again: its replies, its notices, and which of its outputs are new.

A durable skill runs again from its beginning and outputs again what it has output before. Each stored event
of an output carries a Mark: how many such events the log has up to it, and a digest of them. A replay skips
that many events, and their digest must match.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from a2a_lambda import strictjson
from a2a_lambda.durable.engine import Reply
from a2a_lambda.errors import CodeChanged
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.model import OPERATION, Event, Json, Part

NoticeKey = tuple[str, str, str]
"""Kind, name and state of a notice of an operation, such as ("sleep", "pause", "started")."""


def events_of_turn(events: Sequence[Event], turn_id: str) -> Sequence[Event]:
    """The events from the message that began a turn, which is not a reply within it; empty if the log does
    not have that message."""
    for index, event in enumerate(events):
        options = event.get("options")
        if options is not None and options["turn"] == turn_id and "answers" not in options:
            return events[index:]
    return ()


def replies_in(events: Iterable[Event], turn_id: str, owner: str) -> dict[str, Reply]:
    """Replies to the waits of a turn, by the key of their wait. owner: owner of the task."""
    replies: dict[str, Reply] = {}
    for event in events:
        if "callback" in event and event["callback"]["turn"] == turn_id:
            callback = event["callback"]
            replies[callback["key"]] = Reply([Part(data=callback["data"])], is_callback=True)
        elif "options" in event and event["options"]["turn"] == turn_id and "answers" in event["options"]:
            caller = Caller.of_document(owner, event["options"].get("caller", {}))
            replies[event["options"]["answers"]] = Reply(event["message"]["parts"], caller=caller)
    return replies


def notices_in(events: Iterable[Event]) -> set[NoticeKey]:
    """The notices of steps, pauses and waits that the events have."""
    updates = [event["statusUpdate"] for event in events if "statusUpdate" in event]
    notices = [update.get("metadata", {}).get(OPERATION) for update in updates]
    return {(notice["kind"], notice["name"], notice["state"]) for notice in notices if notice}


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """How much of the outputs of a turn the log has.

    count: how many events there are. digest: digest of the events, in order.
    """

    count: int = 0
    digest: str = ""

    def after(self, event: Event) -> "Mark":
        """The mark of the next event."""
        # Without times and ids, which differ in a replay.
        if "artifactUpdate" in event:
            update = event["artifactUpdate"]
            content: Json = [update["artifact"], update["append"]]
        else:
            status = event["statusUpdate"]["status"]
            message = status.get("message")
            content = [status["state"], message and [message["parts"], message.get("metadata")]]
        digest = hashlib.sha256(self.digest.encode() + strictjson.dumps(content)).hexdigest()
        return Mark(self.count + 1, digest[:16])


def last_mark(events: Iterable[Event]) -> Mark:
    """Mark of the last event that has one."""
    mark = Mark()
    for event in events:
        if "mark" in event:
            mark = Mark(*event["mark"])
    return mark


class Replay:
    """Outputs of a turn, of which the first ones are in the log already. stored: mark of the log."""

    def __init__(self, stored: Mark = Mark()) -> None:  # immutable
        self._stored = stored
        self._mark = Mark()

    def next(self) -> "Replay":
        """The replay for the run after this one."""
        return Replay(max(self._stored, self._mark))

    def take(self, events: Iterable[Event]) -> list[Event]:
        """The events that are new, with their marks. Raises CodeChanged if the others are not those of the
        log."""
        new_events: list[Event] = []
        for event in events:
            self._mark = self._mark.after(event)
            if self._mark.count > self._stored.count:
                event["mark"] = [self._mark.count, self._mark.digest]
                new_events.append(event)
            elif self._mark.count == self._stored.count and self._mark.digest != self._stored.digest:
                count = self._stored.count
                outputs = "its first output" if count == 1 else f"one of its first {count} outputs"
                raise CodeChanged(f"{outputs} differs from the earlier run")
        return new_events
