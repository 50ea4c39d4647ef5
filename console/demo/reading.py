"""From a simulated cluster's answers to a snapshot. Pure."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import polars as pl

from connectors.connector import Capabilities, Gap, Meta, Raw
from connectors.errors import Malformed
from connectors.model import MONEY, SCHEMAS, TIME, Snapshot, conform, utc
from connectors.rules import SlurmRules
from console.demo.tables import UNLIMITED

TABLES = ("jobs", "nodes", "gpus", "queues", "quotas", "reservations", "events", "prices")
_OWN: dict[str, dict[str, pl.DataType | type[pl.DataType]]] = {
    "jobs": {"demo_held_by": pl.String, "demo_priority_set": pl.Float64}
}
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
    """Return one answer as a frame of the columns that it has."""
    rows = msgspec.json.decode(_out(raw, name), type=list[dict[str, Any]])
    schema = dict(SCHEMAS[like or name]) | _OWN.get(like or name, {})
    return pl.DataFrame([_column(column, dtype, rows) for column, dtype in schema.items() if column != "cluster"])


def _column(name: str, dtype: Any, rows: list[dict[str, Any]]) -> pl.Series:
    values = [row.get(name) for row in rows]
    if dtype == TIME:
        return pl.Series(name, [utc(value) for value in values], dtype=TIME)
    if dtype == MONEY:
        return pl.Series(name, [None if value is None else Decimal(value) for value in values], dtype=MONEY)
    if dtype == pl.Float64:
        return pl.Series(name, [_figure(value) for value in values], dtype=pl.Float64)
    return pl.Series(name, values, dtype=dtype)


def _figure(value: Any) -> float | None:
    if value == UNLIMITED:
        return math.inf
    return None if value is None else float(value)


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
