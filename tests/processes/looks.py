"""A container that looks at an agent's schedules, minute after minute.

python -m tests.processes.looks FOLDER EMULATOR START MINUTES

Before each look it waits for a line on its standard input. After the look it prints the minute. The clock is
the tests': a minute takes no time.
"""

import asyncio
import sys
from pathlib import Path

from a2a_lambda.agent.agent import Agent
from a2a_lambda.aws import clients
from a2a_lambda.background.dispatch import Dispatcher
from a2a_lambda.catalog.agents import Agents
from a2a_lambda.files.files import Files
from a2a_lambda.operations.messages import Messages
from a2a_lambda.operations.triggers import Triggers
from a2a_lambda.settings import Settings
from a2a_lambda.store.schedule_marks import ScheduleMarks
from a2a_lambda.store.store import Store
from a2a_lambda.store.table import Table
from tests.background.fake_queue import FakeQueue
from tests.helpers.clock import Clock


def main(folder: str, emulator: str, start: str, minutes: str) -> None:
    settings = Settings(table="shared", local=True, emulator=emulator)
    clock = Clock()
    client = clients.dynamodb(settings)
    store = Store(Table(client, settings.table, clock=clock), ttl=30 * 86_400)
    agents = Agents.of(Agent.load(Path(folder)))
    messages = Messages(store, agents, dispatcher=Dispatcher(FakeQueue()), repeat_seconds=60, files=Files())
    triggers = Triggers(store, ScheduleMarks(Table(client, settings.table, clock=clock)), agents, messages)
    for minute in range(int(minutes)):
        sys.stdin.readline()
        clock.now = float(start) + 60 * minute + 20
        asyncio.run(triggers.run_schedules())
        print(minute, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
