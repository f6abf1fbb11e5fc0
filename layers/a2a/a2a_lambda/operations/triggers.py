"""Turns that no client starts: by the schedules of the agents' cards, and by events.

    a minute of the worker ── times since the mark ─┐
    EventBridge, a pipe ── the event's id ──────────┴─ a send by an owner ── the worker's queue

Each time, and each event, is a request with a key of its own, so it makes one task, however many containers
look at it, and however often.
"""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import Field, ValidationError

from a2a_lambda import strictjson, telemetry, threads
from a2a_lambda.catalog.agents import Agents, agent_of
from a2a_lambda.errors import (
    ConfigurationError,
    InvalidParams,
    ParseError,
    PushNotificationNotSupported,
    RouteNotFound,
    StoreError,
    Unavailable,
    excerpt,
    safe_text,
)
from a2a_lambda.operations.messages import Messages
from a2a_lambda.protocol import cron
from a2a_lambda.protocol.alibaba_metadata import intent_metadata
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.card import OWNER_PATTERN, Schedule, Trigger
from a2a_lambda.protocol.model import Json, Message, Part, Role, timestamp
from a2a_lambda.protocol.requests import SendMessageConfiguration, SendMessageRequest
from a2a_lambda.store.schedule_marks import ScheduleMarks
from a2a_lambda.store.store import Store
from a2a_lambda.tasks.identity import Namespace, RequestIdentity
from a2a_lambda.tasks.message_call import MessageCall

FIRST_LOOK_SECONDS = 60.0
"""Greatest age, in seconds, of a time that a new schedule still starts. Earlier times are skipped."""

LATE_LOOK_SECONDS = 300.0
"""Seconds that two looks may be apart without an outage. Times between them are always started."""

SCHEDULE_KEY = "schedule"
"""Key in the metadata of a schedule's message: `id` and `time`, for which it was started."""

EVENT_KEY = "event"
"""Key in the metadata of an event's message: `id`."""

logger = logging.getLogger(__name__)


class StartEvent(Trigger):
    """What a rule of EventBridge, or a pipe, sends to the worker.

    id: id of the event; events with the same id start one task. data: JSON for the agent, in a part of its
    own.
    """

    agent: str
    id: str = Field(min_length=1, max_length=512)
    message: str = "An event occurred."
    data: Any = None
    owner: str = Field(default="events", pattern=OWNER_PATTERN)


@dataclass(frozen=True, slots=True)
class AgentSchedule:
    """A schedule of an agent."""

    agent: str
    schedule: Schedule

    @property
    def mark(self) -> tuple[str, str]:
        """Agent and schedule, as ScheduleMarks takes them. The times are part of them: during a canary, the
        version before moves the mark of its own times, and must not move that of changed ones."""
        schedule = self.schedule
        return self.agent, f"{schedule.id}#{schedule.cron}#{schedule.timezone}"


