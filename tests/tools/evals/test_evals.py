"""make eval: green, red, and what a run says to the one who reads it."""

import asyncio
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from a2a_lambda.agent.trial import Answer
from a2a_lambda.client import Client
from a2a_lambda.kit import Kit
from tests.client.served import CARDS, Served
from tests.conftest import BASE_URL, new_key
from tests.tools.evals.conftest import Eval
from tools.evals import main, report
from tools.evals.cases import Case
from tools.evals.runs import DeployedAgent, Outcome


def test_green_and_red(evaluate: Eval, capsys: pytest.CaptureFixture[str]) -> None:
    good = "cases:\n  - { name: says, message: hi, expect: { contains: said hi, equals: { length: 2 } } }\n"
    assert evaluate(good) == 0
    assert "1/1" in (output := capsys.readouterr().out)
    assert "all passed" in output
    assert evaluate(good + "  - { name: other, message: hi, expect: { contains: [bye] } }\n") == 1
    output = capsys.readouterr().out
    assert "the reply does not contain 'bye': You said hi." in output
    assert "1 failed" in output
    [suite] = ElementTree.parse(main.RESULTS / "junit.xml").getroot()
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("hello", "2", "1")
    assert [case.get("name") for case in suite] == ["says", "other"]
    assert "does not contain" in (suite[1][0].get("message") or "")


def test_an_empty_name_does_not_mean_all_agents(evaluate: Eval, capsys: pytest.CaptureFixture[str]) -> None:
    """With LIVE=1, each of them would call its model."""
    assert evaluate("cases: [{ name: says, message: hi, expect: { contains: hi } }]\n", AGENT="") == 1
    assert "AGENT is empty" in capsys.readouterr().err


def test_a_problem_keeps_its_line_in_a_terminal_of_80_columns(
    evaluate: Eval, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "answers-in-German"
    assert evaluate(f"cases:\n  - {{ name: {name}, message: hi, expect: {{ contains: bye }} }}\n") == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"✗ {name}") and "0/1" in line for line in lines)
    assert f"{name}: the reply does not contain 'bye': You said hi." in lines


def test_the_last_run_is_compared_with(evaluate: Eval, capsys: pytest.CaptureFixture[str]) -> None:
    cases = "cases:\n  - { name: says, message: hi, expect: { contains: WORDS } }\n"
    for words, change in (
        ("said", "new"),
        ("said", "same"),
        ("bye", "worse, was 100%"),
        ("said", "better, was 0%"),
    ):
        evaluate(cases.replace("WORDS", words))
        assert change in capsys.readouterr().out


@pytest.mark.parametrize(("rate", "status"), [("0.5", 0), ("0.6", 1)])
def test_a_case_may_pass_by_a_share_of_its_runs(
    evaluate: Eval, capsys: pytest.CaptureFixture[str], rate: str, status: int
) -> None:
    case = "{ name: says, message: sometimes, expect: { contains: said } }"
    cases = f"repeats: 4\npass_rate: {rate}\ncases:\n  - {case}\n"
    assert evaluate(cases) == status
    assert "2/4" in capsys.readouterr().out


def test_a_conversation_and_an_error(evaluate: Eval, capsys: pytest.CaptureFixture[str]) -> None:
    cases = (
        "cases:\n  - { name: asks, message: ask, expect: { state: input-required } }\n"
        "  - { name: talks, message: [ask, fine], expect: { contains: said fine, skill: hello } }\n"
        "  - { name: breaks, message: break }\n"
    )
    assert evaluate(cases) == 1
    output = capsys.readouterr().out
    assert output.count("✓") == 2
    assert "RuntimeError: broken on purpose" in output


def test_a_task_may_be_expected_to_fail(evaluate: Eval, capsys: pytest.CaptureFixture[str]) -> None:
    """Here as at a deployment, where what a skill raises is a failed task."""
    cases = (
        "cases:\n"
        "  - { name: breaks, message: break, expect: { state: failed, contains: could not finish } }\n"
        "  - { name: says, message: hi, expect: { state: failed } }\n"
    )
    assert evaluate(cases) == 1
    output = capsys.readouterr().out
    assert "✓ breaks" in output
    assert "the state is completed, not failed" in output


