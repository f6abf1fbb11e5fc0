"""An agent: a folder with card.yaml and agent.py, and one turn of it.

    message --route--> skill --slots--> arguments --play--> outputs

No HTTP, no table: `await Agent.load(folder).run("…")` is all a test of an agent needs.
"""

import importlib.util
import inspect
import os
import sys
import types
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from a2a_lambda import mistakes, strictjson
from a2a_lambda.agent import executor
from a2a_lambda.agent.event_builder import EventBuilder
from a2a_lambda.agent.outputs import Ask, Batch
from a2a_lambda.agent.skill import MARK, ROUTE, Skill
from a2a_lambda.agent.turn import Turn, conclude
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.protocol import card as cards
from a2a_lambda.protocol.alibaba_metadata import SUITE_EXTENSIONS, intents
from a2a_lambda.protocol.model import (
    Artifact,
    Event,
    Json,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    status,
    text_of,
    word,
)
from a2a_lambda.tasks.context import Context
from a2a_lambda.tasks.event_log import apply
from a2a_lambda.tasks.head import PENDING_BYTES, Pending


class Agent:
    """One agent.

    name: its folder's name. modified: Unix seconds of the last change to its files.
    """

    def __init__(self, name: str, card: cards.Card, module: ModuleType, modified: float = 0.0) -> None:
        self.name = name
        self.card = card
        self.modified = modified
        members = list(vars(module).values())
        self.skills = {
            skill.id: skill for skill in (Skill(member) for member in members if hasattr(member, MARK))
        }
        self._route = next((member for member in members if hasattr(member, ROUTE)), None)
        self._check(module)
        defaults = [skill for skill in self.skills.values() if skill.default] or list(self.skills.values())
        self._default = defaults[0]

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Agent":
        """Agent of a folder. Raises ConfigurationError, also if agent.py raises anything."""
        path = Path(folder).resolve()
        card = cards.read(path / "card.yaml")
        module = _import(path)
        modified = max(file.stat().st_mtime for file in (path / "card.yaml", path / "agent.py"))
        return cls(path.name, card, module, modified)

    @property
    def extension_uris(self) -> frozenset[str]:
        """Extensions a client may activate."""
        return SUITE_EXTENSIONS | {extension.uri for extension in self.card.extensions}

    @cached_property
    def takes_arguments(self) -> bool:
        """Whether a message may bring arguments as JSON: some skill has parameters."""
        return any(skill.parameters for skill in self.skills.values())

    @cached_property
    def input_schemas(self) -> dict[str, dict[str, Json]]:
        """JSON Schema of each skill that has parameters, by skill id. Raises ConfigurationError."""
        return {skill.id: skill.input_schema for skill in self.skills.values() if skill.parameters}

    async def perform(self, turn: Turn) -> AsyncGenerator[Batch, None]:
        """Outputs of one turn. Raises what the skill raises."""
        skill, slots, asks = self._named(turn)
        if skill is None:
            skill = await self._routed(turn)
        given = skill.fields(turn)
        if asks is not None and turn.text.strip():
            slots[asks] = [turn.text]
        slots |= given
        turn.skill, turn.slots = skill.id, slots
        arguments = skill.arguments(slots)
        if isinstance(arguments, Ask):
            yield Batch((arguments,), last=True)
            return
        chosen = arguments
        outputs = executor.execute(
            lambda: skill.call(turn, chosen), turn, asynchronous=_asynchronous(skill.function)
        )
        async with aclosing(outputs):
            async for batch in outputs:
                for output in batch.outputs:
                    if isinstance(output, Ask):
                        skill.check_question(output)
                yield batch

    def waiting(self, turn: Turn, asked: Ask) -> Pending:
        """What to keep of a turn that ends with a question."""
        known = turn.slots | {name: [text] for name, text in asked.known.items()}
        parameters = {parameter.name for parameter in self.skills[turn.skill].parameters} - {asked.fills}
        slots = {name: texts for name, texts in known.items() if name in parameters}
        if len(strictjson.dumps(slots)) > PENDING_BYTES:
            slots = {}  # too much to keep: they are asked for again
        return Pending(skill=turn.skill, slots=slots, asks=asked.fills)

    async def run(
        self,
        text: str = "",
        *,
        parts: Sequence[Part] | None = None,
        skill: str | None = None,
        slots: Mapping[str, str] = MappingProxyType({}),
        metadata: Mapping[str, Json] = MappingProxyType({}),
        after: "Answer | None" = None,
    ) -> "Answer":
        """One turn, for tests: nothing is stored and what the skill raises goes through.

        skill, slots: the intent a client names. after: the answer this message follows; the
        conversation, the memory and a question asked go on from there.
        Raises ValueError for a skill, or a slot, that there is not.
        """
        known = dict(metadata)
        if skill is not None:
            self._check_intent(skill, slots)
            named = [{"name": name, "value": value} for name, value in slots.items()]
            known["intentInfos"] = [{"intent": skill, "slots": named}]
        continued = after is not None and after.pending is not None
        turn = Turn(
            message=Message(
                messageId=str(uuid.uuid4()),
                role=Role.USER,
                parts=list(parts) if parts is not None else [Part(text=text)],
                metadata=known,
            ),
            agent=self.name,
            task_id=after.task["id"] if after and continued else str(uuid.uuid4()),
            context_id=after.task["contextId"] if after else str(uuid.uuid4()),
            context=after.context if after else Context(),
            pending=after.pending if after else None,
            id=str(uuid.uuid4()),
        )
        reply = EventBuilder(turn.task_id, turn.context_id)
        task = Task(id=turn.task_id, contextId=turn.context_id, status=status(TaskState.WORKING, 0))
        events: list[Event] = []
        async with aclosing(self.perform(turn)) as batches:
            async for batch in batches:
                events += reply.compose(batch)
                if reply.closing is not None:
                    break
        apply(task, events)
        if reply.closing is not None:
            task["status"] = reply.closing
        return Answer(
            task=task,
            events=events,
            context=conclude(turn.context, turn, reply.parts),
            pending=self.waiting(turn, reply.asked) if reply.asked else None,
        )

    def _named(self, turn: Turn) -> tuple[Skill | None, dict[str, list[str]], str | None]:
        """The skill the message names, or the one whose question it answers; the texts known for its
        parameters; and the parameter that the message's own text answers, if one."""
        pending = turn.pending
        for intent in intents(turn.metadata):
            if intent.skill in self.skills:
                known = pending["slots"] if pending and pending["skill"] == intent.skill else {}
                named = {name: list(texts) for name, texts in intent.slots.items()}
                return self.skills[intent.skill], known | named, None
        if pending is None or pending["skill"] not in self.skills:
            return None, {}, None
        return self.skills[pending["skill"]], dict(pending["slots"]), pending["asks"]

    async def _routed(self, turn: Turn) -> Skill:
        if self._route is None:
            return self._default
        function = self._route
        calls = executor.execute(lambda: function(turn), turn, asynchronous=_asynchronous(function))
        async with aclosing(calls):
            async for batch in calls:
                for chosen in batch.outputs:
                    return self.skills[getattr(chosen, MARK)[0]]
        return self._default

    def _check_intent(self, skill: str, slots: Mapping[str, str]) -> None:
        if skill not in self.skills:
            hint = mistakes.did_you_mean(skill, self.skills)
            raise ValueError(f"there is no skill {skill!r}{hint} There are: {', '.join(self.skills)}")
        parameters = [parameter.name for parameter in self.skills[skill].parameters]
        for name in slots:
            if name not in parameters:
                hint = mistakes.did_you_mean(name, parameters)
                has = ", ".join(parameters) or "none"
                raise ValueError(f"skill {skill} has no parameter {name!r}{hint} It has: {has}")

    def _check(self, module: ModuleType) -> None:
        where = mistakes.shown(module.__file__ or module.__name__)
        declared = {skill.id for skill in self.card.all_skills}
        if missing := sorted(declared - self.skills.keys()):
            known = sorted(self.skills.keys() - declared)
            raise ConfigurationError(
                f"{where}: card.yaml has the skill {missing[0]!r} but no function has that id:"
                f" put @skill on `def {missing[0].replace('-', '_')}(turn)`"
                f"{mistakes.did_you_mean(missing[0], known)}"
            )
        if extra := sorted(self.skills.keys() - declared):
            raise ConfigurationError(
                f"{where}: the skill {extra[0]!r} is not in card.yaml; describe it there"
            )
        if sum(skill.default for skill in self.skills.values()) > 1:
            raise ConfigurationError(f"{where}: two skills are marked default=True; one can be")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a turn came to. `events` as a client would see them, `context` as it would be stored."""

    task: Task
    events: list[Event]
    context: Context
    pending: Pending | None

    @property
    def state(self) -> str:
        """A2A's word: "completed", "input-required", "rejected"…"""
        return word(self.task["status"]["state"])

    @property
    def artifacts(self) -> list[Artifact]:
        return self.task.get("artifacts", [])

    @property
    def text(self) -> str:
        """The reply's text; of a question or a rejection, that text."""
        message = self.task["status"].get("message")
        return text_of(message["parts"] if message else self._reply["parts"])

    @property
    def data(self) -> list[Json]:
        """Structured values of the reply."""
        return [part["data"] for part in self._reply["parts"] if "data" in part]

    @property
    def commands(self) -> list[Json]:
        """Commands for the client."""
        found = [artifact.get("metadata", {}).get("commands", []) for artifact in self.artifacts]
        return [command for commands in found for command in commands]

    @property
    def _reply(self) -> Artifact:
        unnamed = [artifact for artifact in self.artifacts if "name" not in artifact]
        return unnamed[0] if unnamed else Artifact(artifactId="", parts=[])


