"""An agent: a folder with card.yaml and agent.py.

    message --route--> skill --slots--> arguments --execute--> outputs

It needs no HTTP and no table. To test an agent: `await Agent.load(folder).run("…")`.
"""

import inspect
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from a2a_lambda import agent_threads, mistakes, strictjson
from a2a_lambda.agent import configuration, executor
from a2a_lambda.agent.outputs import Ask, AskArgument, Batch, File
from a2a_lambda.agent.skills.annotations import signature
from a2a_lambda.agent.skills.skill import ROUTE, SKILL_ATTRIBUTE, Skill, is_async
from a2a_lambda.agent.turn import Turn
from a2a_lambda.durable.engine import Exchange, OperationNotice
from a2a_lambda.errors import AgentMistake, ConfigurationError
from a2a_lambda.protocol.alibaba_metadata import intents, slot_text
from a2a_lambda.protocol.caller import LOCAL_CALLER, Caller
from a2a_lambda.protocol.card import Card
from a2a_lambda.protocol.model import Json, Part
from a2a_lambda.protocol.profile import Profile
from a2a_lambda.tasks.head import Pending

if TYPE_CHECKING:
    from a2a_lambda.agent.trial import Answer


class _Call(NamedTuple):
    """A skill, and the arguments that it has before the message's parts are read.

    slots: texts by parameter. asked_name: the parameter that the message's text answers; None = the text
    answers none. pending_values: JSON values by parameter, from earlier messages.
    """

    skill: Skill
    slots: dict[str, list[str]]
    asked_name: str | None = None
    pending_values: Mapping[str, Json] = MappingProxyType({})

    def take_arguments(self, turn: Turn) -> dict[str, Any] | AskArgument:
        """The skill's arguments, or the question for the first one that is missing or does not fit. Records
        in the turn which skill is called, and with which texts and values."""
        skill, slots = self.skill, dict(self.slots)
        values, answer = skill.read_message(turn, self.asked_name)
        if self.asked_name is not None and answer:
            slots[self.asked_name] = [answer]
        # Arguments in the message's parts win over the intent's, over those that are pending, and over the
        # text as an answer.
        values = {name: value for name, value in self.pending_values.items() if name not in slots} | values
        slots |= {name: [slot_text(value)] for name, value in values.items()}
        # A copy, because the skill may change its message.
        turn.skill, turn.slots, turn.json_arguments = skill.id, slots, strictjson.copy_of(values)
        return skill.arguments(slots, values)


