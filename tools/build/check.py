"""Loads every agent before `make build` packages them, and reports what is wrong.

With a path, it writes the manifest there: the agents' cards and the schemas of their parameters. The
functions that run no agent read it.
"""

import sys
from pathlib import Path

from a2a_lambda.agent.agents import check_all
from a2a_lambda.agent.profile import encode_manifest
from tools.command import reports_errors


@reports_errors
def main(argv: list[str] = sys.argv) -> int:
    profiles = check_all(Path("functions/agents"))  # which is what sam build packs
    for path in argv[1:]:
        Path(path).write_bytes(encode_manifest(profiles))
    return 0


if __name__ == "__main__":
    sys.exit(main())