def load_all(folder: Path) -> "dict[str, Agent]":
    """Agents of a folder by name, the default one first.

    Raises ConfigurationError when there is none, or when it is not clear which is the default.
    """
    found = [Agent.load(path.parent) for path in sorted(folder.glob("*/card.yaml"))]
    if not found:
        raise ConfigurationError(f"{folder}: no agent; an agent is a folder with card.yaml and agent.py")
    defaults = [agent for agent in found if agent.card.default] or found
    if len(defaults) > 1:
        names = ", ".join(agent.name for agent in defaults)
        raise ConfigurationError(f"{folder}: one card.yaml must say `default: true` ({names})")
    return {agent.name: agent for agent in sorted(found, key=lambda agent: agent is not defaults[0])}


def _asynchronous(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _import(folder: Path) -> ModuleType:
    """agent.py of a folder, as `agents.<name>.agent`, so that it may import its neighbours. Raises
    ConfigurationError."""
    path = folder / "agent.py"
    if not path.exists():
        raise ConfigurationError(f"{path}: not found; every agent folder has an agent.py")
    for stale in [name for name in sys.modules if name.startswith(f"agents.{folder.name}.")]:
        del sys.modules[stale]
    for name, place in (("agents", folder.parent), (f"agents.{folder.name}", folder)):
        package = types.ModuleType(name)
        package.__path__ = [str(place)]
        sys.modules[name] = package
    name = f"agents.{folder.name}.agent"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: an agent's module ends no process
        raise ConfigurationError(mistakes.of_import(error, folder)) from error
    return module
