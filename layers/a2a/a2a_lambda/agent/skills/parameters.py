"""Parameters of skills: how texts become arguments, and what JSON Schema says about them."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from enum import EnumType
from functools import cached_property
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import core_schema, to_jsonable_python

from a2a_lambda import strictjson
from a2a_lambda.agent.skills.annotations import members_of, without_alias
from a2a_lambda.errors import ConfigurationError, excerpt
from a2a_lambda.protocol.alibaba_metadata import slot_text
from a2a_lambda.protocol.model import Json
from a2a_lambda.tasks.head import CALL_BYTES

if TYPE_CHECKING:
    from a2a_lambda.agent.skills.size_limits import SizeLimits

LIMIT_TEXTS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters long",
    "maxLength": "at most {} characters long",
    "minItems": "at least {} entries long",
    "maxItems": "at most {} entries long",
    "multipleOf": "a multiple of {}",
    "pattern": "of the form {}",
}
"""What a value must be, by keyword of JSON Schema."""

TIME_FORMATS = ("date", "date-time", "time")

TEXT_ERRORS = (ArithmeticError, LookupError, ValueError)
"""What may be raised while a string that does not fit is read. A ValidationError is a ValueError, `decimal`
raises ArithmeticError, and a validator of the agent may raise any of them. Other errors are the agent's
mistakes."""

JSON_ERRORS = (*TEXT_ERRORS, AttributeError, TypeError)
"""The same for JSON: a validator of the agent may expect a string."""

SHORT_CHARACTERS = 10_000
"""Maximum length of an argument that needs no check by SizeLimits, all of whose limits are at least half as
many elements. Each element has two characters at least."""

ERROR_TYPES = frozenset(get_args(core_schema.ErrorType)) - {"value_error", "assertion_error"}
"""Errors in pydantic's own words."""

DECIMAL_ERRORS = frozenset({"decimal_max_digits", "decimal_max_places", "decimal_whole_digits"})
"""Errors of limits that no schema has: many validators cannot tell whether 19.99 is a multiple of 0.01."""

TYPE_TEXTS = {
    "integer": "a whole number",
    "number": "a number",
    "array": "a JSON list",
    "object": "a JSON object",
    "date": "a date such as 2026-12-24",
    "date-time": "a time such as 2026-12-24T18:00:00Z",
    "time": "a time such as 18:00:00",
    "uri": "a URL",
    "uuid": "a UUID",
    "duration": "a duration such as PT1H30M",
    "ipv4": "an IP address such as 192.0.2.1",
    "ipv6": "an IP address such as 2001:db8::1",
}
"""What a value must be, by its type or format in JSON Schema."""

