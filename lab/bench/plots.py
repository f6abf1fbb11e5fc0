"""Draws the plots of docs/performance.md: `plots.py <figures> <folder>`."""

import json
import statistics
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

plt.rcParams |= {"svg.hashsalt": "a2a", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}

ORANGE, GRAY = "#d9730d", "#9aa0a6"


def bars(path: Path, title: str, rows: dict[str, list[float]], base: list[float], bar: float) -> None:
    ratios = {name: [a / b for a, b in zip(values, base, strict=True)] for name, values in rows.items()}
    medians = [statistics.median(series) for series in ratios.values()]
    spread = [
        [median - min(series) for median, series in zip(medians, ratios.values(), strict=True)],
        [max(series) - median for median, series in zip(medians, ratios.values(), strict=True)],
    ]
    colors = [ORANGE if name.startswith("kit") else GRAY for name in ratios]
    _, axes = plt.subplots(figsize=(7, 0.4 * len(ratios) + 0.9))
    axes.barh(list(ratios), medians, xerr=spread, color=colors, error_kw={"linewidth": 0.8})
    axes.axvline(bar, color="black", linewidth=0.8, linestyle=":")
    axes.invert_yaxis()
    axes.set_xlabel(title)
    plt.tight_layout()
    plt.savefig(path, metadata={"Date": None})
    plt.close()


def lines(path: Path, title: str, growth: dict[str, dict[str, float]]) -> None:
    _, axes = plt.subplots(figsize=(7, 3.2))
    for name, costs in growth.items():
        axes.plot([int(count) for count in costs], list(costs.values()), marker="o", markersize=3, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(title)
    axes.set_ylabel("CPU time in milliseconds")
    axes.legend(frameon=False)
    plt.tight_layout()
    plt.savefig(path, metadata={"Date": None})
    plt.close()


def main() -> None:
    figures, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    cold, send, growth = figures["cold"], figures["send"], figures["growth"]
    bars(
        folder / "performance-cold.svg",
        "import, as a ratio to a2a-sdk's hello world (dotted: 1.0)",
        {
            "kit: streaming function": cold["rpc"],
            "kit: cards' function": cold["api"],
            "a2a-sdk": cold["a2a-sdk"],
            "FastAPI with Mangum": cold["fastapi"],
            "fasta2a": cold["fasta2a"],
        },
        cold["a2a-sdk"],
        1.0,
    )
    rows = {
        "kit, table in memory": "memory",
        "kit, DynamoDB over HTTP": "database",
        "a2a-sdk, in memory": "a2a-sdk",
        "fasta2a, in memory": "fasta2a",
        "FastAPI with Mangum": "fastapi",
    }
    bars(
        folder / "performance-warm.svg",
        "warm send, as a ratio to a2a-sdk's (dotted: 1.0)",
        {title: [costs["send"] for costs in send[name]] for title, name in rows.items()},
        [costs["send"] for costs in send["a2a-sdk"]],
        1.0,
    )
    rounds = figures["chunks"]["memory"]
    lines(
        folder / "performance-growth.svg",
        "n",
        {
            "get a task of n chunks": growth["get"],
            "the nth turn of a conversation": growth["turn"],
            "list n tasks, at most 100 of them": growth["list"],
            "a stream of n chunks": {n: min(costs[n] for costs in rounds) for n in rounds[0]},
        },
    )


if __name__ == "__main__":
    main()
