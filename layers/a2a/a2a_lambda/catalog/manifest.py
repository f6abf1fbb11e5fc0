"""The manifest: profiles of a deployment's agents, in a file.

`make build` loads every agent once, and writes their profiles. A deployed function reads them, so the
functions that run no agent import none.
"""

from collections.abc import Iterable
from pathlib import Path

from a2a_lambda import strictjson
from a2a_lambda.errors import ConfigurationError, ParseError
from a2a_lambda.protocol.card import Card
from a2a_lambda.protocol.profile import Profile


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
                "output_schemas": dict(profile.output_schemas),
                "text_skills": sorted(profile.text_skills or ()),
            }
            for profile in profiles
        ]
    )


def read_manifest(path: Path) -> list[Profile]:
    """Profiles of a deployment's agents. Raises ConfigurationError."""
    try:
        entries = strictjson.loads(path.read_bytes())
        modified_at = path.stat().st_mtime
        return [
            Profile(
                name=entry["name"],
                card=Card.model_validate(entry["card"]),
                input_schemas=entry["input_schemas"],
                modified_at=modified_at,
                default_skill=entry["default_skill"],
                output_schemas=entry["output_schemas"],
                text_skills=frozenset(entry["text_skills"]),
            )
            for entry in entries
        ]
    except (ValueError, TypeError, KeyError, ParseError) as error:
        raise ConfigurationError(f"{path}: not a manifest of agents: {error!r}") from None
