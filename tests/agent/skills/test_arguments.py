"""Values of slots become typed arguments, and annotations the schema of an output."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from jsonschema import ValidationError, validate
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, Field
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from a2a_lambda import Answer, Turn, skill
from a2a_lambda.agent.outputs import Ask, AskArgument
from a2a_lambda.agent.skills.skill import Skill
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.protocol.model import Message, Part, Role


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (int, "101", 101),
        (int, " 9007199254740993 ", 9007199254740993),
        (int, "9" * 400, int("9" * 400)),
        (float, "1.5", 1.5),
        (Decimal, "0.1", Decimal("0.1")),
        (bool, "true", True),
        (str, "007", "007"),
        (str | None, "x", "x"),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Literal["a", "b"], "b", "b"),
        (Colour, "red", Colour.RED),
        (Annotated[int, "a number"], "3", 3),
    ],
)
def test_slots_become_typed_arguments(hint: Any, text: str, value: Any) -> None:
    def ask(x: Any) -> None: ...

    ask.__annotations__ = {"x": hint}
    typed_skill = Skill(skill(ask))
    assert typed_skill.arguments({"x": [text]}) == {"x": value}
    assert typed_skill.input_schema["properties"]["x"]


@dataclass
class Stock:
    count: int


class Price(TypedDict):
    amount: int


class Tree(BaseModel):
    leaves: int
    branches: "list[Tree]"


Item = TypeVar("Item")


@dataclass
class Box(Generic[Item]):
    item: Item


@pytest.mark.parametrize(
    ("hint", "fields"),
    [
        (Stock, ["count"]),
        (Price, ["amount"]),
        (Annotated[Stock, "how many"], ["count"]),
        (Box[int], ["item"]),
        (Tree, ["leaves", "branches"]),
        (Stock | None, []),
        (list[Stock], []),
        (str, []),
        (Answer, []),
    ],
)
def test_one_class_of_objects_is_a_schema_of_the_output(hint: Any, fields: list[str]) -> None:
    def tell() -> Any: ...

    tell.__annotations__ = {"return": hint}
    schema = Skill(skill(tell)).output_schema
    assert [*(schema or {}).get("properties", {})] == fields


def test_a_recursive_output_fits_its_schema() -> None:
    def tell() -> Tree: ...  # type: ignore[empty-body]

    schema = Skill(skill(tell)).output_schema
    assert schema is not None
    tree = {"leaves": 1, "branches": [{"leaves": 2, "branches": []}]}
    validate(tree, schema)
    with pytest.raises(ValidationError):
        validate({"leaves": 1, "branches": [{}]}, schema)


@pytest.mark.parametrize("hint", [Annotated[int, "how many"] | None, Annotated[int | None, "how many"]])
def test_a_text_in_annotated_describes_a_parameter_also_in_a_union(hint: Any) -> None:
    def tell(nights: Any) -> None: ...

    tell.__annotations__ = {"nights": hint}
    question = Skill(skill(tell)).arguments({"nights": ["many"]})
    assert isinstance(question, AskArgument)
    assert "Please tell me: how many." in question.question


def test_hints_of_the_turn_and_of_the_result_may_be_for_the_type_checker_only() -> None:
    def tell(turn: Any, n: Any) -> None: ...

    tell.__annotations__ = {"turn": "Turn", "n": "int", "return": "AsyncIterator[str]"}
    assert Skill(skill(tell)).arguments({"n": ["3"]}) == {"n": 3}
    tell.__annotations__ = {"turn": "Turn", "n": "Absent"}
    with pytest.raises(ConfigurationError, match="name 'Absent' is not defined"):
        Skill(skill(tell))


class Times(BaseModel):
    naive: datetime = datetime(2026, 1, 1, 9, 30)
    aware: AwareDatetime = datetime(2026, 1, 1, 9, 30, tzinfo=UTC)
    clock: time = time(9, 30)
    short: timedelta = timedelta(seconds=1.5)
    past: timedelta = timedelta(days=-1)
    number: Annotated[str, Field(pattern=r"^\d{3}\-\d{4}$")] = "123-4567"


def test_the_schema_of_an_output_promises_what_javascript_can_check() -> None:
    """MCP's clients in TypeScript check formats, and read patterns as JavaScript does."""

    def tell() -> Times:
        raise NotImplementedError

    schema = Skill(skill(tell)).output_schema
    assert schema is not None
    formats = {name: field["format"] for name, field in schema["properties"].items() if "format" in field}
    assert formats == {"aware": "date-time"}
    assert "pattern" not in str(schema)
    validate(to_jsonable_python(Times()), schema)


