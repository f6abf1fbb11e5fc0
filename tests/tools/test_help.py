"""What `make` prints: the commands and their variables."""

import pytest

from tools import commands


def test_a_line_fits_a_terminal_and_ends_between_variables(capsys: pytest.CaptureFixture[str]) -> None:
    commands.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 100] == []
    for command in commands.COMMANDS.values():
        for option in command.options:
            assert any(option in line for line in lines), option