EXAMPLES = {
    ("array", "string"): '["a", "b"]',
    ("array", "integer"): "[1, 2]",
    ("array", "number"): "[1, 2]",
    ("array", "boolean"): "[true, false]",
    ("object", "string"): '{"a": "b"}',
    ("object", "integer"): '{"a": 1}',
    ("object", "number"): '{"a": 1}',
    ("object", "boolean"): '{"a": true}',
}
"""Lists and objects, by their own type and that of their members."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a skill."""

    name: str
    hint: Any
    default: Any

    @classmethod
    def of(cls, parameter: inspect.Parameter, hints: Mapping[str, Any], location: str) -> "Parameter":
        """A function's parameter. Raises ConfigurationError.

        hints: the function's type hints. location: where the function is, as an error names it.
        """
        name = parameter.name
        if name == "self":
            raise ConfigurationError(
                f"{location}: a skill is a function, not a method: write it outside of its class"
            )
        if name not in hints:
            raise ConfigurationError(
                f"{location}: parameter {name} has no type: write `{name}: str`, or `turn` for the turn"
            )
        if hints[name] is any:
            raise ConfigurationError(f"{location}: parameter {name}: `any` is a function: write `Any`")
        if isinstance(parameter.default, FieldInfo):
            raise ConfigurationError(
                f"{location}: the default of parameter {name} is Field(…), which would be its value:"
                f" write `{name}: Annotated[…, Field(…)] = …`"
            )
        hint = hints[name]
        extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        fields = [extra for extra in extras if isinstance(extra, FieldInfo)]
        if any(field.alias for field in fields):
            raise ConfigurationError(f"{location}: parameter {name} has an alias in Field(…): remove it")
        if parameter.default is parameter.empty and not all(field.is_required() for field in fields):
            raise ConfigurationError(
                f"{location}: the default of parameter {name} is in Field(…): write it as"
                f" `{name}: Annotated[…] = …`"
            )
        return cls(name, hint, parameter.default)

    @property
    def description(self) -> str:
        """The first text in Annotated[type, "text"], even in a union, or in an alias; "" if there is none."""
        members = get_args(self.hint) if get_origin(self.hint) in (Union, UnionType) else ()
        for member in map(without_alias, (self.hint, *members)):
            for extra in get_args(member)[1:] if get_origin(member) is Annotated else ():
                text = extra.description if isinstance(extra, FieldInfo) else extra
                if isinstance(text, str):
                    return text
        return ""

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty

    def default_of_call(self) -> Any:
        """The default. One that is mutable, or may hold something mutable, is copied, so that no caller sees
        another's changes. One that cannot be copied, such as a MappingProxyType, is returned as it is."""
        is_container = isinstance(self.default, tuple | frozenset | BaseModel) or is_dataclass(self.default)
        if type(self.default).__hash__ is not None and not is_container:
            return self.default
        try:
            return copy.deepcopy(self.default)
        except Exception:  # a class is code, and may raise anything
            return self.default

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        try:
            return TypeAdapter(self.hint, config=ConfigDict(allow_inf_nan=False))
        except PydanticUserError:  # a class has its own configuration
            return TypeAdapter(self.hint)

    @cached_property
    def size_limits(self) -> "SizeLimits":
        from a2a_lambda.agent.skills.size_limits import SizeLimits  # few arguments are so long

        return SizeLimits(self._adapter.core_schema)

    @cached_property
    def _members(self) -> dict[str, Any]:
        """Members of an Enum or a Literal, also in a union, by the texts with which a question offers
        them."""
        members: list[Any] = []
        for hint in reversed(members_of(self.hint)):  # of two with one text, the first counts
            if isinstance(hint, EnumType) or get_origin(hint) is Literal:
                members += get_args(hint) or hint
        return {slot_text(to_jsonable_python(member)): member for member in members}

    def read(self, texts: Sequence[str], value: Json = None) -> Any:
        """Argument from the value, else from the first text that fits the type. Raises ValueError if none
        fits.

        value: the JSON value that `texts` has as a string; None = the client sent strings.
        """
        # Models write a list or an object as a string, so such a string is read below.
        is_text = isinstance(value, str)
        was_read_as_json = value is not None and not is_text
        if value is not None and not (
            (is_text and value.lstrip()[:1] in ("{", "[")) or self.is_seconds(texts[0])
        ):
            with suppress(*JSON_ERRORS):
                return self._read_json(strictjson.dumps(value).decode())
        for text in texts:
            if self.is_seconds(text):
                continue
            if len(text) > SHORT_CHARACTERS:
                self.size_limits.check_string(self.name, text)
            readers: list[tuple[Callable[[str], Any], tuple[type[Exception], ...]]] = [
                (self._adapter.validate_strings, TEXT_ERRORS)
            ]
            if not was_read_as_json:
                readers.append((self._read_json, JSON_ERRORS))
            if text.lstrip()[:1] in ("{", "["):  # a string would do for `str | list`, and the list is better
                readers.reverse()
            for reader, errors in readers:
                for candidate in dict.fromkeys((text, text.strip())):
                    with suppress(*errors):
                        return reader(candidate)
            if text.strip() in self._members:  # such as a tuple, which is offered as its JSON
                with suppress(*TEXT_ERRORS):
                    return self._adapter.validate_python(self._members[text.strip()])
        raise ValueError(f"no value given for {self.name} fits its type")

    def _read_json(self, text: str) -> Any:
        """Argument from JSON. Raises one of JSON_ERRORS, or LimitExceeded."""
        if len(text) > SHORT_CHARACTERS:
            self.size_limits.check(self.name, text)
        return self._adapter.validate_json(text)

    def is_seconds(self, text: str) -> bool:
        """Whether a string is a number, where a date or a time is wanted: pydantic would take "18" for
        seconds since 1970."""
        try:
            float(text)
        except ValueError:
            return False
        return self.is_time

    @cached_property
    def is_time(self) -> bool:
        """Whether every value is a date or a time."""
        schema = self._adapter.json_schema()
        options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
        return all(option.get("format") in TIME_FORMATS for option in options)

    def takes(self, text: str) -> bool:
        """Whether a string can be the argument."""
        try:
            self.read([text])
        except ValueError:
            return False
        return True

    def problem_in(self, text: str) -> str:
        """Which member of an object, or which entry of a list, does not fit, or how many digits a number may
        have; "" if none is known, as for a union of several types."""
        types = [member for member in members_of(self.hint) if member is not NoneType]
        if len(types) > 1 or len(text) > CALL_BYTES:  # no question can be asked about more bytes
            return ""
        try:
            self._adapter.validate_json(text)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_input=False, include_context=False):
                # What a validator of the agent raises may not be for clients.
                place = ".".join(map(str, detail["loc"]))
                if detail["type"] in (ERROR_TYPES if place else DECIMAL_ERRORS):
                    return excerpt(": ".join(filter(None, (place, detail["msg"]))))
        except JSON_ERRORS:  # its words are not for clients
            pass
        return ""


