"""make doctor [URL=…|STACK=…|PORT=…] [AGENT=…] [KEY=…|TOKEN=…] [TEXT=…]: checks a live agent, by default the
default one of make run, as its clients would call it, and a deployed stack as its operator would.

Each client's part reads the card from the path that client uses, and calls the agent with the kit's own
client. The key goes only to the card's origin.
"""

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import httpx2

from a2a_lambda import strictjson
from a2a_lambda.client import AgentError, Client, discovery
from a2a_lambda.client.keys import card_headers, check_key
from a2a_lambda.errors import ConfigurationError, KitError
from a2a_lambda.net.addresses import is_loopback_url, place_of
from a2a_lambda.protocol.model import (
    INTERRUPTED,
    STOPPED,
    Event,
    TaskState,
    TaskStatus,
    state_word,
    text_of,
)
from a2a_lambda.wire import v0_3, v1_0
from a2a_lambda.wire.interface import Wire
from tools.agents.card_checks import Finding, check_card
from tools.callers.a2a import VERSIONS
from tools.callers.mcp import McpCaller
from tools.callers.records import FAILURES, SharedTransport, error_text, fetch_whole, make_http
from tools.command import HOST, named_agent, read_url, reports_errors
from tools.deployment.checkup import Checkup
from tools.deployment.stack import outputs_of, resources_of
from tools.state import key_for, server_port, start_advice
from tools.terminal import log_text

TEXT = "Hello"

RUNNING = {TaskState.SUBMITTED, TaskState.WORKING}

STREAM_SECONDS = 60.0
"""Seconds after which a stream is left."""

SUITE_STATES = {"submitted", "working", "completed", "failed", "input-required", "rejected"}


VERDICTS = {True: "pass", False: "FAIL", None: "note"}


@dataclass(slots=True)
class Report:
    """Rows: what was checked, whether it passed, and what was found.

    failed_turns: calls that the agent has answered, but with a task that failed.
    """

    rows: list[Finding] = field(default_factory=list)
    failed_turns: int = 0

    def add(self, what: str, verdict: bool | None, reason: str = "") -> bool:
        """Add a line. verdict: None if it neither passes nor fails. reason: may have an agent's words."""
        self.rows.append((what, verdict, log_text(reason)))
        return bool(verdict)

    def table(self) -> str:
        width = max((len(what) for what, _, _ in self.rows), default=0)
        return "\n".join(
            f"  {VERDICTS[verdict]}  {what:<{width}}  {reason}".rstrip()
            for what, verdict, reason in self.rows
        )

    def add_failed_turn(self, what: str, status: TaskStatus, text: str = "") -> None:
        """Add a note: an agent need not understand the text of this check. text: what else was found."""
        reason = text_of(status.get("message", {}).get("parts", [])) or "it gives no reason"
        self.add(what, None, f"{text}failed: {reason.rstrip('.')}. The agent's log says more")
        self.failed_turns += 1

    def extend(self, other: "Report") -> None:
        """Add the lines of another report."""
        self.rows += other.rows
        self.failed_turns += other.failed_turns

    @property
    def failed(self) -> int:
        return sum(verdict is False for _, verdict, _ in self.rows)


