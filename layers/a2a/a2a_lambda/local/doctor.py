"""make doctor URL=… [KEY=…] [TEXT=…]: looks at a live agent as its clients do, and says what passes.

Each client's part reads the card where that client does, and then makes its calls.
"""

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from a2a_lambda import strictjson
from a2a_lambda.errors import KitError
from a2a_lambda.model import RESTING, Event, Json, Message, Part, Role
from a2a_lambda.operation import SendMessageRequest
from a2a_lambda.wire import Wire, v0_3, v1_0

TEXT = "Hello"
SUITE_STATES = {"submitted", "working", "completed", "failed", "input-required", "rejected"}


@dataclass(slots=True)
class Report:
    """What was looked at, row by row: (what, whether it passed, why not or what was seen)."""

    rows: list[tuple[str, bool, str]] = field(default_factory=list)

    def say(self, what: str, passed: bool, why: str = "") -> bool:
        self.rows.append((what, passed, why))
        return passed

    def table(self) -> str:
        width = max((len(what) for what, _, _ in self.rows), default=0)
        return "\n".join(
            f"  {'pass' if passed else 'FAIL'}  {what:<{width}}  {why}".rstrip()
            for what, passed, why in self.rows
        )

    @property
    def failed(self) -> int:
        return sum(not passed for _, passed, _ in self.rows)


class Patient:
    """One client's look at an agent."""

    def __init__(self, http: httpx2.AsyncClient, key: str, text: str) -> None:
        self._http = http
        self._key = key
        self._text = text
        self.report = Report()

    async def alibaba(self, url: str) -> None:
        """As Model Studio's console and its multimodal suite."""
        card_url = url if url.endswith(".json") else f"{url}/alibaba/.well-known/agent.json"
        card = await self._card(card_url)
        if card is None:
            return
        self._fields(card, ("name", "description", "url", "version", "capabilities", "skills"))
        say, version = self.report.say, card.get("protocolVersion")
        say("protocolVersion is 0.2.5", version == "0.2.5", "" if version == "0.2.5" else repr(version))
        target = str(card.get("url"))
        say("url is https", target.startswith("https://") or _local(target), target)
        modes = card.get("defaultInputModes") or []
        say("defaultInputModes has text/plain", "text/plain" in modes, ", ".join(map(str, modes)))
        self._skills(card)
        await self._keyless(target, v0_3)
        await self._send(target, v0_3, states=SUITE_STATES)
        await self._stream(f"{target}/stream", v0_3, first="task")

    async def v0_3(self, url: str) -> None:
        """As a client of A2A 0.3."""
        card = await self._card(url if url.endswith(".json") else f"{url}/.well-known/agent-card.json")
        if card is None:
            return
        self._fields(
            card, ("name", "description", "url", "version", "protocolVersion", "capabilities", "skills")
        )
        self._skills(card)
        target = str(card.get("url"))
        await self._keyless(target, v0_3)
        task_id = await self._send(target, v0_3)
        if _capable(card, "streaming"):
            await self._stream(target, v0_3)
        if task_id:
            await self._get(target, v0_3, task_id)

    async def v1_0(self, url: str) -> None:
        """As a client of A2A 1.0."""
        card = await self._card(
            url if url.endswith(".json") else f"{url}/.well-known/agent-card.json", {"A2A-Version": "1.0"}
        )
        if card is None:
            return
        names = ("name", "description", "supportedInterfaces", "version", "capabilities", "skills")
        self._fields(card, names)
        found = [
            item
            for item in card.get("supportedInterfaces") or []
            if (item.get("protocolBinding"), item.get("protocolVersion")) == ("JSONRPC", "1.0")
        ]
        if not self.report.say("a JSON-RPC interface of 1.0", bool(found)):
            return
        target = found[0]["url"]
        await self._keyless(target, v1_0)
        task_id = await self._send(target, v1_0)
        if _capable(card, "streaming"):
            await self._stream(target, v1_0, first="task")
        if task_id:
            await self._get(target, v1_0, task_id)

    async def _card(self, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any] | None:
        try:
            answer = await self._http.get(url, headers=dict(headers or {}))
            if answer.status_code in (401, 403) and self._key:
                answer = await self._http.get(url, headers={**self._headers, **(headers or {})})
            card = strictjson.loads(answer.content) if answer.status_code == 200 else None
        except (httpx2.HTTPError, KitError) as error:
            self.report.say("the card", False, f"{url}: {type(error).__name__}: {error}")
            return None
        if not self.report.say("the card", isinstance(card, dict), f"{url}: status {answer.status_code}"):
            return None
        return card if isinstance(card, dict) else None

    def _fields(self, card: Mapping[str, Json], names: tuple[str, ...]) -> None:
        missing = [name for name in names if not card.get(name)]
        self.report.say(
            "the card's required fields", not missing, f"missing: {', '.join(missing)}" * bool(missing)
        )

    def _skills(self, card: Mapping[str, Json]) -> None:
        lacking = [
            f"{skill.get('id', '?')}.{name}"
            for skill in card.get("skills") or []
            for name in ("id", "name", "description", "tags")
            if name not in skill
        ]
        self.report.say(
            "every skill is described", not lacking, f"missing: {', '.join(lacking)}" * bool(lacking)
        )

    async def _keyless(self, url: str, wire: Wire) -> None:
        """A call without a key has to be refused as HTTP refuses it."""
        try:
            answer = await self._http.post(url, json=self._body(wire, "send"))
        except httpx2.HTTPError as error:
            self.report.say("refuses a call without a key", False, repr(error))
            return
        self.report.say(
            "refuses a call without a key", answer.status_code in (401, 403), f"status {answer.status_code}"
        )

    async def _send(self, url: str, wire: Wire, *, states: set[str] | None = None) -> str:
        """Id of the task made, or ""."""
        async with self._told("a plain call"):
            value = await self._result(url, wire, self._body(wire, "send"))
            outcome = wire.RESULTS["send"].decode(value)
            if "task" not in outcome:
                self.report.say("a plain call", states is None, "answered with a message")
                return ""
            state = outcome["task"]["status"]["state"]
            word = state.removeprefix("TASK_STATE_").lower().replace("_", "-")
            self.report.say("a plain call", state in RESTING and (not states or word in states), word)
            return str(outcome["task"]["id"])
        return ""

    async def _stream(self, url: str, wire: Wire, *, first: str = "") -> None:
        async with self._told("a stream"):
            headers = {**self._headers, **_version(wire), "Accept": "text/event-stream"}
            events: list[Event] = []
            body = self._body(wire, "stream")
            async with self._http.stream("POST", url, json=body, headers=headers) as answer:
                media_type = answer.headers.get("content-type", "")
                if not media_type.startswith("text/event-stream"):
                    await answer.aread()
                    self.report.say("a stream", False, f"status {answer.status_code}, {media_type}")
                    return
                async for line in answer.aiter_lines():
                    if line.startswith("data:"):
                        events.append(wire.decode_event(_unwrapped(line[5:].encode())))
            kinds = [next(iter(event)) for event in events]
            begins = not first or (bool(kinds) and kinds[0] == first)
            last = events[-1] if events else Event()
            status = last.get("statusUpdate", last.get("task", {})).get("status", {})
            ends = status.get("state") in RESTING or kinds == ["message"]
            self.report.say("a stream", begins and ends, ", ".join(kinds) or "no events")

    async def _get(self, url: str, wire: Wire, task_id: str) -> None:
        async with self._told("reads the task again"):
            body = _rpc(wire, "get", wire.REQUESTS["get"].encode({"id": task_id}))
            task = wire.RESULTS["get"].decode(await self._result(url, wire, body))
            self.report.say("reads the task again", task["id"] == task_id)

    @asynccontextmanager
    async def _told(self, what: str) -> AsyncIterator[None]:
        """What goes wrong becomes a row."""
        try:
            yield
        except (httpx2.HTTPError, KitError) as error:
            self.report.say(what, False, f"{type(error).__name__}: {error}")

    async def _result(self, url: str, wire: Wire, body: Json) -> Json:
        headers = {**self._headers, **_version(wire)}
        return _unwrapped((await self._http.post(url, json=body, headers=headers)).content)

    @property
    def _headers(self) -> dict[str, str]:
        return {"X-API-Key": self._key} if self._key else {}

    def _body(self, wire: Wire, operation: Any) -> Json:
        message = Message(messageId=str(uuid.uuid4()), role=Role.USER, parts=[Part(text=self._text)])
        return _rpc(wire, operation, wire.REQUESTS["send"].encode(SendMessageRequest(message=message)))


