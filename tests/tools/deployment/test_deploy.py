"""make deploy: what sam is called with."""

import re
from pathlib import Path

import pytest
from botocore.session import Session

from a2a_lambda.aws import clients
from a2a_lambda.errors import ConfigurationError
from tests.agent.folders import write
from tests.conftest import ROOT
from tools import environments, template
from tools.agents import stages
from tools.build import sam
from tools.deployment import deploy, stack
from tools.deployment.account import Account, account_of, use_stage
from tools.deployment.versions import Versions

ASKED = {"STAGE": "prod", "ARCH": "x86_64", "BUILD_DIR": "built"}

SAMCONFIG = """
[dev.deploy.parameters]
stack_name = "a2a-dev"
parameter_overrides = ["LogDays=7"]
[prod.deploy.parameters]
stack_name = "a2a-prod"
parameter_overrides = [
    "DeletionProtection=true", "LogDays=90", "WorkerConcurrency=50", "NotifierConcurrency=20",
]
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit's folder, with stages of the tests."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(stages, "SAMCONFIG", tmp_path / "samconfig.toml")
    stages.SAMCONFIG.write_text(SAMCONFIG)


USUAL = Account("123456789012", "us-east-1", 1000, "arn:aws:iam::123456789012:role/logs")


def parameters(account: Account = USUAL, **more: str) -> dict[str, str]:
    asked = ASKED | more
    wanted = deploy.parameters_for(account, *deploy.named_parameters(asked)) | {"Architecture": asked["ARCH"]}
    call = deploy.command(asked, wanted)
    given = call[call.index("--parameter-overrides") + 1 :]
    pairs = [re.fullmatch(r'(\w+)="([^"]*)"', one) for one in given]
    return {pair[1]: pair[2] for pair in pairs if pair}


def test_every_parameter_is_given() -> None:
    """CloudFormation keeps the value of one that is not."""
    found = parameters()
    assert set(found) == set(template.defaults(Path("template.yaml")))
    assert found["LogDays"] == "90"
    assert found["Tracing"] == "false"
    assert found["DomainName"] == ""


def test_agents_that_are_not_there_are_not_deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "functions" / "agents", "@skill\ndef hello(turn): return 'x'", name="report")
    none = {"ExecutionTimeout": "0"}
    deploy.check_agents({"AgentNames": "report", **none})
    deploy.check_agents({"AgentNames": "", **none})
    with pytest.raises(
        ConfigurationError, match=r"no agent 'reprot'; did you mean report\? There are: report"
    ):
        deploy.check_agents({"AgentNames": "report, reprot", **none})


def test_a_durable_agent_needs_its_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "functions" / "agents"
    write(folder, "@skill\ndef hello(turn): return 'x'", name="plain")
    place = write(folder, "@skill\nasync def hello(turn): return 'x'", name="trips")
    card = (place / "card.yaml").read_text()
    (place / "card.yaml").write_text(f"{card}\ndurable: true\n")
    (folder / "plain" / "card.yaml").write_text(f"{card}\ndefault: true\n")
    deploy.check_agents({"AgentNames": "plain", "ExecutionTimeout": "0"})
    deploy.check_agents({"AgentNames": "", "ExecutionTimeout": "3600"})
    with pytest.raises(
        ConfigurationError,
        match=r"agent trips is durable: add ExecutionTimeout=2592000 to parameter_overrides",
    ):
        deploy.check_agents({"AgentNames": "", "ExecutionTimeout": "0"})


def test_a_region_may_lack_durable_functions() -> None:
    said = list(deploy.notes(USUAL, parameters(PARAMETERS="ExecutionTimeout=3600")))
    assert "If us-east-1 does not have them" in said[0]
    assert not list(deploy.notes(USUAL, parameters()))


def test_an_image_needs_a_repository() -> None:
    wanted = parameters()
    assert "--resolve-image-repos" not in deploy.command(ASKED, wanted)
    assert "--resolve-image-repos" in deploy.command({**ASKED, "IMAGE": "1"}, wanted)


def test_the_architecture_is_what_was_built() -> None:
    assert parameters()["Architecture"] == "x86_64"


@pytest.mark.parametrize("place", ["samconfig.toml", "PARAMETERS"])
def test_a_stage_may_name_its_architecture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    """So that a deployment from GitHub has it, too."""
    calls: list[tuple[str, ...]] = []
    asked = {"STAGE": "prod", "BUILD_DIR": str(tmp_path)}
    if place == "PARAMETERS":
        asked["PARAMETERS"] = "Architecture=x86_64"
    else:
        stages.SAMCONFIG.write_text(SAMCONFIG.replace("LogDays=90", "Architecture=x86_64"))
    monkeypatch.setattr(deploy, "account_of", lambda *_: USUAL)
    monkeypatch.setattr(deploy, "_is_first", lambda _: False)
    monkeypatch.setattr(deploy, "fresh_release", lambda release, _: release)
    built: list[str] = []

    def run_sam(*call: str, **_: str) -> int:
        calls.append(call)
        return 0

    def build(folder: Path, architecture: str, *_: object, **__: bool) -> int:
        built.append(architecture)
        return 1

    monkeypatch.setattr(environments, "run_sam", run_sam)
    monkeypatch.setattr(sam, "build", build)
    assert deploy.main(["deploy"], asked) == 0
    assert 'Architecture="x86_64"' in calls[0]
    assert sam.main(["sam", "deployment"], asked) == 1
    assert built == ["x86_64"]
    assert deploy.main(["deploy"], asked | {"ARCH": "arm64"}) == 1


def test_parameters_of_the_call_count_most() -> None:
    assert parameters(PARAMETERS="LogDays=7 Tracing=true")["LogDays"] == "7"


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("TraceShare=0.1", ""),
        ("TraceShare=1.5", "from 0.0 to 1.0"),
        ("RpcTimeout=2.5", "use a number"),
        ("OtlpEndpoint=https://otlp.example.com/team", ""),
        ("OtlpEndpoint=https://otlp.example.com/v1/traces", "without /v1/traces"),
        ("OtlpEndpoint=foo", "such as https://"),
        ("ExtraLayerArn=arn:aws:lambda:eu-central-1:123456789012:layer:tracer:3", ""),
        ("ExtraLayerArn=arn:aws:lambda:eu-central-1:123456789012:layer:tracer", "<name>:<version>"),
    ],
)
def test_values_that_tracing_cannot_use_are_named(given: str, wrong: str) -> None:
    if not wrong:
        assert parameters(PARAMETERS=given)
        return
    with pytest.raises(ConfigurationError, match=wrong):
        parameters(PARAMETERS=given)


def test_a_vpc_has_subnets_and_security_groups() -> None:
    for given in ("SubnetIds=subnet-1", "SecurityGroupIds=sg-1"):
        with pytest.raises(ConfigurationError, match="or neither"):
            parameters(PARAMETERS=given)
    assert parameters(PARAMETERS="SubnetIds=subnet-1,subnet-2 SecurityGroupIds=sg-1")["SubnetIds"]


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_values_may_stand_in_quotes(quote: str) -> None:
    arn = "arn:aws:sns:us-east-1:123456789012:alarms"
    assert parameters(PARAMETERS=f"AlarmTopicArn={quote}{arn}{quote}")["AlarmTopicArn"] == arn
    given = "CorsOrigins='https://a.example, https://b.example' LogDays=7"
    assert parameters(PARAMETERS=given)["CorsOrigins"] == "https://a.example, https://b.example"


def test_what_guided_wrote_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = r"""
        [guided.deploy.parameters]
        stack_name = "mine"
        parameter_overrides = "LogDays=\"7\" DomainName=\"agents.example.com\" WebAclArn=\"\""
        [odd]
        deploy = 3
    """
    stages.SAMCONFIG.write_text(written)
    assert parameters(STAGE="guided")["DomainName"] == "agents.example.com"
    stages.SAMCONFIG.write_text("version = 0.1")
    with pytest.raises(ConfigurationError, match="no stage"):
        parameters()


@pytest.mark.parametrize(
    "wrong",
    [
        {"STAGE": ""},
        {"STAGE": "staging"},
        {"PARAMETERS": "LogDay=7"},
        {"PARAMETERS": "LogDays='7"},
        {"PARAMETERS": "LogDays='7\"'"},
    ],
)
def test_mistakes_are_reported_before_anything_is_built(wrong: dict[str, str]) -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"STAGE=dev or STAGE=prod|no parameter LogDay|No closing|cannot pass the value",
    ):
        deploy.named_parameters(ASKED | wrong)


NEW = Account("123456789012", "us-east-1", 10, "")


def test_a_new_account_gets_what_it_has_room_for() -> None:
    found = parameters(NEW, STAGE="dev")
    assert int(found["WorkerConcurrency"]) + int(found["NotifierConcurrency"]) <= 4
    assert 1 <= int(found["StreamsPerOwner"]) <= 4
    assert found["AccountConcurrency"] == "8"
    assert found["AccessLogs"] == "false"
    assert parameters(NEW, PARAMETERS="StreamsPerOwner=9")["StreamsPerOwner"] == "9", "as it was told to"
    prod = parameters(NEW, STAGE="prod")
    assert prod["WorkerConcurrency"] == prod["NotifierConcurrency"] == "2", "whatever samconfig.toml says"
    assert prod["LogDays"] == "90"
    wide = "WorkerConcurrency=9"
    assert "calls may find none free" in "".join(deploy.notes(NEW, parameters(NEW, PARAMETERS=wide)))
    said = "\n".join(deploy.notes(NEW, found))
    assert "L-B99A9384" in said
    assert "make account" in said


def test_a_grown_account_keeps_the_templates_values() -> None:
    found = parameters(STAGE="dev")
    known = template.defaults(Path("template.yaml"))
    for name in ("WorkerConcurrency", "NotifierConcurrency", "StreamsPerOwner"):
        assert found[name] == known[name]
    assert found["AccessLogs"] == "true"
    assert list(deploy.notes(USUAL, found)) == []
    assert "calls may find none free" in "".join(deploy.notes(USUAL, found | {"WorkerConcurrency": "700"}))
    elsewhere = Account("123456789012", "xx-north-9", 1000, "arn")
    assert "xx-north-9" in "".join(deploy.notes(elsewhere, found))


def test_access_logs_without_the_accounts_role_are_a_mistake() -> None:
    """CloudFormation would fail, late."""
    found = parameters(NEW, PARAMETERS="AccessLogs=true")
    with pytest.raises(ConfigurationError, match="make account"):
        list(deploy.notes(NEW, found))


def test_a_release_is_what_is_deployed(tmp_path: Path) -> None:
    (tmp_path / "RpcFunction").mkdir()
    code = tmp_path / "RpcFunction" / "rpc.py"
    code.write_text("one")
    first = deploy.release(tmp_path, {"LogDays": "7"})
    assert re.fullmatch("[0-9a-f]{64}", first)
    (tmp_path / "RpcFunction" / "rpc.pyc").write_text("compiled anew")
    assert deploy.release(tmp_path, {"LogDays": "7"}) == first
    assert deploy.release(tmp_path, {"LogDays": "8"}) != first
    code.write_text("two")
    assert deploy.release(tmp_path, {"LogDays": "7"}) != first


@pytest.mark.parametrize("first", [True, False])
def test_a_first_deployment_that_fails_leaves_no_protected_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: bool
) -> None:
    calls: list[list[str]] = []

    def ran(*call: str, **_: str) -> int:
        calls.append([*call])
        return 0

    monkeypatch.setattr(deploy, "account_of", lambda *_: USUAL)
    monkeypatch.setattr(deploy, "_is_first", lambda _: first)
    monkeypatch.setattr(deploy, "fresh_release", lambda release, _: release)
    monkeypatch.setattr(environments, "run_sam", ran)
    assert deploy.main(["deploy"], ASKED | {"BUILD_DIR": str(tmp_path)}) == 0
    protected = ['DeletionProtection="true"' in call for call in calls]
    assert protected == ([False, True] if first else [True])


def test_the_next_command_has_the_stages_profile_and_region(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages.SAMCONFIG.write_text(SAMCONFIG + 'region = "eu-west-1"\nprofile = "work"\n')
    monkeypatch.setattr(deploy, "account_of", lambda *_: USUAL)
    monkeypatch.setattr(deploy, "use_stage", lambda _: None)
    monkeypatch.setattr(deploy, "_is_first", lambda _: True)
    monkeypatch.setattr(environments, "run_sam", lambda *_, **__: 0)
    assert deploy.main(["deploy"], ASKED | {"BUILD_DIR": str(tmp_path)}) == 0
    place = "AWS_PROFILE=work AWS_REGION=eu-west-1"
    shown = capsys.readouterr().out
    assert f"Next: {place} make key NAME=alice STACK=a2a-prod, then {place} make doctor" in shown


def test_a_profile_that_does_not_exist_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nope")
    monkeypatch.setattr(clients, "session", clients.session.__wrapped__)
    for ask in (lambda: account_of("make deploy"), lambda: use_stage({"region": "eu-west-1"})):
        with pytest.raises(ConfigurationError, match="nope"):
            ask()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("WorkerConcurrency=abc", "a number from 2 to 1000"),
        ("WorkerConcurrency=1", "a number from 2 to 1000"),
        ("Rollout=Foo", "use one of AllAtOnce"),
        ("OriginDigests=abc", "SHA-256"),
        ("DomainName=UPPER", "Host name"),
        ("LogDays", "NAME=value"),
        ('LogLevel=INFO"', "cannot pass the value"),
    ],
)
def test_values_that_cloudformation_would_refuse_are_refused_before_the_build(given: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        stack.parse_parameters(template.parameters(Path("template.yaml")), given)


def test_a_release_that_was_rolled_back_is_deployed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """CloudFormation sees no difference in the same one."""
    first, second = "1" * 64, "2" * 64

    class Known:
        live_version = 2

        def __init__(self, *_: object) -> None:
            pass

        def all(self) -> dict[int, str]:
            return {1: first, 2: second}

        def live(self) -> int:
            return self.live_version

    monkeypatch.setattr(deploy, "Versions", Known)
    monkeypatch.setattr(stack, "resources_of", lambda _: {"RpcFunction": "rpc"})
    assert deploy.fresh_release(second, "s") == second, "nothing new"
    assert deploy.fresh_release("3" * 64, "s") == "3" * 64
    Known.live_version = 1
    assert deploy.fresh_release(second, "s") not in (first, second)
    assert re.fullmatch("[0-9a-f]{64}", deploy.fresh_release(second, "s"))


def test_values_that_change_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "parameters_of", lambda _: {"DomainName": "a.example", "Release": "1"})
    said = list(deploy.changes("s", {"DomainName": "", "Release": "2"}))
    assert said == ["DomainName changes from a.example to nothing"]


def test_a_permissions_boundary_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as by a deployment by hand of a stack that GitHub deploys."""
    monkeypatch.setattr(stack, "parameters_of", lambda _: {"PermissionsBoundaryArn": "arn:b"})
    with pytest.raises(ConfigurationError, match="add PermissionsBoundaryArn=arn:b to PARAMETERS"):
        list(deploy.changes("s", {"PermissionsBoundaryArn": ""}))
    assert list(deploy.changes("s", {"PermissionsBoundaryArn": "arn:b"})) == []


