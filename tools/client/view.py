"""What `make chat` prints."""

import json
import re
from collections.abc import Sequence
from datetime import datetime

from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.markdown import Markdown
from rich.text import Text

from a2a_lambda import strictjson
from a2a_lambda.protocol.model import CHOICES, Json, Part, state_word
from a2a_lambda.tasks.event_log import join_texts
from tools.terminal import printable

STEP_MARKS = {"started": "▷", "ended": "✓", "failed": "✗"}


FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)

BLANK_LINE = re.compile(r"\n[ \t]*\n")


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
        self._is_in_line = False
        self._unfinished = ""

    def begin(self) -> None:
        """A new task begins: nothing of it has been shown."""
        self._shown = {}

    @property
    def has_output(self) -> bool:
        """Whether anything of the task has been shown."""
        return bool(self._shown)

    def show_parts(self, place: str, parts: Sequence[Part], *, append: bool) -> None:
        """Show what is new of an artifact. A part that was shown, and comes again in a task, is left out."""
        history = self._shown.get(place, [])  # a task joins the texts of its chunks
        if not append and history and _places(parts[: len(history)]) == _places(history):
            parts = parts[len(history) :]
        for part in parts:
            self._show_part(part)
        self._shown[place] = join_texts([*history, *parts])

    def show_metadata(self, metadata: Json) -> None:
        """Commands for the client, and the answers that a question offers."""
        for command in (metadata or {}).get("commands", []):
            self.note(f"command: {strictjson.dumps(command).decode()}")
        if choices := (metadata or {}).get(CHOICES):
            self.note(f"answers: {printable(', '.join(map(str, choices)))}")

    def _show_part(self, part: Part) -> None:
        if "text" in part and self._console.is_terminal:
            block, self._unfinished = split_blocks(self._unfinished + printable(part["text"]))
            self._show_markdown(block)
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
            self.note(f"file {len(self.files)}: {name} ({media_type})" + (f": {source}" if source else ""))

    def show_state(self, state: str) -> None:
        """A state at which a task has stopped."""
        self._console.print(Text(state_word(state), style="yellow"))

    def show_operation(self, operation: Json) -> None:
        """A step, a pause or a wait of a durable turn."""
        kind, name, state = (str(operation.get(key, "")) for key in ("kind", "name", "state"))
        suffix = f" until {_local_time(operation['until'])}" if "until" in operation else ""
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
        """Print what has come of a text, so that something else can follow."""
        block, self._unfinished = self._unfinished, ""
        self._show_markdown(block)
        if self._is_in_line:
            self._console.print()
            self._is_in_line = False

    def _show_markdown(self, text: str) -> None:
        if text.strip():
            # Links show their address: what a terminal opens must be seen.
            self._console.print(Markdown(text, hyperlinks=False))


def _places(parts: Sequence[Part]) -> list[Part]:
    """Parts whose URLs have no query: each answer signs the URL of the same file anew."""
    return [{**part, "url": part["url"].partition("?")[0]} if "url" in part else part for part in parts]


def split_blocks(text: str) -> tuple[str, str]:
    """The complete blocks of a Markdown text, and the rest. A block ends with a blank line, outside of
    code."""
    ends = [match.end() for match in BLANK_LINE.finditer(text)]
    end = next((end for end in reversed(ends) if len(FENCE.findall(text[:end])) % 2 == 0), 0)
    return text[:end], text[end:]


def _local_time(text: str) -> str:
    moment = datetime.fromisoformat(text).astimezone()
    return moment.strftime(
        "%H:%M" if moment.date() == datetime.now().astimezone().date() else "%Y-%m-%d %H:%M"
    )
