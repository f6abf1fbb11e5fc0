"""make deploy STAGE=dev|prod: sam deploy, as samconfig.toml has it for a stage.

Every parameter is given to CloudFormation, which would keep the value of one that is not: the template's
default, what suits the account, or what samconfig.toml or PARAMETERS="Name=value …" say; and the architecture
that was built. The release is a digest of all that, and of what was built: a new one publishes new versions.
"""

import hashlib
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from a2a_lambda.errors import ConfigurationError
from a2a_lambda.local import stack, table
from a2a_lambda.local.account import REGIONS, SAM, Account, account_of, session_of
from a2a_lambda.local.check import checked
from a2a_lambda.settings import Settings

CONFIG = Path("samconfig.toml")

TEMPLATE = Path("template.yaml")

SMALL = 100
"""Functions at once below which an account is small: a new one has 10."""

QUOTA = "aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384"

ABSENT = ("REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "DELETE_COMPLETE")
"""States of a stack that has nothing yet, or nothing any more."""


def stage_of(environ: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Name and parameters of the stage to deploy. Raises ConfigurationError."""
    name, known = environ.get("STAGE", ""), stages(CONFIG)
    if not known:
        raise ConfigurationError(f"{CONFIG} has no stage with a stack_name")
    if name not in known:
        raise ConfigurationError(f"which stage? {' or '.join(f'STAGE={stage}' for stage in known)}")
    return name, known[name]


def named(environ: Mapping[str, str]) -> dict[str, str]:
    """Parameters that samconfig.toml and PARAMETERS name, and the architecture. Raises ConfigurationError."""
    overrides = stage_of(environ)[1].get("parameter_overrides", [])
    written = [overrides] if isinstance(overrides, str) else overrides
    try:
        # In quotes or not, as a shell would read it.
        words = [word for text in (*written, environ.get("PARAMETERS", "")) for word in shlex.split(text)]
    except ValueError as error:
        raise ConfigurationError(f"parameters: {error}") from None
    return stack.named(table.defaults(TEMPLATE), *words, f"Architecture={environ['ARCH']}")


def suited(account: Account, given: Mapping[str, str]) -> dict[str, str]:
    """Parameters that depend on the account, unless they are given."""
    most = account.concurrency
    suits = {
        "AccountConcurrency": str(most * 8 // 10),
        "AccessLogs": "true" if account.logs_role else "false",
    }
    if most < SMALL:
        suits |= {
            "WorkerConcurrency": "2",
            "NotifierConcurrency": "2",
            "StreamsPerOwner": str(max(1, (most - 4) // 2)),
        }
    return suits | dict(given)


def notes(account: Account, parameters: Mapping[str, str]) -> Iterator[str]:
    """What to know of a deployment before it begins."""
    region, most = account.region, account.concurrency
    if region not in REGIONS:
        yield f"{region} is none of the regions the templates are checked for; see docs/operations.md"
    background = sum(int(parameters[f"{name}Concurrency"]) for name in ("Worker", "Notifier"))
    if most < SMALL:
        yield (
            f"the account runs at most {most} functions at once in {region}. Until it has more, an owner has "
            f"{parameters['StreamsPerOwner']} streams and {background} functions work in the background. "
            f"Ask for 1,000: {QUOTA} --desired-value 1000 --region {region}"
        )
    elif background > most // 2:
        yield (
            f"WorkerConcurrency and NotifierConcurrency may use {background} of the {most} functions the "
            f"account runs at once in {region}: calls may find none free"
        )
    if not account.logs_role and parameters["AccessLogs"] == "true":
        raise ConfigurationError(
            f"AccessLogs=true: API Gateway has no role to write logs with in {region}. Run make account first"
        )
    if not account.logs_role:
        yield "without access logs: API Gateway has no role to write them. make account makes one"


def command(environ: Mapping[str, str], parameters: Mapping[str, str]) -> list[str]:
    """The call of sam. Raises ConfigurationError."""
    given = stack.overrides({**table.defaults(TEMPLATE), **parameters})
    template = f"{environ['BUILD_DIR']}/template.yaml"
    role = environ.get("ROLE", "")
    return [
        *(SAM, "deploy", "--config-file", str(CONFIG.resolve()), "--config-env", stage_of(environ)[0]),
        *("--template-file", template, *(("--role-arn", role) if role else ())),
        *("--parameter-overrides", *given),
    ]


def release(build: Path, parameters: Mapping[str, str]) -> str:
    """Digest of what is deployed: the same for the same files and parameters, compiled anew or not."""
    digest = hashlib.sha256(repr(sorted(parameters.items())).encode())
    for path in sorted(build.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(str(path.relative_to(build)).encode() + path.read_bytes())
    return digest.hexdigest()


def stages(config: Path) -> dict[str, Any]:
    """Parameters of sam deploy, of each environment of a samconfig.toml that names a stack."""
    found = {}
    for name, environment in tomllib.loads(config.read_text("utf-8")).items():
        deploy = environment.get("deploy") if isinstance(environment, dict) else None
        parameters = deploy.get("parameters") if isinstance(deploy, dict) else None
        shared = environment.get("global", {}).get("parameters", {}) if isinstance(deploy, dict) else {}
        if isinstance(parameters, dict) and parameters.get("stack_name"):
            found[name] = {**shared, **parameters}
    return found


def _is_first(stage: Mapping[str, Any]) -> bool:
    """Whether the stack is made anew."""
    with stack.asking_aws(f"stack {stage['stack_name']}"):
        session, region = session_of(stage)
        client: Any = session.create_client("cloudformation", region_name=region)
        try:
            [found] = client.describe_stacks(StackName=stage["stack_name"])["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return True
            raise
    return found["StackStatus"] in ABSENT


def main(argv: list[str] = sys.argv, environ: Mapping[str, str] = os.environ) -> int:
    """With `check`, only looks whether a deployment can begin: the stage, the agents, the region, the
    credentials, the account. Returns the process's exit status."""
    only_check = argv[1:] == ["check"]
    try:
        _, stage = stage_of(environ)
        given = named(environ)
        account = account_of(stage, "make deploy")
        parameters = {**table.defaults(TEMPLATE), **suited(account, given)}
        if only_check:
            checked(Settings.of(environ).agents)
            for note in notes(account, parameters):
                print(f"note: {note}")
            return 0
        parameters["Release"] = release(Path(environ["BUILD_DIR"]), parameters)
        first = _is_first(stage)
    except (ConfigurationError, OSError, tomllib.TOMLDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if first and parameters["DeletionProtection"] == "true":
        # CloudFormation could not take a protected table back if this first deployment failed.
        bare = command(environ, {**parameters, "DeletionProtection": "false"})
        if status := subprocess.run(bare, check=False).returncode:
            return status
        print("the stack is there; now its table is protected")
    return subprocess.run(command(environ, parameters), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
