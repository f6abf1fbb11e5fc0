"""What is known of an agent without its code: its card, and the JSON Schemas of its skills' parameters.

`make build` loads every agent once, and writes their profiles to the manifest. A deployed function reads the
manifest, so the functions that run no agent import none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from a2a_lambda import strictjson
from a2a_lambda.errors import ConfigurationError, ParseError
from a2a_lambda.protocol.alibaba_metadata import SUITE_EXTENSIONS, intents
from a2a_lambda.protocol.card import Card
from a2a_lambda.protocol.model import Json, Message


@dataclass(frozen=True, kw_only=True)
class Profile:
    """name: of the agent's folder. modified: when its files changed last, in Unix seconds.
    input_schemas: JSON Schema of each skill that has parameters, by skill id. default_skill: id of the skill
        that gets a message without an intent; "" = the agent's code chooses it.
    """

    name: str
    card: Card
    input_schemas: Mapping[str, dict[str, Json]]
    modified: float
    default_skill: str = ""

    def is_durable(self, message: Message, asker: str | None) -> bool:
        """Whether the turn of a message needs a durable execution. asker: id of the skill whose question the
        message answers. If the agent's code chooses the skill, a turn that may need one gets one."""
        durable = self.card.durable_skills
        known = {skill.id for skill in self.card.all_skills}
        named = (intent.skill for intent in intents(message.get("metadata", {})) if intent.skill in known)
        skill = next(named, asker or self.default_skill) if durable else ""
        return skill in durable if skill else bool(durable)

    @property
    def extension_uris(self) -> frozenset[str]:
        """URIs of the extensions that a client may activate."""
        return SUITE_EXTENSIONS | {extension.uri for extension in self.card.extensions}

    @property
    def takes_arguments(self) -> bool:
        """Whether a message may have arguments as JSON: a skill has parameters."""
        return bool(self.input_schemas)


def encode_manifest(profiles: Iterable[Profile]) -> bytes:
    """JSON of the agents' profiles, as `read_manifest` reads it. It has no times, so that the same agents
    make the same build."""
    return strictjson.dumps(
        [
            {
                "name": profile.name,
                "card": profile.card.model_dump(mode="json", exclude_defaults=True),
                "input_schemas": dict(profile.input_schemas),
                "default_skill": profile.default_skill,
            }
            for profile in profiles
        ]
    )


def read_manifest(path: Path) -> list[Profile]:
    """Profiles of a deployment's agents. Raises ConfigurationError."""
    try:
        found = strictjson.loads(path.read_bytes())
        modified = path.stat().st_mtime
        return [
            Profile(
                name=entry["name"],
                card=Card.model_validate(entry["card"]),
                input_schemas=entry["input_schemas"],
                modified=modified,
                default_skill=entry["default_skill"],
            )
            for entry in found
        ]
    except (ValueError, TypeError, KeyError, ParseError) as error:
        raise ConfigurationError(f"{path}: not a manifest of agents: {error!r}") from None
