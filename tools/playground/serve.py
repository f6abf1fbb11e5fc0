"""make playground STACK=…|URL=… [KEY=…]: the playground for a deployed stack, or for any A2A agent."""

import asyncio
import os
import secrets
import shlex
import socket
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import suppress

import uvicorn

from a2a_lambda.aws import clients
from a2a_lambda.catalog.agents import default_of, read_cards
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.files.bucket import Bucket
from a2a_lambda.settings import Settings
from tools.client import logs
from tools.command import AGENTS, HOST, listen, read_port, read_url, reports_errors, split_names
from tools.deployment.stack import outputs_of, parameters_of
from tools.log_entry import LogEntry
from tools.playground.app import Playground, Target
from tools.state import read_token

FAILED_PAUSE_SECONDS = 30.0
"""Seconds until the next look at a log that could not be read."""

STOP_SECONDS = 5
"""Seconds that open calls have after Ctrl-C."""


class Server(uvicorn.Server):
    """Ends what would never end before it waits for its open answers. stopping: is set then."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)


def target_of_stack(stack: str, key: str, stopping: asyncio.Event) -> Target:
    """stopping: ends what follows the log. Raises ConfigurationError if there is no such stack."""
    outputs = outputs_of(stack)

    async def lines() -> AsyncGenerator[LogEntry | None, None]:
        log: logs.Log | None = None
        while not stopping.is_set():
            pause = logs.PAUSE_SECONDS
            try:
                if log is None:  # each page reads from its own beginning
                    log = await asyncio.to_thread(logs.log_of, stack)
                entries = await asyncio.to_thread(log.read)
            except Exception as error:  # AWS answers again later, or the credentials have expired
                entries, pause = [_failure(error)], FAILED_PAUSE_SECONDS
            for entry in entries:
                yield entry
            yield None
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause)

    bucket = outputs.get("FileBucketName", "")
    return Target(
        url=outputs["BaseUrl"],
        title=stack,
        agents=agents_of(stack),
        key=key,
        log=lines,
        files=url_of_bucket(bucket) if bucket else "",
    )


def url_of_bucket(name: str) -> str:
    """What the URLs of a bucket begin with."""
    settings = Settings.of(os.environ)
    return Bucket(lambda: clients.s3(settings), name).link("x", "", "").partition("x?")[0]


def agents_of(stack: str) -> list[str]:
    """Names of the agents here that the stack serves, the default agent first."""
    cards, _ = read_cards(AGENTS)
    names = split_names(parameters_of(stack).get("AgentNames", ""))
    agents = {name: card for name, card in cards.items() if not names or name in names}
    default = default_of(agents, names)
    return sorted(agents, key=lambda name: name != default) or [""]


def _failure(error: Exception) -> LogEntry:
    message = f"the log cannot be read: {error}"
    return LogEntry(
        at=round(time.time() * 1000), level="ERROR", logger="playground", message=message, agent="", task=""
    )


@reports_errors
def main() -> int:
    """Serve until Ctrl-C."""
    stack, url, key, port = (os.environ.get(name, "") for name in ("STACK", "URL", "KEY", "PORT"))
    key = key or read_token(os.environ)
    if bool(stack) == bool(url):
        raise ConfigurationError(
            "name a stack or a URL: make playground STACK=<stack>, or URL=https://…, with KEY=… or TOKEN=…"
        )
    stopping = asyncio.Event()
    target = (
        target_of_stack(stack, key, stopping)
        if stack
        else Target(url=read_url(url), title="A2A", agents=[""], key=key)
    )
    # Other users of this machine can reach the port, and would call with the key.
    token = secrets.token_urlsafe()
    number = read_port(port or "8081")
    place = f"STACK={stack}" if stack else f"URL={shlex.quote(url)}"
    with listen(number, f"make playground {place}") as listener:
        print(f"Playground of {stack or url}: http://{HOST}:{number}/?token={token}", flush=True)
        playground = Playground(target, token=token)
        config = uvicorn.Config(playground, log_level="warning", timeout_graceful_shutdown=STOP_SECONDS)
        with suppress(KeyboardInterrupt):
            Server(config, stopping).run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main())
