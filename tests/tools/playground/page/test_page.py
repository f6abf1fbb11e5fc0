"""The playground in a real browser, by clicks, against `make run`."""

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from tests.helpers.dev_server import DevServer
from tests.tools.playground.page.clicks import choose, expect, open_agent, send, state

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route


def test_a_reply_is_streamed(page: "Page") -> None:
    page.locator("#examples button").first.click()
    expect(page.locator("#text")).not_to_have_value("")
    expect(send(page, "Teach me basketball.")).to_contain_text("Basketball, then. Dribble low")
    state(page, "completed")
    page.get_by_role("tab", name="Requests").click()
    page.locator(".exchange").first.locator("summary").click()
    expect(page.locator(".exchange").first).to_contain_text("SendStreamingMessage")
    expect(page.locator(".frame").first).to_contain_text("id: ")


def test_the_curl_can_be_pasted(page: "Page") -> None:
    expect(send(page, "What is 1 plus 2?")).to_contain_text("1 plus 2 is 3.")
    page.get_by_role("tab", name="Requests").click()
    page.locator(".exchange").first.locator("summary").click()
    assert "local-key" not in page.locator("#requests").inner_text()
    page.get_by_role("button", name="Copy curl").first.click()
    page.get_by_role("button", name="Copied").wait_for()
    clipboard = page.evaluate("navigator.clipboard.readText()")
    answer = subprocess.check_output(["sh", "-c", clipboard], text=True)
    assert "1 plus 2 is 3." in answer


def test_the_empty_page_says_who_answers(page: "Page") -> None:
    expect(page.locator("#messages h2")).to_have_text("Super AI Assistant")
    open_agent(page, "probe")
    expect(page.locator("#messages h2")).to_have_text("Probe")
    expect(page.locator("#messages")).to_contain_text("Enter sends it")


def test_a_form_fills_the_parameters(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "add", a="1", b="2")
    expect(page.locator("#parameters")).to_contain_text("the second number")
    expect(send(page)).to_contain_text("3")
    expect(page.locator(".own .chip").last).to_have_text("add(a=1, b=2)")
    choose(page, "add", a="40")
    expect(send(page)).to_contain_text("Please tell me: the second number.")
    expect(send(page, "2")).to_contain_text("42")


def test_a_large_file_is_uploaded(page: "Page", tmp_path: Path) -> None:
    (tmp_path / "large.bin").write_bytes(b"x" * 5_000_000)
    open_agent(page, "probe")
    choose(page, "examine")
    page.set_input_files("#files", tmp_path / "large.bin")
    expect(send(page)).to_contain_text(hashlib.sha256(b"x" * 5_000_000).hexdigest())
    expect(page.locator("article.own").last).to_contain_text("large.bin")


def test_a_message_whose_file_is_being_uploaded_is_sent_once(page: "Page", tmp_path: Path) -> None:
    (tmp_path / "large.bin").write_bytes(b"x" * 5_000_000)
    open_agent(page, "probe")
    choose(page, "examine")
    page.set_input_files("#files", tmp_path / "large.bin")
    uploads: list[str] = []
    page.on("request", lambda request: uploads.append(request.url) if "/upload" in request.url else None)
    # As two Enters in one moment.
    page.locator("#composer").evaluate("(form) => { form.requestSubmit(); form.requestSubmit(); }")
    expect(page.locator("article:not(.own)").last).to_contain_text(
        hashlib.sha256(b"x" * 5_000_000).hexdigest()
    )
    assert len(uploads) == 1
    assert page.locator("article.own").count() == 1
    expect(send(page, "and then?")).to_be_visible()


def test_files_and_metadata_are_sent(page: "Page", tmp_path: Path) -> None:
    open_agent(page, "probe")
    (tmp_path / "a.txt").write_text("hello")
    choose(page, "look")
    page.get_by_text("Files and metadata").click()
    page.set_input_files("#files", tmp_path / "a.txt")
    page.fill("#metadata", "[1]")
    send(page)
    expect(page.get_by_role("alert")).to_contain_text("Metadata must be a JSON object")
    page.fill("#metadata", json.dumps({"user": {"userId": "u-1"}}))
    reply = send(page)
    expect(reply).to_contain_text('"u-1"')
    expect(reply).to_contain_text('"a.txt"')
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_flash_flashes(page: "Page") -> None:
    page.evaluate(
        "new MutationObserver(() => document.body.matches('.flash') && (window.flashed = true))"
        ".observe(document.body, { attributes: true })"
    )
    expect(send(page, "Perform a flash.")).to_contain_text("command: flash")
    page.wait_for_function("window.flashed === true")


def test_a_task_is_canceled(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "pause", seconds="600")
    expect(send(page)).to_contain_text("waiting")
    page.get_by_role("button", name="Cancel the task").click()
    state(page, "canceled")
    expect(page.get_by_role("button", name="Cancel the task")).to_be_hidden()
    # The stream's last event is shown with the stream, though the cancellation came between.
    stream = page.locator(".exchange", has_text="SendStreamingMessage")
    expect(stream.locator(".frame").last).to_contain_text("TASK_STATE_CANCELED")


