"""Typed parameters, filled by any client: from an intent, a data part, a JSON text, or the answer to a
question."""

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from a2a_lambda import Agent, Answer, SkillError, Turn
from a2a_lambda.agent.skills.skill import Skill
from a2a_lambda.agent.skills.skill import skill as mark
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.protocol.model import Json, Message, Part, Role
from tests.agent.folders import CARD, write
from tests.helpers.rest import Rest, message_1_0
from tests.helpers.rpc import Rpc

CODE = """
from typing import Annotated
@skill
def hello(city: Annotated[str, "the city"], days: int = 1, units: list[str] = [], turn: Turn = None):
    return {"city": city, "days": days, "units": units}
"""

CARD_OF_TWO = CARD + "  - {{ id: again, name: Again, description: Asks. }}\n"


@pytest.fixture
def agent(tmp_path: Any) -> Agent:
    return Agent.load(write(tmp_path, CODE))


def run(agent: Agent, *parts: Part, **options: Any) -> Answer:
    return asyncio.run(agent.run(parts=list(parts), **options))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([{"data": {"city": "Paris"}}], {"city": "Paris", "days": 1, "units": []}),
        ([{"data": {"city": "Paris", "days": 3, "units": ["c", "f"], "more": 1}}], ("Paris", 3, ["c", "f"])),
        ([{"data": {"city": "Paris", "days": None}}], ("Paris", 1, [])),
        ([{"text": "please"}, {"data": {"city": "Paris"}}, {"data": {"days": "2"}}], ("Paris", 2, [])),
        ([{"text": ' {"city": "Paris", "days": 4}\n'}], ("Paris", 4, [])),
        ([{"text": '{"city": 75001}'}], ("75001", 1, [])),
    ],
)
def test_fields_fill_parameters(agent: Agent, parts: list[Part], expected: Any) -> None:
    if isinstance(expected, tuple):
        expected = dict(zip(("city", "days", "units"), expected, strict=True))
    assert run(agent, *parts).data == [expected]


@pytest.mark.parametrize(
    "parts",
    [
        [{"text": "Will it rain in Paris?"}],
        [{"data": {"town": "Paris"}}],
        [{"data": ["Paris"]}],
        [{"text": '["Paris"]'}],
        [{"text": '{"city": "Paris"'}],
        [{"text": '{"city": "a", "city": "b"}'}],
    ],
)
def test_what_is_missing_is_still_asked_for(agent: Agent, parts: list[Part]) -> None:
    assert run(agent, *parts).text == "Please tell me: the city."


TRIP = """
from pydantic import BaseModel
class Trip(BaseModel):
    city: str = "anywhere"
    date: str = ""
@skill
def hello(turn: Turn, trip: Trip, date: str = ""):
    return {"city": trip.city, "date": date}
"""


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ('{"city": "Oslo", "date": "2026-12-24"}', ""),
        ('{"trip": {"city": "Oslo", "date": "x"}, "date": "2026-12-24"}', "2026-12-24"),
        ('{"trip": {"city": "Oslo"}, "date": "2026-12-24"}', "2026-12-24"),
    ],
)
def test_an_answer_may_be_an_object_whose_fields_are_called_as_other_parameters(
    tmp_path: Path, text: str, date: str
) -> None:
    agent = Agent.load(write(tmp_path, TRIP))
    answer = asyncio.run(agent.run("hi"))
    assert answer.text.startswith("Please tell me: trip.")
    assert asyncio.run(agent.run(text, after=answer)).data == [{"city": "Oslo", "date": date}]


def test_what_does_not_fit_is_asked_for(agent: Agent) -> None:
    assert "days" in run(agent, {"data": {"city": "Paris", "days": "many"}}).text


@pytest.mark.parametrize(
    "answer", [{"text": "Paris"}, {"data": {"city": "Paris"}}, {"text": '{"city":"Paris"}'}]
)
def test_a_question_is_answered_either_way(agent: Agent, answer: Part) -> None:
    question = run(agent, {"data": {"days": 2}})
    assert question.state == "input-required"
    assert run(agent, answer, after=question).data == [{"city": "Paris", "days": 2, "units": []}]


