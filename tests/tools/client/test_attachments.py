"""Files that make chat sends."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tools.client.attachments import parts_of


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
