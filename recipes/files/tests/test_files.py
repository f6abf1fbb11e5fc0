import asyncio
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import Agent, File, SkillError

CSV = b"name,price\nanvil,10\nrope,2.5\n"


@pytest.fixture
def agent() -> Agent:
    return Agent.load(Path(__file__).parents[1])


def content_of(answer: Any) -> bytes | None:
    [file] = answer.files
    return file.content


def test_a_file_is_added_up(agent: Agent) -> None:
    answer = asyncio.run(agent.run("Add up this file.", files=[File("data.csv", CSV, media_type="text/csv")]))
    assert "Rows: 2." in answer.text
    assert content_of(answer) == b"price\r\n12.5\r\n"


def test_a_large_file_is_sorted(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    rows = [b"%06d\n" % (number * 7919 % 100_000) for number in range(100_000)]
    path.write_bytes(b"number\n" + b"".join(rows))
    answer = asyncio.run(agent.run(skill="sort-rows", files=[path]))
    assert content_of(answer) == b"number\n" + b"".join(sorted(rows))


def test_rows_stay_apart_and_words_are_no_numbers(agent: Agent) -> None:
    """A file may end without a line break, and a name may be Nan."""
    unsorted = [File("data.csv", b"n,m\nb,2\na,1", media_type="text/csv")]
    assert content_of(asyncio.run(agent.run(skill="sort-rows", files=unsorted))) == b"n,m\na,1\nb,2\n"
    names = [File("data.csv", b"name,m\nNan,2\nBob,1", media_type="text/csv")]
    assert content_of(asyncio.run(agent.run(files=names))) == b"m\r\n3\r\n"


def test_cells_are_read_as_csv_has_them(agent: Agent) -> None:
    """A cell may have a line break or a separator, and Excel writes semicolons in many countries."""
    for separator in (",", ";"):
        rows = ["w,n", "q,0.1", '"z\nb",0.2', "10,1_000", "9,x"]
        content = "\r\n".join(rows).replace(",", separator).encode()
        file = File("data.csv", content, media_type="text/csv")
        result = content_of(asyncio.run(agent.run(skill="sort-rows", files=[file]))).decode()
        assert result == 'w,n\n9,x\n10,1_000\nq,0.1\n"z\nb",0.2\n'.replace(",", separator)
        added = asyncio.run(agent.run(skill="add-up", files=[file]))
        assert (added.text, content_of(added)) == ("Rows: 4.", b"w,n\r\n19,0.3\r\n")


@pytest.mark.parametrize(
    ("content", "totals"),
    [
        (b"n,n\n1,2\n3,4", b"n,n\r\n4,6\r\n"),
        (b"n;m\n0,5;1E2\n.25;7", b"n,m\r\n0.75,107\r\n"),
        (b"n,m\n1\n2,3,4", b"n,m\r\n3,3\r\n"),
        (b"n\n" + b"9" * 50 + b"\n1", b"n\r\n1" + b"0" * 50 + b"\r\n"),
    ],
)
def test_columns_are_added_up_by_their_place(agent: Agent, content: bytes, totals: bytes) -> None:
    """Two may have one name, a row may be short or long, and many countries write a decimal comma."""
    file = File("data.csv", content, media_type="text/csv")
    assert content_of(asyncio.run(agent.run(skill="add-up", files=[file]))) == totals


def test_empty_lines_before_the_header_are_passed_over(agent: Agent) -> None:
    file = File("data.csv", b"\n\na;b\n2;1\n1;1\n", media_type="text/csv")
    assert content_of(asyncio.run(agent.run(skill="sort-rows", files=[file]))) == b"a;b\n1;1\n2;1\n"


def test_a_file_that_does_not_fit_into_memory_is_not_sorted(agent: Agent) -> None:
    large = File("data.csv", b"1\n" * 1_000_001, media_type="text/csv")
    with pytest.raises(SkillError, match="more than 2,000,000 bytes"):
        asyncio.run(agent.run(skill="sort-rows", files=[large]))


def test_what_is_missing_or_wrong_is_said(agent: Agent) -> None:
    for skill in ("add-up", "sort-rows"):
        assert asyncio.run(agent.run("Here.", skill=skill)).state == "input-required"
    with pytest.raises(SkillError, match="not a CSV"):
        asyncio.run(agent.run(files=[File("data.csv", b"\xff\xfe", media_type="text/csv")]))
