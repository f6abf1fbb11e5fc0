"""Reading fields of JSON objects, with errors that say where."""

from collections.abc import Mapping, Sequence
from typing import Any

from a2a_lambda.errors import InvalidParams
from a2a_lambda.model import Json, decoded

MAX_ID_BYTES = 512
"""Bytes of an id; it becomes part of a DynamoDB key."""

Object = dict[str, Json]


def mapping(value: Json, path: str) -> Object:
    if not isinstance(value, dict):
        raise InvalidParams(f"{path} must be an object", path=path)
    return value


def optional_mapping(source: Object, key: str, path: str) -> Object | None:
    value = source.get(key)
    return None if value is None else mapping(value, f"{path}.{key}")


def text(source: Object, key: str, path: str) -> str:
    value = source.get(key)
    if not isinstance(value, str):
        raise InvalidParams(f"{path}.{key} must be a string", path=f"{path}.{key}")
    return value


def identifier(source: Object, key: str, path: str) -> str:
    """A string fit for an id: not empty, at most 512 bytes."""
    value = text(source, key, path)
    if not value or len(value.encode()) > MAX_ID_BYTES:
        raise InvalidParams(f"{path}.{key} must have 1 to {MAX_ID_BYTES} bytes", path=f"{path}.{key}")
    return value


def optional_identifier(source: Object, key: str, path: str) -> str | None:
    """An id, or None where it is absent, null or empty."""
    return identifier(source, key, path) if source.get(key) not in (None, "") else None


def array(source: Object, key: str, path: str) -> list[Json]:
    value = source.get(key)
    if not isinstance(value, list):
        raise InvalidParams(f"{path}.{key} must be an array", path=f"{path}.{key}")
    return value


def strings(source: Object, key: str, path: str) -> list[str]:
    """An array of strings; empty where it is absent or null."""
    if source.get(key) is None:
        return []
    value = array(source, key, path)
    for index, item in enumerate(value):
        if not isinstance(item, str):
            where = f"{path}.{key}[{index}]"
            raise InvalidParams(f"{where} must be a string", path=where)
    return value


def choice(source: Object, key: str, path: str, choices: Mapping[str, Any]) -> str:
    value = text(source, key, path)
    if value not in choices:
        raise InvalidParams(f"{path}.{key} must be one of {', '.join(choices)}", path=f"{path}.{key}")
    return value


def count(source: Object, key: str, path: str) -> int | None:
    """A whole number of 0 or more, or None where it is absent or null."""
    value = source.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidParams(f"{path}.{key} must be an integer of 0 or more", path=f"{path}.{key}")
    return value


def flag(source: Object, key: str, path: str) -> bool | None:
    value = source.get(key)
    if value is not None and not isinstance(value, bool):
        raise InvalidParams(f"{path}.{key} must be true or false", path=f"{path}.{key}")
    return value


def encoded(source: Object, key: str, path: str) -> str:
    """Base64, standard or url-safe, padded or not; returned as it came."""
    value = text(source, key, path)
    try:
        decoded(value)
    except ValueError:
        raise InvalidParams(f"{path}.{key} is not base64", path=f"{path}.{key}") from None
    return value


def without(source: Object, names: Sequence[str]) -> Object:
    """The other fields, in their order."""
    return {key: value for key, value in source.items() if key not in names}
