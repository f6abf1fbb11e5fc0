"""fasta2a's hello world with Mangum, with its storage and its broker in memory. A send submits the task: it
does not wait for the answer."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.schema import Artifact, Message, TaskIdParams, TaskSendParams
from fasta2a.storage import InMemoryStorage
from mangum import Mangum


class Hello(Worker[list[Message]]):
    async def run_task(self, params: TaskSendParams) -> None:
        artifact = Artifact(artifact_id=str(uuid.uuid4()), parts=[{"text": "Hello World"}])
        await self.storage.update_task(params["id"], state="completed", new_artifacts=[artifact])

    async def cancel_task(self, params: TaskIdParams) -> None: ...

    def build_message_history(self, history: list[Message]) -> list[Any]:
        return history

    def build_artifacts(self, result: Any) -> list[Artifact]:
        return []


storage: InMemoryStorage[list[Message]] = InMemoryStorage()
broker = InMemoryBroker()
worker = Hello(storage=storage, broker=broker)


@asynccontextmanager
async def lifespan(app: FastA2A) -> AsyncIterator[None]:
    async with app.task_manager, worker.run():
        yield


app = FastA2A(storage=storage, broker=broker, lifespan=lifespan)

handler = Mangum(app)
