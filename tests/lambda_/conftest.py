"""The built functions, started as Lambda starts them."""

import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from a2a_lambda import telemetry
from a2a_lambda.aws import clients
from a2a_lambda.settings import Settings
from tests.helpers.builds import build
from tools.build.built_functions import MACHINE_ARCHITECTURE, Built, interpreter
from tools.commands import LAMBDA_PYTHON
from tools.registers.keys import KeyRegister

KEYS_PATH = "/built/keys"


@contextmanager
def logging_kept() -> Iterator[None]:
    """Loggers and the event loop are pytest's again afterwards, whatever a function made of them."""
    root = logging.getLogger()
    handlers, level, sink = root.handlers[:], root.level, telemetry.sink
    hooks = threading.excepthook, sys.unraisablehook
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = hooks
        logging.captureWarnings(False)
        root.handlers, telemetry.sink = handlers, sink
        root.setLevel(level)


@pytest.fixture(scope="session")
def built(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The functions built for this machine, against the emulator of the tests."""
    keys = KeyRegister(clients.ssm(settings), KEYS_PATH)
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
    return Built(build(MACHINE_ARCHITECTURE, version), tmp_path_factory.mktemp("opt"), variables)
