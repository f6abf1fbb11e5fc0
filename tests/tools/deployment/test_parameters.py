"""The values with which a stack is deployed: whose counts, and which are mistakes."""

import dataclasses
import re
from pathlib import Path

import pytest

from a2a_lambda.errors import ConfigurationError
from tests.tools.deployment.deployments import CALL, NEW_ACCOUNT, SAMCONFIG, USUAL_ACCOUNT
from tools import environments, template
from tools.agents import stages
from tools.agents.stage_parameters import named_parameters
from tools.build import sam
from tools.deployment import deploy, stack
from tools.deployment.account import Account

pytestmark = pytest.mark.usefixtures("kit_folder")


def parameters(account: Account = USUAL_ACCOUNT, **more: str) -> dict[str, str]:
    """What sam would get."""
    call = CALL | more
    values = deploy.parameters_for(account, *named_parameters(call)) | {"Architecture": call["ARCH"]}
    command = deploy.command(call, values)
    overrides = command[command.index("--parameter-overrides") + 1 :]
    pairs = [re.fullmatch(r'(\w+)="([^"]*)"', override) for override in overrides]
    return {pair[1]: pair[2] for pair in pairs if pair}


def test_every_parameter_is_given() -> None:
    """CloudFormation keeps the value of one that is not."""
    values = parameters()
    assert set(values) == set(template.defaults(Path("template.yaml")))
    assert values["LogDays"] == "90"
    assert values["Tracing"] == "false"
    assert values["DomainName"] == ""


def test_a_region_may_lack_durable_functions() -> None:
    notes = list(deploy.notes(USUAL_ACCOUNT, parameters(PARAMETERS="ExecutionTimeout=3600")))
    assert "If us-east-1 does not have them" in notes[0]
    assert not list(deploy.notes(USUAL_ACCOUNT, parameters()))


def test_an_image_needs_a_repository() -> None:
    wanted = parameters()
    assert "--resolve-image-repos" not in deploy.command(CALL, wanted)
    assert "--resolve-image-repos" in deploy.command({**CALL, "IMAGE": "1"}, wanted)


def test_the_architecture_is_what_was_built() -> None:
    assert parameters()["Architecture"] == "x86_64"


@pytest.mark.parametrize("place", ["samconfig.toml", "PARAMETERS"])
def test_a_stage_may_name_its_architecture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    """A deployment from GitHub has it then, too."""
    calls: list[tuple[str, ...]] = []
    variables = {"STAGE": "prod", "BUILD_DIR": str(tmp_path)}
    if place == "PARAMETERS":
        variables["PARAMETERS"] = "Architecture=x86_64"
    else:
        stages.SAMCONFIG.write_text(SAMCONFIG.replace("LogDays=90", "Architecture=x86_64"))
    monkeypatch.setattr(deploy, "account_of", lambda *_: USUAL_ACCOUNT)
    monkeypatch.setattr(stack, "status_to_deploy", lambda _: "UPDATE_COMPLETE")
    monkeypatch.setattr(stack, "parameters_of", lambda _: {})
    monkeypatch.setattr(deploy, "fresh_release", lambda release, _: release)
    architectures: list[str] = []

    def run_sam(*call: str, **_: str) -> int:
        calls.append(call)
        return 0

    def build(folder: Path, architecture: str, *_: object, **__: bool) -> int:
        architectures.append(architecture)
        return 1

    monkeypatch.setattr(environments, "run_sam", run_sam)
    monkeypatch.setattr(sam, "build", build)
    assert deploy.main(["deploy"], variables) == 0
    assert 'Architecture="x86_64"' in calls[0]
    assert sam.main(["sam", "deployment"], variables) == 1
    assert architectures == ["x86_64"]
    assert deploy.main(["deploy"], variables | {"ARCH": "arm64"}) == 1


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
    for parameter in ("SubnetIds=subnet-1", "SecurityGroupIds=sg-1"):
        with pytest.raises(ConfigurationError, match="or neither"):
            parameters(PARAMETERS=parameter)
    assert parameters(PARAMETERS="SubnetIds=subnet-1,subnet-2 SecurityGroupIds=sg-1")["SubnetIds"]


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_values_may_stand_in_quotes(quote: str) -> None:
    arn = "arn:aws:sns:us-east-1:123456789012:alarms"
    assert parameters(PARAMETERS=f"AlarmTopicArn={quote}{arn}{quote}")["AlarmTopicArn"] == arn
    text = "CorsOrigins='https://a.example, https://b.example' LogDays=7"
    assert parameters(PARAMETERS=text)["CorsOrigins"] == "https://a.example, https://b.example"


