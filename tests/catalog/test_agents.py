"""The agents of a deployment: one that fails, or is slow, does not affect the others."""

import asyncio
import importlib
import shutil
import sys
import threading
from pathlib import Path

import pytest

from a2a_lambda import Agent
from a2a_lambda.catalog import agents
from a2a_lambda.catalog.agents import Agents, default_of, load_profiles, read_cards
from a2a_lambda.catalog.manifest import encode_manifest
from a2a_lambda.errors import ConfigurationError, RouteNotFound, Unavailable
from a2a_lambda.protocol.card import Card, CardSkill
from tests.agent.folders import CARD, write

GOOD = "@skill\ndef hello(turn, count: int = 1): return 'x'"
DEFAULT = CARD + "default: true\n"

SKILL = CardSkill(id="s", name="S", description="D")


def build_agents(folder: Path, *names: str) -> Agents:
    """The agents of a build: from the manifest."""
    manifest = folder / "manifest.json"
    manifest.write_bytes(encode_manifest(load_profiles(folder)))
    return Agents.of_manifest(manifest, folder, names)


def test_an_agent_in_a_linked_folder_has_the_name_of_the_link(tmp_path: Path) -> None:
    """Its callers know it by that name."""
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "linked").symlink_to(write(tmp_path / "shared", GOOD, name="one"))
    catalog = Agents.of_folder(agents)
    assert [(name, catalog[name].name) for name in catalog] == [("linked", "linked")]


def test_a_folder_beside_the_agents_may_be_imported_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test imports it, and then replaces what is in it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "agents"]:
        monkeypatch.delitem(sys.modules, name)
    agents = tmp_path / "agents"
    (agents / "shared").mkdir(parents=True)
    (agents / "shared" / "rates.py").write_text("RATE = 1")
    folder = write(agents, "from ..shared import rates\n@skill\ndef hello(turn): return str(rates.RATE)")
    others = [place for place in sys.path if not (Path(place) / "agents").exists()]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *others])
    importlib.import_module("agents.shared.rates")
    agent = Agent.load(folder)
    monkeypatch.setattr("agents.shared.rates.RATE", 5)
    assert asyncio.run(agent.run("hi")).text == "5"


def test_the_default_agent_is_the_only_one_or_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no agent"):
        Agents.of_folder(tmp_path)
    write(tmp_path, GOOD, name="one")
    assert Agents.of_folder(tmp_path).default == "one"
    write(tmp_path, GOOD, DEFAULT, name="two")
    for catalog in (Agents.of_folder(tmp_path), build_agents(tmp_path)):
        assert list(catalog) == ["two", "one"]
        assert catalog.find(None).name == "two"
        with pytest.raises(RouteNotFound, match=r"there is no agent 'three'$"):
            catalog.find("three")
    with pytest.raises(RouteNotFound, match=r"there is no agent 'three'\. Agents: two, one"):
        Agents.of_folder(tmp_path, shows_reasons=True).find("three")


