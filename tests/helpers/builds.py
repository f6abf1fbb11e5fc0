"""What `make build` makes, once in a test run."""

import fcntl
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.conftest import ROOT
from tools.build.built_functions import LAMBDA_PYTHON


@contextmanager
def building() -> Iterator[None]:
    """One build at a time: tests run side by side, and sam empties a folder before it fills it."""
    folder = ROOT / ".aws-sam"
    folder.mkdir(exist_ok=True)
    with (folder / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def build(architecture: str, python: str = LAMBDA_PYTHON) -> Path:
    """Folder of `make build` for an architecture; made once in a test run, since sam empties it first and
    tests run side by side."""
    folder = ROOT / ".aws-sam" / f"tests-{architecture}-{python}"
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(uuid.uuid4()))
    made_by = folder.parent / f"{folder.name}.run"
    with building():
        if not made_by.exists() or made_by.read_text() != run:
            options = [f"ARCH={architecture}", f"BUILD_DIR={folder}", f"LAMBDA_PYTHON={python}"]
            command = ["make", "build", *options]
            made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stdout + made.stderr
            made_by.write_text(run)
    return folder
