"""Processes of durable turns that are killed at every place in turn: at each write, checkpoint and step.

After each death another process continues the turn. What the client gets is the same every time, and no step
that has ended runs again.
"""

from collections import Counter
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from a2a_lambda.protocol.model import TaskState
from a2a_lambda.settings import Settings
from tests.background.durable_bench import DurableBench, parts_of, text_of, texts
from tests.faults import durable_node, forks
from tests.faults.durable_node import PLACES

pytestmark = pytest.mark.slow(seconds=165)


ONCE = {"plan": 1, "hotel": 1, "train": 1, "table": 1}

MAX_PLACES = 60


class Nodes:
    """One process after another. The next one starts when the one before it has died."""

    def __init__(self, settings: Settings, log: Path) -> None:
        self.log = log
        self.deaths = 0
        self._environment = {
            "A2A_LOCAL": "1",
            "A2A_EMULATOR": settings.emulator,
            "A2A_TABLE": settings.table,
            "A2A_AGENTS": str(settings.agents),
            "A2A_AGENT_NAMES": "traveler",
            "A2A_DURABLE_FUNCTION": settings.durable_function,
        }
        self._process: BaseProcess | None = None

    def start(self, place: str = "", number: int = 0) -> None:
        arguments = [str(self.log), *([place, str(number)] if place else [])]
        here, there = forks.FORKS.Pipe(duplex=False)
        self._process = forks.start(durable_node.main, there, *arguments, environment=self._environment)
        there.close()
        assert here.recv()

    def replace_if_dead(self) -> None:
        if self._process is not None and not self._process.is_alive():
            self.deaths += 1
            self.start()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()

    def steps(self) -> Counter[str]:
        """How often each step has begun."""
        return Counter(self.log.read_text().split()) if self.log.exists() else Counter()


class Client(DurableBench):
    """A client of a deployment whose durable function runs in other processes."""

    def __init__(self, settings: Settings, nodes: Nodes) -> None:
        self.nodes = nodes
        super().__init__(settings, serves=False)

    def head(self, task_id: str):  # type: ignore[no-untyped-def]
        self.nodes.replace_if_dead()
        return super().head(task_id)


@pytest.fixture
def nodes(durable_settings: Settings, tmp_path: Path) -> Iterator[Nodes]:
    new_nodes = Nodes(durable_settings, tmp_path / "steps")
    yield new_nodes
    new_nodes.stop()


@pytest.mark.parametrize("place", PLACES)
def test_a_turn_survives_a_death_at_every_place(durable_settings: Settings, nodes: Nodes, place: str) -> None:
    for number in range(1, MAX_PLACES):
        nodes.log.write_text("")
        nodes.deaths = 0
        nodes.stop()
        nodes.start(place, number)
        client = Client(durable_settings, nodes)
        task = client.send("Oslo")
        client.wait_for(task["id"], TaskState.INPUT_REQUIRED)
        client.send("yes", taskId=task["id"])
        result = client.wait_for(task["id"], TaskState.COMPLETED)
        assert texts(result) == {
            "": "A plan for Oslo. 3 nights. Booked.",
            "report": "hotel in Oslo, train in Oslo, table in Oslo",
        }
        assert [text_of(each) for each in result["history"]] == ["Oslo", "Shall I book it?", "yes"]
        events = client.follow(task["id"])
        text = "".join(part.get("text", "") for event in events for part in parts_of(event))
        assert text == "A plan for Oslo. 3 nights. hotel in Oslo, train in Oslo, table in OsloBooked."
        assert client.store.get_context(client.namespace, task["contextId"]).memory == {"city": "Oslo"}
        steps = nodes.steps()
        assert steps.keys() == ONCE.keys()
        # A step may run again if its process died before its result was kept, and others beside it.
        assert all(count <= 2 for count in steps.values()), steps
        if nodes.deaths == 0:
            assert steps == ONCE
            print(f"\n{place}: {number - 1} deaths")
            assert number > 4
            return
    raise AssertionError(f"{place}: there are more than {MAX_PLACES} of them")
