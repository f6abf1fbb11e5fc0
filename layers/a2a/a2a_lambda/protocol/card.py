"""The card of an agent: what it is, independent of protocol versions."""

import re
from collections.abc import Collection
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from a2a_lambda.errors import (
    ConfigurationError,
    ContentTypeNotSupported,
    ExtensionSupportRequired,
    PushNotificationNotSupported,
    StreamingNotSupported,
    excerpt,
)
from a2a_lambda.protocol.model import matches_media_type, plain_media_type
from a2a_lambda.protocol.requests import STREAMED, Operation

RESERVED = re.compile(
    r"(v\d+|a2a|alibaba|mcp|stream|tasks|callbacks|playground|uploads|message.*|card|extendedagentcard|healthz?)",
    re.IGNORECASE,
)
"""Names that the kit's own paths use."""

OWNER_PATTERN = r"^[A-Za-z0-9_.@:-]{1,64}$"
"""What the owner of a key, a schedule or an event may be called."""

AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


HEADER_PATTERN = r"^(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?$"
"""Valid value of a header (RFC 9110 section 5.5). Above all, it has no end of line."""

SCOPE_PATTERN = r"^[\x21\x23-\x5B\x5D-\x7E]+$"
"""A scope (RFC 6749 section 3.3): quotes enclose it in a header, and spaces separate it in a token."""

ScopeToken = Annotated[str, Field(pattern=SCOPE_PATTERN)]


class CardModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Provider(CardModel):
    organization: str
    url: str


class ToolAnnotations(CardModel):
    """What a tool does, as MCP clients may show it, or ask before they call it. They are hints."""

    title: str | None = None
    readOnlyHint: bool | None = None
    destructiveHint: bool | None = None
    idempotentHint: bool | None = None
    openWorldHint: bool | None = None


class CardSkill(CardModel):
    """AgentSkill (A2A section 4.4.5). tags: without one, clients get the name as the only one. durable:
    its turns may take days. mcp: MCP clients may call it as a tool. annotations: hints about that tool.
    None of these three is sent to A2A clients."""

    id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    description: str = Field(min_length=1)
    tags: list[str] = Field(default=[], min_length=1)
    examples: list[str] = []
    inputModes: list[str] | None = None
    outputModes: list[str] | None = None
    durable: bool = False
    mcp: bool = True
    annotations: ToolAnnotations | None = None


class Capabilities(CardModel):
    """What the agent offers besides a plain call."""

    streaming: bool = True
    pushNotifications: bool = False


class Extension(CardModel):
    """AgentExtension (A2A section 4.4.4). required: a client that does not activate it is refused."""

    uri: str = Field(min_length=1)
    description: str | None = None
    required: bool = False
    params: dict[str, Any] | None = None


class Extended(CardModel):
    """What the card has in addition for a caller with a key. description: replaces the card's; None = the
    card's own."""

    description: str | None = None
    skills: list[CardSkill] = []


class Trigger(CardModel):
    """A message that no client sends.

    skill: id of the skill to call; None = as for any message. arguments: the skill's arguments.
    owner: owner of the tasks, who can list them with a key of that owner. webhook: URL that gets a push
    notification of each task. token: what the webhook knows the caller by.
    """

    message: str = Field(min_length=1)
    skill: str | None = None
    arguments: dict[str, str] = {}
    owner: str = Field(pattern=OWNER_PATTERN)
    webhook: str | None = None
    token: str | None = Field(default=None, pattern=HEADER_PATTERN)


