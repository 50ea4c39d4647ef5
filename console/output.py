"""Frames and answers as JSON, CSV, Parquet and plain tables, for the command line. No Textual, no colour library.

JSON: times are ISO 8601 in UTC with `Z`, infinity is the string "unlimited", what the system did not say is null, and
text is what the system said, byte for byte. Plain tables show text made safe for a terminal.
"""

import csv
import io
import math
import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from connectors.connector import Gap
from connectors.errors import BadWords
from connectors.notation import cells, cut, format_age, safe_text
from connectors.text import _

if TYPE_CHECKING:
    import polars as pl

    from connectors.model import Snapshot

_MAX_CELL = 60


def moment(value: datetime) -> str:
    """Return a UTC time as ISO 8601 with `Z`, to the second."""
    return value.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def plain(value: Any) -> Any:
    """Return a value that JSON can hold, by the rules of this module; structs become objects, in the wire's names."""
    if isinstance(value, float):
        return ("unlimited" if value > 0 else None) if math.isinf(value) else None if math.isnan(value) else value
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, msgspec.Struct):
        return plain(msgspec.to_builtins(value, builtin_types=(datetime, Decimal)))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


def to_json(value: Any) -> str:
    """Return any answer as one JSON text, indented for reading."""
    return msgspec.json.format(msgspec.json.encode(plain(value)), indent=2).decode()


def json_rows(frame: "pl.DataFrame") -> list[dict[str, Any]]:
    """Return the rows of a frame as JSON objects; works by columns, since 50,000 rows are usual."""
    import polars as pl

    columns: list[list[Any]] = []
    for name in frame.columns:
        column = frame[name]
        if column.dtype == pl.Datetime:
            columns.append(column.dt.strftime("%Y-%m-%dT%H:%M:%SZ").to_list())
        elif column.dtype.is_float() and not column.is_finite().fill_null(value=True).all():
            columns.append([plain(value) for value in column])
        elif column.dtype.is_decimal():
            columns.append(column.cast(pl.String).to_list())
        else:
            columns.append(column.to_list())
    names = frame.columns
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def envelope(table: str, snapshot: "Snapshot", frame: "pl.DataFrame") -> dict[str, Any]:
    """Return one cluster's answer to `get` (cli.md, "JSON")."""
    return {
        "schema": f"gpudeck/{table}/1",
        "cluster": snapshot.meta.cluster,
        "taken_at": moment(snapshot.meta.taken_at),
        "gaps": [plain(gap) for gap in snapshot.gaps],
        "rows": json_rows(frame),
    }


def failed_envelope(table: str, cluster: str, error: Exception, since: datetime) -> dict[str, Any]:
    """Return the envelope of a cluster that could not be read: its rows are null, never an empty list."""
    gap = Gap(source="cluster", reason=str(error), since=since, affects=(table,))
    return {"schema": f"gpudeck/{table}/1", "cluster": cluster, "taken_at": None, "gaps": [plain(gap)], "rows": None}


def flat(frame: "pl.DataFrame") -> "pl.DataFrame":
    """Return the frame with lists joined by `,` and structs as `key=value`, for CSV."""
    import polars as pl

    columns = []
    for name, dtype in frame.schema.items():
        if isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.Struct):
            texts = [None if value is None else ",".join(map(_pair, value)) for value in frame[name].to_list()]
            columns.append(pl.Series(name, texts, dtype=pl.String))
        elif isinstance(dtype, pl.List):
            columns.append(frame[name].list.join(","))
        else:
            columns.append(frame[name])
    return pl.DataFrame(columns)


def write_csv(frame: "pl.DataFrame", file: Any) -> None:
    """Write the frame as CSV with a header; null is empty, infinity is `unlimited`."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(frame.columns)
    for row in json_rows(flat(frame)):
        writer.writerow(["" if value is None else value for value in row.values()])


def write_parquet(frame: "pl.DataFrame", path: Path) -> None:
    """Write the frame as Parquet, all types kept. BadWords if the file can't be written."""
    try:
        frame.write_parquet(path)
    except OSError as error:
        why = error.strerror or str(error)
        raise BadWords(f"{path} can't be written: {why}", text=str(path), hint="name a file to make") from error


def table(frame: "pl.DataFrame", *, width: int | None = None) -> str:
    """Return the frame as a plain table: figures right-aligned, `?` for what the system did not say.

    `width` in cells, the terminal's by default; without a terminal nothing is cut.
    """
    titles = [name.removesuffix("_s").upper() for name in frame.columns]  # spans are shown with their unit
    right = [dtype.is_numeric() or name.endswith("_s") for name, dtype in frame.schema.items()]
    columns = [[_cell(name, value) for value in frame[name]] for name in frame.columns]
    limit = width
    if limit is None and sys.stdout.isatty():
        limit = shutil.get_terminal_size((120, 40)).columns
    widths = [
        max([cells(title), *(cells(text) for text in column)]) for title, column in zip(titles, columns, strict=True)
    ]
    if limit is not None:
        widths = _shrunk(widths, right, [cells(title) for title in titles], limit)
    lines = [_line(titles, widths, right)]
    lines += [_line(texts, widths, right) for texts in zip(*columns, strict=True)]
    return "\n".join(lines)


def _shrunk(widths: list[int], right: Sequence[bool], least: Sequence[int], limit: int) -> list[int]:
    """Return widths that fit the limit: the widest text column gives way first, figures never do."""
    widths = [width if is_right else min(width, _MAX_CELL) for width, is_right in zip(widths, right, strict=True)]
    while sum(widths) + 2 * (len(widths) - 1) > limit:
        text = [i for i, is_right in enumerate(right) if not is_right and widths[i] > max(least[i], 8)]
        if not text:
            break
        widest = max(text, key=lambda i: widths[i])
        widths[widest] -= 1
    return widths


def _line(texts: Iterable[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = []
    for text, width, is_right in zip(texts, widths, right, strict=True):
        shown = cut(text, width)
        blanks = " " * (width - cells(shown))
        parts.append(blanks + shown if is_right else shown + blanks)
    return "  ".join(parts).rstrip()


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "?"
    if name.endswith("_s") and isinstance(value, int | float):
        return _("unlimited") if math.isinf(value) else format_age(value)
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, datetime):
        return value.astimezone().strftime("%m-%d %H:%M")
    if isinstance(value, float):
        return _("unlimited") if math.isinf(value) else f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    if isinstance(value, int):
        return f"{value:,}"
    if hasattr(value, "to_list"):
        value = value.to_list()
    if isinstance(value, list):
        return ",".join(safe_text(_pair(item) if isinstance(item, dict) else str(item)) for item in value) or "-"
    return safe_text(str(value))


def _pair(item: dict[str, Any]) -> str:
    return "=".join(map(str, item.values()))


def csv_text(frame: "pl.DataFrame") -> str:
    """Return the frame as CSV text."""
    file = io.StringIO()
    write_csv(frame, file)
    return file.getvalue()
