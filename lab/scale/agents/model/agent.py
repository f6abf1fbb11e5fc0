"""The agent whose calls to DynamoDB are counted. It writes about as fast as a model."""

import asyncio
from collections.abc import AsyncIterator

from a2a_lambda import Turn, skill

CHUNKS_PER_SECOND = 20


@skill(default=True)
def answer(turn: Turn) -> str:
    return f"You said: {turn.text}"


@skill
async def write(turn: Turn) -> AsyncIterator[str]:
    for number in range(int(turn.text) * CHUNKS_PER_SECOND):
        await asyncio.sleep(1 / CHUNKS_PER_SECOND)
        yield f"word{number} "
