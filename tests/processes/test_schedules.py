"""Schedules that several containers look at, of which some die: each time makes one task."""

import asyncio
import os
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from a2a_lambda.aws import clients
from a2a_lambda.files.files import Files
from a2a_lambda.operations.service import Service
from a2a_lambda.settings import Settings
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from a2a_lambda.tasks.identity import Namespace
from tests.agent.folders import CARD, write
from tests.helpers.clock import Clock

pytestmark = pytest.mark.slow(seconds=20)

NOON = (time.time() // 86_400 + 1.5) * 86_400
"""Tomorrow at 12:00 UTC: the emulator deletes what has expired by its own clock, once a minute."""

MINUTES = 12


def container(folder: Path, settings: Settings, looks: int = MINUTES) -> "subprocess.Popen[str]":
    """A container that may make so many looks, and then waits to be killed unless they were all."""
    command = [sys.executable, "-m", "tests.processes.looks", str(folder), settings.emulator]
    process = subprocess.Popen(
        [*command, str(NOON), str(MINUTES)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write("\n" * looks)
    process.stdin.flush()
    return process


def test_containers_that_die_and_start_again(ministack: Settings, tmp_path: Path) -> None:
    owner = f"owner-{uuid.uuid4()}"
    schedule = f'schedules:\n  - id: tick\n    cron: "* * * * *"\n    message: hi\n    owner: "{owner}"\n'
    folder = write(tmp_path, "@skill\ndef hello(turn): return 'hi'", CARD + schedule)
    last_minutes = (3, 6)
    dying = [container(folder, ministack, minute + 1) for minute in last_minutes]
    containers = [container(folder, ministack)]
    # Each is killed during its last permitted look, or after it.
    for minute, process in zip(last_minutes, dying, strict=True):
        assert process.stdout is not None
        while process.stdout.readline().strip() != str(minute - 1):
            assert process.poll() is None
        process.kill()
    containers.append(container(folder, ministack))  # as after a restart: it begins with the first minute
    assert [process.wait() for process in containers] == [0, 0]
    clock = Clock()
    clock.now = NOON + 60 * MINUTES
    store = Store(Table(clients.dynamodb(ministack), ministack.table, clock=clock), ttl=30 * 86_400)
    page = asyncio.run(Service(store, files=Files()).list(Namespace(owner, "hello"), {"pageSize": 100}))
    times = [task["history"][0]["metadata"]["schedule"]["time"] for task in page["tasks"]]
    day = datetime.fromtimestamp(NOON, UTC).date().isoformat()
    assert sorted(times) == [f"{day}T12:{minute:02}:00.000Z" for minute in range(MINUTES)]
