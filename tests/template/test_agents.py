"""What agents get beside the kit's own: permissions, packages, variables, a network."""

from typing import Any

from tests.conftest import ROOT
from tests.template.resources import FUNCTIONS

RUN_AGENTS = ("Rpc", "Worker", "Durable")

OTHERS = ("Api", "Notifier")

OWN = "arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/a2a/${AWS::StackName}"


def variables(translated: Any, short: str) -> Any:
    return translated[f"{short}Function"]["Properties"]["Environment"]["Variables"]


def test_the_fork_comes_first() -> None:
    """Its permissions and variables are the first resource, between two lines that stay."""
    before, _, after = (ROOT / "template.yaml").read_text().partition("# === Yours =")
    assert len(before.splitlines()) < 10
    forks, _, kits = after.partition("# === The kit's =")
    assert "  AgentPolicy:" in forks
    assert "  Table:" in kits


def test_the_functions_that_run_agents_get_the_agents_policy(translated: Any) -> None:
    for short in RUN_AGENTS:
        choice = translated[f"{short}Role"]["Properties"]["ManagedPolicyArns"]["Fn::If"]
        condition, [split, joined_arns], alone = choice[0], choice[1]["Fn::Split"], choice[2]
        assert condition == "HasAgentPolicyArns"
        assert alone == [{"Ref": "AgentPolicy"}]
        more = {"Fn::Join": [split, {"Ref": "AgentPolicyArns"}]}
        assert joined_arns == {"Fn::Join": [split, [{"Ref": "AgentPolicy"}, more]]}
    for short in OTHERS:
        assert "Agent" not in str(translated[f"{short}Role"])


def test_agents_read_their_own_stacks_secrets(translated: Any) -> None:
    for short in RUN_AGENTS:
        [policy] = translated[f"{short}Role"]["Properties"]["Policies"]
        [own] = [
            item for item in policy["PolicyDocument"]["Statement"] if item.get("Sid") == "AgentParameters"
        ]
        assert own["Action"] == ["ssm:GetParameter"]
        assert own["Resource"] == [{"Fn::Sub": f"{OWN}/{kind}/*"} for kind in ("secrets", "settings")]
    for short in RUN_AGENTS:
        assert variables(translated, short)["A2A_AGENT_PARAMETERS"] == {"Fn::Sub": "/a2a/${AWS::StackName}"}


def test_their_variables_and_packages_are_theirs_alone(translated: Any) -> None:
    environment = translated["AgentPolicy"]["Metadata"]["Environment"]
    assert environment == {"SHOP": {"Ref": "AWS::StackName"}}
    for short in RUN_AGENTS:
        assert environment.items() <= variables(translated, short).items()
    for short in OTHERS:
        assert not {"A2A_AGENT_PARAMETERS", *environment} & set(variables(translated, short))
    layers = {name: str(translated[name]["Properties"]["Layers"]) for name in FUNCTIONS}
    carries = {name for name, text in layers.items() if "AgentsLayer" in text}
    assert carries == {f"{short}Function" for short in RUN_AGENTS}


def test_agents_functions_alone_are_in_the_vpc(translated: Any) -> None:
    vpc_config = {"SubnetIds": {"Ref": "SubnetIds"}, "SecurityGroupIds": {"Ref": "SecurityGroupIds"}}
    for name in FUNCTIONS:
        properties = translated[name]["Properties"]
        if name.removesuffix("Function") in RUN_AGENTS:
            assert properties["VpcConfig"] == {"Fn::If": ["HasSubnets", vpc_config, {"Ref": "AWS::NoValue"}]}
        else:
            assert "VpcConfig" not in properties


def test_a_stack_may_serve_some_of_the_agents(translated: Any) -> None:
    for name in FUNCTIONS:
        environment = variables(translated, name.removesuffix("Function"))["A2A_AGENT_NAMES"]
        assert environment == {"Fn::Join": [",", {"Ref": "AgentNames"}]}
