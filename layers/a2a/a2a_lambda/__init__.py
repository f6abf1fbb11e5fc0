"""Write an agent as one function; this is all it needs to import.

from a2a_lambda import Turn, skill

@skill
def hello(turn: Turn) -> str:
    return f"Hello! You said: {turn.text}"
"""

from typing import TYPE_CHECKING, Any

from a2a_lambda.agent.agent import Agent
from a2a_lambda.agent.outputs import (
    Ask,
    Authorize,
    Command,
    File,
    FinalMessage,
    NamedArtifact,
    Progress,
    Reject,
)
from a2a_lambda.agent.skills.skill import route, skill
from a2a_lambda.agent.turn import Turn
from a2a_lambda.durable.engine import Reply, Retry
from a2a_lambda.errors import MemoryFull, SkillError, StepFailed
from a2a_lambda.protocol.caller import Caller

if TYPE_CHECKING:
    from a2a_lambda.agent.trial import Answer

Artifact = NamedArtifact
Message = FinalMessage

__all__ = [
    "Agent",
    "Answer",
    "Artifact",
    "Ask",
    "Authorize",
    "Caller",
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


def __getattr__(name: str) -> Any:
    """Imports `Answer` when it is first used, because only agents' tests need it and its modules."""
    if name == "Answer":
        from a2a_lambda.agent.trial import Answer

        return Answer
    raise AttributeError(f"module 'a2a_lambda' has no attribute {name!r}")
