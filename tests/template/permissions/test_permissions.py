"""Permissions: exact actions, exact resources."""

import re
from typing import Any

from tests.conftest import ROOT
from tests.template.permissions.conftest import NETWORK
from tests.template.resources import of_type

CONSUME = "ReceiveMessage DeleteMessage ChangeMessageVisibility GetQueueAttributes"


ALL = ("Api", "Rpc", "Worker", "Durable", "Notifier")

USE_KEY = (
    "Encrypt Decrypt ReEncryptFrom ReEncryptTo GenerateDataKey GenerateDataKeyWithoutPlaintext DescribeKey"
)

USE_FILES = "GetObject PutObject AbortMultipartUpload"

INTERFACES = "*NetworkInterface* *PrivateIpAddresses *Ipv6Addresses DescribeSubnets"

ACTIONS = {
    ("Api", "CopyOfKeys"): "dynamodb:GetItem PutItem",
    ("Api", "Requests"): "dynamodb:UpdateItem",
    ("Rpc", "Table"): "dynamodb:GetItem BatchGetItem PutItem UpdateItem DeleteItem Query",
    ("Worker", "Table"): "dynamodb:GetItem PutItem UpdateItem DeleteItem Query",
    **{(name, "Files"): f"s3:{USE_FILES}" for name in ("Rpc", "Worker", "Durable")},
    ("Notifier", "Files"): "s3:GetObject",
    ("Worker", "Turns"): f"sqs:SendMessage {CONSUME}",
    ("Worker", "DeadTurns"): f"sqs:{CONSUME}",
    ("Durable", "Table"): "dynamodb:GetItem PutItem Query",
    ("Durable", "DurableKey"): "kms:Decrypt GenerateDataKey",
    **{(name, "DurableKey"): "kms:Decrypt" for name in ("Rpc", "Worker")},
    ("Rpc", "Executions"): "lambda:SendDurableExecutionCallbackSuccess StopDurableExecution",
    ("Worker", "Executions"): "lambda:GetDurableExecution SendDurableExecutionCallbackSuccess",
    **{(name, "StartExecutions"): "lambda:InvokeFunction" for name in ("Rpc", "Worker")},
    ("Notifier", "Table"): "dynamodb:GetItem UpdateItem Query",
    ("Notifier", "Stream"): "dynamodb:DescribeStream GetRecords GetShardIterator",
    ("Notifier", "Streams"): "dynamodb:ListStreams",
    ("Notifier", "DeadRecords"): "sqs:SendMessage",
    ("Notifier", "Notices"): f"sqs:SendMessage {CONSUME}",
    ("Rpc", "Lists"): "dynamodb:Query",
    ("Worker", "Sweep"): "dynamodb:Query",
    ("Rpc", "Turns"): "sqs:SendMessage",
    **{(name, "Network"): f"ec2:{NETWORK}" for name in ("Rpc", "Worker", "Durable")},
    **{(name, "NoInterfacesFromCode"): f"ec2:{INTERFACES}" for name in ("Rpc", "Worker", "Durable")},
    **{(name, "AgentParameters"): "ssm:GetParameter" for name in ("Rpc", "Worker", "Durable")},
    **{(name, "OtlpHeaders"): "ssm:GetParameter" for name in ("Api", "Notifier")},
    **{(name, "Traces"): "xray:PutTraceSegments PutTelemetryRecords" for name in ALL},
    **{(name, "TableKey"): f"kms:{USE_KEY}" for name in ALL},
    **{(name, "TableKeyGrants"): "kms:CreateGrant" for name in ALL},
    **{(name, "Lines"): "logs:CreateLogStream PutLogEvents" for name in ALL},
    **{(name, "Keys"): "ssm:GetParametersByPath" for name in ("Api", "Rpc")},
    **{(name, "Signing"): "kms:Sign GetPublicKey" for name in ("Api", "Rpc", "Notifier")},
}
"""Everything a function may do, by its role and the statement's name."""


