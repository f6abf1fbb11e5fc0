"""The development server: the application under uvicorn, and an emulator of AWS.

make run ── this process ── emulator (unless AWS_ENDPOINT_URL_DYNAMODB names one)
                        └── uvicorn's reloader ── the server, restarted after every edit
"""

import asyncio
import difflib
import json
import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn._subprocess import get_subprocess
from uvicorn.supervisors.watchfilesreload import WatchFilesReload

from a2a_lambda.agent.configuration import ENVIRONMENT_FILE, read_variables
from a2a_lambda.aws import clients
from a2a_lambda.catalog.agents import default_of, read_cards
from a2a_lambda.errors import ConfigurationError
from a2a_lambda.net.addresses import is_loopback_url
from a2a_lambda.protocol.card import Card
from a2a_lambda.settings import MAX_EXECUTION_SECONDS, Settings
from a2a_lambda.turns.run import stop_turns
from tools import template
from tools.command import (
    HOST,
    agent_folders,
    listen,
    note_unread_variables,
    read_port,
    reports_errors,
)
from tools.commands import DEFAULT_PORT
from tools.deployment.stack import aws_errors
from tools.dev import console, emulator, event_sources, own_resources
from tools.dev.log_lines import LINES
from tools.registers.keys import KeyRegister
from tools.state import BUCKET, KEYS_PATH, TABLE, local_key, state_file

ENDPOINTS = ("AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SSM")

END_SECONDS = 5.0
"""Seconds after which the server's process is killed, because an agent's code keeps its loop busy."""

LATE_TURNS_SECONDS = 0.1
"""Seconds between two checks for turns that began while the process ends."""

APPLICATION = "tools.dev.application:create"
"""Makes what is served. Only the server's process imports it."""

RELOADED = ("functions", "layers/a2a")

RELOADED_FILES = tuple(
    f"*.{name}" for name in ("py", "yaml", "md", "txt", "json", "sql", "toml", "j2", "jinja")
)
"""Code, cards, and what agents read beside their code, such as a prompt."""

GRACE_SECONDS = 1.0
"""Seconds in which turns may finish by themselves when the process ends; again for those that no request
waits for, once the requests have ended."""

REQUESTS_END_SECONDS = 2
"""Seconds after which open requests are cancelled. Those whose turn was stopped must be answered by then."""

TURNS_END_SECONDS = 2.0
"""Seconds, after the requests have ended, in which turns that no request waits for must end."""

NOT_RELOADED = ("agents/*/tests/*", "agents/*/tests/*/*", "evals.yaml", "README.md")
"""Files in these folders that the server does not read. An agent may be called `tests`."""

SIMILARITY = 0.9
"""How much of two names must be the same, so that one may be a misspelling of the other."""

FRESH_ID = """'$(od -An -tx8 -N8 /dev/urandom | tr -d ' ')'"""
"""Ends the single quotes of a shell command, and begins them again: every paste sends a new id."""


@reports_errors
def main() -> int:
    """Serve until Ctrl-C."""
    port = read_port(os.environ.get("PORT") or str(DEFAULT_PORT))
    variables = read_variables(ENVIRONMENT_FILE)
    with ExitStack() as stack:
        listener = stack.enter_context(listen(port, "make run"))
        url = ""
        if not _has_own_endpoints():
            url = stack.enter_context(emulator.running(_longest_pause()))
        _configure(port, url)
        secret = local_key()
        settings = Settings.of(os.environ)
        cards, _ = read_cards(settings.agents, settings.agent_names)
        default = default_of(cards, settings.agent_names)
        with aws_errors("make run"):  # such as AWS_PROFILE, if this machine does not have that profile
            prepare(settings, secret)
        if url:
            _create_queues(settings)
            _create_bucket(settings)
        emulated = _create_own_resources(settings)
        state = state_file(port)
        state.unlink(missing_ok=True)  # a killed server may have left one that others can read
        state.touch(mode=0o600)
        state.write_text(json.dumps({"emulator": url, "port": port, "key": secret}))
        stack.callback(state.unlink, missing_ok=True)
        print(banner(f"http://{HOST}:{port}", secret, cards, default, emulated), flush=True)
        note_unread_variables(variables, "make run")
        note_misspelled_settings(os.environ)
        config = uvicorn.Config(
            APPLICATION,
            factory=True,
            host=HOST,
            port=port,
            reload=True,
            reload_dirs=list(RELOADED),
            reload_includes=list(RELOADED_FILES),
            reload_excludes=list(NOT_RELOADED),
            timeout_graceful_shutdown=REQUESTS_END_SECONDS,
            log_level="warning",
            log_config=None,
        )
        Reload(config, target=Server(config).run, sockets=[listener]).run()
    return 0


