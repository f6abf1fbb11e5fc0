"""make scale: what breaks first, and at what size.

The calls of each operation are measured on the kit. A simulation makes them on a model of AWS, with its
quotas.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.scale import fleet, lists, meter, scenarios
from lab.scale.cloud import Deployment
from lab.scale.scenarios import OWNERS, Calls, Outcome, Step, climb
from tools.command import reports_errors
from tools.costs import aws
from tools.docs import figures
from tools.docs.figures import table

PAGE = Path("docs/scale.md")

COMMAND = "make scale WRITE=1"

Change = dict[str, int]

NAMES = {
    "throttling_rate": "ThrottlingRate",
    "throttling_burst": "ThrottlingBurst",
    "requests_per_owner": "RequestsPerOwner",
    "streams_per_owner": "StreamsPerOwner",
    "worker_concurrency": "WorkerConcurrency",
    "rpc_provisioned": "RpcProvisioned",
    "list_shards": "ListShards",
    "warm_writes": "WarmWrites",
    "concurrency": "the account's concurrency",
    "table_units": "the table's quota",
}
"""What changes, as template.yaml and AWS name it."""

OPEN: Change = {"throttling_rate": 2_500, "throttling_burst": 5_000}

BURST_LOAD = f"""**A burst**: from nothing to {scenarios.BURST:,} sends a second, from {OWNERS} owners, for \
{scenarios.BURST_SECONDS} seconds. The agent takes {scenarios.AGENT_SECONDS:.0f} second."""

BURST: tuple[Change, ...] = (
    OPEN,
    {"concurrency": 5_000},
    {"warm_writes": 24_000},
    {"rpc_provisioned": 2_000},
)

ONE_OWNER_LOAD = "**The same burst from one owner.**"

ONE_OWNER: tuple[Change, ...] = (
    {**OPEN, "concurrency": 5_000, "warm_writes": 24_000, "rpc_provisioned": 2_000},
    {"requests_per_owner": 2_500},
    {"list_shards": 8},
)

STREAMS_LOAD = f"""**{scenarios.STREAMS:,} concurrent streams**, which start within \
{scenarios.RAMP_SECONDS:.0f} seconds. A stream takes {meter.STREAM_SECONDS} seconds."""

STREAMS: tuple[Change, ...] = (
    OPEN,
    {"concurrency": 12_000},
    {"streams_per_owner": 100},
    {"warm_writes": 40_000},
)

QUEUE_LOAD = f"""**A million background turns a day**: {scenarios.QUEUE_SECONDS / 60:.0f} minutes of the \
busiest hour, which has {scenarios.PEAK} times the average. A turn takes {meter.STREAM_SECONDS} seconds, \
and counts as answered when it has ended."""

QUEUE: tuple[Change, ...] = ({"worker_concurrency": 1_000}, {"concurrency": 3_000})

AGENTS = (1, 10, 100, 1_000)

TASKS = (100, 10_000, 1_000_000)

METRICS_OF_AN_AGENT = 12
"""At most: those of `Turns` and `Pushes` by outcome, and two times."""


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    """Measure, simulate and print. WRITE=1 writes the tables into the docs, too."""
    print("measuring operations", flush=True)
    calls = asyncio.run(meter.measure())
    parts = [*_operations(calls)]
    loads: tuple[tuple[str, Callable[[Deployment], Outcome], Sequence[Change]], ...] = (
        (BURST_LOAD, lambda deployment: scenarios.burst(calls, deployment, OWNERS), BURST),
        (ONE_OWNER_LOAD, lambda deployment: scenarios.burst(calls, deployment, 1), ONE_OWNER),
        (STREAMS_LOAD, lambda deployment: scenarios.streams(calls, deployment), STREAMS),
        (QUEUE_LOAD, lambda deployment: scenarios.queue(calls, deployment), QUEUE),
    )
    for title, run, changes in loads:
        print(title.split("**")[1], flush=True)
        parts += [title, _ladder(list(climb(run, *changes)))]
    print("agents, lists", flush=True)
    parts += [*_agents(), *_lists()]
    text = "\n\n".join(parts)
    print(text)
    if environ.get("WRITE"):
        figures.write(PAGE, COMMAND, text)
    return 0


def _operations(calls: Calls) -> Sequence[str]:
    rows = []
    for name, group in calls.items():
        rows.append(
            [
                name,
                str(len(group)),
                str(sum(call.writes for call in group)),
                str(sum(call.listing for call in group)),
                str(sum(call.due for call in group)),
                f"{sum(call.reads for call in group):.0f}",
            ]
        )
    head = ["", "calls", "table, written", "list's index", "sweep's index", "read"]
    text = (
        "**Calls to DynamoDB** and their units, by operation. The stream, the background turn and"
        f" the follower take {meter.STREAM_SECONDS} seconds, the follower's task is silent, and the list has"
        f" {meter.LISTED} tasks."
    )
    return text, table(head, rows)


def _ladder(steps: Sequence[Step]) -> str:
    rows = [
        [
            ", ".join(f"{NAMES[name]} {value:,}" for name, value in step.change.items()) or "as deployed",
            f"{100 * step.outcome.answered / step.outcome.offered:.0f}%",
            _most(step.outcome.refused),
            _most(step.outcome.throttled),
            _seconds(step.outcome),
            f"{step.outcome.containers:,}",
            f"${step.outcome.dollars:,.0f}",
        ]
        for step in steps
    ]
    head = ["", "answered", "refused by", "throttled by", "median, p99", "containers", "an hour costs"]
    return table(head, rows)


def _most(counts: Counter[str]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in counts.most_common(2))


def _seconds(outcome: Outcome) -> str:
    half, most = outcome.seconds
    return f"{half:.1f} s, {most:.1f} s"


def _agents() -> Sequence[str]:
    rows = []
    for count in AGENTS:
        start = fleet.measure(count)
        if count == 1:
            first = start.seconds
        rows.append(
            [
                f"{count:,}",
                f"{start.seconds / first:.2f}",
                f"{start.megabytes:.0f} MB",
                f"{start.manifest / 1000:,.0f} KB",
                f"${aws.metrics_price(count * METRICS_OF_AN_AGENT):,.0f}",
                f"${aws.metrics_price(METRICS_OF_AN_AGENT):,.0f}",
            ]
        )
    head = ["agents", "start", "memory", "manifest", "metrics, a month", "`AgentMetrics=false`"]
    text = (
        "**Many agents** in one deployment: the CPU time to start a container, relative to one agent,"
        f" and the price of {METRICS_OF_AN_AGENT} metrics for each agent."
    )
    return text, table(head, rows)


def _lists() -> Sequence[str]:
    rows = []
    for count in TASKS:
        every, none = lists.measure(count), lists.measure(count, context_id="absent")
        rows.append([f"{count:,}"])
        for page in (every, none):
            rows[-1] += [str(page.calls), f"{page.reads:,.0f}", f"{page.seconds * 1000:.0f} ms"]
    head = [
        "tasks",
        "calls",
        "read units",
        "time waiting",
        "no match: calls",
        "no match: read units",
        "no match: time waiting",
    ]
    return (
        "**One owner with many tasks**: the first page of the list, of"
        f" {meter.LISTED} tasks; and the first page of a filtered list, if no task matches."
    ), table(head, rows)


if __name__ == "__main__":
    sys.exit(main())
