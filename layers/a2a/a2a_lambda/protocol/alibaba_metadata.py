"""Typed views of the metadata that Alibaba's multimodal suite puts into a message.

Metadata is free-form. A value whose type is not the documented one counts as absent here, and stays in
`turn.metadata`.
Sources: https://help.aliyun.com/en/model-studio/multimodal-integration-a2a-protocol and
https://help.aliyun.com/en/model-studio/multimodal-integration-a2a-intent.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from a2a_lambda import strictjson
from a2a_lambda.protocol.model import Json
from a2a_lambda.strictjson import object_in, objects_in

PROTOCOL_EXTENSION = "https://help.aliyun.com/en/model-studio/multimodal-integration-a2a-protocol"
INTENT_EXTENSION = "https://help.aliyun.com/en/model-studio/multimodal-integration-a2a-intent"

SUITE_EXTENSIONS = frozenset(
    uri.replace("/en/", f"/{language}/")
    for uri in (PROTOCOL_EXTENSION, INTENT_EXTENSION)
    for language in ("en", "zh")
)
"""Both extensions, in both spellings that the vendor's pages have."""

SKILL_FIELDS = ("skillId", "skill_id", "skill")
"""Where other clients name a skill in a message's metadata: novaos, CrewAI, and the tools that
a2a-langchain-adapters makes of skills."""

Metadata = dict[str, Json]


@dataclass(frozen=True, slots=True)
class User:
    user_id: str | None


@dataclass(frozen=True, slots=True)
class Device:
    client_ip: str | None
    device_id: str | None


@dataclass(frozen=True, slots=True)
class Location:
    """Where the user is.

    longitude, latitude: texts, as the client sent them.
    """

    city: str | None
    longitude: str | None
    latitude: str | None


@dataclass(frozen=True, slots=True)
class Image:
    """A picture that the user has sent.

    type: "url" or "base64". value: the URL, or the bytes in base64.
    """

    type: str
    value: str


@dataclass(frozen=True, slots=True)
class Intent:
    """The skill that a message names. slots: for each argument, the texts to try, best first."""

    skill: str
    slots: dict[str, tuple[str, ...]]


def user(metadata: Metadata) -> User:
    return User(text(object_in(metadata, "user"), "userId"))


def device(metadata: Metadata) -> Device:
    fields = object_in(metadata, "device")
    return Device(text(fields, "clientIp"), text(fields, "deviceId"))


def location(metadata: Metadata) -> Location:
    fields = object_in(metadata, "location")
    return Location(text(fields, "city"), text(fields, "longitude"), text(fields, "latitude"))


def images(metadata: Metadata) -> list[Image]:
    return [
        Image(kind, value)
        for item in objects_in(metadata, "images")
        if (kind := text(item, "type")) and (value := text(item, "value"))
    ]


def intents(metadata: Metadata) -> list[Intent]:
    """intentInfos, best first, and then the skill that the metadata names in one of SKILL_FIELDS. normValue
    has precedence over value. Neither counts if it is empty."""
    named_skills = [Intent(skill, {}) for name in SKILL_FIELDS if (skill := text(metadata, name))]
    return [
        Intent(
            skill,
            {
                name: values
                for slot in objects_in(info, "slots")
                if (name := text(slot, "name"))
                and (values := tuple(v for key in ("normValue", "value") if (v := text(slot, key))))
            },
        )
        for info in objects_in(metadata, "intentInfos")
        if (skill := text(info, "intent"))
    ] + named_skills


def intent_metadata(skill: str, arguments: Mapping[str, str]) -> Metadata:
    """Metadata of a message that names its skill."""
    slots = [{"name": name, "value": value} for name, value in arguments.items()]
    return {"intentInfos": [{"intent": skill, "slots": slots}]}


def slot_text(value: Json) -> str:
    """A JSON value as the text of a slot. Raises ValueError for a number that JSON does not have."""
    return value if isinstance(value, str) else strictjson.dumps(value).decode()


def text(metadata: Metadata, key: str) -> str | None:
    """A string. A number or a boolean becomes its JSON."""
    value: Any = metadata.get(key)
    if isinstance(value, int | float):
        return json.dumps(value)
    return value if isinstance(value, str) else None
