"""make rename NAME=acme-agents: makes a fork its owner's.

It changes the names of the stacks in samconfig.toml, the README's introduction, and pyproject.toml's name.
"""

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from a2a_lambda.errors import ConfigurationError
from tools.agents.locks import LOCK, versions_of
from tools.agents.stages import SAMCONFIG, default_stage, deploy_command, read_stages, stages_in
from tools.command import reports_errors
from tools.fork.owned import README_MARK

NAME = re.compile(r"[a-z]([a-z0-9-]{0,22}[a-z0-9])?")
"""A stack's name is this, a hyphen and the stage."""

STACK_CHARACTERS = 30
"""Maximum length of a stack's name, in characters, as in templates/deploy-role.yaml."""

README, PYPROJECT = Path("README.md"), Path("pyproject.toml")
UV_LOCK = Path("uv.lock")

INTRODUCTION = """# {title}

Our agents, on AWS Lambda. They are in [`functions/agents`](functions/agents).

This is a fork of the A2A Lambda Kit. [Forking](docs/forking.md) says which files are ours. What follows, and
the pages in [`docs`](docs), are about the kit. Where they name the stack `a2a-dev`, ours is `{name}-dev`.

"""


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    name = environ.get("NAME", "")
    if not name:
        raise ConfigurationError("name the project: make rename NAME=acme-agents")
    if not NAME.fullmatch(name) or name.startswith(("aws", "ssm")):
        raise ConfigurationError(
            f"{name!r} cannot be the name. Use up to 24 lower-case letters, digits and hyphens, starting with"
            " a letter, but not with aws or ssm, and ending with a letter or a digit:"
            " make rename NAME=acme-agents"
        )
    _check_packages(name)
    read_stages()  # raises if samconfig.toml is not valid TOML, because its names could not be changed
    _check_stages(stages(SAMCONFIG.read_text("utf-8"), name), name)
    changes = ((SAMCONFIG, stages), (README, introduction), (PYPROJECT, project), (UV_LOCK, lock))
    texts = {path: path.read_text("utf-8") for path, _ in changes if path.exists()}
    if not {README, PYPROJECT} <= texts.keys():
        missing = next(path for path in (README, PYPROJECT) if path not in texts)
        raise ConfigurationError(f"{missing} is missing: git checkout HEAD -- {missing}")
    for path, change in changes:
        if (text := texts.get(path)) is None:
            continue
        new_text = change(text, name)
        path.write_text(new_text, "utf-8")
        print(f"{path}: {'changed' if new_text != text else 'already has that name'}")
    new_stages = read_stages()
    if stage := default_stage(new_stages):
        stack = new_stages[stage]["stack_name"]
        print(
            f"\nNext: {deploy_command()} makes the stack {stack}. Stacks with other names stay as they are."
        )
    return 0


def stages(samconfig: str, name: str) -> str:
    """samconfig.toml with stacks named <name>-<stage>. Comments and everything else stay."""
    stage = ""
    lines = []
    for line in samconfig.splitlines(keepends=True):
        if match := re.match(r"""\s*\[\s*(?:["']([^"']+)["']|([\w-]+))\s*\.""", line):
            stage = re.sub("[^A-Za-z0-9-]", "-", match[1] or match[2])
        new_line = re.sub(
            r"""^(\s*(?:stack_name|s3_prefix)\s*=\s*)("[^"]*"|'[^']*')""", rf'\1"{name}-{stage}"', line
        )
        # One tag as a string, which may have spaces, or one of several.
        tag = r"""(["'])project=[^"'=\\]*\1"""
        new_line = re.sub(tag, rf"\1project={name}\1", new_line)
        new_line = re.sub(r"""(["'\s]project=(?:\\?["'])?)[^"'\s\\]+""", rf"\g<1>{name}", new_line)
        lines.append(line if line.lstrip().startswith("#") else new_line)
    return "".join(lines)


def _check_packages(name: str) -> None:
    """Raises ConfigurationError if a package of the kit, or of the agents, has the name: the fork would take
    its place."""
    packages = tomllib.loads(UV_LOCK.read_text("utf-8"))["package"] if UV_LOCK.exists() else []
    names = {package["name"] for package in packages if "editable" not in package["source"]}
    if name in names | set(versions_of(LOCK)):
        raise ConfigurationError(
            f"{name} is a package that this project installs: choose another name, such as {name}-agents"
        )


def _check_stages(samconfig: str, name: str) -> None:
    """Raises ConfigurationError if a stack would have another name, or two stages the same one."""
    names = [stage["stack_name"] for stage in stages_in(samconfig).values()]
    for stack in names:
        if (excess := len(stack) - STACK_CHARACTERS) > 0:
            raise ConfigurationError(
                f"the stack name {stack} has {len(stack)} characters, and at most {STACK_CHARACTERS} are"
                f" allowed: use a NAME of at most {len(name) - excess} characters"
            )
        if other := next((other for other in names if other.startswith(f"{stack}-")), None):
            raise ConfigurationError(
                f"{SAMCONFIG}: the deploy role of {stack} could change the stack {other}, whose name begins"
                " with it: rename one of the two stages"
            )
    if not all(stack.startswith(f"{name}-") for stack in names) or len(set(names)) < len(names):
        raise ConfigurationError(
            f"{SAMCONFIG}: the stacks would be named {', '.join(names)}: write the stack_name of each stage"
            f' by hand, such as "{name}-prod", and run make rename again'
        )


def lock(text: str, name: str) -> str:
    """uv.lock with the project's new name, which `uv lock` would write there, too."""
    own_entry = r'(?m)^name = "[^"]+"(\nversion = "[^"]+"\nsource = \{ (?:editable|virtual) = "\." \})'
    return re.sub(own_entry, rf'name = "{name}"\1', text)


def introduction(readme: str, name: str) -> str:
    """README.md with the fork's introduction before the kit's part. An introduction that its owner wrote
    stays, and gets the new title."""
    head, marker, kits = readme.partition(README_MARK)
    if not marker:
        return readme
    title = name.replace("-", " ").capitalize()
    if head.strip() == "# A2A Lambda Kit":
        return INTRODUCTION.format(title=title, name=name) + marker + kits
    head = re.sub(r"^# .*", f"# {title}", head, count=1)
    return re.sub(r"ours is `[a-z0-9-]+-dev`", f"ours is `{name}-dev`", head) + marker + kits


def project(pyproject: str, name: str) -> str:
    return re.sub(r'^name = "[^"]*"', f'name = "{name}"', pyproject, count=1, flags=re.MULTILINE)


if __name__ == "__main__":
    sys.exit(main())
