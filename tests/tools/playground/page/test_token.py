"""The playground of a deployment, whose token keeps other users of the machine out."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT
from tests.helpers.clock import PATIENCE_SECONDS
from tests.helpers.dev_server import DevServer
from tests.tools.playground.page.clicks import expect, send, state
from tools.build.built_functions import free_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def url(server: DevServer) -> Iterator[str]:
    """What `make playground` prints."""
    variables = {"URL": server.url, "KEY": "local-key", "PORT": str(free_port()), "STACK": ""}
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "tools.playground.serve"],
        cwd=ROOT,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.terminate()


def test_the_token_stays_with_its_origin(browser: "Browser", url: str) -> None:
    """A cookie would go to every port of this machine, where an agent's link may lead."""
    origin = url.partition("/?")[0]
    context, stranger = browser.new_context(locale="en-US"), browser.new_context(locale="en-US")
    for each in (context, stranger):
        each.set_default_timeout(1000 * PATIENCE_SECONDS)
    page = context.new_page()
    page.goto(url)
    expect(page.locator("#examples button").first).to_be_visible()
    assert page.url == f"{origin}/"
    send(page, "What is 1 plus 2?")
    state(page, "completed")
    assert context.cookies() == []
    other_tab = context.new_page()
    other_tab.goto(origin)
    expect(other_tab.locator("#examples button").first).to_be_visible()
    refused_page = stranger.new_page()
    refused_page.goto(origin)
    expect(
        refused_page.get_by_text("Open the URL that make playground printed, with its token.")
    ).to_be_visible()
    assert refused_page.locator("#examples button").count() == 0
    context.close()
    stranger.close()