class Named(TypedDict):
    amount: Annotated[int, Field(alias="amt")]


class NamedModel(BaseModel):
    amount: Annotated[int, Field(serialization_alias="amt")]


def test_a_class_that_is_not_sent_by_its_aliases_has_no_schema() -> None:
    def tell() -> Named:
        raise NotImplementedError

    def tell_model() -> NamedModel:
        raise NotImplementedError

    assert Skill(skill(tell)).output_schema is None
    schema = Skill(skill(tell_model)).output_schema
    assert schema is not None
    validate(to_jsonable_python(NamedModel(amount=1)), schema)


class Weight(BaseModel):
    grams: Decimal


@pytest.mark.parametrize("grams", ["1.50", "1E-8", "1E+3"])
def test_the_schema_of_an_output_takes_every_decimal_that_is_sent(grams: str) -> None:
    def tell() -> Weight:
        raise NotImplementedError

    value = to_jsonable_python(Weight(grams=Decimal(grams)))
    schema = Skill(skill(tell)).output_schema
    assert schema is not None
    validate(value, schema)


def test_a_default_is_of_its_parameters_type() -> None:
    choices = [Decimal(2)]

    def tell(grams: Decimal = Decimal("1.5"), all: list[Decimal] = choices) -> None: ...

    properties = Skill(skill(tell)).input_schema["properties"]
    assert [properties[name]["default"] for name in ("grams", "all")] == [1.5, [2.0]]


@pytest.mark.parametrize(("hint", "text"), [(int, "many"), (int, "1.5"), (Decimal, "NaN"), (Colour, "blue")])
def test_a_slot_that_does_not_fit_is_asked_for(hint: Any, text: str) -> None:
    def ask(x: Any = None) -> None: ...

    ask.__annotations__ = {"x": hint}
    assert isinstance(Skill(skill(ask)).arguments({"x": [text]}), Ask)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Decimal, [1, 2, 3]),
        (Decimal, [0, [1], 10**30]),
        (Annotated[Decimal, Field(multiple_of=2)], "1e999999999"),
        (Annotated[int, BeforeValidator(lambda value: value.strip())], 1.5),
        (float, "NaN"),
        (float, "Infinity"),
        (Annotated[float, Field(multiple_of=0.1)], "-inf"),
        (list[float], "[1, NaN]"),
        (dict[str, float], '{"a": "inf"}'),
        (float | None, "inf"),
        (Annotated[str, BeforeValidator({"a": "b"}.__getitem__)], "c"),
        (Annotated[str, BeforeValidator(lambda value: value.split(",")[1])], "c"),
        (Annotated[float, BeforeValidator(lambda value: 1 / int(value))], "0"),
    ],
)
def test_a_value_that_does_not_fit_is_asked_for_whatever_its_reading_raises(hint: Any, value: Any) -> None:
    def ask(x: Any = None) -> None: ...

    ask.__annotations__ = {"x": hint}
    assert isinstance(Skill(skill(ask)).arguments({}, {"x": value}), AskArgument)
    if isinstance(value, str):
        assert isinstance(Skill(skill(ask)).arguments({"x": [value]}), AskArgument)


def test_nan_is_a_text_where_a_parameter_may_be_one() -> None:
    def ask(x: float | str) -> None: ...

    assert Skill(skill(ask)).arguments({"x": ["nan"]}) == {"x": "nan"}


class Size(Enum):
    A4 = (210, 297)
    A5 = (148, 210)


class Hue(Enum):
    RED = "red"
    CRIMSON = "red"
    BLUE = "blue"


@pytest.mark.parametrize("hint", [Size, Size | None, Literal[Size.A4, Size.A5]])
def test_an_offered_choice_can_be_chosen_whatever_its_value(hint: Any) -> None:
    def choose(size: Any) -> None: ...

    choose.__annotations__ = {"size": hint}
    question = Skill(skill(choose)).arguments({})
    assert isinstance(question, AskArgument)
    assert question.choices == ("[210,297]", "[148,210]")
    assert Skill(skill(choose)).arguments({"size": [question.choices[1]]}) == {"size": Size.A5}


