"""What the playground shows of an answer, and what it does not let through."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tools.playground.page.clicks import choose, expect, open_agent, send, state

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route


def test_what_an_agent_returns_is_shown(page: "Page", tmp_path: Path) -> None:
    open_agent(page, "probe")
    choose(page, "everything")
    reply = send(page)
    state(page, "completed")
    for text in ("thinking", "text", '"number"', "first second", "command: beep"):
        expect(reply).to_contain_text(text)
    with page.expect_download() as download:
        reply.get_by_role("link", name=re.compile("note.txt")).click()
    download.value.save_as(tmp_path / "note.txt")
    assert (tmp_path / "note.txt").read_text() == "bytes"
    expect(page.locator("#task")).to_contain_text("artifact-1")


def test_a_picture_in_the_bucket_is_shown(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "picture")
    reply = send(page)
    picture = reply.locator("img")
    expect(picture).to_have_js_property("naturalWidth", 300)
    expect(reply.locator("a", has_text="noise.png")).to_have_attribute("href", re.compile("/a2a-files/"))


def test_text_of_an_agent_is_never_html(page: "Page") -> None:
    attack = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
    expect(send(page, attack).locator("p").first).to_have_text(attack)
    assert page.locator("#messages img").count() == 0
    assert page.title() == "Playground"


def test_the_oldest_requests_leave_the_page(page: "Page") -> None:
    """While a task runs elsewhere, the page asks for it every second, for days perhaps."""
    first, count = page.evaluate(
        """async () => {
          const { showRecord } = await import("/playground/views.js");
          const place = document.createElement("div");
          for (let id = 0; id < 250; id += 1)
            showRecord(place, null, { kind: "request", method: "GET", url: `/${id}`, headers: {} });
          return [place.firstElementChild.textContent, place.children.length];
        }"""
    )
    assert "/249" in first
    assert count == 200


MARKDOWN = """# Title

- *one* and **two**
- [x] done

| a | b |
|---|---|
| 1 | `2` |

```python
def greet(name: str) -> str:
    return "hi"
```

