"""Schedules and events: each makes one task, however many containers look at it, and however often."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from a2a_lambda import telemetry
from a2a_lambda.agent.agent import Agent
from a2a_lambda.aws import clients
from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.errors import ConfigurationError, RouteNotFound, StoreError
from a2a_lambda.files.files import Files
from a2a_lambda.net.addresses import NotPublic
from a2a_lambda.operations import triggers
from a2a_lambda.operations.messages import Messages
from a2a_lambda.operations.service import Service
from a2a_lambda.operations.triggers import Triggers
from a2a_lambda.protocol import cron
from a2a_lambda.protocol.model import Json
from a2a_lambda.push import webhook
from a2a_lambda.push.webhook import WebhookPolicy
from a2a_lambda.settings import Settings
from a2a_lambda.store import items
from a2a_lambda.store.schedule_marks import ScheduleMarks
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Namespace
from tests.agent.folders import CARD, write
from tests.background.fake_queue import FakeQueue
from tests.helpers.clock import Clock

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=ZoneInfo("UTC")).timestamp()

CODE = "@skill\ndef hello(turn, name: str = 'you', n: int = 1): return f'{turn.text} {name}'"


class Containers:
    """A deployment of an agent with schedules, looked at by several containers."""

    def __init__(self, settings: Settings, folder: Path, schedules: str, owner: str) -> None:
        card = CARD + "capabilities: {{ pushNotifications: true }}\nschedules:\n" + schedules
        agents = Agents.of(Agent.load(write(folder, CODE, card)))
        self.clock = Clock()
        self.clock.now = NOON + 20
        self.owner = owner
        self.store = Store(
            Table(clients.dynamodb(settings), settings.table, clock=self.clock), ttl=30 * 86_400
        )
        self.queue = FakeQueue()
        self.messages = Messages(
            self.store,
            agents,
            dispatcher=Dispatcher(self.queue),
            repeat_seconds=60,
            webhooks=WebhookPolicy(allow_loopback=True),
            files=Files(),
        )
        self.agents = agents
        self.marks = ScheduleMarks(Table(clients.dynamodb(settings), settings.table, clock=self.clock))

    def triggers(self) -> Triggers:
        return Triggers(self.store, self.marks, self.agents, self.messages)

    def look(self, containers: int = 1) -> list[int]:
        """What as many containers start that look at the same time."""

        async def go() -> list[int]:
            looks = (self.triggers().run_schedules() for _ in range(containers))
            return await asyncio.gather(*looks)

        return asyncio.run(go())

    def tasks(self, owner: str = "") -> list[Json]:
        page = asyncio.run(
            Service(self.store, files=Files()).list(
                Namespace(owner or self.owner, "hello"), {"pageSize": 100}
            )
        )
        return list(page["tasks"])


@pytest.fixture
def deploy(settings: Settings, tmp_path: Path, namespace: Namespace) -> Callable[[str], Containers]:
    client = clients.dynamodb(settings)
    for name in ("hourly", "second", "good", "named"):
        for times in (f"{name}#0 * * * *#UTC", f"{name}#30 * * * *#UTC"):
            client.delete_item(TableName=settings.table, Key=items.schedule_mark_key("hello", times))

    def deploy(schedules: str) -> Containers:
        owner, version = namespace.owner, f"version-{len(list(tmp_path.iterdir()))}"
        return Containers(settings, tmp_path / version, schedules.replace("OWNER", owner), owner)

    return deploy


HOURLY = '  - {{ id: hourly, cron: "0 * * * *", message: Report., owner: OWNER }}\n'


def test_a_time_makes_one_task_however_many_containers_look(deploy: Callable[[str], Containers]) -> None:
    kit = deploy(HOURLY)
    kit.look(containers=4)
    [task] = kit.tasks()
    assert task["history"][0]["parts"] == [{"text": "Report."}]
    metadata = task["history"][0]["metadata"]
    assert metadata["schedule"] == {"id": "hourly", "time": "2026-03-02T12:00:00.000Z"}
    assert "intentInfos" not in metadata
    assert len(set(kit.queue.waiting)) == 1  # a container that finds it stored may queue it again
    kit.clock.now += 60
    assert kit.look() == [0]
    assert len(kit.tasks()) == 1


def test_a_new_deployment_does_not_make_up_for_its_past(deploy: Callable[[str], Containers]) -> None:
    kit = deploy(HOURLY)
    kit.clock.now = NOON + 61
    kit.look()
    assert kit.tasks() == []


@pytest.mark.parametrize(("minutes", "count"), [(0, 0), (29, 0), (31, 1), (91, 2), (1440, 2)])
def test_what_was_missed_is_made_up_for_up_to_a_limit(
    deploy: Callable[[str], Containers], minutes: int, count: int
) -> None:
    """Nothing ran for two hours and a half."""
    kit = deploy(HOURLY.replace("owner", f"catch_up_minutes: {minutes}, owner"))
    kit.look()
    kit.clock.now = NOON + 2.5 * 3_600
    kit.look()
    assert len(kit.tasks()) == 1 + count


def test_a_look_that_the_table_interrupts_is_made_again(
    deploy: Callable[[str], Containers], monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = deploy(HOURLY + HOURLY.replace("hourly", "second"))
    create, calls = kit.store.create_head, list[Any]()

    def fail_first(head: Any) -> None:
        calls.append(head)
        if len(calls) == 1:
            raise StoreError("no answer")
        create(head)

    monkeypatch.setattr(kit.store, "create_head", fail_first)
    with pytest.raises(StoreError):
        kit.look()
    assert len(kit.tasks()) == 1, "the other one was started"
    kit.clock.now += 60
    assert kit.look() == [1]
    assert len(kit.tasks()) == 2


def test_a_schedule_names_a_skill_its_arguments_and_a_webhook(deploy: Callable[[str], Containers]) -> None:
    kit = deploy(
        '  - {{ id: named, cron: "0 12 * * *", message: Hi, owner: OWNER, skill: hello,'
        " arguments: {{ name: Ada }}, webhook: http://127.0.0.1:9/hook, token: t }}\n"
    )
    kit.look()
    [task] = kit.tasks()
    slots = [{"name": "name", "value": "Ada"}]
    assert task["history"][0]["metadata"]["intentInfos"] == [{"intent": "hello", "slots": slots}]
    head = kit.store.get_head(Namespace(kit.owner, "hello"), task["id"])
    assert head is not None
    [config_id] = head.push_config_ids
    push = kit.store.get_push_config(head.namespace, head.task_id, config_id)
    assert push is not None
    assert push.config["url"] == "http://127.0.0.1:9/hook"
    assert push.config["token"] == "t"


@pytest.mark.parametrize("store_fails", [False, True])
def test_a_schedule_that_cannot_start_stops_no_other(
    deploy: Callable[[str], Containers],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    store_fails: bool,
) -> None:
    """A webhook's name may lead to a private address."""
    kit = deploy(
        HOURLY.replace("owner", "webhook: https://private.example, owner") + HOURLY.replace("hourly", "good")
    )
    measures: list[Mapping[str, float]] = []
    monkeypatch.setattr(telemetry, "sink", lambda values, _: measures.append(values))

    async def resolve(*_: Any, **__: Any) -> list[str]:
        raise NotPublic("private.example: its address is not public")

    def advance(marks: ScheduleMarks, agent: str, schedule: str, at: float) -> None:
        if schedule.startswith("hourly#") and store_fails and caplog.text:
            raise StoreError("not now")
        move(marks, agent, schedule, at)

    move = ScheduleMarks.advance
    monkeypatch.setattr(webhook, "resolve", resolve)
    monkeypatch.setattr(ScheduleMarks, "advance", advance)
    with pytest.raises(StoreError) if store_fails else nullcontext():
        kit.look()
    assert [task["history"][0]["metadata"]["schedule"]["id"] for task in kit.tasks()] == ["good"]
    assert "schedule hourly of hello failed" in caplog.text
    assert "private.example: its address is not public" in caplog.text
    assert {"FailedRecords": 1} in measures
    if store_fails:
        return
    caplog.clear()
    kit.clock.now += 60
    kit.look()
    assert "hourly" not in caplog.text, "a later look cannot help"