def text_of_limits(schema: Mapping[str, Any]) -> str:
    """What a value must be because of keywords of LIMIT_TEXTS, such as "at least 3 characters long"."""
    texts = {
        keyword: text.format(f"{limit:g}" if isinstance(limit := schema[keyword], float) else limit)
        for keyword, text in LIMIT_TEXTS.items()
        if keyword in schema
    }
    for keyword in ("maxLength", "maxItems"):
        if schema.get(keyword) == 1:
            texts[keyword] = texts[keyword].replace("characters", "character").replace("entries", "entry")
    for least, most in (("minLength", "maxLength"), ("minItems", "maxItems")):
        if schema.get(least) == 1:
            texts[least] = "not empty"
        if least in texts and schema[least] == schema.get(most):
            texts[least] = texts.pop(most).replace("at most", "exactly")
    return " and ".join(texts.values())


def text_of_type(schema: Mapping[str, Any]) -> str:
    """What a value must be because of its type or format, such as "a JSON list such as [1, 2]"; "" if the
    schema does not say."""
    kind = schema.get("type", "")
    text = TYPE_TEXTS.get(schema.get("format", "")) or TYPE_TEXTS.get(kind, "")
    if "properties" in schema:
        return f"{text} with {', '.join(schema.get('required') or schema['properties'])}"
    member = schema.get("items", schema.get("additionalProperties", False))
    if member in ({}, True):
        member = {"type": "string"}
    # Others, such as those of one format, or of a class, have no short example.
    has_example = member and member.keys() == {"type"} and isinstance(member["type"], str)
    has_example = has_example and schema.get("minItems", 2) <= 2 <= schema.get("maxItems", 2)
    example = EXAMPLES.get((kind, member["type"])) if has_example else None
    return f"{text} such as {example}" if example else text


def values_of(schema: Mapping[str, Any]) -> Sequence[Json]:
    """The values that a schema allows, if it names them."""
    if "const" in schema:
        return [schema["const"]]
    values: list[Json] = schema.get("enum", [True, False] if schema.get("type") == "boolean" else [])
    return [value for index, value in enumerate(values) if value not in values[:index]]  # an Enum has aliases
