"""The bars on speed, measured on the built functions; `make bench` prints the figures.

This machine's noise is in both sides of each comparison.
"""

import asyncio
import statistics
import time
from collections.abc import Callable
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
    """From the start of the process to its first poll, in turn, the best of each."""
    taken: dict[str, list[float]] = {"streaming": [], "buffered": []}
    for _ in range(ROUNDS):
        for name, wrapped in (("streaming", True), ("buffered", False)):
            taken[name].append(cold_start(built, wrapped=wrapped))
    streaming, buffered = min(taken["streaming"]), min(taken["buffered"])
    print(
        f"\ncold start: streaming {streaming * 1000:.0f} ms, buffered {buffered * 1000:.0f} ms,"
        f" ratio {streaming / buffered:.3f} (best of {ROUNDS})"
    )
    assert streaming / buffered <= COLD_START


def cold_start(built: Built, *, wrapped: bool) -> float:
    api = RuntimeApi()
    begun = time.perf_counter()
    with built.running("rpc", wrapped=wrapped, variables={"AWS_LAMBDA_RUNTIME_API": api.address}):
        assert api.polled.wait(30)
        taken = time.perf_counter() - begun
    api.close()
    return taken


async def called_directly() -> list[float]:
    late: list[float] = []

    async def send(message: Any) -> None:
        if body := message.get("body"):
            late.append((time.monotonic_ns() - int(body)) / 1e9)

    receive: Callable[[], Any] = asyncio.Event().wait
    await app({}, receive, send)
    return late
