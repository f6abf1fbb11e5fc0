"""make validate: what make deploy would refuse, as far as it can be known without an account.

cfn-lint checks the template that AWS gets, into which SAM transforms template.yaml. It can have faults that
the source does not show: in a stage, in a version, or in a dependency on a resource that a condition removes.

cfn-lint checks every condition in both states. Sources:
https://github.com/aws/serverless-application-model, https://github.com/aws-cloudformation/cfn-lint
"""

import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from cfnlint.api import ManualArgs, lint
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from samtranslator.model.exceptions import InvalidDocumentException
from samtranslator.public.translator import ManagedPolicyLoader
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

from a2a_lambda.agent.card_file import yaml_mistake
from a2a_lambda.agent.configuration import kind_of
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.mistakes import did_you_mean
from tools.agents.stage_parameters import faults_of_stages
from tools.agents.stages import notes_for_github, read_stages
from tools.build import check
from tools.command import reports_errors
from tools.deployment.account import REGIONS

ROOT = Path(__file__).parents[2]

TEMPLATE = ROOT / "template.yaml"

PLAIN_TEMPLATES = tuple(sorted((ROOT / "templates").glob("*.yaml")))
"""Templates that need no transform."""

WITHOUT_REGION = ("deploy-role.yaml",)
"""Of these, those with IAM alone, which is the same in every region. With all regions they take minutes: of
each !Sub, cfn-lint tries every combination of values, and `AWS::Region` has one for each region."""

RELEASE_PARAMETERS: tuple[Mapping[str, str], ...] = (
    {},
    {"Rollout": "Canary10Percent5Minutes", "Release": "0" * 64},
)
"""Parameters that SAM itself reads. Each state gives another template."""

MAX_CHOICES_CHARACTERS = 500

ENVIRONMENT_PATH = ("Resources", "AgentPolicy", "Metadata", "Environment")
"""Where a fork's part of template.yaml has the variables of its agents."""

VARIABLE_NAME = re.compile("[A-Za-z][A-Za-z0-9_]+")

FUNCTION_NAME = re.compile("Ref|Fn::[A-Za-z]+")

TEXT_TAG, MERGE_TAG = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
"""What YAML 1.1 calls a text, and the key `<<`."""

JSON_TAGS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("bool", "int", "float"))
"""What YAML 1.1 calls the values that need no quotes if JSON spells them in the same way."""

MAX_MERGES = 10
"""Merges within merges that are followed: a mapping may be merged into itself."""

USED_BY_SAM = ("W2001 Parameter Release", "W7001 Mapping 'Rollouts'")

ABSENCE = re.compile("(Resource type '(.+)' does not exist in )'.+'")

ONLY_WITH_IT = "GetAtt to resource 'RolloutRole'"
"""Not a fault: the deployment groups, which refer to the role, have the same condition as the role."""


class _NoPolicies(ManagedPolicyLoader):  # type: ignore[misc]
    """The templates name managed policies by ARN, so IAM need not be asked."""

    def __init__(self) -> None:
        self._policy_map: dict[str, str] = {}

    def load(self) -> Any:
        return {}