def test_an_answer_that_says_nothing_is_asked_for_again(agent: Agent) -> None:
    question = run(agent, {"text": "hi"})
    assert run(agent, {"data": {"country": "France"}}, after=question).state == "input-required"


def test_json_is_only_text_to_a_skill_without_parameters(tmp_path: Any) -> None:
    agent = Agent.load(write(tmp_path, "@skill\ndef hello(turn): return turn.text"))
    assert run(agent, {"text": '{"city": "Paris"}'}).text == '{"city": "Paris"}'


def test_every_version_fills_them(client: TestClient, key: str) -> None:
    """HTTP clients may give the part a media type."""
    add = {"intentInfos": [{"intent": "add"}]}
    parts = [{"data": {"a": 40, "b": 2}, "mediaType": "application/json"}]
    task = Rest(client, key).call(
        "POST", "message:send", {"message": message_1_0(parts=parts, metadata=add)}
    )["task"]
    assert task["artifacts"][0]["parts"] == [{"data": 42}]
    old = Rpc(client, key, "/a2a/probe").send(
        parts=[{"kind": "data", "data": {"a": 40, "b": 2}}], metadata=add
    )
    assert old["artifacts"][0]["parts"][0]["data"] == {"value": 42}


def test_the_card_says_which_skills_take_json(client: TestClient) -> None:
    card = client.get("/a2a/probe/.well-known/agent-card.json").json()
    modes = {skill["id"]: skill.get("inputModes") for skill in card["skills"]}
    assert "inputModes" not in card["skills"][0], "a skill without parameters has the agent's own modes"
    assert modes["add"] == ["*/*", "application/json"]


@pytest.mark.parametrize(
    ("hint", "choices"),
    [
        ('Literal["a", "b"]', ["a", "b"]),
        ("Literal[1, 2]", ["1", "2"]),
        ('Literal["a"]', ["a"]),
        ('Literal["a", None]', ["a"]),
        ('Literal["a"] | Literal["b"]', ["a", "b"]),
        ('Literal["a"] | int', None),
        ("Literal[True]", ["true"]),
        ("Size", ["small", "large"]),
        ("bool", ["true", "false"]),
        ("str", None),
        ("int", None),
    ],
)
def test_a_question_offers_the_values_of_its_parameter(
    tmp_path: Any, hint: str, choices: list[str] | None
) -> None:
    code = (
        "from enum import Enum\nfrom typing import Literal\n\n\n"
        'class Size(Enum):\n    SMALL = "small"\n    LARGE = "large"\n\n\n'
        f"@skill\ndef hello(turn, size: {hint}): return str(size)\n\n\n"
        f'@skill\ndef again(turn, size: {hint} = None): yield Ask("Which size?", fills="size")\n'
    )
    agent = Agent.load(write(tmp_path, code, CARD_OF_TWO))
    for skill in ("hello", "again"):
        question = run(agent, {"text": "hi"}, skill=skill)
        assert question.state == "input-required"
        metadata = question.task["status"]["message"]["metadata"]
        assert metadata == {**({"choices": choices} if choices else {}), "fills": "size"}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        ("Annotated[int, Field(ge=1, description='how many')]", {"minimum": 1, "type": "integer"}),
        (
            "Annotated[Decimal, Field(gt=0, le=9, description='how many')]",
            {"exclusiveMinimum": 0, "maximum": 9},
        ),
    ],
)
def test_a_field_of_pydantic_says_what_the_client_reads(tmp_path: Any, hint: str, schema: Json) -> None:
    imports = "from decimal import Decimal\nfrom typing import Annotated\nfrom pydantic import Field\n"
    agent = Agent.load(write(tmp_path, imports + f"@skill\ndef hello(turn, x: {hint}): return str(x)"))
    assert schema.items() <= agent.skills["hello"].input_schema["properties"]["x"].items()
    assert run(agent, {"text": "hi"}).text.startswith("Please tell me: how many. It must be ")


