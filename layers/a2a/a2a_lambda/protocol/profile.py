"""What is known of an agent without its code: its card, and the JSON Schemas of its skills' parameters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from a2a_lambda.protocol.alibaba_metadata import SUITE_EXTENSIONS
from a2a_lambda.protocol.card import Card
from a2a_lambda.protocol.model import Json


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What a deployment knows about an agent without importing it.

    name: name of the agent's folder. modified_at: when its files changed last, in Unix seconds.
    input_schemas: JSON Schema of each skill that has parameters, by skill id. default_skill: id of the skill
        that gets a message without an intent; "" = the agent's code chooses it.
    output_schemas: JSON Schema of what a skill returns, by skill id, if its annotation gives one.
    text_skills: ids of the skills that get the turn, and with it the message's text; None = the agent's code
        has not been read yet.
    """

    name: str
    card: Card
    input_schemas: Mapping[str, dict[str, Json]]
    modified_at: float
    default_skill: str = ""
    output_schemas: Mapping[str, dict[str, Json]] = field(default_factory=dict)
    text_skills: frozenset[str] | None = None

    @cached_property
    def extension_uris(self) -> frozenset[str]:
        """URIs of the extensions that a client may activate."""
        return SUITE_EXTENSIONS | {extension.uri for extension in self.card.extensions}
