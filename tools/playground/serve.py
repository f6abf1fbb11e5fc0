"""make playground STACK=…|URL=… [KEY=…]: the playground for a deployed stack, or for any A2A agent."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import uvicorn

from a2a_lambda.agent.agents import default_of, read_cards
from a2a_lambda.errors import ConfigurationError
from tools.client import logs
from tools.command import reports_errors
from tools.deployment.stack import outputs_of, parameters_of
from tools.log_entry import LogEntry
from tools.playground.app import Playground, Target

HOST = "127.0.0.1"

USAGE = "usage: make playground STACK=<stack> or URL=https://… [KEY=…] [PORT=8081]"


def target_of_stack(stack: str, key: str) -> Target:
    """Raises ConfigurationError if there is no such stack."""
    url = outputs_of(stack)["BaseUrl"]
    log = logs.log_of(stack)

    async def lines() -> AsyncGenerator[LogEntry | None, None]:
        while True:
            try:
                entries = await asyncio.to_thread(log.read)
            except Exception as error:  # AWS answers again later, or the credentials have expired
                entries = [_failure(error)]
            for entry in entries:
                yield entry
            yield None
            await asyncio.sleep(logs.PAUSE_SECONDS)

    return Target(url=url, title=stack, agents=agents_of(stack), key=key, log=lines)


def agents_of(stack: str) -> list[str]:
    """Names of the agents here that the stack serves, the default agent first."""
    cards, _ = read_cards(Path("functions/agents"))
    named = [name.strip() for name in parameters_of(stack).get("AgentNames", "").split(",") if name.strip()]
    served = {name: card for name, card in cards.items() if not named or name in named}
    first = default_of(served)
    return sorted(served, key=lambda name: name != first) or [""]


def _failure(error: Exception) -> LogEntry:
    message = f"the log cannot be read: {error}"
    return LogEntry(at=0, level="ERROR", logger="playground", message=message, agent="", task="")


@reports_errors
def main() -> int:
    """Serve until Ctrl-C."""
    stack, url, key, port = (os.environ.get(name, "") for name in ("STACK", "URL", "KEY", "PORT"))
    if bool(stack) == bool(url):
        print(USAGE, file=sys.stderr)
        return 2
    if url and not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"URL={url}: write the whole url, such as https://agents.example.com")
    target = target_of_stack(stack, key) if stack else Target(url=url, title="A2A", agents=[""], key=key)
    number = int(port) if port.isdigit() else 8081
    print(f"Playground of {stack or url}: http://{HOST}:{number}", flush=True)
    uvicorn.run(Playground(target), host=HOST, port=number, log_level="warning")
    return 0


if __name__ == "__main__":
    sys.exit(main())
