"""Reads fields of JSON objects. Its errors name the path of the field."""

import base64
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from a2a_lambda.errors import InvalidParams
from a2a_lambda.protocol.model import Json, decode_raw

INTEGER_FORM = re.compile(r"-?[0-9]{1,18}", re.ASCII)

INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:\.([0-9]+))?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)

MAX_ID_BYTES = 512
"""Maximum length of an id, in bytes; the id becomes part of a DynamoDB key."""

Object = dict[str, Json]


def _wrong_kind(value: Json, path: str, kind: str) -> InvalidParams:
    is_missing = value is None and not path.endswith("]")  # an entry of a list is there
    return InvalidParams(f"{path} {'is missing: it ' if is_missing else ''}must be {kind}", path=path)


def mapping(value: Json, path: str) -> Object:
    if not isinstance(value, dict):
        raise _wrong_kind(value, path, "an object")
    return value


def optional_mapping(source: Object, key: str, path: str) -> Object | None:
    value = source.get(key)
    return None if value is None else mapping(value, f"{path}.{key}")


def text(source: Object, key: str, path: str) -> str:
    value = source.get(key)
    if not isinstance(value, str):
        raise _wrong_kind(value, f"{path}.{key}", "a string")
    return value


def identifier(source: Object, key: str, path: str) -> str:
    """A string that can be an id: 1 to 512 bytes."""
    value = text(source, key, path)
    if not value or len(value.encode()) > MAX_ID_BYTES:
        raise InvalidParams(f"{path}.{key} must have 1 to {MAX_ID_BYTES} bytes", path=f"{path}.{key}")
    return value


def optional_identifier(source: Object, key: str, path: str) -> str | None:
    """An id, or None if it is absent, null or empty."""
    return identifier(source, key, path) if source.get(key) not in (None, "") else None


def array(source: Object, key: str, path: str) -> list[Json]:
    value = source.get(key)
    if not isinstance(value, list):
        raise _wrong_kind(value, f"{path}.{key}", "an array")
    return value


def mappings(source: Object, key: str, path: str) -> list[tuple[Object, str]]:
    """The objects of an array, each with its path; none if the array is absent, null or empty. Raises
    InvalidParams."""
    if not source.get(key):
        return []
    items = [(item, f"{path}.{key}[{index}]") for index, item in enumerate(array(source, key, path))]
    return [(mapping(item, item_path), item_path) for item, item_path in items]


def parts(source: Object, path: str, *, is_answer: bool) -> list[Json]:
    """The parts of a message or an artifact. Another agent's answer may leave out an empty list, as ProtoJSON
    does; in a request there is at least one part."""
    if is_answer and source.get("parts") is None:
        return []
    value = array(source, "parts", path)
    if not value and not is_answer:
        raise InvalidParams(f"{path}.parts must not be empty", path=f"{path}.parts")
    return value


def strings(source: Object, key: str, path: str) -> list[str]:
    """An array of strings; empty if it is absent or null."""
    if source.get(key) is None:
        return []
    value = array(source, key, path)
    for index, item in enumerate(value):
        if not isinstance(item, str):
            item_path = f"{path}.{key}[{index}]"
            raise InvalidParams(f"{item_path} must be a string", path=item_path)
    return value


def optional(
    source: Object,
    path: str,
    *,
    texts: Collection[str] = (),
    ids: Collection[str] = (),
    objects: Collection[str] = (),
    lists: Collection[str] = (),
) -> Object:
    """All fields of `source` in their order, the named ones checked; a null, an empty id and an empty
    list among them are left out. lists: lists of strings. Raises InvalidParams."""
    result: Object = {}
    for key, value in source.items():
        if key in texts or key in ids:
            if value is None or (key in ids and value == ""):
                continue
            (text if key in texts else identifier)(source, key, path)
        elif key in objects:
            if value is None:
                continue
            mapping(value, f"{path}.{key}")
        elif key in lists and not strings(source, key, path):
            continue
        result[key] = value
    return result


def choice(source: Object, key: str, path: str, choices: Mapping[str, Any]) -> str:
    value = text(source, key, path)
    if value not in choices:
        raise InvalidParams(f"{path}.{key} must be one of {', '.join(choices)}", path=f"{path}.{key}")
    return value


def count(source: Object, key: str, path: str) -> int | None:
    """An integer of 0 or more, as a number such as 3 or 3.0, or as a string (ProtoJSON, a query). None if it
    is absent or null."""
    value = source.get(key)
    if value is None:
        return None
    is_text = isinstance(value, str) and INTEGER_FORM.fullmatch(value)
    if is_text or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidParams(f"{path}.{key} must be an integer of 0 or more", path=f"{path}.{key}")
    return value


def flag(source: Object, key: str, path: str) -> bool | None:
    value = source.get(key)
    if value is not None and not isinstance(value, bool):
        raise InvalidParams(f"{path}.{key} must be true or false", path=f"{path}.{key}")
    return value


def base64_text(source: Object, key: str, path: str) -> str:
    """Base64 text, standard or url-safe, with padding or without; returned in the standard form, with
    padding."""
    value = text(source, key, path)
    try:
        result = base64.b64encode(decode_raw(value)).decode()
    except ValueError:
        raise InvalidParams(f"{path}.{key} must be base64", path=f"{path}.{key}") from None
    return result


def without(source: Object, names: Sequence[str]) -> Object:
    """The other fields, in their order."""
    return {key: value for key, value in source.items() if key not in names}


def instant(source: Object, key: str, path: str) -> str | None:
    """An RFC 3339 time, in the form of `model.timestamp`. None if it is absent, null or empty."""
    if source.get(key) in (None, ""):
        return None
    if (moment := _moment(text(source, key, path), "")) is None:
        raise InvalidParams(
            f"{path}.{key} must be an RFC 3339 time with its offset, such as 2026-01-31T12:00:00Z",
            path=f"{path}.{key}",
        )
    return moment


def instant_of_answer(source: Object, key: str, path: str) -> str | None:
    """The time in another agent's answer, in the same form. Agents of Google's first samples and of fasta2a
    write one without its offset, which counts as UTC. A string that is no time counts as absent."""
    return None if source.get(key) is None else _moment(text(source, key, path), "Z")


def _moment(value: str, default_offset: str) -> str | None:
    """A time in the form of `model.timestamp`; None if the string is no time. default_offset: the offset
    of a time that has none; with "", such a time counts as none."""
    match = INSTANT.fullmatch(value)
    if match is None or not (match[4] or default_offset):
        return None
    date, time, fraction, offset = match[1], match[2], match[3] or "0", match[4] or default_offset
    if time.endswith(":60"):  # a leap second, which Python's clock does not have
        time, fraction = time[:-2] + "59", "999"
    iso_text = f"{date}T{time}.{fraction[:6]:0<6}{'+00:00' if offset in ('z', 'Z') else offset}"
    try:
        moment = datetime.fromisoformat(iso_text).astimezone(UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return None
