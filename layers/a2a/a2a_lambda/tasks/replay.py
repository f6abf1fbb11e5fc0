"""Which outputs of a replayed turn are new.

A durable skill runs again from its beginning and puts out again what it has put out before. Each stored event
carries a Mark: how many outputs the log has up to it, and a digest of them. A replay passes over as many
outputs, and their digest must be the same.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from a2a_lambda import strictjson
from a2a_lambda.errors import CodeChanged
from a2a_lambda.protocol.model import Event, Json


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """count: of outputs. digest: of their events, in order."""

    count: int = 0
    digest: str = ""

    def after(self, events: Iterable[Event]) -> "Mark":
        """The mark after one more output, which became these events."""
        said = strictjson.dumps([_lasting(event) for event in events])
        digest = hashlib.sha256(self.digest.encode() + said).hexdigest()[:16]
        return Mark(self.count + 1, digest)


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
        """Of the run after this one."""
        return Replay(max(self._stored, self._mark))

    @property
    def is_over(self) -> bool:
        """Whether everything that the log has was put out again."""
        return self._mark.count >= self._stored.count

    def take(self, events: list[Event]) -> bool:
        """Whether an output is new. If so, its last event gets the mark. Raises CodeChanged if the outputs
        are not those of the log."""
        self._mark = self._mark.after(events)
        if self._mark.count > self._stored.count:
            events[-1]["mark"] = [self._mark.count, self._mark.digest]
            return True
        if self._mark.count == self._stored.count and self._mark.digest != self._stored.digest:
            raise CodeChanged("it puts out something else than before")
        return False


def _lasting(event: Event) -> Json:
    """What a replay repeats of an event: not its times and ids. Which chunk is the last one is known only at
    the end of the turn."""
    if "artifactUpdate" in event:
        update = event["artifactUpdate"]
        return [update["artifact"], update["append"]]
    status = event["statusUpdate"]["status"]
    message = status.get("message")
    return [status["state"], message and [message["parts"], message.get("metadata")]]
