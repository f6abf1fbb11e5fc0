"""A skill: a function, and how a message becomes its arguments."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType, NoneType
from typing import Any, Literal, TypeVar, get_origin, overload

from a2a_lambda import mistakes, strictjson
from a2a_lambda.agent.outputs import Ask, AskArgument
from a2a_lambda.agent.skills.annotations import hints_of, members_of, signature
from a2a_lambda.agent.skills.parameters import (
    Parameter,
    text_of_limits,
    text_of_type,
    values_of,
)
from a2a_lambda.agent.turn import Turn
from a2a_lambda.errors import (
    AgentMistake,
    ConfigurationError,
    ImportFailed,
    ParseError,
    error_text,
    excerpt,
)
from a2a_lambda.protocol.alibaba_metadata import slot_text
from a2a_lambda.protocol.card import CardSkill
from a2a_lambda.protocol.model import Json

Function = TypeVar("Function", bound=Callable[..., Any])
Choice = Callable[..., Any] | str | None
Router = TypeVar("Router", bound=Callable[[Turn], Choice | Awaitable[Choice]])

SKILL_ATTRIBUTE = "__a2a_skill__"
ROUTE = "__a2a_route__"


@overload
def skill(function: Function, /) -> Function: ...
@overload
def skill(id: str | None = None, /, *, default: bool = False) -> Callable[[Function], Function]: ...
def skill(target: Any = None, /, *, default: bool = False, **others: Any) -> Any:
    """Make a function a skill of its agent. The function itself does not change.

    The skill's id is the function's name with `-` for `_`, or the id given here. The default skill answers
    messages that name no intent. An agent's only skill is its default.
    """

    def mark(function: Any, id: str | None = None) -> Any:
        if not inspect.isroutine(function):
            name = getattr(function, "__name__", repr(function))
            kind = "a class" if inspect.isclass(function) else "not a function"
            raise ConfigurationError(f"@skill is for functions, but {name} is {kind}: add it to a `def`")
        setattr(function, SKILL_ATTRIBUTE, (id or function.__name__.replace("_", "-"), default))
        return function

    for name in others:
        advice = mistakes.did_you_mean(name, ["default"])
        if name == "id":
            advice = ': write @skill("my-skill")'
        elif name in CardSkill.model_fields:
            advice = f": write `{name}: …` in card.yaml"
        raise ConfigurationError(f"@skill has no {name!r}{advice}")
    if callable(target):
        return mark(target)
    if not (target is None or isinstance(target, str)):
        raise ConfigurationError(f'a skill\'s id must be a string, not {target!r}: write @skill("my-skill")')
    return lambda function: mark(function, target)


def route(function: Router) -> Router:
    """Make a function the agent's router. For a message that names no intent, it gets the turn and returns
    the skill to call, or its id, or None for the default skill."""
    setattr(function, ROUTE, True)
    return function


class Skill:
    """A function made a skill.

    turn_name: name of the parameter that takes the turn; None = there is none. is_async: see `is_async`.
    Raises ConfigurationError if a parameter has no type, or one that cannot be read.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.id: str
        self.default: bool
        self.id, self.default = getattr(function, SKILL_ATTRIBUTE)
        self.is_async = is_async(function)
        self.turn_name: str | None = None
        self.parameters: list[Parameter] = []
        self._where = location = f"{mistakes.source_of(function)}: skill {self.id}"
        try:
            hints = hints_of(function)
        except Exception as error:  # a type hint is code, so it may raise anything
            summary = f"{location}: its type hints raise {type(error).__name__}"
            raise ImportFailed(summary, f": {error_text(error)}") from error
        self._returns: Any = hints.get("return")
        for name, parameter in signature(function).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise ConfigurationError(
                    f"{location}: parameter {name} must be a plain named parameter: remove the `*` before it,"
                    " or the `/` after it; a decorator needs functools.wraps"
                )
            if name == "turn" or Turn in members_of(hints.get(name)):
                if self.turn_name is not None:
                    raise ConfigurationError(
                        f"{location}: parameters {self.turn_name} and {name} both get the turn: remove one"
                    )
                self.turn_name = name
                if not _fits_turn(hints.get(name, Turn)):
                    raise ConfigurationError(
                        f"{location}: the parameter turn always gets the turn: write `turn: Turn`, and read"
                        " the message's text from turn.text, or rename the parameter"
                    )
            else:
                self.parameters.append(Parameter.of(parameter, hints, location))
        for each in self.parameters:
            if each.is_required and NoneType in members_of(each.hint):
                mistakes.hints.info(
                    "%s: the kit asks for %s, because it has no default: write `= None` if it may be absent",
                    location,
                    each.name,
                )
        required_names = [parameter.name for parameter in self.parameters if parameter.is_required]
        if self.turn_name is None and required_names in (["message"], ["text"]):
            mistakes.hints.info(
                "%s asks for its argument %s. For the message's text, write `turn: Turn` instead, and read"
                " turn.text",
                location,
                required_names[0],
            )

    def read_message(self, turn: Turn, asked_name: str | None) -> tuple[dict[str, Json], str]:
        """Values for parameters, from the message's data parts, or from its text if that is a JSON object;
        and the text, if it is the user's answer. asked_name: the parameter that was asked for."""
        text, objects = turn.text.strip(), [value for value in turn.data if isinstance(value, dict)]
        text_object: Any = None
        if self.parameters and text.startswith("{"):
            text_object = {}
            with suppress(ParseError):
                text_object = strictjson.loads(text.encode())
        parameter = next((parameter for parameter in self.parameters if parameter.name == asked_name), None)
        is_answer = (
            text_object is not None
            and parameter is not None
            and self._is_whole_answer(parameter, text, text_object)
        )
        if text_object and not objects and not is_answer:
            objects.append(text_object)
        names = {parameter.name for parameter in self.parameters}
        values = {
            name: value
            for mapping in objects
            for name, value in mapping.items()
            if name in names and value is not None
        }
        if parameter is not None and not text and not values and len(turn.data) == 1:
            [value] = turn.data  # the answer itself; if it does not fit, the question repeats with the reason
            is_value = self._is_object(parameter) if isinstance(value, dict) else value is not None
            # A skill that asked for a parameter with a default may read the data itself.
            if is_value and (parameter.is_required or parameter.takes(slot_text(value))):
                values = {parameter.name: value}
        has_arguments = text_object is not None and bool(values) and not is_answer
        return values, "" if has_arguments or not text else turn.text

    def _is_whole_answer(self, parameter: Parameter, text: str, text_object: Mapping[str, Json]) -> bool:
        """Whether a text, which is a JSON object, answers the question for a parameter as it is. Otherwise it
        is an object of arguments.

        The object may have a field with the parameter's own name. Then it is an object of arguments if that
        field's value fits the parameter, or if no value of the parameter has such a field.
        """
        if parameter.name in text_object:
            has_field = parameter.name in self._property(parameter.name).get("properties", {})
            if not has_field or parameter.takes(slot_text(text_object[parameter.name])):
                return False
        return self._is_object(parameter) and parameter.takes(text)

    def _is_object(self, parameter: Parameter) -> bool:
        """Whether a parameter may be an object as a whole."""
        prop = self.input_schema["properties"][parameter.name]
        # A union whose members are distinguished by a field is a oneOf.
        kinds = [kind for member in prop.get("anyOf", [prop]) for kind in member.get("oneOf", [member])]
        return any("$ref" in kind or kind.get("type") == "object" for kind in kinds)

    def with_choices(self, question: Ask) -> Ask:
        """The question with the choices of the parameter that it fills, unless it has some. Raises
        AgentMistake if it names a parameter that the skill does not have."""
        names = [] if question.fills is None else [question.fills]
        # A log has this error, and known names may be what a user has said: `known=turn.data[0]`.
        problem = self.problem_of_names(names) or self.problem_of_known(question.known)
        if problem:
            raise AgentMistake(f"{type(question).__name__}: {problem}")
        if question.choices or question.fills is None:
            return question
        return replace(question, choices=self._choices(question.fills))

    def arguments(
        self, slots: Mapping[str, Sequence[str]], values: Mapping[str, Json] = MappingProxyType({})
    ) -> dict[str, Any] | AskArgument:
        """Arguments from their values, else from their texts; or the question for the first that is missing
        or does not fit."""
        result: dict[str, Any] = {}
        for parameter in self.parameters:
            value = values.get(parameter.name)
            texts = slots.get(parameter.name) if value is None else [slot_text(value)]
            if texts:
                try:
                    result[parameter.name] = parameter.read(texts, value)
                except ValueError:
                    reason = f" ({problem})" if (problem := parameter.problem_in(texts[0])) else ""
                    return self._ask(parameter, f"“{excerpt(texts[0])}” cannot be used{reason}. ")
            elif parameter.is_required:
                return self._ask(parameter)
            elif (default := parameter.default_of_call()) is not parameter.default:
                result[parameter.name] = default
        return result

    def problem_of(self, texts: Mapping[str, str], *, is_complete: bool) -> str:
        """What is wrong with arguments that are known before a call, without their values, because a log may
        have it; "" = nothing. is_complete: the call has no others."""
        if problem := self.problem_of_names(texts):
            return problem
        for parameter in self.parameters:
            name, text = parameter.name, texts.get(parameter.name)
            if text is None and parameter.is_required and is_complete:
                return f"skill {self.id} needs the argument {name}: write `arguments: {{ {name}: … }}`"
            try:
                if text is not None:
                    parameter.read([text])
            except ValueError:
                choices, limits = ", ".join(self._choices(name)), self._limits(name)
                advice = f": use one of {choices}" if choices else f": it must be {limits}" if limits else ""
                return f"the argument {name} of skill {self.id} does not fit{advice}"
        return ""

    def problem_of_names(self, names: Iterable[str]) -> str:
        """Which name is not a parameter's; "" if all are."""
        for name in names:
            if advice := self._advice_on(name):
                return f"skill {self.id} has no parameter {excerpt(name)!r}{advice}"
        return ""

    def problem_of_known(self, known: Iterable[str]) -> str:
        """Which of the names that a question knows is not a parameter's; "" if all are. The text is logged,
        so it does not quote the name, which may be a user's word."""
        for number, name in enumerate(known, 1):
            if advice := self._advice_on(name):
                return f"name {number} in known is not a parameter of skill {self.id}{advice}"
        return ""

    def _advice_on(self, name: str) -> str:
        """What to write instead of a name that is not a parameter's; "" if it is one."""
        own_names = [parameter.name for parameter in self.parameters]
        if name in own_names:
            return ""
        return f"{mistakes.did_you_mean(name, own_names)} It has: {', '.join(own_names) or 'none'}"

    def _ask(self, parameter: Parameter, problem: str = "") -> AskArgument:
        question = f"{problem}Please tell me: {parameter.description or parameter.name}."
        if choices := self._choices(parameter.name):
            question += f" Choose one of {', '.join(choices)}."
        # A type without limits is clear from the question, unless it is JSON, or an answer has not fitted.
        is_json = self._property(parameter.name).get("type") in ("array", "object")
        needs_type = is_json or problem or self._limits(parameter.name, has_type=False)
        if needs_type and not choices and (limits := self._limits(parameter.name)):
            question += f" It must be {limits}."
        return AskArgument(question, parameter.name, choices=choices)

    def _choices(self, name: str) -> tuple[str, ...]:
        """Values of a parameter, if there are only so many."""
        prop = self._property(name)
        options = [values_of(option) for option in prop.get("anyOf", [prop])]
        values = [value for option in options for value in option if value is not None]
        return tuple(map(slot_text, values)) if all(options) else ()

    def _property(self, name: str) -> Mapping[str, Any]:
        """Schema of a parameter, including an Enum or a model, which has a name of its own."""
        schema: Mapping[str, Mapping[str, Any]] = self.input_schema
        prop: Mapping[str, Any] = schema["properties"][name]
        return schema["$defs"][prop["$ref"].rpartition("/")[2]] if "$ref" in prop else prop

    def _limits(self, name: str, *, has_type: bool = True) -> str:
        """What a parameter's value must be; "" if its schema does not say. has_type: with its type."""
        schema = self._property(name)
        return ", ".join(filter(None, (text_of_type(schema) if has_type else "", text_of_limits(schema))))

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the parameters, as for a tool of MCP. Raises ConfigurationError."""
        from a2a_lambda.agent.skills.schemas import make_input_schema  # a deployment has it in its manifest

        return make_input_schema(self.id, self.parameters, self._where)

    @cached_property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON Schema of what the skill returns, if its annotation is one class of objects: a model, a
        dataclass or a TypedDict; else None."""
        from a2a_lambda.agent.skills.schemas import make_output_schema

        return make_output_schema(self._returns)


def _fits_turn(hint: Any) -> bool:
    """Whether `turn` may have this type hint. A class must be Turn, a base class of it, or a protocol. A
    TypeVar, a NewType or a name that cannot be resolved is accepted, because it may stand for any type."""
    for member in members_of(hint):
        kind = get_origin(member) or member
        is_class = isinstance(kind, type) and not getattr(kind, "_is_protocol", False)
        if kind is not Literal and (not is_class or kind in (Any, *Turn.__mro__)):
            return True
    return False


def is_async(function: Any) -> bool:
    """Whether a call of the function does not block: it returns a coroutine or an asynchronous generator."""
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
