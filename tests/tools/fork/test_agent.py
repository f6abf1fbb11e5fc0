"""make agent: what it writes loads, and its test passes."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from a2a_lambda.agent.agent import Agent
from a2a_lambda.agent.card_file import read_card
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.errors import ConfigurationError
from tests.agent.folders import write
from tests.conftest import ROOT
from tools.fork.agent import copy_recipe, create

PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-c",
    str(ROOT / "pyproject.toml"),
    "-p",
    "no:cacheprovider",
    "-n",
    "0",
]


def test_a_name_that_differs_by_case_alone_is_refused(tmp_path: Path) -> None:
    create(tmp_path, "hello")
    with pytest.raises(ConfigurationError, match="Choose another name"):
        create(tmp_path, "Hello")


def test_a_new_agent_loads_and_its_test_passes(tmp_path: Path) -> None:
    for name in ("weather", "my-report", "2", "on"):
        create(tmp_path, name)
    assert set(Agents.of_folder(tmp_path)) == {"weather", "my-report", "2", "on"}
    result = subprocess.run(
        [*PYTEST, f"--rootdir={tmp_path}", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 passed" in result.stdout


def test_the_readme_shows_what_is_written(tmp_path: Path) -> None:
    create(tmp_path, "hello")
    for readme in ("README.md", "README.zh-CN.md"):
        text = (ROOT / readme).read_text("utf-8")
        assert (tmp_path / "hello" / "agent.py").read_text() in text
        assert (tmp_path / "hello" / "card.yaml").read_text().partition("\n")[2] in text


def test_the_first_agent_stays_the_default(tmp_path: Path) -> None:
    write(tmp_path, "@skill\ndef hello(turn): return 'x'", name="first")
    output = create(tmp_path, "second")
    assert any("first/card.yaml" in line and "default: true" in line for line in output)
    create(tmp_path, "third")
    assert Agents.of_folder(tmp_path).default == "first"


@pytest.mark.parametrize("name", ["v1", "a b", "../up", "stream", "Ümlaut"])
def test_a_name_that_cannot_be_an_agents_leaves_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the name"):
        create(tmp_path / "agents", name)
    assert not list(tmp_path.rglob("*.*"))


def test_an_agent_is_not_overwritten(tmp_path: Path) -> None:
    create(tmp_path, "weather")
    (tmp_path / "weather" / "agent.py").write_text("mine")
    with pytest.raises(ConfigurationError, match="exists already"):
        create(tmp_path, "weather")
    assert (tmp_path / "weather" / "agent.py").read_text() == "mine"


@pytest.mark.parametrize("recipe", sorted(path.parent.name for path in (ROOT / "recipes").glob("*/agent.py")))
def test_every_recipe_is_complete(recipe: str) -> None:
    """Its own tests run in the environment of its packages; here is what `make agent FROM` needs."""
    folder = ROOT / "recipes" / recipe
    card = read_card(folder / "card.yaml")
    assert [skill.id for skill in card.skills]
    assert len(list((folder / "tests").glob("test_*.py"))) == 1
    page = (folder / "README.md").read_text()
    assert f"FROM={recipe}" in page
    for setting in re.findall(r'turn\.setting\("([^"]+)"', (folder / "agent.py").read_text()):
        assert setting in page or f"NAME={setting}" in page
    assert f"[{recipe}]({recipe}/README.md)" in (ROOT / "recipes/README.md").read_text()


@pytest.mark.slow
def test_the_packages_of_recipes_fit_those_of_the_kit() -> None:
    """make agent FROM=… adds them within the kit's versions, and the recipes' own tests have others."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    kits_versions = {package["name"]: package["version"] for package in packages if "version" in package}
    [folder] = (ROOT / ".venvs" / "recipes" / "lib").glob("python*/site-packages")
    distributions = [*metadata.distributions(path=[str(folder)])]
    assert "strands-agents" in {each.name for each in distributions}
    for distribution in distributions:
        if canonicalize_name(distribution.name) in kits_versions:
            continue  # it comes in the kit's version
        for requirement in map(Requirement, distribution.requires or ()):
            version = kits_versions.get(canonicalize_name(requirement.name))
            is_needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if is_needed and version is not None:
                assert requirement.specifier.contains(version, prereleases=True), distribution.name


