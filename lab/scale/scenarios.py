"""Loads on a deployment, and what is changed, step by step, until it takes them."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import quantiles

import simpy

from lab.scale.cloud import Cloud, Deployment, Refused, Steps
from tools.costs import aws
from tools.costs.units import TableCall

Calls = dict[str, list[TableCall]]

AGENT_SECONDS = 1.0
"""Time of the agent in a short send."""

BURST = 2_000
"""Requests a second."""

BURST_SECONDS = 30

OWNERS = 200

STREAMS = 10_000
"""Streams at once."""

RAMP_SECONDS = 120.0
"""Seconds within which they come."""

TURNS_A_DAY = 1_000_000

PEAK = 2.5
"""How many times the average the busiest hour has."""

QUEUE_SECONDS = 600

AGAIN_SECONDS = 15.0
"""Seconds after which a message that no container took comes again, about. Lambda tries with growing pauses.
Source: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html"""

REST_SECONDS = 60.0
"""Seconds after a load, in which what is under way ends."""

LOG_BYTES = 2_000
"""Of a request, with Lambda's own lines and the API's; see make costs."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run. refused, throttled: requests, and calls to DynamoDB, by what refused them. seconds:
    median and 99th percentile of the answers' times. dollars: price of an hour of this load."""

    offered: int
    answered: int
    refused: Counter[str]
    throttled: Counter[str]
    seconds: tuple[float, float]
    containers: int
    dollars: float


@dataclass(frozen=True)
class Step:
    """A change of the deployment, and what it made of the load."""

    change: dict[str, int]
    outcome: Outcome


def climb(run: Callable[[Deployment], Outcome], *changes: dict[str, int]) -> Iterator[Step]:
    """A load on the deployment as the template makes it, and after each change."""
    deployment = Deployment()
    for change in ({}, *changes):
        deployment = replace(deployment, **change)
        yield Step(change, run(deployment))


def burst(calls: Calls, deployment: Deployment, owners: int) -> Outcome:
    """From nothing to BURST short sends a second."""
    first, *others = calls["send"]
    send = [first, *(replace(call, at=call.at + AGENT_SECONDS) for call in others)]

    def arrive(cloud: Cloud) -> Steps:
        for number in range(BURST * BURST_SECONDS):
            cloud.env.process(cloud.request(f"owner-{number % owners}", send))
            yield cloud.env.timeout(1 / BURST)

    return _run(deployment, arrive, BURST_SECONDS)


def streams(calls: Calls, deployment: Deployment) -> Outcome:
    """More and more streams, until STREAMS are open, and then as many for the time of one."""
    stream = by_second(calls["stream"])
    length = stream[-1].at
    rate = STREAMS / length

    def arrive(cloud: Cloud) -> Steps:
        while cloud.env.now < RAMP_SECONDS + length:
            cloud.env.process(cloud.request(f"owner-{cloud.offered % OWNERS}", stream))
            yield cloud.env.timeout(1 / (rate * min(1.0, (cloud.env.now + 1) / RAMP_SECONDS)))

    return _run(deployment, arrive, RAMP_SECONDS + length)


def by_second(calls: list[TableCall]) -> list[TableCall]:
    """The same load in fewer calls: those of each second as one."""
    totals: dict[tuple[int, str], TableCall] = {}
    for call in calls:
        key = int(call.at), call.partition
        total = totals.get(key)
        totals[key] = call if total is None else total.with_units_of(call)
    return list(totals.values())


def queue(calls: Calls, deployment: Deployment) -> Outcome:
    """Background turns, in the busiest hour of a day with TURNS_A_DAY. They are answered when they end."""
    rate = PEAK * TURNS_A_DAY / 86_400
    send, turn = calls["background send"], by_second(calls["background turn"])

    def arrive(cloud: Cloud) -> Steps:
        cloud.env.process(add_workers(cloud, backlog := simpy.Store(cloud.env)))
        while cloud.env.now < QUEUE_SECONDS:
            cloud.env.process(accept(cloud, backlog))
            yield cloud.env.timeout(1 / rate)

    def accept(cloud: Cloud, backlog: simpy.Store) -> Steps:
        owner, start = f"owner-{cloud.offered % OWNERS}", cloud.env.now
        is_accepted = yield from cloud.request(owner, send)
        if is_accepted:
            backlog.put((start, owner))

    def add_workers(cloud: Cloud, backlog: simpy.Store) -> Steps:
        for number in range(cloud.deployment.worker_concurrency):
            if number >= aws.QUEUE_FIRST_RUNS:
                yield cloud.env.timeout(60 / aws.QUEUE_RUNS_PER_MINUTE)
            cloud.env.process(work(cloud, backlog))

    def work(cloud: Cloud, backlog: simpy.Store) -> Steps:
        while True:
            start, owner = yield backlog.get()
            try:
                yield from cloud.run(cloud.worker, owner, cloud.offered + len(durations), turn)
            except Refused as refused:  # its message comes again
                cloud.database.throttled[str(refused)] += 1
                cloud.env.process(come_again(cloud, backlog, (start, owner)))
            else:
                durations.append(cloud.env.now - start)

    def come_again(cloud: Cloud, backlog: simpy.Store, message: tuple[float, str]) -> Steps:
        yield cloud.env.timeout(AGAIN_SECONDS)
        backlog.put(message)

    durations: list[float] = []
    return _run(deployment, arrive, QUEUE_SECONDS, durations)


def _run(
    deployment: Deployment,
    arrive: Callable[[Cloud], Steps],
    seconds: float,
    durations: list[float] | None = None,
) -> Outcome:
    """seconds: length of the load. The run takes REST_SECONDS more. durations: what each answer took, if not
    the requests' own times count."""
    env = simpy.Environment()
    cloud = Cloud(env, deployment)
    env.process(arrive(cloud))
    env.run(until=seconds + REST_SECONDS)
    times = cloud.answered if durations is None else durations
    half, most = (quantiles(times, n=100)[index] for index in (49, 98)) if len(times) > 1 else (0.0, 0.0)
    return Outcome(
        offered=cloud.offered,
        answered=len(times),
        refused=cloud.refused,
        throttled=cloud.database.throttled,
        seconds=(half, most),
        containers=cloud.rpc.most_busy + cloud.worker.most_busy,
        dollars=_dollars(cloud) * 3600 / seconds,
    )


def _dollars(cloud: Cloud) -> float:
    runs = cloud.reached + cloud.worker.runs
    return (
        (cloud.rpc.gigabyte_seconds + cloud.worker.gigabyte_seconds) * aws.GIGABYTE_SECOND
        + cloud.reached * aws.API_CALL
        + runs * (aws.REQUEST + LOG_BYTES * aws.LOGGED_BYTE)
        + cloud.database.written * aws.WRITE_UNIT
        + cloud.database.read * aws.READ_UNIT
    )
