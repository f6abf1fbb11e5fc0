"""The rules of a template, checked before a build."""

from pathlib import Path

import pytest

from a2a_lambda.errors import ConfigurationError
from tools.build import lint
from tools.template import broken_rule, parameters


@pytest.mark.parametrize(
    ("assertion", "problem"),
    [
        ("!Equals [!Ref Name, b]", "not b"),
        ("!Equals [!Ref Name, a]", ""),
        ("!Or [!Equals [!Ref Name, b], !Equals [!Ref Name, c]]", "not b"),
        ("!Or [!Equals [!Ref Name, b], !Equals [!Ref Name, a]]", ""),
        ("!And [!Equals [!Ref Name, a], !Equals [!Ref Name, c]]", "not b"),
        # CloudFormation knows:
        ("!Not [!Contains [[a], !Ref Name]]", ""),
        ("!Equals [!Ref AWS::Region, x]", ""),
        ("!Or [!Equals [!Ref Name, a], !Contains [[b], !Ref Name]]", ""),
        ("!Equals [!Ref Flag, true]", ""),
        ("!Equals [!Ref Number, 01]", ""),
        ("!Equals [!Ref Name, !Select [0, [b]]]", ""),
        ("true", ""),
        ("{ Fn::And: 5 }", ""),
        ("!Equals [{ Ref: [a] }, a]", ""),
    ],
)
def test_what_a_rule_of_a_fork_asserts(tmp_path: Path, assertion: str, problem: str) -> None:
    """One that the kit cannot evaluate is left to CloudFormation."""
    path = tmp_path / "template.yaml"
    path.write_text(
        f"Rules:\n  Ours: {{ Assertions: [{{ Assert: {assertion}, AssertDescription: not b }}] }}\n"
    )
    assert broken_rule(path, {"Name": "a", "Flag": "true", "Number": "01"}) == problem


def test_a_rule_of_a_fork_may_have_any_function(tmp_path: Path) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(
        "Rules:\n"
        "  Ours: { Assertions: [{ Assert: !Not [!Contains [[a], !Ref Name]], AssertDescription: not a }] }\n"
        "  Region: { Assertions: [{ Assert: !Equals [!Ref AWS::Region, x], AssertDescription: not x }] }\n"
        "  Either: { Assertions: [{ Assert: !Or [!Equals [!Ref Name, b], !Equals [!Ref Name, c]],"
        " AssertDescription: b or c }] }\n"
    )
    assert broken_rule(path, {"Name": "b"}) == ""
    assert broken_rule(path, {"Name": "d"}) == "b or c"


def test_an_assertion_that_is_left_out_hides_no_other(tmp_path: Path) -> None:
    path = tmp_path / "template.yaml"
    assertions = "[{ Assert: !Contains [[b], !Ref Name] }, { Assert: !Equals [!Ref Name, b] }]"
    path.write_text(f"Rules:\n  Ours: {{ Assertions: {assertions} }}\n")
    assert broken_rule(path, {"Name": "a"}) == f"the rule Ours of {path} is broken"


@pytest.mark.parametrize(
    "rules",
    [
        "",
        "x",
        "[x]",
        "{ Ours: }",
        "{ Ours: { RuleCondition: !Equals [!Ref Name, a] } }",
        "{ Ours: { Assertions: } }",
        "{ Ours: { Assertions: [x] } }",
        "{ Ours: { Assertions: 5 } }",
        "{ Ours: { Assertions: { Fn::Transform: { Name: x } } } }",
        "{ Ours: { Fn::Transform: { Name: x } } }",
        "{ Fn::Transform: [{ Name: x }] }",
    ],
)
def test_rules_without_assertions_are_left_to_cloudformation(tmp_path: Path, rules: str) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(f"Rules: {rules}\n")
    assert broken_rule(path, {"Name": "a"}) == ""


@pytest.mark.parametrize("text", ["", "x", "[x]"])
def test_a_template_that_is_none_has_no_rules(tmp_path: Path, text: str) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(text)
    assert broken_rule(path, {}) == ""


def test_a_rule_without_a_description_is_named(tmp_path: Path) -> None:
    path = tmp_path / "template.yaml"
    for description in ("", ", AssertDescription: "):
        assertion = f"Assert: !Equals [!Ref Name, b]{description}"
        path.write_text(f"Rules:\n  Ours: {{ Assertions: [{{ {assertion} }}] }}\n")
        assert "the rule Ours" in broken_rule(path, {"Name": "a"})


def test_a_template_that_is_no_yaml_is_explained_by_its_line(tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text("Parameters:\n  Name: { Default: a }\n  MODEL_ID us.anthropic\n")
    with pytest.raises(ConfigurationError, match=r"template\.yaml:3: not valid YAML"):
        parameters(template)
    with pytest.raises(ConfigurationError, match="not valid YAML"):
        lint.translate(template.read_text())
