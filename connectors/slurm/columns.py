"""Columns of text into typed columns, fast and without losing anything silently.

A column of 50,000 cells holds few distinct texts: each distinct text is parsed once, and the result is gathered by
code. What can't be parsed becomes null and is counted, by source and field, for a Gap.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from connectors.connector import Answer, Gap
from connectors.model import TIME
from connectors.notation import NotationError, parse_slurm_time, safe_text
from connectors.slurm.commands import US

ABSENT = frozenset({"", "(null)", "N/A", "n/a", "None", "NONE", "Unknown"})


class Unread:
    """Counts what could not be read: cells by field, and whole rows."""

    def __init__(self, source: str, table: str, since: datetime) -> None:
        """Keep where the text came from, the table that it fills and the time of the reading."""
        self.source = source
        self.table = table
        self.since = since
        self._cells: dict[str, tuple[int, str]] = {}
        self._rows = 0
        self._first_row = ""

    def cell(self, column: str, text: str, count: int = 1) -> None:
        """Count cells of a column that hold this text."""
        known, first = self._cells.get(column, (0, text))
        self._cells[column] = (known + count, first)

    def row(self, text: str) -> None:
        """Count a row that can't be read at all."""
        self._rows += 1
        self._first_row = self._first_row or text

    def gaps(self, total: int) -> list[Gap]:
        """Return one gap for the rows and one for each column; `total` is the number of rows that were there."""
        gaps = []
        if self._rows:
            reason = f"{self._rows:,} of {total:,} rows could not be read, first: {safe_text(self._first_row, 80)}"
            gaps.append(Gap(source=self.source, reason=reason, since=self.since, affects=(self.table,)))
        for column, (count, first) in self._cells.items():
            reason = (
                f"{count:,} of {total:,} rows have a {column} that could not be read, first: {safe_text(first, 80)}"
            )
            affects = (f"{self.table}.{column}",)
            gaps.append(Gap(source=self.source, reason=reason, since=self.since, affects=affects))
        return gaps


def decode(out: bytes) -> str:
    """Return the text; bytes that are not UTF-8 stay visible as `\\xff`, since a frame holds nothing but UTF-8."""
    return out.decode("utf-8", "backslashreplace")


def said(answer: Answer) -> str:
    """Return the system's own words about a failure: the last line of its errors, else of its output."""
    for stream in (answer.err, answer.out):
        lines = [line.strip() for line in decode(stream).splitlines() if line.strip()]
        if lines:
            return lines[-1]
    return f"exit code {answer.code}"


def gathered(texts: Sequence[str], parse: Callable[[str], Any], dtype: Any, unread: Unread, column: str) -> pl.Series:
    """Return the column of parsed texts: each distinct text is parsed once; NotationError makes a null, counted."""
    codes: dict[str, int] = {}
    for text in texts:
        if text not in codes:
            codes[text] = len(codes)
    values: list[Any] = []
    failed: set[str] = set()
    for text in codes:
        try:
            values.append(parse(text))
        except NotationError:
            values.append(None)
            failed.add(text)
    if failed:
        for text in texts:
            if text in failed:
                unread.cell(column, text)
    return gather(values, dtype, [codes[text] for text in texts], column)


def lists(texts: Sequence[str], parse: Callable[[str], Iterable[str] | None], unread: Unread, column: str) -> pl.Series:
    """Return the column of lists of words that the texts mean; like `gathered`."""
    joined = gathered(texts, lambda text: _joined(parse(text)), pl.String, unread, column)
    return _split(joined)


def gather_lists(values: Sequence[Iterable[str] | None], codes: Sequence[int], column: str) -> pl.Series:
    """Return values[code] for each code, as a column of lists of words."""
    return _split(gather([_joined(value) for value in values], pl.String, codes, column))


# Polars builds a list column from Python lists one series at a time; splitting a text is a hundred times faster. Words
# here are names of hosts, queues and features, which can't hold US.
def _joined(words: Iterable[str] | None) -> str | None:
    return None if words is None else US.join(words)


def _split(joined: pl.Series) -> pl.Series:
    name = joined.name
    split = pl.col(name).str.split(US)
    nothing = pl.lit([], dtype=pl.List(pl.String))
    return joined.to_frame().select(pl.when(pl.col(name) == "").then(nothing).otherwise(split).alias(name)).to_series()


def gather(values: Sequence[Any], dtype: Any, codes: Sequence[int], column: str) -> pl.Series:
    """Return values[code] for each code, as a column."""
    return pl.Series(column, values, dtype=dtype, strict=True).gather(pl.Series(codes, dtype=pl.UInt32))


def times(texts: Sequence[str], unread: Unread, column: str) -> pl.Series:
    """Return the column of UTC times from epoch seconds; Slurm's words for "no time" are null."""
    raw = pl.Series(column, texts, dtype=pl.String)
    whole = raw.cast(pl.Int64, strict=False)
    odd = set(raw.filter(whole.is_null()).unique()) - ABSENT
    if odd:
        return gathered(texts, parse_slurm_time, TIME, unread, column)
    return (whole.set(whole <= 0, None) * 1_000_000).cast(TIME)


def numbers(texts: Sequence[str], dtype: Any, unread: Unread, column: str) -> pl.Series:
    """Return the column of numbers; Slurm's words for "none" are null."""
    raw = pl.Series(column, texts, dtype=pl.String)
    found = raw.cast(pl.Float64, strict=False)
    if found.null_count():
        for text in raw.filter(found.is_null()):
            if text not in ABSENT:
                unread.cell(column, text)
    return found.cast(dtype, strict=False)


def words(texts: Sequence[str], column: str) -> pl.Series:
    """Return the column of texts, null for Slurm's `(null)`, `N/A` and nothing."""
    raw = pl.Series(column, texts, dtype=pl.String)
    return raw.set(raw.is_in(["", "(null)", "N/A"]), None)
