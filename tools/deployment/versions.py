"""make rollback and make prune: the versions that deployments have published.

    make rollback STACK=my-stack                    every function returns to the previous release
    make rollback STACK=my-stack RELEASE=3f9c…      or to another one, by the first characters of its digest
    make prune STACK=my-stack KEEP=3                delete all versions but the newest ones, the live one,
                                                    those that were live before it, and the one that
                                                    CloudFormation would restore

SAM writes the release into the description of each version. All functions return to the same release. A
failed deployment leaves its versions behind, so the version before the live one may never have been live.
Each release therefore ends with the first characters of the release that was live before it.
Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-aliases.html
"""

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError

from a2a_lambda.aws import clients
from a2a_lambda.aws.executions import RUNNING_STATUSES
from a2a_lambda.errors import ConfigurationError
from tools.command import reports_errors
from tools.deployment.stack import ALIAS, DURABLE, aws_errors, functions_of, resources_of

ASLEEP_CODES = ("SnapStartNotReadyException", "ResourceNotReadyException")
"""Errors of a call that makes Lambda prepare an inactive version."""

PREPARATION_SECONDS = 300.0
"""Seconds for which a rollback waits until a version is active. One with SnapStart takes minutes."""

PREPARATION_PAUSE_SECONDS = 2.0

RELEASE_DIGEST = re.compile(r"[0-9a-f]{64}$")

SHOWN_CHARACTERS = 12
"""Characters of a release's digest that commands print."""

PREDECESSOR_CHARACTERS = 12
"""Characters at the end of a release that are those of the release that was live before."""


class Versions:
    """Versions of one function. invoker: a client that does not retry, for calls of the
    function; None = `client`."""

    def __init__(self, client: Any, function: str, invoker: Any = None) -> None:
        self._client = client
        self._function = function
        self._invoker = client if invoker is None else invoker

    def all(self) -> dict[int, str]:
        """Release of each version, in order; "" for a version that was deployed without a release."""
        paginator = self._client.get_paginator("list_versions_by_function")
        pages = paginator.paginate(FunctionName=self._function)
        versions = [version for page in pages for version in page["Versions"] if version["Version"].isdigit()]
        return {
            int(version["Version"]): release_of(version)
            for version in sorted(versions, key=lambda version: int(version["Version"]))
        }

    def live(self) -> int:
        """The live version. Raises ConfigurationError while some calls go to another one: during a rollout,
        while Lambda prepares provisioned concurrency, and after one of the two has failed."""
        alias = self._client.get_alias(FunctionName=self._function, Name=ALIAS)
        if alias.get("RoutingConfig", {}).get("AdditionalVersionWeights"):
            raise ConfigurationError(
                f"{self._function}: some calls go to another version. If a deployment is in progress, wait"
                " for it, or cancel it, which returns to the previous release: aws cloudformation"
                " cancel-update-stack --stack-name <stack>. If not, an earlier one has failed. End it: aws"
                f" lambda update-alias --function-name {self._function} --name {ALIAS} --routing-config"
                " AdditionalVersionWeights={}"
            )
        return int(alias["FunctionVersion"])

    def make_live(self, version: int) -> None:
        self._client.update_alias(FunctionName=self._function, Name=ALIAS, FunctionVersion=str(version))

    def wake(self, version: int) -> bool:
        """Make Lambda prepare a version that no one has called for two weeks; returns whether it is not
        active. Lambda has taken away what such a version needs: the next call fails, without running any
        code, and makes Lambda prepare the version again.

        Source: https://docs.aws.amazon.com/lambda/latest/dg/functions-states.html
        """
        state = self._configuration_of(version).get("State", "Active")
        if state == "Inactive":
            try:
                self._invoker.invoke(FunctionName=self._function, Qualifier=str(version), Payload=b"{}")
            except ClientError as error:
                if error.response["Error"]["Code"] not in ASLEEP_CODES:
                    raise
        return bool(state != "Active")

    def wait_until_active(self, version: int) -> None:
        """Raises ConfigurationError if the version cannot become active, or takes too long."""
        give_up_at = time.monotonic() + PREPARATION_SECONDS
        while (configuration := self._configuration_of(version)).get("State", "Active") != "Active":
            if configuration["State"] == "Failed" or time.monotonic() > give_up_at:
                raise ConfigurationError(
                    f"{self._function}: version {version} is {configuration['State']}."
                    f" {configuration.get('StateReason', '')} Run make rollback again later, or name another"
                    " release with RELEASE=…"
                )
            time.sleep(PREPARATION_PAUSE_SECONDS)

    def _configuration_of(self, version: int) -> Mapping[str, Any]:
        configuration: Mapping[str, Any] = self._client.get_function_configuration(
            FunctionName=self._function, Qualifier=str(version)
        )
        return configuration

    def runs_turns(self, version: int) -> bool:
        """Whether durable turns run, or are paused, on a version. A turn stays on the version on which it
        began."""
        return next(self.open_executions(version), None) is not None

    def open_executions(self, version: int | None = None) -> Iterator[str]:
        """ARNs of durable executions that have not ended. version: None = all."""
        query: dict[str, Any] = {"FunctionName": self._function, "Statuses": sorted(RUNNING_STATUSES)}
        if version is not None:
            query["Qualifier"] = str(version)
        while True:  # a page may be empty, and others follow
            page = self._client.list_durable_executions_by_function(**query)
            yield from (execution["DurableExecutionArn"] for execution in page["DurableExecutions"])
            if not page.get("NextMarker"):
                return
            query["Marker"] = page["NextMarker"]

    def delete(self, version: int) -> None:
        self._client.delete_function(FunctionName=self._function, Qualifier=str(version))


