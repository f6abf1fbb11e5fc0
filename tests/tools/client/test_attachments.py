"""Files that make chat sends."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from rich.console import Console

from a2a_lambda.protocol.model import Part
from tools.callers.a2a import VERSIONS, A2aCaller
from tools.callers.names import AnyCaller
from tools.client.attachments import parts_of, save, save_all
from tools.client.view import View


class NoAgent:
    """A caller that has not discovered its agent."""

    agent = None


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("sums.csv", {"mediaType": "text/csv"}),
        ("picture.png", {"mediaType": "image/png"}),
        ("sums.csv.gz", {}),
        ("README", {}),
    ],
)
def test_a_file_has_the_type_that_its_name_says(tmp_path: Path, name: str, media_type: Any) -> None:
    """The type of what is compressed is not that of the file. An agent accepts a file without a type."""
    path = tmp_path / name
    path.write_bytes(b"1,2")
    caller: Any = NoAgent()

    async def read() -> Any:
        async with httpx2.AsyncClient() as http:
            return await parts_of(http, caller, [path])

    assert asyncio.run(read()) == [{"filename": name, **media_type, "raw": "MSwy"}]


@pytest.mark.parametrize(
    ("home", "is_refused"), [("https://a.example.com", True), ("http://127.0.0.1:8080", False)]
)
@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "0.0.0.0", "[::ffff:127.0.0.1]"])
def test_an_agent_elsewhere_names_no_file_of_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], home: str, host: str, is_refused: bool
) -> None:
    caller = A2aCaller(httpx2.AsyncClient(), home, VERSIONS["1.0"])
    part = Part(url=f"http://{host}:9000/x")
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=b"x"))

    async def fetch() -> bool:
        async with httpx2.AsyncClient(transport=transport) as http:
            return await save(http, caller, View(Console()), part, tmp_path / "x")

    assert asyncio.run(fetch()) is not is_refused
    assert ("leads to this machine" in capsys.readouterr().err) is is_refused
    assert (tmp_path / "x").exists() is not is_refused


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("a.png", "a.png"),
        ("../../a.png", "a.png"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\a.png", "a.png"),
        ("x/.env", "env"),
        ("..", "file"),
        (".", "file"),
        ("", "file"),
        ("messages.properties", "messages.properties"),
        ("v1.0 release notes", "v1.0 release notes"),
        (f"{'€' * 300}.txt", f"{'€' * 63}.txt"),
        (f"a.{'x' * 300}", f"a.{'x' * 39}"),
        ("\ud800.txt", ".txt"),
        ("a\0b.txt", "ab.txt"),
    ],
)
def test_an_answers_file_stays_in_the_folder_that_the_user_named(
    tmp_path: Path, filename: str, name: str
) -> None:
    """If one file cannot be saved, the others are."""
    caller: Any = NoAgent()
    view, folder = View(Console()), tmp_path / "a" / "b"
    view.files = [Part(filename=filename, raw=raw) for raw in ("MSwy", "no base64", "Myw0")]

    async def write() -> bool:
        async with httpx2.AsyncClient() as http:
            return await save_all(http, caller, view, folder)

    assert not asyncio.run(write())
    assert [path.parent for path in tmp_path.rglob("*") if path.is_file()] == [folder] * 2
    assert (folder / name).read_bytes() == b"1,2"
    assert {path.read_bytes() for path in folder.iterdir()} == {b"1,2", b"3,4"}


class BrokenStream(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"half"
        raise httpx2.ReadError("reset")


def test_a_download_that_breaks_leaves_what_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    caller = A2aCaller(httpx2.AsyncClient(), "http://127.0.0.1:8080", VERSIONS["1.0"])
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, stream=BrokenStream()))
    path = tmp_path / "a.png"
    path.write_bytes(b"whole")

    async def fetch() -> bool:
        async with httpx2.AsyncClient(transport=transport) as http:
            return await save(http, caller, View(Console()), Part(url="http://127.0.0.1:9000/x"), path)

    assert not asyncio.run(fetch())
    assert f"{path} cannot be saved: reset" in capsys.readouterr().err
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("a.png", b"whole")]


def test_files_whose_names_look_unfinished_are_kept(tmp_path: Path) -> None:
    """A browser's unfinished download, and an agent's file of such a name."""
    (tmp_path / "a.txt.part").write_bytes(b"mine")
    caller, view = cast("AnyCaller", NoAgent()), View(Console())
    view.files = [Part(filename=name, raw="MSwy") for name in ("a.txt.part", "a.txt")]

    async def write() -> bool:
        async with httpx2.AsyncClient() as http:
            return await save_all(http, caller, view, tmp_path)

    assert asyncio.run(write())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "a.txt.part": b"mine",
        "a.txt-2.part": b"1,2",
        "a.txt": b"1,2",
    }


def test_a_link_that_a_file_is_saved_to_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "elsewhere.txt")

    async def write() -> bool:
        async with httpx2.AsyncClient() as http:
            return await save(http, cast("AnyCaller", NoAgent()), View(Console()), Part(raw="Myw0"), link)

    assert asyncio.run(write())
    assert link.is_symlink()
    assert (tmp_path / "elsewhere.txt").read_bytes() == b"3,4"


def test_an_answer_without_files_makes_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    caller, folder = NoAgent(), tmp_path / "files"

    async def write() -> bool:
        async with httpx2.AsyncClient() as http:
            return await save_all(http, cast("AnyCaller", caller), View(Console()), folder)

    assert asyncio.run(write())
    assert "The answer has no files." in capsys.readouterr().out
    assert not folder.exists()
