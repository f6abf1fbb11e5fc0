"""How many requests an owner may make: one key must not use up the API.

Each container counts by itself. In each window it shares its count after an owner's second and fourth
request, so that many containers with few requests are noticed, and then after every SHARE_STEP_REQUESTS
requests. A single request costs nothing. The limit is exact to SHARE_STEP_REQUESTS requests a container.

DynamoDB takes 1,000 writes a second to one item. So a high limit is split over several items, each with its
part of the limit. A container adds its count to any of them. Chance makes one fuller than the others, so a
high limit may be met a tenth early.
"""

import random
from contextlib import suppress

from a2a_lambda import threads
from a2a_lambda.errors import StoreError, TooManyRequests
from a2a_lambda.store.store import Store

WINDOW_SECONDS = 10

FIRST_SHARES = (2, 4)
"""Numbers of requests after which a count is shared early."""

SHARE_STEP_REQUESTS = 8
"""Requests that a container counts before it shares them. Sharing costs a write to DynamoDB."""

ITEM_LIMIT = 500
"""Requests a second that one item counts. If each container makes one a second, that is 150 writes."""


class RateLimit:
    """Limits how many requests of each owner are served.

    limit: requests a second, over WINDOW_SECONDS; 0 = no limit.
    """

    def __init__(self, store: Store, limit: int) -> None:
        self._store = store
        self._window_limit = limit * WINDOW_SECONDS
        self._counters = 1 + limit // ITEM_LIMIT
        self._window = 0
        self._counts: dict[str, int] = {}
        self._shared_counts: dict[str, int] = {}
        self._refused_owners: set[str] = set()

    async def admit(self, owner: str) -> None:
        """Count a request. Raises TooManyRequests."""
        if not self._window_limit:
            return
        now = self._store.clock()
        window = int(now // WINDOW_SECONDS)
        end = (window + 1) * WINDOW_SECONDS
        if window != self._window:
            self._window, self._counts, self._shared_counts, self._refused_owners = window, {}, {}, set()
        refused_owners = self._refused_owners  # of this window: the next may begin during the call below
        self._counts[owner] = count = self._counts.get(owner, 0) + 1
        if owner not in refused_owners and (count in FIRST_SHARES or count % SHARE_STEP_REQUESTS == 0):
            # Adds what this container has counted since it last shared. The answer is what all containers
            # have added to this counter.
            new_count, self._shared_counts[owner] = count - self._shared_counts.get(owner, 0), count
            with suppress(StoreError):  # without a count, the request is allowed
                counter = random.randrange(self._counters)  # noqa: S311  # no secret
                count_requests = self._store.count_requests
                counter_total = await threads.run(
                    count_requests, owner, window, counter, new_count, until=end
                )
                if counter_total * self._counters > self._window_limit:
                    refused_owners.add(owner)
        if owner in refused_owners:
            raise TooManyRequests(
                f"an owner may make at most {self._window_limit} requests within {WINDOW_SECONDS} seconds",
                after=end - now,
            )
