"""make invoke builds only what has changed."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tools.build import invoke

BUILD = invoke.HOST_BUILDS / "weather"


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The exit statuses of the builds to come."""
    monkeypatch.chdir(tmp_path)
    for place in invoke.BUILD_INPUTS:
        (tmp_path / place.parent).mkdir(exist_ok=True)
        if place.suffix:
            (tmp_path / place).write_text("1")
        else:
            (tmp_path / place).mkdir(parents=True)
            (tmp_path / place / "file").write_text("1")
    BUILD.mkdir(parents=True)
    statuses: list[int] = []

    def run(*_: Any, **__: Any) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.CompletedProcess([], statuses.pop(0), b"", b"")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(invoke, "interpreter", lambda: ("python3.13", "3.13"))
    return statuses


def test_the_same_files_are_built_once(builds: list[int]) -> None:
    builds[:] = [0]
    assert invoke.build_agent(BUILD) == invoke.build_agent(BUILD) == 0
    Path("functions/.manifest.json").write_text("1")  # a build writes it
    Path("functions/__pycache__").mkdir()
    Path("functions/__pycache__/api.pyc").write_text("1")
    assert invoke.build_agent(BUILD) == 0
    for place in invoke.BUILD_INPUTS:
        builds[:] = [0]
        (place if place.suffix else place / "file").write_text("2")
        assert invoke.build_agent(BUILD) == 0
        assert not builds, place
        (place if place.suffix else place / "file").write_text("1")
        builds[:] = [0]
        assert invoke.build_agent(BUILD) == 0


@pytest.mark.parametrize(
    ("event", "agent"),
    [
        ({"path": "/a2a/weather/message:send"}, "weather"),
        ({"path": "/v2/a2a/weather"}, "weather"),
        ({"rawPath": "/mcp/weather"}, "weather"),
        ({"rawPath": "/a2a/weather"}, "weather"),
        ({"path": "/v2/weather"}, "weather"),
        ({"path": "/alibaba/weather/stream"}, "weather"),
        ({"path": "/alibaba/.well-known/agent.json"}, ""),
        ({"path": "/alibaba/stream"}, ""),
        ({"path": "/"}, ""),
        ({"path": "/.well-known/agent-card.json"}, ""),
        ({}, ""),
    ],
)
def test_the_agent_of_an_event_is_built(event: dict[str, str], agent: str) -> None:
    assert invoke.agent_in(event) == agent
    other = invoke.with_agent(event, ["news"], "news")
    assert invoke.agent_in(other) == ("news" if agent else "")


def test_an_event_names_its_other_agent_everywhere() -> None:
    event = {"path": "/a2a/weather/message:send", "pathParameters": {"proxy": "a2a/weather/message:send"}}
    other = invoke.with_agent({**event, "body": "see /a2a/weather-map"}, ["news"], "news")
    assert other == {
        "path": "/a2a/news/message:send",
        "pathParameters": {"proxy": "a2a/news/message:send"},
        "body": "see /a2a/weather-map",
    }


def test_another_interpreter_needs_another_build(builds: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    builds[:] = [0, 0]
    assert invoke.build_agent(BUILD) == 0
    monkeypatch.setattr(invoke, "interpreter", lambda: ("python3.12", "3.12"))
    assert invoke.build_agent(BUILD) == 0
    assert not builds


def test_a_build_that_failed_is_made_again(builds: list[int]) -> None:
    builds[:] = [2, 0]
    assert [invoke.build_agent(BUILD), invoke.build_agent(BUILD), invoke.build_agent(BUILD)] == [2, 0, 0]
    assert not builds


def test_a_built_function_gets_the_secrets_and_settings_of_env(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each line of a private key that is not in quotes counts as a variable, and is not shown."""
    monkeypatch.chdir(tmp_path)
    assert invoke._own_values() == {}
    Path(".env").write_text("SECRET_A=1\nSETTING_B=2\nSETTING_C\nOTHER=3\nMC4CAQAwBQYDK2Vw=\n")
    assert invoke._own_values() == {"SECRET_A": "1", "SETTING_B": "2"}
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("note: make invoke reads only SECRET_… and SETTING_… from .env, not OTHER. Save")
