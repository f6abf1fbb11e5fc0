"""Repositories of the kit and of a fork of it, in an older release and today's."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conftest import AGENTS, ROOT
from tests.helpers.project import SAMCONFIG, with_place
from tools.fork import rename
from tools.fork.owned import README_MARK, is_own

STATEMENT = """          - Sid: Orders
            Effect: Allow
            Action: [s3:GetObject]
            Resource: !Sub arn:${AWS::Partition}:s3:::my-bucket/*
"""

IGNORED = shutil.ignore_patterns("__pycache__")

IDENTITY = {
    **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "A fork"),
    **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "fork@example.com"),
    "GIT_CONFIG_GLOBAL": os.devnull,
    "CI": "",  # there, make refuses a lock that does not match, which a merge with conflicts leaves
}


class Repository:
    def __init__(self, folder: Path, uv: Mapping[str, str]) -> None:
        """uv: its variables, for an index on this machine."""
        self.folder, self.uv = folder, uv
        self.environment = {**os.environ, **IDENTITY, **uv}

    def run(self, *command: str, fails: bool = False) -> str:
        result = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert bool(result.returncode) is fails, result.stdout + result.stderr
        return result.stdout + result.stderr

    def copy(self, folder: Path) -> "Repository":
        shutil.copytree(self.folder, folder, symlinks=True, ignore=shutil.ignore_patterns(".venv"))
        return Repository(folder, self.uv)

    def lock(self) -> None:
        if (ROOT / ".uv").exists() and not (self.folder / ".uv").exists():
            (self.folder / ".uv").symlink_to(ROOT / ".uv")
        self.run("make", "lock")

    def commit(self, message: str) -> None:
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", "--message", message)

    def edit(self, path: str, old: str, new: str) -> None:
        target = self.folder / path
        text = target.read_text("utf-8")
        assert old in text, (path, old)
        target.write_text(text.replace(old, new, 1), "utf-8")


EXAMPLE = "functions/agents/assistant"

EMPTY = """[project]
name = "{}"
version = "0"
requires-python = ">=3.11"
"""


def write_kit(made: Repository) -> None:
    """Today's kit, without what this checkout's fork has changed in its own places."""
    folder = made.folder
    for path in tracked():
        if not is_own(path):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, target)
    example = folder / EXAMPLE
    shutil.copytree(AGENTS / "assistant", example, ignore=IGNORED, dirs_exist_ok=True)
    (example / "tests").mkdir(exist_ok=True)
    shutil.copytree(AGENTS / "plain", folder / "examples" / "plain", ignore=IGNORED, dirs_exist_ok=True)
    (folder / "samconfig.toml").write_text(SAMCONFIG)
    packages = folder / "layers" / "agents"
    (packages / "packages.txt").write_text("# The agents' packages.\n")
    (packages / "requirements.txt").write_text("")
    template, readme, pyproject = (folder / name for name in ("template.yaml", "README.md", "pyproject.toml"))
    template.write_text(with_place(template.read_text()))
    readme.write_text(f"# A2A Lambda Kit\n\n{README_MARK}{readme.read_text().partition(README_MARK)[2]}")
    pyproject.write_text(rename.project(pyproject.read_text(), "a2a-lambda-kit"))
    for environment in (folder / "environments").iterdir():  # the tools' packages are not merged
        if (environment / "uv.lock").exists():
            (environment / "pyproject.toml").write_text(EMPTY.format(environment.name))
    (folder / "uv.lock").unlink()  # it names packages of PyPI
    made.lock()


def tracked() -> list[str]:
    result = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for path in result.stdout.splitlines() if (ROOT / path).is_file()]


def make_releases(kit: Repository) -> None:
    """The kit's repository: an older release, v0.0.1, and today's files as v0.0.2."""
    write_kit(kit)
    kit.run("git", "init", "--quiet", "--initial-branch=main")
    # What releases change: code, documents, the template around the fork's place, locks, the example.
    kit.edit("layers/a2a/a2a_lambda/kit.py", "class Kit:", "class OldKit:")
    kit.edit("README.md", "## Getting started", "## Begin")
    kit.edit("template.yaml", "A2A agents on AWS Lambda: the", "The A2A agents on AWS Lambda: the")
    kit.edit("template.yaml", "  Table:\n", "  Table: # of tasks\n")
    kit.edit("template.yaml", "          - Sid: Files", "          - Sid: Files # of an older kit")
    kit.edit("template.yaml", "# Everything from here on.", "# All that follows.")
    kit.edit("pyproject.toml", '  "uvicorn",\n', "")
    (kit.folder / "pyproject.toml").write_text(
        re.sub(r'(?m)^version = ".*"', 'version = "0.0.0"', (kit.folder / "pyproject.toml").read_text())
    )
    kit.edit("uv.lock", "revision", "# older\nrevision")
    kit.edit("layers/dependencies/requirements.txt", "mangum==", "mangum==0.0.0+")
    kit.edit(f"{EXAMPLE}/agent.py", "Keep moving.", "Move.")
    (kit.folder / "docs/authoring.md").unlink()
    (kit.folder / "examples").rename(kit.folder / "samples")
    kit.edit("samconfig.toml", "LogDays=7", "LogDays=14")
    kit.commit("an older kit")
    kit.run("git", "tag", "v0.0.1")
    write_kit(kit)
    shutil.rmtree(kit.folder / "samples")
    (kit.folder / EXAMPLE / "tests" / "test_example.py").write_text("# new\n")
    kit.commit("today's kit")
    kit.run("git", "tag", "v0.0.2")


def make_fork(fork: Repository, kit: Repository) -> None:
    """A fork of the older release, with agents, packages, permissions and settings of its own."""
    subprocess.run(["git", "clone", "--quiet", "--branch=v0.0.1", str(kit.folder), fork.folder], check=True)
    fork.run("git", "checkout", "--quiet", "-b", "ours")
    fork.run("git", "remote", "remove", "origin")
    shutil.rmtree(fork.folder / "functions/agents/assistant")
    shop = fork.folder / "functions/agents/shop"
    shutil.copytree(AGENTS / "plain", shop, ignore=IGNORED)
    (shop / "tests").mkdir()
    (shop / "tests" / "test_shop.py").write_text("# ours\n")
    (fork.folder / "samples" / "ours.md").write_text("Beside files that the kit has moved.\n")
    (fork.folder / "layers/agents/packages.txt").write_text("anvil\n")
    fork.edit("template.yaml", "          - Sid: Files", f"{STATEMENT}          - Sid: Files")
    fork.edit("template.yaml", "        SHOP: !Ref AWS::StackName", "        SHOP: acme")
    fork.edit("samconfig.toml", '"a2a-dev"', '"acme-dev"')
    fork.edit("README.md", "# A2A Lambda Kit\n", "# Acme\n\nAgents that sell anvils.\n")
    fork.edit("pyproject.toml", 'name = "a2a-lambda-kit"', 'name = "acme"')
    fork.lock()
    fork.commit("ours")


def own(repository: Repository) -> dict[str, Any]:
    files = repository.run("git", "ls-files").splitlines()
    return {path: (repository.folder / path).read_bytes() for path in files if is_own(path)}
