"""What `make chat` prints."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.markdown import Markdown
from rich.text import Text

from a2a_lambda import strictjson
from a2a_lambda.protocol.model import CHOICES, Json, Message, Part, state_word
from a2a_lambda.strictjson import objects_in, text_in
from a2a_lambda.tasks.event_log import join_texts
from tools.terminal import printable

MARKDOWN = MarkdownIt("commonmark", {"html": False, "maxNesting": 100}).enable(["table", "strikethrough"])

STEP_MARKS = {"started": "▷", "ended": "✓", "failed": "✗"}


FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
"""The line that begins or ends code, and the word after it."""

HELP = """\
/file PATH      send a file with the next message; several times for several files
/skill ID a=1 b="2 3"
                call a skill with parameters, and with the words after them as the text.
                Without an ID: the agent's skills and their parameters
/save N PATH    save the file with this number
/new            begin a new conversation, without attached files
/wait           follow a task that pauses or waits; Ctrl-C leaves it
/quit           leave; so does Ctrl-D
Ctrl-C cancels the running task, or leaves it if it pauses, waits, or is of a server that does not stream."""


class View:
    """Prints an agent's answers. It numbers the files, and keeps them.

    On a terminal, text is rendered as Markdown, a block as soon as it is complete. Elsewhere it is printed as
    it comes. is_conversation: commands can follow, such as /save.
    """

    def __init__(self, console: Console, *, is_conversation: bool = True) -> None:
        self.files: list[Part] = []
        self._console = console
        self._errors = Console(stderr=True, highlight=False)
        self.is_conversation = is_conversation
        self._shown: dict[str, list[Part]] = {}
        self._place = ""
        self._is_in_line = False
        self._blocks = Blocks()
        self._has_blocks = False  # of the text that is being shown

    def begin(self) -> None:
        """A new task begins: nothing of it has been shown."""
        self._shown, self._place = {}, ""

    @property
    def has_output(self) -> bool:
        """Whether anything of the task has been shown."""
        return bool(self._shown)

    def show_parts(self, place: str, parts: Sequence[Part], *, append: bool) -> None:
        """Show what is new of an artifact. A part that was shown, and comes again in a task, is left out."""
        history = self._shown.get(place, [])  # a task joins the texts of its chunks
        parts = parts if append else join_texts(parts)
        new_parts = parts if append else _unseen(history, parts)
        is_replaced = bool(history) and not append and new_parts is parts
        if new_parts and (place != self._place or is_replaced):
            self.end_line()
            self._place = place
        for part in new_parts:
            self._show_part(part)
        self._shown[place] = join_texts([*history, *parts] if append else parts)

    def show_commands(self, metadata: Mapping[str, Json]) -> None:
        """Commands for the client. Other agents may have anything under that name."""
        for command in objects_in(metadata, "commands"):
            self.note(f"command: {strictjson.dumps(command).decode()}")

    def show_choices(self, metadata: Mapping[str, Json]) -> None:
        """The answers that a question offers."""
        choices = metadata.get(CHOICES)
        texts = [choice for choice in choices if isinstance(choice, str)] if isinstance(choices, list) else []
        if texts:
            self.note(f"answers: {', '.join(texts)}")

    def _show_part(self, part: Part) -> None:
        if "text" in part and self._console.is_terminal:
            self._show_markdown(self._blocks.add(printable(part["text"])))
        elif "text" in part:
            self._console.print(Text(printable(part["text"])), end="", soft_wrap=True)
            self._is_in_line = not part["text"].endswith("\n")
        elif "data" in part:
            self.end_line()
            text = json.dumps(part["data"], indent=2, ensure_ascii=False)
            self._console.print(JSONHighlighter()(printable(text)), soft_wrap=True)
        else:
            self.files.append(part)
            name = part.get("filename") or part.get("url") or "a file"
            media_type = part.get("mediaType", "unknown type")
            url = part.get("url", "")
            source = f"/save {len(self.files)} PATH" if self.is_conversation else url
            host = _host_of(url) if name != url else ""
            place = f" at {host}" if host else ""
            self.note(
                f"file {len(self.files)}: {name} ({media_type}){place}" + (f": {source}" if source else "")
            )

    def show_state(self, state: str) -> None:
        """A state at which a task has stopped."""
        self._console.print(Text(state_word(state), style="yellow"))

    def show_status(self, message: Message, *, has_stopped: bool) -> None:
        """The message of a task's status: an answer or a question, or a word on its progress."""
        metadata = message.get("metadata", {})
        if has_stopped:
            self.end_line()
            self.show_parts(message["messageId"], message["parts"], append=False)
            self.show_commands(metadata)
            self.show_choices(metadata)
            return
        text = " ".join(part["text"] for part in message["parts"] if "text" in part)
        self.note(f"{text} ({metadata['stage']})" if metadata.get("stage") else text)

    def show_operation(self, operation: Json) -> None:
        """A step, a pause or a wait of a durable turn."""
        kind, name, state = (str(operation.get(key, "")) for key in ("kind", "name", "state"))
        suffix = ""
        with suppress(ValueError, OverflowError):  # not a time, or one that no clock shows
            suffix = f" until {_local_time(text_in(operation, 'until'))}"
        match kind, state:
            case "step", _:
                self.note(f"{STEP_MARKS.get(state, ' ')} {name}")
            case "sleep", "started":
                self.note(f"⏸ sleeps{suffix}")
            case "wait", "started":
                self.note(f"⏸ waits for {name}{suffix}")
            case _:
                self.note(f"▶ continues after {name}")

    def note(self, text: str) -> None:
        self.end_line()
        self._console.print(Text(printable(text), style="dim"), soft_wrap=True)

    def fail(self, text: str) -> None:
        self._errors.print(Text(printable(f"error: {text}"), style="red"), soft_wrap=True)

    def end_line(self) -> None:
        """Print what has come of a reply, so that something else can follow."""
        self._show_markdown(self._blocks.end())
        self._has_blocks = False
        if self._is_in_line:
            self._console.print()
            self._is_in_line = False

    def _show_markdown(self, text: str) -> None:
        if text.strip():
            if self._has_blocks:
                self._console.print()
            self._has_blocks = True
            # Links show their address: what a terminal opens must be seen.
            markdown = Markdown("", hyperlinks=False)
            # As on the page: HTML is shown as it is written, and ends of lines are kept.
            markdown.parsed = MARKDOWN.parse(text)
            for token in (child for block in markdown.parsed for child in block.children or ()):
                if token.type == "softbreak":
                    token.type = "hardbreak"
                token.content = printable(token.content)  # &#x202e; is a control character only now
            self._console.print(markdown)


