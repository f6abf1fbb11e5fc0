"""The built functions, started as Lambda starts them."""

import fcntl
import logging
import os
import subprocess
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from a2a_lambda import aws, telemetry
from a2a_lambda.keys import Keys
from a2a_lambda.local.built import HOST, LAMBDA_PYTHON, Built, interpreter
from a2a_lambda.settings import Settings
from tests.conftest import ROOT

KEYS_PATH = "/built/keys"


@contextmanager
def logging_kept() -> Iterator[None]:
    """Loggers are pytest's again afterwards, whatever a function made of them."""
    loggers = [logging.getLogger(), telemetry.MEASURES]
    before = [(logger.handlers[:], logger.level) for logger in loggers]
    try:
        yield
    finally:
        for logger, (handlers, level) in zip(loggers, before, strict=True):
            logger.handlers = handlers
            logger.setLevel(level)


@cache
def build(architecture: str, python: str = LAMBDA_PYTHON) -> Path:
    """Folder of `make build` for an architecture; made once in a test run, since sam empties it first and
    tests run side by side."""
    folder = ROOT / ".aws-sam" / f"tests-{architecture}-{python}"
    folder.parent.mkdir(exist_ok=True)
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(uuid.uuid4()))
    made_by = folder.parent / f"{folder.name}.run"
    with (folder.parent / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made_by.exists() or made_by.read_text() != run:
            options = [f"ARCH={architecture}", f"BUILD_DIR={folder}", f"LAMBDA_PYTHON={python}"]
            command = ["make", "build", *options]
            made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stdout + made.stderr
            made_by.write_text(run)
    return folder


@pytest.fixture(scope="session")
def built(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The functions built for this machine, against the emulator of the tests."""
    keys = Keys(aws.ssm(settings), KEYS_PATH, local=True)
    keys.create("local", secret="local-key", local=True)
    _, version = interpreter()
    if version != LAMBDA_PYTHON:
        warnings.warn(f"no python{LAMBDA_PYTHON} here: built for {version} and run on it", stacklevel=1)
    variables = {
        "A2A_TABLE": settings.table,
        "A2A_KEYS_PATH": KEYS_PATH,
        "A2A_LOCAL": "1",
        "A2A_EMULATOR": settings.emulator,
    }
    return Built(build(HOST, version), tmp_path_factory.mktemp("opt"), variables)