@pytest.mark.parametrize("card", [CARD, DEFAULT])
def test_agents_without_a_clear_default_are_served_by_their_names(
    tmp_path: Path, card: str, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("one", "two"):
        write(tmp_path, GOOD, card, name=name)
    reason = r"may say `default: true`" if card == DEFAULT else r"must say `default: true`"
    for shows_reasons in (False, True):
        catalog = Agents.of_folder(tmp_path, shows_reasons=shows_reasons)
        assert catalog.find("two").name == catalog.load("two").name == "two"
        with pytest.raises(Unavailable, match=reason if shows_reasons else "call one by its name"):
            catalog.find(None)
        with pytest.raises(RouteNotFound):
            catalog.find("three")
    assert "one/card.yaml, two/card.yaml" in caplog.text
    with pytest.raises(ConfigurationError, match=reason):
        load_profiles(tmp_path)


@pytest.mark.parametrize(
    ("defaults", "names", "expected"),
    [
        (["two"], [], "two"),
        (["two"], ["one", "two"], "two"),
        ([], ["two", "one"], "two"),
        ([], [], ""),
        (["one", "two"], [], ""),
    ],
)
def test_which_agent_answers_at_the_root(defaults: list[str], names: list[str], expected: str) -> None:
    """The one whose card says so; else the first of the agents that a stage names."""
    cards = {
        name: Card(name=name, description="", version="1", skills=[SKILL], default=name in defaults)
        for name in ("one", "two")
    }
    assert default_of(cards, names) == expected


def test_only_the_named_agents_are_served(tmp_path: Path) -> None:
    for name, card in (("one", CARD), ("two", DEFAULT), ("three", CARD)):
        write(tmp_path, GOOD, card, name=name)
    for catalog in (Agents.of_folder(tmp_path, ["one"]), build_agents(tmp_path, "one")):
        assert list(catalog) == ["one"]
        assert catalog.default == "one", "a single agent is the default"
    with pytest.raises(ConfigurationError, match=r"no agent 'four' in .*one, three, two"):
        Agents.of_folder(tmp_path, ["four"])


def test_a_manifest_says_what_the_code_would(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    [agent], [read] = Agents.of_folder(tmp_path).values(), build_agents(tmp_path).values()
    assert (read.name, read.card, read.input_schemas) == (agent.name, agent.card, agent.input_schemas)
    assert encode_manifest([read]) == encode_manifest([agent])


@pytest.mark.parametrize("content", ["", "[]]", '[{"name": "x"}]', "7", '{"a": 1}'])
def test_a_manifest_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match="manifest"):
        Agents.of_manifest(path, tmp_path)


def test_the_first_agent_of_a_stack_is_its_default(tmp_path: Path) -> None:
    """The agent that says so may be in another stack."""
    for name, card in (("one", DEFAULT), ("two", CARD), ("three", CARD)):
        write(tmp_path, GOOD, card, name=name)
    for catalog in (Agents.of_folder(tmp_path, ["two", "three"]), build_agents(tmp_path, "two", "three")):
        assert (catalog.default, set(catalog)) == ("two", {"two", "three"})


def test_a_member_that_raises_when_it_is_looked_at_is_the_agents_mistake(tmp_path: Path) -> None:
    """A proxy that has no request yet raises so."""
    write(tmp_path, GOOD)
    catalog = build_agents(tmp_path)
    proxy = (
        "class Proxy:\n    def __getattr__(self, name): raise RuntimeError('no request')\nproxy = Proxy()\n"
    )
    (tmp_path / "hello" / "agent.py").write_text(proxy)
    with pytest.raises(Unavailable):
        catalog.load("hello")
    with pytest.raises(ConfigurationError, match="no request"):
        Agent.load(tmp_path / "hello")


def test_profiles_need_no_code(tmp_path: Path) -> None:
    folder = write(tmp_path, GOOD)
    catalog = build_agents(tmp_path)
    (folder / "agent.py").write_text("raise RuntimeError")
    assert catalog.find("hello").card.name == "hello"


@pytest.mark.parametrize("code", ["raise RuntimeError('no service')", "def (", "import sys; sys.exit()"])
def test_an_agent_that_cannot_be_imported_fails_alone(
    tmp_path: Path, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, GOOD, name="good")
    catalog = build_agents(tmp_path)
    write(tmp_path, code, DEFAULT, name="bad")
    for each in (catalog, Agents.of_folder(tmp_path)):
        assert each.load("good").name == "good"
        with pytest.raises(Unavailable, match="'bad' cannot be loaded"):
            each.load("bad")
        assert "bad/agent.py" in caplog.text
    assert Agents.of_folder(tmp_path).find("bad").card.name == "bad", "its card is served"
    with pytest.raises(Unavailable, match=r"bad/agent\.py"):
        Agents.of_folder(tmp_path, shows_reasons=True).load("bad")


def test_a_card_with_another_name_is_no_card(tmp_path: Path) -> None:
    """Its agent does not vanish without a word."""
    write(tmp_path, "@skill\ndef hello(turn): ...", name="good")
    folder = write(tmp_path, "@skill\ndef hello(turn): ...", name="weather")
    (folder / "card.yaml").rename(folder / "card.yml")
    cards, reasons = read_cards(tmp_path)
    assert list(cards) == ["good"]
    assert "weather/card.yml: a card is called card.yaml: rename this file" in reasons["weather"]
    assert read_cards(tmp_path, ["good"])[1] == {}
    write(tmp_path, "@skil\ndef hello(turn): ...", name="broken")
    with pytest.raises(ConfigurationError, match=r"rename this file\n.*broken/agent.py:2"):
        load_profiles(tmp_path)
    shutil.rmtree(tmp_path / "broken")
    (folder / "agent.py").unlink()
    assert read_cards(tmp_path)[1] == {}, "a folder without an agent may have any file"
    assert [profile.name for profile in load_profiles(tmp_path)] == ["good"]


def test_a_card_that_cannot_be_read_stops_its_agent_alone(tmp_path: Path) -> None:
    write(tmp_path, "@skill\ndef hello(turn): ...", name="good")
    (tmp_path / "bad" / "card.yaml").mkdir(parents=True)
    agents = Agents.of_folder(tmp_path, shows_reasons=True)
    assert agents.find("good").name == "good"
    with pytest.raises(Unavailable, match=r"bad/card\.yaml: cannot be read: Is a directory"):
        agents.find("bad")


def test_code_without_a_card_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, GOOD, name="weather")
    (write(tmp_path, GOOD, name="shared") / "card.yaml").unlink()
    assert list(Agents.of_folder(tmp_path)) == ["weather"]
    [line] = caplog.messages
    assert "shared/agent.py is not served, because there is no card.yaml beside it" in line


