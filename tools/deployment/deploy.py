"""make deploy STAGE=dev|prod: sam deploy, with the parameters of a stage in samconfig.toml.

CloudFormation keeps the old value of a parameter that it does not get, so it gets every parameter. The value
is from PARAMETERS="Name=value …", or from samconfig.toml, or suits the account, or is the template's default.
The release is a digest of the parameters and of the build. A new release publishes new versions of the
functions.
"""

import hashlib
import math
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from tools import environments, template
from tools.agents import stages
from tools.agents.stage_parameters import (
    TEMPLATE,
    check_agents,
    check_parameters,
    fitted_file_days,
    longest_task_days,
    named_parameters,
)
from tools.builds import BUILD, IMAGE, NOT_OF_IMAGES, read_architecture, read_python
from tools.command import reports_errors
from tools.deployment import stack
from tools.deployment.account import (
    REGIONS,
    SMALL_CONCURRENCY,
    Account,
    account_of,
    quota_request,
    use_stage,
)
from tools.deployment.changes import check_rollout, package_changes, parameter_changes
from tools.deployment.versions import SHOWN_CHARACTERS, Versions, build_of, release_after

RESERVING = ("ApiConcurrency", "RpcConcurrency", "RpcProvisioned")
"""Parameters that reserve concurrent executions."""

UNRESERVED_CONCURRENCY = 100
"""Concurrent executions that no function of an account may reserve.
Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html"""


