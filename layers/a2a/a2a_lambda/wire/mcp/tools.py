"""An agent's skills as tools.

Source: https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from a2a_lambda.errors import InvalidParams, excerpt
from a2a_lambda.protocol.card import CardSkill
from a2a_lambda.protocol.model import Json
from a2a_lambda.protocol.profile import Profile

TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""Form of a tool's name. A skill with another id is no tool."""

PAGE_TOOLS = 100
"""Tools in a page of the list."""

MESSAGE_ARGUMENT, TASK_ARGUMENT = "message", "task"
"""Arguments that a tool has in addition to its skill's parameters. Each begins with ARGUMENT_PREFIX if a
parameter has the name."""

ARGUMENT_PREFIX = "a2a_"

ANSWER_ONLY = "Only to answer a task's question."
"""Description of the message of a tool whose skill reads no text."""


@dataclass(frozen=True)
class Tool:
    """A skill that a client may call as a tool."""

    skill: CardSkill
    profile: Profile

    @property
    def name(self) -> str:
        return self.skill.id

    @cached_property
    def parameters(self) -> Mapping[str, Json]:
        """JSON Schemas of the skill's parameters, by name."""
        schema = self.profile.input_schemas.get(self.name, {})
        properties: Mapping[str, Json] = schema.get("properties", {})
        return properties

    @property
    def message_argument(self) -> str:
        """Name of the argument with what the user says."""
        return self._free_name(MESSAGE_ARGUMENT)

    @property
    def task_argument(self) -> str:
        """Name of the argument with the task to continue."""
        return self._free_name(TASK_ARGUMENT)

    def _free_name(self, name: str) -> str:
        while name in self.parameters:
            name = ARGUMENT_PREFIX + name
        return name

    @cached_property
    def input_schema(self) -> dict[str, Json]:
        schema = dict(self.profile.input_schemas.get(self.name, {"type": "object"}))
        properties = dict(self.parameters)
        required = [*schema.get("required", [])]
        # Any skill may ask a question whose answer fills no parameter, or send the user to a sign-in.
        text = "What the user says." if self.takes_message else ANSWER_ONLY
        properties[self.message_argument] = {"type": "string", "description": text}
        if self.takes_message and self.profile.text_skills is not None and not self.parameters:
            required.append(self.message_argument)
        text = "Only to answer a task's question, or to see a task's progress: the task's id."
        properties[self.task_argument] = {"type": "string", "description": text}
        # Without `$schema`: 2020-12 is the default, and validators of draft 7 refuse another name.
        schema |= {"properties": properties, "additionalProperties": False}
        return schema | ({"required": required} if required else {})

    @property
    def takes_message(self) -> bool:
        """Whether the skill gets a message's text, as far as is known."""
        return self.profile.text_skills is None or self.name in self.profile.text_skills

    @property
    def output_schema(self) -> dict[str, Json] | None:
        return self.profile.output_schemas.get(self.name)

    def encode(self) -> dict[str, Json]:
        annotations = self.skill.annotations
        examples = "".join(f"\n- {example}" for example in self.skill.examples)
        description = self.skill.description + (f"\nExamples:{examples}" if examples else "")
        tool: dict[str, Json] = {
            "name": self.name,
            "title": self.skill.name,
            "description": description,
            "inputSchema": self.input_schema,
        }
        if self.output_schema is not None:
            tool["outputSchema"] = self.output_schema
        if annotations is not None:
            tool["annotations"] = annotations.model_dump(exclude_none=True)
        return tool


def tools_of(profile: Profile) -> Iterator[Tool]:
    """The agent's tools, in the card's order."""
    if profile.card.mcp:
        for skill in profile.card.all_skills:  # its caller has signed in
            if skill.mcp and TOOL_NAME.fullmatch(skill.id):
                yield Tool(skill, profile)


def page_of(profile: Profile, cursor: Json) -> tuple[list[dict[str, Json]], str | None]:
    """A page of tools, and the cursor of the next one; None = there is none. Raises InvalidParams."""
    start = 0
    if cursor is not None:
        if not isinstance(cursor, str) or not re.fullmatch("[0-9]{1,6}", cursor):
            raise InvalidParams(
                "this server did not issue the cursor: begin without one", path="params.cursor"
            )
        start = int(cursor)
    tools = [*tools_of(profile)]
    end = start + PAGE_TOOLS
    return [tool.encode() for tool in tools[start:end]], str(end) if end < len(tools) else None


def find_tool(profile: Profile, name: Json) -> Tool:
    """The tool with this name. Raises InvalidParams."""
    tools = {tool.name: tool for tool in tools_of(profile)}
    names = ", ".join(tools) or "none"
    if not isinstance(name, str):
        raise InvalidParams(f"params.name must be the name of a tool: {names}", path="params.name")
    if name not in tools:
        raise InvalidParams(f"unknown tool {excerpt(name)!r}. Tools: {names}", path="params.name")
    return tools[name]
