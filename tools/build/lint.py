"""make validate: cfn-lint on the template that AWS gets, into which SAM transforms template.yaml. It can have
faults that the source does not show: in a stage, in a version, or in a dependency on a resource that a
condition removes.

cfn-lint checks every condition in both states. Sources:
https://github.com/aws/serverless-application-model, https://github.com/aws-cloudformation/cfn-lint
"""

import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from cfnlint.api import ManualArgs, lint
from samtranslator.model.exceptions import InvalidDocumentException
from samtranslator.public.translator import ManagedPolicyLoader
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

from a2a_lambda.agent.card_file import yaml_mistake
from a2a_lambda.agent.configuration import VARIABLE_PREFIXES
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.mistakes import did_you_mean
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

ENVIRONMENT = ("Resources", "AgentPolicy", "Metadata", "Environment")
"""Where a fork's part of template.yaml has the variables of its agents."""

VARIABLE_NAME = re.compile("[A-Za-z][A-Za-z0-9_]+")

USED_BY_SAM = ("W2001 Parameter Release", "W7001 Mapping 'Rollouts'")

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
    except yaml.YAMLError as error:
        raise ConfigurationError(yaml_mistake(TEMPLATE, error)) from None
    template.pop("Metadata", None)
    code = f"s3://bucket/{artifact}"
    template["Globals"]["Function"]["CodeUri"] = code
    for resource in template["Resources"].values():
        properties = resource.setdefault("Properties", {})
        if "ContentUri" in properties:
            properties["ContentUri"] = code
        if "TemplateURL" in properties:
            properties["TemplateURL"] = "https://s3.amazonaws.com/bucket/template"
    level = logging.getLogger("samtranslator").level
    logging.getLogger("samtranslator").setLevel(logging.CRITICAL)
    try:
        return transform(template, dict(parameters), _NoPolicies())
    except InvalidDocumentException as error:
        raise ConfigurationError(f"{TEMPLATE.name}: SAM refuses the template: {error.message}") from None
    finally:
        logging.getLogger("samtranslator").setLevel(level)


def faults(template: str, regions: Sequence[str] = REGIONS) -> Iterator[str]:
    """What cfn-lint reports for a template, in any of these regions."""
    for match in lint(template, config=ManualArgs(regions=list(regions))):
        text = f"{match.rule.id} {_shorten(match.message)}"
        path = getattr(match, "path", ())  # YAML that cannot be parsed has none
        place = ".".join(map(str, path)) or f"line {match.linenumber}"
        is_of_group = ONLY_WITH_IT in text and "DeploymentGroup.Properties.ServiceRoleArn" in place
        if not text.startswith(USED_BY_SAM) and not is_of_group:
            yield f"{place}: {text}"


def _shorten(message: str) -> str:
    """A message without the hundreds of choices that cfn-lint may list: only one that is meant."""
    word, separator, choices = message.partition(" is not one of ")
    if not separator or len(choices) < MAX_CHOICES_CHARACTERS:
        return message
    hint = did_you_mean(word.strip("'"), re.findall("'([^']+)'", choices))
    return f"{word} is unknown{hint}"


def faults_of_environment(source: str) -> Iterator[str]:
    """What AWS would refuse, or the kit would replace, of the variables that a fork's part of the template
    gives its agents. Neither SAM nor cfn-lint sees it.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
    """
    variables = yaml_parse(source)
    for key in ENVIRONMENT:
        variables = variables.get(key) if isinstance(variables, dict) else None
    if not isinstance(variables, dict | None):
        yield f"{TEMPLATE.name}: {'.'.join(ENVIRONMENT)} must be lines of NAME: value, not {variables!r}"
        return
    for name, value in (variables or {}).items():
        is_function = isinstance(value, dict) and any(re.match("Ref$|Fn::", str(key)) for key in value)
        if not isinstance(name, str):
            problem = f"YAML reads the name of an environment variable as {name!r}: put it in quotes"
        elif not VARIABLE_NAME.fullmatch(name):
            problem = (
                f"environment variable {name}: a name begins with a letter, and has two or more letters,"
                " digits or underscores"
            )
        elif name.startswith("A2A_"):
            problem = f"environment variable {name}: names that begin with A2A_ are the kit's"
        elif name.startswith(VARIABLE_PREFIXES):
            kind = name.partition("_")[0].lower()
            problem = f"environment variable {name} is not read on AWS: use make {kind} STACK=…"
        elif not isinstance(value, str | int | float) and not is_function:
            problem = (
                f"environment variable {name}: YAML reads its value as {value!r}: write a text in quotes"
            )
        else:
            continue
        yield f"{TEMPLATE.name}: {problem}"


def faults_of(path: Path) -> Iterator[str]:
    """Those of a template that needs no transform."""
    regions = REGIONS[:1] if path.name in WITHOUT_REGION else REGIONS
    return faults(path.read_text("utf-8"), regions)


def main() -> int:
    """Returns the process's exit status."""
    os.environ.setdefault("AWS_DEFAULT_REGION", REGIONS[0])
    source, lines = TEMPLATE.read_text("utf-8"), list[str]()
    try:
        templates = [translate(source, state) for state in RELEASE_PARAMETERS]
        lines += faults_of_environment(source)
        # A name or a value that is at fault there may have a type that JSON does not have.
        for template in [] if lines else templates:
            translation = json.dumps(template, indent=1)
            lines += [f"{TEMPLATE.name}, translated: {fault}" for fault in faults(translation)]
    except ConfigurationError as error:
        lines.append(str(error))
    for path in PLAIN_TEMPLATES:
        lines += [f"templates/{path.name}: {fault}" for fault in faults_of(path)]
    for fault in dict.fromkeys(lines):
        print(fault, file=sys.stderr)
    if not lines:
        print("template.yaml, templates/: valid")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