def test_the_log_is_beside_the_chat(page: "Page") -> None:
    open_agent(page, "probe")
    page.get_by_role("tab", name="Log").click()
    choose(page, "boom")
    send(page, "oh")
    state(page, "failed")
    expect(page.locator("#lines .here pre", has_text="RuntimeError: secret detail: oh")).to_be_visible()
    expect(page.locator("#lines .here pre", has_text="invoke_agent probe  failed")).to_be_visible()
    page.get_by_label("Only this task").check()
    expect(page.locator("#lines li:visible")).not_to_have_count(0)


def test_enter_sends_and_shift_enter_is_a_line(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "echo")
    page.locator("#text").click()
    page.keyboard.type("first")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("second")
    assert page.input_value("#text") == "first\nsecond"
    page.keyboard.press("Enter")
    state(page, "completed")
    assert page.input_value("#text") == ""
    assert page.locator(".own p").inner_text() == "first\nsecond"


def test_a_message_is_edited_or_sent_again(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "echo")
    send(page, "once")
    state(page, "completed")
    page.locator(".own").hover()
    page.get_by_role("button", name="Send again").click()
    expect(page.locator(".own")).to_have_count(2)
    state(page, "completed")
    expect(page.locator(".own .chip").last).to_have_text("echo()")
    page.locator(".own").last.hover()
    page.get_by_role("button", name="Edit").last.click()
    assert page.input_value("#text") == "once"


def test_files_are_dropped_and_pasted(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "look")
    page.evaluate(
        """() => {
            const give = (name, type, key, target) => {
                const data = new DataTransfer();
                data.items.add(new File(["hello"], name));
                const event = new Event(type, { bubbles: true, cancelable: true });
                Object.defineProperty(event, key, { value: data });
                document.querySelector(target).dispatchEvent(event);
            };
            give("dropped.txt", "drop", "dataTransfer", "#messages");
            give("pasted.txt", "paste", "clipboardData", "#text");
            give("unwanted.txt", "drop", "dataTransfer", "#messages");
        }"""
    )
    page.get_by_role("button", name="unwanted.txt ×").click()
    reply = send(page)
    for name in ("dropped.txt", "pasted.txt"):
        expect(reply).to_contain_text(f'"{name}"')
    expect(reply).not_to_contain_text("unwanted.txt")
    expect(page.locator("#attached")).to_be_hidden()


