"""make rollback, make prune: releases of all functions together."""

from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from a2a_lambda.errors import ConfigurationError
from tools.deployment import stack, versions
from tools.deployment.stack import DURABLE
from tools.deployment.versions import Versions, prune, release_after, roll_back

ONE, TWO, THREE, FOUR = (letter * 64 for letter in "1234")


class Lambda:
    """Versions and aliases of functions, as the service has them."""

    def __init__(self, functions: dict[str, dict[int, str]], live: dict[str, int]) -> None:
        self.functions = functions
        self.live = live
        self.weights: dict[str, float] = {}
        self.busy: dict[int, str] = {}
        self.states: dict[str, list[str]] = {}
        self.refusal = "SnapStartNotReadyException"

    def get_paginator(self, _: str) -> Any:
        functions = self.functions

        class Paginator:
            def paginate(self, FunctionName: str) -> Any:  # AWS's name
                descriptions = functions[FunctionName]
                newest = {"Version": "$LATEST", "Description": "x"}
                versions = [
                    {"Version": str(at), "Description": f"words {description}"}
                    for at, description in descriptions.items()
                ]
                return [{"Versions": [newest, *versions[:1]]}, {"Versions": versions[1:]}]

        return Paginator()

    def get_alias(self, FunctionName: str, Name: str) -> Any:
        assert Name == "live"
        routing = {"AdditionalVersionWeights": self.weights} if self.weights else {}
        return {"FunctionVersion": str(self.live[FunctionName]), "RoutingConfig": routing}

    def get_function_configuration(self, FunctionName: str, Qualifier: str) -> Any:
        states = self.states.get(f"{FunctionName}:{Qualifier}", [])
        return (
            {"State": states.pop(0) if len(states) > 1 else states[0], "StateReason": "Why."}
            if states
            else {}
        )

    def invoke(self, FunctionName: str, Qualifier: str, Payload: bytes) -> None:
        """As of a version that is inactive: it is refused, and two looks later the version is active."""
        assert FunctionName != DURABLE, "Lambda refuses a synchronous call of a durable function"
        if self.refusal == "SnapStartNotReadyException":
            self.states[f"{FunctionName}:{Qualifier}"] = ["Pending", "Pending", "Active"]
        raise ClientError({"Error": {"Code": self.refusal}}, "Invoke")

    def update_alias(self, FunctionName: str, Name: str, FunctionVersion: str) -> None:
        self.live[FunctionName] = int(FunctionVersion)

    def list_durable_executions_by_function(
        self, FunctionName: str, Statuses: list[str], Qualifier: str = "", Marker: str = ""
    ) -> Any:
        if not Marker:  # a page may be empty
            return {"DurableExecutions": [], "NextMarker": "more"}
        return {
            "DurableExecutions": [
                {"DurableExecutionArn": f"arn:{version}"}
                for version, status in self.busy.items()
                if Qualifier in ("", str(version)) and status in Statuses
            ]
        }

    def delete_function(self, FunctionName: str, Qualifier: str) -> None:
        del self.functions[FunctionName][int(Qualifier)]


def functions_of(client: Lambda) -> dict[str, Versions]:
    return {name: Versions(client, name) for name in client.functions}


def test_all_functions_go_back_to_the_same_release() -> None:
    """One of them has a version that the other never got."""
    client = Lambda({"rpc": {1: ONE, 2: TWO, 3: THREE}, "api": {1: ONE, 2: THREE}}, {"rpc": 3, "api": 2})
    lines = list(roll_back(functions_of(client)))
    assert client.live == {"rpc": 1, "api": 1}
    assert ONE[:12] in lines[0]


def test_a_release_that_is_live_is_no_one_to_return_to() -> None:
    client = Lambda({"rpc": {1: ONE, 2: TWO}, "api": {1: ONE, 2: TWO}}, {"rpc": 2, "api": 2})
    with pytest.raises(ConfigurationError, match=f"release {TWO[:4]} is live already"):
        list(roll_back(functions_of(client), TWO[:4]))


def after(digit: str, predecessor: str) -> str:
    """A release that was deployed while another one was live."""
    return release_after(digit * 64, predecessor)


def test_a_rollback_passes_over_releases_that_were_never_live() -> None:
    """CloudFormation keeps the versions of a deployment that its alarm has stopped."""
    stopped, same_build = after("2", ONE), after("3", ONE)
    client = Lambda({"rpc": {1: ONE, 2: stopped, 3: same_build}}, {"rpc": 3})
    list(roll_back(functions_of(client)))
    assert client.live == {"rpc": 1}


def test_no_other_release_replaces_one_that_not_every_function_has() -> None:
    """The live release has added a function, and its first deployment failed."""
    failed, live = after("2", ONE), after("3", ONE)
    client = Lambda({"rpc": {1: ONE, 2: failed, 3: live}, "new": {1: failed, 2: live}}, {"rpc": 3, "new": 2})
    with pytest.raises(ConfigurationError, match=r"no release is before the live one\. Write RELEASE="):
        list(roll_back(functions_of(client)))


