"""make scale: what it measures, and that its model refuses what AWS refuses."""

import asyncio
from pathlib import Path

import pytest

from a2a_lambda.turns import lease
from lab.scale import fleet, lists, meter, scale, scenarios
from lab.scale.cloud import Deployment
from tools import template
from tools.costs.units import TableCall, of_read, of_write

ROOT = Path(__file__).parents[2]

Calls = dict[str, list[TableCall]]


@pytest.fixture(scope="module")
def calls() -> Calls:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(meter, "STREAM_SECONDS", 2)
        # On a busy machine, a send lasts longer than a second, and would look at its lease.
        patched.setattr(lease, "LEASE_LOOK_SECONDS", 600.0)
        return asyncio.run(meter.measure())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"BURST": 600, "BURST_SECONDS": 3, "STREAMS": 100, "RAMP_SECONDS": 5.0}.items():
        monkeypatch.setattr(scenarios, name, value)
    monkeypatch.setattr(scenarios, "QUEUE_SECONDS", 60)


def units(made: list[TableCall]) -> tuple[int, int, int]:
    return (
        sum(call.writes for call in made),
        sum(call.listing for call in made),
        sum(call.due for call in made),
    )


def test_a_send_is_measured(calls: Calls) -> None:
    assert len(calls["send"]) == 3
    assert units(calls["send"]) == (3, 3, 2)
    assert {call.listing_key for call in calls["send"] if call.listing} == {"owner#model"}


def test_a_stream_and_a_background_turn_are_measured_over_their_time(calls: Calls) -> None:
    for name in ("stream", "background turn"):
        times = [call.at for call in calls[name]]
        assert times == sorted(times)
        assert 2 <= times[-1] < 20
        assert len(times) > 6
    assert not any(call.writes for call in calls["follower"])


def test_the_same_load_in_fewer_calls(calls: Calls) -> None:
    stream = calls["stream"]
    fewer = scenarios.by_second(stream)
    assert len(fewer) < len(stream)
    assert units(fewer) == units(stream)


def test_units_are_those_of_dynamodb() -> None:
    key = {"pk": {"S": "p"}, "sk": {"S": "s"}}
    large = {**key, "body": {"B": b"x" * 2_000}}
    assert of_write(0.0, {}, large).writes == 2
    assert of_write(0.0, large, key).writes == 2, "the larger of the two"
    listed = {**key, "listing": {"S": "l"}, "changed": {"S": "1"}}
    assert of_write(0.0, key, listed).listing == 1
    assert of_write(0.0, listed, {**listed, "changed": {"S": "2"}}).listing == 2
    assert of_write(0.0, listed, {**listed, "state": {"S": "x"}}).listing == 1
    assert of_write(0.0, listed, {**listed, "body": {"B": b"x"}}).listing == 0
    assert of_read(0.0, "p", [], is_consistent=True).reads == 1
    assert of_read(0.0, "p", [large, large, large], is_consistent=False).reads == 1


OPEN = {
    "throttling_rate": 2_000,
    "throttling_burst": 2_000,
    "requests_per_owner": 2_000,
    "concurrency": 5_000,
    "rpc_provisioned": 2_000,
    "list_shards": 4,
}
"""What takes 600 sends a second of one owner."""


@pytest.mark.parametrize(
    ("changed", "wall"),
    [
        ({}, ""),
        ({"throttling_rate": 100, "throttling_burst": 100}, "ThrottlingRate"),
        ({"requests_per_owner": 20}, "RequestsPerOwner"),
        ({"concurrency": 50}, "Lambda's concurrency"),
        ({"rpc_provisioned": 0}, "Lambda's scaling"),
        ({"list_shards": 1}, "the list's index"),
        ({"table_units": 500}, "the table's quota"),
    ],
)
def test_each_wall_is_met(calls: Calls, changed: dict[str, int], wall: str) -> None:
    outcome = scenarios.burst(calls, Deployment(**{**OPEN, **changed}), 1)
    walls = [*outcome.refused, *outcome.throttled]
    assert (wall in walls) if wall else not walls
    assert outcome.answered + outcome.refused.total() == outcome.offered


def test_streams_hold_a_container_each(calls: Calls) -> None:
    limited = scenarios.streams(calls, Deployment(**{**OPEN, "concurrency": 50}))
    assert limited.containers == 50
    assert limited.refused["Lambda's concurrency"]
    whole = scenarios.streams(calls, Deployment(**OPEN))
    assert whole.answered == whole.offered
    assert 90 <= whole.containers <= 120


def test_turns_wait_for_a_worker(calls: Calls) -> None:
    few = scenarios.queue(calls, Deployment(**OPEN))
    many = scenarios.queue(calls, Deployment(**OPEN, worker_concurrency=400))
    assert few.answered < few.offered == many.offered == many.answered
    assert many.seconds[0] < few.seconds[0]
    shared = scenarios.queue(calls, Deployment(**{**OPEN, "concurrency": 60}, worker_concurrency=400))
    assert shared.throttled["Lambda's concurrency"], "turns come again"


@pytest.mark.parametrize("context_id", ["", "absent"])
def test_a_page_of_a_million_tasks_costs_no_more_than_one_of_ten_thousand(context_id: str) -> None:
    large = lists.measure(1_000_000, context_id=context_id)
    small = lists.measure(10_000, context_id=context_id)
    assert large.calls <= small.calls + 5
    assert large.reads <= 500


def test_a_container_of_many_agents_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a machine that knows nothing of AWS."""
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    one, many = fleet.measure(1), fleet.measure(40)
    assert many.manifest > 20 * one.manifest


def test_what_changes_is_what_the_template_calls_it() -> None:
    named = {name for name in scale.NAMES.values() if not name.startswith("the ")}
    assert named <= template.parameters(ROOT / "template.yaml").keys()
    assert vars(Deployment()).keys() == scale.NAMES.keys()
    defaults = template.defaults(ROOT / "template.yaml")
    for field, name in scale.NAMES.items():
        if name in named:
            assert str(getattr(Deployment(), field)) == defaults[name]


def test_the_page_has_its_tables() -> None:
    page = (ROOT / scale.PAGE).read_text("utf-8")
    assert f"<!-- figures: {scale.COMMAND} -->" in page
    for title in (scale.BURST_LOAD, scale.STREAMS_LOAD, scale.QUEUE_LOAD):
        assert title.split("**")[1] in page
