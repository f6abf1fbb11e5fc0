"""Schedules as cards have them: the times that they name, and what is refused."""

from contextlib import nullcontext
from datetime import datetime
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from a2a_lambda.agent.agent import Agent
from a2a_lambda.agent.card_file import read_card
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.protocol import cron
from tests.agent.folders import CARD, write

CODE = "@skill\ndef hello(turn, name: str = 'you'): ..."


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('cron: "0 7 * *"', "minute, hour, day, month and weekday"),
        ('cron: "61 7 * * *"', "is not a cron expression"),
        ('cron: "0 0 22 * * *"', "6 fields"),
        ('cron: "0 7 * * *", timezone: localtime', "write one such as Asia/Shanghai"),
        ('cron: "0 7 * * *", timezone: posix/UTC', "write one such as Asia/Shanghai"),
        ('cron: "0 7 * * *", timezone: Shanghai', "write one such as Asia/Shanghai"),
        ('cron: "0 7 * * *", skill: helo', "did you mean hello"),
        ('cron: "0 7 * * *", arguments: {{ a: b }}', "write `skill: hello`"),
        ('cron: "0 7 * * *", webhook: "https://x"', "pushNotifications: true"),
        ('cron: "0 7 * * *", webhook: "http://localhost:9/hook"', "pushNotifications: true"),
        ('cron: "0 7 * * *", webhook: "http://x.example.com"', "must be https"),
        ('cron: "0 7 * * *", webhook: "http://localhost.example.com"', "must be https"),
        (
            'cron: "0 7 * * *", webhook: "https://10.0.0.1/x"',
            "must have a public address, which 10.0.0.1 is not",
        ),
        ('cron: "0 7 * * *", webhook: "https://10.1/x"', "must have a public address, which 10.1 is not"),
        ('cron: "0 7 * * *", webhook: "https://me:secret@example.com"', "no user name"),
        ('cron: "0 7 * * *", webhook: "https://example.com:99999/"', "is not a URL"),
        ('cron: "0 7 * * *", webhook: ""', "must be https"),
        ('cron: "0 7 * * *", webhook: "https://x", token: "pässword"', "token cannot be sent in a header"),
        ('cron: "0 7 * * *", owner: "a b"', "owner"),
        ('cron: "0 7 * * *", catch_up_minutes: 2000', "1440"),
    ],
)
def test_a_mistake_in_a_schedule_is_explained(tmp_path: Path, line: str, words: str) -> None:
    card = CARD + f"schedules:\n  - {{{{ id: x, message: Hi, {line} }}}}\n"
    with pytest.raises(ConfigurationError, match=words):
        read_card(write(tmp_path, CODE, card) / "card.yaml")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{{ regoin: eu }}", "skill hello has no parameter 'regoin'; did you mean region\\?"),
        (
            "{{ days: seven, size: S }}",
            "the argument days of skill hello does not fit: it must be a whole number",
        ),
        ("{{ size: XL }}", "the argument size of skill hello does not fit: use one of S, M"),
        ("{{ days: '7', region: eu }}", "skill hello needs the argument size: write `arguments: "),
        ("{{ days: '7', region: eu, size: M }}", ""),
    ],
)
def test_arguments_of_a_schedule_are_tried_when_the_agent_is_loaded(
    tmp_path: Path, arguments: str, words: str
) -> None:
    """No one would see the question that its skill asks."""
    code = (
        "from typing import Literal\n@skill\n"
        "def hello(turn, size: Literal['S', 'M'], region: str = 'us', days: int = 1): ..."
    )
    line = f'{{{{ id: x, message: Hi, cron: "0 7 * * *", skill: hello, arguments: {arguments} }}}}'
    folder = write(tmp_path, code, CARD + f"schedules:\n  - {line}\n")
    with pytest.raises(ConfigurationError, match=words) if words else nullcontext():
        Agent.load(folder)


def test_two_schedules_have_two_ids(tmp_path: Path) -> None:
    line = '  - {{ id: hourly, cron: "0 * * * *", message: Report. }}\n'
    with pytest.raises(ConfigurationError, match="two schedules have this id"):
        read_card(write(tmp_path, CODE, CARD + "schedules:\n" + line * 2) / "card.yaml")


def test_clocks_that_change_skip_nothing_and_repeat_nothing() -> None:
    """In Berlin, 02:30 does not come on 29 March 2026, and comes twice on 25 October."""
    for month, day in ((3, 29), (10, 25)):
        midnight = datetime(2026, month, day, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
        assert len(cron.times_between("30 2 * * *", "Europe/Berlin", midnight, midnight + 86_400)) == 1


def test_no_time_is_named_again_in_the_hour_that_comes_twice() -> None:
    """In New York, 01:30 came at 05:30 UTC on 1 November 2026, and the clock shows it again at 06:30."""
    after = datetime(2026, 11, 1, 6, 5, tzinfo=ZoneInfo("UTC")).timestamp()
    first = next(cron.times_after("30 1 * * *", "America/New_York", after))
    assert first == datetime(2026, 11, 2, 6, 30, tzinfo=ZoneInfo("UTC")).timestamp()


def test_a_time_on_the_edge_counts_once() -> None:
    noon = datetime(2026, 3, 2, 12, 0, tzinfo=ZoneInfo("UTC")).timestamp()
    assert cron.times_between("* * * * *", "UTC", noon, noon + 60) == [noon + 60]
    assert cron.times_between("* * * * *", "UTC", noon - 1, noon) == [noon]


@pytest.mark.parametrize("expression", ["*/10 3 * * *", "* 3 * * *", "* * * * *"])
def test_times_are_in_order_where_clocks_change_at_another_minute_than_0(expression: str) -> None:
    """In Pacific/Chatham, they go back from 03:45 to 02:45."""
    start = datetime(2026, 4, 5, 2, 30, tzinfo=ZoneInfo("Pacific/Chatham")).timestamp()
    for minute in range(0, 180, 5):
        after = start + 60 * minute
        times = list(islice(cron.times_after(expression, "Pacific/Chatham", after), 100))
        assert times == sorted(set(times))
        assert times[0] > after


def test_a_time_that_never_comes_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no date has this day of the month and this weekday"):
        cron.check("0 0 */31 * 1#2")
