"""What a plan stands on, held against a snapshot: the same comparison before anything is sent and after. Pure.

The rules of comparison are those of `Expectation`'s docstring. A task of a job array (`123_4`) that has no row of its
own yet is found in the row of its array's waiting tasks (`123_[1-9]`).
"""

import math
from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final, Literal

import polars as pl

from connectors.change import Expectation, Found, Scalar
from connectors.model import Snapshot
from connectors.notation import NotationError, format_when, parse_job_id

Value = Scalar | tuple[str, ...]


class _Missing(Enum):
    """A type of its own for "no such row", since None is what the system did not say."""

    MISSING = "missing"


MISSING: Final = _Missing.MISSING
_KEY = {"jobs": "key", "nodes": "name", "queues": "id", "reservations": "name"}
_NOUN = {"jobs": "job ", "reservations": "reservation ", "nodes": "", "queues": "", "quotas": ""}


def lookup(snapshot: Snapshot, expectation: Expectation) -> Value | Literal[_Missing.MISSING]:
    """Return what stands there now; MISSING if there is no such row, None for null or where no column is named.

    A list is a tuple, a time its text, a figure a float. Raises KeyError for a table or a column that does not exist.
    """
    row = find(snapshot, expectation.table, expectation.key)
    if row is None:
        return MISSING
    return _plain(row[expectation.column]) if expectation.column else None


def find(snapshot: Snapshot, table: str, key: str) -> dict[str, Any] | None:
    """Return the row that an expectation's key names, or None."""
    frame = snapshot.table(table)
    if table == "quotas":
        queue, resource, model = split_quota_key(key)
        same_model = pl.col("model").is_null() if model is None else pl.col("model") == model
        found = frame.filter((pl.col("queue") == queue) & (pl.col("resource") == resource) & same_model)
    else:
        found = frame.filter(pl.col(_KEY[table]) == key)
        if table == "jobs" and found.is_empty():
            return _array_row(frame, key)
    return None if found.is_empty() else found.row(0, named=True)


def quota_key(queue: str, resource: str = "gpu", model: str | None = None) -> str:
    """Return the key of a row of `quotas`."""
    return f"{queue}|{resource}|{model or ''}"


def split_quota_key(key: str) -> tuple[str, str, str | None]:
    """Return queue, resource and model of such a key; ValueError if it is none."""
    queue, resource, model = key.rsplit("|", 2)
    return queue, resource, model or None


def holds(expectation: Expectation, value: Value | Literal[_Missing.MISSING]) -> bool:
    """Return whether a value that was looked up is what was expected."""
    if value is MISSING:
        return expectation.or_gone or not expectation.exists
    if not expectation.exists or not expectation.column:
        return expectation.exists
    return _same(expectation.value, value) is not expectation.is_not


def check(expectations: Sequence[Expectation], snapshot: Snapshot) -> tuple[Found, ...]:
    """Return every expected value with what stands there now, in the same order; a row that is gone has value None."""
    results: list[Found] = []
    for expectation in expectations:
        value = lookup(snapshot, expectation)
        shown = None if value is MISSING else value
        results.append(Found(expected=expectation, value=shown, ok=holds(expectation, value)))
    return tuple(results)


def moved(expectations: Sequence[Expectation], snapshot: Snapshot) -> list[str]:
    """Return what is not as expected, each in words: `qos:train limit: expected 24, found 28`."""
    differences: list[str] = []
    for expectation in expectations:
        value = lookup(snapshot, expectation)
        if not holds(expectation, value):
            differences.append(_difference(expectation, value))
    return differences


def subject(expectation: Expectation) -> str:
    """Return what an expectation is about, in words: `qos:train limit (h100)`, `job 15 state`, `gpu03 reason`."""
    name, detail = expectation.key, ""
    if expectation.table == "quotas":
        name, resource, model = split_quota_key(expectation.key)
        detail = f" ({model})" if model else ""
        detail = detail if resource == "gpu" else f" ({resource}{' ' + model if model else ''})"
    return f"{_NOUN[expectation.table]}{name}{' ' + expectation.column if expectation.column else ''}{detail}"


def expected_words(expectation: Expectation) -> str:
    """Return the value of an expectation in words: `24`, `not pending or running`, `anything`, `no such row`."""
    if not expectation.exists:
        return "not to be there"
    if not expectation.column:
        return "to be there"
    value = expectation.value
    words = " or ".join(map(_said, value)) if isinstance(value, tuple) and value else _said(value)
    return ("not " if expectation.is_not else "") + words + (" or gone" if expectation.or_gone else "")


def _difference(expectation: Expectation, value: Value | Literal[_Missing.MISSING]) -> str:
    about = subject(expectation)
    if value is MISSING:
        return f"{subject(_whole(expectation))}: is gone"
    if not expectation.exists:
        return f"{subject(_whole(expectation))}: is there now"
    return f"{about}: expected {expected_words(expectation)}, found {_said(value)}"


def _whole(expectation: Expectation) -> Expectation:
    return Expectation(table=expectation.table, key=expectation.key, column="")


def _said(value: Value) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "unlimited" if value == math.inf else f"{value:.15g}"
    if isinstance(value, tuple):
        return ",".join(value) or "none"
    return repr(value) if value != value.strip() or " " in value or not value else value


def _same(expected: Value, value: Value) -> bool:
    if expected is None or value is None:
        return expected is None and value is None
    if isinstance(expected, tuple):
        return set(expected) == set(value) if isinstance(value, tuple) else value in expected
    if isinstance(value, tuple):
        return False
    if isinstance(expected, bool) or isinstance(value, bool) or isinstance(expected, str) or isinstance(value, str):
        return type(expected) is type(value) and expected == value
    return math.isclose(expected, value, rel_tol=1e-6, abs_tol=1e-6)


def _plain(value: Any) -> Value:
    if isinstance(value, list):
        return tuple(str(item) for item in value)
    if isinstance(value, datetime):
        return format_when(value)
    if value is None or isinstance(value, (bool, str)):
        return value
    return float(value)


def _array_row(frame: pl.DataFrame, key: str) -> dict[str, Any] | None:
    """Return the row of the waiting tasks that a single task is one of."""
    base, mark, task = key.partition("_")
    if not (mark and base.isdecimal() and task.isdecimal() and key.isascii()):
        return None
    for row in frame.filter(pl.col("key") == base).iter_rows(named=True):
        try:
            tasks = parse_job_id(row["id"] or "").tasks
        except NotationError:
            continue
        if tasks and any(int(task) in some for some in tasks):
            return row
    return None