class Server(uvicorn.Server):
    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Make the application, then serve it. While agents are imported no one waits for an answer, so a
        signal may end the process at once."""
        if sys.platform != "win32":  # the programs that an agent starts would inherit the block
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        threading.Thread(target=_end_with_parent, daemon=True).start()
        self.config.load()
        super().run(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, so that those to come wait for the next process, and end what runs."""
        LINES.end()
        stopping = asyncio.create_task(_stop_all_turns())
        await super().shutdown(sockets)
        stopping.cancel()
        with suppress(TimeoutError):  # code that blocks ends with the process, and its lease runs out
            async with asyncio.timeout(TURNS_END_SECONDS):
                await stop_turns(console.ENDING, after=GRACE_SECONDS)


def _end_with_parent() -> None:
    """End this process if the one that restarts it has died: it would keep the port without an emulator."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


async def _stop_all_turns() -> None:
    """Stop the turns that still run after the grace, and those that begin later, until it is cancelled. A
    turn that is slow to end delays no other."""
    async with asyncio.TaskGroup() as group:
        await asyncio.sleep(GRACE_SECONDS)
        while True:  # one that begins now gets no grace, because its request would be cancelled
            group.create_task(stop_turns(console.ENDING, after=0.0))
            await asyncio.sleep(LATE_TURNS_SECONDS)


class Reload(WatchFilesReload):
    """Restarts the server after every edit, and after its process has died, as Lambda would."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._known = set(agent_folders().values())

    def startup(self) -> None:
        """Start the server's process. While it imports Python's modules and the kit's, Ctrl-C is blocked in
        it, because Python would print a traceback."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.signal_handler)
        self.process = get_subprocess(config=self.config, target=self.target, sockets=self.sockets)
        with block_interrupts():
            self.process.start()

    def restart(self) -> None:
        self._end_process()
        self.startup()

    def shutdown(self) -> None:
        self._end_process()
        for listener in self.sockets:
            listener.close()

    def _end_process(self) -> None:
        """End the server's process, also if an agent's code keeps it from ending by itself."""
        self.process.terminate()
        self.process.join(END_SECONDS)
        self.process.kill()
        self.process.join()

    def should_restart(self) -> list[Path] | None:
        if not self.process.is_alive() and not self.should_exit.is_set():
            return [Path(f"the server: it ended with {self.process.exitcode}")]
        paths = super().should_restart()
        # The watcher may see a new folder, but none of the files that were in it before it looked inside. It
        # also misses the files of a folder that is moved away.
        folders = set(agent_folders().values())
        new, gone, self._known = folders - self._known, self._known - folders, folders
        for folder in sorted(new):
            card = f"{os.environ['A2A_BASE_URL']}/a2a/{folder.name}/.well-known/agent-card.json"
            print(f"new agent: {folder.name}. Its card: {card}", flush=True)
        for folder in sorted(gone):
            print(f"removed agent: {folder.name}", flush=True)
        return paths or sorted(new | gone) or None


@contextmanager
def block_interrupts() -> Iterator[None]:
    """Block Ctrl-C in the processes that are started meanwhile, where the system can."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # its start would end the block
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def banner(
    url: str, secret: str, agents: Mapping[str, Card], default: str, emulated: Sequence[str] = ()
) -> str:
    """What the server prints when it starts: its URLs, a key, and a call to paste. It streams an example of
    the card of the default agent, or of the first one. default: name of the default agent; "" = none.
    emulated: what is emulated for the agents."""
    called = default or next(iter(agents), "")
    skills = agents[called].skills if agents else []
    example = next((skill.examples[0] for skill in skills if skill.examples), "Hello")
    # As JSON, within the single quotes of a shell.
    text = json.dumps(example, ensure_ascii=False)[1:-1].replace("'", "'\\''")
    root_cards = [
        f"  A2A 1.0, 0.3     {url}/.well-known/agent-card.json",
        f"  A2A 0.2.5, 0.1   {url}/.well-known/agent.json",
        f"  Alibaba          {url}/alibaba/.well-known/agent.json",
    ]
    cards = [
        *(root_cards if default else ["  no agent is the default: write `default: true` in one card.yaml"]),
        *(f"  {name:<16} {url}/a2a/{name}/.well-known/agent-card.json" for name in agents),
    ]
    mcp_urls = [*([f"{url}/mcp"] if default else []), *([f"{url}/mcp/<agent>"] if len(agents) > 1 else [])]
    curl = (
        f"curl -sN {url if default else f'{url}/a2a/{called}'}/message:stream -H 'A2A-Version: 1.0'"
        f" -H 'X-API-Key: {secret}'"
        f" -H 'Content-Type: application/json' -d "
        f"""'{{"message":{{"messageId":"{FRESH_ID}","role":"ROLE_USER","parts":[{{"text":"{text}"}}]}}}}'"""
    )
    return "\n".join(
        [
            f"Serving {', '.join(agents)} on {url}",
            "",
            f"Playground: {url}",
            "",
            "Cards:",
            *cards,
            "",
            "MCP: " + "; of one agent: ".join(mcp_urls),
            f"OpenAPI: {url}/openapi.json, as a web page: {url}/docs",
            "",
            f"Key: {secret}",
            "",
            *([f"Emulated for your agents: {', '.join(emulated)}", ""] if emulated else []),
            curl,
            "",
        ]
    )


