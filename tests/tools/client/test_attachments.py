"""Files that make chat sends."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from a2a_lambda.client import AgentError
from a2a_lambda.protocol.model import Part
from tools.callers.a2a import VERSIONS, A2aCaller
from tools.client.attachments import parts_of, save, save_all


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
    tmp_path: Path, home: str, host: str, is_refused: bool
) -> None:
    caller = A2aCaller(httpx2.AsyncClient(), home, VERSIONS["1.0"])
    part = Part(url=f"http://{host}:9000/x")
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=b"x"))

    async def fetch() -> None:
        async with httpx2.AsyncClient(transport=transport) as http:
            await save(http, caller, part, tmp_path / "x")

    if is_refused:
        with pytest.raises(AgentError, match="leads to this machine"):
            asyncio.run(fetch())
    else:
        asyncio.run(fetch())
    assert (tmp_path / "x").exists() is not is_refused


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("a.png", "a.png"),
        ("../../a.png", "a.png"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\a.png", "a.png"),
        ("..", "file-1"),
        (".", "file-1"),
        ("", "file-1"),
    ],
)
def test_an_answers_file_stays_in_the_folder_that_the_user_named(
    tmp_path: Path, filename: str, name: str
) -> None:
    caller: Any = NoAgent()
    part = Part(filename=filename, raw="MSwy")

    async def write() -> list[Path]:
        async with httpx2.AsyncClient() as http:
            return await save_all(http, caller, [part, part], tmp_path / "out")

    paths = asyncio.run(write())
    assert [path.parent for path in paths] == [tmp_path / "out"] * 2
    assert paths[0].name == name
    assert [path.read_bytes() for path in paths] == [b"1,2"] * 2