def test_a_wrong_key_is_explained(page: "Page") -> None:
    page.fill("#key", "wrong")
    page.press("#key", "Tab")
    reply = send(page, "hello")
    expect(reply.locator(".error")).to_contain_text("key", ignore_case=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_fits(page: "Page", scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 360, "height": 700})
    page.get_by_role("tab", name="Chat").click()
    expect(send(page, "Teach me basketball.")).to_contain_text("Basketball")
    for name in ("Chat", "Task", "Requests", "Log"):
        page.get_by_role("tab", name=name).click()
        expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
    page.get_by_role("tab", name="Log").press("ArrowLeft")
    expect(page.get_by_role("tab", name="Requests")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Requests")).to_be_visible()


def test_every_control_has_a_name_and_contrast(page: "Page") -> None:
    """Each theme is checked against WCAG 2.2, 4.1.2 and 1.4.3."""
    controls_without_name = page.evaluate(
        """() => [...document.querySelectorAll("input, select, textarea, button")].filter((element) => {
          const label = element.labels?.[0]?.textContent;
          const names = [element.getAttribute("aria-label"), label, element.textContent];
          return !names.some((name) => name?.trim());
        }).map((element) => element.id)"""
    )
    assert controls_without_name == []
    send(page, "What is 1 plus 2?")
    state(page, "completed")
    for theme in ("light", "dark"):
        page.select_option("#theme", theme)
        for place in (".name", "label > span", "article p", ".primary", "[role=tab][aria-selected=true]"):
            assert contrast(page, place) >= 4.5, (theme, place)


def contrast(page: "Page", selector: str) -> float:
    """Of an element's text to its background (WCAG's formula)."""
    value: float = page.evaluate(
        """(selector) => {
          const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
          const light = (color) => {
            canvas.fillStyle = color;
            canvas.fillRect(0, 0, 1, 1);
            const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
            const linear = (part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
            const [r, g, b] = parts.map(linear);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          let element = document.querySelector(selector);
          const text = light(getComputedStyle(element).color);
          const clear = (each) => getComputedStyle(each).backgroundColor === "rgba(0, 0, 0, 0)";
          while (clear(element)) element = element.parentElement;
          const back = light(getComputedStyle(element).backgroundColor);
          return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
        }""",
        selector,
    )
    return value


def test_a_key_and_a_conversation_belong_to_their_target(page: "Page", server: DevServer) -> None:
    page.fill("#key", "of-this-target")
    page.press("#key", "Tab")
    config = page.request.get(f"{server.url}/playground/config").json()

    def elsewhere(route: "Route") -> None:
        route.fulfill(json={**config, "url": "https://other.example.com", "key": "its-own"})

    send(page, "hello")
    expect(page.locator("article")).to_have_count(2)
    page.route("**/playground/config", elsewhere)
    page.reload()
    expect(page.locator("#key")).to_have_value("its-own")
    expect(page.locator("article")).to_have_count(0)


def test_the_time_of_a_stream_is_linear(page: "Page") -> None:
    """The last thousand of 80,000 chunks takes about as long as the first, and not 80 times as long."""
    first, last = page.evaluate(
        """async () => {
          const { Conversation } = await import("/playground/conversation.js");
          const turn = new Conversation("test").add({ messageId: "m", parts: [] }, "1.0");
          const conversation = new Conversation("test");
          const times = [];
          for (let block = 0; block < 80; block += 1) {
            const began = performance.now();
            for (let number = 0; number < 1000; number += 1) {
              const artifact = { artifactId: "a", parts: [{ text: "some words " }] };
              const update = { taskId: "t", contextId: "c", artifact, append: true };
              conversation.takeEvent(turn, { artifactUpdate: update });
              conversation.mark(turn, String(1000 * block + number));
            }
            times.push(performance.now() - began);
          }
          // What else the machine does disturbs some of the blocks.
          return [Math.min(...times.slice(0, 10)), Math.min(...times.slice(-10))];
        }"""
    )
    assert last < 8 * first + 5, f"{first:.1f} ms for the first thousand, {last:.1f} ms for the last"


def test_the_page_speaks_chinese(page: "Page") -> None:
    page.select_option("#language", "zh")
    expect(page.get_by_role("button", name="发送", exact=True)).to_be_visible()
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    expect(page.locator("#version")).to_contain_text("阿里云百炼")
    page.fill("#text", "你好")
    page.get_by_role("button", name="发送", exact=True).click()
    expect(page.locator("article").last).to_contain_text("你好")
    page.reload()
    expect(page.get_by_role("button", name="发送", exact=True)).to_be_visible()


def test_both_languages_have_the_same_words() -> None:
    text = (Path(__file__).parents[4] / "tools/playground/page/words.js").read_text()
    english, chinese = (text.split(f"  {name}: {{")[1].split("\n  },")[0] for name in ("en", "zh"))
    names = re.compile(r"(?:^|[{,])\s*(\w+): \"")
    assert names.findall(english) == names.findall(chinese)


def test_a_question_with_choices_has_buttons(page: "Page") -> None:
    page.select_option("#skill", label="AI Coach")
    expect(send(page, "Teach me.")).to_contain_text("Which sport")
    state(page, "input-required")
    choices = page.locator("#choices button")
    expect(choices).to_have_text(["basketball", "football"])
    choices.first.click()
    expect(page.locator("article:not(.own)").last).to_contain_text("Basketball, then.")
    expect(choices).to_have_count(0)


def test_a_form_takes_its_room_from_the_messages_whose_end_stays_in_view(page: "Page") -> None:
    send(page, "line\n" * 50)
    state(page, "completed")
    page.select_option("#skill", label="AI Calculator")
    expect(page.locator("#parameters input").first).to_be_visible()
    pane = page.locator("#messages").element_handle()
    page.wait_for_function("pane => pane.scrollHeight - pane.clientHeight - pane.scrollTop < 2", arg=pane)


def test_a_conversation_of_before_is_opened_and_continued(page: "Page") -> None:
    expect(send(page, "What is 1 plus 2?")).to_contain_text("1 plus 2 is 3.")
    page.select_option("#skill", label="AI Coach")
    send(page, "Teach me.")
    state(page, "input-required")
    page.get_by_role("button", name="New conversation").click()
    page.get_by_role("tab", name="History").click()
    rows = page.locator(".history button")
    expect(rows.first).to_contain_text("What is 1 plus 2?")
    expect(rows.first).to_contain_text("input-required")
    expect(rows.first).to_contain_text("2 tasks")
    rows.first.click()
    expect(page.locator("article")).to_have_count(4)
    expect(page.locator("article").nth(1)).to_contain_text("1 plus 2 is 3.")
    page.locator("#choices button", has_text="football").click()
    expect(page.locator("article:not(.own)").last).to_contain_text("Football, then.")
    page.get_by_role("tab", name="History").click()
    expect(rows.first).to_contain_text("completed")


def test_a_card_is_shown_as_each_version_reads_it(page: "Page") -> None:
    page.get_by_role("tab", name="Card").click()
    card = page.locator("#card")
    expect(card.locator("h2").first).to_contain_text("Super AI Assistant · A2A 1.0")
    expect(card).to_contain_text("✓ the card's required fields")
    expect(card.locator("pre")).to_contain_text("supportedInterfaces")
    page.select_option("#version", "alibaba")
    expect(card).to_contain_text("✓ protocolVersion is 0.2.5")
    expect(card.locator("pre")).not_to_contain_text("supportedInterfaces")
