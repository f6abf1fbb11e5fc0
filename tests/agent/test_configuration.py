"""turn.secret and turn.setting: where a value comes from, and what is said if there is none."""

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError
from botocore.exceptions import ClientError

from a2a_lambda import Agent, Answer
from a2a_lambda.agent.configuration import Configuration
from a2a_lambda.aws import parameters
from a2a_lambda.errors import ConfigurationError, ConfigurationUnavailable
from tests.agent.folders import write
from tests.conftest import replace_in

READS = "@skill\ndef hello(turn): return turn.secret('api-key') + turn.setting('model', 'small')"

PATH = "/a2a/my-stack"


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """One that reads a secret and a setting, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    return Agent.load(write(tmp_path, READS))


@pytest.fixture
def aws(emulator_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Clients of an account of AWS."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulator_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    parameters._absent_until.clear()
    for cache in (parameters._parameter_store, parameters._secrets_manager):
        cache.cache_clear()
    yield boto3.client
    for cache in (parameters._parameter_store, parameters._secrets_manager):
        cache.cache_clear()


def run(agent: Agent, **options: Any) -> Answer:
    return asyncio.run(agent.run("hi", **options))


def test_a_test_gives_them(agent: Agent) -> None:
    values = {"secrets": {"api-key": "sk-"}, "settings": {"model": "large"}}
    assert run(agent, **values).text == "sk-large"
    assert run(agent, secrets={"api-key": "sk-"}).text == "sk-small"


def test_variables_come_before_the_file(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("SECRET_API_KEY='from ${HOME} '\nSETTING_MODEL=of-file\n")
    assert run(agent).text == "from ${HOME} of-file"
    monkeypatch.setenv("SECRET_API_KEY", "from variable ")
    assert run(agent).text == "from variable of-file"


def test_a_missing_one_says_how_to_set_it(agent: Agent) -> None:
    with pytest.raises(
        ConfigurationError, match=r"no secret 'api-key'. Set it: make secret NAME=api-key; in a test"
    ):
        run(agent)
    with pytest.raises(
        ConfigurationError, match=r"VALUE=…; in a test, write agent.run\(…, settings=\{.model.: .….\}\)$"
    ):
        Configuration().setting("model")
    for name in ("API KEY", "", "-x", "x/y", "x_y"):
        with pytest.raises(ConfigurationError, match="cannot be the name of a secret"):
            Configuration().secret(name)


def test_a_misspelled_name_is_found(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("SETTING_CHAT_MODEL=small\n")
    configuration = Configuration(environment={"SECRET_OPENAI": "sk-"}, file=file)
    with pytest.raises(
        ConfigurationError, match=r"no setting 'chat-modle'; did you mean chat-model\? Set it"
    ):
        configuration.setting("chat-modle")
    with pytest.raises(ConfigurationError, match=r"no secret 'opnai'; did you mean openai\? Set it"):
        configuration.secret("opnai")


def test_a_stacks_are_in_parameter_store(aws: Any) -> None:
    ssm = aws("ssm")
    ssm.put_parameter(Name=f"{PATH}/secrets/openai", Value="sk-1", Type="SecureString")
    ssm.put_parameter(Name=f"{PATH}/settings/model", Value="large", Type="String")
    stack = Configuration(PATH)
    assert (stack.secret("openai"), stack.setting("model", "small")) == ("sk-1", "large")
    ssm.put_parameter(Name=f"{PATH}/secrets/openai", Value="sk-2", Type="SecureString", Overwrite=True)
    assert stack.secret("openai") == "sk-1", "it is kept for a while"
    assert stack.setting("nothing", "default") == "default"
    with pytest.raises(ConfigurationError, match="make secret NAME=other STACK=my-stack"):
        stack.secret("other")
    ssm.put_parameter(Name=f"{PATH}/settings/nothing", Value="late", Type="String")
    assert stack.setting("nothing", "default") == "default", "absence is kept for a while, too"
    parameters._absent_until.clear()
    assert stack.setting("nothing", "default") == "late"
    assert Configuration(PATH, {"SETTING_MODEL": "medium"}).setting("model") == "medium"


def test_an_arn_stands_for_a_secret_of_secrets_manager(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")  # the ARN has the region
    arn = aws("secretsmanager", region_name="us-east-1").create_secret(Name="openai", SecretString="sk-3")[
        "ARN"
    ]
    assert Configuration(environment={"SECRET_OPENAI": arn}).secret("openai") == "sk-3"
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    ssm = aws("ssm", region_name="us-east-1")
    ssm.put_parameter(Name=f"{PATH}/secrets/by-arn", Value=arn, Type="SecureString")
    assert Configuration(PATH).secret("by-arn") == "sk-3"
    absent = arn.replace("openai", "absent")
    with pytest.raises(ConfigurationError, match="Secrets Manager does not have"):
        Configuration(environment={"SECRET_OPENAI": absent}).secret("openai")


def test_a_store_that_does_not_answer_is_another_error(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    parameters._parameter_store.cache_clear()
    with pytest.raises(ConfigurationUnavailable, match="/secrets/openai could not be read: EndpointConn"):
        Configuration("/a2a/other").secret("openai")


@pytest.mark.parametrize(("refusals", "is_found"), [(4, True), (1_000, False)])
def test_many_containers_that_start_at_once_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch, refusals: int, is_found: bool
) -> None:
    """Parameter Store allows 40 reads a second. The pauses are random: four of the longest fit."""
    now, reads = 0.0, 0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    class Throttled:
        def get(self, *_: Any, **__: Any) -> str:
            nonlocal reads
            reads += 1
            if reads > refusals:
                return "sk-1"
            try:
                raise ClientError({"Error": {"Code": "ThrottlingException"}}, "GetParameter")
            except ClientError:
                raise GetParameterError("throttled")  # noqa: B904  # as Powertools does

    monkeypatch.setattr(parameters, "_parameter_store", Throttled)
    replace_in(parameters, time, monkeypatch, sleep=sleep, monotonic=lambda: now)
    parameters._absent_until.clear()
    if is_found:
        assert Configuration("/a2a/busy").secret("openai") == "sk-1"
    else:
        with pytest.raises(ConfigurationUnavailable, match="ThrottlingException"):
            Configuration("/a2a/busy").secret("openai")
    assert now <= parameters.THROTTLED_SECONDS


def test_no_value_reaches_a_log(agent: Agent, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert run(agent, secrets={"api-key": "sk-hidden"}).text
    from a2a_lambda import Turn

    turn = Turn(message={"messageId": "m", "role": "ROLE_USER", "parts": []})  # type: ignore[typeddict-item]
    turn.configuration = Configuration(overrides={"SECRET_A": "sk-hidden"})
    assert "sk-hidden" not in caplog.text + repr(turn) + repr(turn.configuration)