class Visit:
    """A check of an agent, as one client would call it."""

    def __init__(self, http: httpx2.AsyncClient, key: str, text: str) -> None:
        self._http = http
        self._key = key
        self._text = text
        self.report = Report()

    async def visit_alibaba(self, url: str) -> None:
        """Call the agent as Model Studio's console and its multimodal suite do."""
        own, _, name = url.partition("/a2a/")
        place = f"/alibaba/{name}" if name else "/alibaba"
        agent = await self._check_agent(
            "alibaba", discovery.card_url(own, f"{place}/.well-known/agent.json"), v0_3.WIRE
        )
        if agent is not None:
            suffix = VERSIONS["alibaba"].stream_suffix
            await self._check_calls(agent, first="task", states=SUITE_STATES, stream_suffix=suffix)

    async def visit_v0_3(self, url: str) -> None:
        """Call the agent as a client of A2A 0.3 does."""
        agent = await self._check_agent(
            "0.3", discovery.card_url(url, "/.well-known/agent-card.json"), v0_3.WIRE
        )
        if agent is not None:
            await self._check_calls(agent)

    async def visit_v1_0(self, url: str) -> None:
        """Call the agent as a client of A2A 1.0 does."""
        headers = {"A2A-Version": "1.0"}
        agent = await self._check_agent(
            "1.0", discovery.card_url(url, "/.well-known/agent-card.json"), v1_0.WIRE, headers
        )
        if agent is not None:
            await self._check_calls(agent, first="task")

    async def visit_mcp(self, url: str) -> None:
        """Call the agent as a host of MCP does. An agent need not have tools."""
        if url.endswith(".json"):
            return
        base, _, name = url.partition("/a2a/")
        caller = McpCaller(self._http, base, key=self._key, name=name)
        *_, tools = [record async for record in caller.read_card()]
        if tools["kind"] == "error":
            is_absent = tools.get("status") in (404, 405)
            self.report.add("the tools", None if is_absent else False, tools["message"])
            return
        for finding in tools["findings"]:
            self.report.add(*finding)
        self._http.cookies.clear()  # one of a gateway would sign in the call without a key
        *_, answer = [record async for record in McpCaller(self._http, base, name=name).read_card()]
        status = 200 if answer["kind"] == "result" else answer.get("status")
        verdict = status in (401, 403) if status else None
        self.report.add(
            "refuses a call without a key", verdict, f"status {status}" if status else answer["message"]
        )

    async def _check_agent(
        self,
        version: str,
        url: str,
        wire: Wire,
        headers: Mapping[str, str] | None = None,
    ) -> discovery.DiscoveredAgent | None:
        """The agent that a card describes. What the card lacks becomes a row."""
        add = self.report.add
        credentials = card_headers(self._key) if self._key else {}
        async with self._errors_as_rows("the card"):
            status, content = await fetch_whole(self._http, url, headers or {})
            if status in (401, 403) and credentials:
                status, content = await fetch_whole(self._http, url, {**credentials, **(headers or {})})
            is_there = status == 200
            reason = "" if is_there else f": {error_text(content, status)}"
            if not add("the card", is_there, f"{url}: status {status}{reason}"):
                return None
            async with self._errors_as_rows("can be called as its card says"):
                card = strictjson.loads(content)
                agent = discovery.agent_of_card(card, url, self._key or None, wires=(wire,))
                for finding in check_card(version, agent.card):
                    add(*finding)
                return agent
        return None

    async def _check_calls(
        self,
        agent: discovery.DiscoveredAgent,
        *,
        first: str = "",
        states: set[str] | None = None,
        stream_suffix: str = "",
    ) -> None:
        """Call without a key, then with one, then stream, then get the task.

        first: kind of a stream's first event. states: those that the client knows. stream_suffix: what the
        URL of streams has more.
        """
        add = self.report.add
        async with self._errors_as_rows("refuses a call without a key"):
            status: int | None = 200
            try:
                async with self._client(replace(agent, headers={})) as keyless:
                    await keyless.send(self._text)
            except AgentError as error:
                status = error.status
            add("refuses a call without a key", status in (401, 403), f"status {status}")
        task_id = ""
        async with self._errors_as_rows("a plain call"), self._client(agent) as client:
            answer: Any = await client.send(self._text)
            state = answer.get("status", {}).get("state", "")
            task_id = answer.get("id", "")
            is_known = not states or state_word(state) in states
            if state == TaskState.FAILED:
                self.report.add_failed_turn("a plain call", answer["status"])
            elif state in RUNNING:  # as the turns of durable and of background agents do
                add("a plain call", None, f"{state_word(state)}: the task continues without the call")
            else:
                is_answer = (state in STOPPED and is_known) or not (state or states)
                add("a plain call", is_answer, state_word(state) or "a message")
        capabilities = agent.card.get("capabilities")
        if isinstance(capabilities, dict) and capabilities.get("streaming"):
            stream_url = agent.url.rstrip("/") + stream_suffix if stream_suffix else agent.url
            await self._check_stream(replace(agent, url=stream_url), first)
        if task_id:
            async with self._errors_as_rows("reads the task again"), self._client(agent) as client:
                add("reads the task again", (await client.get(task_id))["id"] == task_id)

    async def _check_stream(self, agent: discovery.DiscoveredAgent, first: str) -> None:
        async with self._errors_as_rows("a stream"), self._client(agent) as client:
            start = time.monotonic()
            events: list[Any] = []
            times: list[float] = []
            is_left = False
            try:
                async with asyncio.timeout(STREAM_SECONDS):
                    async for event in client.stream(self._text):
                        events.append(event)
                        times.append(time.monotonic() - start)
            except TimeoutError:  # a durable turn may wait for days
                is_left = True
            kinds = [next(iter(event)) for event in events]
            has_start = not first or (bool(kinds) and kinds[0] == first)
            last: Any = events[-1] if events else Event()
            status = last.get("statusUpdate", last.get("task", {})).get("status", {})
            has_end = status.get("state") in STOPPED or kinds == ["message"]
            may_stay_open = status.get("state") in INTERRUPTED  # section 3.1.2 of A2A 1.0
            text = "no events"
            if kinds:
                text = (
                    f"{', '.join(kinds)}; the first after {times[0]:.1f} s, the last after {times[-1]:.1f} s"
                )
            if is_left:
                text += f"; after {STREAM_SECONDS:g} s it had not ended"
                if may_stay_open:
                    text += ", as it need not after a question"
                elif has_end:
                    text += ", although its task had"
                elif kinds:
                    text += ": its task still runs"
            is_stream = kinds != ["task"] or is_left or not has_end
            if not is_stream:
                text = "the answer is the whole task, and not a stream"
            verdict = is_stream and has_start and has_end and (may_stay_open or not is_left)
            if status.get("state") == TaskState.FAILED and verdict:
                self.report.add_failed_turn("a stream", status, f"{text}; ")
                return
            self.report.add(
                "a stream", None if is_left and has_start and kinds and not has_end else verdict, text
            )

    @asynccontextmanager
    async def _errors_as_rows(self, what: str) -> AsyncIterator[None]:
        """An error becomes a row."""
        try:
            yield
        except FAILURES as error:
            name = "" if isinstance(error, KitError) else f"{type(error).__name__}: "
            self.report.add(what, False, f"{name}{error}")

    def _client(self, agent: discovery.DiscoveredAgent) -> Client:
        return Client(agent.url, transport=SharedTransport(self._http), agent=agent)


