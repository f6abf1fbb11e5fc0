"""make eval: green, red, and what a run says to the one who reads it."""

import asyncio
import gzip
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pytest_httpserver import HTTPServer

from a2a_lambda.agent.trial import Answer
from a2a_lambda.aws import clients
from a2a_lambda.client import Client
from a2a_lambda.kit import Kit
from tests.agent.folders import CARD
from tests.client.served import CARDS, Served
from tests.conftest import BASE_URL, new_key
from tools.evals import main, report
from tools.evals.cases import Case
from tools.evals.recordings import CREDENTIALS, Recorder
from tools.evals.runs import Outcome, There

CODE = """
from a2a_lambda import Ask, skill

COUNT = []

@skill(default=True)
def hello(turn):
    COUNT.append(1)
    if "ask" in turn.text:
        return Ask("Which?")
    if "break" in turn.text:
        raise RuntimeError("broken on purpose")
    if "sometimes" in turn.text and len(COUNT) % 2:
        return "no"
    return f"You said {turn.text}.", {"length": len(turn.text)}
"""

Eval = Callable[..., int]


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Eval:
    """Runs make eval in a fork with one agent; returns its exit status."""
    folder = tmp_path / "functions/agents/hello"
    folder.mkdir(parents=True)
    (folder / "card.yaml").write_text(CARD.format(name="hello"))
    (folder / "agent.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)

    def evaluate(cases: str, code: str = "", **environ: str) -> int:
        (folder / "evals.yaml").write_text(cases)
        if code:
            (folder / "agent.py").write_text(code)
        return main.main({"COLUMNS": "200", **environ})

    monkeypatch.setenv("COLUMNS", "200")
    return evaluate


def test_green_and_red(evaluate: Eval, capsys: pytest.CaptureFixture[str]) -> None:
    good = "cases:\n  - { name: says, message: hi, expect: { contains: said hi, equals: { length: 2 } } }\n"
    assert evaluate(good) == 0
    assert "1/1" in (shown := capsys.readouterr().out)
    assert "all passed" in shown
    assert evaluate(good + "  - { name: other, message: hi, expect: { contains: [bye] } }\n") == 1
    shown = capsys.readouterr().out
    assert "the reply does not contain 'bye': You said hi." in shown
    assert "1 failed" in shown
    [suite] = ElementTree.parse(main.RESULTS / "junit.xml").getroot()
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("hello", "2", "1")
    assert [case.get("name") for case in suite] == ["says", "other"]
    assert "does not contain" in (suite[1][0].get("message") or "")


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
    shown = capsys.readouterr().out
    assert shown.count("✓") == 2
    assert "RuntimeError: broken on purpose" in shown


def test_a_task_may_be_expected_to_fail(evaluate: Eval, capsys: pytest.CaptureFixture[str]) -> None:
    """Here as at a deployment, where what a skill raises is a failed task."""
    cases = (
        "cases:\n"
        "  - { name: breaks, message: break, expect: { state: failed, contains: could not finish } }\n"
        "  - { name: says, message: hi, expect: { state: failed } }\n"
    )
    assert evaluate(cases) == 1
    shown = capsys.readouterr().out
    assert "✓ breaks" in shown
    assert "the state is completed, not failed" in shown


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
    shown = capsys.readouterr().out
    assert "KeyError" in shown
    assert "✓ good" in shown


def test_a_reply_is_no_markup_of_the_table(evaluate: Eval, capsys: pytest.CaptureFixture[str]) -> None:
    cases = 'cases:\n  - { name: says, message: "[/INST] [red]x\\u0001", expect: { contains: bye } }\n'
    assert evaluate(cases) == 1
    assert "[/INST]" in capsys.readouterr().out
    ElementTree.parse(main.RESULTS / "junit.xml")


def test_a_share_may_be_one_that_no_float_holds(evaluate: Eval) -> None:
    outcome = Outcome(
        Case.model_validate({"name": "a", "message": "x", "pass_rate": 0.28}), [[]] * 7 + [["no"]] * 18, []
    )
    assert outcome.is_good


@pytest.mark.parametrize(
    ("url", "has_secrets"),
    [
        ("https://sts.us-east-1.amazonaws.com/", True),
        ("https://portal.sso.us-east-1.amazonaws.com/federation/credentials", True),
        ("http://169.254.170.2/v2/credentials", True),
        ("https://login.microsoftonline.com/tenant/oauth2/v2.0/token", True),
        ("https://github.com/login/oauth/access_token?x=1", True),
        ("https://slack.com/api/oauth.v2.access", True),
        ("https://api.dingtalk.com/v1.0/oauth2/accessToken", True),
        ("https://www.linkedin.com/oauth/v2/accessToken", True),
        ("https://example.com/api/token/refresh/", True),
        ("https://vault.example.com/v1/auth/token/create", True),
        ("https://example.com/v1/tokens", True),
        ("https://oauth.example.com/", True),
        ("https://user:p@sts.amazonaws.com/", True),
        ("https://kms.eu-west-1.amazonaws.com/", True),
        ("https://mine.vault.azure.net/secrets/db?api-version=7.4", True),
        ("https://secretmanager.googleapis.com/v1/projects/p/secrets/s/versions/1:access", True),
        ("https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/a:generateAccessToken", True),
        ("http://127.0.0.1:8200/v1/secret/data/db", True),
        ("https://requests.example.com/v1", False),
        ("https://vaults.example.com/v1", False),
        ("https://api.example.com/v1/tokenize", False),
        ("https://api.example.com/search?q=oauth&next=/token", False),
    ],
)
def test_only_answers_with_secrets_are_not_recorded(url: str, has_secrets: bool) -> None:
    assert bool(CREDENTIALS.search(url)) is has_secrets


def test_what_a_model_answers_is_recorded_and_replayed(
    evaluate: Eval,
    httpserver: HTTPServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    httpserver.expect_request("/model").respond_with_json(
        {"text": "recorded", "you": "secret+of+brave"},
        headers={"Set-Cookie": "secret=1", "X-Echo": "secret+of+brave"},
    )
    monkeypatch.setenv("SECRET_BRAVE", "secret+of+brave")
    code = (
        "import json, urllib.parse, urllib.request\nfrom a2a_lambda import skill\n\n"
        "@skill\ndef hello(turn):\n"
        "    key = turn.secret('brave')\n"
        f"    url = {httpserver.url_for('/model')!r} + '?subscription=' + urllib.parse.quote(key)\n"
        "    body = json.dumps({'key': key, 'id': turn.id}).encode()\n"
        "    request = urllib.request.Request(url, body, {'xi-key': key})\n"
        "    return json.load(urllib.request.urlopen(request))['text']\n"
    )
    cases = "cases:\n  - { name: asks, message: hi, expect: { contains: recorded } }\n"
    assert evaluate(cases, code, RECORD="1") == 0
    recording = Path("functions/agents/hello/tests/recordings/asks-1.yaml").read_text()
    assert "secret" not in recording
    asked = len(httpserver.log)
    monkeypatch.delenv("SECRET_BRAVE")
    assert evaluate(cases) == 0, "a CI needs no secret"
    monkeypatch.setenv("SECRET_BRAVE", "")
    assert evaluate(cases) == 0, "GitHub gives a fork's pull request an empty one"
    monkeypatch.setenv("SECRET_BRAVE", "secret of the CI")
    assert evaluate(cases) == 0
    assert len(httpserver.log) == asked
    assert evaluate(cases, code.replace("/model", "/another")) == 1
    assert "no recorded answer" in capsys.readouterr().out
    assert evaluate(cases, code, LIVE="1") == 0
    assert len(httpserver.log) == asked + 1
    assert evaluate(cases.replace("asks", "new")) == 1
    assert "no recorded answer" in capsys.readouterr().out
    assert len(httpserver.log) == asked + 1, "a run that was not recorded calls no model"
    plain = "from a2a_lambda import skill\n\n@skill\ndef hello(turn):\n    return 'recorded'\n"
    assert evaluate(cases.replace("asks", "plain"), plain) == 0, "what calls nothing needs no recording"


def test_the_text_of_an_arn_is_in_no_recording(
    evaluate: Eval, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpserver.expect_request("/model").respond_with_json({"text": "recorded"})
    monkeypatch.setenv("SECRET_BRAVE", "arn:aws:secretsmanager:eu-west-1:123456789012:secret:brave")
    reads: list[str] = []

    def get_secret(arn: str) -> str:
        reads.append(arn)
        return "secret+of+brave"

    monkeypatch.setattr("a2a_lambda.aws.parameters.get_secret", get_secret)
    code = (
        "import json, urllib.request\nfrom a2a_lambda import skill\n\n"
        "@skill\ndef hello(turn):\n"
        "    body = json.dumps({'key': turn.secret('brave')}).encode()\n"
        f"    request = urllib.request.Request({httpserver.url_for('/model')!r}, body)\n"
        "    return json.load(urllib.request.urlopen(request))['text']\n"
    )
    cases = "cases:\n  - { name: asks, message: hi, expect: { contains: recorded } }\n"
    assert evaluate(cases, code, RECORD="1") == 0
    recording = Path("functions/agents/hello/tests/recordings/asks-1.yaml").read_text()
    assert "SECRET_BRAVE" in recording
    assert "secret+of+brave" not in recording
    assert len(reads) == 1
    assert evaluate(cases) == 0
    assert len(reads) == 1, "a replay asks no service"


@pytest.mark.parametrize(
    "sign_in",
    ["ClientCredentials('{url}/token', 'id', turn.secret('partner'))", "AwsSignature('lambda', 'eu-west-1')"],
)
def test_a_replay_signs_in_nowhere(evaluate: Eval, httpserver: HTTPServer, sign_in: str) -> None:
    """Nothing records a token."""
    url = httpserver.url_for("").replace("localhost", "127.0.0.1").rstrip("/")
    interface = {"url": f"{url}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    card = {"name": "Other", "supportedInterfaces": [interface]}
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
    httpserver.expect_request("/token").respond_with_json({"access_token": "secret", "expires_in": 60})
    httpserver.expect_request("/.well-known/agent-card.json").respond_with_json(card)
    httpserver.expect_request("/").respond_with_json({"jsonrpc": "2.0", "id": 1, "result": {"task": task}})
    code = (
        "from a2a_lambda import skill\n"
        "from a2a_lambda.client import AwsSignature, Client, ClientCredentials\n\n"
        "@skill\nasync def hello(turn):\n"
        f"    auth = {sign_in.format(url=url)}\n"
        f"    async with Client('{url}', auth=auth, private=True) as other:\n"
        "        return (await other.send('hi'))['id']\n"
    )
    cases = "cases:\n  - { name: asks, message: hi, expect: { contains: t } }\n"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SECRET_PARTNER", "secret of the partner")
        environment.setenv("AWS_ACCESS_KEY_ID", "mine")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "mine")
        clients.session.cache_clear()
        assert evaluate(cases, code, RECORD="1") == 0
        environment.setenv("AWS_ACCESS_KEY_ID", "")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        clients.session.cache_clear()
        calls = len(httpserver.log)
        assert evaluate(cases) == 0
    clients.session.cache_clear()
    assert len(httpserver.log) == calls


def test_a_recording_is_what_was_answered_but_for_secrets(
    httpserver: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-12345678")
    packed = gzip.compress(b"no secret")
    headers = {"Content-Encoding": "gzip"}
    httpserver.expect_request("/head", method="HEAD").respond_with_data("x" * 123)
    httpserver.expect_request("/packed").respond_with_data(packed, headers=headers)
    httpserver.expect_request("/secret").respond_with_data(gzip.compress(b"sk-12345678"), headers=headers)

    def ask(mode: str) -> list[tuple[str | None, bytes]]:
        answers = []
        with Recorder(tmp_path, mode)("asks"):
            for method, path in (("HEAD", "/head"), ("GET", "/packed"), ("GET", "/secret")):
                request = urllib.request.Request(httpserver.url_for(path), method=method)
                with urllib.request.urlopen(request) as answer:
                    answers.append((answer.headers["Content-Length"], answer.read()))
        return answers

    live = ask("record")
    assert live[:2] == [("123", b""), (str(len(packed)), packed)]
    assert ask("replay") == [*live[:2], (None, b"SECRET_KEY")]


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
    assert (
        "case asks: there is no skill 'helo'; did you mean hello? There are: hello" in capsys.readouterr().err
    )
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
            return await There(client).ask(case)

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
