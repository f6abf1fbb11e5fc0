"""What the runs of evals show: a table, a comparison with the last run, and JUnit's XML for a CI."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from xml.etree import ElementTree

from rich.table import Table

from tools.evals.runs import Outcome

CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML cannot hold."""

Rates = Mapping[str, float]
"""Share of the runs that passed, by case."""


def rates_of(outcomes: Sequence[Outcome]) -> Rates:
    return {outcome.case.name: outcome.rate for outcome in outcomes}


def read_rates(path: Path) -> Rates:
    """Pass rates of the last run; empty if there was none."""
    try:
        rates: Rates = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return rates


def write_rates(path: Path, rates: Rates) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rates, indent=2) + "\n", "utf-8")


def compare(rate: float, last: float | None) -> str:
    """A word on a case since the last run."""
    if last is None:
        return "new"
    if rate == last:
        return "same"
    return f"better, was {last:.0%}" if rate > last else f"worse, was {last:.0%}"


def table_of(agent: str, outcomes: Sequence[Outcome], last: Rates) -> Table:
    """A row for each case. Problems are not a column, because a sentence would be folded to a few characters
    a line."""
    table = Table(title=agent, title_justify="left", box=None, pad_edge=False)
    for title in ("case", "passed", "needed", "seconds", "since the last run"):
        table.add_column(title, overflow="fold")
    for outcome in outcomes:
        case, runs = outcome.case, len(outcome.problems)
        table.add_row(
            f"[{'green' if outcome.is_good else 'red'}]{'✓' if outcome.is_good else '✗'}[/] {case.name}",
            f"{outcome.passed}/{runs}",
            f"{case.pass_rate:.0%}",
            f"{median(outcome.seconds):.2f}",
            compare(outcome.rate, last.get(case.name)),
        )
    return table


def problems_of(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each case of which a run failed."""
    return [f"{outcome.case.name}: {outcome.first_problem}" for outcome in outcomes if outcome.first_problem]


def write_junit(path: Path, results: Mapping[str, Sequence[Outcome]]) -> None:
    """JUnit's XML: a suite for each agent."""
    suites = ElementTree.Element("testsuites")
    for agent, outcomes in results.items():
        failures = sum(not outcome.is_good for outcome in outcomes)
        counts = {"name": agent, "tests": str(len(outcomes)), "failures": str(failures)}
        suite = ElementTree.SubElement(suites, "testsuite", counts)
        for outcome in outcomes:
            seconds = f"{sum(outcome.seconds):.3f}"
            element = ElementTree.SubElement(
                suite, "testcase", classname=agent, name=outcome.case.name, time=seconds
            )
            if not outcome.is_good:
                ElementTree.SubElement(element, "failure", message=CONTROLS.sub("", outcome.first_problem))
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)