KEYS = "arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/a2a/${AWS::StackName}/keys"


RESOURCES = {
    "OtlpHeaders": {"Fn::Sub": KEYS.replace("/keys", "/secrets/otlp-headers")},
    "Table": {"Fn::GetAtt": ["Table", "Arn"]},
    "CopyOfKeys": {"Fn::GetAtt": ["Table", "Arn"]},
    "Requests": {"Fn::GetAtt": ["Table", "Arn"]},
    "Files": {"Fn::Sub": "${FileBucket.Arn}/*"},
    "StartExecutions": {"Fn::Sub": "${DurableFunction.Arn}:live"},
    "Executions": {"Fn::Sub": "${DurableFunction.Arn}:*"},  # of which the ARN of an execution is one
    "Lists": {"Fn::Sub": "${Table.Arn}/index/by-status-time"},
    "Sweep": {"Fn::Sub": "${Table.Arn}/index/by-due"},
    "Turns": {"Fn::GetAtt": ["Turns", "Arn"]},
    "DeadTurns": {"Fn::GetAtt": ["DeadTurns", "Arn"]},
    "Notices": {"Fn::GetAtt": ["Notices", "Arn"]},
    "DeadRecords": {"Fn::GetAtt": ["DeadRecords", "Arn"]},
    "Stream": {"Fn::GetAtt": ["Table", "StreamArn"]},
    "Streams": {"Fn::Sub": "${Table.Arn}/stream/*"},  # ListStreams is allowed on all streams of a table
    "Signing": {"Ref": "SigningKey"},
    "Traces": "*",  # X-Ray knows no resources
    "TableKey": {"Ref": "TableKeyArn"},
    "TableKeyGrants": {"Ref": "TableKeyArn"},
    "DurableKey": {"Ref": "DurableKeyArn"},
    "AgentParameters": [{"Fn::Sub": KEYS.replace("/keys", f"/{kind}/*")} for kind in ("secrets", "settings")],
    "Network": "*",  # network interfaces have no ARN before they are made
    "NoInterfacesFromCode": "*",
    "Keys": [{"Fn::Sub": KEYS}, {"Fn::Sub": KEYS.replace("/keys", "/issuers")}],
}


CONDITIONAL = ("CopyOfKeys", "Requests", "TableKey", "TableKeyGrants", "DurableKey", "NoInterfacesFromCode")


