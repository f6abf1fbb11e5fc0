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

from a2a_lambda.errors import ConfigurationError
from a2a_lambda.local import stack, table

CONFIG = Path("samconfig.toml")

SAM = ".venvs/sam/bin/sam"


def command(environ: Mapping[str, str]) -> list[str]:
    """The call of sam. Raises ConfigurationError."""
    stage, stages = environ.get("STAGE", ""), _stages(tomllib.loads(CONFIG.read_text("utf-8")))
    if not stages:
        raise ConfigurationError(f"{CONFIG} has no stage with a stack_name")
    if stage not in stages:
        raise ConfigurationError(f"which stage? {' or '.join(f'STAGE={name}' for name in stages)}")
    overrides = stages[stage].get("parameter_overrides", [])
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


def _stages(config: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of sam deploy, of each environment that names a stack."""
    found = {}
    for name, environment in config.items():
        deploy = environment.get("deploy") if isinstance(environment, dict) else None
        parameters = deploy.get("parameters") if isinstance(deploy, dict) else None
        if isinstance(parameters, dict) and parameters.get("stack_name"):
            found[name] = parameters
    return found


def main(argv: list[str] = sys.argv) -> int:
    """With an argument, only checks that there is a stage. Returns the process's exit status."""
    try:
        call = command(os.environ)
    except (ConfigurationError, OSError, tomllib.TOMLDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if argv[1:] != ["check"]:
        os.execv(SAM, call)  # noqa: S606
    return 0


if __name__ == "__main__":
    sys.exit(main())
