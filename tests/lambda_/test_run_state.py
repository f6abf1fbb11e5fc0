"""What the operation threads of a durable run share."""

from a2a_lambda.background.execution_worker import EarlierRuns
from a2a_lambda.durable.engine import OperationNotice
from a2a_lambda.lambda_.sdk_engine import RunState


def test_a_notice_is_told_once_by_all_runs_of_a_turn() -> None:
    """The SDK runs a branch again in the same run, when what it waits for has come."""
    notices: list[OperationNotice] = []
    earlier = EarlierRuns(notices={("sleep", "pause", "started")})
    run = RunState(deadline=0.0, seconds=0.0, earlier_runs=earlier, observer=notices.append)
    end_notice, other = (
        OperationNotice("sleep", "pause", "ended"),
        OperationNotice("sleep", "pause#2", "ended"),
    )
    for notice in (OperationNotice("sleep", "pause", "started"), end_notice, end_notice, other):
        run.announce(notice)
    assert notices == [end_notice, other]
