"""A queue of background turns in a list."""

from a2a_lambda.aws.queue import QueuedTurn
from a2a_lambda.errors import StoreError


class FakeQueue:
    """A queue in a list."""

    def __init__(self) -> None:
        self.waiting: list[QueuedTurn] = []
        self.broken = False

    def send(self, ticket: QueuedTurn) -> None:
        if self.broken:
            raise StoreError("SQS is not there")
        self.waiting.append(ticket)

    def postpone(self, arn: str, handle: str, attempt: int) -> None:
        """Nothing comes twice here."""
