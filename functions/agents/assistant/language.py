"""What the assistant understands of a message: English and Chinese, by rule, no model."""

import re
import unicodedata
from decimal import Decimal
from typing import Literal

Sport = Literal["basketball", "football"]

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|(?<=\D)\d+(?:\.\d+)?")
NOT_A_SUM = re.compile(
    r"\d\s*[-−*/×÷^]\s*\d|\d[eE][-+]?\d|\b(?:minus|times|divided|multiplied|less)\b|[减乘除负]",
    re.IGNORECASE,
)
ABBREVIATION = re.compile(r"\b(?:[A-Za-z]|Dr|Mr|Mrs|Ms|St|vs|etc|e\.g|i\.e)\.(?=\s+\S)", re.IGNORECASE)
SENTENCE_END = re.compile(r"[。！？；…\n]+|(?<![.!?;])[.!?;]+(?=\s|$|[\"'”’)]|[\u3000-\u9fff\uff00-\uffef])")
SPORTS: dict[Sport, re.Pattern[str]] = {
    "basketball": re.compile(r"basketball|篮球", re.IGNORECASE),
    "football": re.compile(r"football|soccer|足球", re.IGNORECASE),
}
ADDS = re.compile(r"\b(?:plus|add|added|sum)\b|加|\d\s*\+\s*\d", re.IGNORECASE)
COUNTS = re.compile(r"\bcount\b|\bhow many sentences\b|几句|多少句", re.IGNORECASE)
FLASHES = re.compile(r"\bflash\b|闪", re.IGNORECASE)
COACHES = re.compile(r"\bcoach(?:es|ing)?\b|\bteach\b|\bhow to play\b|教|怎么[打踢]", re.IGNORECASE)


def is_chinese(text: str) -> bool:
    return re.search(r"[\u4e00-\u9fff]", text) is not None


def numbers(text: str) -> list[Decimal]:
    """Numbers written in digits, in order; 1,000 is a thousand, full-width digits count. None of a text
    that has them subtracted, multiplied or divided."""
    normal_text = unicodedata.normalize("NFKC", text)
    digits_in_text = [] if NOT_A_SUM.search(normal_text) else NUMBER.findall(normal_text)
    return [Decimal(digits.replace(",", "")) for digits in digits_in_text]


def number(text: object) -> object:
    """The one number of a slot's text, else the text."""
    values = numbers(text) if isinstance(text, str) else []
    return values[0] if len(values) == 1 else text


def sentences(text: str) -> int:
    """How many sentences; what has no letter and no digit is none."""
    unbroken_text = ABBREVIATION.sub(lambda match: match.group().replace(".", " "), text)
    return sum(any(char.isalnum() for char in piece) for piece in SENTENCE_END.split(unbroken_text))


def sport(text: object) -> Sport | None:
    """The first sport named."""
    if not isinstance(text, str):
        return None
    matches = [(match.start(), name) for name, words in SPORTS.items() if (match := words.search(text))]
    return min(matches)[1] if matches else None
