"""make deploy: what sam is called with."""

import re
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from botocore.exceptions import ClientError, SSOTokenLoadError
from botocore.session import Session

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from tests.tools.deployment.deployments import CALL, SAMCONFIG, USUAL_ACCOUNT
from tools import environments
from tools.agents import stages
from tools.deployment import changes, deploy, stack
from tools.deployment.account import account_of, use_stage

pytestmark = pytest.mark.usefixtures("kit_folder")


def test_a_wrong_agent_is_found_before_the_account_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deploy, "account_of", lambda *_: pytest.fail("no credentials are needed"))
    variables = {"PARAMETERS": "AgentNames=nobody"}
    assert deploy.main(["deploy", "check"], CALL | variables) == 1
    assert "AgentNames: there is no agent 'nobody'" in capsys.readouterr().err


def test_a_release_is_what_is_deployed(tmp_path: Path) -> None:
    (tmp_path / "RpcFunction").mkdir()
    code = tmp_path / "RpcFunction" / "rpc.py"
    code.write_text("one")
    digest_without_pyc = deploy.digest_of_build(tmp_path, {"LogDays": "7"})
    assert re.fullmatch("[0-9a-f]{64}", digest_without_pyc)
    pyc = tmp_path / "RpcFunction" / "rpc.pyc"
    pyc.write_text("compiled")
    first = deploy.digest_of_build(tmp_path, {"LogDays": "7"})
    pyc.write_text("compiled anew")
    assert deploy.digest_of_build(tmp_path, {"LogDays": "7"}) == first
    assert digest_without_pyc != first, "a build that compiles starts faster, so it is worth a release"
    assert deploy.digest_of_build(tmp_path, {"LogDays": "8"}) != first
    code.write_text("two")
    assert deploy.digest_of_build(tmp_path, {"LogDays": "7"}) != first


@pytest.mark.parametrize("first", [True, False])
def test_a_first_deployment_that_fails_leaves_no_protected_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: bool
) -> None:
    calls: list[list[str]] = []

    def ran(*call: str, **_: str) -> int:
        calls.append([*call])
        return 0

    monkeypatch.setattr(deploy, "account_of", lambda *_: USUAL_ACCOUNT)
    monkeypatch.setattr(stack, "status_to_deploy", lambda _: "" if first else "UPDATE_COMPLETE")
    monkeypatch.setattr(stack, "parameters_of", lambda _: {})
    monkeypatch.setattr(deploy, "fresh_release", lambda release, _: release)
    monkeypatch.setattr(environments, "run_sam", ran)
    assert deploy.main(["deploy"], CALL | {"BUILD_DIR": str(tmp_path)}) == 0
    is_protected = ['DeletionProtection="true"' in call for call in calls]
    assert is_protected == ([False, True] if first else [True])


def test_what_a_stack_reserves_now_is_not_taken_from_its_own_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[object] = []
    monkeypatch.setattr(deploy, "account_of", lambda *_: replace(USUAL_ACCOUNT, unreserved=200))
    monkeypatch.setattr(stack, "status_to_deploy", lambda _: "UPDATE_COMPLETE")
    reservations = {"ApiConcurrency": "0", "RpcConcurrency": "800", "RpcProvisioned": "5"}
    monkeypatch.setattr(stack, "parameters_of", lambda _: reservations)
    monkeypatch.setattr(deploy, "fresh_release", lambda release, _: release)
    monkeypatch.setattr(environments, "run_sam", lambda *call, **_: calls.append(call))
    for value in ("900", "901"):
        variables = {"BUILD_DIR": str(tmp_path), "PARAMETERS": f"RpcConcurrency={value}"}
        deploy.main(["deploy"], CALL | variables)
    assert len(calls) == 1


