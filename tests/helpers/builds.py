"""What `make build` makes of the kit and the tests' agent, once in a test run."""

import fcntl
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.conftest import ROOT
from tests.helpers.project import copy_kit
from tools.commands import LAMBDA_PYTHON

RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(uuid.uuid4()))
"""Id of the test run, which its processes share."""


@contextmanager
def building() -> Iterator[Path]:
    """The project to build, for one process at a time: tests run side by side, and sam empties a folder
    before it fills it."""
    project = ROOT / ".aws-sam" / "project"
    project.mkdir(parents=True, exist_ok=True)
    with (project.parent / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_of_this_run(project):
            copy_kit(project)
            _mark_of(project).write_text(RUN)
        yield project


@cache
def build(architecture: str, python: str = LAMBDA_PYTHON) -> Path:
    """Folder of `make build` for an architecture."""
    with building() as project:
        folder = project / ".aws-sam" / f"{architecture}-{python}"
        if not _is_of_this_run(folder):
            options = [f"ARCH={architecture}", f"BUILD_DIR={folder}", f"LAMBDA_PYTHON={python}"]
            command = ["make", "build", *options]
            result = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
            assert result.returncode == 0, result.stdout + result.stderr
            _mark_of(folder).write_text(RUN)
    return folder


def _is_of_this_run(folder: Path) -> bool:
    """Whether a process of this test run has made a folder, to its end."""
    mark = _mark_of(folder)
    return folder.exists() and mark.exists() and mark.read_text() == RUN


def _mark_of(folder: Path) -> Path:
    """File that names the test run which has made a folder."""
    return folder.parent / f"{folder.name}.run"
