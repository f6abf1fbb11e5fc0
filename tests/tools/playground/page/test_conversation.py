"""What becomes of a conversation in the page when something else happens meanwhile."""

import json
import re
from typing import TYPE_CHECKING, Any

from tests.tools.playground.page.clicks import choose, expect, open_agent, send, state

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route


def test_after_a_question_that_is_over_the_conversation_continues(page: "Page") -> None:
    """It was answered, or canceled, by another client."""
    open_agent(page, "probe")
    choose(page, "add", a="40")
    expect(send(page)).to_contain_text("Please tell me: the second number.")
    page.wait_for_function("Object.keys(localStorage).some((name) => name.endsWith(':probe'))")
    # As if another client had canceled it.
    page.evaluate(
        """async () => {
          const [, stored] = Object.entries(localStorage).find(([name]) => name.endsWith(":probe"));
          const request = { id: JSON.parse(stored).turns.at(-1).taskId };
          const call = { agent: "probe", version: "1.0", key: "local-key", operation: "cancel", request };
          const headers = { "Content-Type": "application/json" };
          const body = JSON.stringify(call);
          const answer = await fetch("/playground/call", { method: "POST", headers, body });
          await answer.text();
        }"""
    )
    expect(send(page, "2")).to_contain_text("has ended")
    expect(send(page, "3")).to_contain_text("Please tell me")


def test_a_question_stays_open_if_the_server_did_not_answer(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "add", a="40")
    expect(send(page)).to_contain_text("Please tell me: the second number.")
    page.route("**/playground/call", lambda route: route.abort())
    expect(send(page, "2")).to_contain_text("does not answer")
    page.unroute("**/playground/call")
    expect(send(page, "2")).to_contain_text("42")


def test_a_file_with_an_odd_address_is_shown_without_a_link(page: "Page") -> None:
    texts = page.evaluate(
        """async () => {
          const { showMessages } = await import("/playground/views.js");
          const place = document.createElement("div");
          const reply = [{ url: "https://[bad/x.csv", filename: "x.csv" }];
          const message = { messageId: "m", parts: [{ text: "hi" }] };
          const turn = { message, steps: [], artifacts: [], reply, state: "completed" };
          showMessages(place, { turns: [turn] }, false, null);
          return [place.textContent, String(place.querySelectorAll("a").length)];
        }"""
    )
    assert "x.csv" in texts[0]
    assert texts[1] == "0"


def test_a_message_ends_a_wait_while_the_page_follows_it(page: "Page") -> None:
    open_agent(page, "traveler")
    choose(page, "cash")
    expect(send(page)).to_contain_text("waits for payment")
    page.select_option("#skill", "")
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled(timeout=20_000)
    expect(send(page, "in coins")).to_contain_text('"said": "in coins"')


def test_each_tab_keeps_its_own_conversation(page: "Page") -> None:
    open_agent(page, "probe")
    choose(page, "echo")
    expect(send(page, "in the first tab")).to_contain_text("in the first tab")
    state(page, "completed")
    other = page.context.new_page()
    other.goto(page.url)
    open_agent(other, "probe")
    expect(other.locator("article.own")).to_contain_text("in the first tab")
    other.locator("#begin").click()
    choose(other, "echo")
    expect(send(other, "in the second tab")).to_contain_text("in the second tab")
    state(other, "completed")
    other.close()
    page.reload()
    expect(page.locator("article.own")).to_have_text(re.compile("in the first tab"))


def test_old_conversations_make_room_for_a_new_one(page: "Page") -> None:
    count = page.evaluate(
        """async () => {
          const { Conversation } = await import("/playground/conversation.js");
          for (const storage of [localStorage, sessionStorage])
            for (let size = 1 << 23; size > 100; size >>= 1)
              try { storage.setItem(`conversation:old ${size}`, "x".repeat(size)); } catch {}
          const conversation = new Conversation("new");
          conversation.add({ messageId: "m", parts: [{ text: "hi".repeat(1000) }] }, "1.0");
          conversation.save();
          return new Conversation("new").turns.length;
        }"""
    )
    assert count == 1


def test_a_page_that_is_not_seen_gives_its_connection_back(page: "Page") -> None:
    """A browser has six, for all tabs. When it is seen again, no line is shown twice."""
    open_agent(page, "probe")
    expect(send(page, "hello")).not_to_be_empty()
    state(page, "completed")
    is_closed = page.evaluate(
        """async () => {
          const own = EventSource;
          const seen = (hidden) => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
          };
          const opened = [];
          window.EventSource = class extends own { constructor(url) { super(url); opened.push(this); } };
          seen(true);
          seen(false);
          seen(true);
          const state = opened.at(-1).readyState;
          seen(false);
          window.EventSource = own;
          return [opened.length, state];
        }"""
    )
    assert is_closed == [2, 2]


