"""make bench: what the kit costs, beside its peers. One run, one table.

Times are of the processor. All contestants take turns, in ROUNDS rounds. A ratio is that of two times of the
same round: the table has the median of the rounds, the least and the greatest.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from a2a_lambda.errors import ConfigurationError
from tools import environments
from tools.bench import contestants, report, service
from tools.bench.contestants import FOLDER, WORK, Contestant, Uvicorn
from tools.build.size import MB, size_of
from tools.builds import LAMBDA_PYTHON, find_python
from tools.command import reports_errors

Json = Any

ROUNDS = 5

SENDS = 150
"""Warm calls that are measured together."""

CHUNKS = (10, 100, 1_000, 10_000)

FIGURES = FOLDER / "figures.json"
"""Those of docs/performance.md."""


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    """Measure and print. WRITE=1 writes the figures and the plots into the docs, too."""
    python = find_python(LAMBDA_PYTHON)
    if not python:
        raise ConfigurationError(f"make bench needs Lambda's python{LAMBDA_PYTHON}")
    environments.install("sam")
    environments.install(*environments.PEERS, UV_PYTHON=python, UV_COMPILE_BYTECODE="1")
    functions, layers = contestants.build_kit()
    kit, peers = contestants.kit(functions, [layers], python), contestants.peers()
    with service.running() as url:
        kit["database"] = contestants.with_database(kit["rpc"], url)
        figures = _measure(kit, peers)
    figures["size"] = _sizes()
    print(report.tables(figures))
    if environ.get("WRITE"):
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
        report.write(figures, FIGURES)
    return 0


def _measure(kit: dict[str, Contestant], peers: dict[str, Contestant]) -> dict[str, Json]:
    cold: dict[str, Callable[[], tuple[float, Json]]] = {
        **{name: _cold(each) for name, each in peers.items()},
        "rpc": _cold(kit["rpc"]),
        "api": _cold(kit["api"]),
        "database": _cold(kit["database"]),
        **{f"{name}, first answer": _cold(each, send=True) for name, each in peers.items()},
        "memory, first answer": _cold(kit["memory"], send=True),
        "rpc, first answer": _cold(kit["database"], send=True),
        "api, first answer": _cold(kit["api"], path="/.well-known/agent-card.json"),
    }
    answering = (*peers.values(), kit["memory"], kit["database"])
    figures: dict[str, Json] = {"cold": {}, "send": {}, "chunks": {}, "memory": {}, "modules": {}, "puts": []}
    for number in range(1, ROUNDS + 1):
        print(f"round {number} of {ROUNDS}", flush=True)
        for name, measure in cold.items():
            total, found = measure()
            figures["cold"].setdefault(name, []).append(total)
            figures["memory"][name] = found["memory"]
            figures["modules"][name] = found["modules"]
        server = Uvicorn(peers["fastapi"].python, peers["fastapi"].variables)
        figures["cold"].setdefault("uvicorn, first answer", []).append(server.cost)
        figures["memory"]["uvicorn, first answer"] = server.memory
        figures["send"].setdefault("uvicorn", []).append({"send": server.measure(SENDS)})
        server.close()
        for each in answering:
            streamed = each.name not in ("fasta2a", "fastapi", "bare")
            found = each.measure("send", times=SENDS, streamed=streamed).found
            figures["send"].setdefault(each.name, []).append(found)
        figures["puts"].append(kit["database"].measure("put", times=SENDS).found)
        for each in (kit["memory"], kit["sse"]):
            found = each.measure("chunks", counts=CHUNKS).found
            figures["chunks"].setdefault(each.name, []).append(found)
    print("growth, calls", flush=True)
    figures["growth"] = kit["memory"].measure("growth").found
    figures["calls"] = kit["database"].measure("calls").found
    return figures


def _cold(contestant: Contestant, **options: Json) -> Callable[[], tuple[float, Json]]:
    def measure() -> tuple[float, Json]:
        measured = contestant.measure("cold", **options)
        return measured.total, measured.found

    return measure


def _sizes() -> dict[str, Json]:
    """Megabytes of the layers, unzipped and zipped."""
    found = {}
    for layer in ("A2ALayer", "DependenciesLayer"):
        folder = WORK / "build" / layer
        found[layer] = [size_of(folder) / MB, report.zipped_size(folder) / MB]
    return found


if __name__ == "__main__":
    sys.exit(main())