def test_a_release_that_was_deleted_is_replaced_by_the_one_before() -> None:
    client = Lambda({"rpc": {1: ONE, 3: after("3", TWO)}}, {"rpc": 3})
    list(roll_back(functions_of(client)))
    assert client.live == {"rpc": 1}


def test_a_release_may_be_named() -> None:
    """The one before was a canary that failed."""
    client = Lambda({"rpc": {1: ONE, 2: TWO, 3: THREE}}, {"rpc": 3})
    list(roll_back(functions_of(client), ONE[:4]))
    assert client.live == {"rpc": 1}
    list(roll_back(functions_of(client), THREE[:4]))
    assert client.live == {"rpc": 3}, "and forward again"


def test_the_releases_to_choose_from_are_listed_newest_first() -> None:
    client = Lambda({"rpc": {1: ONE, 2: TWO, 3: ONE, 4: THREE}}, {"rpc": 4})
    choices = rf"one of these: {ONE[:12]} \(rpc: version 3\), {TWO[:12]} \(rpc: version 2\)$"
    with pytest.raises(ConfigurationError, match=choices):
        list(roll_back(functions_of(client), "zz"))


def test_a_name_of_two_releases_is_refused() -> None:
    client = Lambda({"rpc": {1: f"3a{ONE[2:]}", 2: f"3b{ONE[2:]}", 3: FOUR}}, {"rpc": 3})
    with pytest.raises(ConfigurationError, match=r"several releases begin with 3: 3a1111.*, 3b1111"):
        list(roll_back(functions_of(client), "3"))
    list(roll_back(functions_of(client), "3b"))
    assert client.live == {"rpc": 2}


def test_a_rollback_that_was_cut_off_before_the_durable_function_is_finished() -> None:
    functions = {name: {1: ONE, 2: TWO, 3: THREE} for name in ("api", "rpc", DURABLE)}
    client = Lambda(functions, {"api": 2, "rpc": 2, DURABLE: 3})
    list(roll_back(functions_of(client)))
    assert client.live == {"api": 2, "rpc": 2, DURABLE: 2}


@pytest.mark.parametrize("release", ["", ONE[:4]])
def test_a_rollback_that_was_cut_off_is_finished(release: str) -> None:
    functions = {name: {1: ONE, 2: TWO} for name in ("api", "rpc", "worker")}
    client = Lambda(functions, {"api": 1, "rpc": 2, "worker": 2})
    list(roll_back(functions_of(client), release))
    assert client.live == {"api": 1, "rpc": 1, "worker": 1}
    client.live = {"api": 1, "rpc": 2, "worker": 2}
    list(roll_back(functions_of(client), TWO[:4]))
    assert client.live == {"api": 2, "rpc": 2, "worker": 2}, "and it can be undone"


@pytest.mark.parametrize(
    ("release", "problem"),
    [
        ("", "no release is before the live one. There is no other"),
        (FOUR, f"release {FOUR} is not in every f"),
    ],
)
def test_without_a_common_release_nothing_changes(release: str, problem: str) -> None:
    client = Lambda({"rpc": {1: ONE, 2: THREE}, "api": {1: TWO, 2: THREE}}, {"rpc": 2, "api": 2})
    with pytest.raises(ConfigurationError, match=problem):
        list(roll_back(functions_of(client), release))
    assert client.live == {"rpc": 2, "api": 2}


