"""What one cluster looks like at one instant: a Snapshot of polars frames with fixed schemas (model.md).

Times are UTC datetimes, `_s` seconds, `_bytes` bytes, `_w` watts, `_c` degrees Celsius, `_ratio` 0 to 1. Null is what
the system did not say; +inf is unlimited. A connector may add columns that begin with its own name and `_`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self

import polars as pl

from connectors.connector import Gap, Meta
from connectors.rules import Rules

Schema = Mapping[str, pl.DataType | type[pl.DataType]]

TIME = pl.Datetime("us", "UTC")
WORDS = pl.List(pl.String)
LABELS = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
MONEY = pl.Decimal(18, 6)

JOB_KINDS = ("training", "interactive", "inference", "batch", "pipeline", "other")
JOB_STATES = (
    "pending", "running", "suspended", "completing", "succeeded", "failed", "cancelled", "timeout", "out_of_memory",
    "node_failed", "preempted", "unknown",
)  # fmt: skip
ACTIVE_STATES = ("pending", "running", "suspended", "completing")
NODE_STATES = ("idle", "mixed", "allocated", "planned", "reserved", "draining", "drained", "down", "unknown")
GPU_STATES = ("free", "allocated", "idle_allocated", "faulty", "unknown")
QUEUE_STATES = ("open", "stopped", "draining", "unknown")
REMAP_STATES = ("none", "pending", "failed")
LEVELS = ("info", "warning", "error")
RESERVATION_KINDS = ("maintenance", "user", "system")

JOBS: Schema = {
    "cluster": pl.String, "id": pl.String, "key": pl.String, "name": pl.String, "user": pl.String, "team": pl.String,
    "project": pl.String, "kind": pl.Enum(JOB_KINDS), "kind_basis": pl.String, "state": pl.Enum(JOB_STATES),
    "state_raw": pl.String, "reason_raw": pl.String, "queue": pl.String, "bound_by": WORDS, "priority": pl.Float64,
    "position": pl.Int32, "submit_time": TIME, "eligible_time": TIME, "start_time": TIME, "end_time": TIME,
    "expected_start_time": TIME, "time_limit_s": pl.Float64, "gpus": pl.Float64, "gpus_per_node": pl.Float64,
    "gpu_model": pl.String, "gpu_memory_bytes": pl.Float64, "nodes": pl.Int32, "min_nodes": pl.Int32,
    "cpus": pl.Float64, "memory_bytes": pl.Float64, "tasks": pl.Int32, "gang": pl.Boolean, "nodelist": WORDS,
    "requested_nodes": WORDS, "constraint": pl.String, "preemptible": pl.Boolean, "restarts": pl.Int32,
    "exit_code": pl.Int32, "exit_signal": pl.Int32, "dependency": pl.String, "parent_id": pl.String, "chain": WORDS,
    "labels": LABELS,
}  # fmt: skip
NODES: Schema = {
    "cluster": pl.String, "name": pl.String, "state": pl.Enum(NODE_STATES), "state_raw": pl.String,
    "reason": pl.String, "reason_by": pl.String, "reason_time": TIME, "gpu_model": pl.String, "gpus": pl.Float64,
    "gpus_allocated": pl.Float64, "gpus_unusable": pl.Float64, "cpus": pl.Float64, "cpus_allocated": pl.Float64,
    "memory_bytes": pl.Float64, "memory_allocated_bytes": pl.Float64, "partitions": WORDS, "domain": WORDS,
    "taints": WORDS, "schedulable": pl.Boolean, "boot_time": TIME, "labels": LABELS,
}  # fmt: skip
GPUS: Schema = {
    "cluster": pl.String, "node": pl.String, "index": pl.Int32, "uuid": pl.String, "model": pl.String,
    "memory_total_bytes": pl.Float64, "memory_used_bytes": pl.Float64, "utilization_ratio": pl.Float64,
    "sm_active_ratio": pl.Float64, "tensor_active_ratio": pl.Float64, "power_w": pl.Float64,
    "power_limit_w": pl.Float64, "temperature_c": pl.Float64, "throttle": WORDS,
    "ecc_uncorrected": pl.Int64, "row_remap": pl.Enum(REMAP_STATES),
    "xid": pl.Int32, "xid_time": TIME, "nvlink_ok": pl.Boolean, "mig_profile": pl.String, "mig_parent": pl.String,
    "processes": pl.List(
        pl.Struct({"pid": pl.Int64, "user": pl.String, "memory_bytes": pl.Float64, "name": pl.String})
    ),
    "job_ids": WORDS, "state": pl.Enum(GPU_STATES), "source": pl.String, "as_of": TIME,
}  # fmt: skip
QUEUES: Schema = {
    "cluster": pl.String, "id": pl.String, "kind": pl.String, "parent": pl.String, "state": pl.Enum(QUEUE_STATES),
    "weight": pl.Float64, "priority": pl.Float64, "fairshare_ratio": pl.Float64, "running_jobs": pl.Int32,
    "pending_jobs": pl.Int32, "preemption": pl.String, "max_run_s": pl.Float64, "max_gpus_per_job": pl.Float64,
    "max_gpus_per_user": pl.Float64, "writable": WORDS, "labels": LABELS,
}  # fmt: skip
QUOTAS: Schema = {
    "cluster": pl.String, "queue": pl.String, "resource": pl.String, "model": pl.String, "nominal": pl.Float64,
    "limit": pl.Float64, "borrow_limit": pl.Float64, "lend_limit": pl.Float64, "used": pl.Float64,
    "borrowed": pl.Float64, "lent": pl.Float64, "pending": pl.Float64, "main": pl.String,
}  # fmt: skip
RESERVATIONS: Schema = {
    "cluster": pl.String, "name": pl.String, "start_time": TIME, "end_time": TIME, "nodelist": WORDS,
    "gpus": pl.Float64, "gpu_model": pl.String, "users": WORDS, "accounts": WORDS, "flags": WORDS, "state": pl.String,
    "kind": pl.Enum(RESERVATION_KINDS),
}  # fmt: skip
EVENTS: Schema = {
    "cluster": pl.String, "time": TIME, "level": pl.Enum(LEVELS), "source": pl.String, "object": pl.String,
    "reason": pl.String, "message": pl.String, "count": pl.Int32,
}  # fmt: skip
PRICES: Schema = {
    "cluster": pl.String, "model": pl.String, "commitment": pl.String, "region": pl.String,
    "price_per_gpu_hour": MONEY, "currency": pl.String, "source": pl.String, "as_of": TIME,
}  # fmt: skip
USAGE: Schema = {
    "cluster": pl.String, "job_key": pl.String, "team": pl.String, "project": pl.String, "user": pl.String,
    "queue": pl.String, "gpu_model": pl.String, "start_time": TIME, "end_time": TIME, "gpu_s": pl.Float64,
    "gpu_busy_s": pl.Float64, "gpu_effective_s": pl.Float64, "price_basis": pl.String, "cost": MONEY,
    "currency": pl.String,
}  # fmt: skip

SCHEMAS: Mapping[str, Schema] = {
    "jobs": JOBS, "nodes": NODES, "gpus": GPUS, "queues": QUEUES, "quotas": QUOTAS, "reservations": RESERVATIONS,
    "events": EVENTS, "prices": PRICES, "usage": USAGE,
}  # fmt: skip


def conform(table: str, frame: pl.DataFrame, *, cluster: str, system: str) -> pl.DataFrame:
    """Return the frame with the table's columns in order and type; missing ones are null, `cluster` is filled.

    Columns of the connector's own (`slurm_qos`) follow. Raises ValueError for any other column, and polars' own error
    for a value that its column can't hold: both are faults of the connector.
    """
    schema = SCHEMAS[table]
    own = [name for name in frame.columns if name not in schema]
    strangers = [name for name in own if not name.startswith(f"{system}_")]
    if strangers:
        raise ValueError(f"table {table} has no column {', '.join(strangers)}")
    columns = [
        pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in schema.items()
        if name != "cluster"
    ]
    return frame.select(pl.lit(cluster, dtype=pl.String).alias("cluster"), *columns, *own)


def empty(table: str) -> pl.DataFrame:
    """Return the table without rows."""
    return pl.DataFrame(schema=dict(SCHEMAS[table]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One cluster at one instant: its tables, its scheduling rules, and what could not be read. Immutable.

    Make one with `Snapshot.of`, which gives every frame its fixed schema.
    """

    meta: Meta
    rules: Rules | None = None
    gaps: tuple[Gap, ...] = ()
    jobs: pl.DataFrame = field(default_factory=partial(empty, "jobs"))
    nodes: pl.DataFrame = field(default_factory=partial(empty, "nodes"))
    gpus: pl.DataFrame = field(default_factory=partial(empty, "gpus"))
    queues: pl.DataFrame = field(default_factory=partial(empty, "queues"))
    quotas: pl.DataFrame = field(default_factory=partial(empty, "quotas"))
    reservations: pl.DataFrame = field(default_factory=partial(empty, "reservations"))
    events: pl.DataFrame = field(default_factory=partial(empty, "events"))
    prices: pl.DataFrame = field(default_factory=partial(empty, "prices"))
    usage: pl.DataFrame = field(default_factory=partial(empty, "usage"))

    @classmethod
    def of(cls, meta: Meta, *, rules: Rules | None = None, gaps: tuple[Gap, ...] = (), **tables: pl.DataFrame) -> Self:
        """Build a snapshot from frames by table name; each gets its schema (see `conform`)."""
        shaped = {
            name: conform(name, frame, cluster=meta.cluster, system=meta.system) for name, frame in tables.items()
        }
        return cls(meta=meta, rules=rules, gaps=gaps, **shaped)

    def table(self, name: str) -> pl.DataFrame:
        """Return the frame of that name; KeyError if there is no such table."""
        if name not in SCHEMAS:
            raise KeyError(name)
        frame: pl.DataFrame = getattr(self, name)
        return frame

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return all frames by name."""
        return {name: self.table(name) for name in SCHEMAS}

    def with_tables(self, **tables: pl.DataFrame) -> Self:
        """Return this snapshot with some frames replaced; each gets its schema."""
        shaped: dict[str, Any] = {
            name: conform(name, frame, cluster=self.meta.cluster, system=self.meta.system)
            for name, frame in tables.items()
        }
        return replace(self, **shaped)

    def with_rules(self, rules: Rules) -> Self:
        """Return this snapshot under other scheduling rules."""
        return replace(self, rules=rules)

    def age_s(self, now: datetime) -> float:
        """Return the seconds from taken_at to now."""
        return (now - self.meta.taken_at).total_seconds()


def rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return all rows as dicts; for the few rows that a person is looking at."""
    return frame.to_dicts()


def utc(epoch_s: float | None) -> datetime | None:
    """Return the UTC datetime of seconds since 1970, None for None."""
    return None if epoch_s is None else datetime.fromtimestamp(epoch_s, UTC)


_FRAME_FIELDS = tuple(f.name for f in fields(Snapshot) if f.name in SCHEMAS)
if set(_FRAME_FIELDS) != set(SCHEMAS):  # a table without a field would be lost silently
    raise RuntimeError("Snapshot and SCHEMAS name different tables")
