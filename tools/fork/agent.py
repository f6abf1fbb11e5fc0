"""make agent NAME=weather [FROM=bedrock]: a new agent, with a card, a skill and a test that passes; or a copy
of a recipe, with its packages."""

import importlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from a2a_lambda.agent.agent import Agent
from a2a_lambda.catalog.agents import read_cards
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.mistakes import did_you_mean
from a2a_lambda.protocol.card import check_name
from a2a_lambda.settings import Settings
from tools.agents.locks import LOCK
from tools.build import packages
from tools.command import agent_folders, reports_errors

SCHEMA = "# yaml-language-server: $schema=../../../schemas/card.json\n"
"""Editors complete and check card.yaml by it."""

CARD = """name: Hello
description: Greets people by name.
version: 0.1.0
skills:
  - id: greet
    name: Greet
    description: Greets a person.
    tags: [greeting]
    examples: [Ann]
"""
"""The README shows it."""

CODE = """from a2a_lambda import Turn, skill


@skill
def greet(turn: Turn, greeting: str = "Hello") -> str:
    return f"{greeting}, {turn.text}!"
"""

TEST = """import asyncio
from pathlib import Path

from a2a_lambda import Agent

agent = Agent.load(Path(__file__).parents[1])


def test_it_greets() -> None:
    answer = asyncio.run(agent.run("Ann"))
    assert answer.state == "completed"
    assert answer.text == "Hello, Ann!"
"""

RECIPES = Path("recipes")

DEFAULT = "default: true # answers at the root of the API; the others answer at /a2a/<name>\n"


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    name, recipe = environ.get("NAME", ""), environ.get("FROM", "")
    if not name:
        words = f"NAME=weather FROM={recipe}" if recipe else "NAME=weather"
        raise ConfigurationError(f"name the agent: make agent {words}")
    agents = Settings.of(environ).agents
    # The path of a recipe's folder names it, too.
    lines = copy_recipe(agents, name, RECIPES / Path(recipe).name) if recipe else create(agents, name)
    for line in lines:
        print(line)
    print(f"""
Next: make run, then make chat AGENT={name} in another terminal. Edit {agents / name / "agent.py"};
make test AGENT={name} runs its test""")
    return 0


def create(agents: Path, name: str) -> list[str]:
    """Write an agent's files; returns what to print. Raises ConfigurationError: then there is nothing new."""
    _check_absent(agents, name)
    return _write(agents, name, {"card.yaml": CARD, "agent.py": CODE}, TEST)


def copy_recipe(
    agents: Path, name: str, recipe: Path, add: Callable[[Sequence[str], Path], object] = packages.add
) -> list[str]:
    """Copy a recipe, and add its packages to the agent's own list; returns what to print. Raises
    ConfigurationError: then there is no new agent."""
    recipes = sorted(path.parent.name for path in recipe.parent.glob("*/agent.py"))
    if recipe.name not in recipes:
        hint = did_you_mean(recipe.name, recipes)
        raise ConfigurationError(f"there is no recipe {recipe.name!r}{hint} Recipes: {', '.join(recipes)}")
    _check_absent(agents, name)
    requirements = recipe / "packages.txt"
    if requirements.exists():
        (agents / name).mkdir(parents=True, exist_ok=True)
        try:
            add(requirements.read_text("utf-8").split(), agents / name / "packages.txt")
        except BaseException:  # also Ctrl-C: the folder would stop another try
            shutil.rmtree(agents / name)
            raise
        importlib.invalidate_caches()
    [test] = (recipe / "tests").glob("test_*.py")
    files = {file: (recipe / file).read_text("utf-8") for file in ("card.yaml", "agent.py")}
    report = _write(agents, name, files, test.read_text("utf-8"))
    if requirements.exists():
        report.append(f"Commit {agents / name}, and {LOCK.as_posix()}.")
    code = files["agent.py"]
    needs_to_run = [f"make secret NAME={secret}" for secret in _names_in(r'turn\.secret\("([^"]+)"\)', code)]
    needs_to_run += [
        f"make setting NAME={setting} VALUE=…" for setting in _names_in(r'turn\.setting\("([^"]+)"\)', code)
    ]
    needs_to_deploy = []
    if re.search(r"import boto3|BedrockModel", code):
        needs_to_run.append("set AWS_PROFILE and AWS_REGION: it calls the real AWS, also under make run")
        needs_to_deploy.append("allow its calls in AgentPolicy, at the top of template.yaml")
    if Agent.load(agents / name).card.durable_skills:
        line = 'add "ExecutionTimeout=2592000" to parameter_overrides of each stage in samconfig.toml'
        needs_to_deploy.append(line)
    for heading, needs in (("Before you run it:", needs_to_run), ("Before you deploy it:", needs_to_deploy)):
        if needs:
            report += [heading, *(f"  {line}" for line in needs)]
    return [*report, f"{recipe}/README.md explains the code."]


def _names_in(pattern: str, code: str) -> list[str]:
    return list(dict.fromkeys(re.findall(pattern, code)))


def _check_absent(agents: Path, name: str) -> None:
    """Raises ConfigurationError if there cannot be a new agent of this name."""
    check_name(name, str(agents))
    others = [path for path in agents.glob("*") if path.name != name and path.name.lower() == name.lower()]
    if others:
        raise ConfigurationError(
            f"there is {others[0]}, and some file systems do not tell upper from lower case. Choose another"
            " name"
        )
    # A branch that has the agent may have left a folder with compiled files alone.
    folder = agents / name
    paths = [path for path in (folder, *folder.rglob("*")) if "__pycache__" not in path.parts]
    if any(path.is_symlink() or (path.exists() and not path.is_dir()) for path in paths):
        raise ConfigurationError(f"{folder} exists already. Choose another name, or delete it")


def _write(agents: Path, name: str, texts: Mapping[str, str], test: str) -> list[str]:
    """Write the files of a new agent; returns what was done. If that fails, the agent's folder is deleted
    again. Raises ConfigurationError, OSError."""
    folder = agents / name
    cards = read_cards(agents)[0] if agent_folders(agents) else {}
    files = {folder / file: text for file, text in texts.items()}
    title = name.replace("-", " ").replace("_", " ").title()
    card = re.sub(r"\Aname: .*", f'name: "{title}"', texts["card.yaml"])
    files[folder / "card.yaml"] = SCHEMA + card
    files[folder / "tests" / f"test_{name.replace('-', '_')}.py"] = test
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        Agent.load(folder)
        report = [f"wrote {path}" for path in files]
        if len(cards) == 1 and not any(card.default for card in cards.values()):
            [other] = cards
            report.append(_make_default(agents / other / "card.yaml"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return report


def _make_default(card: Path) -> str:
    """Make an agent the default one, by its card; returns what was done."""
    lines = [line for line in card.read_text("utf-8").splitlines() if not line.startswith("default:")]
    card.write_text("\n".join([*lines, DEFAULT]), "utf-8")
    return f"added `default: true` to {card}, because one of several agents must answer at the root"


if __name__ == "__main__":
    sys.exit(main())
