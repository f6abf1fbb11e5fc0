"""What a deployment would change in a stack: it is named, or refused."""

from types import SimpleNamespace

import pytest
from botocore.session import Session

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from tools.deployment import changes, stack
from tools.deployment.versions import Versions


def test_values_that_change_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "parameters_of", lambda _: {"DomainName": "a.example", "Release": "1"})
    lines = list(changes.parameter_changes("s", {"DomainName": "", "Release": "2"}))
    assert lines == ["DomainName changes from a.example to nothing"]


def test_a_permissions_boundary_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployment by hand of a stack that GitHub deploys could lose it."""
    monkeypatch.setattr(stack, "parameters_of", lambda _: {"PermissionsBoundaryArn": "arn:b"})
    with pytest.raises(ConfigurationError, match="add PermissionsBoundaryArn=arn:b to PARAMETERS"):
        list(changes.parameter_changes("s", {"PermissionsBoundaryArn": ""}))
    assert list(changes.parameter_changes("s", {"PermissionsBoundaryArn": "arn:b"})) == []


@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [("4", "8", False), ("4", "4", False), ("4", "1", True), ("", "1", False)],
)
def test_what_must_not_shrink_does_not(
    monkeypatch: pytest.MonkeyPatch, before: str, after: str, is_refused: bool
) -> None:
    """One deployment may have PARAMETERS, and the next one none."""
    monkeypatch.setattr(stack, "parameters_of", lambda _: {"ListShards": before})
    if is_refused:
        with pytest.raises(ConfigurationError, match="ListShards=4 in samconfig"):
            list(changes.parameter_changes("s", {"ListShards": after}))
    else:
        list(changes.parameter_changes("s", {"ListShards": after}))


@pytest.mark.parametrize(("writes", "is_refused"), [(8_000, False), (8_001, True)])
def test_warm_writes_are_no_fewer_than_the_table_has(
    monkeypatch: pytest.MonkeyPatch, writes: int, is_refused: bool
) -> None:
    """DynamoDB has raised those of an index. A deployment that asks for fewer could not be rolled back."""
    client = SimpleNamespace(
        describe_table=lambda **_: {
            "Table": {"GlobalSecondaryIndexes": [{"WarmThroughput": {"WriteUnitsPerSecond": writes}}]}
        }
    )
    monkeypatch.setattr(clients, "session", lambda: SimpleNamespace(create_client=lambda _: client))
    monkeypatch.setattr(stack, "table_of", lambda _: "table")
    monkeypatch.setattr(stack, "parameters_of", lambda _: {"WarmWrites": "0"})
    if is_refused:
        with pytest.raises(
            ConfigurationError, match=r"already takes 8,001 writes per second.*keep WarmWrites=0"
        ):
            list(changes.parameter_changes("s", {"WarmWrites": "8000"}))
    else:
        assert list(changes.parameter_changes("s", {"WarmWrites": "8000"}))


@pytest.mark.parametrize(("before", "after", "is_noted"), [("100", "0", True), ("100", "50", False)])
def test_lifting_the_limit_of_writes_has_a_command(
    monkeypatch: pytest.MonkeyPatch, before: str, after: str, is_noted: bool
) -> None:
    monkeypatch.setattr(stack, "table_of", lambda _: "table")
    monkeypatch.setattr(stack, "parameters_of", lambda _: {"MaxWriteRequestUnits": before})
    notes = "\n".join(changes.parameter_changes("s", {"MaxWriteRequestUnits": after}))
    assert ("update-table --table-name table" in notes) is is_noted


@pytest.mark.parametrize(("turns", "is_refused"), [(["arn:a", "arn:b"], True), ([], False)])
def test_durable_skills_are_not_switched_off_under_turns_that_run(
    monkeypatch: pytest.MonkeyPatch, turns: list[str], is_refused: bool
) -> None:
    old_parameters = {"ExecutionTimeout": "3600", "DurableKeyArn": "arn:old"}
    monkeypatch.setattr(stack, "parameters_of", lambda _: old_parameters)
    monkeypatch.setattr(stack, "resources_of", lambda _: {"DurableFunction": "durable"})
    monkeypatch.setattr(Versions, "open_executions", lambda _: iter(turns))
    monkeypatch.setattr(clients, "session", Session)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    list(changes.parameter_changes("s", {"ExecutionTimeout": "7200"}))
    for change in ({"ExecutionTimeout": "0"}, {"DurableKeyArn": "arn:new"}, {"DurableKeyArn": ""}):
        if is_refused:
            with pytest.raises(ConfigurationError, match=r"durable turns are open: 2.*arn:a"):
                list(changes.parameter_changes("s", change))
        else:
            assert list(changes.parameter_changes("s", change))
    old_parameters["DurableKeyArn"] = ""  # until now, Lambda's own key, which needs no permission
    assert list(changes.parameter_changes("s", {"DurableKeyArn": "arn:new"}))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ({"Files": "true"}, {"Files": "false"}, "the bucket my-bucket stays"),
        ({"TableKeyArn": "arn:old"}, {"TableKeyArn": ""}, "the functions lose the key arn:old"),
        ({"FileDays": "61"}, {"FileDays": "32"}, "files of earlier tasks are deleted after 32 days"),
        ({"TableKeyArn": ""}, {"TableKeyArn": "arn:new"}, ""),
        ({"FileDays": "32"}, {"FileDays": "61"}, ""),
        ({"Files": "false"}, {"Files": "true", "TableKeyArn": "arn:new"}, ""),
    ],
)
def test_a_change_that_takes_files_away_is_named(
    monkeypatch: pytest.MonkeyPatch, old: dict[str, str], new: dict[str, str], words: str
) -> None:
    usual = {"Files": "true", "TableKeyArn": "", "FileDays": "31"}
    monkeypatch.setattr(stack, "parameters_of", lambda _: usual | old)
    monkeypatch.setattr(stack, "outputs_of", lambda _: {"FileBucketName": "my-bucket"})
    lines = [
        line for line in changes.parameter_changes("s", usual | old | new) if " changes from " not in line
    ]
    assert [words in line for line in lines] == ([True] if words else [])


@pytest.mark.parametrize(
    ("deployed", "is_image", "turns", "is_refused"),
    [
        ("Zip", True, [], False),
        ("Image", False, [], False),
        ("Zip", True, ["arn:a"], True),
        ("Zip", False, ["arn:a"], None),
    ],
)
def test_a_change_of_the_package_type_is_named_and_refused_under_turns_that_run(
    monkeypatch: pytest.MonkeyPatch, deployed: str, is_image: bool, turns: list[str], is_refused: bool | None
) -> None:
    class Client:
        def list_versions_by_function(self, **_: object) -> dict[str, list[dict[str, str]]]:
            return {"Versions": [{"Version": "$LATEST", "PackageType": deployed}]}

    monkeypatch.setattr(clients, "session", lambda: SimpleNamespace(create_client=lambda _: Client()))
    monkeypatch.setattr(stack, "resources_of", lambda _: {"RpcFunction": "rpc", "DurableFunction": "durable"})
    monkeypatch.setattr(Versions, "open_executions", lambda _: iter(turns))
    if is_refused:
        with pytest.raises(ConfigurationError, match="IMAGE=1 removes the function of durable skills"):
            list(changes.package_changes("s", is_image=is_image))
    else:
        lines = list(changes.package_changes("s", is_image=is_image))
        assert ["CloudFormation replaces each" in line for line in lines] == (
            [True] if is_refused is False else []
        )