def test_a_cancellation_belongs_to_its_own_conversation(page: "Page") -> None:
    """Another one was begun before it was answered."""
    open_agent(page, "probe")
    choose(page, "pause", seconds="60")
    send(page)
    page.locator("#cancel").wait_for()
    cancellations: list[Route] = []

    def hold(route: "Route") -> None:
        if (route.request.post_data_json or {}).get("operation") == "cancel":
            cancellations.append(route)
        else:
            route.continue_()

    page.route("**/playground/call", hold)
    with page.expect_request(lambda request: '"cancel"' in (request.post_data or "")):
        page.locator("#cancel").click()
    page.locator("#begin").click()
    # The page saves its conversation when it has read the answer.
    page.evaluate(
        """() => {
          const set = Storage.prototype.setItem;
          Storage.prototype.setItem = function (...pair) {
            document.body.dataset.saved = "yes";
            set.apply(this, pair);
          };
        }"""
    )
    for route in cancellations:
        route.continue_()
    page.locator("body[data-saved]").wait_for()
    with page.expect_request("**/playground/call") as request:
        send(page, "hi")
    assert "contextId" not in json.loads(request.value.post_data or "{}")["request"]["message"]


def test_an_idle_tab_leaves_what_another_has_saved(page: "Page") -> None:
    expect(send(page, "What is 1 plus 2?")).to_contain_text("1 plus 2 is 3.")
    state(page, "completed")
    page.reload()  # which saves it
    state(page, "completed")
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.locator("article.own")).to_have_count(1)
    expect(send(page, "What is 2 plus 2?")).to_contain_text("2 plus 2 is 4.")
    state(page, "completed")
    other.close(run_before_unload=True)
    page.reload()
    expect(page.locator("article.own")).to_have_count(2)


def test_spans_that_the_log_shows_to_every_tab_save_nothing(page: "Page") -> None:
    """An idle tab would put its older conversation in the place of what another has saved."""
    save_count = page.evaluate(
        """async () => {
          const { Conversation } = await import("/playground/conversation.js");
          const conversation = new Conversation("test");
          const turn = conversation.add({ messageId: "m", parts: [] }, "1.0");
          turn.taskId = "task";
          conversation.save();
          localStorage.setItem(conversation.place, "of another tab");
          const isNoted = conversation.noteSpans("task", "invoke_agent 1 ms");
          conversation.saveChanges();
          return [isNoted, turn.spans.length, localStorage.getItem(conversation.place)];
        }"""
    )
    assert save_count == [True, 1, "of another tab"]


def test_a_conversation_that_is_too_large_to_keep_loses_its_files_first(page: "Page") -> None:
    expect(send(page, "What is 1 plus 2?")).to_contain_text("1 plus 2 is 3.")
    page.evaluate(
        """() => {
          const set = Storage.prototype.setItem;
          Storage.prototype.setItem = function (name, value) {
            if (value.length > 5_000 && name.startsWith("conversation:")) throw new Error("full");
            set.call(this, name, value);
          };
        }"""
    )
    page.set_input_files("#files", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"x" * 6_000})
    expect(send(page, "What is 2 plus 2?")).to_contain_text("2 plus 2 is 4.")
    state(page, "completed")
    page.reload()
    expect(page.locator("article.own")).to_have_count(2)
    expect(page.locator("article.own").last).to_contain_text("too large to keep after a reload")
    page.locator("#examples button").first.wait_for()  # a card that comes later takes its own problem away
    page.locator("article.own button[data-action=retry]").last.click()
    expect(page.locator("#problem")).to_contain_text("Attach it again.")
    expect(page.locator("article.own")).to_have_count(2)


def test_an_answer_that_is_clicked_twice_is_sent_once(page: "Page") -> None:
    page.select_option("#skill", label="AI Coach")
    send(page, "Teach me.")
    button = page.locator("#choices button").first
    button.wait_for()
    count = page.locator("article.own").count()
    button.evaluate("(element) => { element.click(); element.click(); }")
    state(page, "completed")
    expect(page.locator("article.own")).to_have_count(count + 1)


