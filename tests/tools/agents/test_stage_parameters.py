"""What `make validate` and `make deploy` find wrong with a stage without asking AWS."""

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from a2a_lambda.errors import ConfigurationError
from tests.agent.folders import write
from tests.conftest import ROOT
from tools.agents.stage_parameters import check_agents, faults_of_stages

OPTIONS = 'resolve_s3 = true\ncapabilities = "CAPABILITY_IAM"\n'


def test_agents_that_are_not_there_are_not_deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "functions" / "agents", "@skill\ndef hello(turn): return 'x'", name="report")
    none = {"ExecutionTimeout": "0"}
    check_agents({"AgentNames": "report", **none})
    check_agents({"AgentNames": "", **none})
    with pytest.raises(ConfigurationError, match=r"no agent 'reprot'; did you mean report\? Agents: report"):
        check_agents({"AgentNames": "report, reprot", **none})


def test_each_stage_with_a_fault_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """make validate: the parameters and the agents of all stages, without an account."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "functions" / "agents", "@skill\ndef hello(turn): return 'x'", name="report")
    shutil.copy(ROOT / "template.yaml", tmp_path)
    overrides = {
        "good": "AgentNames=report",
        "names": "AgentNames=reprot",
        "days": "LogDays=6 LogDay=7",
        "twice": "LogDays=7 AgentNames=report LogDays=14",
        "domain": "DomainName=a.example.com",
        "zone": "HostedZoneId=Z1",
        "network": "SubnetIds=subnet-1",
        "concurrency": "RpcConcurrency=2 RpcProvisioned=5",
        "durable": "ExecutionTimeout=2592000",
    }
    stages = "".join(
        f'[{stage}.deploy.parameters]\nstack_name = "a-{stage}"\n{OPTIONS}parameter_overrides = "{words}"\n'
        for stage, words in overrides.items()
    )
    heavy = '[heavy.deploy.paramters]\nstack_name = "a-heavy"\n[light.deploi.parameters]\nstack_name = "b"\n'
    heavy += (
        '[flat.deploy]\nstack_name = "a-flat"\n[built.bulid.parameters]\ncached = true\n[tool.mine]\na = 1\n'
    )
    heavy += '[nameless.deploy.parameters]\nregion = "eu-west-1"\n[default.build.parameters]\ncached = true\n'
    heavy += (
        '[dear.deploy.parameters]\nstack_name = "a-dear"\nparameter_overides = "LogDays=7"\nrole_arn = "x"\n'
        'no_confirm_changeset = true\n[dear.global.parameters]\nregoin = "eu-west-1"\n'
    )
    (tmp_path / "samconfig.toml").write_text(stages + heavy)
    names, days, day, twice, domain, zone, network, concurrency, *tables = faults_of_stages()
    assert concurrency.startswith("stage concurrency: RpcProvisioned=5 is more than RpcConcurrency=2")
    assert names.startswith("stage names: AgentNames: there is no agent 'reprot'; did you mean report?")
    assert days.startswith("stage days: parameter LogDays=6: use one of")
    assert day.startswith("stage days: template.yaml has no parameter LogDay; did you mean LogDays?")
    assert (
        twice == "samconfig.toml: [twice.deploy.parameters]: parameter_overrides sets LogDays more than once"
    )
    assert domain == "stage domain: DomainName needs a CertificateArn."
    assert zone.startswith("stage zone: HostedZoneId")
    assert network == "stage network: set both SubnetIds and SecurityGroupIds, or neither"
    dear = "samconfig.toml: [dear.deploy.parameters]:"
    assert tables == [
        f"{dear} write resolve_s3 = true, so that sam has a bucket for the code",
        f'{dear} write capabilities = "CAPABILITY_IAM CAPABILITY_AUTO_EXPAND"',
        "samconfig.toml: write version = 0.1, without quotes, above its first table",
        "samconfig.toml: [heavy.deploy.paramters]: write [heavy.deploy.parameters]",
        "samconfig.toml: [light.deploi]: write [light.deploy.parameters]",
        "samconfig.toml: [flat.deploy] has stack_name: move it under [flat.deploy.parameters]",
        "samconfig.toml: [built.bulid]: write [built.build.parameters]",
        'samconfig.toml: stage nameless has no stack_name: write stack_name = "a-nameless" under'
        " [nameless.deploy.parameters]",
        "samconfig.toml: [dear.global.parameters]: write region instead of regoin",
        f"{dear} write parameter_overrides instead of parameter_overides",
        f"{dear} write confirm_changeset = false instead of no_confirm_changeset",
    ]
    code = tmp_path / "functions" / "agents" / "report" / "agent.py"
    code.write_text("@skil")
    faults = [names, days, day, twice, domain, zone, network, concurrency, *tables]
    assert list(faults_of_stages(with_agents=False)) == faults


def test_a_durable_agent_needs_its_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "functions" / "agents"
    write(folder, "@skill\ndef hello(turn): return 'x'", name="plain")
    place = write(folder, "@skill\nasync def hello(turn): return 'x'", name="trips")
    card = (place / "card.yaml").read_text()
    (place / "card.yaml").write_text(f"{card}\ndurable: true\n")
    (folder / "plain" / "card.yaml").write_text(f"{card}\ndefault: true\n")
    check_agents({"AgentNames": "plain", "ExecutionTimeout": "0"})
    check_agents({"AgentNames": "", "ExecutionTimeout": "3600"})
    with pytest.raises(
        ConfigurationError,
        match=r"agent trips is durable: add ExecutionTimeout=2592000 to parameter_overrides",
    ):
        check_agents({"AgentNames": "", "ExecutionTimeout": "0"})


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://localhost:9/hook", "must be https"),
        ("https://localhost/hook", "must have a public address"),
        ("https://127.0.0.1:9/x", "must have a public address"),
        ("https://[::1]/", "must have a public address"),
        ("https://127.1/", "must have a public address"),
        ("HTTPS://example.com/hook", ""),
    ],
)
def test_a_schedule_that_calls_this_machine_is_not_deployed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, problem: str
) -> None:
    """None of its turns would start."""
    monkeypatch.chdir(tmp_path)
    place = write(tmp_path / "functions" / "agents", "@skill\ndef hello(turn): return 'x'", name="report")
    card = (place / "card.yaml").read_text()
    schedule = '{ id: daily, cron: "0 7 * * *", message: Go, webhook: "URL" }'
    lines = ("capabilities: { pushNotifications: true }", f"schedules: [{schedule}]")
    (place / "card.yaml").write_text("\n".join((card, *lines)).replace("URL", url))
    with pytest.raises(ConfigurationError, match=problem) if problem else nullcontext():
        check_agents({"AgentNames": "", "ExecutionTimeout": "0"})
