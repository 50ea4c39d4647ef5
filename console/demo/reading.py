"""From a simulated cluster's answers to a snapshot. Pure."""

import math
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import polars as pl

from connectors.connector import Capabilities, Gap, Meta, Raw
from connectors.errors import Malformed
from connectors.model import MONEY, SCHEMAS, TIME, Snapshot, conform
from connectors.rules import SlurmRules
from console.demo.tables import UNLIMITED

TABLES = ("jobs", "nodes", "gpus", "queues", "quotas", "reservations", "events", "prices")
_OWN: dict[str, dict[str, pl.DataType | type[pl.DataType]]] = {
    "jobs": {"demo_held_by": pl.String, "demo_priority_set": pl.Float64}
}
_WIRE: dict[Any, Any] = {TIME: pl.Int64, MONEY: pl.String}
_INT32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_EPOCH = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799)]
_PLAIN: dict[Any, Any] = {
    pl.String: str, pl.Boolean: bool, pl.Int32: _INT32, pl.Int64: int, TIME: _EPOCH, MONEY: str,
    pl.Float64: float | Literal["unlimited"],
}  # fmt: skip
_FAULTS = (ValueError, TypeError, OverflowError, ArithmeticError, msgspec.MsgspecError, pl.exceptions.PolarsError)


class _Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer `cluster` says."""

    version: str
    user: str
    now: float
    rules: Any


def interpret(raw: Raw, capabilities: Capabilities) -> Snapshot:
    """Return the snapshot; a table that can't be read is a gap. Malformed where neither jobs nor nodes can be read."""
    gaps: list[Gap] = []
    tables: dict[str, pl.DataFrame] = {}
    for name in TABLES:
        try:
            tables[name] = table(raw, name)
        except _FAULTS as error:
            gaps.append(_gap(raw, name, error, (name,)))
    if "jobs" not in tables and "nodes" not in tables:
        said = raw.answers["jobs"].out if "jobs" in raw.answers else b""
        raise Malformed(
            f"the answers can't be read: {gaps[0].reason}", cluster=raw.cluster, source="jobs",
            excerpt=said[:400].decode(errors="replace"),
        )  # fmt: skip
    facts, rules = None, None
    try:
        facts = msgspec.json.decode(_out(raw, "cluster"), type=_Cluster)
        rules = msgspec.convert(_unbounded(facts.rules), SlurmRules)
    except _FAULTS as error:
        gaps.append(_gap(raw, "cluster", error, ("rules",)))
    skew = raw.notes.get("clock_skew_s")
    meta = Meta(
        cluster=raw.cluster, system=raw.system, version=facts.version if facts else None, taken_at=raw.taken_at,
        took_ms=raw.took_ms, calls=1, clock_skew_s=None if skew is None else float(skew),
        user=facts.user if facts else None,
        capabilities=capabilities,
    )  # fmt: skip
    return Snapshot.of(meta, rules=rules, gaps=tuple(gaps), **tables)


def history(raw: Raw, since: datetime) -> pl.DataFrame:
    """Return the jobs that ended since then, in the schema of `jobs`; Malformed where they can't be read."""
    try:
        frame = table(raw, "history", like="jobs")
    except _FAULTS as error:
        raise Malformed(f"the ended jobs can't be read: {error}", cluster=raw.cluster, source="history") from error
    return conform("jobs", frame, cluster=raw.cluster, system=raw.system).filter(pl.col("end_time") >= since)


def table(raw: Raw, name: str, like: str | None = None) -> pl.DataFrame:
    """Return one answer as a frame; a value of another type than its column's is an error of msgspec's."""
    shape = like or name
    rows = msgspec.json.decode(_out(raw, name), type=list[_row(shape)])  # type: ignore[misc] # made of the schema
    columns = _columns(shape)
    figures = [column for column, dtype in columns.items() if dtype == pl.Float64]
    for row in rows:
        for column in figures:
            if row.get(column) == UNLIMITED:
                row[column] = math.inf
    wire = {column: _WIRE.get(dtype, dtype) for column, dtype in columns.items()}
    times = [pl.from_epoch(column).cast(TIME) for column, dtype in columns.items() if dtype == TIME]
    money = [pl.col(column).cast(MONEY) for column, dtype in columns.items() if dtype == MONEY]
    return pl.DataFrame(rows, schema=wire).with_columns(*times, *money)


def _columns(shape: str) -> dict[str, Any]:
    columns = dict(SCHEMAS[shape]) | _OWN.get(shape, {})
    del columns["cluster"]
    return columns


@cache
def _row(shape: str) -> Any:
    """Return the type of one row as JSON; polars itself would make null of a value that does not fit."""
    make: Any = TypedDict
    return make(shape, {column: _json_type(dtype) | None for column, dtype in _columns(shape).items()}, total=False)


def _json_type(dtype: Any) -> Any:
    if isinstance(dtype, pl.Enum):
        return Literal[*dtype.categories.to_list()]
    if isinstance(dtype, pl.List):
        return list[_json_type(dtype.inner)]  # type: ignore[misc] # a type that is made here
    if isinstance(dtype, pl.Struct):
        make: Any = TypedDict
        return make("Fields", {field.name: _json_type(field.dtype) | None for field in dtype.fields})
    return _PLAIN[dtype]


def _unbounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unbounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unbounded(item) for item in value]
    return math.inf if value == UNLIMITED else value


def _out(raw: Raw, name: str) -> bytes:
    if name not in raw.answers:
        raise ValueError(f"there is no answer {name!r}")
    return raw.answers[name].out


def _gap(raw: Raw, source: str, error: Exception, affects: tuple[str, ...]) -> Gap:
    reason = " ".join(str(error).split())[:200]
    return Gap(source=source, reason=reason, since=raw.taken_at.astimezone(UTC), affects=affects)