def test_a_judge_is_a_function_of_the_fork(evaluate: Eval, capsys: pytest.CaptureFixture[str]) -> None:
    cases = "cases:\n  - { name: polite, message: hi, expect: { judge: is_polite } }\n"
    assert evaluate(cases) == 1
    assert "judges.py: not found" in capsys.readouterr().err
    judges = Path("functions/agents/hello/tests/judges.py")
    judges.parent.mkdir()
    judges.write_text('def is_polite(answer): return "please" in answer.text or "it never says please"\n')
    assert evaluate(cases) == 1
    assert "is_polite: it never says please" in capsys.readouterr().out
    for kind in ("def", "async def"):
        judges.write_text(f"{kind} is_polite(answer): return answer.state == 'completed'\n")
        assert evaluate(cases) == 0


def test_a_judge_that_raises_stops_nothing_else(evaluate: Eval, capsys: pytest.CaptureFixture[str]) -> None:
    cases = (
        "cases:\n  - { name: bad, message: hi, expect: { judge: broken } }\n  - { name: good, message: hi }\n"
    )
    folder = Path("functions/agents/hello/tests")
    folder.mkdir()
    (folder / "judges.py").write_text("def broken(answer): return {}['x']\n")
    assert evaluate(cases) == 1
    output = capsys.readouterr().out
    assert "KeyError" in output
    assert "✓ good" in output


def test_a_reply_is_no_markup_of_the_table(evaluate: Eval, capsys: pytest.CaptureFixture[str]) -> None:
    cases = 'cases:\n  - { name: says, message: "[/INST] [red]x\\u0001\\ufffe", expect: { contains: bye } }\n'
    assert evaluate(cases) == 1
    assert "[/INST]" in capsys.readouterr().out
    ElementTree.parse(main.RESULTS / "junit.xml")


def test_a_share_may_be_one_that_no_float_holds(evaluate: Eval) -> None:
    outcome = Outcome(
        Case.model_validate({"name": "a", "message": "x", "pass_rate": 0.28}), [[]] * 7 + [["no"]] * 18, []
    )
    assert outcome.is_good


def test_json_in_a_text_counts_as_data(evaluate: Eval) -> None:
    code = "from a2a_lambda import skill\n\n@skill\ndef hello(turn):\n    return '{\"sum\": 3}'\n"
    cases = "cases:\n  - { name: sums, message: hi, expect: { equals: { sum: 3 } } }\n"
    assert evaluate(cases, code) == 0
    assert evaluate(cases.replace("3 }", "4 }"), code) == 1


def test_a_skill_that_is_not_there_is_no_failure_that_was_expected(
    evaluate: Eval, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = "cases:\n  - { name: asks, message: hi, skill: helo, expect: { state: failed } }\n"
    assert evaluate(cases) == 1
    assert "case asks: there is no skill 'helo'; did you mean hello? Skills: hello" in capsys.readouterr().err
    assert evaluate(cases.replace("helo", "hello, arguments: { nothing: '1' }")) == 1
    assert "no parameter 'nothing'" in capsys.readouterr().out
    for variables in ({"LIVE": "1"}, {"URL": "http://127.0.0.1:1"}):
        assert evaluate(cases.replace("helo", "hello"), RECORD="1", **variables) == 1
        assert "RECORD=1" in capsys.readouterr().err


def test_an_agent_that_is_not_there(evaluate: Eval, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate("cases: [{ name: a, message: x }]", AGENT="nobody") == 1
    assert "there is no agent 'nobody'" in capsys.readouterr().err


def test_a_deployment_is_called_as_a_client_would(kit: Kit) -> None:
    """A conversation, with a question in it, and a skill with arguments."""

    async def ask(case: Case) -> Answer:
        async with Client(BASE_URL, key=new_key(kit), transport=Served(kit, CARDS["1.0"])) as client:
            return await DeployedAgent(client).ask(case)

    talk = Case.model_validate({"name": "a", "message": ["question", "fine"], "skill": "question"})
    assert asyncio.run(ask(talk)).state == "completed"
    add = Case.model_validate(
        {"name": "a", "message": "x", "skill": "add", "arguments": {"a": "1", "b": "2"}}
    )
    reply = asyncio.run(ask(add))
    assert (reply.state, reply.data) == ("completed", [3])


def test_rates_of_a_file_that_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    assert report.read_rates(tmp_path / "x.json") == {}
    report.write_rates(tmp_path / "y" / "x.json", {"a": 0.5})
    assert json.loads((tmp_path / "y" / "x.json").read_text()) == {"a": 0.5}
