"""The functions: settings, layers, versions, what calls them."""

import json
from typing import Any

from samtranslator.yaml_helper import yaml_parse

from a2a_lambda.agent.configuration import PATH_VARIABLE
from a2a_lambda.lambda_.batch import EXECUTION_ENDED
from a2a_lambda.settings import Settings
from tests.template.resources import FUNCTIONS, of_type
from tools.build import lint

AGENTS_OWN = {"A2A_AGENT_PARAMETERS", "SHOP"}
"""Variables of the functions that run agents."""


def test_functions(translated: Any) -> None:
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
        variables = properties["Environment"]["Variables"]
        assert set(variables) - AGENTS_OWN == {
            "A2A_TABLE",
            "A2A_IAM_CALLERS",
            "A2A_KEYS_PATH",
            "A2A_BASE_URL",
            "A2A_ORIGIN_DIGESTS",
            "A2A_CORS_ORIGINS",
            "A2A_TASK_DAYS",
            "A2A_FILES_BUCKET",
            "A2A_UPLOAD_MEGABYTES",
            "A2A_EXECUTION_TIMEOUT",
            "A2A_SIGNING_KEY",
            "A2A_QUEUE",
            "A2A_AGENT_NAMES",
            "A2A_REQUESTS_PER_OWNER",
            "A2A_STREAMS_PER_OWNER",
            "A2A_LIST_SHARDS",
            "A2A_SERVICE",
            "A2A_LOG_LEVEL",
            "A2A_DEBUG_LOGS",
            "A2A_TRACING",
            "A2A_OTLP_ENDPOINT",
            "A2A_TRACE_SHARE",
            "AWS_LAMBDA_EXEC_WRAPPER",
            "A2A_AGENT_METRICS",
            *own,
        }


def test_variables_are_settings(translated: Any) -> None:
    """Each A2A_ variable is one the kit reads."""
    names = {PATH_VARIABLE, "A2A_NEXT_WRAPPER", *(f"A2A_{name.upper()}" for name in Settings.model_fields)}
    for function in of_type(translated, "AWS::Lambda::Function").values():
        variable_names = {
            name for name in function["Properties"]["Environment"]["Variables"] if name[:4] == "A2A_"
        }
        assert variable_names <= names


def test_the_wrapper_is_the_streaming_functions_alone(translated: Any) -> None:
    """It starts the wrapper of another layer, which the other functions have themselves."""
    others = {"Fn::If": ["HasExtraWrapper", {"Ref": "ExtraLayerWrapper"}, {"Ref": "AWS::NoValue"}]}
    for name, item in of_type(translated, "AWS::Lambda::Function").items():
        variables = item["Properties"]["Environment"]["Variables"]
        if name == "RpcFunction":
            assert variables["AWS_LAMBDA_EXEC_WRAPPER"] == "/opt/a2a-runtime"
            assert variables["A2A_NEXT_WRAPPER"] == others
        else:
            assert variables["AWS_LAMBDA_EXEC_WRAPPER"] == others
            assert "A2A_NEXT_WRAPPER" not in variables


def test_everything_calls_the_alias(translated: Any) -> None:
    """Otherwise, a part of the stack would run what is being deployed, with a layer of before."""
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
    for rule in of_type(translated, "AWS::Events::Rule").values():
        [target] = rule["Properties"]["Targets"]
        assert target["Arn"] == {"Ref": "WorkerFunctionAliaslive"}


def test_a_slow_webhook_is_no_recursive_loop(translated: Any) -> None:
    """The rest of a delivery goes back into the queue that invokes the function, and Lambda stops a function
    that does so more than 16 times.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
    """
    functions = of_type(translated, "AWS::Lambda::Function")
    loops = {name: each["Properties"].get("RecursiveLoop", "Terminate") for name, each in functions.items()}
    assert [name for name, loop in loops.items() if loop == "Allow"] == ["NotifierFunction"]


