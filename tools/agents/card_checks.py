"""What a card lacks for the clients of one version, or of one platform."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from a2a_lambda.net.addresses import is_loopback_url
from a2a_lambda.protocol.model import Json
from a2a_lambda.strictjson import objects_in

COMMON = ("name", "description", "version", "capabilities", "skills")
"""Fields that every card must have."""

CARD_FIELDS: Mapping[str, Sequence[str]] = {
    "1.0": ("supportedInterfaces", *COMMON),
    "1.0-http": ("supportedInterfaces", *COMMON),
    "0.3": ("url", "protocolVersion", *COMMON),
    "qianfan": ("url", "provider", *COMMON),
}
"""Fields that a card must have, by the names of `a2a.VERSIONS`. The others must have a URL."""

Finding = tuple[str, bool | None, str]
"""What was checked, whether it passed (None: who reads it decides), and what was found."""


def check_card(version: str, card: Mapping[str, Json]) -> Iterator[Finding]:
    """Findings on a card that was read as the clients of a version read it.

    version: a name of `a2a.VERSIONS`.
    """
    gaps = [name for name in CARD_FIELDS.get(version, ("url", *COMMON)) if not card.get(name)]
    yield "the card's required fields", not gaps, _list_missing(gaps)
    skill_gaps = [
        f"{skill.get('id', '?')}.{name}"
        for skill in objects_in(card, "skills")
        for name in ("id", "name", "description", "tags")
        if not skill.get(name)  # a required array has an element (1.0 section 5.7)
    ]
    yield "every skill is described", not skill_gaps, _list_missing(skill_gaps)
    if version == "alibaba":
        yield from _check_alibaba(card)


def _check_alibaba(card: Mapping[str, Json]) -> Iterator[Finding]:
    """What the console of Model Studio expects."""
    version, url = str(card.get("protocolVersion")), str(card.get("url"))
    yield "protocolVersion is 0.2.5", version == "0.2.5", version
    is_local = is_loopback_url(url)
    note = f"{url} (http is fine on this machine)" if is_local else url
    yield "url is https", url.lower().startswith("https://") or is_local, note
    modes: Any = card.get("defaultInputModes")
    names = [str(mode) for mode in modes] if isinstance(modes, list) else []
    yield "defaultInputModes has text/plain", "text/plain" in names, ", ".join(names)


def _list_missing(names: Sequence[str]) -> str:
    return f"missing: {', '.join(names)}" if names else ""
