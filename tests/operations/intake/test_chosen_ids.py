"""Clients of A2A 0.1 choose the ids of their tasks, and have no other id for a retry."""

import asyncio
import uuid
from typing import Any

import pytest

from a2a_lambda.agent.agent import Agent
from a2a_lambda.errors import UnsupportedOperation
from a2a_lambda.protocol.model import Task, TaskState
from a2a_lambda.turns.claim import Claim
from a2a_lambda.turns.run import Run
from tests.helpers.clock import Clock
from tests.operations.intake.senders import Once, fails


class TestChosenIds:
    """Clients of A2A 0.1 choose the ids of their tasks, and have no other id for a retry."""

    @pytest.fixture
    def task_id(self) -> str:
        return str(uuid.uuid4())

    def send(self, once: Once, task_id: str, **options: Any) -> Task:
        call, request = once.asked("look", taskId=task_id, **options)
        return asyncio.run(once.messages.send(call, request | {"creates_task": True}))["task"]

    def stop(self, once: Once, task_id: str, **options: Any) -> None:
        """A send that is stopped before its agent is done."""

        async def go() -> None:
            call, request = once.asked("pause", taskId=task_id, **options)
            claim = await once.messages.intake.start(call, request | {"creates_task": True})
            assert isinstance(claim, Claim)
            run = Run(once.messages.store, once.messages.agents.start("probe"), claim)
            run.stop("Send it again.")
            await run.run_to_end()

        asyncio.run(go())

    def test_a_first_message_that_was_stopped_can_be_sent_again(self, once: Once, task_id: str) -> None:
        self.stop(once, task_id, key="FIRST")
        assert once.head(task_id).state == TaskState.FAILED
        task = self.send(once, task_id, key="FIRST")
        assert (task["id"], task["status"]["state"]) == (task_id, TaskState.COMPLETED)

    def test_a_later_message_that_was_stopped_leaves_the_task_as_it_was(
        self, once: Once, task_id: str
    ) -> None:
        task = self.send(once, task_id, key="FIRST")
        self.stop(once, task_id, key="SECOND")
        assert once.head(task_id).state == TaskState.COMPLETED
        again = self.send(once, task_id, key="SECOND")
        assert len(again["artifacts"]) == len(task["artifacts"]) + 1

    def test_a_later_message_that_was_lost_leaves_the_task_as_it_was(
        self, once: Once, task_id: str, clock: Clock
    ) -> None:
        self.send(once, task_id, key="FIRST")
        call, request = once.asked("look", taskId=task_id, key="SECOND")
        asyncio.run(once.messages.intake.start(call, request | {"creates_task": True}))
        clock.now += 31
        assert (
            asyncio.run(once.service.get(once.scope, task_id)).task["status"]["state"] == TaskState.COMPLETED
        )
        assert self.send(once, task_id, key="SECOND")["status"]["state"] == TaskState.COMPLETED

    def test_a_task_that_failed_by_itself_takes_no_message(
        self, once: Once, task_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Agent, "perform", fails)
            assert self.send(once, task_id, key="FIRST")["status"]["state"] == TaskState.FAILED
        with pytest.raises(UnsupportedOperation, match="has ended"):
            self.send(once, task_id, key="SECOND")