def test_iam_names_exact_actions_and_resources(translated: Any) -> None:
    places: dict[tuple[str, str], str] = {}
    for name, role in of_type(translated, "AWS::IAM::Role").items():
        [trust] = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        boundary = {"Fn::If": ["HasBoundary", {"Ref": "PermissionsBoundaryArn"}, {"Ref": "AWS::NoValue"}]}
        assert role["Properties"]["PermissionsBoundary"] == boundary
        if name == "RolloutRole":
            assert trust["Principal"] == {"Service": "codedeploy.amazonaws.com"}
            assert role["Condition"] == "HasRollout"
            continue
        assert trust["Principal"] == {"Service": "lambda.amazonaws.com"}
        short = name.removesuffix("Role")
        function = translated[f"{short}Function"]
        assert function["Properties"]["Role"] == {"Fn::GetAtt": [name, "Arn"]}
        assert ("ManagedPolicyArns" in role["Properties"]) is (short in ("Rpc", "Worker", "Durable"))
        [policy] = role["Properties"]["Policies"]
        for item in policy["PolicyDocument"]["Statement"]:
            statement = item["Fn::If"][1] if "Fn::If" in item else item
            sid, actions = statement["Sid"], statement["Action"]
            [service] = {action.partition(":")[0] for action in actions}
            places[short, sid] = f"{service}:{' '.join(action.partition(':')[2] for action in actions)}"
            resources = RESOURCES | {"Lines": {"Fn::GetAtt": [f"{short}Lines", "Arn"]}}
            assert statement["Resource"] == resources[sid], (short, sid)
            assert ("Condition" in statement) is (sid in CONDITIONAL)
    assert places == ACTIONS
    [checkpoints] = translated["CheckpointPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert checkpoints["Action"] == ["lambda:CheckpointDurableExecution", "lambda:GetDurableExecutionState"]
    assert checkpoints["Resource"] == RESOURCES["Executions"]


def test_the_cards_function_sees_no_task(translated: Any) -> None:
    from a2a_lambda.store import items

    [policy] = translated["ApiRole"]["Properties"]["Policies"]
    statements = {item.get("Sid"): item for item in policy["PolicyDocument"]["Statement"]}
    [keys] = statements["CopyOfKeys"]["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"]
    path = keys["Fn::Sub"].replace("${AWS::StackName}", "stack").removeprefix("#keys#")
    assert items.keys_key(path, "copy")["pk"]["S"] == f"#keys#{path}"
    variable = translated["ApiFunction"]["Properties"]["Environment"]["Variables"]["A2A_KEYS_PATH"]
    assert variable["Fn::Sub"].replace("${AWS::StackName}", "stack") == path
    [requests] = statements["Requests"]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
    assert items.count_key("alice", 1, 0)["pk"]["S"] == requests.replace("*", "alice")
    assert items.count_key("alice", 1, 3)["pk"]["S"] == requests.replace("*", "alice#3")


def test_the_tables_key_is_used_through_dynamodb_and_s3_alone(translated: Any) -> None:
    [policy] = translated["ApiRole"]["Properties"]["Policies"]
    conditions = [item["Fn::If"] for item in policy["PolicyDocument"]["Statement"] if "Fn::If" in item]
    statements = [statement for name, statement, _ in conditions if name == "HasTableKey"]
    assert len(statements) == 2
    for statement in statements:
        assert statement["Resource"] == {"Ref": "TableKeyArn"}
        assert not any("*" in action for action in statement["Action"])
        via = [
            {"Fn::Sub": f"{service}.${{AWS::Region}}.${{AWS::URLSuffix}}"} for service in ("dynamodb", "s3")
        ]
        is_grant = "kms:CreateGrant" in statement["Action"]  # which DynamoDB makes for itself
        services = statement["Condition"]["StringEquals"]["kms:ViaService"]
        assert services == (via[0] if is_grant else via)
    [grants] = [statement for statement in statements if "kms:CreateGrant" in statement["Action"]]
    assert grants["Action"] == ["kms:CreateGrant"]
    assert grants["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": True}


IN_IAM = {
    "Invoke": "InvokeFunction",
    "HeadObject": "GetObject",
    **dict.fromkeys(("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"), "PutObject"),
}
"""Actions whose calls have other names.

Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
"""

OF_OPERATORS = {"PutParameter", "DeleteParameter"}
"""Calls of make key and make issuer, with the operator's own rights."""


def test_the_code_calls_no_action_iam_does_not_allow() -> None:
    """Client methods in the kit's source, against the template's actions."""
    allowed = {action for text in ACTIONS.values() for action in text.partition(":")[2].split()}
    actions: set[str] = set()
    for path in (ROOT / "layers/a2a/a2a_lambda").rglob("*.py"):
        if path.parent.name != "client":  # which calls other agents
            for name in re.findall(r'self\._(?:(?:client|s3)\.|call\(\s*")(\w+)', path.read_text()):
                action = "".join(map(str.capitalize, name.split("_")))
                actions.add(IN_IAM.get(action, action))
    made_alone = {
        "Meta",
        "Exceptions",
        "GeneratePresignedUrl",
        "GeneratePresignedPost",
    }  # without a call of AWS
    assert actions - OF_OPERATORS - made_alone <= allowed
    assert {"PutItem", "GetObject", "StopDurableExecution", "GetPublicKey", "SendMessage"} <= actions