def _longest_pause() -> str:
    """Seconds, or "". Raises ConfigurationError."""
    pause = os.environ.get("LONGEST_PAUSE", "")
    if pause and not re.fullmatch(r"\d+(\.\d+)?", pause):
        raise ConfigurationError(f"LONGEST_PAUSE={pause}: write a number of seconds, such as LONGEST_PAUSE=5")
    return pause


def note_misspelled_settings(environ: Mapping[str, str]) -> None:
    """Tell the user which environment variables look like a setting of the kit, and are none. Variables of
    other programs may begin with A2A_, too."""
    names = [f"A2A_{field.upper()}" for field in Settings.model_fields]
    for variable in environ:
        if variable.startswith("A2A_") and variable not in names:
            for name in difflib.get_close_matches(variable, names, 1, SIMILARITY):
                print(f"note: the kit does not read {variable}; did you mean {name}?", file=sys.stderr)


def _has_own_endpoints() -> bool:
    """Whether both services are elsewhere. With only one variable, the other service would be AWS itself."""
    names = [name for name in ENDPOINTS if os.environ.get(name)]
    if names and len(names) < len(ENDPOINTS):
        raise ConfigurationError(f"{names[0]} alone is not enough: set {' and '.join(ENDPOINTS)}, or neither")
    return bool(names)


def _configure(port: int, emulator_url: str) -> None:
    os.environ["A2A_LOCAL"] = "1"
    os.environ["A2A_EMULATOR"] = emulator_url
    os.environ["A2A_TRACING"] = "1"
    os.environ.setdefault("A2A_TABLE", TABLE)
    os.environ.setdefault("A2A_KEYS_PATH", KEYS_PATH)
    os.environ.setdefault("A2A_BASE_URL", f"http://{HOST}:{port}")


def _create_queues(settings: Settings) -> None:
    """Make the emulator's queues, and configure the server to use them."""
    queues = event_sources.create_queues(clients.sqs(settings), settings.table)
    os.environ["A2A_QUEUE"] = queues.turns
    os.environ["A2A_DEAD_LETTERS"] = queues.dead_arn
    os.environ["A2A_NOTICES"] = queues.notices
    # Callers who come through a tunnel must not reach this machine.
    if is_loopback_url(os.environ["A2A_BASE_URL"]):
        os.environ["A2A_LOOPBACK_WEBHOOKS"] = "1"
    os.environ["A2A_DURABLE_FUNCTION"] = "durable:live"
    os.environ["A2A_EXECUTION_TIMEOUT"] = str(MAX_EXECUTION_SECONDS)


def _create_bucket(settings: Settings) -> None:
    """Make the emulator's bucket for files, and configure the server to use it."""
    clients.s3(settings).create_bucket(Bucket=BUCKET)
    os.environ["A2A_FILES_BUCKET"] = BUCKET


def _create_own_resources(settings: Settings) -> list[str]:
    """See `own_resources.create`. Raises ConfigurationError."""
    path = os.environ.get("EMULATE")
    if not path:
        return []
    if not settings.emulator:
        raise ConfigurationError(f"EMULATE needs make run's own emulator: unset {' and '.join(ENDPOINTS)}")
    lines, environment = own_resources.create(Path(path), settings)
    os.environ.update(environment)
    return lines


def prepare(settings: Settings, secret: str) -> None:
    """Make the table and the local key, if they are absent."""
    template.create_table(
        clients.dynamodb(settings), settings.table, template.properties(Path("template.yaml"))
    )
    keys = KeyRegister(clients.ssm(settings), settings.keys_path)
    keys.create("local", owner="local", secret=secret, local=True, overwrite=True)


if __name__ == "__main__":
    sys.exit(main())
