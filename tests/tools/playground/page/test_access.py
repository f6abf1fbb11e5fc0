"""The page for those who use a keyboard, a screen reader, or large letters."""

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.clock import PATIENCE_SECONDS
from tests.tools.playground.page.clicks import choose, expect, open_agent, send, state

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Route


def focus_of(page: "Page") -> str:
    """Id of what has the focus, or its text."""
    text: str = page.evaluate("document.activeElement.id || document.activeElement.textContent")
    return text


def listen(page: "Page") -> None:
    """Note what a screen reader is given in `window.spoken`, and how often in the title of the body."""
    page.evaluate(
        """() => {
          const place = document.querySelector("#spoken");
          window.spoken = [];
          const note = () => {
            if (place.textContent) document.body.title = window.spoken.push(place.textContent);
          };
          new MutationObserver(note).observe(place, { childList: true, characterData: true, subtree: true });
        }"""
    )


def test_a_screen_reader_gets_each_answer_once(page: "Page") -> None:
    """It does not get the messages, which grow."""
    expect(page.get_by_role("log")).to_have_attribute("aria-live", "off")
    expect(page.locator("#state")).to_have_attribute("role", "status")
    listen(page)
    for count in (1, 2):  # the same answer twice
        send(page, "What is 1 plus 2?")
        expect(page.locator("body")).to_have_attribute("title", str(count))
        state(page, "completed")
    announcements = page.evaluate("window.spoken")
    assert len(announcements) == 2
    assert all("1 plus 2 is 3." in text for text in announcements)


def test_a_screen_reader_gets_what_a_turn_waits_for(page: "Page") -> None:
    """Once, although the page looks at the task again and again."""
    open_agent(page, "traveler")
    listen(page)
    choose(page, "cash")
    expect(send(page)).to_contain_text("waits for payment")
    expect(page.locator("body")).to_have_attribute("title", "1")
    assert "waits for payment" in page.evaluate("window.spoken[0]")
    expect(page.locator("#spoken")).to_be_empty()  # nor does a search find it
    page.locator("#begin").click()


def test_what_has_not_changed_stays(page: "Page") -> None:
    """What is selected in it, or open, would be lost."""
    looks = page.evaluate(
        """async () => {
          const { showMessages, showTask } = await import("/playground/views.js");
          const place = document.createElement("div");
          const panel = document.createElement("div");
          const turn = (id, text) => ({
            message: { messageId: id, parts: [{ text: id }] },
            steps: [], artifacts: [{ artifactId: "a", parts: [{ text }] }], reply: [],
            state: "working", taskId: id,
          });
          const turns = [turn("m1", "same"), turn("m2", "same")];
          const show = () => { showMessages(place, { turns }, false, null); showTask(panel, turns[1]); };
          show();
          const [before, ids] = [[...place.children], panel.querySelector("dl")];
          turns[1].artifacts[0].parts[0].text = "same and more";
          show();
          const after = [...place.children];
          turns[0].state = "completed"; // as when its wait is over
          show();
          const texts = [...place.children].map((element) => element.textContent);
          const same = before.map((element, index) => element === after[index]);
          return [same, panel.querySelector("dl") === ids, texts];
        }"""
    )
    same, is_list_kept, texts = looks
    assert same == [True, True, True, False]
    assert is_list_kept
    assert "same" in texts[1]
    assert "completed" in texts[1]
    assert "same and more" in texts[3]


def test_the_focus_is_never_lost(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "add", a="1")
    send(page)
    state(page, "input-required")
    assert focus_of(page) == "Send"
    choose(page, "pause", seconds="60")
    send(page)
    page.locator("#cancel").click()
    state(page, "canceled")
    expect(page.locator("#text")).to_be_focused()
    page.get_by_role("tab", name="History").click()
    with page.expect_response("**/playground/call"):
        page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_role("button", name="Refresh")).to_be_focused()
    expect(page.locator("#state")).to_be_empty()
    page.locator(".history button").first.click()
    expect(page.locator("#text")).to_be_focused()