@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [("4", "8", False), ("4", "4", False), ("4", "1", True), ("", "1", False)],
)
def test_what_must_not_shrink_does_not(
    monkeypatch: pytest.MonkeyPatch, before: str, after: str, is_refused: bool
) -> None:
    """Such as after a deployment with PARAMETERS, and one without."""
    monkeypatch.setattr(stack, "parameters_of", lambda _: {"ListShards": before})
    if is_refused:
        with pytest.raises(ConfigurationError, match="ListShards=4 in samconfig"):
            list(deploy.changes("s", {"ListShards": after}))
    else:
        list(deploy.changes("s", {"ListShards": after}))


@pytest.mark.parametrize(("turns", "is_refused"), [(["arn:a", "arn:b"], True), ([], False)])
def test_durable_skills_are_not_switched_off_under_turns_that_run(
    monkeypatch: pytest.MonkeyPatch, turns: list[str], is_refused: bool
) -> None:
    monkeypatch.setattr(stack, "parameters_of", lambda _: {"ExecutionTimeout": "3600"})
    monkeypatch.setattr(stack, "resources_of", lambda _: {"DurableFunction": "durable"})
    monkeypatch.setattr(Versions, "open_executions", lambda _: iter(turns))
    monkeypatch.setattr(clients, "session", Session)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    list(deploy.changes("s", {"ExecutionTimeout": "7200"}))
    if is_refused:
        with pytest.raises(ConfigurationError, match=r"2 of its turns have not ended.*arn:a"):
            list(deploy.changes("s", {"ExecutionTimeout": "0"}))
    else:
        assert list(deploy.changes("s", {"ExecutionTimeout": "0"}))


