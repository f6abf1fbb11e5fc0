"""What a case expects of an answer, and the mistakes in a file of cases."""

from pathlib import Path

import pytest

from a2a_lambda.agent.trial import Answer
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.protocol.model import Artifact, Json, Part, Task, TaskState, make_status
from a2a_lambda.tasks.context import Context
from tools.evals.cases import Expectation, read_evals
from tools.evals.runs import find_problems


def answer_of(state: str, text: str, data: list[Json], skill: str = "") -> Answer:
    parts = [Part(text=text), *(Part(data=value) for value in data)]
    task = Task(
        id="t",
        contextId="c",
        status=make_status(TaskState(f"TASK_STATE_{state.upper()}"), 0),
        artifacts=[Artifact(artifactId="artifact-1", parts=parts)],
    )
    return Answer(task, [], Context(), None, skill=skill)


@pytest.mark.parametrize(
    ("expect", "answer", "problem"),
    [
        ({}, answer_of("failed", "", []), "the state is failed, not completed"),
        ({"matches": r"\d+"}, answer_of("completed", "none", []), r"does not match \d+"),
        ({"equals": {"a": 1}}, answer_of("completed", "", [{"a": 2}]), "the data is {'a': 2}"),
        (
            {"contains": "5"},
            answer_of("completed", "", [5]),
            "contain '5': it has data, which `equals` checks",
        ),
        ({"equals": None}, answer_of("completed", "", [{"a": 1}]), "the data is {'a': 1}, not None"),
        (
            {"equals": {"a": True}},
            answer_of("completed", "", [{"a": 1}]),
            "the data is {'a': 1}, not {'a': True}",
        ),
        ({"equals": []}, answer_of("completed", "words", []), "the reply is not JSON: words"),
        ({"schema": {"type": "array"}}, answer_of("completed", "words", []), "the reply is not JSON: words"),
        ({"schema": {"required": ["b"]}}, answer_of("completed", "", [{}]), "'b' is a required property"),
        ({"skill": "x"}, answer_of("completed", "", [], "y"), "skill y answered, not x"),
        ({"seconds": 1}, answer_of("completed", "", []), "it took 2.0 s"),
    ],
)
def test_each_expectation(expect: dict[str, object], answer: Answer, problem: str) -> None:
    [mistake] = find_problems(Expectation.model_validate(expect), answer, 2.0)
    assert problem in mistake


@pytest.mark.parametrize(
    "expect",
    [
        {"contains": "HELLO", "matches": "^h", "skill": "x", "seconds": 3},
        {"equals": {"a": 1}, "schema": {"required": ["a"]}},
        {"equals": {"a": 1.0}},
    ],
)
def test_expectations_that_hold(expect: dict[str, object]) -> None:
    reply = answer_of("completed", "hello", [{"a": 1}], "")
    assert find_problems(Expectation.model_validate(expect), reply, 2.0) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cases: [{ name: a }]", "case a.message"),
        (
            "cases: [{ name: a, message: x, expect: { contain: y } }]",
            "case a.expect.contain is not a field; did you mean contains",
        ),
        ("cases: [{ name: a, message: x, expect: { matches: '(' } }]", "not a regular expression"),
        ("cases: [{ name: a, message: x, expect: { schema: { type: 7 } } }]", "not a JSON Schema"),
        (
            "cases: [{ name: a, message: x, skill: s, arguments: { n: 3 } }]",
            'case a.arguments.n: must be a string: write "3"',
        ),
        (
            "cases: [{ name: a, message: x, skill: s, arguments: { n: 2026-01-31 } }]",
            'must be a string: write "2026-01-31"',
        ),
        (
            "cases: [{ name: a, message: x, expect: { equals: { days: [2026-01-31] } } }]",
            'case a.expect.equals has a value that JSON does not have: write "2026-01-31"',
        ),
        (
            "cases: [{ name: a, message: x, expect: { schema: { const: 2026-01-31 } } }]",
            'case a.expect.schema has a value that JSON does not have: write "2026-01-31"',
        ),
        ("cases: [{ name: a, message: 5 }]", "case a.message: must be a string, or a list"),
        ("cases: [{ name: a, message: [5] }]", "case a.message.0: must be a string: put it in quotes"),
        ("cases: [{ name: a b, message: x }]", "case a b.name: must be letters, digits, - and _"),
        ("cases: []", "cases: is empty: write at least one"),
        ("", "the file: must have fields, each on a line below it"),
        ("cases: [{ name: a, message: x }, { name: a, message: y }]", "two cases are named a"),
        ("cases: [", "not valid YAML"),
        ("cases: [{ name: a, message: x, expect: { contains: y }, expect: {} }]", "'expect' appears twice"),
    ],
)
def test_a_mistake_is_explained(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "evals.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        read_evals(tmp_path)


def test_a_number_may_be_expected_without_quotes(tmp_path: Path) -> None:
    (tmp_path / "evals.yaml").write_text("cases: [{ name: a, message: x, expect: { contains: 7 } }]")
    [case] = read_evals(tmp_path)
    assert case.expect.contains == ["7"]


def test_a_file_in_another_encoding_is_explained(tmp_path: Path) -> None:
    (tmp_path / "evals.yaml").write_bytes("cases: [{ name: a, message: é }]".encode("latin-1"))
    with pytest.raises(ConfigurationError, match="not valid YAML"):
        read_evals(tmp_path)