def release_of(configuration: Mapping[str, Any]) -> str:
    """Release of a version, from its configuration; "" if it was deployed without one."""
    digest = RELEASE_DIGEST.search(configuration.get("Description", ""))
    return digest[0] if digest else ""


def release_after(build: str, predecessor: str) -> str:
    """The release of a build. build: its digest. predecessor: the release that is live when the build is
    deployed; "" = unknown."""
    head = predecessor[:PREDECESSOR_CHARACTERS]
    return build[: len(build) - len(head)] + head


def build_of(release: str) -> str:
    """What is the same in all releases of a build. release: a release, or the digest of a build."""
    return release[:-PREDECESSOR_CHARACTERS]


def versions_before(releases: Mapping[int, str], version: int) -> list[int]:
    """The versions that can have been live before another one, in order: those of the release that the
    version's own release names, or else all earlier ones, because the named one was deleted, or the version
    was deployed by hand."""
    earlier_versions = [number for number in releases if number < version]
    head = releases[version][-PREDECESSOR_CHARACTERS:]
    return [number for number in earlier_versions if releases[number].startswith(head)] or earlier_versions


def stack_versions(resources: Mapping[str, str], name: str) -> set[int]:
    """Versions of a function that CloudFormation knows: the one that it deployed last.

    resources: physical ids of the stack's resources, by logical id. name: the function's logical id.
    """
    arns = [arn for logical_id, arn in resources.items() if logical_id.startswith(f"{name}Version") and arn]
    return {int(arn.rpartition(":")[2]) for arn in arns}


def roll_back(functions: Mapping[str, Versions], release: str = "") -> Iterator[str]:
    """Return to a release; yields a line for each function. Raises ConfigurationError, before it changes
    anything, unless all functions have a version of the release. The durable one need not: a stack gets it
    when durable skills are switched on. It then stays as it is, so that turns that pause can end.

    release: see `choose_release`.
    """
    histories = {name: versions.all() for name, versions in functions.items()}
    live_versions = {name: versions.live() for name, versions in functions.items()}
    digest = choose_release(histories, live_versions, release)
    targets = {name: newest_version(releases, digest) for name, releases in histories.items()}
    # Turns of the durable function are started by asynchronous events, which Lambda tries again until the
    # version is ready. It refuses a synchronous call.
    callable_names = [name for name, target in targets.items() if target and name != DURABLE]
    for name in [name for name in callable_names if functions[name].wake(targets[name])]:
        yield f"{name}: version {targets[name]} is not active: waiting until Lambda has prepared it"
        functions[name].wait_until_active(targets[name])
    for name, target in targets.items():
        if not target:
            reason = f"it has no version of release {digest[:SHOWN_CHARACTERS]}"
            yield f"{name}: stays at version {live_versions[name]}: {reason}"
            continue
        functions[name].make_live(target)
        yield f"{name}: version {live_versions[name]} → {target}, release {digest[:SHOWN_CHARACTERS]}"


