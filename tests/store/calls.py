"""A DynamoDB client that counts, and fails when told to."""

from collections import Counter
from collections.abc import Callable
from typing import Any


class Calls:
    """Wraps a client: `count` says which operations were called."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.count: Counter[str] = Counter()
        self.before: Callable[[str, dict[str, Any]], None] = lambda operation, arguments: None
        self.after: Callable[[str, dict[str, Any]], None] = lambda operation, arguments: None

    def __getattr__(self, operation: str) -> Any:
        method = getattr(self._client, operation)

        def call(**arguments: Any) -> Any:
            self.count[operation] += 1
            self.before(operation, arguments)
            answer = method(**arguments)
            self.after(operation, arguments)
            return answer

        return call

    def during(self) -> dict[str, int]:
        """Counts since the last look."""
        counts = dict(self.count)
        self.count.clear()
        return counts
