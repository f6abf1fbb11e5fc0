"""The playground in a real browser: every version, and what outlives a dropped stream, a reload, an edit."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers.dev_server import DevServer
from tests.tools.playground.page.clicks import choose, expect, open_agent, send, state
from tools.callers.a2a import VERSIONS

pytestmark = pytest.mark.slow(seconds=40)


if TYPE_CHECKING:
    from playwright.sync_api import Page, Route


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_spoken(page: "Page", version: str) -> None:
    page.select_option("#version", version)
    expect(send(page, "What is 1 plus 2?")).to_contain_text("1 plus 2 is 3.")
    state(page, "completed")
    expect(send(page, "coach me")).to_contain_text("Which sport should I coach")
    state(page, "input-required")
    expect(page.locator("#text")).to_have_attribute("placeholder", re.compile("Answer"))
    expect(send(page, "football")).to_contain_text("Football, then.")
    state(page, "completed")


def test_tools_of_mcp_are_called(page: "Page") -> None:
    page.select_option("#version", "mcp")
    choose(page, "ai-calculate", num1="1", num2="2")
    expect(send(page)).to_contain_text("1 plus 2 is 3.")
    state(page, "completed")
    page.select_option("#skill", "ai-coach")
    expect(send(page)).to_contain_text("Which sport should I coach")
    state(page, "input-required")
    expect(send(page, "football")).to_contain_text("Football, then.")
    state(page, "completed")


@pytest.mark.parametrize("version", ["1.0", "0.3", "0.1"])
def test_a_dropped_stream_is_resumed(page: "Page", version: str) -> None:
    open_agent(page, "probe")
    page.select_option("#version", version)
    choose(page, "pieces", count="8", every="1")
    expect(send(page)).to_contain_text("0 1 ")
    page.get_by_role("button", name="Drop the stream").click()
    expect(page.locator("#state")).to_contain_text("The stream was dropped")
    page.get_by_role("button", name="Resume").click()
    state(page, "completed")
    expect(page.locator("article:not(.own) p").last).to_have_text("0 1 2 3 4 5 6 7 ")


def test_a_reload_keeps_the_conversation_and_its_stream(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "pieces", count="8", every="1")
    expect(send(page)).to_contain_text("0 1 ")
    page.reload()
    expect(page.locator("article.own")).to_have_count(1)
    state(page, "completed")
    expect(page.locator("article:not(.own) p").last).to_have_text("0 1 2 3 4 5 6 7 ")
    expect(page.locator("#agent")).to_have_value("probe")
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator("article")).to_have_count(0)
    page.reload()
    page.wait_for_selector("#examples", state="attached")
    expect(page.locator("article")).to_have_count(0)


def test_a_background_task_is_asked_for(page: "Page") -> None:
    page.select_option("#mode", "background")
    expect(send(page, "What is 1 plus 2?")).to_contain_text("1 plus 2 is 3.")
    state(page, "completed")


def test_steps_pauses_and_waits_are_shown(page: "Page") -> None:
    open_agent(page, "traveler")
    expect(send(page, "Oslo")).to_contain_text("Shall I book it?")
    steps = page.locator("article ol.steps").last
    for text in ("✓ plan", "▶ sleeps", "⏸ waits for approval"):
        expect(steps).to_contain_text(text)
    expect(send(page, "yes")).to_contain_text("Booked.")
    state(page, "completed")
    expect(page.locator("article ol.steps").last).to_contain_text("✓ hotel")


def test_a_task_that_waits_is_followed(page: "Page") -> None:
    """A message is the reply, though the task did not ask."""
    open_agent(page, "traveler")
    page.select_option("#skill", "remember")
    expect(send(page)).to_contain_text("⏸ waits for go")
    page.get_by_role("button", name="Drop the stream").click()
    page.select_option("#skill", "")
    expect(send(page, "go on")).to_contain_text("None None")
    state(page, "completed")


def test_an_edit_is_seen(page: "Page", server: DevServer, folder: Path) -> None:
    """The last test: it adds an agent."""
    new = folder / "functions/agents/newcomer"
    new.mkdir()
    skill = "{ id: hello, name: Hello, description: Says hello., examples: [Hi there] }"
    (new / "agent.py").write_text(
        "from a2a_lambda import skill\n\n\n@skill\ndef hello() -> str:\n    return 'Hello from an edit.'\n"
    )
    (new / "card.yaml").write_text(f"name: N\ndescription: N.\nversion: 0.1.0\nskills: [{skill}]\n")
    page.locator("#agent option", has_text="newcomer").wait_for(state="attached", timeout=60_000)
    page.select_option("#agent", "newcomer")
    page.get_by_role("button", name="Hi there").click()
    expect(send(page)).to_contain_text("Hello from an edit.")
    output = server.output.read_text()
    assert f"new agent: newcomer. Its card: {server.url}/a2a/newcomer/" in output
    assert "ERROR" not in output.partition("new agent")[2], "the page's open stream does not delay a restart"


def test_a_cancellation_leaves_no_hole_in_a_stream_that_goes_further(page: "Page") -> None:
    """Its result has the task as it is in the table, which may be older than what the stream has brought."""
    open_agent(page, "probe")

    def answer(route: "Route") -> None:
        body = route.request.post_data_json or {}
        if body.get("operation") != "cancel":
            route.continue_()
            return
        artifact = {"artifactId": "artifact-1", "parts": [{"text": "0 "}]}
        status = {"state": "TASK_STATE_WORKING"}
        task = {"id": body["request"]["id"], "contextId": "", "status": status, "artifacts": [artifact]}
        route.fulfill(body=json.dumps({"kind": "result", "result": task}) + "\n")

    page.route("**/playground/call", answer)
    choose(page, "pieces", count="40", every="0.1")
    reply = send(page)
    expect(reply).to_contain_text("0 1 2 3 ")
    page.locator("#cancel").click()
    expect(reply).to_contain_text(re.compile(r"\b20 "))
    numbers = [int(word) for word in reply.inner_text().split() if word.isdigit()]
    assert numbers == list(range(len(numbers)))


def test_the_page_drops_a_call_that_names_no_task(page: "Page") -> None:
    """A call of MCP names none, and its server cancels it then."""
    open_agent(page, "probe")
    page.select_option("#version", "mcp")
    choose(page, "pieces", count="100", every="0.2")
    send(page)
    expect(page.locator("#cancel")).to_be_hidden()
    page.locator("#drop").click()
    expect(page.locator("#drop")).to_be_hidden()
