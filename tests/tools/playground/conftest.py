"""A browser, and `make run` with the tests' agents."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.dev_server import DevServer
from tests.helpers.project import copy_kit
from tools.environments import find_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

BROWSER = os.environ.get("BROWSER") or find_browser()

WIDE: "ViewportSize" = {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser's environment: make check")
    if not BROWSER:
        pytest.skip("no chromium or google-chrome on this machine")
    # For a module only: it keeps an event loop, beside which no test can run another one.
    with playwright.sync_playwright() as playwright_api:
        # Without a sandbox: in a container Chromium has no right to make one. It opens only our pages.
        options = ["--no-sandbox", "--lang=en-US"]
        new_browser = playwright_api.chromium.launch(executable_path=BROWSER, args=options)
        yield new_browser
        new_browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_kit(tmp_path_factory.mktemp("playground"), agents=("assistant", "probe", "traveler"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[DevServer]:
    dev_server = DevServer(folder, LONGEST_PAUSE="1")
    dev_server.until(dev_server.serves)
    yield dev_server
    dev_server.interrupt()


@pytest.fixture
def page(browser: "Browser", server: DevServer) -> "Iterator[Page]":
    """The playground, opened by someone new. An error of its code fails the test."""
    context = browser.new_context(viewport=WIDE, locale="en-US")
    context.set_default_timeout(1000 * PATIENCE_SECONDS)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    errors: list[str] = []
    new_page = context.new_page()
    new_page.on("pageerror", lambda error: errors.append(str(error)))
    new_page.goto(server.url)
    new_page.wait_for_selector("#examples button")
    yield new_page
    context.close()
    assert not errors
