"""make bench and make scale: run the laboratory, which measures the kit, in its own environment.

A fork may delete lab/. Only this module, `tools.commands`, `tools.checks.main` and `tools.fork.upgrade` know
it, and all of them work without it.
"""

import sys
from pathlib import Path

from a2a_lambda.errors import ConfigurationError
from tools import environments
from tools.command import reports_errors

FOLDER = Path("lab")


@reports_errors
def main(argv: list[str] = sys.argv) -> int:
    """Run the program that argv[1] names: bench or scale. Returns its exit status."""
    return run("-m", f"lab.{argv[1]}.{argv[1]}")


def run(*words: str) -> int:
    """Run Python in the laboratory's environment. Returns the exit status. Raises ConfigurationError if this
    checkout has no laboratory."""
    if not FOLDER.exists():
        raise ConfigurationError("there is no lab/ in this checkout; make bench and make scale need it")
    environments.install(FOLDER.name, projects=FOLDER.parent)
    return environments.run(str(environments.program_path(FOLDER.name, "python")), *words)


if __name__ == "__main__":
    sys.exit(main())
