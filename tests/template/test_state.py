"""What keeps state: the table, the bucket and the queues."""

import json
from typing import Any

import pytest

from tests.template.permissions.rendering import Rendered
from tests.template.resources import of_type
from tools.build import lint


def test_queues_and_what_reads_them(translated: Any, parameters: Any) -> None:
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
    destination = sources["NotifierStream"]["DestinationConfig"]["OnFailure"]["Destination"]
    assert destination == {"Fn::GetAtt": ["DeadRecords", "Arn"]}
    [pattern] = sources["NotifierStream"]["FilterCriteria"]["Filters"]
    assert json.loads(pattern["Pattern"])["dynamodb"]["NewImage"].keys() == {"sk", "pushes"}
    rule = of_type(translated, "AWS::Events::Rule")["WorkerFunctionSweep"]
    assert rule["Properties"]["ScheduleExpression"] == "rate(1 minute)"


def test_the_table(translated: Any) -> None:
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


def test_the_bucket_is_private_and_encrypted(translated: Any) -> None:
    [bucket] = of_type(translated, "AWS::S3::Bucket").values()
    properties = bucket["Properties"]
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert properties["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    [rule] = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    _, own, default = rule["Fn::If"]
    assert own["ServerSideEncryptionByDefault"]["KMSMasterKeyID"] == {"Ref": "TableKeyArn"}
    assert default["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert (bucket["DeletionPolicy"], bucket["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    [policy] = of_type(translated, "AWS::S3::BucketPolicy").values()
    assert (policy["DeletionPolicy"], policy["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    [statement] = policy["Properties"]["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Principal"]) == ("Deny", "*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": False}}
    assert len(statement["Resource"]) == 2


def test_files_are_deleted_no_sooner_than_tasks(source: str) -> None:
    def rules(**parameters: Any) -> Any:
        rendered = Rendered(lint.translate(source, {}), parameters, "a2a-dev")
        configuration = rendered.resources["FileBucket"]["Properties"]["LifecycleConfiguration"]
        return {rule["Id"]: rule for rule in configuration["Rules"]}

    assert rules(TaskDays=7)["expire"]["ExpirationInDays"] == 7
    assert rules(TaskDays=7, FileDays=38)["expire"]["ExpirationInDays"] == 38
    assert rules()["expire"]["NoncurrentVersionExpiration"] == {"NoncurrentDays": 1}, (
        "erased, even if versioned"
    )
    assert rules()["unfinished"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}


@pytest.mark.parametrize(
    ("parameters", "is_refused"),
    [
        ({"ExecutionTimeout": 3600}, True),
        ({"ExecutionTimeout": 3600, "FileDays": 32}, False),
        ({"ExecutionTimeout": 3600, "Files": "false"}, False),
        ({}, False),
    ],
)
def test_durable_turns_need_files_that_last(source: str, parameters: Any, is_refused: bool) -> None:
    assert Rendered(lint.translate(source, {}), parameters, "a2a-dev").breaks_a_rule() is is_refused


def test_web_pages_reach_the_bucket_from_the_same_origins(source: str) -> None:
    def origins(text: str) -> Any:
        rendered = Rendered(lint.translate(source, {}), {"CorsOrigins": text}, "a2a-dev")
        properties = rendered.resources["FileBucket"]["Properties"]
        return [
            rule["AllowedOrigins"] for rule in properties.get("CorsConfiguration", {}).get("CorsRules", [])
        ]

    assert origins("https://a.example, https://b.example") == [["https://a.example", "https://b.example"]]
    assert origins("") == []


def test_a_stack_may_do_without_a_bucket(source: str) -> None:
    rendered = Rendered(lint.translate(source, {}), {"Files": "false"}, "a2a-dev")
    assert not [name for name in rendered.resources if "Bucket" in name]
    assert "A2A_FILES_BUCKET" not in str(rendered.resources["RpcFunction"])
    assert "s3:" not in str([rendered.resources[name] for name in rendered.all if name.endswith("Role")])