def test_the_next_command_has_the_stages_profile_and_region(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages.SAMCONFIG.write_text(SAMCONFIG + 'region = "eu-west-1"\nprofile = "work"\n')
    monkeypatch.setattr(deploy, "account_of", lambda *_: USUAL_ACCOUNT)
    monkeypatch.setattr(deploy, "use_stage", lambda _: None)
    monkeypatch.setattr(stack, "status_to_deploy", lambda _: "")
    monkeypatch.setattr(environments, "run_sam", lambda *_, **__: 0)
    assert deploy.main(["deploy"], CALL | {"BUILD_DIR": str(tmp_path)}) == 0
    place = "AWS_PROFILE=work AWS_REGION=eu-west-1"
    output = capsys.readouterr().out
    assert f"Next: {place} make key NAME=alice STACK=a2a-prod, then {place} make doctor" in output


def test_a_profile_that_does_not_exist_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nope")
    monkeypatch.setattr(clients, "session", clients.session.__wrapped__)
    for ask in (lambda: account_of("make deploy"), lambda: use_stage({"region": "eu-west-1"})):
        with pytest.raises(ConfigurationError, match="nope"):
            ask()
    monkeypatch.delenv("AWS_PROFILE")
    with pytest.raises(ConfigurationError, match="profile acme, which this machine does not have: create it"):
        use_stage({"profile": "acme"})


class Live:
    """Versions of the stack's functions, which all have the same ones. live: the live version of each."""

    releases: ClassVar[dict[int, str]] = {}
    live_versions: ClassVar[dict[str, int]] = {}

    def __init__(self, _: object, function: str) -> None:
        self._function = function

    def all(self) -> dict[int, str]:
        return self.releases

    def live(self) -> int:
        return self.live_versions[self._function]


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> type[Live]:
    """Of a stack whose last deployment published version 2."""
    for module in (deploy, changes):
        monkeypatch.setattr(module, "Versions", Live)
    functions = {name: name for name in stack.FUNCTIONS}
    versions = {f"{name}Version1a2b": f"arn:aws:lambda:r:1:function:{name}:2" for name in stack.FUNCTIONS}
    monkeypatch.setattr(stack, "resources_of", lambda _: functions | versions)
    return Live


def test_a_release_that_was_rolled_back_is_deployed_anew(live: type[Live]) -> None:
    """CloudFormation sees no difference in the same one."""
    first, second = "1" * 64, "2" * 64
    live.releases = {1: first, 2: second}
    live.live_versions = dict.fromkeys(stack.FUNCTIONS, 2)
    assert deploy.fresh_release(second, "s") == second, "nothing new"
    assert deploy.fresh_release("3" * 64, "s") == "3" * 52 + "2" * 12, "and ends with what it follows"
    live.live_versions = dict.fromkeys(stack.FUNCTIONS, 1)
    again = deploy.fresh_release(second, "s")
    assert again not in (first, second)
    assert re.fullmatch("[0-9a-f]{64}", again)
    live.releases = {1: first, 2: second, 3: again}
    live.live_versions = dict.fromkeys(stack.FUNCTIONS, 3)
    assert deploy.fresh_release(second, "s") == again, "the same build is live already"
    live.releases = {1: first, 2: "3" * 52 + "1" * 12}
    live.live_versions = dict.fromkeys(stack.FUNCTIONS, 2)
    assert deploy.fresh_release("3" * 64, "s") == "3" * 52 + "1" * 12


def test_a_release_whose_rollback_was_cut_off_is_deployed_anew(live: type[Live]) -> None:
    first, second = "1" * 64, "2" * 64
    live.releases = {1: first, 2: second}
    live.live_versions = dict.fromkeys(stack.FUNCTIONS, 2) | {stack.FUNCTIONS[0]: 1}
    assert deploy.fresh_release(second, "s") not in (first, second)


def test_a_gradual_rollout_begins_from_what_was_deployed_last(live: type[Live]) -> None:
    live.live_versions = dict.fromkeys(stack.FUNCTIONS, 2)
    changes.check_rollout("s", "Canary10Percent5Minutes")
    live.live_versions = dict.fromkeys(stack.FUNCTIONS, 1)
    changes.check_rollout("s", "AllAtOnce")
    with pytest.raises(ConfigurationError, match=r"version 1, .*Deploy once with Rollout=AllAtOnce"):
        changes.check_rollout("s", "Canary10Percent5Minutes")


@pytest.mark.parametrize(("image", "is_noted"), [("1", True), ("", False)])
def test_what_an_image_does_not_have_is_noted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, image: str, is_noted: bool
) -> None:
    monkeypatch.setattr(deploy, "account_of", lambda *_: USUAL_ACCOUNT)
    monkeypatch.setattr(stack, "status_to_deploy", lambda _: "")
    monkeypatch.setattr(deploy, "check_agents", lambda _: None)
    variables = {"IMAGE": image, "PARAMETERS": "SnapStart=true"}
    assert deploy.main(["deploy", "check"], CALL | variables) == 0
    assert ("will not use SnapStart" in capsys.readouterr().out) is is_noted


