"""What the kit asks of Lambda's durable executions, where AWS's emulation of them answers more than Lambda.

Source: https://docs.aws.amazon.com/lambda/latest/api/API_GetDurableExecution.html
"""

from datetime import datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from a2a_lambda.aws.executions import LambdaExecutions
from a2a_lambda.errors import StoreError

ARN = "arn:aws:lambda:us-east-1:123456789012:function:durable:1/durable-execution/turn/1"

FIELDS = {
    "DurableExecutionArn": ARN,
    "DurableExecutionName": "turn",
    "FunctionArn": ARN.partition("/")[0],
    "StartTimestamp": datetime(2026, 1, 1),
}


@pytest.fixture
def stub() -> Any:
    with Stubber(boto3.client("lambda", aws_access_key_id="a", aws_secret_access_key="b")) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def executions(stub: Any) -> LambdaExecutions:
    return LambdaExecutions(lambda: stub.client, "durable:live")


def test_the_turn_of_an_execution_is_asked_for_with_its_data(stub: Any, executions: LambdaExecutions) -> None:
    """Lambda leaves out the input unless it is asked for."""
    expected = {"DurableExecutionArn": ARN, "IncludeExecutionData": True}
    stub.add_response(
        "get_durable_execution", {**FIELDS, "Status": "RUNNING", "InputPayload": "turn"}, expected
    )
    assert executions.turn_of(ARN) == "turn"


@pytest.mark.parametrize(
    ("status", "is_running"),
    [
        *(("RUNNING", True), ("PAUSING", True), ("PAUSED", True)),
        *(("SUCCEEDED", False), ("FAILED", False), ("STOPPED", False)),
    ],
)
def test_whether_an_execution_runs_is_asked_for_without_its_data(
    stub: Any, executions: LambdaExecutions, status: str, is_running: bool
) -> None:
    expected = {"DurableExecutionArn": ARN, "IncludeExecutionData": False}
    stub.add_response("get_durable_execution", {**FIELDS, "Status": status}, expected)
    assert executions.is_running(ARN) is is_running


def test_an_execution_that_is_gone_does_not_run(stub: Any, executions: LambdaExecutions) -> None:
    for _ in range(2):
        stub.add_client_error("get_durable_execution", "ResourceNotFoundException")
    assert not executions.is_running(ARN)
    with pytest.raises(StoreError, match="ResourceNotFoundException"):
        executions.turn_of(ARN)
