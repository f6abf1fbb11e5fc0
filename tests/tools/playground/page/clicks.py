"""What a user does in the playground."""

from typing import TYPE_CHECKING

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="the browser's environment: make check").expect
expect.set_options(timeout=60_000)

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def open_agent(page: "Page", name: str) -> None:
    page.select_option("#agent", name)
    skill_name = {"probe": "Pieces", "traveler": "Nap"}.get(name, "AI Flash")
    page.locator("#skill option", has_text=skill_name).wait_for(state="attached")


def send(page: "Page", text: str = "") -> "Locator":
    """Write and send a message; returns the reply."""
    if text:
        page.fill("#text", text)
    page.get_by_role("button", name="Send", exact=True).click()
    return page.locator("article:not(.own)").last


def choose(page: "Page", skill: str, **values: str) -> None:
    page.select_option("#skill", skill)
    for name, value in values.items():
        field = page.locator(f"#parameters [name={name}]")
        if field.evaluate("(element) => element.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)


def state(page: "Page", wanted: str) -> None:
    expect(page.locator("article .state").last).to_have_text(wanted)