def test_the_durable_function_is_a_choice(translated: Any) -> None:
    """Without it nothing of it is there, and nothing refers to it."""
    own = {name for name, item in translated.items() if item.get("Condition") == "HasDurable"}
    assert {"DurableFunction", "DurableFunctionAliaslive", "DurableRole", "DurableEnds"} <= own
    assert len(of_type({name: translated[name] for name in own}, "AWS::Lambda::Version")) == 1
    pattern = translated["DurableEnds"]["Properties"]["EventPattern"]
    assert pattern["detail-type"] == [EXECUTION_ENDED]
    assert "SUCCEEDED" not in pattern["detail"]["status"]
    config = translated["DurableFunction"]["Properties"]["DurableConfig"]
    assert config == {
        "ExecutionTimeout": {"Ref": "ExecutionTimeout"},
        "RetentionPeriodInDays": {"Ref": "ExecutionRetention"},
        "KMSKeyArn": {"Fn::If": ["HasDurableKey", {"Ref": "DurableKeyArn"}, {"Ref": "AWS::NoValue"}]},
    }
    for name in ("RpcFunction", "WorkerFunction"):
        variables = translated[name]["Properties"]["Environment"]["Variables"]
        durable_function = {"Fn::If": ["HasDurable", {"Fn::Sub": "${DurableFunction}:live"}, ""]}
        assert variables["A2A_DURABLE_FUNCTION"] == durable_function


def test_new_code_layers_and_parameters_are_new_versions(source: str) -> None:
    """SAM sees no change of a parameter's value: the release says it."""

    def versions(**options: Any) -> set[str]:
        resources = lint.translate(source, options.pop("parameters", {}), **options)["Resources"]
        return set(of_type(resources, "AWS::Lambda::Version"))

    before = versions()
    assert len(before) == len(FUNCTIONS)
    assert versions() == before
    assert not versions(artifact="other") & before
    new_versions = versions(parameters={"Release": "a" * 64})
    assert not new_versions & before
    assert not versions(parameters={"Release": "b" * 64}) & new_versions
    same = versions(parameters={"Release": "a" * 64}, artifact="other")
    assert same == new_versions, (
        "a release names what is deployed: docs/deploying.md says to choose a new one"
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
        # JSON-RPC may report a server fault with status 200.
        assert (["Monitoring", "Outputs.Faults"] in alarms) == (name == "RpcFunctionDeploymentGroup")
        assert group["Properties"]["AutoRollbackConfiguration"]["Enabled"] is True
        assert group["Properties"]["ServiceRoleArn"] == {"Fn::GetAtt": ["RolloutRole", "Arn"]}
    parameter = yaml_parse(source)["Parameters"]["Rollout"]
    assert set(parameter["AllowedValues"]) == set(yaml_parse(source)["Mappings"]["Rollouts"])


def test_snapstart_is_a_choice(translated: Any) -> None:
    choice = {"Fn::If": ["HasSnapStart", {"ApplyOn": "PublishedVersions"}, {"Ref": "AWS::NoValue"}]}
    choices = {name: translated[name]["Properties"].get("SnapStart") for name in FUNCTIONS}
    assert choices == {
        "ApiFunction": choice,
        "RpcFunction": choice,
        "WorkerFunction": None,
        "DurableFunction": None,
        "NotifierFunction": None,
    }


def test_provisioned_concurrency_is_a_choice_for_calls(translated: Any) -> None:
    aliases = of_type(translated, "AWS::Lambda::Alias")
    choice = {"ProvisionedConcurrentExecutions": {"Ref": "RpcProvisioned"}}
    choices = {
        name: alias["Properties"]["ProvisionedConcurrencyConfig"]
        for name, alias in aliases.items()
        if "ProvisionedConcurrencyConfig" in alias["Properties"]
    }
    assert choices == {
        "RpcFunctionAliaslive": {"Fn::If": ["HasRpcProvisioned", choice, {"Ref": "AWS::NoValue"}]}
    }


def test_layers_are_named_after_their_stack(translated: Any) -> None:
    layers = of_type(translated, "AWS::Lambda::LayerVersion").values()
    names = {item["Properties"]["LayerName"]["Fn::Sub"] for item in layers}
    assert names == {f"${{AWS::StackName}}-{name}" for name in ("kit", "dependencies", "tracing", "agents")}
