"""A copy of the kit with agents of the tests. What a fork changes in its own files changes no test."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import AGENTS, ROOT
from tools.agents import locks
from tools.build import packages

KIT = ("environments", "events", "functions", "layers", "templates", "tools")

FILES = ("Makefile", "pyproject.toml", "uv.lock", "template.yaml")

SHARED = (".uv", ".venvs")
"""Of this checkout: linked, not copied."""

OWN = ("synced", *(path.name for path in (packages.INSTALLED, packages.UNFINISHED, packages.INSTALLATION)))
"""Files of .venv that say what was installed. A copy has its own, and leaves this checkout's alone."""

SAMCONFIG = """version = 0.1

[dev.deploy.parameters]
stack_name = "a2a-dev"
s3_prefix = "a2a-dev"
resolve_s3 = true
capabilities = "CAPABILITY_IAM CAPABILITY_AUTO_EXPAND"
confirm_changeset = false
fail_on_empty_changeset = false
tags = ["stage=dev"]
parameter_overrides = ["DeletionProtection=false", "LogDays=7"]
"""


PLACE = """Resources:
  # === Yours ===
  AgentPolicy:
    Type: AWS::IAM::ManagedPolicy
    Metadata:
      Environment: &AgentEnvironment
        SHOP: !Ref AWS::StackName
    Properties:
      PolicyDocument:
        Version: "2012-10-17"
        Statement:
          - Sid: Files
            Effect: Allow
            Action: [s3:GetObject]
            Resource: !Sub arn:${AWS::Partition}:s3:::my-bucket/*

"""
"""A fork's place in template.yaml: what is in it changes no test."""


def with_place(template: str, place: str = PLACE) -> str:
    """template.yaml with the tests' own lines instead of the fork's."""
    before, separator, rest = template.partition("Resources:\n  # === Yours")
    _, marker, kits = rest.partition("  # === The kit's")
    assert separator
    assert marker
    return before + place + marker + kits


def copy_kit(folder: Path, agents: Sequence[str] = ("assistant",)) -> Path:
    """Make a folder the project of a fork with some of the tests' agents. What a build left there stays."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = shutil.ignore_patterns("__pycache__")
    for name in KIT:
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    shutil.rmtree(folder / "functions" / "agents")
    for name in FILES:
        shutil.copy2(ROOT / name, folder)
    template = folder / "template.yaml"
    template.write_text(with_place(template.read_text()))
    for name in SHARED:
        if not (folder / name).exists() and (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)
    _link_environment(folder / ".venv")
    for name in agents:
        shutil.copytree(AGENTS / name, folder / "functions" / "agents" / name, ignore=ignore)
    (folder / "samconfig.toml").write_text(SAMCONFIG)
    (folder / locks.LIST).write_text("")
    (folder / locks.LOCK).write_text(packages.header(folder))
    return folder


def _link_environment(folder: Path) -> None:
    """Make .venv what this checkout's is, and newer than everything that it was installed from."""
    folder.mkdir(exist_ok=True)
    for path in (ROOT / ".venv").iterdir():
        if path.name not in OWN and not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)
    (folder / "synced").touch()