def test_no_agent_takes_the_place_of_one_whose_card_is_wrong(tmp_path: Path) -> None:
    write(tmp_path, GOOD, name="good")
    write(tmp_path, GOOD, "name: [", name="bad")
    catalog = Agents.of_folder(tmp_path)
    assert catalog.find("good")
    for name in (None, "bad"):
        with pytest.raises(Unavailable):
            catalog.find(name)
    write(tmp_path, GOOD, DEFAULT, name="sure")
    assert Agents.of_folder(tmp_path).find(None).name == "sure"


def test_a_failed_import_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path, GOOD)
    catalog = build_agents(tmp_path)
    whole = (folder / "agent.py").read_text()
    (folder / "agent.py").write_text("raise RuntimeError")
    for _ in range(2):
        with pytest.raises(Unavailable):
            catalog.load("hello")
        (folder / "agent.py").write_text(whole)
    monkeypatch.setattr(agents, "IMPORT_RETRY_SECONDS", -1.0)
    assert catalog.load("hello").name == "hello"


def test_in_development_a_failed_import_is_tried_again_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """make add has just installed what it needs."""
    monkeypatch.setattr(agents, "LOCAL_RETRY_SECONDS", 600.0)
    folder = write(tmp_path, "raise RuntimeError")
    catalog = Agents.of_folder(tmp_path, shows_reasons=True)
    with pytest.raises(Unavailable):
        catalog.load("hello")
    (folder / "agent.py").write_text(f"from a2a_lambda import *\n\n{GOOD}")
    with pytest.raises(Unavailable):
        catalog.load("hello")
    monkeypatch.setattr(agents, "LOCAL_RETRY_SECONDS", -1.0)
    assert catalog.load("hello").name == folder.name


def test_a_caller_never_waits_for_an_import_that_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, GOOD)
    catalog = build_agents(tmp_path)

    def die(folder: Path) -> None:
        raise RuntimeError("a fault of the kit")

    monkeypatch.setattr(Agent, "load", die)
    with pytest.raises(Unavailable):
        agents.agent_of(catalog.start("hello"))


def test_agents_are_imported_side_by_side(tmp_path: Path) -> None:
    """Each while the other has begun: they meet at a barrier."""
    vars(threading)["barrier"] = threading.Barrier(2, timeout=60)
    for name, card in (("one", DEFAULT), ("two", CARD)):
        write(tmp_path, GOOD, card, name=name)
    catalog = build_agents(tmp_path)
    for name in catalog:
        path = tmp_path / name / "agent.py"
        path.write_text(f"import threading\nthreading.barrier.wait()\n{path.read_text()}")
    assert [agents.agent_of(each).name for each in [catalog.start(name) for name in catalog]] == [
        "one",
        "two",
    ]


def test_an_agent_is_imported_once_by_many_callers(tmp_path: Path) -> None:
    write(tmp_path, "import threading\nthreading.imports = getattr(threading, 'imports', 0) + 1\n" + GOOD)
    catalog = build_agents(tmp_path)
    before = vars(threading)["imports"]
    agent_import = [catalog.start("hello") for _ in range(20)]
    assert len({id(each.result()) for each in agent_import}) == 1
    assert vars(threading)["imports"] == before + 1


def test_a_slow_import_delays_no_other_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(threading, "gate", gate, raising=False)
    write(tmp_path, GOOD, name="fast")
    slow = write(tmp_path, GOOD, DEFAULT, name="slow")
    catalog = build_agents(tmp_path)
    source = (slow / "agent.py").read_text()
    (slow / "agent.py").write_text(f"import threading\nthreading.gate.wait(60)\n{source}")
    monkeypatch.setattr(agents, "WARM_UP_SECONDS", 0.1)
    monkeypatch.setattr(agents, "WARM_UP_START_SECONDS", 60.0)
    catalog.warm_up()
    assert not catalog.start("slow").done()
    assert catalog.load("fast").name == "fast"
    gate.set()
    assert catalog.load("slow").name == "slow"


def test_the_warm_up_leaves_late_imports_to_their_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, card in (("one", DEFAULT), ("two", CARD)):
        write(tmp_path, GOOD, card, name=name)
    catalog = build_agents(tmp_path)
    code = tmp_path / "one" / "agent.py"
    code.write_text(f"import time\ntime.sleep(0.3)\n{code.read_text()}")
    monkeypatch.setattr(agents, "WARM_UP_START_SECONDS", 0.25)
    catalog.warm_up()
    assert set(catalog._imports) == {"one"}
