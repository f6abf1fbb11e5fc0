"""What `make` prints: the commands and their variables."""

from pathlib import Path

import pytest

from tools import commands


def test_a_line_fits_a_terminal_and_ends_between_variables(capsys: pytest.CaptureFixture[str]) -> None:
    commands.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 100] == []
    for group in commands.listed_groups().values():
        for command in group.values():
            for option in command.options:
                assert any(option in line for line in lines), option


def test_a_fork_that_has_deleted_the_laboratory_does_not_see_its_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands.main()
    output = capsys.readouterr().out
    assert "  run " in output
    assert "  bench " not in output
    assert "  scale " not in output
