"""What a deployment would change in a stack, and what it must not."""

from collections.abc import Iterator, Mapping
from typing import Any

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from tools.deployment import stack
from tools.deployment.versions import Versions, stack_versions

BOUNDARY = "PermissionsBoundaryArn"
"""The deploy role of a stack can change no role without it."""

GROWING = ("ListShards", "WarmWrites")
"""Parameters that must never shrink."""


def parameter_changes(name: str, parameters: Mapping[str, str]) -> Iterator[str]:
    """Parameters of a deployed stack that get a new value, and what that means for what is stored. Raises
    ConfigurationError."""
    old_parameters = stack.parameters_of(name)
    for parameter, value in old_parameters.items():
        new = parameters.get(parameter, value)
        if parameter == "ExecutionTimeout" and value not in ("0", "") and new == "0":
            _check_executions(name, "ExecutionTimeout=0 removes the function of durable skills")
        if parameter == "DurableKeyArn" and value and new != value:
            # An execution keeps the key with which it began, and the stack's roles may use the new one only.
            # https://docs.aws.amazon.com/lambda/latest/dg/durable-encryption.html
            _check_executions(name, f"DurableKeyArn={new} takes the key {value} from the functions")
        if parameter in GROWING and int(new) < int(value or 0):
            raise ConfigurationError(
                f"{parameter} is {value} in this stack, and must not become {new}: see docs/scale.md. Set"
                f" {parameter}={value} in samconfig.toml, where it lasts"
            )
        if parameter == "WarmWrites" and new not in ("0", value):
            _check_warm_writes(name, int(new), value)
        if parameter == "MaxWriteRequestUnits" and value not in ("0", "") and new == "0":
            yield (
                "CloudFormation may leave the table's limit of writes as it is. To lift it after the"
                f" deployment: aws dynamodb update-table --table-name {stack.table_of(name)}"
                " --on-demand-throughput MaxWriteRequestUnits=-1"
            )
        if parameter == BOUNDARY and value and not new:
            raise ConfigurationError(
                f"this stack's roles have a permissions boundary, and would lose it: add {BOUNDARY}={value}"
                " to PARAMETERS or to samconfig.toml"
            )
        if new != value and parameter != "Release":
            yield f"{parameter} changes from {value or 'nothing'} to {new or 'nothing'}"
    if old_parameters.get("Files") == "true":
        yield from _file_changes(name, old_parameters, parameters)


def _file_changes(
    name: str, old_parameters: Mapping[str, str], parameters: Mapping[str, str]
) -> Iterator[str]:
    """What a deployment means for the files that a stack has stored."""
    if parameters["Files"] != "true":
        bucket = stack.outputs_of(name).get("FileBucketName", "")
        yield (
            f"the bucket {bucket} stays, but the stack no longer uses it: tasks lose their files, and make"
            " erase does not delete them. Delete the bucket by hand when you no longer need its files"
        )
    elif (key := old_parameters.get("TableKeyArn")) and key != parameters["TableKeyArn"]:
        yield (
            f"the functions lose the key {key}, with which the files of earlier tasks are encrypted: those"
            " files can no longer be read"
        )
    if int(parameters["FileDays"]) < int(old_parameters.get("FileDays") or 0):
        yield (
            f"files of earlier tasks are deleted after {parameters['FileDays']} days, which may be before"
            " their tasks are"
        )


def _check_warm_writes(name: str, writes: int, old_value: str) -> None:
    """Raises ConfigurationError if the table, or an index, has grown beyond so many writes per second:
    DynamoDB lowers none, and could not roll the deployment back.

    Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput.html
    """
    with stack.aws_errors(f"stack {name}"):
        client: Any = clients.session().create_client("dynamodb")
        table = client.describe_table(TableName=stack.table_of(name))["Table"]
    parts = [table, *table.get("GlobalSecondaryIndexes", [])]
    grown_writes = max(part.get("WarmThroughput", {}).get("WriteUnitsPerSecond", 0) for part in parts)
    if grown_writes > writes:
        raise ConfigurationError(
            f"WarmWrites={writes}: the table already takes {grown_writes:,} writes per second, which"
            f" DynamoDB cannot lower. Set a higher value, or keep WarmWrites={old_value}"
        )


def check_rollout(name: str, rollout: str) -> None:
    """Raises ConfigurationError if a gradual rollout could not begin, because the stack was rolled back.
    CloudFormation names the version that it deployed last as the current one, and CodeDeploy refuses to shift
    calls from a version that is not live.

    Source: currentversion, in
    https://docs.aws.amazon.com/codedeploy/latest/userguide/reference-appspec-file-structure-resources.html
    """
    if rollout == "AllAtOnce":
        return
    with stack.aws_errors(f"stack {name}"):
        client: Any = clients.session().create_client("lambda")
        resources = stack.resources_of(name)
        for function in stack.functions_of(resources):
            live, deployed = Versions(client, resources[function]).live(), stack_versions(resources, function)
            if deployed and live not in deployed:
                raise ConfigurationError(
                    f"Rollout={rollout}: this stack was rolled back, and {function} serves version {live},"
                    " from which CodeDeploy cannot shift calls. Deploy once with"
                    " Rollout=AllAtOnce, in PARAMETERS or in samconfig.toml; later deployments can have"
                    f" Rollout={rollout} again"
                )


def package_changes(name: str, *, is_image: bool) -> Iterator[str]:
    """What a change from layers to an image, or back, means for a deployed stack. Raises ConfigurationError
    while durable turns run. Source: PackageType, in
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-lambda-function.html
    """
    with stack.aws_errors(f"stack {name}"):
        client: Any = clients.session().create_client("lambda")
        function = stack.resources_of(name)["RpcFunction"]
        [version] = client.list_versions_by_function(FunctionName=function, MaxItems=1)["Versions"]
        kind = version.get("PackageType", "Zip")
    if (kind == "Image") is not is_image:
        cause = "IMAGE=1" if is_image else "A deployment without IMAGE=1"
        _check_executions(name, f"{cause} removes the function of durable skills")
        yield (
            f"the functions are of type {kind} now, so CloudFormation replaces each: their versions are"
            " deleted, so that no rollback can return to them, and the function URL changes"
        )


def _check_executions(name: str, loss: str) -> None:
    """Raises ConfigurationError if durable turns run. loss: what the deployment takes from them, as
    the beginning of a sentence."""
    with stack.aws_errors(f"stack {name}"):
        client: Any = clients.session().create_client("lambda")
        function = stack.resources_of(name).get(stack.DURABLE, "")
        turns = list(Versions(client, function).open_executions()) if function else []
    if turns:
        raise ConfigurationError(
            f"{loss}, but durable turns are open: {len(turns)}. Wait for them, cancel their tasks, or end"
            " each one:"
            f" aws lambda stop-durable-execution --durable-execution-arn {turns[0]}"
        )