class Triggers:
    """Starts the turns of schedules and events.

    marks: when each schedule was looked at last. url: base URL of the deployment, for turns that give out
    URLs; "" = unknown.
    """

    def __init__(
        self, store: Store, marks: ScheduleMarks, agents: Agents, messages: Messages, url: str = ""
    ) -> None:
        self._store = store
        self._marks = marks
        self._agents = agents
        self._messages = messages
        self._url = url

    def __iter__(self) -> Iterator[AgentSchedule]:
        for profile in self._agents.values():
            for schedule in profile.card.schedules:
                yield AgentSchedule(profile.name, schedule)

    async def run_schedules(self) -> int:
        """Start what is due since each schedule's last look; returns the number of times that were due.
        Raises StoreError after all were tried, so that the next look tries the failed ones again."""
        now = self._store.clock()
        count, failure = 0, None
        for entry in self:
            telemetry.replace_ids(owner=entry.schedule.owner, agent=entry.agent, task_id="")
            try:
                count += await self._run_schedule(entry, now)
            except StoreError as error:
                failure = error
            except Exception as error:
                # One schedule must not hold up the others, and a later look cannot help. InvalidParams
                # quotes the card, not a client, so its text may be logged.
                reason = str(error) if isinstance(error, InvalidParams) else safe_text(error)
                logger.error("schedule %s of %s failed: %s", entry.schedule.id, entry.agent, reason)
                telemetry.measure({"FailedRecords": 1})
                try:
                    await threads.run(self._marks.advance, *entry.mark, now)
                except StoreError as store_error:
                    failure = store_error
        if failure is not None:
            raise failure
        return count

    async def _run_schedule(self, entry: AgentSchedule, now: float) -> int:
        schedule = entry.schedule
        last_look = await threads.run(self._marks.read, *entry.mark)
        if last_look is None:
            # Stored before anything is started: if that fails, the next look begins at the same time.
            last_look = now - FIRST_LOOK_SECONDS
            await threads.run(self._marks.advance, *entry.mark, last_look)
        after = max(last_look, now - max(60 * schedule.catch_up_minutes, LATE_LOOK_SECONDS))
        times = cron.times_between(schedule.cron, schedule.timezone, after, now)
        for time in times:
            task_id = await self._start(entry, time, timestamp(time))
            logger.info("schedule %s of %s started task %s", schedule.id, entry.agent, task_id)
        await threads.run(self._marks.advance, *entry.mark, now)
        return len(times)

    async def fire(self, agent: str, schedule_id: str, key: str) -> str:
        """Start a schedule by hand, now; returns the id of its task. Calls with the same key start one task.

        Raises RouteNotFound if there is no such schedule, and what `Messages.send` raises.
        """
        for entry in self:
            if (entry.agent, entry.schedule.id) == (agent, schedule_id):
                return await self._start(entry, self._store.clock(), f"by hand {key}")
        names = ", ".join(f"{entry.agent}/{entry.schedule.id}" for entry in self) or "none"
        raise RouteNotFound(f"agent {agent!r} has no schedule {schedule_id!r}. Schedules: {names}")

    def describe(self) -> list[Mapping[str, Json]]:
        """The schedules, each with its next time, as JSON."""
        now = self._store.clock()
        return [
            {
                "agent": entry.agent,
                "id": entry.schedule.id,
                "cron": entry.schedule.cron,
                "timezone": entry.schedule.timezone,
                "owner": entry.schedule.owner,
                "next": timestamp(next(cron.times_after(entry.schedule.cron, entry.schedule.timezone, now))),
            }
            for entry in self
        ]

    async def start_event(self, fields: Json) -> str:
        """Start the turn of an event; returns the id of its task. Raises ConfigurationError for fields that
        do not form a StartEvent, an unknown agent, arguments that do not fit the skill, or what a message
        cannot have, and what `Messages.send` raises."""
        try:
            # Lambda's JSON may have numbers, depths and halves of characters that no message may have.
            strictjson.loads(json.dumps(fields).encode())
        except ParseError as error:
            raise ConfigurationError(f"the event's `start` cannot be sent: {error}") from None
        try:
            event = StartEvent.model_validate(fields)
        except ValidationError as error:
            problems = "; ".join(
                f"{excerpt('.'.join(map(str, detail['loc']))) or 'the input'}: {detail['msg']}"
                for detail in error.errors()
            )
            raise ConfigurationError(
                f"the event's `start` is wrong: {problems}. docs/background-work.md shows its fields"
            ) from None
        try:
            profile = self._agents.find(event.agent)
        except RouteNotFound as error:  # the rule names it, so the log may, too
            raise ConfigurationError(f"the event's `start`: {error}") from None
        agent, skill_ids = profile.name, {skill.id for skill in profile.card.all_skills}
        if event.skill is not None and event.skill not in skill_ids:
            raise ConfigurationError(
                f"agent {agent} has no skill {excerpt(event.skill)!r}: write one of {sorted(skill_ids)}"
            )
        await self._check_arguments(agent, event)
        parts = [Part(text=event.message), *([Part(data=event.data)] if event.data is not None else [])]
        try:
            return await self._send(agent, event, parts, f"event {event.id}", {EVENT_KEY: {"id": event.id}})
        except (InvalidParams, PushNotificationNotSupported) as error:  # of what the rule says
            raise ConfigurationError(f"the event's `start`: {error}") from None

    async def _check_arguments(self, agent_name: str, event: StartEvent) -> None:
        """Raises ConfigurationError for arguments that the skill does not take: it would not get them, or its
        task would ask for others. Arguments of schedules are checked when the agent is loaded."""
        if event.skill is None:
            if event.arguments:
                raise ConfigurationError("the event's `start` has arguments: name their `skill`, too")
            return
        agent_import = self._agents.start(agent_name)
        await asyncio.wait({asyncio.wrap_future(agent_import)})
        with suppress(Unavailable):  # the turn waits for an agent that cannot be imported now
            skill = agent_of(agent_import).skills[event.skill]
            # The data, the message, or the owner may have those that are missing.
            if problem := skill.problem_of(event.arguments, is_complete=False):
                raise ConfigurationError(f"the event's `start`: {problem}")

    async def _start(self, entry: AgentSchedule, time: float, key: str) -> str:
        schedule = entry.schedule
        metadata = {SCHEDULE_KEY: {"id": schedule.id, "time": timestamp(time)}}
        parts = [Part(text=schedule.message)]
        return await self._send(entry.agent, schedule, parts, f"schedule {schedule.id} {key}", metadata)

    async def _send(
        self,
        agent: str,
        trigger: Trigger,
        parts: list[Part],
        key: str,
        metadata: dict[str, Json],
    ) -> str:
        """Send a message as the trigger's owner. key: messages with the same key start one task."""
        namespace = Namespace(trigger.owner, agent)
        # An Idempotency-Key counts forever, not only for the repeat window of equal bytes.
        identity = RequestIdentity.of(namespace, "trigger", key.encode(), key)
        if trigger.skill is not None:
            metadata = {**metadata, **intent_metadata(trigger.skill, trigger.arguments)}
        message = Message(messageId=identity.key, role=Role.USER, parts=parts, metadata=metadata)
        configuration = SendMessageConfiguration(returnImmediately=True)
        if trigger.webhook is not None:
            configuration["taskPushNotificationConfig"] = {"url": trigger.webhook}
            if trigger.token is not None:
                configuration["taskPushNotificationConfig"]["token"] = trigger.token
        telemetry.replace_ids(owner=namespace.owner, agent=namespace.agent, task_id=identity.task_id())
        # The deployment is the client here, and knows the agent's extensions.
        extensions = self._agents[agent].card.required_extensions
        caller = Caller(namespace.owner, "trigger")
        call = MessageCall(
            namespace, identity, caller, wire_name="1.0", extensions=extensions, base_url=self._url
        )
        response = await self._messages.send(
            call, SendMessageRequest(message=message, configuration=configuration)
        )
        return response["task"]["id"]