See [the page](https://example.com/x) or https://example.org, where $a_1 * b_2 * c$ and \\(x_i * y_i\\)."""


def test_markdown_is_rendered(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "echo")
    reply = send(page, MARKDOWN).locator(".markdown").first
    expect(reply.get_by_role("heading", name="Title")).to_be_visible()
    expect(reply.locator("li em")).to_have_text("one")
    expect(reply.locator("li input[type=checkbox]")).to_be_checked()
    expect(reply.locator("td code")).to_have_text("2")
    expect(reply.locator("pre .hljs-keyword").first).to_have_text("def")
    expect(reply).to_contain_text("the page (example.com)")
    expect(reply.locator("a").last).to_have_text("https://example.org")
    expect(reply.locator("a").first).to_have_attribute("rel", "noopener noreferrer")
    expect(reply.locator("p").last).to_contain_text("$a_1 * b_2 * c$ and \\(x_i * y_i\\)")
    reply.get_by_role("button", name="Copy").click()
    reply.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith(
        "def greet(name: str) -> str:\n    return"
    )
    page.get_by_label("Markdown as source").check()
    expect(page.locator("article:not(.own) p").first).to_contain_text("- *one* and **two**")
    page.get_by_label("Markdown as source").uncheck()
    expect(page.get_by_role("heading", name="Title")).to_be_visible()


def test_a_link_names_its_host_unless_its_text_is_the_address(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "echo")
    text = "[https://bank.example.com/x](https://bank.example.co/x) [bank.example.co/a](https://bank.example.co/a)"
    reply = send(page, text).locator(".markdown").first
    expect(reply.locator("a").first).to_have_text("https://bank.example.com/x")
    expect(reply.locator(".host")).to_have_text(["(bank.example.co)"])


ODD_CARD = {
    "name": "Odd",
    "capabilities": {"streaming": True, "extensions": [None, {"params": {"skills": [None, 3]}}]},
    "skills": [None, {"id": "add", "examples": [1, None]}, "x"],
}

ODD_METADATA = {"commands": [None, {"name": "flash", "params": [None]}], "operation": "search", "choices": 3}


def test_an_agent_may_have_anything_in_its_card_and_metadata(page: "Page") -> None:
    """It may be of another kit, or hostile. An error of the page's code fails the test."""
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hello"}], "metadata": ODD_METADATA}
    update = {"taskId": "t", "contextId": "c", "metadata": ODD_METADATA}
    states = [{"state": "TASK_STATE_WORKING"}, {"state": "TASK_STATE_COMPLETED", "message": message}]
    events = [{"kind": "event", "event": {"statusUpdate": {**update, "status": each}}} for each in states]
    card = [{"kind": "result", "result": ODD_CARD, "findings": [["a card", True, ""]]}]

    def answer(route: "Route") -> None:
        call = json.loads(route.request.post_data or "{}")
        records = card if call["operation"] == "card" else events
        route.fulfill(body="".join(f"{json.dumps(record)}\n" for record in records))

    page.route("**/playground/call", answer)
    page.reload()
    expect(page.locator("#skill option")).to_have_text(["the agent chooses", "add"])
    expect(send(page, "hi")).to_contain_text("hello")
    state(page, "completed")
    page.get_by_role("tab", name="Card").click()
    expect(page.locator("#card")).to_contain_text("✓ a card")
    page.reload()
    expect(page.locator("article:not(.own)").last).to_contain_text("hello")


ATTACKS = [
    "[x](javascript:document.title='hacked')",
    "<a href=\"javascript:document.title='hacked'\">x</a>",
    "![x](https://attacker.example/pixel.png)",
    "![x](data:text/html,<script>document.title='hacked'</script>)",
    "<svg onload=\"document.title='hacked'\">",
    "<iframe srcdoc=\"<script>parent.document.title='hacked'</script>\"></iframe>",
    "<style>*{display:none}</style>",
    "```\"><img src=x onerror=document.title='hacked'>\ncode\n```",
    "[x](https://e.example \"onmouseover=document.title='hacked'\")",
    "<form action=https://attacker.example><input name=a></form>",
    "$<img src=x onerror=document.title='hacked'>$",
    "| <img src=x onerror=document.title='hacked'> |\n|---|\n| <b>x</b> |",
    "&lt;script&gt;document.title='hacked'&lt;/script&gt;",
]


def test_what_an_agent_writes_neither_runs_nor_loads(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "echo")
    hosts: list[str] = []
    page.on("request", lambda request: hosts.append(request.url.split("/")[2]))
    expect(send(page, "\n\n".join(["START", *ATTACKS, "END"]))).to_contain_text("END")
    messages = page.locator("#messages")
    for tag in ("img", "script", "svg", "iframe", "style", "form", "object", "[onerror]", "[onload]"):
        assert messages.locator(tag).count() == 0, tag
    for link in messages.locator("a").all():
        assert (link.get_attribute("href") or "").startswith(("https://", "http://", "mailto:"))
        assert link.get_attribute("target") == "_blank"
    expect(messages).to_contain_text("<form action=https://attacker.example>")
    assert page.title() == "Playground"
    assert len(set(hosts)) == 1, hosts


def test_pictures_sound_and_pdfs_are_shown(page: "Page", tmp_path: Path) -> None:
    open_agent(page, "probe")
    choose(page, "look")
    tall = b'<svg xmlns="http://www.w3.org/2000/svg" width="300" height="900"/>'
    paths = {"tone.wav": b"RIFF", "film.mp4": b"\0", "paper.pdf": b"%PDF-1.4\n", "page.html": b"<script>"}
    paths["tall.svg"] = tall
    for name, content in paths.items():
        (tmp_path / name).write_bytes(content)
    page.set_input_files("#files", [tmp_path / name for name in paths])
    send(page, "these")
    reply = page.locator("article.own").last
    expect(reply.locator("audio")).to_have_attribute("src", re.compile("^blob:"))
    expect(reply.locator("video")).to_have_count(1)
    expect(page.locator("article .state").last).to_be_in_viewport()  # though the picture got its height late
    expect(reply.locator("a", has_text="tall.svg")).to_have_text("tall.svg (image/svg+xml, 66 B)")
    reply.get_by_text("Show the PDF").click()
    expect(reply.locator("iframe")).to_have_attribute("title", "paper.pdf")
    expect(reply.locator("a", has_text="page.html")).to_have_attribute("download", "page.html")


def test_the_time_line_shows_steps_and_artifacts(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "pieces", count="3", every="0.1")
    send(page)
    state(page, "completed")
    page.get_by_role("tab", name="Task").click()
    names = page.locator(".timeline th")
    expect(names.last).to_have_text("completed")
    expect(names).to_contain_text(["submitted", "artifact-1", "completed"])
    expect(page.locator("#task .spans")).to_contain_text("invoke_agent")


@pytest.mark.parametrize(
    "schema", [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"description": "x"}]
)
def test_a_parameter_of_several_types_takes_a_text(page: "Page", schema: Any) -> None:
    slots = page.evaluate(
        """async (code) => {
          const { showParameters, readSlots } = await import("/playground/parameters.js");
          const fieldset = document.createElement("fieldset");
          showParameters(fieldset, { properties: { code } });
          fieldset.querySelector("[name=code]").value = "AB-1";
          return readSlots(fieldset);
        }""",
        schema,
    )
    assert slots == [{"name": "code", "value": "AB-1"}]