CLIENTS: Mapping[str, Callable[[Patient, str], Any]] = {
    "Alibaba Model Studio": Patient.alibaba,
    "A2A 0.3": Patient.v0_3,
    "A2A 1.0": Patient.v1_0,
}


async def examine(url: str, key: str, text: str) -> int:
    """Prints a table for each client; returns the number of failures."""
    failed = 0
    async with httpx2.AsyncClient(timeout=60, trust_env=False) as http:
        for name, look in CLIENTS.items():
            patient = Patient(http, key, text)
            await look(patient, url.rstrip("/"))
            failed += patient.report.failed
            print(f"{name}\n{patient.report.table()}\n")
    return failed


def _rpc(wire: Wire, operation: Any, params: Json) -> Json:
    method = next(name for name, meant in wire.METHODS.items() if meant == operation)
    return {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": params}


def _version(wire: Wire) -> dict[str, str]:
    return {"A2A-Version": "1.0"} if wire is v1_0 else {}


def _unwrapped(body: bytes) -> Json:
    """Result of a JSON-RPC answer. Raises KitError saying what there is instead."""
    value = strictjson.loads(body)
    if isinstance(value, dict) and "error" in value:
        raise KitError(str(value["error"]))
    if not isinstance(value, dict) or "result" not in value:
        raise KitError("no JSON-RPC response")
    return value["result"]


def _capable(card: Mapping[str, Json], name: str) -> bool:
    return bool((card.get("capabilities") or {}).get(name))


def _local(url: str) -> bool:
    return httpx2.URL(url).host in ("localhost", "127.0.0.1")


def main() -> int:
    url = os.environ.get("URL", "")
    if not url:
        print("usage: make doctor URL=https://… [KEY=…] [TEXT=…]", file=sys.stderr)
        return 2
    failed = asyncio.run(examine(url, os.environ.get("KEY", ""), os.environ.get("TEXT") or TEXT))
    print("all well" if not failed else f"{failed} to mend")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