def parameters_for(
    account: Account, stage_parameters: Mapping[str, str], call_parameters: Mapping[str, str]
) -> dict[str, str]:
    """Every parameter except the release.

    In a small account, background work and streams get no more than it has room for, unless the call says so.
    Raises ConfigurationError if two parameters do not fit together.
    """
    account_limit = account.concurrency
    facts = {
        "AccountConcurrency": str(account_limit * 8 // 10),
        "AccessLogs": "true" if account.logs_role else "false",
    }
    room = {}
    if account_limit < SMALL_CONCURRENCY:
        room = {
            "WorkerConcurrency": "2",
            "NotifierConcurrency": "2",
            "StreamsPerOwner": str(max(1, (account_limit - 4) // 2)),
        }
    parameters = {**template.defaults(TEMPLATE), **facts, **stage_parameters}
    # A stage may have less than there is room for; 0 is no limit.
    limits_for_room = {
        name: min(value, parameters[name], key=lambda text: int(text) or math.inf)
        for name, value in room.items()
    }
    parameters |= {**limits_for_room, **call_parameters}
    parameters |= fitted_file_days(parameters)
    check_parameters(parameters)
    _check_concurrency(account, {name: int(parameters[name]) for name in RESERVING})
    return parameters


def _check_concurrency(account: Account, values: Mapping[str, int]) -> None:
    """Raises ConfigurationError if the account has too little concurrency for what functions reserve."""
    total = values["ApiConcurrency"] + (values["RpcConcurrency"] or values["RpcProvisioned"])
    if total and total > account.unreserved - UNRESERVED_CONCURRENCY:
        reserved_elsewhere = account.concurrency - account.unreserved
        thousands = math.ceil((reserved_elsewhere + total + UNRESERVED_CONCURRENCY) / 1000)
        request = quota_request(thousands * 1000, account.region)
        raise ConfigurationError(
            f"{', '.join(name for name in RESERVING if values[name])} would reserve {total} of the account's"
            f" {account.concurrency} concurrent executions in {account.region}, of which other stacks reserve"
            f" {reserved_elsewhere}, and Lambda keeps {UNRESERVED_CONCURRENCY} for functions that reserve"
            f" none. Lower them, or request more: {request}"
        )


def _without_reservations_of(parameters: Mapping[str, str], account: Account) -> Account:
    """The account as it would be without a stack's reservations, which its next deployment sets anew.
    parameters: the parameters with which the stack is deployed now."""
    reserved = sum(int(parameters.get(name, "0")) for name in ("ApiConcurrency", "RpcConcurrency"))
    return replace(account, unreserved=account.unreserved + reserved)


def check_python(version: str, parameters: Mapping[str, str], *, is_image: bool) -> None:
    """Raises ConfigurationError if Lambda does not offer a feature for a version of Python.

    Sources: https://docs.aws.amazon.com/lambda/latest/dg/durable-supported-runtimes.html
    https://docs.aws.amazon.com/lambda/latest/dg/snapstart.html
    """
    needs = {
        "ExecutionTimeout": ("3.13", "0", "durable functions"),
        "SnapStart": ("3.12", "false", "SnapStart"),
    }
    for name, (least, off, feature) in needs.items():
        minor, least_minor = (int(text.partition(".")[2]) for text in (version, least))
        if not is_image and parameters[name] != off and minor < least_minor:
            raise ConfigurationError(
                f"LAMBDA_PYTHON={version}: Lambda offers {feature} for Python {least} and later. Set"
                f" LAMBDA_PYTHON={least}, or {name}={off}"
            )


def prefix_of(stage: Mapping[str, Any]) -> str:
    """What comes before a command that is for a stage: the variables that the stage sets and the environment
    need not have."""
    variables = [variable for variable in ("profile", "region") if stage.get(variable)]
    return "".join(f"AWS_{variable.upper()}={shlex.quote(str(stage[variable]))} " for variable in variables)


def check_access_logs(account: Account, parameters: Mapping[str, str], prefix: str) -> None:
    """Raises ConfigurationError if API Gateway is to write logs that it may not write. prefix: see
    `prefix_of`."""
    if not account.logs_role and parameters["AccessLogs"] == "true":
        raise ConfigurationError(
            f"AccessLogs=true, but API Gateway has no role to write logs in {account.region}. Run"
            f" {prefix}make account first"
        )


def notes(account: Account, parameters: Mapping[str, str], prefix: str = "") -> Iterator[str]:
    """What to know before a deployment. prefix: see `prefix_of`."""
    region, account_limit = account.region, account.concurrency
    if region not in REGIONS:
        yield f"the templates are not checked for {region}; see docs/deploying.md"
    if parameters["OriginDigests"] and not parameters["BaseUrl"]:
        yield "OriginDigests is set without BaseUrl: the URLs in the cards bypass the CDN, so calls fail"
    if parameters["ExecutionTimeout"] != "0":
        yield (
            f"ExecutionTimeout needs Lambda's durable functions. If {region} does not have them, the"
            " deployment fails at DurableFunction, and changes nothing: then set ExecutionTimeout=0"
        )
    if int(parameters["FileDays"]) < (days := longest_task_days(parameters)):
        yield (
            f"FileDays={parameters['FileDays']} deletes files before their tasks: remove it, and make deploy"
            f" sets FileDays={days}"
        )
    background_concurrency = sum(int(parameters[f"{name}Concurrency"]) for name in ("Worker", "Notifier"))
    if account_limit < SMALL_CONCURRENCY:
        yield (
            f"the account is limited to {account_limit} concurrent executions in {region}, so each owner is"
            f" limited to {parameters['StreamsPerOwner']} streams, and background work to"
            f" {background_concurrency} executions. Request 1,000: {quota_request(1000, region)}"
        )
    if background_concurrency > account_limit // 2:
        yield (
            f"WorkerConcurrency and NotifierConcurrency may use {background_concurrency} of the account's"
            f" {account_limit} concurrent executions in {region}: calls may be throttled"
        )
    if not account.logs_role:
        yield (
            "access logs are off: API Gateway has no role to write them. To make one, after this deployment:"
            f" {prefix}make account"
        )


def command(environ: Mapping[str, str], parameters: Mapping[str, str]) -> list[str]:
    """The arguments of sam. Raises ConfigurationError."""
    overrides = stack.overrides(parameters)
    built_template = f"{environ.get('BUILD_DIR') or BUILD}/template.yaml"
    arguments = ["deploy", "--config-file", str(stages.SAMCONFIG.resolve())]
    arguments += ["--config-env", stages.stage_of(environ)[0], "--template-file", built_template]
    if role := environ.get("ROLE"):
        arguments += ["--role-arn", role]
    if environ.get("IMAGE"):
        arguments.append("--resolve-image-repos")
    return [*arguments, "--parameter-overrides", *overrides]


def digest_of_build(build: Path, parameters: Mapping[str, str]) -> str:
    """Digest of what is deployed. Of compiled files it counts only whether there are any, because the same
    source must give the same release."""
    digest = hashlib.sha256(repr(sorted(parameters.items())).encode())
    paths = [path for path in sorted(build.rglob("*")) if path.is_file()]
    if any(path.suffix == ".pyc" for path in paths):
        digest.update(b"compiled")
    for path in paths:
        if path.suffix != ".pyc":
            digest.update(str(path.relative_to(build)).encode() + path.read_bytes())
    return digest.hexdigest()


def fresh_release(build: str, name: str) -> str:
    """The release of a build. If the stack was rolled back from it, or a rollback of it was cut off, another
    one, because otherwise the deployment would change nothing.

    build: digest of the build. name: name of the stack. Raises ConfigurationError, and during a rollout too.
    """
    with stack.aws_errors(f"stack {name}"):
        client: Any = clients.session().create_client("lambda")
        resources = stack.resources_of(name)
        functions = [Versions(client, resources[function]) for function in stack.functions_of(resources)]
        histories = [versions.all() for versions in functions]
        live_releases = [
            history.get(versions.live(), "") for versions, history in zip(functions, histories, strict=True)
        ]
    builds = {build_of(digest) for history in histories for digest in history.values()}
    newest = max(version for history in histories for version in history)
    # After a rollback, the same build has this digest, or one with the number of an earlier version.
    digests = {build_of(build), *(build_of(_build_after(build, version)) for version in range(newest + 1))}
    if len(set(live_releases)) == 1 and build_of(live_releases[0]) in digests:
        return live_releases[0]
    return release_after(
        _build_after(build, newest) if build_of(build) in builds else build, predecessor=live_releases[0]
    )


def _build_after(build: str, version: int) -> str:
    return hashlib.sha256(f"{build} after {version}".encode()).hexdigest()


def check_deployment(
    stage: Mapping[str, Any],
    account: Account,
    parameters: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    is_first: bool,
) -> None:
    """Print what a deployment would change, and what its operator should know. Raises ConfigurationError if
    it cannot begin."""
    prefix = prefix_of(stage)
    check_access_logs(account, parameters, prefix)
    is_image = bool(environ.get("IMAGE"))
    if not environ.get("AWS_ENDPOINT_URL"):  # an emulator has other limits than Lambda
        check_python(read_python(environ), parameters, is_image=is_image)
    print(f"account {account.number}: {account.region}, {account.concurrency} concurrent executions")
    differences: list[str] = []
    if not is_first:
        differences += parameter_changes(stage["stack_name"], parameters)
        differences += package_changes(stage["stack_name"], is_image=is_image)
        check_rollout(stage["stack_name"], parameters["Rollout"])
    ignored_parameters = [name for name in NOT_OF_IMAGES if parameters[name] not in ("", "false")]
    if is_image and ignored_parameters:
        names = ", ".join(ignored_parameters)
        print(f"note: an image has no layers and no SnapStart: the kit's functions will not use {names}")
    for note in (*notes(account, parameters, prefix), *differences):
        print(f"note: {note}")


def deploy(
    stage: Mapping[str, Any], parameters: Mapping[str, str], environ: Mapping[str, str], *, is_first: bool
) -> int:
    """Deploy the build as a release. Returns the exit status of sam."""
    build = IMAGE if environ.get("IMAGE") else Path(environ.get("BUILD_DIR") or BUILD)
    digest = digest_of_build(build, parameters)
    release = digest if is_first else fresh_release(digest, stage["stack_name"])
    parameters = {**parameters, "Release": release}
    if is_first and parameters["DeletionProtection"] == "true":
        # If this first deployment fails, CloudFormation must be able to delete the table.
        arguments = command(environ, {**parameters, "DeletionProtection": "false"})
        if status := environments.run_sam(*arguments):
            return status
        print("the stack is deployed; turning on its table's deletion protection")
    status = environments.run_sam(*command(environ, parameters))
    if not status:
        name = stage["stack_name"]
        print(f"release {release[:SHOWN_CHARACTERS]} is deployed to {name}")
        prefix = prefix_of(stage)
        key = f"{prefix}make key NAME=alice STACK={name}, then " if is_first else ""
        print(f"Next: {key}{prefix}make doctor STACK={name} KEY=<a key>")
    return status


@reports_errors
def main(argv: list[str] = sys.argv, environ: Mapping[str, str] = os.environ) -> int:
    """With `check`, only check that a deployment can begin: the stage, the agents, the region, the
    credentials and the account."""
    _, stage = stages.stage_of(environ)
    stage_parameters, call_parameters = named_parameters(environ)
    architecture = read_architecture(environ, {**stage_parameters, **call_parameters})
    if argv[1:] == ["check"]:  # before the account: a mistake in a file needs no credentials
        check_agents({**template.defaults(TEMPLATE), **stage_parameters, **call_parameters})
    use_stage(stage)
    account = account_of("make deploy")
    is_first = stack.status_to_deploy(stage["stack_name"]) in ("", "REVIEW_IN_PROGRESS")
    if not is_first:
        account = _without_reservations_of(stack.parameters_of(stage["stack_name"]), account)
    parameters = parameters_for(account, stage_parameters, call_parameters)
    parameters["Architecture"] = architecture
    if argv[1:] == ["check"]:
        check_deployment(stage, account, parameters, environ, is_first=is_first)
        return 0
    return deploy(stage, parameters, environ, is_first=is_first)


if __name__ == "__main__":
    sys.exit(main())
