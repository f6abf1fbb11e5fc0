"""Media types as clients write them, and patterns of them, such as image/*."""

from collections.abc import Iterable
from fnmatch import fnmatchcase


def plain(media_type: str | None) -> str:
    """The type without its parameters, in lower case; "" if there is none."""
    return (media_type or "").partition(";")[0].strip().lower()


def matches(media_type: str | None, patterns: Iterable[str]) -> bool:
    """Whether a type matches one of the patterns, which are types without parameters."""
    plain_type = plain(media_type)
    return any(fnmatchcase(plain_type, pattern.lower()) for pattern in patterns)
