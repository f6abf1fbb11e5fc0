"""Files on their way from this machine to an agent, and back."""

import asyncio
import base64
import ipaddress
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import httpx2

from a2a_lambda.agent.outputs import guess_media_type
from a2a_lambda.client import AgentError
from a2a_lambda.protocol.model import Part, decode_raw
from tools.callers.names import AnyCaller
from tools.callers.records import FAILURES
from tools.callers.uploads import MESSAGE_BYTES, NO_UPLOADS, upload, upload_url
from tools.client.view import View

STEM_BYTES, SUFFIX_BYTES = 190, 40
"""Longest name of a saved file, before its suffix and from the suffix's dot on, in bytes of UTF-8. File
systems take 255, and a number may be added."""


async def parts_of(http: httpx2.AsyncClient, caller: AnyCaller, paths: Sequence[Path]) -> list[Part]:
    """Files as parts of a message. What is too large for one is uploaded, if the agent takes uploads.

    Raises OSError, and the FAILURES of a call.
    """
    agent = caller.agent
    url = upload_url(agent.card, agent.url) if agent is not None else ""
    room = MESSAGE_BYTES
    parts = []
    for path in paths:
        size = path.stat().st_size  # nothing else runs
        part = Part(filename=path.name)
        if media_type := guess_media_type(path.name):  # agents accept a file without a type
            part["mediaType"] = media_type
        if agent is not None and url and size > room:
            with path.open("rb") as file:
                parts.append(await upload(http, url, file, part, size=size, headers=agent.headers))
            continue
        if size > room:
            raise AgentError(f"{path.name} has {size:,} bytes, and {NO_UPLOADS}")
        room -= size
        parts.append({**part, "raw": base64.b64encode(path.read_bytes()).decode()})
    return parts


def path_of(text: str) -> Path:
    """A path that a user wrote, perhaps in quotes."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return Path(text[1:-1] if is_quoted else text).expanduser()


async def save(http: httpx2.AsyncClient, caller: AnyCaller, view: View, part: Part, path: Path) -> bool:
    """Write the content of a part to a file, and tell the user. Returns whether that succeeded. caller: calls
    the agent that has chosen the part's URL."""
    try:
        await _write(http, caller, part, path)
    except (OSError, ValueError, *FAILURES) as error:  # ValueError: of what is not base64
        view.fail(f"{path} cannot be saved: {str(error) or type(error).__name__}")
        return False
    view.note(f"saved {path}")
    return True


async def save_one(http: httpx2.AsyncClient, caller: AnyCaller, view: View, words: str) -> None:
    """Save the file that a user has named: its number in the view, and a path."""
    number, _, name = words.strip().partition(" ")
    count = len(view.files)
    if not name or not number.isdecimal():
        view.fail("write /save N PATH, with the number of a file")
    elif not 1 <= int(number) <= count:
        view.fail(f"there is no file {number}; {f'the last is {count}' if count else 'none has come'}")
    else:
        await save(http, caller, view, view.files[int(number) - 1], path_of(name))


async def save_all(http: httpx2.AsyncClient, caller: AnyCaller, view: View, folder: Path) -> bool:
    """Save, in a folder, the files that a view has shown. The folder is made if there is none. Returns
    whether all were saved.

    The agent chooses their names, which cannot lead out of the folder, nor begin with a dot, as `.env` does;
    long ones are cut. A file that is there already is kept: the new one gets a number.
    """
    if not view.files:
        view.note("The answer has no files.")
        return True
    has_saved_all = True
    try:
        folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240
    except OSError as error:
        view.fail(f"{folder}: {error.strerror}")
        return False
    for part in view.files:
        filename = part.get("filename", "").replace("\\", "/").replace("\0", "")
        name = Path(Path(filename).name.lstrip(".") or "file")
        stem, suffix = _cut(name.stem, STEM_BYTES), _cut(name.suffix, SUFFIX_BYTES)
        path, count = folder / f"{stem}{suffix}", 1
        while path.exists():  # nothing else runs
            count += 1
            path = folder / f"{stem}-{count}{suffix}"
        has_saved_all &= await save(http, caller, view, part, path)
    return has_saved_all


def _cut(text: str, size: int) -> str:
    """The beginning of a text, in at most so many bytes of UTF-8."""
    return text.encode("utf-8", "ignore")[:size].decode("utf-8", "ignore")


@contextmanager
def _open_partial(path: Path) -> Iterator[BinaryIO]:
    """A file to write that becomes the one at `path` once it is whole. A terminal, or another device, is
    written to directly."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    partial = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with partial.open("xb") as file:
            yield file
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


async def _write(http: httpx2.AsyncClient, caller: AnyCaller, part: Part, path: Path) -> None:
    """Raises OSError, ValueError for what is not base64, and the FAILURES of a call."""
    if "raw" in part:
        content = decode_raw(part["raw"])
        with _open_partial(path) as file:
            file.write(content)
        return
    if not caller.is_local and await _leads_to_loopback(part["url"]):
        raise AgentError("its URL leads to this machine, but the agent is elsewhere")
    async with http.stream("GET", part["url"]) as answer:
        if answer.status_code != 200:
            raise AgentError(f"its URL answered with status {answer.status_code}", status=answer.status_code)
        with _open_partial(path) as file:
            async for chunk in answer.aiter_bytes():
                file.write(chunk)


async def _leads_to_loopback(url: str) -> bool:
    """Whether a URL leads to this machine's loopback interface, however its host is written."""
    try:
        entries = await asyncio.get_running_loop().getaddrinfo(httpx2.URL(url).host, None)
    except (OSError, UnicodeError):  # it leads nowhere, as the request will say
        return False
    ips = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries]
    plain_ips = [getattr(ip, "ipv4_mapped", None) or ip for ip in ips]
    return any(ip.is_loopback or ip.is_unspecified for ip in plain_ips)
