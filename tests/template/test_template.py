"""What template.yaml deploys, read from the translated template: that is what AWS gets."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from a2a_lambda.settings import Settings
from tests.conftest import ROOT
from tools.build import lint
from tools.deployment.account import REGIONS

UV = os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")

Json = Any


@pytest.fixture(scope="module")
def source() -> str:
    return (ROOT / "template.yaml").read_text()


@pytest.fixture(scope="module")
def translated(source: str) -> Json:
    return lint.translate(source)["Resources"]


@pytest.fixture(scope="module")
def monitoring() -> Json:
    return yaml_parse((ROOT / "templates" / "monitoring.yaml").read_text())["Resources"]


def of_type(resources: Json, kind: str) -> dict[str, Json]:
    return {name: item for name, item in resources.items() if item["Type"] == kind}


@pytest.fixture(scope="module")
def parameters() -> Json:
    return yaml_parse((ROOT / "template.yaml").read_text())["Parameters"]


@pytest.fixture(scope="module")
def paths(translated: Json) -> Json:
    [api] = of_type(translated, "AWS::ApiGateway::RestApi").values()
    return api["Properties"]["Body"]["paths"]


def test_routes(paths: Json) -> None:
    assert {path: sorted(methods) for path, methods in paths.items()} == {
        "/": ["x-amazon-apigateway-any-method"],
        "/{proxy+}": ["x-amazon-apigateway-any-method"],
        "/.well-known/{proxy+}": ["x-amazon-apigateway-any-method"],
    }
    functions = {
        path: json.dumps(method["x-amazon-apigateway-integration"]["uri"])
        for path, methods in paths.items()
        for method in methods.values()
    }
    assert "ApiFunction" in functions["/.well-known/{proxy+}"]
    assert "RpcFunction" in functions["/"]
    assert "RpcFunction" in functions["/{proxy+}"]


def test_transfer_modes(paths: Json) -> None:
    """Streamed is everything but the cards; the uri is what makes it so."""
    for path, methods in paths.items():
        [integration] = [method["x-amazon-apigateway-integration"] for method in methods.values()]
        uri = json.dumps(integration["uri"])
        streamed = not path.startswith("/.well-known/")
        assert ("/response-streaming-invocations" in uri) is streamed
        assert ("2021-11-15" in uri) is streamed
        assert integration.get("responseTransferMode") == ("STREAM" if streamed else None)
        assert integration.get("timeoutInMillis") == (900_000 if streamed else None)


def test_the_function_url_is_off_and_streams(translated: Json) -> None:
    template = yaml_parse((ROOT / "template.yaml").read_text())
    parameter = template["Parameters"]["FunctionUrl"]
    assert parameter["Default"] == "false"
    assert "bypasses WAF" in parameter["Description"]
    [url] = of_type(translated, "AWS::Lambda::Url").values()
    assert url["Condition"] == "HasFunctionUrl"
    assert url["Properties"]["InvokeMode"] == "RESPONSE_STREAM"
    public = [
        name
        for name, item in of_type(translated, "AWS::Lambda::Permission").items()
        if item["Properties"]["Principal"] == "*"
    ]
    assert len(public) == 2
    assert all(translated[name]["Condition"] == "HasFunctionUrl" for name in public)


def test_the_wrapper_is_the_streaming_functions_alone(translated: Json) -> None:
    functions = of_type(translated, "AWS::Lambda::Function")
    wrappers = {
        name: item["Properties"]["Environment"]["Variables"].get("AWS_LAMBDA_EXEC_WRAPPER")
        for name, item in functions.items()
    }
    assert {name for name, wrapper in wrappers.items() if wrapper} == {"RpcFunction"}
    assert wrappers["RpcFunction"] == "/opt/a2a-runtime"


def test_path_parts_are_what_api_gateway_takes(paths: Json) -> None:
    """A literal or a whole variable, and one variable for each level."""
    names: dict[str, set[str]] = {}
    for path in paths:
        parts = [part for part in path.split("/") if part]
        for depth, part in enumerate(parts):
            assert re.fullmatch(r"[A-Za-z0-9._:-]+|\{[A-Za-z0-9._-]+\+?\}", part), path
            if part.startswith("{"):
                names.setdefault("/".join(parts[:depth]), set()).add(part)
    assert all(len(variables) == 1 for variables in names.values())


FUNCTIONS: dict[str, tuple[str, list[str]]] = {
    "ApiFunction": ("api.handler", []),
    "RpcFunction": ("rpc.handler", ["AWS_LAMBDA_EXEC_WRAPPER"]),
    "WorkerFunction": ("worker.handler", ["A2A_DEAD_LETTERS"]),
    "NotifierFunction": ("notifier.handler", ["A2A_NOTICES"]),
}
"""Handler, and variables of its own."""


def test_functions(translated: Json) -> None:
    functions = of_type(translated, "AWS::Lambda::Function")
    assert set(functions) == set(FUNCTIONS)
    for name, function in functions.items():
        properties = function["Properties"]
        assert properties["Runtime"] == "python3.13"
        handler, own = FUNCTIONS[name]
        short = name.removesuffix("Function")
        assert properties["Handler"] == handler
        assert properties["Timeout"] == {"Ref": f"{short}Timeout"}
        assert properties["MemorySize"] == {"Ref": f"{short}Memory"}
        assert properties["LoggingConfig"] == {
            "LogFormat": "JSON",
            "ApplicationLogLevel": "DEBUG",
            "LogGroup": {"Ref": f"{short}Lines"},
        }
        assert translated[f"{short}Lines"]["Properties"]["RetentionInDays"] == {"Ref": "LogDays"}
        assert len(properties["Layers"]) == 2
        variables = properties["Environment"]["Variables"]
        assert set(variables) == {
            "A2A_TABLE",
            "A2A_KEYS_PATH",
            "A2A_BASE_URL",
            "A2A_ORIGIN_DIGESTS",
            "A2A_CORS_ORIGINS",
            "A2A_TASK_DAYS",
            "A2A_SIGNING_KEY",
            "A2A_QUEUE",
            "A2A_REQUESTS_PER_OWNER",
            "A2A_STREAMS_PER_OWNER",
            "A2A_SERVICE",
            "A2A_LOG_LEVEL",
            "A2A_DEBUG_LOGS",
            "A2A_TRACING",
            *own,
        }


def test_variables_are_settings(translated: Json) -> None:
    """Each A2A_ variable is one the kit reads."""
    known = {f"A2A_{name.upper()}" for name in Settings.model_fields}
    for function in of_type(translated, "AWS::Lambda::Function").values():
        given = {name for name in function["Properties"]["Environment"]["Variables"] if name[:4] == "A2A_"}
        assert given <= known


CONSUME = "ReceiveMessage DeleteMessage ChangeMessageVisibility GetQueueAttributes"

ACTIONS = {
    ("Api", "CopyOfKeys"): "dynamodb:GetItem PutItem",
    ("Api", "Requests"): "dynamodb:UpdateItem",
    ("Rpc", "Table"): "dynamodb:GetItem PutItem UpdateItem DeleteItem Query",
    ("Worker", "Table"): "dynamodb:GetItem PutItem Query",
    (
        "Worker",
        "Turns",
    ): "sqs:SendMessage ReceiveMessage DeleteMessage ChangeMessageVisibility GetQueueAttributes",
    ("Worker", "DeadTurns"): f"sqs:{CONSUME}",
    ("Notifier", "Table"): "dynamodb:GetItem Query",
    ("Notifier", "Stream"): "dynamodb:DescribeStream GetRecords GetShardIterator",
    ("Notifier", "Streams"): "dynamodb:ListStreams",
    ("Notifier", "DeadRecords"): "sqs:SendMessage",
    (
        "Notifier",
        "Notices",
    ): "sqs:SendMessage ReceiveMessage DeleteMessage ChangeMessageVisibility GetQueueAttributes",
    ("Rpc", "Lists"): "dynamodb:Query",
    ("Worker", "Sweep"): "dynamodb:Query",
    ("Rpc", "Turns"): "sqs:SendMessage",
    **{(name, "Lines"): "logs:CreateLogStream PutLogEvents" for name in ("Api", "Rpc", "Worker", "Notifier")},
    **{(name, "Keys"): "ssm:GetParametersByPath" for name in ("Api", "Rpc")},
    **{(name, "Signing"): "kms:Sign GetPublicKey" for name in ("Api", "Rpc", "Notifier")},
}
"""Everything a function may do, by its role and the statement's name."""

