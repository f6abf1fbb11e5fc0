"""What keeps state: the table and the queues."""

import json
from typing import Any

from tests.template.resources import of_type

Json = Any


def test_queues_and_what_reads_them(translated: Json, parameters: Json) -> None:
    queues = {name: item["Properties"] for name, item in of_type(translated, "AWS::SQS::Queue").items()}
    sources = {
        name: item["Properties"]
        for name, item in of_type(translated, "AWS::Lambda::EventSourceMapping").items()
    }
    longest = {name: parameters[f"{name}Timeout"]["MaxValue"] for name in ("Worker", "Notifier")}
    timeouts = {
        "Turns": longest["Worker"],
        "DeadTurns": longest["Worker"],
        "Notices": longest["Notifier"],
    }
    for name, timeout in timeouts.items():
        assert queues[name]["VisibilityTimeout"] >= 6 * timeout
        [source] = [
            item for item in sources.values() if item["EventSourceArn"] == {"Fn::GetAtt": [name, "Arn"]}
        ]
        assert source["BatchSize"] == 1
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    for name in ("Turns", "Notices"):
        dead = queues[name]["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]
        assert bool(queues[dead].get("FifoQueue")) is bool(queues[name].get("FifoQueue"))
    assert sources["WorkerTurns"]["ScalingConfig"] == {"MaximumConcurrency": {"Ref": "WorkerConcurrency"}}
    assert sources["NotifierStream"]["StartingPosition"] == "TRIM_HORIZON"
    failed = sources["NotifierStream"]["DestinationConfig"]["OnFailure"]["Destination"]
    assert failed == {"Fn::GetAtt": ["DeadRecords", "Arn"]}
    [pattern] = sources["NotifierStream"]["FilterCriteria"]["Filters"]
    assert json.loads(pattern["Pattern"])["dynamodb"]["NewImage"].keys() == {"sk", "pushes"}
    rule = of_type(translated, "AWS::Events::Rule")["WorkerFunctionSweep"]
    assert rule["Properties"]["ScheduleExpression"] == "rate(1 minute)"


def test_the_table(translated: Json) -> None:
    [table] = of_type(translated, "AWS::DynamoDB::Table").values()
    properties = table["Properties"]
    assert properties["BillingMode"] == "PAY_PER_REQUEST"
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}
    assert {index["IndexName"] for index in properties["GlobalSecondaryIndexes"]} == {
        "by-status-time",
        "by-due",
    }
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert properties["DeletionProtectionEnabled"] == {"Ref": "DeletionProtection"}
    assert table["UpdateReplacePolicy"] == "Retain"
    assert table["DeletionPolicy"] == "RetainExceptOnCreate", "a first deployment that fails leaves no table"