CLIENTS: Mapping[str, Callable[[Visit, str], Any]] = {
    "Alibaba Model Studio": Visit.visit_alibaba,
    "A2A 0.3": Visit.visit_v0_3,
    "A2A 1.0": Visit.visit_v1_0,
    "MCP": Visit.visit_mcp,
}


async def examine(
    url: str, key: str, text: str, transport: httpx2.AsyncBaseTransport | None = None
) -> Report:
    """Print a table for each client; returns the rows of all. Raises ConfigurationError if the URL cannot be
    reached."""
    report = Report()
    async with make_http(url, transport) as http:
        await _check_reachable(url, http)
        for name, call in CLIENTS.items():
            http.cookies.clear()
            visit = Visit(http, key, text)
            await call(visit, url.rstrip("/"))
            report.extend(visit.report)
            print(f"{name}\n{visit.report.table()}\n")
    return report


async def _check_reachable(url: str, http: httpx2.AsyncClient) -> None:
    """Raises ConfigurationError if nothing answers. The checks of each client say what else is wrong."""
    try:
        async with http.stream("GET", url):
            pass  # the body may be endless
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
        hint = f"; {start_advice(httpx2.URL(url).port)}" if is_loopback_url(url) else ""
        reason = str(error) or type(error).__name__
        raise ConfigurationError(f"{place_of(url)} cannot be reached: {reason}{hint}") from None
    except (httpx2.HTTPError, httpx2.InvalidURL):
        pass


def inspect(stack: str) -> tuple[str, Report]:
    """Print a table of a deployed stack; returns its URL, and the table. Raises ConfigurationError if there
    is no such stack."""
    outputs = outputs_of(stack)
    report = Report()
    for row in Checkup(stack, resources_of(stack), outputs).rows():
        report.add(*row)
    print(f"Stack {stack}\n{report.table()}\n")
    return outputs["BaseUrl"], report


@reports_errors
def main() -> int:
    url, stack = os.environ.get("URL", ""), os.environ.get("STACK", "")
    agent = named_agent(os.environ)
    if url:
        read_url(url)
        if agent and re.search(r"/a2a/[^/]|\?", url):
            raise ConfigurationError(f"URL={place_of(url)} names an agent, or has a query: leave out AGENT")
    elif not stack:
        url = f"http://{HOST}:{server_port(os.environ)}"
    report = Report()
    if stack:
        own_url, report = inspect(stack)
        url = url or own_url
    if agent:
        url = f"{url.rstrip('/')}/a2a/{quote(agent, safe='')}"
    key = key_for(url, os.environ)
    if key:
        check_key(key)  # before each check fails for it
    else:
        print("no KEY=… and no TOKEN=…: the agent will refuse every call\n")
    report.extend(asyncio.run(examine(url, key, os.environ.get("TEXT") or TEXT)))
    failures = report.failed
    if failures:
        print(f"checks that failed: {failures}")
    elif report.failed_turns:
        print(f"no check failed, but the agent failed {report.failed_turns} calls")
    else:
        print("all checks passed")
    if stack and not failures:
        print(f"Next: make playground STACK={stack} KEY=<a key>")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
