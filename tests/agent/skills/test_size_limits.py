"""Arguments that are too large to read."""

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    HttpUrl,
    Json,
    TypeAdapter,
    WithJsonSchema,
    WrapValidator,
    field_serializer,
)
from typing_extensions import TypeAliasType

from a2a_lambda.agent.skills import parameters, size_limits
from a2a_lambda.agent.skills.parameters import Parameter
from a2a_lambda.agent.skills.size_limits import SizeLimits
from a2a_lambda.errors import LimitExceeded


@pytest.mark.parametrize("hint", [Any, list[Any] | str])
def test_more_lists_than_memory_holds_fail_the_turn(hint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_limits, "MAX_CONTAINERS", 2)
    monkeypatch.setattr(parameters, "SHORT_CHARACTERS", 2)
    lists: list[Any] = [[], []]
    parameter, texts = Parameter("x", hint, ""), ["[[[", '\\"[{']
    assert parameter.read([json.dumps(texts)], texts) == texts
    for value in (lists, None):
        with pytest.raises(LimitExceeded, match="The argument x may have at most 2 lists and objects"):
            parameter.read([json.dumps(lists)], value)


def test_a_string_that_is_never_closed_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time would grow with the square of its quotes: an hour for this text."""
    monkeypatch.setattr(size_limits, "MAX_CONTAINERS", 2)
    monkeypatch.setattr(parameters, "SHORT_CHARACTERS", 2)
    text = '[[["' + '\\"' * 500_000
    with pytest.raises(LimitExceeded):
        Parameter("x", list[Any] | str, "").read([text], text)


class Wrapped(BaseModel):
    ids: Json[set[int]]


@pytest.mark.parametrize(
    ("hint", "of_numbers"),
    [
        (set[int], list),
        (frozenset[UUID], lambda numbers: [str(UUID(int=number)) for number in numbers]),
        (dict[int, str], lambda numbers: {str(number): "" for number in numbers}),
        (list[set[Decimal]], lambda numbers: [list(numbers)]),
        (Wrapped, lambda numbers: {"ids": json.dumps(list(numbers))}),
        (Annotated[set[int], BeforeValidator(json.loads)], lambda numbers: json.dumps(list(numbers))),
    ],
)
def test_values_whose_hashes_can_collide_are_few(
    hint: Any, of_numbers: Callable[[Iterable[int]], Any]
) -> None:
    """A client can choose numbers of one hash, and the time would grow with the square of their count."""
    parameter = Parameter("x", hint, "")
    value = of_numbers(range(5_000))
    assert parameter.read([json.dumps(value)], value)
    more = json.dumps(of_numbers(range(5_001)))
    with pytest.raises(LimitExceeded, match="The argument x may have at most 5,000 elements"):
        parameter.read([more], None)


def test_a_comma_in_a_text_that_is_json_may_be_escaped() -> None:
    text = json.dumps(json.dumps(list(range(5_001)))).replace(",", "\\u002c")
    with pytest.raises(LimitExceeded, match="The argument x may have at most 5,000 elements"):
        Parameter("x", Json[set[int]], "").read([text], None)


def test_lists_in_a_text_that_is_json_count() -> None:
    """They take as much memory as others."""
    text = json.dumps(json.dumps([[]] * 1_000_001))
    with pytest.raises(LimitExceeded, match="The argument x may have at most 1,000,000 lists and objects"):
        Parameter("x", Json[list[Any]], "").read([text], None)


@pytest.mark.parametrize("hint", [list[int], set[str], set[str | None], dict[str, int], Any])
def test_other_values_may_be_many(hint: Any) -> None:
    numbers = list(range(20_000))
    value: Any = {str(number): number for number in numbers} if hint == dict[str, int] else numbers
    value = list(map(str, numbers)) if hint in (set[str], set[str | None]) else value
    assert len(Parameter("x", hint, "").read([json.dumps(value)], value)) == 20_000


class Notes(BaseModel):
    text: str = ""
    ids: set[int] = set()


class Page(Notes):
    url: HttpUrl = HttpUrl("https://example.com")


class Sorted(Notes):
    @field_serializer("ids")
    def sort(self, ids: set[int]) -> list[int]:
        return sorted(ids)


class Typed(BaseModel):
    type: Literal["text"] = "text"
    serialization: set[int] = set()
    text: str = ""


class Checked(Notes):
    ids: Annotated[set[int], BeforeValidator(lambda ids: ids)] = set()


@pytest.mark.parametrize("kind", [Page, Sorted, Checked])
def test_a_text_with_brackets_beside_a_set_may_be_long(kind: type[Notes]) -> None:
    value = {"text": "[1] " + "one, two, " * 3_000, "ids": [1]}
    assert Parameter("x", kind, "").read([json.dumps(value)], value).ids == {1}


def test_json_in_json_in_json_counts() -> None:
    """In a string, too."""
    text = json.dumps(json.dumps(list(range(5_001))))
    for value in (text, None):
        with pytest.raises(LimitExceeded, match="The argument x may have at most 5,000 elements"):
            Parameter("x", Json[Json[set[int]]], "").read([text], value)


@pytest.mark.parametrize(
    ("hint", "is_read"),
    [
        (HttpUrl, False),
        (Sorted, False),
        (dict[str, Any], False),
        (Checked, True),
        (Typed, False),
        (Annotated[int, WithJsonSchema({"type": ["integer", "null"]})], False),
        (Annotated[int, BeforeValidator(TypeAdapter(int).validate_json)], True),
        (Json[int], True),
        (list[Annotated[int, WrapValidator(lambda text, read: read(text))]], True),
    ],
)
def test_which_texts_may_be_read_as_json(hint: Any, *, is_read: bool) -> None:
    assert size_limits.has_json_texts(TypeAdapter(hint).core_schema) is is_read


def test_a_field_may_have_the_name_of_a_key_of_pydantics() -> None:
    parameter = Parameter("x", Typed, "")
    value = {"type": "text", "text": "a" * 20_000, "serialization": [1]}
    assert parameter.read([json.dumps(value)], value).serialization == {1}
    value = {"serialization": list(range(5_001))}
    with pytest.raises(LimitExceeded, match="at most 5,000 elements"):
        parameter.read([json.dumps(value)], value)


def test_no_limit_is_below_what_is_not_checked() -> None:
    assert parameters.SHORT_CHARACTERS <= 2 * size_limits.MAX_HASHED_ELEMENTS
    assert parameters.SHORT_CHARACTERS <= 2 * size_limits.MAX_CONTAINERS


def test_a_large_file_is_not_searched_for_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    """That would take longer than to read the argument."""
    monkeypatch.delattr(size_limits, "JSON_STRING")
    SizeLimits(TypeAdapter(Json[set[int]]).core_schema).check("x", json.dumps("QUJD" * 1_000_000))


def test_a_text_beside_a_set_may_be_long() -> None:
    """Its commas are no elements."""
    value = {"text": "a, " * 20_000, "ids": [1]}
    assert Parameter("x", Notes, "").read([json.dumps(value)], value).ids == {1}
    assert Parameter("x", str | set[int], "").read(["a, " * 20_000], None) == "a, " * 20_000
    wrapped = {"text": "a, " * 20_000, "ids": "[1]"}
    assert Parameter("x", Wrapped, "").read([json.dumps(wrapped)], wrapped).ids == {1}


Tag = TypeAliasType("Tag", str)

OptionalTag = TypeAliasType("OptionalTag", Tag | None)

Numbers = TypeAliasType("Numbers", "int | list[Numbers]")


class Tags(BaseModel):
    a: set[Tag]
    b: dict[Tag, list[float]]
    c: set[OptionalTag]
    d: set[OptionalTag]


class Deferred(BaseModel, defer_build=True):
    ids: set[int]


@pytest.mark.parametrize(
    ("hint", "is_chosen"),
    [
        (Tags, False),
        (set[Literal["a", "b"]], False),
        (dict[Literal["a", "b"], list[float]], False),
        (set[bool], False),
        (dict, False),
        (Mapping[Any, Any], False),
        (dict[Any, list[dict[Any, Any]]], False),
        (dict[float, int], True),
        (set[tuple[str, str]], False),
        (dict[Annotated[str, BeforeValidator(str.lower)], int], False),
        (set[Annotated[str, AfterValidator(int)]], True),
        (set[Annotated[str, WrapValidator(lambda text, _: int(text))]], True),
        (set[Json[int]], True),
        (set[Numbers], True),
        (set[float], True),
        (set[tuple[str, int]], True),
        (set[str | int], True),
        (set[Any], True),
        (list[Notes], True),
        (Deferred, True),
    ],
)
def test_which_values_have_hashes_that_a_client_can_choose(hint: Any, *, is_chosen: bool) -> None:
    schema = TypeAdapter(hint).core_schema
    assert size_limits.has_chosen_hashes(schema) is is_chosen
