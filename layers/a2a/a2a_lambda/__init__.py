"""Write an agent as one function; this is all it needs to import.

from a2a_lambda import Turn, skill

@skill
def hello(turn: Turn) -> str:
    return f"Hello! You said: {turn.text}"
"""

from a2a_lambda.agent.agent import Agent, Answer
from a2a_lambda.agent.outputs import Artifact, Ask, Authorize, Command, File, Message, Progress, Reject
from a2a_lambda.agent.skill import route, skill
from a2a_lambda.agent.turn import Turn
from a2a_lambda.durable.engine import Reply, Retry
from a2a_lambda.errors import MemoryFull, SkillError, StepFailed

__all__ = [
    "Agent",
    "Answer",
    "Artifact",
    "Ask",
    "Authorize",
    "Command",
    "File",
    "MemoryFull",
    "Message",
    "Progress",
    "Reject",
    "Reply",
    "Retry",
    "SkillError",
    "StepFailed",
    "Turn",
    "route",
    "skill",
]
