"""The bars on speed, measured on the built functions; `make bench` prints the figures.

This machine's noise is in both sides of each comparison.
"""

import asyncio
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from a2a_lambda.local.built import Built
from tests.conftest import ROOT

from .clock.clock import app
from .runtime_api import RuntimeApi

FIRST_BYTE = 0.005
"""Seconds from an application's send to the Runtime API's socket, at the median."""

COLD_START = 1.10
"""Cold start of the streaming function, in that of the same code buffered."""

ROUNDS = 5


def test_a_byte_leaves_when_it_is_sent(built: Built) -> None:
    api = RuntimeApi()
    folder = str(ROOT / "tests" / "lambda" / "clock")
    variables = {
        "AWS_LAMBDA_RUNTIME_API": api.address,
        "LAMBDA_TASK_ROOT": folder,
        "_HANDLER": "clock.handler",
        "PYTHONPATH": f"{built.opt / 'python'}:{folder}",
    }
    with built.running("rpc", handler="clock.handler", variables=variables):
        event = {"resource": "/", "path": "/", "httpMethod": "GET", "headers": {}, "requestContext": {}}
        invocation = api.invoke(event)
    api.close()
    streamed = [at - int(body) / 1e9 for at, body in invocation.chunks[1:]]
    direct = asyncio.run(called_directly())
    later = statistics.median(streamed) - statistics.median(direct)
    print(f"\nfirst byte: {later * 1000:.2f} ms behind the same application called directly (median)")
    assert len(streamed) >= 50
    assert later < FIRST_BYTE


def test_a_cold_start_costs_no_more(built: Built) -> None:
    """From the start of the process to its first poll, in turn, the least of each.

    The processor's time, since a start does nothing else, and other processes cannot lengthen it.
    """
    taken: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for wrapped, starts in taken.items():
            starts.append(cold_start(built, wrapped=wrapped))
    (streaming, seconds), (buffered, plain) = (min(starts) for starts in taken.values())
    print(f"\ncold start, best of {ROUNDS}: ratio {streaming / buffered:.3f}")
    print(f"  streaming {streaming * 1000:.0f} ms of the processor, {seconds * 1000:.0f} by the clock")
    print(f"  buffered {buffered * 1000:.0f} ms of the processor, {plain * 1000:.0f} by the clock")
    assert streaming / buffered <= COLD_START


def cold_start(built: Built, *, wrapped: bool) -> tuple[float, float]:
    """Seconds of the processor, and by the clock."""
    api = RuntimeApi()
    begun = time.perf_counter()
    with built.running("rpc", wrapped=wrapped, variables={"AWS_LAMBDA_RUNTIME_API": api.address}) as process:
        assert api.polled.wait(30)
        taken = time.perf_counter() - begun
        threads = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
        worked = sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9
    api.close()
    return worked, taken


async def called_directly() -> list[float]:
    late: list[float] = []

    async def send(message: Any) -> None:
        if body := message.get("body"):
            late.append((time.monotonic_ns() - int(body)) / 1e9)

    receive: Callable[[], Any] = asyncio.Event().wait
    await app({}, receive, send)
    return late
