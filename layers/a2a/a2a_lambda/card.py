"""An agent's card.yaml: what the agent is, in no protocol version's words but A2A's own."""

import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from a2a_lambda.errors import ConfigurationError

RESERVED = re.compile(
    r"(v\d+|a2a|alibaba|stream|tasks|message.*|card|extendedagentcard|healthz?)", re.IGNORECASE
)
"""Names that are path segments of the kit's own."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Provider(_Model):
    organization: str
    url: str


class CardSkill(_Model):
    """AgentSkill (A2A section 4.4.5)."""

    id: str = Field(min_length=1)
    name: str
    description: str
    tags: list[str] = []
    examples: list[str] = []
    inputModes: list[str] | None = None
    outputModes: list[str] | None = None


class Card(_Model):
    """default: the agent that answers at the root."""

    name: str = Field(min_length=1)
    description: str
    version: str
    provider: Provider | None = None
    documentationUrl: str | None = None
    iconUrl: str | None = None
    defaultInputModes: list[str] = ["text/plain"]
    defaultOutputModes: list[str] = ["text/plain"]
    skills: list[CardSkill] = Field(min_length=1)
    default: bool = False


def read(path: Path) -> Card:
    """Card of a file. Raises ConfigurationError naming the file, the field and what is wrong."""
    name = path.parent.name
    if not NAME.fullmatch(name) or RESERVED.fullmatch(name):
        raise ConfigurationError(
            f"{path.parent}: an agent cannot be called {name!r}: use letters, digits, - and _,"
            " and no word that is a path of the kit's own (v1, a2a, alibaba, stream, tasks, message…)"
        )
    try:
        content: Any = yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: not found; every agent folder has a card.yaml") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: not readable as YAML: {error}") from None
    try:
        card = Card.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ConfigurationError(f"{path}: {where}: {first['msg']}") from None
    ids = [skill.id for skill in card.skills]
    if len(set(ids)) != len(ids):
        raise ConfigurationError(f"{path}: two skills have the same id")
    return card
