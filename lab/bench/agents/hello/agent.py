"""The agent that is measured. Its peers answer the same."""

from collections.abc import Iterator

from a2a_lambda import Turn, skill


@skill(default=True)
def hello(turn: Turn) -> str:
    return "Hello World"


@skill
def chunks(turn: Turn) -> Iterator[str]:
    for number in range(int(turn.text)):
        yield f"chunk {number} "
