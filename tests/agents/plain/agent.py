"""An agent that neither streams nor notifies."""

from a2a_lambda import Turn, skill


@skill
def echo(turn: Turn) -> str:
    return turn.text