def test_an_alias_of_an_enum_is_offered_once() -> None:
    def choose(hue: Hue) -> None: ...

    question = Skill(skill(choose)).arguments({})
    assert isinstance(question, AskArgument)
    assert question.choices == ("red", "blue")
    assert Skill(skill(choose)).input_schema["$defs"]["Hue"]["enum"] == ["red", "blue"]


@pytest.mark.parametrize("hint", [time, datetime, date, time | None, Annotated[date, "when"], AwareDatetime])
@pytest.mark.parametrize("text", ["18", "20261224", " 1.5 ", "3e2"])
def test_digits_are_no_time(hint: Any, text: str) -> None:
    """Pydantic would take them for seconds since 1970."""

    def plan(when: Any) -> None: ...

    plan.__annotations__ = {"when": hint}
    assert isinstance(Skill(skill(plan)).arguments({"when": [text]}), AskArgument)
    assert isinstance(Skill(skill(plan)).arguments({}, {"when": text}), AskArgument)
    assert isinstance(Skill(skill(plan)).arguments({}, {"when": float(text)}), AskArgument)
    plan.__annotations__ = {"when": hint | int}
    assert isinstance(Skill(skill(plan)).arguments({"when": ["18"]}), dict)


def test_a_parameter_may_have_the_name_of_a_method_of_pydantic(recwarn: pytest.WarningsRecorder) -> None:
    def read(schema: str, json: int) -> None: ...

    assert [*Skill(skill(read)).input_schema["properties"]] == ["schema", "json"]
    assert not recwarn.list


def test_a_wrong_pattern_is_explained() -> None:
    def read(name: Annotated[str, Field(pattern=r"^(?!admin)")]) -> None: ...

    with pytest.raises(ConfigurationError, match="look-around"):
        _ = Skill(skill(read)).input_schema


def test_two_parameters_cannot_both_get_the_turn() -> None:
    def read(turn: Turn, other: Turn) -> None: ...

    with pytest.raises(ConfigurationError, match="parameters turn and other both get the turn: remove one"):
        Skill(skill(read))


def refuse_large(size: Any) -> Any:
    if size in ("L", Size.A5):
        raise ValueError("not in stock")
    return size


@pytest.mark.parametrize(
    ("hint", "text"), [(Literal["S", "L"], "L"), (Size, "[148,210]"), (Size | None, "[148,210]")]
)
def test_a_choice_passes_the_validators_of_its_parameter(hint: Any, text: str) -> None:
    def choose(size: Any) -> None: ...

    choose.__annotations__ = {"size": Annotated[hint, AfterValidator(refuse_large)]}
    assert isinstance(Skill(skill(choose)).arguments({"size": [text]}), AskArgument)
    assert isinstance(Skill(skill(choose)).arguments({}, {"size": text}), AskArgument)


def test_a_validator_of_texts_may_get_another_value() -> None:
    def tell(name: Annotated[str, BeforeValidator(str.strip)]) -> None: ...

    assert isinstance(Skill(skill(tell)).arguments({}, {"name": 5}), dict | AskArgument)

    def tell_wrong(name: Annotated[str, AfterValidator(lambda name: name.lowr())]) -> None: ...

    with pytest.raises(AttributeError, match="lowr"):
        Skill(skill(tell_wrong)).arguments({"name": ["Ann"]})


class Inner(TypedDict):
    my_name: Annotated[int, Field(alias="myName")]


class Outer(TypedDict):
    inner: Inner


def test_a_nested_class_that_is_not_sent_by_its_aliases_has_no_schema() -> None:
    def tell() -> Outer:
        raise NotImplementedError

    assert Skill(skill(tell)).output_schema is None


class Circle(BaseModel):
    kind: Literal["circle"]
    name: str


class Square(BaseModel):
    kind: Literal["square"]


Shape = Annotated[Circle | Square, Field(discriminator="kind")]


@pytest.mark.parametrize("hint", [Circle | Square, Shape, Shape | int], ids=["form", "kind", "nested"])
def test_an_object_answers_for_a_union_though_another_parameter_has_its_field(hint: Any) -> None:
    def draw(shape: Any, name: str = "d") -> None: ...

    draw.__annotations__["shape"] = hint
    text = '{"kind": "circle", "name": "c"}'
    message = Message(messageId="m", role=Role.USER, parts=[Part(text=text)])
    values, answer = Skill(skill(draw)).read_message(Turn(message=message), "shape")
    assert (values, answer) == ({}, text)
