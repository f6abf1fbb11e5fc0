"""make bench: what the kit costs, beside its peers. One run, one table.

Times are of the processor. All contestants take turns, in ROUNDS rounds. A ratio is that of two times of the
same round: the table has the median of the rounds, the least and the greatest.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from a2a_lambda.errors import ConfigurationError
from lab.bench import contestants, report, service
from lab.bench.contestants import FOLDER, PEERS, WORK, Contestant, Uvicorn
from lab.bench.report import FIRST
from tools import environments
from tools.build.size import MB, size_of, zipped_size_of
from tools.builds import find_python
from tools.command import reports_errors
from tools.commands import LAMBDA_PYTHON

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
    environments.install(*PEERS, projects=FOLDER.parent / "environments", UV_PYTHON=python)
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


def _measure(kit: dict[str, Contestant], peers: dict[str, Contestant]) -> dict[str, Any]:
    cold: dict[str, tuple[Contestant, dict[str, Any]]] = {
        **{name: (entrant, {}) for name, entrant in peers.items()},
        "rpc": (kit["rpc"], {}),
        **{name: (kit[name], {}) for name in ("api", "worker", "notifier")},
        "database": (kit["database"], {}),
        **{f"{name}{FIRST}": (entrant, {"send": True}) for name, entrant in peers.items()},
        f"memory{FIRST}": (kit["memory"], {"send": True}),
        f"rpc{FIRST}": (kit["database"], {"send": True}),
        f"api{FIRST}": (kit["api"], {"path": "/.well-known/agent-card.json"}),
    }
    targets = (*peers.values(), kit["memory"], kit["database"])
    figures: dict[str, Any] = {"cold": {}, "send": {}, "chunks": {}, "memory": {}, "modules": {}}
    figures |= {"puts": [], "background": []}
    for number in range(1, ROUNDS + 1):
        print(f"round {number} of {ROUNDS}", flush=True)
        for name, (contestant, options) in cold.items():
            measurement = contestant.measure("cold", **options)
            figures["cold"].setdefault(name, []).append(measurement.total)
            figures["memory"][name] = measurement.found["memory"]
            figures["modules"][name] = measurement.found["modules"]
        server = Uvicorn(peers["fastapi"].python, peers["fastapi"].variables)
        figures["cold"].setdefault(f"uvicorn{FIRST}", []).append(server.cost)
        figures["memory"][f"uvicorn{FIRST}"] = server.memory
        figures["send"].setdefault("uvicorn", []).append({"send": server.measure(SENDS)})
        server.close()
        for entrant in targets:
            has_streams = entrant.name not in ("fasta2a", "fastapi", "bare")
            costs = entrant.measure("send", times=SENDS, streamed=has_streams).found
            figures["send"].setdefault(entrant.name, []).append(costs)
        figures["puts"].append(kit["database"].measure("put", times=SENDS).found)
        figures["background"].append(kit["database"].measure("background", times=SENDS).found)
        for entrant in (kit["memory"], kit["sse"]):
            costs = entrant.measure("chunks", counts=CHUNKS).found
            figures["chunks"].setdefault(entrant.name, []).append(costs)
    print("growth, calls", flush=True)
    figures["growth"] = kit["memory"].measure("growth").found
    figures["calls"] = kit["database"].measure("calls").found
    return figures


def _sizes() -> dict[str, Any]:
    """Megabytes of the layers, unzipped and zipped."""
    sizes = {}
    for layer in ("A2ALayer", "DependenciesLayer"):
        folder = WORK / "build" / layer
        sizes[layer] = [size_of(folder) / MB, zipped_size_of(folder) / MB]
    return sizes


if __name__ == "__main__":
    sys.exit(main())
