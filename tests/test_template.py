"""What template.yaml deploys, read from the translated template: that is what AWS gets."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from typing import Any

import pytest
from samtranslator.public.translator import ManagedPolicyLoader
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

from a2a_lambda.settings import Settings
from tests.conftest import ROOT

UV = os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")

Json = Any


class NoPolicies(ManagedPolicyLoader):  # type: ignore[misc]
    """The template names no managed policy, so IAM is not asked."""

    def __init__(self) -> None:
        self._policy_map: dict[str, str] = {}

    def load(self) -> Json:
        return {}


@pytest.fixture(scope="module")
def translated() -> Json:
    template = yaml_parse((ROOT / "template.yaml").read_text())
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        for field in ("CodeUri", "ContentUri"):
            if field in properties:
                properties[field] = "s3://bucket/key"
    template["Globals"]["Function"]["CodeUri"] = "s3://bucket/key"
    found: Json = transform(template, {}, NoPolicies())
    return found["Resources"]


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
            "A2A_CORS_ORIGINS",
            "A2A_TASK_DAYS",
            "A2A_SIGNING_KEY",
            "A2A_QUEUE",
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


TABLE_ACTIONS = {
    "RpcFunction": ["GetItem", "PutItem", "DeleteItem", "Query"],
    "WorkerFunction": ["GetItem", "PutItem", "Query"],
    "NotifierFunction": ["GetItem", "Query"],
}

STATEMENTS = {
    "ApiFunction": {"Keys", "Signing"},
    "RpcFunction": {"Table", "TableKey", "Lists", "Turns", "Keys", "Signing"},
    "WorkerFunction": {"Table", "TableKey", "Sweep", "Turns", "DeadTurns"},
    "NotifierFunction": {"Table", "TableKey", "Stream", "Streams", "DeadRecords", "Notices", "Signing"},
}

RESOURCES = {
    "Table": {"Fn::GetAtt": ["Table", "Arn"]},
    "Lists": {"Fn::Sub": "${Table.Arn}/index/by-status-time"},
    "Sweep": {"Fn::Sub": "${Table.Arn}/index/by-due"},
    "Turns": {"Fn::GetAtt": ["Turns", "Arn"]},
    "DeadTurns": {"Fn::GetAtt": ["DeadTurns", "Arn"]},
    "Notices": {"Fn::GetAtt": ["Notices", "Arn"]},
    "DeadRecords": {"Fn::GetAtt": ["DeadRecords", "Arn"]},
    "Stream": {"Fn::GetAtt": ["Table", "StreamArn"]},
    "Streams": {"Fn::Sub": "${Table.Arn}/stream/*"},  # ListStreams is allowed on all streams of a table
    "Signing": {"Ref": "SigningKey"},
    "TableKey": {"Ref": "TableKeyArn"},
    "Traces": "*",  # X-Ray knows no resources
}


def test_iam_names_exact_actions_and_resources(translated: Json) -> None:
    """No action is "*", and no resource but where AWS knows no other."""
    roles = of_type(translated, "AWS::IAM::Role")
    own = {name.removesuffix("Role"): role for name, role in roles.items() if name != "ApiAccountRole"}
    assert {f"{name}Function" for name in own} == set(FUNCTIONS)
    for short, role in own.items():
        function = translated[f"{short}Function"]
        assert function["Properties"]["Role"] == {"Fn::GetAtt": [f"{short}Role", "Arn"]}
        assert "ManagedPolicyArns" not in role["Properties"]
        [trust] = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "lambda.amazonaws.com"}
        [policy] = role["Properties"]["Policies"]
        found = policy["PolicyDocument"]["Statement"]
        plain = [item["Fn::If"][1] if "Fn::If" in item else item for item in found]
        statements = {item["Sid"]: item for item in plain}
        assert set(statements) == {"Lines", "Traces", *STATEMENTS[f"{short}Function"]}
        if "Table" in statements:
            allowed = statements["Table"]["Action"]
            assert allowed == [f"dynamodb:{action}" for action in TABLE_ACTIONS[f"{short}Function"]]
            [[service, name]] = statements["TableKey"]["Condition"]["StringEquals"].items()
            assert (service, name["Fn::Sub"]) == (
                "kms:ViaService",
                "dynamodb.${AWS::Region}.${AWS::URLSuffix}",
            )
        resources = RESOURCES | {"Lines": {"Fn::GetAtt": [f"{short}Lines", "Arn"]}}
        for sid, statement in statements.items():
            if sid != "Keys":
                assert statement["Resource"] == resources[sid], (short, sid)
            assert not any("*" in action for action in statement["Action"])
        if "Keys" in statements:
            assert statements["Keys"]["Action"] == ["ssm:GetParametersByPath"]
            assert statements["Keys"]["Resource"]["Fn::Sub"].endswith(":parameter/${AWS::StackName}/keys")


def test_queues_and_what_reads_them(translated: Json, parameters: Json) -> None:
    queues = {name: item["Properties"] for name, item in of_type(translated, "AWS::SQS::Queue").items()}
    sources = {
        name: item["Properties"]
        for name, item in of_type(translated, "AWS::Lambda::EventSourceMapping").items()
    }
    longest = {name: parameters[f"{name}Timeout"]["MaxValue"] for name in ("Worker", "Notifier")}
    timeouts = {"Turns": longest["Worker"], "DeadTurns": longest["Worker"], "Notices": longest["Notifier"]}
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
    failed = sources["NotifierStream"]["DestinationConfig"]["OnFailure"]["Destination"]
    assert failed == {"Fn::GetAtt": ["DeadRecords", "Arn"]}
    [pattern] = sources["NotifierStream"]["FilterCriteria"]["Filters"]
    assert json.loads(pattern["Pattern"])["dynamodb"]["NewImage"].keys() == {"sk", "pushes"}
    [rule] = of_type(translated, "AWS::Events::Rule").values()
    assert rule["Properties"]["ScheduleExpression"] == "rate(1 minute)"


def test_the_code_calls_no_action_iam_does_not_allow() -> None:
    """Client methods in the kit's source, against the template's actions."""
    source = "".join(
        path.read_text()
        for path in (ROOT / "layers/a2a/a2a_lambda").rglob("*.py")
        if "local" not in path.parts
    )
    called = set(re.findall(r"self\._client\.(\w+)\(", source))
    of_operators = {"put_parameter", "delete_parameter"}  # make key, with the operator's own rights
    assert called - of_operators == {
        "get_item",
        "put_item",
        "delete_item",
        "query",
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
    assert table["UpdateReplacePolicy"] == table["DeletionPolicy"] == "Retain"


def test_every_alarm_is_told_and_documented(translated: Json) -> None:
    operations = (ROOT / "docs" / "operations.md").read_text()
    alarms = of_type(translated, "AWS::CloudWatch::Alarm")
    told = {"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopicArn"}], {"Ref": "AWS::NoValue"}]}
    for name, alarm in alarms.items():
        assert alarm["Properties"]["AlarmActions"] == alarm["Properties"]["OKActions"] == told
        assert f"**{name}**" in operations
    watched = {
        (alarm["Properties"]["MetricName"], json.dumps(dimension["Value"]))
        for alarm in alarms.values()
        for dimension in alarm["Properties"]["Dimensions"]
    }
    for name in FUNCTIONS:
        assert {("Errors", json.dumps({"Ref": name})), ("Throttles", json.dumps({"Ref": name}))} <= watched
    for queue in ("DeadTurns", "DeadNotices", "DeadRecords"):
        value = json.dumps({"Fn::GetAtt": [queue, "QueueName"]})
        assert ("ApproximateNumberOfMessagesVisible", value) in watched
    percentiles = {alarm["Properties"].get("ExtendedStatistic") for alarm in alarms.values()}
    assert "p99" in percentiles
    assert "IteratorAge" in {metric for metric, _ in watched}


def test_metrics_are_called_what_the_functions_call_them(translated: Json) -> None:
    from a2a_lambda.lambda_ import metrics

    [dashboard] = of_type(translated, "AWS::CloudWatch::Dashboard").values()
    body = dashboard["Properties"]["DashboardBody"]["Fn::Sub"]
    json.loads(body)
    searched = re.findall(r"SEARCH\('\{(\w+),([\w,]+)\} MetricName=\\\"(\w+)", body)
    assert {namespace for namespace, _, _ in searched} == {metrics.NAMESPACE}
    assert metrics.__doc__ is not None
    for _, dimensions, metric in searched:
        [line] = [line for line in metrics.__doc__.splitlines() if line.strip().startswith(f"{metric} ")]
        for dimension in dimensions.split(","):
            assert dimension in line


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


def test_gateway_answers_are_json(translated: Json) -> None:
    [api] = of_type(translated, "AWS::ApiGateway::RestApi").values()
    responses = api["Properties"]["Body"]["x-amazon-apigateway-gateway-responses"]
    for name in ("DEFAULT_4XX", "DEFAULT_5XX"):
        template = responses[name]["responseTemplates"]["application/json"]
        json.loads(template.replace("$context.error.messageString", '"message"'))


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