def test_an_agent_begins_with_a_recipe(tmp_path: Path) -> None:
    additions: list[tuple[Sequence[str], Path]] = []
    recipe = tmp_path / "recipes" / "greeter"
    shutil.copytree(ROOT / "recipes" / "long-job", recipe)
    (recipe / "packages.txt").write_text("anvil\n")
    code = (recipe / "agent.py").read_text()
    (recipe / "agent.py").write_text(f'{code}\n\ndef key(turn: Turn) -> str:\n    return turn.secret("x")\n')
    output = copy_recipe(tmp_path / "agents", "mine", recipe, lambda *what: additions.append(what))
    assert additions == [(["anvil"], tmp_path / "agents/mine/packages.txt")]
    assert read_card(tmp_path / "agents/mine/card.yaml").name == "Mine"
    assert "  make secret NAME=x" in output
    assert f"Commit {tmp_path / 'agents/mine'}, and layers/agents/requirements.txt." in output
    assert (tmp_path / "agents/mine/tests/test_mine.py").exists()
    assert set(Agents.of_folder(tmp_path / "agents")) == {"mine"}


@pytest.mark.parametrize(
    ("recipe", "line"),
    [
        ("bedrock", "  set AWS_PROFILE and AWS_REGION: it calls the real AWS, also under make run"),
        ("bedrock", "  allow its calls in AgentPolicy, at the top of template.yaml"),
        ("trip", '  add "ExecutionTimeout=2592000" to parameter_overrides of each stage in samconfig.toml'),
    ],
)
def test_what_a_recipe_needs_is_said(tmp_path: Path, recipe: str, line: str) -> None:
    report = copy_recipe(tmp_path / "agents", "mine", ROOT / "recipes" / recipe, lambda *_: None)
    heading = "Before you run it:" if "AWS_PROFILE" in line else "Before you deploy it:"
    assert report.index(heading) < report.index(line)


def test_an_unknown_recipe_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no recipe 'nope'.* Recipes: .*bedrock.*strands"):
        copy_recipe(tmp_path / "agents", "mine", ROOT / "recipes" / "nope")
    assert not list(tmp_path.iterdir())
    create(tmp_path / "agents", "mine")

    def add(*_: object) -> None:
        raise AssertionError("no package is added for an agent that cannot be made")

    with pytest.raises(ConfigurationError, match="exists already"):
        copy_recipe(tmp_path / "agents", "mine", ROOT / "recipes" / "openai", add)


def test_an_interrupted_copy_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def add(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_recipe(tmp_path / "agents", "mine", ROOT / "recipes" / "openai", add)
    assert not (tmp_path / "agents" / "mine").exists()
    monkeypatch.setattr(Agent, "load", add)
    with pytest.raises(KeyboardInterrupt):
        create(tmp_path / "agents", "mine")
    assert not (tmp_path / "agents" / "mine").exists()


def test_a_recipe_that_cannot_be_loaded_leaves_nothing(tmp_path: Path) -> None:
    recipe = tmp_path / "recipes" / "broken"
    shutil.copytree(ROOT / "recipes" / "long-job", recipe)
    (recipe / "agent.py").write_text("import no_such_module\n")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="no_such_module"):
            copy_recipe(tmp_path / "agents", "mine", recipe)
        assert not (tmp_path / "agents" / "mine").exists()


def test_a_folder_of_compiled_files_is_no_agent(tmp_path: Path) -> None:
    """Another branch has the agent, and git leaves what it does not track."""
    (tmp_path / "mine" / "__pycache__").mkdir(parents=True)
    (tmp_path / "mine" / "__pycache__" / "agent.pyc").write_bytes(b"")
    create(tmp_path, "mine")


@pytest.mark.parametrize("kind", ["agent", "file", "link", "folder with a link"])
def test_a_name_that_is_taken_is_refused(tmp_path: Path, kind: str) -> None:
    folder, nowhere = tmp_path / "mine", tmp_path / "nowhere"
    match kind:
        case "agent":
            create(tmp_path, "mine")
        case "file":
            folder.write_text("")
        case "link":
            folder.symlink_to(nowhere)
        case _:
            folder.mkdir()
            (folder / "tests").symlink_to(nowhere)
    with pytest.raises(ConfigurationError, match="exists already"):
        create(tmp_path, "mine")
    assert folder.is_symlink() or folder.exists(), "what was there stays"
