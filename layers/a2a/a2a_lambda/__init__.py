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
from a2a_lambda.agent.turn import Memory, Turn
from a2a_lambda.durable.engine import Reply, Retry
from a2a_lambda.errors import MemoryFull, SkillError, StepFailed
from a2a_lambda.protocol.caller import Caller
from a2a_lambda.protocol.model import Part
from a2a_lambda.tasks.context import Utterance

if TYPE_CHECKING:
    from a2a_lambda.agent.files.message_files import ReceivedFile
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
    "Memory",
    "MemoryFull",
    "Message",
    "Part",
    "Progress",
    "ReceivedFile",
    "Reject",
    "Reply",
    "Retry",
    "SkillError",
    "StepFailed",
    "Turn",
    "Utterance",
    "route",
    "skill",
]


if not TYPE_CHECKING:  # hidden from type checkers, so that they report a name that does not exist

    def __getattr__(name: str) -> Any:
        """Imports a class when it is first used, because few agents need it and its modules."""
        if name == "Answer":
            from a2a_lambda.agent.trial import Answer

            return Answer
        if name == "ReceivedFile":
            from a2a_lambda.agent.files.message_files import ReceivedFile

            return ReceivedFile
        raise AttributeError(f"module 'a2a_lambda' has no attribute {name!r}")
