"""What the operation threads of a durable run share."""

from a2a_lambda.background.execution_worker import EarlierRuns
from a2a_lambda.durable.engine import Notice
from a2a_lambda.lambda_.sdk_engine import RunState


def test_a_notice_is_told_once_by_all_runs_of_a_turn() -> None:
    """The SDK runs a branch again in the same run, when what it waits for has come."""
    told: list[Notice] = []
    earlier = EarlierRuns(told_notices={("sleep", "pause", "started")})
    run = RunState(deadline=0.0, seconds=0.0, earlier=earlier, tell=told.append)
    ended, other = Notice("sleep", "pause", "ended"), Notice("sleep", "pause#2", "ended")
    for notice in (Notice("sleep", "pause", "started"), ended, ended, other):
        run.announce(notice)
    assert told == [ended, other]