@pytest.fixture
def log_ids() -> Mapping[str, str]:
    """Ids on the log lines of a server, as the work before has left them."""
    ids = telemetry.collect()
    telemetry.bind(owner="another", agent="another", task_id="another")
    return ids


def test_a_failure_is_logged_with_the_ids_of_its_own_schedule(
    deploy: Callable[[str], Containers], log_ids: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[dict[str, str]] = []
    monkeypatch.setattr(triggers.logger, "error", lambda *_: lines.append(dict(log_ids)))
    monkeypatch.setattr(cron, "times_between", lambda *_: 1 / 0)
    kit = deploy(HOURLY)
    kit.look()
    assert lines == [{"owner": kit.owner, "agent": "hello", "task_id": ""}]


def test_a_task_that_a_schedule_starts_is_logged_with_the_ids_of_that_task(
    deploy: Callable[[str], Containers], log_ids: Mapping[str, str]
) -> None:
    kit = deploy(HOURLY)
    task_id = asyncio.run(kit.triggers().fire("hello", "hourly", "key"))
    assert log_ids.items() >= {"owner": kit.owner, "agent": "hello", "task_id": task_id}.items()


def test_a_schedule_is_started_by_hand(deploy: Callable[[str], Containers]) -> None:
    kit = deploy(HOURLY)
    triggers = kit.triggers()
    first = asyncio.run(triggers.fire("hello", "hourly", "key"))
    assert asyncio.run(triggers.fire("hello", "hourly", "key")) == first
    assert asyncio.run(triggers.fire("hello", "hourly", "another")) != first
    assert len(kit.tasks()) == 2
    with pytest.raises(RouteNotFound, match="Schedules: hello/hourly"):
        asyncio.run(triggers.fire("hello", "daily", "key"))
    [entry] = triggers.describe()
    assert entry["next"] == "2026-03-02T13:00:00.000Z"


def test_looks_that_are_a_little_late_miss_nothing(deploy: Callable[[str], Containers]) -> None:
    """The limit is for outages, so one of 0 minutes changes nothing here."""
    kit = deploy(HOURLY.replace("owner", "catch_up_minutes: 0, owner"))
    kit.clock.now = NOON - 0.05
    kit.look()
    kit.clock.now = NOON + 60.15
    assert kit.look() == [1]


def test_a_schedule_that_is_new_does_not_make_up_for_the_time_before_it(
    deploy: Callable[[str], Containers],
) -> None:
    """The deployment may have had another schedule for long."""
    kit = deploy(HOURLY + HOURLY.replace("hourly", "second"))
    kit.marks.advance("hello", "hourly#0 * * * *#UTC", NOON - 3_600)
    kit.clock.now = NOON + 600
    assert kit.look() == [1]
    assert [task["history"][0]["metadata"]["schedule"]["id"] for task in kit.tasks()] == ["hourly"]


def test_the_version_before_does_not_use_up_the_times_of_a_changed_schedule(
    deploy: Callable[[str], Containers],
) -> None:
    """During a canary, each minute reaches the one or the other."""
    before, after = deploy(HOURLY), deploy(HOURLY.replace("0 *", "30 *"))
    for seconds, starts in ((20, ([1], [0])), (1_820, ([0], [1]))):
        before.clock.now = after.clock.now = NOON + seconds
        assert (before.look(), after.look()) == starts


def test_an_agent_whose_clients_must_activate_an_extension_starts_by_itself(
    settings: Settings, tmp_path: Path, namespace: Namespace, deploy: Callable[[str], Containers]
) -> None:
    extensions = "extensions: [{{ uri: 'urn:x', required: true }}]\n"
    kit = Containers(
        settings, tmp_path, HOURLY.replace("OWNER", namespace.owner) + extensions, namespace.owner
    )
    assert kit.look() == [1]
    assert len(kit.tasks()) == 1


def test_an_event_starts_one_turn_however_often_it_comes(deploy: Callable[[str], Containers]) -> None:
    """EventBridge delivers at least once."""
    kit = deploy(HOURLY)
    event = {
        "agent": "hello",
        "id": "e-1",
        "data": {"key": "a.csv"},
        "owner": kit.owner,
        "message": "A file.",
    }

    async def start(fields: Json) -> str:
        return await kit.triggers().start_event(fields)

    first = asyncio.run(start(event))
    assert asyncio.run(start(event)) == first
    kit.clock.now += 7 * 86_400
    assert asyncio.run(start(event)) == first, "a week later, too"
    assert asyncio.run(start({**event, "id": "e-2"})) != first
    second, task = kit.tasks()
    assert task["history"][0]["parts"] == [{"text": "A file."}, {"data": {"key": "a.csv"}}]
    assert task["history"][0]["metadata"] == {"event": {"id": "e-1"}}
    assert second["id"] != task["id"] == first


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": ""}, "id: "),
        ({"agent": "nobody"}, "nobody"),
        ({"owner": "a b"}, "owner: "),
        ({"detail": {}}, "detail: "),
        ({"arguments": {"n": 1}}, "arguments.n: "),
        ({"skill": "helo"}, "no skill 'helo'"),
        ({"arguments": {"name": "Ann"}}, "name their `skill`"),
        ({"skill": "hello", "arguments": {"nmae": "Ann"}}, "no parameter 'nmae'"),
        ({"skill": "hello", "arguments": {"n": "seven"}}, "argument n of skill hello does not fit: it"),
        ({"webhook": "http://hooks.example.com/x"}, "must be https"),
        ({"data": {"title": "cut off \ud83d"}}, "a lone surrogate"),
        ({"data": 10**400}, "beyond the range"),
    ],
)
def test_an_event_that_starts_nothing_says_why(
    deploy: Callable[[str], Containers], change: dict[str, Any], words: str
) -> None:
    kit = deploy(HOURLY)
    with pytest.raises(ConfigurationError, match=words):
        asyncio.run(kit.triggers().start_event({"agent": "hello", "id": "e", **change}))
    assert kit.queue.waiting == []


def test_an_event_with_a_webhook_for_an_agent_without_notifications_says_so(
    settings: Settings, tmp_path: Path, namespace: Namespace
) -> None:
    kit = Containers(settings, tmp_path, HOURLY.replace("OWNER", namespace.owner), namespace.owner)
    object.__setattr__(kit.agents["hello"].card.capabilities, "pushNotifications", False)
    event = {"agent": "hello", "id": "e", "webhook": "https://hooks.example.com/x"}
    with pytest.raises(ConfigurationError, match="Push Notification is not supported"):
        asyncio.run(kit.triggers().start_event(event))
