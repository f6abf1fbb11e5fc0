"""What the assistant understands of a text: English and Chinese, by rule, no model."""

import re
import unicodedata
from decimal import Decimal
from typing import Literal

Sport = Literal["basketball", "football"]

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|(?<=\D)\d+(?:\.\d+)?")
SENTENCE_END = re.compile(r"[。！？；!?;\n]+|[.…]+(?=\s|$|[\"'”’)])|…+")
SPORTS: dict[Sport, re.Pattern[str]] = {
    "basketball": re.compile(r"basketball|篮球", re.IGNORECASE),
    "football": re.compile(r"football|soccer|足球", re.IGNORECASE),
}
ADDS = re.compile(r"\b(?:plus|add|sum)\b|加|\d\s*\+\s*\d", re.IGNORECASE)
COUNTS = re.compile(r"\bcount\b|几句|多少句", re.IGNORECASE)
FLASHES = re.compile(r"\bflash\b|闪", re.IGNORECASE)
COACHES = re.compile(r"\bcoach(?:es|ing)?\b|\bteach\b|\bhow to play\b|教|怎么[打踢]", re.IGNORECASE)


def chinese(text: str) -> bool:
    return re.search(r"[\u4e00-\u9fff]", text) is not None


def numbers(text: str) -> list[Decimal]:
    """Numbers written in digits, in order; 1,000 is a thousand, full-width digits count."""
    found = NUMBER.findall(unicodedata.normalize("NFKC", text))
    return [Decimal(digits.replace(",", "")) for digits in found]


def sentences(text: str) -> int:
    """How many sentences; what has no letter and no digit is none."""
    return sum(any(char.isalnum() for char in piece) for piece in SENTENCE_END.split(text))


def sport(text: str) -> Sport | None:
    """The first sport named."""
    found = [(match.start(), name) for name, words in SPORTS.items() if (match := words.search(text))]
    return min(found)[1] if found else None
