"""make deploy STAGE=dev|prod: sam deploy, as samconfig.toml has it for a stage.

Every parameter is given to CloudFormation, which would keep the value of one that is not: the template's
default, or what samconfig.toml or PARAMETERS="Name=value …" say; and the architecture that was built.
"""

import os
import shlex
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import NoRegionError
from botocore.session import Session

from a2a_lambda import aws
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.local import stack, table
from a2a_lambda.local.check import checked
from a2a_lambda.settings import Settings

CONFIG = Path("samconfig.toml")

SAM = ".venvs/sam/bin/sam"


def command(environ: Mapping[str, str]) -> list[str]:
    """The call of sam. Raises ConfigurationError."""
    stage, known = environ.get("STAGE", ""), stages(CONFIG)
    if not known:
        raise ConfigurationError(f"{CONFIG} has no stage with a stack_name")
    if stage not in known:
        raise ConfigurationError(f"which stage? {' or '.join(f'STAGE={name}' for name in known)}")
    overrides = known[stage].get("parameter_overrides", [])
    written = [overrides] if isinstance(overrides, str) else overrides
    try:
        # In quotes or not, as a shell would read it.
        words = [word for text in (*written, environ.get("PARAMETERS", "")) for word in shlex.split(text)]
    except ValueError as error:
        raise ConfigurationError(f"parameters: {error}") from None
    given = stack.parameters(table.defaults(Path("template.yaml")), *words, f"Architecture={environ['ARCH']}")
    return [
        *(SAM, "deploy", "--config-file", str(CONFIG.resolve()), "--config-env", stage),
        *("--template-file", f"{environ['BUILD_DIR']}/template.yaml", "--parameter-overrides", *given),
    ]


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


def _identify(parameters: Mapping[str, Any]) -> None:
    """Raises ConfigurationError if AWS does not know who deploys, or where is not said."""
    with stack.asking_aws("make deploy"):
        session = Session(profile=parameters["profile"]) if parameters.get("profile") else aws.session()
        region = parameters.get("region") or session.get_config_variable("region")
        if region is None:
            raise NoRegionError
        client: Any = session.create_client("sts", region_name=region)
        client.get_caller_identity()


def main(argv: list[str] = sys.argv) -> int:
    """With `check`, only looks whether a deployment can begin: the stage, the agents, the region, the
    credentials. Returns the process's exit status."""
    only_check = argv[1:] == ["check"]
    try:
        call = command(os.environ)
        if only_check:
            checked(Settings.of(os.environ).agents)
            _identify(stages(CONFIG)[os.environ["STAGE"]])
    except (ConfigurationError, OSError, tomllib.TOMLDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if not only_check:
        os.execv(SAM, call)  # noqa: S606
    return 0


if __name__ == "__main__":
    sys.exit(main())
