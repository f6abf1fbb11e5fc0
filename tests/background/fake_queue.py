"""A queue of background turns in a list."""

from a2a_lambda.errors import StoreError
from a2a_lambda.tasks.identity import TurnReference


class FakeQueue:
    """A queue in a list."""

    def __init__(self) -> None:
        self.waiting: list[TurnReference] = []
        self.broken = False

    def send(self, ticket: TurnReference) -> None:
        if self.broken:
            raise StoreError("SQS is not there")
        self.waiting.append(ticket)

    def postpone(self, arn: str, handle: str, attempt: int) -> None:
        """Nothing comes twice here."""