KEYS = "arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/a2a/${AWS::StackName}/keys"

RESOURCES = {
    "Table": {"Fn::GetAtt": ["Table", "Arn"]},
    "CopyOfKeys": {"Fn::GetAtt": ["Table", "Arn"]},
    "Requests": {"Fn::GetAtt": ["Table", "Arn"]},
    "Lists": {"Fn::Sub": "${Table.Arn}/index/by-status-time"},
    "Sweep": {"Fn::Sub": "${Table.Arn}/index/by-due"},
    "Turns": {"Fn::GetAtt": ["Turns", "Arn"]},
    "DeadTurns": {"Fn::GetAtt": ["DeadTurns", "Arn"]},
    "Notices": {"Fn::GetAtt": ["Notices", "Arn"]},
    "DeadRecords": {"Fn::GetAtt": ["DeadRecords", "Arn"]},
    "Stream": {"Fn::GetAtt": ["Table", "StreamArn"]},
    "Streams": {"Fn::Sub": "${Table.Arn}/stream/*"},  # ListStreams is allowed on all streams of a table
    "Signing": {"Ref": "SigningKey"},
    "Keys": {"Fn::Sub": KEYS},
}


def test_iam_names_exact_actions_and_resources(translated: Json) -> None:
    found: dict[tuple[str, str], str] = {}
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
        assert [policy["Fn::If"][:2] for policy in role["Properties"]["ManagedPolicyArns"]] == [
            ["HasTracing", {"Ref": "TracesPolicy"}],
            ["HasTableKey", {"Ref": "TableKeyPolicy"}],
        ]
        [policy] = role["Properties"]["Policies"]
        for item in policy["PolicyDocument"]["Statement"]:
            statement = item["Fn::If"][1] if "Fn::If" in item else item
            sid, actions = statement["Sid"], statement["Action"]
            [service] = {action.partition(":")[0] for action in actions}
            found[short, sid] = f"{service}:{' '.join(action.partition(':')[2] for action in actions)}"
            resources = RESOURCES | {"Lines": {"Fn::GetAtt": [f"{short}Lines", "Arn"]}}
            assert statement["Resource"] == resources[sid], (short, sid)
            assert ("Condition" in statement) is (sid in ("CopyOfKeys", "Requests"))
    assert found == ACTIONS