def test_a_time_has_an_offset_and_is_shown_again(page: "Page") -> None:
    """JSON Schema's date-time has one, and a skill may want it."""
    shown, sent, again = page.evaluate(
        """async () => {
          const { formSlots, showParameters, readSlots } = await import("/playground/parameters.js");
          const fieldset = document.createElement("fieldset");
          const schema = { properties: { when: { type: "string", format: "date-time" } } };
          showParameters(fieldset, schema, [{ name: "when", value: "2026-12-24T18:00:00Z" }]);
          const shown = new Date(formSlots(fieldset)[0].value).toISOString();
          fieldset.querySelector("[name=when]").value = "2026-12-24T18:00";
          const [{ value }] = readSlots(fieldset);
          showParameters(fieldset, schema, [{ name: "when", value }]);
          return [shown, value, formSlots(fieldset)[0].value];
        }"""
    )
    assert shown == "2026-12-24T18:00:00.000Z"
    assert re.fullmatch(r"2026-12-24T18:00:00[+-]\d\d:\d\d", sent)
    assert again.startswith("2026-12-24T18:00")


@pytest.mark.parametrize(
    ("intents", "text"),
    [
        ([{"intent": "echo", "slots": {"a": "b"}}], "hi echo()"),
        ([{"intent": 7, "slots": [None, {"name": "a", "value": [1]}]}], "hi 7(a=[1])"),
        ([None], "hi"),
        ({"intent": "echo"}, "hi"),
    ],
)
def test_an_intent_may_be_of_any_form(page: "Page", intents: Any, text: str) -> None:
    """Another client may have sent it."""
    message = {"messageId": "m", "parts": [{"text": "hi"}], "metadata": {"intentInfos": intents}}
    shown = page.evaluate(
        """async (message) => {
          const { showMessages } = await import("/playground/views.js");
          const place = document.createElement("div");
          const turn = { message, steps: [], artifacts: [], reply: [], state: "completed" };
          showMessages(place, { turns: [turn] }, false, null);
          return [...place.firstElementChild.children].slice(0, -1).map((part) => part.textContent).join(" ");
        }""",
        message,
    )
    assert shown == text


def test_what_has_not_changed_is_not_shown_anew(page: "Page") -> None:
    """While a task pauses, its text can be selected, and its pictures stay the same."""
    result = page.evaluate(
        """async () => {
          const { showMessages } = await import("/playground/views.js");
          const { Conversation } = await import("/playground/conversation.js");
          const conversation = new Conversation("unchanged");
          const turn = conversation.add({ messageId: "m", parts: [{ text: "hi" }] }, "1.0");
          const place = document.createElement("div");
          const parts = () => [{ raw: "aGk=", mediaType: "image/png" }, { text: "one" }];
          const task = (state) => ({
            id: "t", contextId: "c", status: { state }, artifacts: [{ artifactId: "a", parts: parts() }],
          });
          const take = (task) => {
            conversation.takeResult(turn, task);
            showMessages(place, conversation, false, null);
            return place.lastElementChild;
          };
          const first = take(task("TASK_STATE_WORKING"));
          const picture = first.querySelector("img");
          const second = take(task("TASK_STATE_WORKING"));
          const third = take(task("TASK_STATE_COMPLETED"));
          return [first === second, second === third, third.querySelector("img") === picture];
        }"""
    )
    assert result == [True, False, True]


def test_values_of_another_agent_that_are_no_text_are_shown_as_json(page: "Page") -> None:
    shown_text = page.evaluate(
        """async () => {
          const { showMessages } = await import("/playground/views.js");
          const place = document.createElement("div");
          const odd = { toString: null };
          const metadata = { commands: [{ name: odd, params: [{ name: odd, value: odd }] }] };
          const steps = [{ text: "a step", stage: odd }];
          const message = { messageId: "m", parts: [] };
          const turn = { message, steps, artifacts: [], reply: [], metadata, state: "completed" };
          showMessages(place, { turns: [turn] }, false, null);
          return place.textContent;
        }"""
    )
    assert shown_text.count('{"toString":null}') == 4
