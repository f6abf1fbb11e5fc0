"""Processes that are forked from one that has imported the kit: a start takes 0.2 s, not 1.4."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerProcess
from typing import Any

import pytest

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.faults.node", "tests.faults.durable_node"])


def start(main: Callable[..., None], *arguments: Any, environment: Mapping[str, str]) -> ForkServerProcess:
    """Run a function in a process of its own, with more variables."""
    child = FORKS.Process(target=_run, args=(main, arguments, dict(environment)), daemon=True)
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # for the process that imports, which starts with the first one
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        child.start()
    return child


def _run(main: Callable[..., None], arguments: tuple[Any, ...], environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    main(*arguments)
