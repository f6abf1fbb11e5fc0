"""The figures of make bench as tables, and in docs/performance.md."""

import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from lab.bench.contestants import FOLDER
from tools.costs.aws import CALL_SECONDS, GIGABYTE_SECOND, MILLION, REQUEST
from tools.docs import figures as pages
from tools.docs.figures import table

PAGE = Path("docs/performance.md")

PICTURES = Path("docs/pictures")

COMMAND = "make bench WRITE=1"

NAMES = {
    "rpc": "kit: the streaming function",
    "api": "kit: the cards' function",
    "worker": "kit: the worker",
    "notifier": "kit: the notifier",
    "memory": "kit, table in memory",
    "database": "kit, DynamoDB over HTTP",
    "a2a-sdk": "a2a-sdk 1.3.0, in memory",
    "fasta2a": "fasta2a 2.1.1, in memory",
    "fastapi": "FastAPI with Mangum",
    "uvicorn": "FastAPI under uvicorn",
    "bare": "a bare handler",
}

FIRST = ", first answer"

WHOLE_MB = 1_769
"""Memory at which Lambda gives a function one processor.
Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html"""


def tables(figures: Any) -> str:
    """All tables, in Markdown."""
    return "\n\n".join(
        [
            "**Cold start.** CPU time, relative to importing a2a-sdk's hello world.",
            _cold(figures),
            "**Warm.** CPU time of a call, relative to the same call of a2a-sdk.",
            _warm(figures),
            "**In the background**, with DynamoDB over HTTP. CPU time in milliseconds.",
            _background(figures),
            "**Streams.** CPU time of one event in a stream of 10,000.",
            _events(figures),
            "**Calls** that the streaming function makes to DynamoDB.",
            _calls(figures),
            "**Growth.** CPU time in milliseconds, with the table in memory.",
            _growth(figures),
            "**Size** of the layers that every function has.",
            _sizes(figures),
            "**Memory.** A short send, computed from the CPU time measured here, the share of a vCPU at that"
            f" memory size, and three calls to DynamoDB of {CALL_SECONDS * 1000:.0f} ms each.",
            _memory(figures),
        ]
    )


def write(figures: Any, source: Path) -> None:
    """Write the tables into the page, and draw its plots."""
    pages.write(PAGE, COMMAND, tables(figures))
    subprocess.run([sys.executable, str(FOLDER / "plots.py"), str(source), str(PICTURES)], check=True)


def _cold(figures: Any) -> str:
    base = figures["cold"]["a2a-sdk"]
    rows = []
    cold = figures["cold"]
    names = ("rpc", "memory", "api", "worker", "notifier", "a2a-sdk", "fasta2a", "fastapi", "uvicorn", "bare")
    for name in names:
        first = f"{name}{FIRST}" if f"{name}{FIRST}" in cold else name
        rows.append(
            [
                NAMES[name],
                _ratio(cold[name], base) if name in cold else "",
                _ratio(cold[first], base) if first != name else "",
                f"{figures['memory'][first]:.0f} MB",
                str(figures["modules"].get(first, "")),
            ]
        )
    ratio = _ratio(figures["cold"][f"rpc{FIRST}"], figures["cold"]["database"])
    return (
        table(["", "import", "to the first answer", "memory", "modules"], rows)
        + "\n\nUp to its first answered send, with keys and three writes, the streaming function takes"
        f" {ratio} times as long as its import."
    )


def _warm(figures: Any) -> str:
    base = figures["send"]["a2a-sdk"]
    rows = []
    for name in ("memory", "database", "a2a-sdk", "fasta2a", "fastapi", "uvicorn", "bare"):
        rounds = figures["send"][name]
        row = [NAMES[name], _ratio(_column(rounds, "send"), _column(base, "send"))]
        if "stream" in rounds[0]:
            row.append(_ratio(_column(rounds, "stream"), _column(base, "stream")))
        if "first event" in rounds[0]:
            row.append(f"{statistics.median(_column(rounds, 'first event')):.1f} ms")
        rows.append(row + [""] * (4 - len(row)))
    return table(["", "send", "stream", "first event, by the clock"], rows)


def _background(figures: Any) -> str:
    rounds = figures["background"]
    rows = [
        [title, f"{statistics.median(_column(rounds, name)):.1f}"]
        for name, title in (
            ("background", "a background send: the request, the queue, the worker's run"),
            ("push", "a push: the change relayed to the queue, the webhook called"),
        )
    ]
    return table(["", "milliseconds"], rows)


def _events(figures: Any) -> str:
    increments = {
        name: [(costs["10000"] - costs["10"]) / 9_990 for costs in figures["chunks"][name]]
        for name in ("memory", "sse")
    }
    ratio = _ratio(increments["memory"], increments["sse"])
    return table(
        ["", "microseconds", "ratio"],
        [
            [NAMES["memory"], f"{statistics.median(increments['memory']) * 1000:.0f}", ratio],
            ["Starlette's SSE, same adapter", f"{statistics.median(increments['sse']) * 1000:.0f}", "1.00"],
        ],
    )


def _calls(figures: Any) -> str:
    rows = [
        [name, str(count), f"{upload:,}", f"{download:,}"]
        for name, (count, upload, download) in figures["calls"].items()
    ]
    puts = figures["puts"]
    ratio = _ratio(_column(puts, "kit"), _column(puts, "botocore"))
    return (
        table(["", "calls", "bytes sent", "bytes received"], rows)
        + f"\n\nA write takes {ratio} times the CPU time that it takes through botocore."
    )


def _growth(figures: Any) -> str:
    growth = figures["growth"]
    titles = {
        "get": "get a task of n chunks",
        "turn": "the nth turn of a conversation",
        "list": "list n tasks, at most 100 of them",
        "message": "a message of n KB; one above 4,500 is refused",
    }
    rounds = figures["chunks"]["memory"]
    counts = {count: min(costs[count] for costs in rounds) for count in rounds[0]}
    rows = [
        [title, ", ".join(f"{int(count):,}: {cost:.1f}" for count, cost in growth[name].items())]
        for name, title in titles.items()
    ]
    rows.append(["a stream of n chunks", ", ".join(f"{int(n):,}: {cost:.1f}" for n, cost in counts.items())])
    return table(["", "n: milliseconds"], rows)


def _sizes(figures: Any) -> str:
    names = {"A2ALayer": "the kit", "DependenciesLayer": "its dependencies"}
    rows = [
        [names[layer], f"{size:.1f} MB", f"{zip_size:.1f} MB"]
        for layer, (size, zip_size) in figures["size"].items()
    ]
    return table(["", "unzipped", "zipped"], rows)


def _memory(figures: Any) -> str:
    work = statistics.median(_column(figures["send"]["database"], "send"))
    rows = []
    for memory in (512, 1_024, WHOLE_MB, 3_008):
        milliseconds = work / min(1.0, memory / WHOLE_MB) + 3 * CALL_SECONDS * 1000
        seconds = milliseconds * 1_000  # of a million sends
        dollars = seconds * memory / 1_024 * GIGABYTE_SECOND + REQUEST * MILLION
        rows.append([f"{memory:,} MB", f"{milliseconds:.0f} ms", f"${dollars:.2f}"])
    return table(["", "a send", "Lambda's price of a million"], rows)


def _column(rounds: list[Any], name: str) -> list[float]:
    return [costs[name] for costs in rounds]


def _ratio(values: list[float], base: list[float]) -> str:
    """Median of the rounds' ratios, with the least and the greatest."""
    ratios = [value / other for value, other in zip(values, base, strict=True)]
    if values == base:
        return "1.00"
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
