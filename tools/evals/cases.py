"""evals.yaml: messages for an agent, and what its answers must be."""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

from a2a_lambda.agent.card_file import VALUE_MISTAKES, UniqueKeyLoader, yaml_mistake
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.mistakes import did_you_mean

NAME = "evals.yaml"


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Expectation(Model):
    """What the last answer must be. Each field that is given is checked.

    state: in A2A's words. contains: texts that are in the reply, in any case. matches: a regular expression
    that the reply has somewhere. equals: JSON that the agent answers with. json_schema: its JSON Schema.
    skill: id of the skill that answers; checked on this machine only. seconds: at most.
    judge: function in the agent's tests/judges.py; it gets the answer, and returns whether it is good, or a
    sentence that says what is wrong.
    """

    state: str = "completed"
    contains: list[str] = []
    matches: str | None = None
    equals: JsonValue = None
    json_schema: dict[str, JsonValue] | None = Field(default=None, alias="schema")
    skill: str | None = None
    seconds: float | None = Field(default=None, gt=0)
    judge: str | None = None

    @field_validator("contains", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        values = value if isinstance(value, list) else [value]
        return [str(each) if type(each) is int else each for each in values]  # YAML's 7 is a string here

    @field_validator("matches")
    @classmethod
    def _is_expression(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value

    @field_validator("json_schema")
    @classmethod
    def _is_schema(cls, value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        try:
            jsonschema.Draft202012Validator.check_schema(value or {})
        except jsonschema.SchemaError as error:
            raise ValueError(f"not a JSON Schema: {error.message}") from None
        return value


class Runs(Model):
    """How the runs of a case are judged.

    repeats: how often a case is run. pass_rate: share of the runs that must pass, from 0 to 1.
    """

    repeats: int = Field(default=1, ge=1, le=100)
    pass_rate: float = Field(default=1.0, ge=0, le=1)


class Case(Runs):
    """A conversation, and what must be true of its answers.

    messages: sent one after another, in one conversation. skill, arguments: what the first message
    calls.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")
    messages: list[str] = Field(min_length=1, alias="message")
    skill: str | None = None
    arguments: dict[str, str] = {}
    expect: Expectation = Expectation()

    @field_validator("messages", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class Evals(Runs):
    """The cases of an agent.

    Its repeats and its pass_rate apply to the cases that do not set them.
    """

    cases: list[Case] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("cases"), list):
            return value
        defaults = {name: value[name] for name in ("repeats", "pass_rate") if name in value}
        cases = [{**defaults, **case} if isinstance(case, dict) else case for case in value["cases"]]
        return {**value, "cases": cases}


def read_evals(folder: Path) -> list[Case]:
    """Cases of an agent's folder; empty without a file. Raises ConfigurationError, which says what is
    wrong."""
    path = folder / NAME
    if not path.exists():
        return []
    try:
        content = yaml.load(path.read_text("utf-8"), UniqueKeyLoader)  # noqa: S506 (it is a SafeLoader)
    except (yaml.YAMLError, ValueError) as error:  # it may not be UTF-8, or have a date that does not exist
        raise ConfigurationError(yaml_mistake(path, error)) from None
    try:
        evals = Evals.model_validate(content)
    except ValidationError as error:
        raise ConfigurationError(f"{path}: " + "; ".join(_mistakes(content, error))) from None
    names = [case.name for case in evals.cases]
    if repeated_names := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigurationError(
            f"{path}: two cases are named {repeated_names[0]}: give one of them another name"
        )
    return evals.cases


def _mistakes(content: Any, error: ValidationError) -> list[str]:
    """What is wrong, by case. A case's own default is not named again in each case."""
    shared_fields = set(content) if isinstance(content, dict) else set()
    mistakes: list[str] = []
    for detail in error.errors(include_url=False):
        loc = list(detail["loc"])
        if len(loc) == 3 and loc[2] in shared_fields:
            continue
        if len(loc) > 1 and isinstance(loc[1], int):
            case = content["cases"][loc[1]]
            name = case.get("name", loc[1] + 1) if isinstance(case, dict) else loc[1] + 1
            loc[:2] = [f"case {name}"]
        for field in {"equals", "schema"}.intersection(loc):  # pydantic adds the types of what is within
            del loc[loc.index(field) + 1 :]
        place = ".".join(map(str, loc)) or "the file"
        text = f": {EVALS_MISTAKES.get(detail['type'], detail['msg'])}"
        if detail["type"] == "extra_forbidden":
            text = f" is not a field{did_you_mean(str(loc[-1]), CASE_FIELDS)}"
        elif detail["type"] == "invalid-json-value":
            text = f" has a value that JSON does not have: write {json.dumps(str(detail['input']))}"
        elif detail["type"] == "string_type" and "arguments" in loc:
            value = detail["input"]
            value = str(value) if isinstance(value, date) else json.dumps(value, default=str)
            text = f": must be a string: write {json.dumps(value)}"
        mistakes.append(f"{place}{text}")
    return mistakes


EVALS_MISTAKES = {
    **VALUE_MISTAKES,
    "string_pattern_mismatch": "must be letters, digits, - and _",
    "string_type": "must be a string: put it in quotes",
    "list_type": "must be a string, or a list",
    "too_short": "is empty: write at least one",
}
"""What is said of a wrong value, by pydantic's name of the mistake."""

CASE_FIELDS = sorted(
    {
        field.alias or name
        for model in (Evals, Case, Expectation)
        for name, field in model.model_fields.items()
    }
)
