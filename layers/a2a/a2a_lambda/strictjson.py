"""JSON as in RFC 8259, and nothing more. What is read can always be written again, unchanged.

The standard library's reader accepts NaN, infinities, duplicate keys and lone surrogates. Each of them
would break a client, or the store, much later and far away.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from a2a_lambda.errors import ParseError, excerpt

MAX_DEPTH = 64
"""Levels of objects and arrays in what others send."""

OUTPUT_DEPTH = MAX_DEPTH + 12
"""Levels of an agent's event, or of a step's result. Either may hold what others sent, nested more deeply: an
event adds seven levels."""

DOUBLE_DIGITS = 308
"""Digits of an integer that a double can hold, whatever they are."""

LARGE_NUMBER = re.compile(rb"(?<![0-9])[0-9]{%d}" % (DOUBLE_DIGITS + 1))
"""Looks at a run of digits once: without the assertion, it would begin at each digit again."""

ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
"""`json.dumps` with options would make one for every call."""


def loads(body: bytes, max_depth: int = MAX_DEPTH) -> Any:
    """Value of a UTF-8 JSON text. Integers stay exact. One beyond the range of a double is refused, because
    clients that use Protobuf could not read it.

    max_depth: levels of objects and arrays. Raises ParseError, which says what is wrong.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(f"not UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise ParseError("begins with a byte order mark")
    try:
        value = json.loads(
            text,
            object_pairs_hook=object_of_pairs,
            parse_constant=refuse_constant,
            parse_float=parse_float,
            parse_int=parse_int,
        )
        _check(value, max_depth, has_surrogates="\\ud" in text or "\\uD" in text)
    except json.JSONDecodeError as error:
        raise ParseError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ParseError(f"nested deeper than {max_depth} levels") from None
    except ValueError as error:
        raise ParseError(str(error)) from None
    return value


def dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON text of a value. Keys keep their order. Raises ValueError or TypeError."""
    try:
        return ENCODER.encode(value).encode()
    except ValueError as error:
        if str(error).startswith("Out of range float"):
            raise ValueError("JSON has no NaN and no infinity") from None
        raise


def dumps_verified(value: Any, max_depth: int = OUTPUT_DEPTH) -> bytes:
    """JSON text of a value, whose numbers `loads` accepts. max_depth: levels of objects and arrays. Raises
    ValueError or TypeError."""
    text = dumps(value)
    if text.count(b"{") + text.count(b"[") > max_depth:  # else it cannot be too deep
        _check(value, max_depth, has_surrogates=False)
    if LARGE_NUMBER.search(text):  # within a string, it is no number
        json.loads(text, parse_int=parse_int)
    return text


def object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                raise ValueError(f"duplicate key {json.dumps(excerpt(key))}")
            keys.add(key)
    return result


def refuse_constant(name: str) -> NoReturn:
    """Raises ValueError for NaN, Infinity and -Infinity."""
    raise ValueError(f"{name} is not a JSON value")


def parse_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is beyond the range of a double")
    return number


def parse_int(digits: str) -> int:
    if len(digits) > DOUBLE_DIGITS:
        parse_float(digits)  # refuses what a double cannot hold
    return int(digits)


def _check(value: Any, max_depth: int, *, has_surrogates: bool) -> None:
    level = [value]
    for _ in range(max_depth):
        children: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                children.extend(item.values())
                if has_surrogates:
                    children.extend(item)
            elif isinstance(item, list | tuple):
                children.extend(item)
            elif has_surrogates and isinstance(item, str):
                try:
                    item.encode()
                except UnicodeEncodeError:
                    raise ValueError("a string holds a lone surrogate") from None
        if not children:
            return
        level = children
    raise ValueError(f"nested deeper than {max_depth} levels")


def copy_of(value: Any) -> Any:
    """A JSON value with arrays and objects of its own. `copy.deepcopy` would also remember each of them, and
    takes several times the memory."""
    if isinstance(value, dict):
        return {name: copy_of(member) for name, member in value.items()}
    return [copy_of(item) for item in value] if isinstance(value, list) else value


def text_in(source: Mapping[str, Any], name: str) -> str:
    """A member of an object if it is a string; otherwise ""."""
    value = source.get(name)
    return value if isinstance(value, str) else ""


def object_in(source: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A member of an object if it is an object itself; otherwise an empty object."""
    value = source.get(name)
    return value if isinstance(value, dict) else {}


def objects_in(source: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects in a member of an object; none if it is not an array."""
    value = source.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