def translate(
    source: str, parameters: Mapping[str, str] = RELEASE_PARAMETERS[0], *, artifact: str = "key"
) -> Any:
    """The template that SAM makes. Raises ConfigurationError.

    artifact: S3 key of code and layers, which sam deploy inserts.
    """
    try:
        template = yaml_parse(source)
        json.dumps(template, sort_keys=True)  # as SAM does
    except yaml.YAMLError as error:
        raise ConfigurationError(yaml_mistake(TEMPLATE, error)) from None
    except (TypeError, ValueError) as error:  # ValueError: of a date that does not exist
        raise ConfigurationError(
            f"{TEMPLATE.name} has a name or a value that YAML does not read as text, such as the date"
            f" 2012-10-17: put it in quotes ({error})"
        ) from None
    match template:
        case {"Globals": {"Function": dict(function)}, "Resources": dict(resources)}:
            pass
        case _:
            raise ConfigurationError(
                f"{TEMPLATE.name} needs its lines Globals, Function and Resources: put them back"
            )
    template.pop("Metadata", None)
    function["CodeUri"] = code = f"s3://bucket/{artifact}"
    for name, resource in resources.items():
        properties = resource.setdefault("Properties", {}) if isinstance(resource, dict) else None
        if not isinstance(properties, dict):
            problem = "it has no Properties" if isinstance(resource, dict) else "it has no Type"
            raise ConfigurationError(
                f"{TEMPLATE.name}: the resource {name}: {problem}: write it below, two spaces further to the"
                " right"
            )
        if "ContentUri" in properties:
            properties["ContentUri"] = code
        if "TemplateURL" in properties:
            properties["TemplateURL"] = "https://s3.amazonaws.com/bucket/template"
    level = logging.getLogger("samtranslator").level
    logging.getLogger("samtranslator").setLevel(logging.CRITICAL)
    try:
        return transform(template, dict(parameters), _NoPolicies())
    except InvalidDocumentException as error:
        reasons = "; ".join(cause.message for cause in error.causes) or error.message
        raise ConfigurationError(f"{TEMPLATE.name}: SAM refuses the template: {reasons}") from None
    finally:
        logging.getLogger("samtranslator").setLevel(level)


def faults(template: str, regions: Sequence[str] = REGIONS) -> Iterator[str]:
    """What cfn-lint reports for a template, in any of these regions. A fault may come several times."""
    matches = lint(template, config=ManualArgs(regions=list(regions)))
    absences = {match.message for match in matches}
    for match in matches:
        message, absence = match.message, ABSENCE.fullmatch(match.message)
        if absence and all(f"{absence[1]}'{region}'" in absences for region in regions):
            types = PROVIDER_SCHEMA_MANAGER.get_resource_types(regions[0])
            message = f"Resource type {absence[2]} is unknown{did_you_mean(absence[2], types)}"
        text = f"{match.rule.id} {_shorten(message)}"
        path = getattr(match, "path", ())  # YAML that cannot be parsed has none
        place = ".".join(map(str, path)) or f"line {match.linenumber}"
        is_of_group = ONLY_WITH_IT in text and "DeploymentGroup.Properties.ServiceRoleArn" in place
        if not text.startswith(USED_BY_SAM) and not is_of_group:
            yield f"{place}: {text}"


def _shorten(message: str) -> str:
    """A message with the one choice that is meant, if one is close, instead of all that cfn-lint lists, which
    may be hundreds."""
    word, separator, choices = message.partition(" is not one of ")
    hint = did_you_mean(word.strip("'"), re.findall("'([^']+)'", choices))
    if not separator or (hint == "." and len(choices) < MAX_CHOICES_CHARACTERS):
        return message
    return f"{word} is unknown{hint}"


def faults_of_environment(source: str) -> Iterator[str]:
    """What AWS would refuse, or the kit or YAML would replace, of the variables that a fork's part of the
    template gives its agents. Neither SAM nor cfn-lint sees it. Raises ConfigurationError.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
    """
    try:
        node = yaml.compose(source)  # not yaml_parse: a value that YAML changes still has its own text
    except yaml.YAMLError as error:
        raise ConfigurationError(yaml_mistake(TEMPLATE, error)) from None
    for key in ENVIRONMENT_PATH:
        entries = node.value if isinstance(node, yaml.MappingNode) else []
        node = next((value for name, value in entries if name.value == key), None)
    if not isinstance(node, yaml.MappingNode | None):
        yield f"{TEMPLATE.name}: {'.'.join(ENVIRONMENT_PATH)} must have lines of NAME: value, or be {{}}"
        return
    pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    _collect_pairs(node, pairs)
    for name, value in pairs.values():
        if problem := _problem_of_name(name) or _problem_of_value(value):
            yield f"{TEMPLATE.name}: environment variable {name.value}: {problem}"