def choose_release(
    histories: Mapping[str, Mapping[int, str]], live_versions: Mapping[str, int], release: str
) -> str:
    """Digest of the release to return to, of which all functions but the durable one have a version. Raises
    ConfigurationError.

    histories: each function's releases, by version. release: the first characters of its digest; "" = the
    release that was live before the live one. If an earlier rollback was cut off, so that the functions
    have different live releases, "" = the older of these.
    """
    common_releases = set.intersection(
        *(set(releases.values()) for name, releases in histories.items() if name != DURABLE)
    ) - {""}
    [lead, *_] = histories
    live_releases = {
        histories[name].get(live_versions[name], "")
        for name in histories
        if name != DURABLE or histories[lead].get(live_versions[lead]) in histories[name].values()
    }
    releases = [digest for digest in histories[lead].values() if digest in common_releases]
    # The live release is not offered, unless an interrupted rollback has left two of them live.
    other_releases = [digest for digest in releases if {digest} != live_releases]
    if release:
        candidates = [digest for digest in other_releases if digest.startswith(release)]
    elif len(live_releases) > 1:
        candidates = [digest for digest in releases if digest in live_releases][:1]
    else:
        earlier_versions = versions_before(histories[lead], live_versions[lead])
        earlier_releases = [histories[lead][version] for version in earlier_versions]
        candidates = [digest for digest in earlier_releases if digest in common_releases]
    is_live = len(live_releases) == 1 and next(iter(live_releases)).startswith(release)
    if release and not candidates and is_live:
        raise ConfigurationError(f"release {release} is live already")
    if not candidates:
        problem = (
            f"release {release} is not in every function" if release else "no release is before the live one"
        )
        choices = ", ".join(
            f"{digest[:SHOWN_CHARACTERS]} ({lead}: version {newest_version(histories[lead], digest)})"
            for digest in dict.fromkeys(reversed(other_releases))
        )
        advice = f"Write RELEASE= and one of these: {choices}" if choices else "There is no other release"
        raise ConfigurationError(f"{problem}. {advice}")
    if release and len(matches := dict.fromkeys(candidates)) > 1:
        names = ", ".join(digest[:SHOWN_CHARACTERS] for digest in matches)
        raise ConfigurationError(f"several releases begin with {release}: {names}. Write more characters")
    return candidates[-1]


def newest_version(releases: Mapping[int, str], digest: str) -> int:
    """The newest version of a release; 0 if there is none."""
    return max((version for version, other in releases.items() if other == digest), default=0)


def prune(functions: Mapping[str, Versions], count: int, resources: Mapping[str, str]) -> Iterator[str]:
    """Delete old versions; yields a line for each function. It keeps the newest `count` of each, as many that
    were live, and the one that CloudFormation would restore if a deployment fails.

    resources: physical ids of the stack's resources, by logical id.
    """
    for name, versions in functions.items():
        releases, live = versions.all(), versions.live()
        numbers, live_history = list(releases), [live]
        while len(live_history) < count and (earlier := versions_before(releases, live_history[-1])):
            live_history.append(earlier[-1])
        kept_versions = {*live_history, *stack_versions(resources, name)}
        old_versions = [version for version in numbers[:-count] if version not in kept_versions]
        if name == DURABLE:
            old_versions = [version for version in old_versions if not versions.runs_turns(version)]
        for version in old_versions:
            versions.delete(version)
        kept_count = len(numbers) - len(old_versions)
        yield f"{name}: {len(old_versions)} deleted, {kept_count} kept; version {live} is live"


@reports_errors
def main(argv: list[str] = sys.argv, environ: Mapping[str, str] = os.environ) -> int:
    command, stack, count = argv[1], environ.get("STACK", ""), environ.get("KEEP", "")
    if not stack:
        options = " KEEP=<versions>" if command == "prune" else " [RELEASE=<digest>]"
        raise ConfigurationError(f"name a stack: make {command} STACK=<stack>{options}")
    if command == "prune" and not (count.isdecimal() and int(count) > 1):
        raise ConfigurationError(
            "add KEEP=3: the number of versions of each function to keep, at least 2, so that you can roll"
            " back"
        )
    with aws_errors(f"make {command}"):
        resources = resources_of(stack)
        client: Any = clients.session().create_client("lambda")
        # A call that is tried again could find the version ready, and run its code.
        config = Config(retries={"total_max_attempts": 1})
        invoker = clients.session().create_client("lambda", config=config)
        functions = {name: Versions(client, resources[name], invoker) for name in functions_of(resources)}
        release = environ.get("RELEASE", "")
        lines = (
            roll_back(functions, release)
            if command == "rollback"
            else prune(functions, int(count), resources)
        )
        for line in lines:
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
