"""Loads every agent, as `make build` does before it packages them; says what is wrong with one."""

import sys
import traceback

from a2a_lambda.agent import load_all
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.settings import Settings


def main() -> int:
    """Returns the process's exit status."""
    try:
        for agent in load_all(Settings().agents).values():
            _ = agent.input_schemas
    except ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (Exception, SystemExit):
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