def test_a_field_as_a_default_is_refused(tmp_path: Any) -> None:
    """The function would get it in place of a number."""
    code = "from pydantic import Field\n@skill\ndef hello(turn, x: int = Field(3, ge=1)): return str(x)"
    with pytest.raises(ConfigurationError, match=r"write `x: Annotated\[…, Field\(…\)\] = …`"):
        Agent.load(write(tmp_path, code))


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("Field(alias='count')", "parameter x has an alias in Field"),
        ("Field(default=3)", "the default of parameter x is in Field"),
    ],
)
def test_a_parameter_has_one_name_and_one_default(tmp_path: Any, field: str, words: str) -> None:
    hint = f"Annotated[int, {field}]"
    code = (
        f"from typing import Annotated\nfrom pydantic import Field\n@skill\ndef hello(turn, x: {hint}): ..."
    )
    with pytest.raises(ConfigurationError, match=words):
        Agent.load(write(tmp_path, code))


@pytest.mark.parametrize(
    ("hint", "kind", "limits"),
    [
        ("Annotated[int, Field(ge=1, le=5)]", "a whole number", "at least 1 and at most 5"),
        ("Annotated[Decimal, Field(gt=0, lt=2.5)]", "a number", "more than 0 and less than 2.5"),
        ("Annotated[str, Field(min_length=30)]", "", "at least 30 characters long"),
        ("Annotated[str, Field(pattern='^[A-Z]{3}$')]", "", "of the form ^[A-Z]{3}$"),
        ("Annotated[list, Field(min_length=2)]", 'a JSON list such as ["a", "b"]', "at least 2 entries long"),
        ("Annotated[list[int], Field(min_length=1)]", "a JSON list such as [1, 2]", "not empty"),
        ("Annotated[float, Field(lt=1e300)]", "a number", "less than 1e+300"),
        ("date", "a date such as 2026-12-24", ""),
        ("dict[str, float]", 'a JSON object such as {"a": 1}', ""),
    ],
)
def test_a_question_says_what_its_parameter_takes(tmp_path: Any, hint: str, kind: str, limits: str) -> None:
    """It names the type if there are limits, if it is JSON, or if an answer was of another."""
    code = (
        "from datetime import date\nfrom decimal import Decimal\nfrom typing import Annotated\n"
        f"from pydantic import Field\n@skill\ndef hello(turn, x: {hint}): return str(x)"
    )
    agent = Agent.load(write(tmp_path, code))
    words = ", ".join(filter(None, (kind, limits)))
    says = f" It must be {words}." if limits or "JSON" in kind else ""
    assert run(agent, {"text": "hi"}).text == f"Please tell me: x.{says}"
    refusal = f"“none” cannot be used. Please tell me: x. It must be {words}."
    assert run(agent, {"data": {"x": "none"}}).text == refusal
    problem = agent.skills["hello"].problem_of({"x": "none"}, is_complete=True)
    assert problem == f"the argument x of skill hello does not fit: it must be {words}"


@pytest.mark.parametrize(
    ("hint", "value", "words"),
    [
        ("User", {"name": "B", "age": -1}, "age: Input should be greater than or equal to 0"),
        ("list[User]", [{"name": "B"}], "0.age: Field required"),
        ("dict[str, int] | None", {"a": "x"}, "a: Input should be a valid integer"),
        ("list[Literal['a', 'b']]", ["c"], "0: Input should be 'a' or 'b'"),
        ("dict[str, int]", {"a" * 300: "x"}, "a" * 50),
    ],
)
def test_a_refusal_names_what_is_wrong_within_an_object_or_a_list(
    tmp_path: Any, hint: str, value: Json, words: str
) -> None:
    code = (
        "from typing import Literal\nfrom pydantic import BaseModel, Field\n"
        "class User(BaseModel):\n    name: str\n    age: int = Field(ge=0)\n"
        f"@skill\ndef hello(turn, x: {hint}): return str(x)"
    )
    agent = Agent.load(write(tmp_path, code))
    refusal = run(agent, {"data": {"x": value}}).text
    assert f" cannot be used ({words}" in refusal
    assert "It must be a" in refusal