@pytest.mark.parametrize("state", ["Inactive", "Pending"])
def test_a_version_that_no_one_has_called_lately_is_ready_before_it_is_live(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Pending: an earlier rollback gave up waiting for it."""
    monkeypatch.setattr(versions, "PREPARATION_PAUSE_SECONDS", 0.0)
    functions = {name: {1: ONE, 2: TWO} for name in ("api", "rpc", DURABLE)}
    client = Lambda(functions, dict.fromkeys(functions, 2))
    client.states = {"rpc:1": [state, "Pending", "Active"], f"{DURABLE}:1": ["Inactive"]}
    lines = list(roll_back(functions_of(client)))
    assert client.live == dict.fromkeys(functions, 1)
    assert lines[0] == "rpc: version 1 is not active: waiting until Lambda has prepared it"
    assert client.states["rpc:1"] == ["Active"], "no alias moves before"


@pytest.mark.parametrize("state", ["Pending", "Failed"])
def test_a_version_that_does_not_become_active_moves_no_alias(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(versions, "PREPARATION_SECONDS", 0.0)
    client = Lambda({"rpc": {1: ONE, 2: TWO}}, {"rpc": 2})
    client.states = {"rpc:1": [state]}
    with pytest.raises(ConfigurationError, match=rf"version 1 is {state}\. Why\."):
        list(roll_back(functions_of(client)))
    assert client.live == {"rpc": 2}


def test_an_operator_who_may_not_wake_a_version_is_told() -> None:
    client = Lambda({"rpc": {1: ONE, 2: TWO}}, {"rpc": 2})
    client.states, client.refusal = {"rpc:1": ["Inactive"]}, "AccessDeniedException"
    with pytest.raises(ClientError, match="AccessDenied"):
        list(roll_back(functions_of(client)))
    assert client.live == {"rpc": 2}


def test_a_rollout_is_not_disturbed() -> None:
    client = Lambda({"rpc": {1: ONE, 2: TWO}}, {"rpc": 1})
    client.weights = {"2": 0.1}
    with pytest.raises(ConfigurationError, match="in progress") as error:
        list(roll_back(functions_of(client)))
    command = "--function-name rpc --name live --routing-config AdditionalVersionWeights={}"
    assert str(error.value).endswith(command), "no rollout is in progress if one has failed"


def test_what_is_live_is_never_deleted() -> None:
    client = Lambda({"rpc": {1: ONE, 2: TWO, 3: THREE, 4: FOUR}}, {"rpc": 1})
    assert "1 deleted" in next(iter(prune(functions_of(client), 2, {})))
    assert set(client.functions["rpc"]) == {1, 3, 4}


def test_what_was_live_before_is_never_deleted() -> None:
    """Rather than canaries that failed."""
    second = after("2", ONE)
    third, fourth, live = after("3", second), after("4", second), after("5", second)
    client = Lambda({"rpc": {1: ONE, 2: second, 3: third, 4: fourth, 5: live}}, {"rpc": 5})
    list(prune(functions_of(client), 2, {}))
    assert set(client.functions["rpc"]) == {2, 4, 5}


def test_a_stack_has_none_of_the_resources_that_it_has_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """CloudFormation lists the versions of earlier deployments, too, because it does not delete them."""
    items = [
        {"LogicalResourceId": name, "PhysicalResourceId": name, "ResourceStatus": status}
        for name, status in {
            "Table": "UPDATE_COMPLETE",
            **dict.fromkeys(stack.FUNCTIONS, "CREATE_COMPLETE"),
            "RpcFunctionVersion1": "DELETE_SKIPPED",
            "RpcFunctionVersion2": "CREATE_COMPLETE",
        }.items()
    ]
    pages = SimpleNamespace(paginate=lambda **_: [{"StackResourceSummaries": items}])
    client = SimpleNamespace(describe_stacks=lambda **_: {"Stacks": [{}]}, get_paginator=lambda _: pages)
    monkeypatch.setattr(stack, "_cloudformation", lambda: client)
    assert set(stack.resources_of("s")) == {"Table", *stack.FUNCTIONS, "RpcFunctionVersion2"}
    items[:] = [item for item in items if item["LogicalResourceId"] != "WorkerFunction"]
    with pytest.raises(ConfigurationError, match="has no WorkerFunction yet: wait"):
        stack.resources_of("s")


def test_what_cloudformation_would_restore_is_never_deleted() -> None:
    """Deployments that failed have kept their versions, and so has a rollback."""
    client = Lambda({"RpcFunction": {1: ONE, 2: TWO, 3: THREE, 4: FOUR}}, {"RpcFunction": 1})
    resources = {
        "RpcFunction": "stack-RpcFunction-X",
        "RpcFunctionVersion9z": "",
        "RpcFunctionVersion1a2b": "arn:aws:lambda:eu-west-1:123456789012:function:stack-RpcFunction-X:2",
    }
    list(prune(functions_of(client), 2, resources))
    assert set(client.functions["RpcFunction"]) == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("status", "is_kept"), [("RUNNING", True), ("PAUSING", True), ("PAUSED", True), ("SUCCEEDED", False)]
)
def test_a_version_on_which_durable_turns_run_is_kept(status: str, is_kept: bool) -> None:
    client = Lambda({"DurableFunction": {1: ONE, 2: TWO, 3: THREE, 4: FOUR}}, {"DurableFunction": 4})
    client.busy = {2: status}
    list(prune(functions_of(client), 2, {}))
    assert set(client.functions["DurableFunction"]) == ({2, 3, 4} if is_kept else {3, 4})


def test_rollback_right_after_durable_skills_were_switched_on() -> None:
    """The new function has one release. It stays, so that its turns can end."""
    client = Lambda(
        {"RpcFunction": {1: ONE, 2: TWO}, "WorkerFunction": {1: ONE, 2: TWO}, "DurableFunction": {1: TWO}},
        {"RpcFunction": 2, "WorkerFunction": 2, "DurableFunction": 1},
    )
    lines = list(roll_back(functions_of(client)))
    assert client.live == {"RpcFunction": 1, "WorkerFunction": 1, "DurableFunction": 1}
    assert "stays at version 1" in lines[-1]