def test_what_guided_wrote_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = r"""
        [guided.deploy.parameters]
        stack_name = "mine"
        parameter_overrides = "LogDays=\"7\" BaseUrl=\"https://agents.example.com\" WebAclArn=\"\""
        [odd]
        deploy = 3
    """
    stages.SAMCONFIG.write_text(config)
    assert parameters(STAGE="guided")["BaseUrl"] == "https://agents.example.com"
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
        named_parameters(CALL | wrong)


def test_a_new_account_gets_what_it_has_room_for() -> None:
    values = parameters(NEW_ACCOUNT, STAGE="dev")
    assert int(values["WorkerConcurrency"]) + int(values["NotifierConcurrency"]) <= 4
    assert 1 <= int(values["StreamsPerOwner"]) <= 4
    assert values["AccountConcurrency"] == "8"
    assert values["AccessLogs"] == "false"
    assert parameters(NEW_ACCOUNT, PARAMETERS="StreamsPerOwner=9")["StreamsPerOwner"] == "9", (
        "as it was told to"
    )
    for limit, stage, streams in ((50, "5", "5"), (99, "20", "20"), (50, "0", "23")):
        account = dataclasses.replace(NEW_ACCOUNT, concurrency=limit)
        assert deploy.parameters_for(account, {"StreamsPerOwner": stage}, {})["StreamsPerOwner"] == streams
    prod = parameters(NEW_ACCOUNT, STAGE="prod")
    assert prod["WorkerConcurrency"] == prod["NotifierConcurrency"] == "2", "whatever samconfig.toml says"
    assert prod["LogDays"] == "90"
    early = parameters(PARAMETERS="FileDays=3")
    assert "deletes files before their tasks: remove it" in next(deploy.notes(USUAL_ACCOUNT, early))
    wide = "WorkerConcurrency=9"
    assert "calls may be throttled" in "".join(
        deploy.notes(NEW_ACCOUNT, parameters(NEW_ACCOUNT, PARAMETERS=wide))
    )
    notes = "\n".join(deploy.notes(NEW_ACCOUNT, values))
    assert "L-B99A9384" in notes
    assert "make account" in notes


def test_a_grown_account_keeps_the_templates_values() -> None:
    values = parameters(STAGE="dev")
    defaults = template.defaults(Path("template.yaml"))
    for name in ("WorkerConcurrency", "NotifierConcurrency", "StreamsPerOwner"):
        assert values[name] == defaults[name]
    assert values["AccessLogs"] == "true"
    assert list(deploy.notes(USUAL_ACCOUNT, values)) == []
    assert "calls may be throttled" in "".join(
        deploy.notes(USUAL_ACCOUNT, values | {"WorkerConcurrency": "700"})
    )
    elsewhere = Account("123456789012", "xx-north-9", 1000, 1000, "arn")
    assert "xx-north-9" in "".join(deploy.notes(elsewhere, values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"RpcConcurrency": "901"}, "RpcConcurrency would reserve 901"),
        (
            {"ApiConcurrency": "400", "RpcProvisioned": "501"},
            "ApiConcurrency, RpcProvisioned would reserve 901",
        ),
        ({"RpcConcurrency": "5", "RpcProvisioned": "6"}, "more than RpcConcurrency=5"),
        ({"ApiConcurrency": "400", "RpcConcurrency": "500", "RpcProvisioned": "500"}, ""),
    ],
)
def test_no_more_concurrency_is_reserved_than_lambda_allows(values: dict[str, str], message: str) -> None:
    """A first deployment that fails for that leaves a stack to delete."""
    if message:
        with pytest.raises(ConfigurationError, match=message):
            deploy.parameters_for(USUAL_ACCOUNT, values, {})
    else:
        deploy.parameters_for(USUAL_ACCOUNT, values, {})
    with pytest.raises(ConfigurationError, match="of the account's 10 concurrent executions"):
        deploy.parameters_for(NEW_ACCOUNT, {"RpcConcurrency": "1"}, {})
    with pytest.raises(ConfigurationError, match="more than RpcConcurrency=5"):  # which no quota would mend
        deploy.parameters_for(NEW_ACCOUNT, {"RpcConcurrency": "5", "RpcProvisioned": "6"}, {})