def test_what_a_validator_of_the_agent_says_is_not_for_clients(tmp_path: Any) -> None:
    code = (
        "from pydantic import BaseModel, field_validator\n"
        "class User(BaseModel):\n    name: str\n"
        "    @field_validator('name')\n    def check(cls, value): raise ValueError('table users')\n"
        "@skill\ndef hello(turn, x: User): return str(x)"
    )
    refusal = run(Agent.load(write(tmp_path, code)), {"data": {"x": {"name": "B"}}}).text
    assert "cannot be used. Please tell me: x." in refusal
    assert "table users" not in refusal


def test_a_question_may_have_choices_of_its_own(tmp_path: Any) -> None:
    code = (
        "@skill\ndef hello(turn, size: bool = True):\n"
        '    return Ask("Which size?", fills="size", choices=["yes", "no"]), Command("beep")\n'
    )
    question = run(Agent.load(write(tmp_path, code)), {"text": "hi"})
    metadata = question.task["status"]["message"]["metadata"]
    assert metadata["choices"] == ["yes", "no"]


@pytest.mark.parametrize("choices", ['"SML"', "[1, 2]", "[object()]"])
def test_choices_are_texts(tmp_path: Any, choices: str) -> None:
    code = f'@skill\ndef hello(turn): return Ask("Which?", choices={choices})'
    with pytest.raises(TypeError, match="list of strings"):
        run(Agent.load(write(tmp_path, code)), {"text": "hi"})


def test_choices_that_no_status_can_carry_fail_in_words(tmp_path: Any) -> None:
    code = '@skill\ndef hello(turn): return Ask("Which?", choices=["x" * 1_000] * 300)'
    with pytest.raises(SkillError, match="at most"):
        run(Agent.load(write(tmp_path, code)), {"text": "hi"})


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (str | list[str], ["a", "b"]),
        (str | dict[str, int], {"a": 1}),
        (Any, [1, {"a": None}]),
        (str | list[str], "a"),
        (str, "[a]"),
        (str, '{"a": 1}'),
        (Any, "[a"),
        (Any, 5),
        (Any, True),
        (int | str, "01234"),
        (int | str, 1234),
        (str, ""),
    ],
)
def test_a_list_or_an_object_stays_one(hint: Any, value: Any) -> None:
    def find(query: Any) -> None: ...

    find.__annotations__["query"] = hint
    finding = Skill(mark(find))
    message = Message(messageId="m", role=Role.USER, parts=[Part(data={"query": value})])
    values, _ = finding.read_message(Turn(message=message), None)
    arguments: Any = finding.arguments({"query": ["of the text"]}, values)
    assert arguments == {"query": value}
    assert type(arguments["query"]) is type(value)


def test_a_class_that_json_cannot_say_is_a_mistake() -> None:
    class Own: ...

    def find(query: Own) -> None: ...

    find.__annotations__["query"] = Own
    with pytest.raises(
        ConfigurationError, match=r"pydantic-core schema for <class '.*Own'>\. A parameter is"
    ):
        _ = Skill(mark(find)).input_schema


def test_a_default_that_json_cannot_say_is_a_mistake() -> None:
    def find(most: float = math.inf) -> None: ...

    with pytest.raises(ConfigurationError, match="no JSON Schema"):
        _ = Skill(mark(find)).input_schema


VALUES = """
from typing import Any
@skill
def hello(turn, x: Any = None, u: int | str = "", b: bool | str = "", n: str = "", m: int = 0):
    if not n:
        return Ask("n?", fills="n", known={"m": "7"})
    return {"values": [x, u, b, m]}
"""


def test_arguments_stay_what_they_were_while_a_question_waits(tmp_path: Any) -> None:
    agent = Agent.load(write(tmp_path, VALUES))
    data = {"x": 5, "u": "007", "b": "yes", "m": 3}
    asking = asyncio.run(agent.run(parts=[{"data": data}]))
    assert asyncio.run(agent.run("hi", after=asking)).data == [{"values": [5, "007", "yes", 7]}]
    answer = asyncio.run(agent.run(parts=[{"data": {"u": 8, "n": "hi"}}], after=asking))
    assert answer.data == [{"values": [5, 8, "yes", 7]}]
