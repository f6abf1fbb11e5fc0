"""make secret and make setting: here, and in a stack."""

import io
import stat
from pathlib import Path
from typing import Any

import boto3
import pytest

from a2a_lambda.agent.configuration import ENVIRONMENT_FILE, Configuration
from a2a_lambda.errors import ConfigurationError
from tools.deployment import secret


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def stack(emulator_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Parameter Store of an account that has the stack `shop`."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulator_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setattr(secret, "table_of", lambda stack: "table")
    return boto3.client("ssm")


def run(kind: str, value: str = "", **variables: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO(value))
        return secret.main(["secret", kind], variables)


def local() -> Configuration:
    return Configuration(file=ENVIRONMENT_FILE)


def test_a_secret_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    ENVIRONMENT_FILE.write_text("OTHER=1\n")
    ENVIRONMENT_FILE.chmod(0o644)
    assert run("secret", "sk-'quoted' ${HOME} \"text\"\n", NAME="open-ai") == 0
    assert run("setting", NAME="model", VALUE="gpt-5") == 0
    assert local().secret("open-ai") == "sk-'quoted' ${HOME} \"text\"", "as it was typed"
    assert local().setting("model") == "gpt-5"
    assert stat.S_IMODE(ENVIRONMENT_FILE.stat().st_mode) == 0o600, "for its owner alone"
    assert run("secret") == 0
    output = capsys.readouterr().out
    assert output.splitlines()[-1] == "open-ai"
    assert "sk-" not in output
    assert run("setting") == 0
    assert capsys.readouterr().out == "model=gpt-5\n"
    assert run("secret", NAME="open-ai", REMOVE="1") == 0
    assert run("secret", NAME="open-ai", REMOVE="1") == 1
    assert "no secret 'open-ai' in .env" in capsys.readouterr().err


def test_a_file_that_is_elsewhere_stays_there(tmp_path: Path) -> None:
    shared_file = tmp_path / "shared.env"
    shared_file.write_text("OTHER=1\n")
    ENVIRONMENT_FILE.symlink_to(shared_file)
    assert run("secret", "sk-1", NAME="openai") == 0
    assert ENVIRONMENT_FILE.is_symlink()
    assert "sk-1" in shared_file.read_text()
    assert run("secret", NAME="openai", REMOVE="1") == 0
    assert shared_file.read_text() == "OTHER=1\n"


def test_a_closed_input_is_an_empty_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert secret.main(["secret", "secret"], {"NAME": "openai"}) == 1
    assert "write the value, or pipe it in" in capsys.readouterr().err


def test_a_secret_of_a_stack(stack: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("secret", "sk-1", NAME="openai", STACK="shop") == 0
    assert run("secret", "sk-2", NAME="openai", STACK="shop") == 0
    assert run("setting", NAME="model", VALUE="gpt-5", STACK="shop") == 0
    parameter = stack.get_parameter(Name="/a2a/shop/secrets/openai", WithDecryption=True)["Parameter"]
    assert (parameter["Type"], parameter["Value"]) == ("SecureString", "sk-2")
    assert stack.get_parameter(Name="/a2a/shop/settings/model")["Parameter"]["Type"] == "String"
    capsys.readouterr()
    assert run("secret", STACK="shop") == 0
    assert capsys.readouterr().out == "openai\n"
    assert run("secret", NAME="openai", REMOVE="1", STACK="shop") == 0
    assert run("secret", NAME="openai", REMOVE="1", STACK="shop") == 1


@pytest.mark.parametrize(
    ("kind", "value", "variables", "said"),
    [
        ("secret", "", {"NAME": "openai", "VALUE": "sk-1"}, "history of your shell"),
        ("secret", " \n", {"NAME": "openai"}, "value of openai is empty"),
        ("secret", "sk-1", {"NAME": "Open AI"}, "cannot be the name of a secret"),
        ("setting", "", {"VALUE": "x"}, "VALUE requires NAME"),
    ],
)
def test_mistakes_set_nothing(
    kind: str, value: str, variables: dict[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(kind, value, **variables) == 1
    assert said in capsys.readouterr().err
    assert not ENVIRONMENT_FILE.exists()


def test_a_file_that_is_not_utf8_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    ENVIRONMENT_FILE.write_bytes("SECRET_A=é\n".encode("latin-1"))
    for status in (run("secret"), run("secret", "sk-1", NAME="b"), run("secret", NAME="a", REMOVE="1")):
        assert status == 1
    assert capsys.readouterr().err == "error: .env is not UTF-8: save it as UTF-8\n" * 3
    with pytest.raises(ConfigurationError, match=r"\.env is not UTF-8"):
        local().secret("a")


def test_a_line_without_a_value_sets_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    ENVIRONMENT_FILE.write_text("SECRET_A\nSETTING_B\nSETTING_C=\n", "utf-8-sig")
    assert local().setting("b", "default") == "default"
    assert local().setting("c", "default") == ""
    assert run("secret") == 0
    assert capsys.readouterr().out == "no secrets in .env\n"


def test_a_quote_that_is_never_closed_is_named_and_nothing_is_set(capsys: pytest.CaptureFixture[str]) -> None:
    """It would take in the new value."""
    text = "SECRET_A=1\nset -a\n\nSECRET_B='abc\nSECRET_C=1\n"
    ENVIRONMENT_FILE.write_text(text)
    ENVIRONMENT_FILE.chmod(0o644)
    assert run("setting", "gpt", NAME="model") == 1
    assert capsys.readouterr().err.startswith("error: .env:4: a quote is never closed: close it, or begin")
    assert ENVIRONMENT_FILE.read_text() == text
    assert ENVIRONMENT_FILE.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("line", ["set -a", 'SECRET_B="abc', "# it's a comment", "SECRET_B='a\nb'"])
def test_other_lines_of_the_file_are_kept(line: str) -> None:
    ENVIRONMENT_FILE.write_text(f"{line}\nSETTING_MODEL=old\n")
    assert run("setting", "gpt", NAME="model") == 0
    assert local().setting("model") == "gpt"
    assert ENVIRONMENT_FILE.read_text().startswith(f"{line}\n")


def test_a_quote_in_the_value_may_close_an_open_one(capsys: pytest.CaptureFixture[str]) -> None:
    ENVIRONMENT_FILE.write_text('OTHER="open\n')
    assert run("secret", 'q"uo', NAME="openai") == 1
    assert capsys.readouterr().err.startswith("error: .env:1: a quote is never closed")
    assert run("secret", "plain", NAME="openai") == 0
    assert local().secret("openai") == "plain"


def test_a_name_that_no_agent_reads_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    code = Path("functions/agents/hello/agent.py")
    code.parent.mkdir(parents=True)
    code.write_text('turn.setting("model"), turn.setting(\n    "region", "eu"), turn.secret("openai")')
    assert run("setting", NAME="modle", VALUE="x") == 0
    assert "note: no agent's code has turn.setting('modle'); did you mean model?" in capsys.readouterr().out
    for name in ("region", "another-name"):
        assert run("setting", NAME=name, VALUE="x") == 0
        assert "note:" not in capsys.readouterr().out


def test_a_name_in_another_form_is_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("secret", "sk-1", NAME="OPENAI_API_KEY") == 1
    assert capsys.readouterr().err.endswith("begin with a letter, as in 'openai-api-key'\n")


def test_a_variable_in_lower_case_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """turn.secret does not read it."""
    ENVIRONMENT_FILE.write_text("SECRET_Openai=1\nSECRET_OPEN_AI=2\n")
    assert run("secret") == 0
    assert capsys.readouterr().out == "open-ai\n"
    assert run("secret", NAME="openai", REMOVE="1") == 1
    assert "there is no secret 'openai' in .env; did you mean open-ai?" in capsys.readouterr().err
