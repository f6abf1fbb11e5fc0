"""Adds up the columns of CSV files, which may be large: they are read row by row."""

import csv
import io
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Context, Decimal
from itertools import chain
from typing import Any, BinaryIO

from a2a_lambda import Ask, File, SkillError, Turn, skill

SORTED_BYTES = 2_000_000
"""Maximum size of a file that is sorted, in bytes. All of its rows are in memory, where a short cell takes
some 150 bytes."""

EXACT = Context(prec=300_000)
"""More digits than a sum can have: a cell has 131,072 characters at most, before the point or after it."""

NUMBER = re.compile(r"\s*([+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]{1,2})?)\s*", re.IGNORECASE)


@skill
def add_up(turn: Turn) -> tuple[str, File] | Ask:
    if not turn.files:
        return Ask("Please send a CSV file.")
    totals: dict[int, Decimal] = {}  # by column: two may have one name
    with turn.files[0].open() as stream, read_rows(stream) as rows:
        header: list[str] = next(rows, [])
        count = 0
        for row in filter(None, rows):
            count += 1
            for column, cell in enumerate(row[: len(header)]):
                if (number := number_of(cell, rows.dialect.delimiter)) is not None:
                    totals[column] = EXACT.add(totals.get(column, Decimal(0)), number)
    result = io.StringIO()
    columns = sorted(totals)
    names, sums = [header[column] for column in columns], [f"{totals[column]:f}" for column in columns]
    csv.writer(result).writerows([names, sums])
    return f"Rows: {count}.", File("totals.csv", result.getvalue().encode(), media_type="text/csv")


@skill
def sort_rows(turn: Turn) -> Iterator[File | Ask]:
    """Sorts the rows by their first column: numbers, then texts."""
    if not turn.files:
        yield Ask("Please send a CSV file.")
        return
    with read_rows(io.BytesIO(turn.files[0].read(SORTED_BYTES))) as rows:
        header: list[str] = next(rows, [])
        delimiter = rows.dialect.delimiter
        body = sorted(filter(None, rows), key=lambda row: order_of(row[0], delimiter))
        with tempfile.TemporaryFile() as result:
            text = io.TextIOWrapper(result, encoding="utf-8", newline="")
            csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([header, *body])
            text.detach()
            result.seek(0)
            yield File("sorted.csv", result, media_type="text/csv")  # uploaded before the next line runs


@contextmanager
def read_rows(stream: BinaryIO) -> Iterator[Any]:
    """The rows of a CSV file, whose columns a comma, a semicolon or a tab separates. Raises SkillError."""
    with io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        try:
            first = next((line for line in text if line.strip("\r\n ")), "")
            yield csv.reader(chain([first], text), delimiter=max(",;\t", key=first.count))
        except (UnicodeDecodeError, csv.Error):
            raise SkillError("This is not a CSV file in UTF-8, or one of its fields is too long.") from None


def number_of(cell: str, delimiter: str) -> Decimal | None:
    """The number in a cell, as a Decimal, because floats add 0.1 and 0.2 up to 0.30000000000000004. A comma
    begins the decimals if a semicolon separates the cells."""
    match = NUMBER.fullmatch(cell.replace(",", ".") if delimiter == ";" else cell)
    return Decimal(match[1]) if match else None


def order_of(cell: str, delimiter: str) -> tuple[bool, Decimal, str]:
    number = number_of(cell, delimiter)
    return number is None, number or Decimal(0), cell
