"""A model of AWS: what takes how much at once, and what it refuses.

It is simpler than AWS. Partitions do not split during a run, and have no burst capacity. Containers stay
until the run ends.
"""

import random
import zlib
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import simpy

from a2a_lambda.access.rate_limit import FIRST_SHARES, ITEM_LIMIT, SHARE_STEP_REQUESTS, WINDOW_SECONDS
from a2a_lambda.aws.lean.json_client import THROTTLED_PAUSE_SECONDS
from a2a_lambda.aws.limits import ATTEMPTS
from a2a_lambda.store.items import DUE_SHARDS
from tools.costs import aws
from tools.costs.units import TableCall

Steps = Generator[simpy.Event, Any, Any]

COLD_SECONDS = 1.2
"""A cold start of the streaming function at 1,024 MB, about: Lambda's own part, and the import."""

REFUSAL_SECONDS = 0.01
"""What the function takes until it knows that an owner is over a limit, about."""


class Refused(Exception):
    """What refused a request."""


@dataclass(frozen=True)
class Deployment:
    """Parameters of template.yaml, with their defaults, and quotas of the account."""

    throttling_rate: int = 200
    throttling_burst: int = 400
    requests_per_owner: int = 50
    streams_per_owner: int = 20
    worker_concurrency: int = 4
    rpc_provisioned: int = 0
    list_shards: int = 1
    warm_writes: int = 0
    concurrency: int = aws.CONCURRENCY
    table_units: int = aws.TABLE_UNITS


class Bucket:
    """Takes `rate` a second, and at most `burst` at once."""

    def __init__(self, env: simpy.Environment, rate: float, burst: float = 0.0) -> None:
        self._env = env
        self._rate = rate
        self._most = self._left = burst or rate
        self._looked = 0.0

    def has(self, amount: float) -> bool:
        now = self._env.now
        self._left = min(self._most, self._left + (now - self._looked) * self._rate)
        self._looked = now
        return self._left >= amount

    def take(self, amount: float = 1.0) -> bool:
        if not self.has(amount):
            return False
        self._left -= amount
        return True


class Partitions:
    """A table, or an index. Each key belongs to one partition."""

    def __init__(self, env: simpy.Environment, warm_writes: int) -> None:
        count = max(aws.NEW_PARTITIONS, ceil(warm_writes / aws.PARTITION_WRITES))
        self._writes = [Bucket(env, aws.PARTITION_WRITES) for _ in range(count)]
        self._reads = [Bucket(env, aws.PARTITION_READS) for _ in range(count)]

    def of(self, key: str) -> tuple[Bucket, Bucket]:
        """What takes the writes of a key, and what takes its reads."""
        number = zlib.crc32(key.encode()) % len(self._writes)
        return self._writes[number], self._reads[number]


class Database:
    """The kit's table with its two indexes. throttled: refused calls, by what refused them."""

    def __init__(self, env: simpy.Environment, deployment: Deployment) -> None:
        self._env = env
        self._table = Partitions(env, deployment.warm_writes)
        self._listing = Partitions(env, deployment.warm_writes)
        self._due = Partitions(env, deployment.warm_writes)
        self._quota = Bucket(env, deployment.table_units)
        self._random = random.Random(1)  # noqa: S311  # no secret
        self.throttled: Counter[str] = Counter()
        self.written = 0
        self.read = 0.0

    def call(self, call: TableCall) -> Steps:
        """A call, with its retries. Raises Refused."""
        for attempt in range(1, ATTEMPTS + 1):
            yield self._env.timeout(aws.CALL_SECONDS)
            place = self._try(call)
            if not place:
                self.written += call.writes + call.listing + call.due
                self.read += call.reads
                return
            self.throttled[place] += 1
            if attempt < ATTEMPTS:
                yield self._env.timeout(self._random.random() * THROTTLED_PAUSE_SECONDS * 2 ** (attempt - 1))
        raise Refused(place)

    def _try(self, call: TableCall) -> str:
        """What refuses a call; "" if it is done."""
        writes, reads = self._table.of(call.partition)
        needs = (
            (self._quota, call.writes, "the table's quota"),
            (self._listing.of(call.listing_key)[0], call.listing, "the list's index"),
            (self._due.of(call.due_key)[0], call.due, "the sweep's index"),
            (writes, call.writes, "the table's partitions"),
            (reads, call.reads, "the table's partitions"),
        )
        for bucket, units, place in needs:
            if units and not bucket.has(units):
                return place
        for bucket, units, _ in needs:
            bucket.take(units)
        return ""