class Schedule(Trigger):
    """A message that the agent gets without a client, at the scheduled times. It is not sent to clients.

    cron: minute, hour, day, month and weekday. catch_up_minutes: how late a time may be started if nothing
    ran when it came.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")
    cron: str
    timezone: str = "UTC"
    owner: str = Field(default="schedules", pattern=OWNER_PATTERN)
    catch_up_minutes: int = Field(default=60, ge=0, le=1440)


class Card(CardModel):
    """What an agent's card.yaml says.

    default: the agent answers at the root. public: the card needs no key.
    scopes: scopes that a caller's token needs for this agent. A caller with a key needs none.
    background: the worker runs the agent's turns. They may take longer than a request.
    durable: all skills are durable, so that their turns may take days.
    mcp: MCP clients may call the agent's skills as tools.
    """

    name: str = Field(min_length=1)
    description: str
    version: str
    provider: Provider | None = None
    documentationUrl: str | None = None
    iconUrl: str | None = None
    defaultInputModes: list[str] = ["text/plain"]
    defaultOutputModes: list[str] = ["text/plain"]
    skills: list[CardSkill] = Field(min_length=1)
    capabilities: Capabilities = Capabilities()
    extensions: list[Extension] = []
    extended: Extended | None = None
    schedules: list[Schedule] = []
    scopes: list[ScopeToken] = []
    background: bool = False
    durable: bool = False
    public: bool = True
    default: bool = False
    mcp: bool = True

    @cached_property
    def all_skills(self) -> tuple[CardSkill, ...]:
        return (*self.skills, *(self.extended.skills if self.extended else ()))

    @cached_property
    def durable_skills(self) -> frozenset[str]:
        """Ids of the durable skills."""
        return frozenset(skill.id for skill in self.all_skills if self.durable or skill.durable)

    @cached_property
    def required_extensions(self) -> tuple[str, ...]:
        """URIs of the extensions that a client of A2A must activate."""
        return tuple(extension.uri for extension in self.extensions if extension.required)

    def with_extended(self) -> "Card":
        """The card for a caller with a key."""
        if self.extended is None:
            return self
        description = self.extended.description or self.description
        return self.model_copy(update={"description": description, "skills": [*self.all_skills]})

    def check_media_type(self, media_type: str, path: str) -> None:
        """Raises ContentTypeNotSupported for a type that neither the agent nor one of its skills takes. path:
        path of the field, such as params.message.parts[0]."""
        plain_type = plain_media_type(media_type)
        if not plain_type:
            return
        modes = [mode for skill in self.all_skills for mode in skill.inputModes or ()]
        patterns = dict.fromkeys([*self.defaultInputModes, *modes])
        if not matches_media_type(plain_type, patterns):
            raise ContentTypeNotSupported(
                f"{path} is {excerpt(plain_type)}; the agent accepts {', '.join(patterns)}", path=path
            )

    def check_operation(self, operation: Operation) -> None:
        """Raises StreamingNotSupported or PushNotificationNotSupported if the agent does not offer an
        operation."""
        if operation in STREAMED and not self.capabilities.streaming:
            raise StreamingNotSupported("see capabilities.streaming in the agent's card")
        if operation.endswith("_push") and not self.capabilities.pushNotifications:
            raise PushNotificationNotSupported("see capabilities.pushNotifications in the agent's card")

    def check_extensions(self, activated: Collection[str]) -> None:
        """Raises ExtensionSupportRequired, with the extensions that the client must activate."""
        missing_uris = [uri for uri in self.required_extensions if uri not in activated]
        if missing_uris:
            raise ExtensionSupportRequired(
                f"activate {', '.join(missing_uris)} with the A2A-Extensions header"
            )


def is_agent_name(name: str) -> bool:
    """Whether an agent may have this name."""
    return bool(AGENT_NAME.fullmatch(name)) and not RESERVED.fullmatch(name)


def check_name(name: str, location: str) -> None:
    """Raises ConfigurationError if a folder's name cannot be the name of an agent. location: path of its
    folder."""
    if not is_agent_name(name):
        raise ConfigurationError(
            f"{location}: {name!r} cannot be the name of an agent. Use at most 63 of a-z, A-Z, 0-9, - and _,"
            " begin with a letter or a digit, and do not use a word of the kit's paths (v1, a2a, alibaba,"
            " callbacks, mcp, playground, stream, tasks, uploads, message…)"
        )