class Agent:
    """One agent, imported. Its name is that of its folder."""

    def __init__(self, name: str, card: Card, module: ModuleType, modified_at: float = 0.0) -> None:
        self.name = name
        self.card = card
        self._modified_at = modified_at
        # Each once, whatever names it has. A proxy or a mock seems to have every attribute, so values count.
        members = {id(member): member for member in vars(module).values()}.values()
        marked_functions = [
            member for member in members if type(getattr(member, SKILL_ATTRIBUTE, None)) is tuple
        ]
        skills = [Skill(member) for member in _outermost(marked_functions)]
        routes = _outermost([member for member in members if getattr(member, ROUTE, None) is True])
        self.skills = {skill.id: skill for skill in skills}
        self._route = routes[0] if routes else None
        location = mistakes.short_path(module.__file__ or module.__name__)
        for function in routes:
            try:
                signature(function, follow_wrapped=False).bind(None)
            except TypeError:
                raise ConfigurationError(
                    f"{mistakes.source_of(function)}: a function with @route takes only the turn: write"
                    f" `def {function.__name__}(turn)`"
                ) from None
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise ConfigurationError(
                    f"{mistakes.source_of(function)}: @route returns one skill: write `return`, not `yield`"
                )
        if len(routes) > 1:
            raise ConfigurationError(f"{location}: several functions have @route: remove it from all but one")
        for skill in skills:
            if skill is not self.skills[skill.id]:
                other = mistakes.source_of(self.skills[skill.id].function)
                raise ConfigurationError(
                    f"{mistakes.source_of(skill.function)}: this function and the one at {other} are both the"
                    f" skill {skill.id!r}: give one of them another id"
                )
        self._check(location)
        defaults = [skill for skill in self.skills.values() if skill.default] or list(self.skills.values())
        self._default = defaults[0]

    @classmethod
    def load(cls, folder: str | os.PathLike[str], card: Card | None = None) -> "Agent":
        """The agent in a folder. card: if it is known, card.yaml is not read. Raises ConfigurationError,
        including for whatever agent.py raises."""
        path = Path(os.path.abspath(folder))  # a link keeps its name, by which the agent is called
        if card is None:
            from a2a_lambda.agent.card_file import read_card

            card = read_card(path / "card.yaml")
        from a2a_lambda.agent.agent_module import import_agent

        module = import_agent(path)
        modified_at = max(file.stat().st_mtime for file in (path / "card.yaml", path / "agent.py"))
        try:
            return cls(path.name, card, module, modified_at)
        except ConfigurationError:
            raise
        except Exception as error:  # a member of the module, such as a lazy proxy, may raise anything
            raise mistakes.of_import(error, path) from error

    @cached_property
    def profile(self) -> Profile:
        """Raises ConfigurationError if a parameter's type has no JSON Schema."""
        schemas = {skill.id: skill.input_schema for skill in self.skills.values() if skill.parameters}
        return Profile(
            name=self.name,
            card=self.card,
            input_schemas=schemas,
            modified_at=self._modified_at,
            default_skill="" if self._route else self._default.id,
            output_schemas={
                skill.id: skill.output_schema for skill in self.skills.values() if skill.output_schema
            },
            text_skills=frozenset(skill.id for skill in self.skills.values() if skill.turn_name),
        )

    async def perform(self, turn: Turn) -> AsyncGenerator[Batch, None]:
        """Outputs of a turn. Raises what the skill raises."""
        call = self._find_call(turn)
        if call is None:
            skill = self._default
            if self._route is not None:
                skill, exchanges = await self._route_turn(turn, self._route)
                if exchanges:
                    yield Batch(exchanges, is_last=False)
            call = _Call(skill, {})
        skill = call.skill
        take_arguments = partial(call.take_arguments, turn)
        # The types of parameters are the agent's code, which may block, or end with SystemExit.
        arguments = (
            await agent_threads.call_in_thread(take_arguments, f"skill {skill.id}")
            if skill.parameters
            else take_arguments()
        )
        if skill.id not in self.card.durable_skills:
            turn.engine = None
        if isinstance(arguments, Ask):
            yield Batch((arguments,), is_last=True)
            return
        if turn.pending is not None:
            turn.take_call()
        turn_argument = {} if skill.turn_name is None else {skill.turn_name: turn}
        code = partial(skill.function, **turn_argument, **arguments)
        outputs = executor.execute(code, turn, is_async=skill.is_async)
        async with aclosing(outputs):
            async for batch in outputs:
                if not any(isinstance(output, Ask) for output in batch.outputs):
                    yield batch
                    continue
                with_choices = [
                    skill.with_choices(output) if isinstance(output, Ask) else output
                    for output in batch.outputs
                ]
                yield replace(batch, outputs=with_choices)

    def _find_call(self, turn: Turn) -> "_Call | None":
        """The call that a message names, or whose question it answers; None if it does neither."""
        pending = turn.pending
        named_intents = intents(turn.metadata) if turn.metadata else []
        intent = next((intent for intent in named_intents if intent.skill in self.skills), None)
        skill_id, new_slots = pending["skill"] if pending is not None else "", dict[str, list[str]]()
        if intent is not None:
            skill_id, new_slots = intent.skill, {name: list(texts) for name, texts in intent.slots.items()}
        if skill_id not in self.skills:
            if named_intents:
                # The log does not quote the name, because it may be a user's words.
                hint = mistakes.did_you_mean(named_intents[0].skill, self.skills)
                mistakes.hints.info("a message names a skill that agent %s does not have%s", self.name, hint)
            return None
        if pending is None or pending["skill"] != skill_id:
            return _Call(self.skills[skill_id], new_slots)
        # A client may name the skill in each message. Without a slot for what the skill has asked, the text
        # is the answer.
        asked_name = None if pending["asks"] in new_slots else pending["asks"]
        slots = {**pending["slots"], **new_slots}
        return _Call(self.skills[skill_id], slots, asked_name, pending.get("values", {}))

    def pending_after(self, turn: Turn, question: Ask) -> Pending:
        """What to keep of a turn that ends with a question."""
        texts_by_name = turn.slots | {name: [text] for name, text in question.known.items()}
        parameters = {parameter.name for parameter in self.skills[turn.skill].parameters} - {question.fills}
        values = {
            name: value
            for name, value in turn.json_arguments.items()
            if name in parameters and name not in question.known
        }
        slots = {
            name: texts for name, texts in texts_by_name.items() if name in parameters and name not in values
        }
        pending = Pending(skill=turn.skill, slots=slots, asks=question.fills)
        if values:
            pending["values"] = values
        if isinstance(question, AskArgument) and not turn.answering:
            pending["call"] = turn.call
        return pending

    async def run(
        self,
        text: str = "",
        *,
        parts: Sequence[Part] | None = None,
        files: Sequence[File | Path] = (),
        skill: str | None = None,
        slots: Mapping[str, str] = MappingProxyType({}),
        metadata: Mapping[str, Json] = MappingProxyType({}),
        caller: Caller = LOCAL_CALLER,
        after: "Answer | None" = None,
        replies: Mapping[str, Any] = MappingProxyType({}),
        secrets: Mapping[str, str] = MappingProxyType({}),
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> "Answer":
        """Run one turn, for tests. Nothing is stored, and what the skill raises is raised here. Pauses of a
        durable skill take no time.

        files: files of the message, in addition to its text: File("sums.csv", b"1,2"), or the path of one.
        skill, slots: the intent that a client names. after: the answer before this message. The conversation,
            the memory and an open question continue from there. caller: who sends this message.
        replies: by name, what ends each wait of a durable skill: a string, another JSON value, or
            TimeoutError. Without one, the answer is `input-required` or `working`. The next message, with
            `after`, is the reply, if the wait takes messages. The second wait of a name is called `name#2`,
            and one in the first branch of `turn.parallel` is called `parallel/0/name`.
        secrets, settings: values by name. All others come from the environment, or from .env.
        Raises ValueError for an unknown skill or slot, for text together with parts, or if nothing ends a
        wait of `after`; TypeError for a file that is neither a File nor a Path.
        """
        from a2a_lambda.agent import trial  # a function never runs it

        _ = self.profile  # `make build` refuses an agent without schemas, so its test fails, too
        message = trial.make_message(self, text, parts, files, skill=skill, slots=slots, metadata=metadata)
        config = configuration.read_environment(configuration.variables_of_test(secrets, settings))
        return await trial.run(self, message, after, replies, config, caller=caller)

    async def _route_turn(
        self, turn: Turn, route: Callable[[Turn], Any]
    ) -> tuple[Skill, tuple[Exchange, ...]]:
        """The skill that the agent's router chooses, which is the default skill if it returns nothing; and
        what the user has replied to the router."""
        exchanges: list[Exchange] = []
        outputs = executor.execute(partial(route, turn), turn, is_async=is_async(route))
        async with aclosing(outputs):
            async for batch in outputs:
                for output in batch.outputs:
                    if isinstance(output, Exchange):
                        exchanges.append(output)
                    if isinstance(output, OperationNotice | Exchange):  # of a step or a wait of the router
                        continue
                    skill_id = getattr(output, SKILL_ATTRIBUTE, (output,))[0]
                    if not isinstance(skill_id, str) or skill_id not in self.skills:
                        # The text itself may be the user's, and must not reach a log.
                        hint = mistakes.did_you_mean(output, self.skills) if isinstance(output, str) else "."
                        raise AgentMistake(
                            f"@route must return a skill, or the id of one ({', '.join(self.skills)}). It"
                            f" returned another value, of type {type(output).__name__}{hint}"
                        )
                    return self.skills[skill_id], tuple(exchanges)
        return self._default, tuple(exchanges)

    def source_of(self, turn: Turn) -> str:
        """File and line of the function that has a turn: its skill, or the router before one is chosen."""
        skill = self.skills.get(turn.skill)
        return mistakes.source_of(
            skill.function if skill is not None else self._route or self._default.function
        )

    def _check(self, location: str) -> None:
        ids = {skill.id for skill in self.card.all_skills}
        if ids and not self.skills:
            raise ConfigurationError(
                f"{location}: no function has @skill: write it above each skill's `def`, at the top level"
            )
        if missing_ids := sorted(ids - self.skills.keys()):
            candidates = sorted(self.skills.keys() - ids)
            hyphenated_id = missing_ids[0].replace("_", "-")
            if hyphenated_id in candidates:
                raise ConfigurationError(
                    f"{location}: card.yaml has the skill {missing_ids[0]!r}, but its function has the id"
                    f" {hyphenated_id!r}: write `id: {hyphenated_id}`, or @skill({missing_ids[0]!r})"
                )
            raise ConfigurationError(
                f"{location}: card.yaml has the skill {missing_ids[0]!r}, but no function at the top level of"
                f" agent.py has that id{mistakes.did_you_mean(missing_ids[0], candidates)} The functions"
                f" have the ids: {', '.join(self.skills)}. Correct the id in card.yaml, or write @skill("
                f'"{missing_ids[0]}") above a function'
            )
        if unlisted_ids := sorted(self.skills.keys() - ids):
            raise ConfigurationError(
                f"{location}: the skill {unlisted_ids[0]!r} is not in card.yaml: describe it there,"
                f" as in `- {{ id: {unlisted_ids[0]}, name: …, description: … }}`"
            )
        for skill in self.skills.values():
            if skill.id in self.card.durable_skills and not skill.is_async:
                raise ConfigurationError(
                    f"{location}: skill {skill.id} is durable, so it must be asynchronous: write"
                    f" `async def {skill.function.__name__}`"
                )
        if sum(skill.default for skill in self.skills.values()) > 1:
            raise ConfigurationError(
                f"{location}: several skills have default=True: remove it from all but one"
            )
        for schedule in self.card.schedules:
            # A schedule without a skill has no arguments. A message that is a JSON object has others.
            scheduled_skill = self.skills.get(schedule.skill or "")
            is_complete = not schedule.message.lstrip().startswith("{")
            if scheduled_skill and (
                problem := scheduled_skill.problem_of(schedule.arguments, is_complete=is_complete)
            ):
                card = location.removesuffix("agent.py") + "card.yaml"
                raise ConfigurationError(f"{card}: schedule {schedule.id}: {problem}")


def _outermost(functions: list[Callable[..., Any]]) -> list[Callable[..., Any]]:
    """The functions that no other one in the list wraps. `functools.wraps` gives a wrapper the mark, too;
    one with a mark of its own is another skill."""
    inner_ids: set[int] = set()
    for function in functions:
        mark, inner = getattr(function, SKILL_ATTRIBUTE, None), getattr(function, "__wrapped__", None)
        while inner is not None and id(inner) not in inner_ids:
            if getattr(inner, SKILL_ATTRIBUTE, None) == mark:
                inner_ids.add(id(inner))
            inner = getattr(inner, "__wrapped__", None)
    return [function for function in functions if id(function) not in inner_ids]
