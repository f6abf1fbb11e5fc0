"""make rollback and make prune: the versions that deployments published.

make rollback STACK=my-stack          every function's alias goes back to the version before
make prune STACK=my-stack KEEP=3      deletes all but the newest versions, and those an alias is at

Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-aliases.html
"""

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from a2a_lambda import aws
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.local.checkup import FUNCTIONS
from a2a_lambda.local.stack import asking_aws, resources_of

ALIAS = "live"


class Versions:
    """Versions of one function."""

    def __init__(self, client: Any, function: str) -> None:
        self._client = client
        self._function = function

    def all(self) -> list[int]:
        """Numbers of the versions there are, in order."""
        pages = self._client.get_paginator("list_versions_by_function").paginate(FunctionName=self._function)
        names = [version["Version"] for page in pages for version in page["Versions"]]
        return sorted(int(name) for name in names if name.isdigit())

    def live(self) -> int:
        alias = self._client.get_alias(FunctionName=self._function, Name=ALIAS)
        return int(alias["FunctionVersion"])

    def before(self) -> int:
        """The version before the one that is live. Raises ConfigurationError if there is none."""
        live = self.live()
        older = [version for version in self.all() if version < live]
        if not older:
            raise ConfigurationError(f"{self._function}: version {live} is the oldest there is")
        return older[-1]

    def go_to(self, version: int) -> None:
        """Move the alias, the whole of it."""
        self._client.update_alias(
            FunctionName=self._function,
            Name=ALIAS,
            FunctionVersion=str(version),
            RoutingConfig={"AdditionalVersionWeights": {}},
        )

    def delete(self, version: int) -> None:
        self._client.delete_function(FunctionName=self._function, Qualifier=str(version))


def roll_back(functions: Mapping[str, Versions]) -> Iterator[str]:
    """Says what it does. Raises ConfigurationError before it changes anything, unless all can go back."""
    targets = {name: versions.before() for name, versions in functions.items()}
    for name, version in targets.items():
        live = functions[name].live()
        functions[name].go_to(version)
        yield f"{name}: version {live} → {version}"


def prune(functions: Mapping[str, Versions], keep: int) -> Iterator[str]:
    for name, versions in functions.items():
        known, live = versions.all(), versions.live()
        old = [version for version in known[:-keep] if version != live]
        for version in old:
            versions.delete(version)
        yield f"{name}: {len(old)} deleted, {len(known) - len(old)} kept; version {live} is live"


def main(argv: list[str] = sys.argv, environ: Mapping[str, str] = os.environ) -> int:
    """Returns the process's exit status."""
    command, stack, keep = argv[1], environ.get("STACK", ""), environ.get("KEEP", "")
    if not stack or (command == "prune" and not (keep.isdigit() and int(keep) > 0)):
        kept = " KEEP=<versions>" if command == "prune" else ""
        print(f"usage: make {command} STACK=<stack>{kept}", file=sys.stderr)
        return 2
    try:
        with asking_aws(f"make {command}"):
            resources = resources_of(stack)
            client: Any = aws.session().create_client("lambda")
            functions = {name: Versions(client, resources[name]) for name in FUNCTIONS}
            done = roll_back(functions) if command == "rollback" else prune(functions, int(keep))
            for line in done:
                print(line)
    except ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
