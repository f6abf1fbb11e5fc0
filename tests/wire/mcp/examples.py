"""Profiles, tools and tasks for tests of MCP's translation."""

from typing import Any

from a2a_lambda.protocol.card import Card, CardSkill
from a2a_lambda.protocol.model import Artifact, Part, Task, TaskState, agent_message, make_status
from a2a_lambda.protocol.profile import Profile
from a2a_lambda.wire.mcp.tools import Tool, find_tool

NUMBER = {"type": "number"}


def profile_of(*skills: CardSkill, schemas: Any = None, text_skills: Any = (), **fields: Any) -> Profile:
    """schemas: properties of each skill's parameters, by skill id."""
    card = Card(name="a", description="a", version="1.0.0", skills=[*skills], **fields)
    inputs = {name: {"type": "object", "properties": of_skill} for name, of_skill in (schemas or {}).items()}
    return Profile(
        name="a", card=card, input_schemas=inputs, modified_at=0, text_skills=frozenset(text_skills)
    )


def skill(name: str = "add", **fields: Any) -> CardSkill:
    return CardSkill(id=name, name="Add", description="Adds.", **fields)


def tool(properties: Any = None, *, reads_text: bool | None = None) -> Tool:
    """A tool with parameters. reads_text: by default, if it has none."""
    schemas = {"add": properties} if properties else None
    text_skills = ["add"] if reads_text or (reads_text is None and not properties) else []
    return find_tool(profile_of(skill(), schemas=schemas, text_skills=text_skills), "add")


def task(state: TaskState = TaskState.COMPLETED, *parts: Part, says: str = "", metadata: Any = None) -> Task:
    """A task with an artifact of these parts. says: text of the message of its status."""
    result = Task(id="t-1", contextId="c-1", status=make_status(state, 0))
    if parts:
        result["artifacts"] = [Artifact(artifactId="artifact-1", parts=[*parts])]
    if says:
        message = agent_message("t-1", "c-1", [Part(text=says)])
        message["messageId"] = "question-1"
        if metadata:
            message["metadata"] = metadata
        result["status"]["message"] = message
    return result
