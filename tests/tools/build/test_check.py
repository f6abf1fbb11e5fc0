"""What make build refuses before it packs anything."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from a2a_lambda.catalog.manifest import read_manifest
from tests.agent.folders import write, write_among
from tools.build import check
from tools.build.check import find_secrets


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.local",
        "key.pem",
        "keys/server.KEY",
        "bundle.p12",
        "lib/tests/.env",
        "credentials.json",
        "id_rsa",
    ],
)
def test_files_that_hold_secrets_stop_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    agents = write_among(tmp_path / "agents", "")
    secret = agents / "bad" / name
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("-----BEGIN PRIVATE KEY-----")
    monkeypatch.setattr(check, "AGENTS", agents)
    assert check.main(["check"]) == 1
    assert f"these files would be in every function: {secret}. Move them" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["K=1", "", "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----"])
def test_a_pem_is_packed_only_if_all_of_it_is_public(tmp_path: Path, text: str) -> None:
    agents = write_among(tmp_path / "agents", "")
    (agents / "bad" / "x.pem").write_text(text)
    assert find_secrets(agents) == [str(agents / "bad" / "x.pem")]
    (agents / "bad" / "x.pem").write_text("-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n")
    assert find_secrets(agents) == []


def test_a_build_for_one_agent_that_imports_another_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = write_among(tmp_path / "agents", "from agents.other.agent import hello", "shop")
    write_among(tmp_path / "agents", "def hello(turn): ...", "other")
    monkeypatch.setattr(check, "AGENTS", agents)
    monkeypatch.setattr(
        check,
        "load_profiles",
        lambda _, names: [SimpleNamespace(name=name, card=None) for name in sorted(names)],
    )
    monkeypatch.setattr(
        check, "encode_manifest", lambda profiles: ",".join(each.name for each in profiles).encode()
    )
    manifest = tmp_path / "manifest"
    assert check.main(["check", str(manifest), "shop"]) == 1
    assert "agent shop imports agent other, which this build leaves out" in capsys.readouterr().err
    assert check.main(["check", str(manifest), "shop", "other"]) == 0
    assert manifest.read_bytes() == b"other,shop"


def test_a_build_for_one_agent_needs_no_other_to_be_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = write(tmp_path, "@skill\ndef hello(turn): return 'hi'", name="good").parent
    write(tmp_path, "@skil\ndef hello(turn): return 'hi'", name="broken")
    monkeypatch.setattr(check, "AGENTS", agents)
    manifest = tmp_path / "manifest"
    (agents / "broken" / ".env").write_text("K=1")
    assert check.main(["check", str(manifest), "good"]) == 0
    (agents / "broken" / ".env").unlink()
    assert [profile.name for profile in read_manifest(manifest)] == ["good"]
    assert check.main(["check", str(manifest)]) == 1
    assert "name 'skil' is not defined" in capsys.readouterr().err
    assert check.main(["check", str(manifest), "other"]) == 1
    assert "there is no agent 'other'" in capsys.readouterr().err


def test_an_output_that_is_lost_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The build continues: only the author knows whether it is meant."""
    code = "@skill\ndef hello(turn):\n    Ask('Which?')\n    return 'hi'"
    monkeypatch.setattr(check, "AGENTS", write(tmp_path, code).parent)
    assert check.main(["check", str(tmp_path / "manifest")]) == 0
    assert "agent.py:4: this Ask is discarded" in capsys.readouterr().err


@pytest.mark.parametrize("call", ["signal.signal(signal.SIGUSR1, print)", "asyncio.get_event_loop()"])
def test_what_only_the_main_thread_may_do_stops_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], call: str
) -> None:
    """A deployment imports agents in other threads."""
    code = f"import asyncio, signal\n{call}\n@skill\ndef hello(turn): return 'hi'"
    monkeypatch.setattr(check, "AGENTS", write(tmp_path, code, name="late").parent)
    assert check.main(["check", str(tmp_path / "manifest")]) == 1
    error = capsys.readouterr().err
    assert "late/agent.py" in error
    assert "thread" in error


def test_other_files_are_packed(tmp_path: Path) -> None:
    agents = write_among(tmp_path / "agents", "")
    for name in ("prices.csv", "environment.py", "monkey.txt", ".prettierrc", ".env.example"):
        (agents / "bad" / name).write_text("")
    (agents / ".DS_Store").write_text("")
    (agents / "bad" / "tests").mkdir()
    (agents / "bad" / "tests" / ".env").write_text("")  # tests are left out
    assert find_secrets(agents) == []
