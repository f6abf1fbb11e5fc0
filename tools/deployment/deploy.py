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

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.settings import Settings
from tools.build.check import checked
from tools.deployment import stack
from tools.deployment.account import QUOTA, REGIONS, SAM, Account, account_of, use
from tools.deployment.versions import Versions
from tools.dev import template

CONFIG = Path("samconfig.toml")

TEMPLATE = Path("template.yaml")

SMALL = 100
"""Functions at once below which an account is small: a new one has 10."""

EMPTY = "ROLLBACK_COMPLETE"
"""State of a stack whose first deployment failed. It has nothing, and can only be deleted."""


def stage_of(environ: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Name and parameters of the stage to deploy. Raises ConfigurationError."""
    name, known = environ.get("STAGE", ""), stages(CONFIG)
    if not known:
        raise ConfigurationError(f"{CONFIG} has no stage with a stack_name")
    if name not in known:
        raise ConfigurationError(f"which stage? {' or '.join(f'STAGE={stage}' for stage in known)}")
    return name, known[name]


def named_parameters(environ: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Parameters that samconfig.toml names, and those that the call does. Raises ConfigurationError."""
    overrides = stage_of(environ)[1].get("parameter_overrides", [])
    written = [overrides] if isinstance(overrides, str) else overrides
    declared = template.parameters(TEMPLATE)
    try:
        # In quotes or not, as a shell would read it.
        of_stage = [word for text in written for word in shlex.split(text)]
        of_call = shlex.split(environ.get("PARAMETERS", ""))
    except ValueError as error:
        raise ConfigurationError(f"parameters: {error}") from None
    return stack.parse_parameters(declared, *of_stage), stack.parse_parameters(declared, *of_call)


def parameters_for(
    account: Account, of_stage: Mapping[str, str], of_call: Mapping[str, str]
) -> dict[str, str]:
    """Every parameter but the release: the template's default, what suits the account, what is named.

    In a small account background work and streams have no more than suits it, unless the call says so.
    """
    most = account.concurrency
    suits = {
        "AccountConcurrency": str(most * 8 // 10),
        "AccessLogs": "true" if account.logs_role else "false",
    }
    room = {}
    if most < SMALL:
        room = {
            "WorkerConcurrency": "2",
            "NotifierConcurrency": "2",
            "StreamsPerOwner": str(max(1, (most - 4) // 2)),
        }
    return {**template.defaults(TEMPLATE), **suits, **of_stage, **room, **of_call}


def notes(account: Account, parameters: Mapping[str, str]) -> Iterator[str]:
    """What to know of a deployment before it begins."""
    region, most = account.region, account.concurrency
    if region not in REGIONS:
        yield f"{region} is not one of the regions that the templates are checked for; see docs/operations.md"
    if parameters["OriginDigests"] and not parameters["BaseUrl"]:
        yield "OriginDigests without BaseUrl: the urls of the cards do not lead through the CDN, so they fail"
    background = sum(int(parameters[f"{name}Concurrency"]) for name in ("Worker", "Notifier"))
    if most < SMALL:
        yield (
            f"the account runs at most {most} functions at once in {region}. Until it has more, owners have "
            f"{parameters['StreamsPerOwner']} streams, and background work {background} functions. "
            f"Ask for 1,000: {QUOTA} --desired-value 1000 --region {region}"
        )
    if background > most // 2:
        yield (
            f"WorkerConcurrency and NotifierConcurrency may use {background} of the {most} functions the "
            f"account runs at once in {region}: calls may find none free"
        )
    if not account.logs_role and parameters["AccessLogs"] == "true":
        raise ConfigurationError(
            f"AccessLogs=true: API Gateway has no role to write logs with in {region}. Run make account first"
        )
    if not account.logs_role:
        yield "no access logs: API Gateway has no role to write them. make account makes one"


def command(environ: Mapping[str, str], parameters: Mapping[str, str]) -> list[str]:
    """The call of sam. Raises ConfigurationError."""
    given = stack.overrides(parameters)
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


def fresh_release(release: str, name: str) -> str:
    """The release, or another one if the stack went back from it: the same one would change nothing.

    name: of the stack. Raises ConfigurationError, also while a rollout is under way.
    """
    with stack.asking_aws(f"stack {name}"):
        client: Any = clients.session().create_client("lambda")
        versions = Versions(client, stack.resources_of(name)["RpcFunction"])
        known, live = versions.all(), versions.live()
    if known.get(live) == release or release not in known.values():
        return release
    return hashlib.sha256(f"{release} after {max(known)}".encode()).hexdigest()


def changes(name: str, parameters: Mapping[str, str]) -> Iterator[str]:
    """Which parameters of a deployed stack get another value. Raises ConfigurationError."""
    for parameter, value in stack.parameters_of(name).items():
        new = parameters.get(parameter, value)
        if new != value and parameter != "Release":
            yield f"{parameter} changes from {value or 'nothing'} to {new or 'nothing'}"


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


def _is_first(name: str) -> bool:
    """Whether the stack is made anew. Raises ConfigurationError if it has to be deleted first."""
    status = stack.status_of(name)
    if status == EMPTY:
        region = clients.session().get_config_variable("region")
        raise ConfigurationError(
            f"the first deployment of {name} failed and left an empty stack. Delete it, and deploy again: "
            f"{SAM} delete --stack-name {name} --region {region} --no-prompts"
        )
    return status in ("", "REVIEW_IN_PROGRESS")


def main(argv: list[str] = sys.argv, environ: Mapping[str, str] = os.environ) -> int:
    """With `check`, only looks whether a deployment can begin: the stage, the agents, the region, the
    credentials, the account. Returns the process's exit status."""
    only_check = argv[1:] == ["check"]
    try:
        _, stage = stage_of(environ)
        use(stage)
        account = account_of("make deploy")
        parameters = parameters_for(account, *named_parameters(environ))
        parameters["Architecture"] = environ["ARCH"]
        first = _is_first(stage["stack_name"])
        if only_check:
            checked(Settings.of(environ).agents)
            said = f"{account.region}, {account.concurrency} functions at once"
            print(f"account {account.number}: {said}")
            changed = () if first else changes(stage["stack_name"], parameters)
            for note in (*notes(account, parameters), *changed):
                print(f"note: {note}")
            return 0
        digest = release(Path(environ["BUILD_DIR"]), parameters)
        parameters["Release"] = digest if first else fresh_release(digest, stage["stack_name"])
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