def test_what_other_stacks_reserve_cannot_be_reserved_again() -> None:
    shared_account = dataclasses.replace(USUAL_ACCOUNT, unreserved=600)
    deploy.parameters_for(shared_account, {"RpcConcurrency": "500"}, {})
    with pytest.raises(ConfigurationError, match="of which other stacks reserve 400,"):
        deploy.parameters_for(shared_account, {"RpcConcurrency": "501"}, {})


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"DomainName": "a.example.com"}, "DomainName needs a CertificateArn"),
        ({"SnapStart": "true", "RpcProvisioned": "2"}, "RpcProvisioned and SnapStart cannot be combined"),
        ({"ExtraLayerWrapper": "/opt/x"}, "ExtraLayerWrapper needs the ExtraLayerArn"),
        ({"ExtraLayerArn": "a", "ExtraLayerArn2": "b", "OtlpEndpoint": "https://x"}, "and no OtlpEndpoint"),
    ],
)
def test_what_cloudformations_rules_refuse_is_refused_before_the_build(
    values: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        deploy.parameters_for(USUAL_ACCOUNT, values, {})


def test_access_logs_without_the_accounts_role_are_a_mistake() -> None:
    """CloudFormation would fail, late."""
    values = parameters(NEW_ACCOUNT, PARAMETERS="AccessLogs=true")
    stage = {"stack_name": "a2a-dev", "region": "eu-west-1"}
    with pytest.raises(ConfigurationError, match="Run AWS_REGION=eu-west-1 make account first"):
        deploy.check_deployment(stage, NEW_ACCOUNT, values, {}, is_first=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("WorkerConcurrency=abc", "a number from 2 to 1000"),
        ("WorkerConcurrency=1", "a number from 2 to 1000"),
        ("RpcConcurrency=00", "without leading zeros"),
        ("ExecutionTimeout=007", "without leading zeros"),
        ("Rollout=Foo", "use one of AllAtOnce"),
        ("OriginDigests=abc", "SHA-256"),
        ("DomainName=UPPER", "Host name"),
        ("LogDays", "NAME=value"),
        ('LogLevel=INFO"', "cannot pass the value"),
    ],
)
def test_values_that_cloudformation_would_refuse_are_refused_before_the_build(given: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        template.parse_parameters(template.parameters(Path("template.yaml")), given)


def test_a_mistake_in_a_name_is_found() -> None:
    with pytest.raises(ConfigurationError, match=r"no parameter LogDay; did you mean LogDays\?"):
        template.parse_parameters(template.parameters(Path("template.yaml")), "LogDay=7")


@pytest.mark.parametrize(
    ("old", "new", "advice"),
    [
        ("  Effect: Allow", "   Effect: Allow", "begin this line in the column of the field above it"),
        ("Effect: Allow", "Effect: Allow: x", "put the text of this line in quotes"),
    ],
)
def test_a_field_in_another_column_is_named_with_its_line(
    old: str, new: str, advice: str, tmp_path: Path
) -> None:
    """libyaml's parser, which reads templates, does not say what is in the line."""
    path = tmp_path / "template.yaml"
    text = "Resources:\n  Effect: Allow\n  Action: none\n".replace("  Effect", "  Sid: Model\n  Effect")
    path.write_text(text.replace(old, new))
    with pytest.raises(ConfigurationError, match=rf"template.yaml:3: not valid YAML: .*; {advice}"):
        template.parameters(path)