def test_the_focus_stays_where_the_answer_grows(page: "Page") -> None:
    """It stays in a code block of the reply, and in another panel."""
    movement = page.evaluate(
        """async () => {
          const { make, showElements } = await import("/playground/elements.js");
          const place = document.querySelector("#task");
          const pre = (textContent) => make("pre", { textContent, tabIndex: 0 });
          place.replaceChildren(pre("one"));
          const words = place.firstChild.firstChild;
          showElements(place, [pre("one")]);
          const isKept = words.isConnected; // with what is selected in it
          place.firstChild.focus();
          showElements(place, [pre("one two")]);
          return [isKept, document.activeElement === place.firstChild, place.textContent];
        }"""
    )
    assert movement == [True, True, "one two"]
    open_agent(page, "probe")
    choose(page, "pieces", count="40", every="0.05")
    page.get_by_role("tab", name="Requests").focus()
    send(page)
    page.get_by_role("tab", name="Requests").focus()
    state(page, "completed")
    expect(page.get_by_role("tab", name="Requests")).to_be_focused()


def test_a_button_that_answers_leaves_the_focus_with_the_text(page: "Page") -> None:
    page.select_option("#skill", label="AI Coach")
    send(page, "Teach me.")
    page.locator("#choices button").first.click()
    expect(page.locator("#text")).to_be_focused()


def test_what_was_written_into_a_form_stays(page: "Page") -> None:
    """It stays while the card is read again; and Edit brings it back."""
    open_agent(page, "probe")
    choose(page, "add", a="40", b="2")
    page.locator("#parameters [name=b]").focus()
    with page.expect_response("**/playground/call"):
        page.select_option("#version", "0.3")
    expect(page.locator("#parameters [name=a]")).to_have_value("40")
    page.select_option("#version", "1.0")
    expect(send(page)).to_contain_text("42")
    expect(page.locator("#parameters [name=a]")).to_have_value("")
    page.select_option("#skill", "echo")
    page.locator("article.own").last.hover()
    page.get_by_role("button", name="Edit").last.click()
    expect(page.locator("#skill")).to_have_value("add")
    expect(page.locator("#parameters [name=b]")).to_have_value("2")


def scroll_to(locator: "Locator") -> None:
    """Scroll until an element is in view. What the page shows late may scroll it away again."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        locator.scroll_into_view_if_needed()
        try:
            expect(locator).to_be_in_viewport(timeout=1_000)
            return
        except AssertionError:
            if time.monotonic() > give_up_at:
                raise


@pytest.mark.parametrize("size", [(320, 256), (960, 470)])
def test_large_letters_leave_room_for_the_messages(page: "Page", size: tuple[int, int]) -> None:
    """A window of 1280 by 1024 at 400 %, and one of 1920 by 940 at 200 % with an open form."""
    width, height = size
    open_agent(page, "probe")
    expect(send(page, "hello")).not_to_be_empty()
    page.set_viewport_size({"width": width, "height": height})
    if width < 900:
        page.get_by_role("tab", name="Chat").click()
    choose(page, "add")
    page.get_by_text("Files and metadata").click()
    sizes: dict[str, Any] = page.evaluate(
        """() => ({
          messages: document.querySelector("#messages").clientHeight,
          sideways: document.documentElement.scrollWidth - innerWidth,
        })"""
    )
    assert sizes["messages"] >= 120
    assert sizes["sideways"] <= 0
    scroll_to(page.locator("#files"))
    scroll_to(page.locator("#messages"))


def test_an_answer_that_a_reload_has_lost_is_called_so(page: "Page") -> None:
    held_routes: list[Route] = []

    def hold_first(route: "Route") -> None:
        """It is never answered, not even while the page is reloaded."""
        if held_routes:
            route.continue_()
        else:
            held_routes.append(route)

    page.route("**/playground/call", hold_first)
    page.select_option("#mode", "wait")
    page.fill("#text", "hello")
    page.keyboard.press("Enter")
    expect(page.locator("#state")).to_have_text("Running…")
    page.reload()
    expect(page.locator("#state")).to_contain_text("its task is in the history")