def test_cloudformation_may_have_a_role_of_its_own() -> None:
    assert "--role-arn" not in deploy.command(CALL, {})
    call = deploy.command(CALL | {"ROLE": "arn:aws:iam::123456789012:role/x"}, {})
    assert call[call.index("--role-arn") + 1] == "arn:aws:iam::123456789012:role/x"


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        ("ROLLBACK_COMPLETE", "sam delete --stack-name a2a-dev --region eu-west-1 --no-prompts"),
        ("ROLLBACK_FAILED", "sam delete --stack-name a2a-dev"),
        ("DELETE_FAILED", "sam delete --stack-name a2a-dev"),
        ("UPDATE_ROLLBACK_FAILED", "aws cloudformation continue-update-rollback --stack-name a2a-dev"),
        ("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "Run the command again when it has"),
        ("REVIEW_IN_PROGRESS", ""),
        ("UPDATE_ROLLBACK_COMPLETE", ""),
        ("", ""),
    ],
)
def test_a_stack_that_cannot_be_updated_is_named_before_the_build(
    monkeypatch: pytest.MonkeyPatch, status: str, remedy: str
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setattr(clients, "session", Session)
    monkeypatch.setattr(stack, "status_of", lambda _: status)
    if remedy:
        with pytest.raises(ConfigurationError, match=remedy):
            stack.status_to_deploy("a2a-dev")
    else:
        assert stack.status_to_deploy("a2a-dev") == status


def test_a_stages_profile_and_region_are_those_of_every_question(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("[profile work]\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    session = Session()
    monkeypatch.setattr(clients, "session", lambda: session)
    use_stage({"profile": "work", "region": "eu-west-1"})
    assert session.get_config_variable("profile") == "work"
    assert session.get_config_variable("region") == "eu-west-1"
    use_stage({})
    assert session.get_config_variable("region") == "eu-west-1"


@pytest.mark.parametrize(
    ("version", "parameters", "words"),
    [
        ("3.12", {"ExecutionTimeout": "3600"}, "durable functions for Python 3.13 and later"),
        ("3.11", {"SnapStart": "true"}, "SnapStart for Python 3.12 and later"),
        ("3.13", {"ExecutionTimeout": "3600", "SnapStart": "true"}, ""),
        ("3.11", {}, ""),
    ],
)
def test_features_that_lambda_has_for_later_versions_of_python_only_are_refused(
    version: str, parameters: dict[str, str], words: str
) -> None:
    values = {"ExecutionTimeout": "0", "SnapStart": "false", **parameters}
    deploy.check_python(version, values, is_image=True)
    if words:
        with pytest.raises(ConfigurationError, match=words):
            deploy.check_python(version, values, is_image=False)
    else:
        deploy.check_python(version, values, is_image=False)


@pytest.mark.parametrize(
    ("error", "says_sign_in"),
    [
        (SSOTokenLoadError(error_msg="Token for s does not exist"), True),
        (ClientError({"Error": {"Code": "ExpiredToken", "Message": "expired"}}, "DescribeStacks"), True),
        (ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeStacks"), False),
    ],
)
def test_someone_whose_credentials_have_expired_is_told_to_sign_in(
    error: Exception, says_sign_in: bool
) -> None:
    with pytest.raises(ConfigurationError) as refusal, stack.aws_errors("stack a2a-dev"):
        raise error
    assert ("aws sso login" in str(refusal.value)) is says_sign_in
