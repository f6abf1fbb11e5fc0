"""Adds up the columns of CSV files, which may be large: they are read row by row."""

import csv
import io
import math
import tempfile
from collections.abc import Iterator

from a2a_lambda import Ask, File, SkillError, Turn, skill


@skill
def add_up(turn: Turn) -> tuple[str, File] | Ask:
    if not turn.files:
        return Ask("Please send a CSV file.")
    totals: dict[str, float] = {}
    count = 0
    with turn.files[0].open() as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        try:
            for row in csv.DictReader(text):
                count += 1
                for column, value in row.items():
                    if (number := number_of(value)) is not None:
                        totals[column] = totals.get(column, 0) + number
        except (UnicodeDecodeError, csv.Error):
            raise SkillError("This is not a CSV file in UTF-8, or one of its fields is too long.") from None
    result = io.StringIO()
    writer = csv.DictWriter(result, fieldnames=list(totals))
    writer.writeheader()
    writer.writerow(totals)
    return f"Rows: {count}.", File("totals.csv", result.getvalue().encode(), media_type="text/csv")


@skill
def sort_rows(turn: Turn) -> Iterator[File | Ask]:
    """Sorts the rows by their first column. They are in memory, so `read` refuses a very large file."""
    if not turn.files:
        yield Ask("Please send a CSV file.")
        return
    header, *rows = turn.files[0].read().splitlines() or [b""]
    with tempfile.TemporaryFile() as result:
        result.writelines(row + b"\n" for row in (header, *sorted(rows)))
        result.seek(0)
        yield File("sorted.csv", result, media_type="text/csv")  # uploaded before the next line runs


def number_of(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None  # "nan" and "inf" are words in a column of texts
