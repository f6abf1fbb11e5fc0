"""What make eval records, and replays."""

import gzip
import json
import urllib.request
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Response

from a2a_lambda.aws import clients
from tests.tools.evals.conftest import Eval
from tools.evals.recordings import CREDENTIAL_URL, Recorder

EXPIRED_SIGN_IN = (
    "[default]\nsso_start_url = https://none.awsapps.com/start\nsso_region = eu-west-1\n"
    "sso_account_id = 111122223333\nsso_role_name = Developer\n"
)
"""A profile of which no token is cached, as after `aws sso logout`."""


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
    assert bool(CREDENTIAL_URL.search(url)) is has_secrets


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
    request_count = len(httpserver.log)
    monkeypatch.delenv("SECRET_BRAVE")
    assert evaluate(cases) == 0, "a CI needs no secret"
    monkeypatch.setenv("SECRET_BRAVE", "")
    assert evaluate(cases) == 0, "GitHub gives a fork's pull request an empty one"
    monkeypatch.setenv("SECRET_BRAVE", "secret of the CI")
    assert evaluate(cases) == 0
    assert len(httpserver.log) == request_count
    assert evaluate(cases, code.replace("/model", "/another")) == 1
    assert "no recorded answer" in capsys.readouterr().out
    assert evaluate(cases, code, LIVE="1") == 0
    assert len(httpserver.log) == request_count + 1
    assert evaluate(cases.replace("asks", "new")) == 1
    assert "no recorded answer" in capsys.readouterr().out
    assert len(httpserver.log) == request_count + 1, "a run that was not recorded calls no model"
    code_without_model = "from a2a_lambda import skill\n\n@skill\ndef hello(turn):\n    return 'recorded'\n"
    assert evaluate(cases.replace("asks", "plain"), code_without_model) == 0, (
        "what calls nothing needs no recording"
    )


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


@pytest.mark.parametrize("config", ["", EXPIRED_SIGN_IN, "in the environment"])
def test_a_replay_needs_no_credentials_of_aws(
    evaluate: Eval, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    """boto3 signs a request before a recording can answer it."""
    httpserver.expect_request("/").respond_with_json({"TableNames": ["recorded"]})
    code = (
        "import boto3\nfrom a2a_lambda import skill\n\n"
        f"options = {{'endpoint_url': {httpserver.url_for('')!r}, 'region_name': 'eu-west-1'}}\n"
        "client = boto3.session.Session().client('dynamodb', **options)\n\n"
        "@skill\ndef hello(turn):\n    return client.list_tables()['TableNames'][0]\n"
    )
    cases = "cases:\n  - { name: asks, message: hi, expect: { contains: recorded } }\n"
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    is_in_environment = config == "in the environment"
    Path("aws-config").write_text("" if is_in_environment else config)
    monkeypatch.setenv("AWS_CONFIG_FILE", "aws-config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "none")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mine")
    assert evaluate(cases, code, RECORD="1") == 0
    if is_in_environment:  # as `aws configure export-credentials --format env` writes them
        monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2020-01-01T00:00:00+00:00")
        monkeypatch.setenv("AWS_SESSION_TOKEN", "mine")
    else:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert evaluate(cases, code) == 0
    assert len(httpserver.log) == 1


def boto3_code(httpserver: HTTPServer, skill: str) -> str:
    """An agent that asks a service of AWS for the table of a name."""
    return (
        "import boto3\nfrom concurrent.futures import ThreadPoolExecutor\nfrom a2a_lambda import skill\n\n"
        f"options = {{'endpoint_url': {httpserver.url_for('')!r}, 'region_name': 'eu-west-1'}}\n"
        "client = boto3.session.Session('key', 'secret').client('dynamodb', **options)\n\n"
        "def ask(name):\n    return client.describe_table(TableName=name)['Table']['TableName']\n\n"
        f"@skill\ndef hello(turn):\n{skill}"
    )


def test_a_call_without_a_recorded_answer_is_a_problem_however_it_is_wrapped(
    evaluate: Eval, httpserver: HTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """boto3 wraps what vcr raises, and a case may expect a failure."""
    httpserver.expect_request("/").respond_with_json({"Table": {"TableName": "recorded"}})
    code = boto3_code(httpserver, "    return ask(turn.text)\n")
    case = "  - {{ name: {0}, message: {0}, expect: {{ {1} }} }}\n"
    cases = "cases:\n" + case.format("abc", "contains: recorded")
    assert evaluate(cases, code, RECORD="1") == 0
    assert evaluate(cases, code) == 0
    capsys.readouterr()
    assert evaluate(cases + case.format("xyz", "state: failed"), code) == 1
    assert "xyz: a call has no recorded answer" in capsys.readouterr().out
    assert len(httpserver.log) == 1


def test_calls_of_several_threads_are_recorded_and_replayed(evaluate: Eval, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/").respond_with_handler(
        lambda request: Response(
            json.dumps({"Table": {"TableName": request.get_json(force=True)["TableName"]}})
        )
    )
    skill = "    return ' '.join(ThreadPoolExecutor(8).map(ask, turn.text.split()))\n"
    names = " ".join(f"table-{number}" for number in range(24))
    cases = f"cases:\n  - {{ name: asks, message: {names}, expect: {{ contains: {names} }} }}\n"
    code = boto3_code(httpserver, skill)
    assert evaluate(cases, code, RECORD="1") == 0
    assert evaluate(cases, code) == 0
    assert len(httpserver.log) == 24


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
    zipped_content = gzip.compress(b"no secret")
    headers = {"Content-Encoding": "gzip"}
    httpserver.expect_request("/head", method="HEAD").respond_with_data("x" * 123)
    httpserver.expect_request("/packed").respond_with_data(zipped_content, headers=headers)
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
    assert live[:2] == [("123", b""), (str(len(zipped_content)), zipped_content)]
    assert ask("replay") == [*live[:2], (None, b"SECRET_KEY")]