def test_a_reload_during_a_call_is_no_failure_of_the_server(page: "Page") -> None:
    open_agent(page, "probe")
    page.select_option("#mode", "wait")
    choose(page, "pause", seconds="60")
    with page.expect_request("**/playground/call"):
        send(page)
    page.reload()
    expect(page.locator("article:not(.own)").last).not_to_contain_text("does not answer")


def test_a_server_that_is_gone_is_said(page: "Page") -> None:
    page.route("**/playground/call", lambda route: route.abort())
    page.select_option("#version", "0.3")
    expect(page.locator("#problem")).to_contain_text("The server does not answer.")


def test_a_text_that_no_parser_reads_is_shown_as_it_is(page: "Page") -> None:
    """So is one that would take it minutes. A long answer of the usual kind is not."""
    open_agent(page, "probe")
    row = "| [a link](https://example.com/a) | **bold** `code` | text |"
    usual = {
        "a table": "\n".join(["| a | b | c |", "|---|---|---|", *[row] * 2_000]),
        "a list": "- **a** `b` [c](https://example.com) and more words\n" * 900,
        "a program": "```python\n" + "x = [y * 2 for y in items]  # `z`\n" * 5_000 + "```",
        "paragraphs": "Some *words* with `code` and [a link](https://example.com).\n\n" * 3_000,
    }
    hostile = {
        "a fence that is none": "``` a`b\n" + "*a_" * 20_000,
        "a fence in another": "~~~\n```\n~~~\n\n" + "*a_" * 20_000,
        "rows without a head": ("|" + "*a_" * 49 + "\n") * 400,
        "columns": "|a" * 3_000 + "|\n" + "|-" * 3_000 + "|\n" + "|\n" * 3_000,
        "brackets": "\\(" * 30_000,
        "pictures": "!" * 190_000,
        "a row": "|" + "*a_" * 20_000,
        "lists": "".join(f"{'  ' * depth}- a\n\n" for depth in range(1_000)),
    }
    for texts, is_costly in ((usual, False), (hostile, True)):
        for name, text in texts.items():
            result = page.evaluate(
                "async (text) => (await import('/playground/markdown.js')).isCostly(text)", text
            )
            assert result is is_costly, name
    for text in (">" * 3_000, "*a_" * 20_000):
        shown_text = page.evaluate(
            "async (text) => (await import('/playground/markdown.js')).render(text).textContent", text
        )
        assert shown_text == text
    expect(send(page, "It works.")).not_to_be_empty()
    state(page, "completed")


def run_in_conversation(page: "Page", code: str) -> Any:
    """What a script returns that has a turn, and gives it operations of a durable turn."""
    return page.evaluate(CONVERSATION.replace("CODE", code))


CONVERSATION = """async () => {
  const { Conversation } = await import("/playground/conversation.js");
  const conversation = new Conversation("test");
  conversation.begin();
  const turn = conversation.add({ messageId: "m", parts: [] }, "1.0");
  const take = (kind, name, state, id) => {
    const metadata = { operation: { kind, name, state } };
    const status = { state: "TASK_STATE_WORKING" };
    conversation.takeEvent(turn, { statusUpdate: { taskId: "t", contextId: "c", status, metadata } });
    if (id) conversation.mark(turn, id);
  };
  CODE
}"""


def test_a_reply_is_for_a_wait_that_is_open_beside_a_step(page: "Page") -> None:
    begin = 'take("wait", "ok", "started"); take("step", "slow", "started"); take("step", "slow", "ended");'
    reply = 'const message = {}; conversation.add(message, "1.0"); return message.taskId ?? null;'
    assert run_in_conversation(page, begin + reply) == "t"
    assert run_in_conversation(page, f'{begin} take("wait", "ok", "ended"); {reply}') is None


def test_a_task_of_the_history_may_wait(page: "Page") -> None:
    restore = """
      const history = [{ role: "ROLE_USER", messageId: "h", parts: [] }];
      const task = { id: "t", contextId: "c", status: { state: "TASK_STATE_WORKING" }, history };
      conversation.restore("c", [task], "1.0");
      const message = {};
      conversation.add(message, "1.0");
      return message.taskId;
    """
    assert run_in_conversation(page, restore) == "t"


def test_a_step_that_ends_again_after_a_resumption_is_shown_once(page: "Page") -> None:
    begin = 'take("step", "slow", "started", "1"); take("step", "slow", "ended"); conversation.rewind(turn);'
    states = "return turn.steps.map(({ operation }) => operation.state);"
    assert run_in_conversation(page, begin + states) == ["started"]
    assert run_in_conversation(page, f'{begin} take("step", "slow", "ended"); {states}') == ["ended"]