def test_the_cards_function_sees_no_task(translated: Json) -> None:
    from a2a_lambda.store import items

    [policy] = translated["ApiRole"]["Properties"]["Policies"]
    statements = {item.get("Sid"): item for item in policy["PolicyDocument"]["Statement"]}
    [keys] = statements["CopyOfKeys"]["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"]
    path = keys["Fn::Sub"].replace("${AWS::StackName}", "stack").removeprefix("#keys#")
    assert items.keys_key(path, "copy")["pk"]["S"] == f"#keys#{path}"
    variable = translated["ApiFunction"]["Properties"]["Environment"]["Variables"]["A2A_KEYS_PATH"]
    assert variable["Fn::Sub"].replace("${AWS::StackName}", "stack") == path
    [requests] = statements["Requests"]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
    assert items.count_key("alice", 1)["pk"]["S"] == requests.replace("*", "alice")


def test_the_tables_key_is_used_through_dynamodb_alone(translated: Json) -> None:
    statements = translated["TableKeyPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    for statement in statements:
        assert statement["Resource"] == {"Ref": "TableKeyArn"}
        assert not any("*" in action for action in statement["Action"])
        assert statement["Condition"]["StringEquals"]["kms:ViaService"] == {
            "Fn::Sub": "dynamodb.${AWS::Region}.${AWS::URLSuffix}"
        }
    [grants] = [statement for statement in statements if "kms:CreateGrant" in statement["Action"]]
    assert grants["Action"] == ["kms:CreateGrant"]
    assert grants["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": True}


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
    [rule] = of_type(translated, "AWS::Events::Rule").values()
    assert rule["Properties"]["ScheduleExpression"] == "rate(1 minute)"


def test_the_code_calls_no_action_iam_does_not_allow() -> None:
    """Client methods in the kit's source, against the template's actions."""
    source = "".join(path.read_text() for path in (ROOT / "layers/a2a/a2a_lambda").rglob("*.py"))
    called = set(re.findall(r"self\._client\.(\w+)\(", source))
    of_operators = {
        "put_parameter",
        "delete_parameter",
        "get_paginator",
    }  # make key, with the operator's own rights
    assert called - of_operators == {
        "get_item",
        "put_item",
        "delete_item",
        "query",
        "update_item",
        "get_parameters_by_path",
        "get_public_key",
        "sign",
        "send_message",
        "change_message_visibility",
    }


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


def test_every_alarm_is_sent_and_documented(monitoring: Json) -> None:
    observability = (ROOT / "docs" / "observability.md").read_text()
    alarms = of_type(monitoring, "AWS::CloudWatch::Alarm")
    sent = {"Fn::If": ["SendsEach", [{"Ref": "AlarmTopicArn"}], {"Ref": "AWS::NoValue"}]}
    for name, alarm in alarms.items():
        assert alarm["Properties"]["AlarmActions"] == alarm["Properties"]["OKActions"] == sent
        assert f"**{name}**" in observability, name
        percentile = "ExtendedStatistic" in alarm["Properties"]
        assert ("EvaluateLowSampleCountPercentile" in alarm["Properties"]) is percentile
    rule = json.dumps(monitoring["Summary"]["Properties"]["AlarmRule"])
    for name in alarms:
        assert f"${{{name}}}" in rule, "the summary stands for all"
    watched = {
        (alarm["Properties"]["MetricName"], json.dumps(dimension["Value"]))
        for alarm in alarms.values()
        for dimension in alarm["Properties"].get("Dimensions", [])
    }
    for name in FUNCTIONS:
        assert {("Errors", json.dumps({"Ref": name})), ("Throttles", json.dumps({"Ref": name}))} <= watched
    for queue in ("DeadTurns", "DeadNotices", "DeadRecords"):
        assert ("ApproximateNumberOfMessagesVisible", json.dumps({"Ref": queue})) in watched
    assert {metric for metric, _ in watched} >= {
        *("IteratorAge", "4XXError", "5XXError", "AsyncEventsDropped", "ApproximateAgeOfOldestMessage"),
        *("KeyFailures", "WriteThrottleEvents"),
    }
    assert ("WriteThrottleEvents", json.dumps("by-status-time")) in watched


def test_what_is_watched_is_given(source: str, monitoring: Json) -> None:
    """The nested stack's parameters are those it is given."""
    given = yaml_parse(source)["Resources"]["Monitoring"]["Properties"]["Parameters"]
    nested = yaml_parse((ROOT / "templates" / "monitoring.yaml").read_text())
    assert set(given) == set(nested["Parameters"])


def test_metrics_are_called_what_the_functions_call_them(monitoring: Json) -> None:
    from a2a_lambda.lambda_ import metrics

    [dashboard] = of_type(monitoring, "AWS::CloudWatch::Dashboard").values()
    body = dashboard["Properties"]["DashboardBody"]["Fn::Sub"]
    json.loads(body)
    searched = re.findall(r"SEARCH\('\{(\w+),([\w,]+)\} MetricName=\\\"(\w+)", body)
    assert {namespace for namespace, _, _ in searched} == {metrics.NAMESPACE}
    assert metrics.__doc__ is not None
    own = [
        (
            ",".join(item["Name"] for item in alarm["Properties"]["Dimensions"]),
            alarm["Properties"]["MetricName"],
        )
        for alarm in of_type(monitoring, "AWS::CloudWatch::Alarm").values()
        if alarm["Properties"]["Namespace"] == metrics.NAMESPACE
    ]
    for dimensions, metric in [*(found[1:] for found in searched), *own]:
        [line] = [line for line in metrics.__doc__.splitlines() if line.strip().startswith(f"{metric} ")]
        for dimension in dimensions.split(","):
            assert dimension in line


@pytest.mark.parametrize("state", lint.STATES, ids=["plain", "rollout"])
def test_the_translated_template_has_no_fault(source: str, state: dict[str, str]) -> None:
    assert list(lint.faults(json.dumps(lint.translate(source, state)))) == []


@pytest.mark.parametrize("path", sorted((ROOT / "templates").glob("*.yaml")), ids=lambda path: path.name)
def test_the_other_templates_have_no_fault(path: Path) -> None:
    assert list(lint.faults(path.read_text())) == []


def test_a_dependency_on_what_a_condition_removes_is_a_fault(source: str) -> None:
    """Such a template validates, and fails in an account: "Unresolved resource dependencies"."""
    wrong = source.replace(
        "    Type: AWS::Serverless::Api\n", "    Type: AWS::Serverless::Api\n    DependsOn: WebAcl\n"
    )
    found = list(lint.faults(json.dumps(lint.translate(wrong))))
    assert any("WebAcl" in fault and "HasWebAcl" in fault for fault in found), found


def test_the_filter_hides_no_fault_of_its_kind(source: str) -> None:
    wrong = source.replace("Outputs:\n", "Outputs:\n  Role: { Value: !GetAtt RolloutRole.Arn }\n")
    assert any("RolloutRole" in fault for fault in lint.faults(json.dumps(lint.translate(wrong))))
    assert len(lint.PLAIN) == 3


def test_one_stage_alone(translated: Json) -> None:
    """SAM's deployment would make a second one, which nothing guards."""
    [stage] = of_type(translated, "AWS::ApiGateway::Stage").values()
    [deployment] = of_type(translated, "AWS::ApiGateway::Deployment").values()
    assert stage["Properties"]["StageName"] == "live"
    assert "StageName" not in deployment["Properties"]
    [settings] = stage["Properties"]["MethodSettings"]
    assert settings["ThrottlingRateLimit"] == {"Ref": "ThrottlingRate"}


def test_with_a_domain_the_apis_own_url_is_off(translated: Json) -> None:
    [server] = translated["Api"]["Properties"]["Body"]["servers"]
    assert server["x-amazon-apigateway-endpoint-configuration"] == {
        "disableExecuteApiEndpoint": {"Fn::If": ["HasDomain", True, False]}
    }


def test_everything_calls_the_alias(translated: Json) -> None:
    """Else a part of the stack would run what is being deployed, with a layer of before."""
    versions = of_type(translated, "AWS::Lambda::Version")
    assert all(version["DeletionPolicy"] == "Retain" for version in versions.values())
    for name in FUNCTIONS:
        assert translated[f"{name}Aliaslive"]["Properties"]["Name"] == "live"
    for source in of_type(translated, "AWS::Lambda::EventSourceMapping").values():
        assert source["Properties"]["FunctionName"]["Ref"].endswith("FunctionAliaslive")
    for permission in of_type(translated, "AWS::Lambda::Permission").values():
        assert permission["Properties"]["FunctionName"]["Ref"].endswith("FunctionAliaslive")
    [url] = of_type(translated, "AWS::Lambda::Url").values()
    assert url["Properties"]["Qualifier"] == "live"
    assert url["DependsOn"] == "RpcFunctionAliaslive"
    for methods in translated["Api"]["Properties"]["Body"]["paths"].values():
        [method] = methods.values()
        assert "FunctionAliaslive}" in json.dumps(method["x-amazon-apigateway-integration"]["uri"])
    [rule] = of_type(translated, "AWS::Events::Rule").values()
    [target] = rule["Properties"]["Targets"]
    assert target["Arn"] == {"Ref": "WorkerFunctionAliaslive"}


def test_new_code_layers_and_parameters_are_new_versions(source: str) -> None:
    """SAM sees no change of a parameter's value: the release says it."""

    def versions(**options: Any) -> set[str]:
        resources = lint.translate(source, options.pop("parameters", {}), **options)["Resources"]
        return set(of_type(resources, "AWS::Lambda::Version"))

    before = versions()
    assert len(before) == len(FUNCTIONS)
    assert versions() == before
    assert not versions(artifact="other") & before
    released = versions(parameters={"Release": "a" * 64})
    assert not released & before
    assert not versions(parameters={"Release": "b" * 64}) & released
    same = versions(parameters={"Release": "a" * 64}, artifact="other")
    assert same == released, (
        "a release stands for what is deployed: docs/operations.md says to name a new one"
    )


def test_alarms_roll_a_deployment_back(source: str) -> None:
    plain = lint.translate(source)["Resources"]
    assert not [name for name, item in plain.items() if item["Type"].startswith("AWS::CodeDeploy")]
    resources = lint.translate(source, {"Rollout": "Canary10Percent5Minutes"})["Resources"]
    groups = of_type(resources, "AWS::CodeDeploy::DeploymentGroup")
    assert set(groups) == {f"{name}DeploymentGroup" for name in FUNCTIONS}
    for name, group in groups.items():
        own = f"Outputs.{name.removesuffix('FunctionDeploymentGroup')}Errors"
        alarms = [
            alarm["Name"]["Fn::GetAtt"] for alarm in group["Properties"]["AlarmConfiguration"]["Alarms"]
        ]
        assert ["Monitoring", own] in alarms
        assert group["Properties"]["AutoRollbackConfiguration"]["Enabled"] is True
        assert group["Properties"]["ServiceRoleArn"] == {"Fn::GetAtt": ["RolloutRole", "Arn"]}
    parameter = yaml_parse(source)["Parameters"]["Rollout"]
    assert set(parameter["AllowedValues"]) == set(yaml_parse(source)["Mappings"]["Rollouts"])


def test_snapstart_is_a_choice(translated: Json) -> None:
    chosen = {"Fn::If": ["HasSnapStart", {"ApplyOn": "PublishedVersions"}, {"Ref": "AWS::NoValue"}]}
    found = {name: translated[name]["Properties"].get("SnapStart") for name in FUNCTIONS}
    assert found == {
        "ApiFunction": chosen,
        "RpcFunction": chosen,
        "WorkerFunction": None,
        "NotifierFunction": None,
    }


def test_layers_are_named_after_their_stack(translated: Json) -> None:
    names = [
        item["Properties"]["LayerName"] for item in of_type(translated, "AWS::Lambda::LayerVersion").values()
    ]
    assert names == [{"Fn::Sub": "${AWS::StackName}-kit"}, {"Fn::Sub": "${AWS::StackName}-dependencies"}]


def test_an_access_log_line_is_json_whatever_a_client_sends(source: str) -> None:
    """Variables that hold what a client wrote would break the line with a quotation mark."""
    log = yaml_parse(source)["Resources"]["Api"]["Properties"]["AccessLogSetting"]["Fn::If"][1]["Format"]
    assert isinstance(json.loads(log), dict)
    written_by_clients = (
        "path}",
        "userAgent",
        "requestOverride",
        "domainName",
        "protocol",
        "header",
        "query",
    )
    assert not [name for name in written_by_clients if name in log]
    assert '"$context.path"' not in log


def test_the_template_is_read_top_to_bottom(source: str) -> None:
    assert len(source.splitlines()) <= 850


def test_a_new_account_has_room(parameters: Json) -> None:
    """Of the 10 functions that may run there at once, background work takes no more than six."""
    assert sum(parameters[f"{name}Concurrency"]["Default"] for name in ("Worker", "Notifier")) <= 6
    assert parameters["AccessLogs"]["Default"] == "false", "API Gateway may have no role to write logs with"
    assert parameters["ApiConcurrency"]["Default"] == parameters["RpcConcurrency"]["Default"] == 0


def test_regions_are_named() -> None:
    operations = (ROOT / "docs" / "operations.md").read_text()
    for region in REGIONS:
        assert f"`{region}`" in operations, region


def test_settings_are_documented() -> None:
    operations = (ROOT / "docs" / "operations.md").read_text()
    for name in Settings.model_fields:
        assert f"`A2A_{name.upper()}`" in operations, name


def test_the_dependencies_are_built_from_their_lock_alone() -> None:
    """Whatever else changes, sam finds the layer in its cache."""
    assert {path.name for path in (ROOT / "layers" / "dependencies").iterdir()} == {
        "Makefile",
        "requirements.txt",
    }


def test_workflows_pin_what_they_use_and_keep_no_secret() -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text()
        for used in re.findall(r"uses: (\S+)", text):
            assert used.startswith("./") or re.search(r"@[0-9a-f]{40}$", used), used
        assert "secrets." not in text
        assert "\npermissions:\n  contents: read\n" in text


def test_samconfig_names_parameters_there_are(parameters: Json) -> None:
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())
    for stage in ("dev", "prod"):
        deploy = config[stage]["deploy"]["parameters"]
        assert deploy["tags"]
        for override in deploy["parameter_overrides"]:
            name, value = override.split("=")
            assert value in map(str, parameters[name].get("AllowedValues", [value]))