def _collect_pairs(
    node: yaml.Node | None, pairs: dict[str, tuple[yaml.Node, yaml.Node]], depth: int = 0
) -> None:
    """Add the names and values of a mapping, with those that `<<` merges into it, which count less."""
    entries = node.value if isinstance(node, yaml.MappingNode) and depth < MAX_MERGES else []
    # Of two equal names the last counts.
    own_pairs = {str(name.value): (name, value) for name, value in entries if name.tag != MERGE_TAG}
    for key, pair in own_pairs.items():
        pairs.setdefault(key, pair)
    for name, value in reversed(entries):
        if name.tag == MERGE_TAG:
            for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                _collect_pairs(merged, pairs, depth + 1)


def _problem_of_name(name: yaml.Node) -> str:
    """What is wrong with the name of an environment variable; "" = nothing."""
    if name.tag != TEXT_TAG:
        return "YAML does not read this name as text: put it in quotes"
    if not VARIABLE_NAME.fullmatch(name.value):
        return "a name begins with a letter, and has two or more letters, digits or underscores"
    if name.value.startswith("A2A_"):
        return "names that begin with A2A_ are the kit's"
    kind = kind_of(name.value)
    return f"it is not read on AWS: use make {kind} STACK=…" if kind else ""


def _problem_of_value(value: yaml.Node) -> str:
    """What is wrong with the value of an environment variable; "" = nothing."""
    if value.tag == TEXT_TAG or value.tag.startswith("!"):  # as !Ref does
        return ""
    if isinstance(value, yaml.ScalarNode):
        # AWS gets the JSON of what YAML has read, such as 750 for 12:30.
        has_json = value.tag in JSON_TAGS
        is_changed = not has_json or json.dumps(yaml.safe_load(value.value)) != value.value
        advice = f"put {value.value} in quotes" if value.value else 'write "" if it is to be empty'
        return f"YAML does not read its value as text: {advice}" if is_changed else ""
    names = [key.value for key, _ in value.value] if isinstance(value, yaml.MappingNode) else []
    is_function = len(names) == 1 and FUNCTION_NAME.fullmatch(str(names[0]))
    return "" if is_function else "its value must be a text or one function, such as !Ref"


def _faults_of_source(source: str) -> list[str]:
    """Those of template.yaml, in each state that SAM makes of it. SAM itself would refuse some faults of the
    environment, without saying where they are."""
    try:
        if faults_there := list(faults_of_environment(source)):
            return faults_there
        translations = [json.dumps(translate(source, state), indent=1) for state in RELEASE_PARAMETERS]
    except ConfigurationError as error:
        return [str(error)]
    return [f"{TEMPLATE.name}, translated: {fault}" for text in translations for fault in faults(text)]


def faults_of(path: Path) -> Iterator[str]:
    """Those of a template that needs no transform."""
    regions = REGIONS[:1] if path.name in WITHOUT_REGION else REGIONS
    return faults(path.read_text("utf-8"), regions)


def all_faults(*, with_agents: bool) -> Iterator[str]:
    """Faults of the stages come first, because checking the templates takes long. with_agents: as in
    faults_of_stages."""
    try:
        yield from faults_of_stages(with_agents=with_agents)
    except ConfigurationError as error:
        yield str(error)
    yield from _faults_of_source(TEMPLATE.read_text("utf-8"))
    for path in PLAIN_TEMPLATES:
        for fault in faults_of(path):
            yield f"templates/{path.name}: {fault}"


@reports_errors
def main() -> int:
    """Returns the process's exit status."""
    os.environ.setdefault("AWS_DEFAULT_REGION", REGIONS[0])
    status = check.main(["check"])  # prints what is wrong with an agent
    lines: set[str] = set()
    for fault in all_faults(with_agents=not status):
        if fault not in lines:
            print(fault, file=sys.stderr, flush=True)
        lines.add(fault)
    with suppress(ConfigurationError):  # it is among the faults
        for note in notes_for_github(read_stages()):
            print(f"note: {note}")
    if not lines and not status:
        print("template.yaml, templates/, samconfig.toml, agents: valid")
    return 1 if lines or status else 0


if __name__ == "__main__":
    sys.exit(main())