def test_a_mistake_in_a_name_is_found() -> None:
    with pytest.raises(ConfigurationError, match=r"no parameter LogDay; did you mean LogDays\?"):
        stack.parse_parameters(template.parameters(Path("template.yaml")), "LogDay=7")


@pytest.mark.parametrize(("image", "is_noted"), [("1", True), ("", False)])
def test_what_an_image_does_not_have_is_noted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, image: str, is_noted: bool
) -> None:
    monkeypatch.setattr(deploy, "account_of", lambda *_: USUAL)
    monkeypatch.setattr(deploy, "_is_first", lambda _: True)
    monkeypatch.setattr(deploy, "check_agents", lambda _: None)
    variables = {"IMAGE": image, "PARAMETERS": "SnapStart=true"}
    assert deploy.main(["deploy", "check"], ASKED | variables) == 0
    assert ("will not use SnapStart" in capsys.readouterr().out) is is_noted


def test_cloudformation_may_have_a_role_of_its_own() -> None:
    assert "--role-arn" not in deploy.command(ASKED, {})
    call = deploy.command(ASKED | {"ROLE": "arn:aws:iam::123456789012:role/x"}, {})
    assert call[call.index("--role-arn") + 1] == "arn:aws:iam::123456789012:role/x"


def test_a_stack_whose_first_deployment_failed_is_deleted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "status_of", lambda _: "ROLLBACK_COMPLETE")
    with pytest.raises(ConfigurationError, match="sam delete --stack-name a2a-dev"):
        deploy._is_first("a2a-dev")


def test_a_stages_profile_and_region_are_those_of_every_question(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    monkeypatch.setattr(clients, "session", lambda: session)
    use_stage({"profile": "work", "region": "eu-west-1"})
    assert session.get_config_variable("profile") == "work"
    assert session.get_config_variable("region") == "eu-west-1"
    use_stage({})
    assert session.get_config_variable("region") == "eu-west-1"