def _host_of(url: str) -> str:
    with suppress(ValueError):
        return urlsplit(url).netloc
    return ""


def _places(parts: Sequence[Part]) -> list[Part]:
    """Parts whose URLs have no query: each answer signs the URL of the same file anew."""
    return [{**part, "url": part["url"].partition("?")[0]} if "url" in part else part for part in parts]


def _unseen(history: Sequence[Part], parts: Sequence[Part]) -> Sequence[Part]:
    """The parts of an artifact that have not been shown, or the end of a text that has grown since; all of
    the parts if they are not a continuation."""
    if not history or len(parts) < len(history):
        return parts
    last, new_last = history[-1], parts[len(history) - 1]
    if _places(parts[: len(history) - 1]) != _places(history[:-1]):
        return parts
    if _places([new_last]) == _places([last]):
        return parts[len(history) :]
    if last.keys() == new_last.keys() == {"text"} and new_last["text"].startswith(last["text"]):
        return [Part(text=new_last["text"][len(last["text"]) :]), *parts[len(history) :]]
    return parts


class Blocks:
    """Splits a Markdown text that comes in pieces into its blocks, in linear time. A block ends with a blank
    line, outside of code."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._pieces: list[str] = []
        self._fence = ""

    def add(self, piece: str) -> str:
        """The blocks that are complete now."""
        self._pieces.append(piece)
        if "\n" not in piece:
            return ""
        *lines, rest = "".join(self._pieces).split("\n")
        self._pieces = [rest]
        end = 0
        for line in lines:
            self._lines.append(line + "\n")
            if fence := FENCE.match(line):
                marks, word = fence.groups()
                if not self._fence:
                    self._fence = marks
                elif marks.startswith(self._fence) and not word.strip():
                    self._fence = ""
            elif not line.strip() and not self._fence:
                end = len(self._lines)
        block = "".join(self._lines[:end])
        del self._lines[:end]
        return block

    def end(self) -> str:
        """What is left, also if it is not complete."""
        rest = "".join([*self._lines, *self._pieces])
        self._lines, self._pieces, self._fence = [], [], ""
        return rest


def _local_time(text: str) -> str:
    moment = datetime.fromisoformat(text).astimezone()
    return moment.strftime(
        "%H:%M" if moment.date() == datetime.now().astimezone().date() else "%Y-%m-%d %H:%M"
    )
