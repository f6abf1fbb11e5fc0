"""make bench: its probe, on this machine's Python and the sources, and its tables."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from a2a_lambda.catalog.agents import load_profiles
from a2a_lambda.catalog.manifest import encode_manifest
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.kit import MANIFEST
from lab.bench import bench, contestants, report, service
from lab.bench.contestants import ROOT, Contestant
from tools.docs.figures import written


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `make bench` builds it, of links."""
    folder = tmp_path_factory.mktemp("functions")
    for name in ("rpc", "worker", "notifier"):
        (folder / f"{name}.py").symlink_to(ROOT / "functions" / f"{name}.py")
    (folder / "agents").symlink_to(contestants.FOLDER / "agents")
    (folder / MANIFEST).write_bytes(encode_manifest(load_profiles(folder / "agents")))
    return folder


@pytest.fixture(scope="module")
def kit(functions: Path) -> Iterator[dict[str, Contestant]]:
    layers = [ROOT / "layers" / "a2a", *(Path(path) for path in sys.path if path.endswith("site-packages"))]
    with service.running() as url:
        made = contestants.kit(functions, layers, sys.executable)
        yield made | {"database": contestants.with_database(made["rpc"], url)}


@pytest.mark.parametrize("name", ["memory", "database"])
def test_the_kit_answers_the_probe(kit: dict[str, Contestant], name: str) -> None:
    assert kit[name].measure("cold", send=True).found["modules"] > 100
    found = kit[name].measure("send", times=1).found
    assert set(found) == {"send", "stream", "first event"}
    assert all(value > 0 for value in found.values())


def test_calls_are_counted(kit: dict[str, Contestant]) -> None:
    calls = kit["database"].measure("calls").found
    assert {name: count for name, (count, _, _) in calls.items()} == {
        "send": 3,
        "send in a context": 4,
        "stream": 5,
        "get": 1,
        "list 10 tasks": 3,
    }


def test_the_background_is_measured(kit: dict[str, Contestant]) -> None:
    found = kit["database"].measure("background", times=2).found
    assert set(found) == {"background", "push"}
    assert all(value > 0 for value in found.values())


def test_chunks_arrive(kit: dict[str, Contestant]) -> None:
    assert set(kit["memory"].measure("chunks", counts=[10, 20]).found) == {"10", "20"}


def test_what_a_probe_prints_is_reported_if_it_fails(kit: dict[str, Contestant]) -> None:
    with pytest.raises(ConfigurationError, match="assert status == 200"):
        kit["memory"].measure("cold", path="/nowhere")


def test_a_ratio_is_of_the_same_round() -> None:
    assert report._ratio([2.0, 9.0, 40.0], [1.0, 3.0, 10.0]) == "3.00 (2.00–4.00)"


def test_the_page_has_the_tables_of_one_run() -> None:
    figures = json.loads(bench.FIGURES.read_text())
    page = (ROOT / report.PAGE).read_text()
    assert written(page, report.COMMAND, report.tables(figures)) == page
