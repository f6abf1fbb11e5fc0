"""Types that contain themselves, and how long a value of them takes to read."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, Discriminator, Field, RootModel, Tag
from typing_extensions import TypeAliasType, TypedDict

from a2a_lambda import Agent
from a2a_lambda.agent.skills.skill import Skill
from a2a_lambda.agent.skills.skill import skill as mark
from a2a_lambda.errors import ConfigurationError
from tests.agent.folders import write

EXPRESSION = """
from typing import Annotated, Literal
from pydantic import BaseModel, Field
class And(BaseModel):
    type: Literal["and"]
    items: list["Expression"]
class Or(BaseModel):
    type: Literal["or"]
    items: list["Expression"]
Expression = {union}
And.model_rebuild()
@skill
def hello(expression: Expression): return type(expression).__name__
"""


class And(BaseModel):
    kind: Literal["and"]
    items: "list[And | Or | str]"


class Or(BaseModel):
    kind: Literal["or"]
    items: "list[And | Or | str]"


@dataclass
class Dash:
    next: "Dash | Dot | None"


@dataclass
class Dot:
    next: "Dash | Dot | None"


class Folder(TypedDict):
    entries: "list[Folder | Link]"


class Link(TypedDict):
    entries: "list[Folder]"


class Row(BaseModel):
    cell: "Row | dict[str, Row] | None" = None


class Not(BaseModel):
    kind: Literal["not", "none"]
    items: "list[Not | Either | Word | str]"


class Either(BaseModel):
    kind: Literal["or"]
    version: Literal[1]
    items: "list[Not | Either | Word | str]"


class Word(BaseModel):
    kind: Literal["word"]
    version: Literal[1]
    value: int


class Plus(BaseModel):
    kind_: Literal["plus"] = Field(alias="kind")
    item: "Plus | Minus"


class Minus(BaseModel):
    kind_: Literal["minus"] = Field(alias="kind")
    item: "Plus | Minus"


class Up(BaseModel):
    kind: Literal["move"]
    next: "list[Up] | list[Down]"


class Down(BaseModel):
    kind: Literal["move"]
    next: "list[Up] | list[Down]"


class Step(BaseModel):
    kind: Literal["move"]
    next: "Step | Jump | None"


class Jump(BaseModel):
    kind: Literal["move"]
    next: "Step | Jump | None"


class Cup(BaseModel):
    left: "list[Cup | Can]" = Field(alias="c")


class Can(BaseModel):
    right: "list[Cup | Can]" = Field(alias="c")


Nested = TypeAliasType("Nested", "int | list[Nested] | tuple[Nested, ...]")

Lists = TypeAliasType("Lists", "int | list[Lists] | set[Lists]")


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (And, 'And and Or contain each other, .*: write Annotated.And . Or, Field.discriminator="kind"'),
        (Annotated[And | Or, Field(discriminator="kind")], "And and Or contain each other"),
        (dict[str, Dash], "Dash and Dot contain .* give each a field .* Annotated.Dash . Dot, "),
        (Folder, "Folder and Link contain each other"),
        (Row, "a parameter.s type contains itself in two ways"),
        (Lists, "a parameter.s type contains itself in two ways"),
        (Nested, "a parameter.s type contains itself in two ways"),
        (Not, 'Either and Not and Word .* Annotated.Either . Not . Word, Field.*="kind"'),
        (Plus, 'Minus and Plus contain .* write Annotated.*discriminator="kind_"'),
        (Cup, "Can and Cup contain each other, .* each its own text"),
        (Up, ".* merge the two into one, such as list.A . B. for list.A. . list.B."),
        (Step, "Jump and Step contain each other, .* each its own text"),
    ],
)
def test_a_type_whose_levels_double_the_time_is_refused(hint: Any, words: str) -> None:
    """A caller's 40 levels would take days, and hold the interpreter's lock."""

    def plan(value: Any) -> str:
        return str(value)

    plan.__annotations__["value"] = hint
    with pytest.raises(ConfigurationError, match=f"skill plan: {words}"):
        _ = Skill(mark(plan)).input_schema


class Leaf(BaseModel):
    value: int


class Tree(BaseModel):
    left: "Tree | Leaf"
    right: "Tree | Leaf"


class Odd(BaseModel):
    even: "Odd | Even | None"


class Even(BaseModel):
    odd: "Odd | Even | None"


class Any_(BaseModel):
    kind: Literal["any"]
    items: "list[Annotated[Any_ | All, Field(discriminator='kind')] | str]"


class All(BaseModel):
    kind: Literal["all"]
    items: "list[Annotated[Any_ | All, Field(discriminator='kind')] | str]"


def pick(value: Any) -> Any:
    kinds: dict[str, Any] = {"fork": Fork, "knife": Knife}
    return kinds[value["kind"]].model_validate(value) if isinstance(value, dict) else value


class Fork(BaseModel):
    kind: Literal["fork"]
    items: "list[Annotated[Fork | Knife, BeforeValidator(pick)]]"


class Knife(BaseModel):
    kind: Literal["knife"]
    items: "list[Annotated[Fork | Knife, BeforeValidator(pick)]]"


class Open(BaseModel, extra="allow"):
    __pydantic_extra__: "dict[str, Open]"
    child: "Closed | None" = None


class Closed(BaseModel):
    child: "Open | None" = None


class Pan(BaseModel):
    left: "list[Pan | Pot]" = Field(alias="as")


class Pot(BaseModel):
    left: "list[Pan | Pot]" = Field(alias="bs")


class Vector:
    def __init__(self, numbers: list[float]) -> None: ...


class Node(BaseModel, arbitrary_types_allowed=True):
    vector: Annotated[Vector, BeforeValidator(Vector, json_schema_input_type=list[float])]
    children: "list[Node]" = []


class Root(RootModel["Root | int"]): ...


class Add(BaseModel):
    item: "Annotated[Annotated[Add, Tag('add')] | Annotated[Take, Tag('take')], Discriminator(len)]"


class Take(BaseModel):
    item: "Add | None" = None


class Pair(BaseModel):
    both: "tuple[Pair, int] | tuple[int, Pair] | None"


Values = TypeAliasType("Values", "int | list[Values] | dict[str, Values]")


@pytest.mark.parametrize(
    "hint",
    [
        Tree,
        Odd,
        Any_,
        Any_ | All,
        Fork,
        Open,
        Pan,
        Node,
        Root,
        Add,
        Pair,
        Values,
        list[Values],
        And.__mro__[1],
        Any,
    ],
)
def test_other_types_that_contain_themselves_are_accepted(hint: Any) -> None:
    """JSON tells their choices apart, or a value for several of them has each level several times itself."""

    def plan(value: Any) -> str:
        return str(value)

    plan.__annotations__["value"] = hint
    assert Skill(mark(plan)).input_schema["properties"].keys() == {"value"}


def test_the_error_names_what_makes_the_type_fit(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _ = Agent.load(write(tmp_path / "one", EXPRESSION.format(union="And | Or"))).profile
    union = 'Annotated[And | Or, Field(discriminator="type")]'
    assert f"write {union} for their union" in str(caught.value)
    agent = Agent.load(write(tmp_path / "other", EXPRESSION.format(union=union)))
    assert agent.profile.input_schemas["hello"]
    value: dict[str, Any] = {"type": "or", "items": []}
    for _ in range(25):
        value = {"type": "and", "items": [value]}
    assert asyncio.run(agent.run(parts=[{"data": {"expression": value}}])).text == "And"
