"""make rollback and make prune: the versions that deployments published.

make rollback STACK=my-stack                    every function goes back to the release before
make rollback STACK=my-stack RELEASE=3f9c…      or to another one, by the first characters of its digest
make prune STACK=my-stack KEEP=3                deletes all but the newest versions, and those that are live

SAM writes the release into the description of each version. Functions always go back to the same release.
Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-aliases.html
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from tools.deployment.stack import ALIAS, FUNCTIONS, asking_aws, resources_of

RELEASE = re.compile(r"[0-9a-f]{64}$")


class Versions:
    """Versions of one function."""

    def __init__(self, client: Any, function: str) -> None:
        self._client = client
        self._function = function

    def all(self) -> dict[int, str]:
        """Releases of the versions there are, in order; "" for one that sam deploy made without a release."""
        paginator = self._client.get_paginator("list_versions_by_function")
        pages = paginator.paginate(FunctionName=self._function)
        found = [version for page in pages for version in page["Versions"] if version["Version"].isdigit()]
        releases = {}
        for version in sorted(found, key=lambda version: int(version["Version"])):
            said = RELEASE.search(version.get("Description", ""))
            releases[int(version["Version"])] = said[0] if said else ""
        return releases

    def live(self) -> int:
        """Raises ConfigurationError while a rollout moves calls from one version to another."""
        alias = self._client.get_alias(FunctionName=self._function, Name=ALIAS)
        if alias.get("RoutingConfig", {}).get("AdditionalVersionWeights"):
            raise ConfigurationError(
                f"{self._function}: a rollout is under way. Stop it first: aws deploy stop-deployment"
            )
        return int(alias["FunctionVersion"])

    def go_to(self, version: int) -> None:
        self._client.update_alias(FunctionName=self._function, Name=ALIAS, FunctionVersion=str(version))

    def delete(self, version: int) -> None:
        self._client.delete_function(FunctionName=self._function, Qualifier=str(version))


def roll_back(functions: Mapping[str, Versions], release: str = "") -> Iterator[str]:
    """Says what it does. Raises ConfigurationError, before it changes anything, unless all functions have a
    version of the release.

    release: the first characters of a digest; "" = the newest that is older than what is live.
    """
    known = {name: versions.all() for name, versions in functions.items()}
    live = {name: versions.live() for name, versions in functions.items()}
    common = set.intersection(*(set(releases.values()) for releases in known.values())) - {""}
    [lead, *_] = functions
    order = [said for version, said in known[lead].items() if said in common and version != live[lead]]
    older = [said for version, said in known[lead].items() if said in common and version < live[lead]]
    chosen = [said for said in order if said.startswith(release)] if release else older
    if not chosen:
        there = ", ".join(said[:12] for said in order) or "none"
        raise ConfigurationError(f"no such release that all functions have. There are: {there}")
    for name, versions in functions.items():
        target = max(version for version, said in known[name].items() if said == chosen[-1])
        versions.go_to(target)
        yield f"{name}: version {live[name]} → {target}, release {chosen[-1][:12]}"


def prune(functions: Mapping[str, Versions], keep: int) -> Iterator[str]:
    for name, versions in functions.items():
        known, live = list(versions.all()), versions.live()
        old = [version for version in known[:-keep] if version != live]
        for version in old:
            versions.delete(version)
        yield f"{name}: {len(old)} deleted, {len(known) - len(old)} kept; version {live} is live"


def main(argv: list[str] = sys.argv, environ: Mapping[str, str] = os.environ) -> int:
    """Returns the process's exit status."""
    command, stack, keep = argv[1], environ.get("STACK", ""), environ.get("KEEP", "")
    if command == "prune" and stack and not (keep.isdigit() and int(keep) > 1):
        print(f"KEEP={keep}: a number of versions, 2 or more: one to go back to", file=sys.stderr)
        return 2
    if not stack:
        kept = " KEEP=<versions>" if command == "prune" else " [RELEASE=<digest>]"
        print(f"usage: make {command} STACK=<stack>{kept}", file=sys.stderr)
        return 2
    try:
        with asking_aws(f"make {command}"):
            resources = resources_of(stack)
            client: Any = clients.session().create_client("lambda")
            functions = {name: Versions(client, resources[name]) for name in FUNCTIONS}
            release = environ.get("RELEASE", "")
            done = roll_back(functions, release) if command == "rollback" else prune(functions, int(keep))
            for line in done:
                print(line)
    except ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
