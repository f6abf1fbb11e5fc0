"""make chat: talk to an agent in the terminal. By default, to the one that `make run` serves.

make chat                                  AGENT=hello VERSION=0.3 PORT=8080
make chat URL=https://… KEY=…              any A2A agent
make chat STACK=a2a-dev KEY=…              a deployed stack
make chat TEXT="What is 1 plus 2?"         one message; the exit status is 0 if its task has completed
make chat TEXT="/skill add a=1 b=2"        the same for a skill with parameters
make chat TEXT="Add them." FILE=sums.csv   with a file, or several, separated by spaces
make chat TEXT="Draw it." SAVE=pictures    saves the files of the answer in a folder
make chat TASK=<id>                        continues an earlier task
"""

import asyncio
import importlib
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console

from a2a_lambda.errors import ConfigurationError
from a2a_lambda.net.addresses import is_loopback_url
from a2a_lambda.protocol.model import TaskState
from tools.callers.names import make_caller
from tools.callers.records import make_http
from tools.client.attachments import path_of
from tools.client.conversation import Chat
from tools.command import HOST, named_agent, reports_errors, split_words
from tools.deployment.stack import url_of
from tools.state import key_for, server_port, start_advice


def talk(chat: Chat, console: Console, runner: asyncio.Runner) -> None:
    """Read lines until the end. Between messages no code runs, so Ctrl-C ends the program there."""
    while True:
        try:
            line = console.input("[bold]> [/bold]").strip()
        except EOFError:
            console.print()
            return
        if line and not runner.run(chat.take(line)):
            return


class ChatConsole(Console):
    """A console whose reader, such as `head`, may have enough."""

    def on_broken_pipe(self) -> None:
        # The tasks of a running event loop would each report an exception.
        os._exit(141)  # the status of a program that a broken pipe ends, as in a2a.py


def run(environ: Mapping[str, str], console: Console) -> int:
    """Returns the exit status. Raises ConfigurationError."""
    version, text, folder = environ.get("VERSION") or "1.0", environ.get("TEXT", ""), environ.get("SAVE", "")
    if folder and not text:
        raise ConfigurationError(
            "SAVE= saves the files of the answer to one message: add TEXT=…. In a conversation, write /save 1"
            " PATH"
        )
    command, *words = text.split(maxsplit=1) if text.startswith("/") else [""]
    if command and (command != "/skill" or not words):
        raise ConfigurationError(
            f"{command}: the only command that TEXT= takes is /skill ID name=value. Begin a message with a"
            " space if its first character is /"
        )
    url = url_of(environ) or f"http://{HOST}:{server_port(environ)}"
    is_local, key = is_loopback_url(url), key_for(url, environ)
    with asyncio.Runner() as runner:
        http = make_http(url)
        try:
            caller = make_caller(http, url, version, key=key, name=named_agent(environ))
            chat = Chat(http, caller, console, is_conversation=not text)
            if not runner.run(chat.open()):
                if is_local and chat.is_unanswered:
                    print(start_advice(urlsplit(url).port), file=sys.stderr)
                return 1
            # A path with a space is one file, without quotes, too.
            file, is_one_file = environ.get("FILE", ""), False
            with suppress(OSError):  # many names are too long for one
                is_one_file = Path(file).expanduser().is_file()
            names = [file] if is_one_file else split_words("FILE", environ)
            if not all([chat.attach(name) for name in names]):
                return 1
            task_id = environ.get("TASK")
            if task_id and not runner.run(chat.resume(task_id, is_followed=not text)):
                return 1
            if text:
                state = runner.run(chat.call_skill(words[0]) if command else chat.send(text))
                if folder and not runner.run(chat.save_all(path_of(folder))):
                    return 1
                return 0 if state == TaskState.COMPLETED else 1
            chat.introduce()
            talk(chat, console, runner)
        finally:
            runner.run(http.aclose())
    return 0


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    with suppress(ImportError):  # absent on Windows, whose terminal does the same
        importlib.import_module("readline")  # the arrow keys, and what was written before
    console = ChatConsole(highlight=False)
    try:
        return run(environ, console)
    except KeyboardInterrupt:
        console.print()
        return 130


if __name__ == "__main__":
    sys.exit(main())