def test_parameters_have_bounds_and_words(parameters: Json) -> None:
    for name, parameter in parameters.items():
        assert parameter["Description"].endswith("."), name
        assert "Default" in parameter, name
        if parameter["Type"] == "Number":
            assert "AllowedValues" in parameter or {"MinValue", "MaxValue"} <= set(parameter), name


def test_gateway_answers_fit_both_bindings_and_browsers(translated: Json) -> None:
    [api] = of_type(translated, "AWS::ApiGateway::RestApi").values()
    responses = api["Properties"]["Body"]["x-amazon-apigateway-gateway-responses"]
    assert {"DEFAULT_4XX", "DEFAULT_5XX", "THROTTLED", "REQUEST_TOO_LARGE", "WAF_FILTERED"} == set(responses)
    for name, response in responses.items():
        template = response["responseTemplates"]["application/json"]
        body = json.loads(template.replace("$context.error.messageString", '"message"'))
        assert (body["jsonrpc"], body["id"]) == ("2.0", None)
        error = body["error"]
        assert isinstance(error["code"], int)
        assert error["message"]
        assert error["status"].isupper(), "google.rpc.Code, which HTTP+JSON has"
        allowed = response["responseParameters"]["gatewayresponse.header.Access-Control-Allow-Origin"]
        assert allowed == {"Fn::If": ["HasCorsOrigins", "'*'", {"Ref": "AWS::NoValue"}]}, name


def test_the_layer_has_what_the_lock_says() -> None:
    """layers/dependencies/requirements.txt is what `make lock` writes."""
    locked = (ROOT / "layers/dependencies/requirements.txt").read_text()
    uv = subprocess.run(
        [
            *(UV, "export", "--locked", "--quiet", "--no-dev", "--no-emit-project"),
            *("--no-annotate", "--no-header", "--format", "requirements-txt"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert uv.stdout == locked