class Container:
    """Serves one request at a time, and counts the requests of each owner, as `RateLimit` does."""

    def __init__(self, *, is_cold: bool) -> None:
        self.is_cold = is_cold
        self._window = -1
        self._counts: Counter[str] = Counter()

    def shares_count(self, owner: str, now: float) -> bool:
        """Count a request; returns whether the container shares its count after it."""
        window = int(now // WINDOW_SECONDS)
        if window != self._window:
            self._window, self._counts = window, Counter()
        self._counts[owner] += 1
        return self._counts[owner] in FIRST_SHARES or not self._counts[owner] % SHARE_STEP_REQUESTS


class Function:
    """A function of Lambda."""

    def __init__(self, env: simpy.Environment, account: "Account", idle_count: int = 0) -> None:
        self._account = account
        self._growth = Bucket(env, aws.SCALING / aws.SCALING_SECONDS, aws.SCALING)
        self._idle = [Container(is_cold=False) for _ in range(idle_count)]
        self._busy = self.most_busy = self.runs = 0
        self.gigabyte_seconds = 0.0

    def take(self) -> Container:
        """A container for a run. Raises Refused."""
        if self._account.busy >= self._account.concurrency:
            raise Refused("Lambda's concurrency")
        if not self._idle and not self._growth.take():
            raise Refused("Lambda's scaling")
        self._account.busy += 1
        self._busy += 1
        self.most_busy = max(self.most_busy, self._busy)
        return self._idle.pop() if self._idle else Container(is_cold=True)

    def give_back(self, container: Container, seconds: float) -> None:
        """After a run of so many seconds."""
        container.is_cold = False
        self._idle.append(container)
        self._account.busy -= 1
        self._busy -= 1
        self.gigabyte_seconds += seconds
        self.runs += 1


@dataclass
class Account:
    """All functions share its concurrency. busy: functions that run now."""

    concurrency: int
    busy: int = 0


class Cloud:
    """A deployment that clients call.

    answered: seconds that each answer took. refused: what refused how many. reached: requests that API
    Gateway let through.
    """

    def __init__(self, env: simpy.Environment, deployment: Deployment) -> None:
        self.env = env
        self.deployment = deployment
        self.database = Database(env, deployment)
        account = Account(deployment.concurrency)
        self.rpc = Function(env, account, deployment.rpc_provisioned)
        self.worker = Function(env, account)
        self._gateway = Bucket(env, deployment.throttling_rate, deployment.throttling_burst)
        self._api = Bucket(env, aws.API_REQUESTS, aws.API_BURST)
        self._owners: dict[str, Bucket] = {}
        self._streams: Counter[str] = Counter()
        self.offered = self.reached = 0
        self.answered: list[float] = []
        self.refused: Counter[str] = Counter()

    def request(self, owner: str, calls: list[TableCall]) -> Steps:
        """A client's request; returns whether it is answered. calls: what it calls of DynamoDB, each at its
        time."""
        start = self.env.now
        self.offered += 1
        number = self.offered
        try:
            if not self._gateway.take():
                raise Refused("ThrottlingRate")
            if not self._api.take():
                raise Refused("API Gateway")
            self.reached += 1
            yield from self.run(self.rpc, owner, number, calls)
        except Refused as refused:
            self.refused[str(refused)] += 1
            return False
        self.answered.append(self.env.now - start)
        return True

    def run(self, function: Function, owner: str, number: int, calls: list[TableCall]) -> Steps:
        """A run of a function, with a cold start if it needs a new container. Raises Refused."""
        container = function.take()
        start = self.env.now
        is_stream, has_slot = any(call.partition.endswith("#slots") for call in calls), False
        try:
            if container.is_cold:
                yield self.env.timeout(COLD_SECONDS)
                yield from self.database.call(TableCall(0.0, "#keys#", reads=1.0))
            if function is self.rpc:
                if container.shares_count(owner, self.env.now):
                    with suppress(Refused):
                        yield from self.database.call(self._count(owner, number))
                yield self.env.timeout(REFUSAL_SECONDS)
                if not self._owner(owner).take():
                    raise Refused("RequestsPerOwner")
                if is_stream:
                    if self._streams[owner] >= self.deployment.streams_per_owner:
                        raise Refused("StreamsPerOwner")
                    self._streams[owner] += 1
                    has_slot = True
            base = self.env.now
            for call in calls:
                if (delay := base + call.at - self.env.now) > 0:
                    yield self.env.timeout(delay)
                yield from self.database.call(self._of(call, owner, number))
        finally:
            self._streams[owner] -= has_slot
            function.give_back(container, self.env.now - start)

    def _of(self, call: TableCall, owner: str, number: int) -> TableCall:
        """A measured call, as another owner's task makes it."""
        is_shared = call.partition.endswith("#slots")
        shard = number % self.deployment.list_shards
        return replace(
            call,
            partition=f"{owner}#slots" if is_shared else f"{call.partition}/{number}",
            listing_key=f"{owner}#{shard}",
            due_key=f"shard-{number % DUE_SHARDS}",
        )

    def _count(self, owner: str, number: int) -> TableCall:
        """A container shares an owner's count."""
        item = number % (1 + self.deployment.requests_per_owner // ITEM_LIMIT)
        return TableCall(0.0, f"{owner}#{item}#requests", writes=1)

    def _owner(self, owner: str) -> Bucket:
        limit = self.deployment.requests_per_owner
        if owner not in self._owners:
            self._owners[owner] = Bucket(self.env, limit, limit * WINDOW_SECONDS)
        return self._owners[owner]
