"""Snapshots for triage tests: a few words for a node, a job, a reservation; everything else stays null."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from connectors.connector import Capabilities, Meta
from connectors.model import SCHEMAS, Snapshot
from connectors.rules import SlurmPartition, SlurmRules

NOW = datetime(2026, 11, 30, 11, 30, tzinfo=UTC)
OWN = {
    "slurm_partition": pl.String, "slurm_account": pl.String, "slurm_qos": pl.String, "slurm_reservation": pl.String,
    "slurm_scheduled_nodes": pl.String, "slurm_array_throttle": pl.Int32, "slurm_licenses": pl.String,
}  # fmt: skip


def at(text: str) -> datetime:
    """A moment: `14:00` on the day of NOW, or a full ISO time in UTC."""
    if "-" in text:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    hour, minute = text.split(":")
    return NOW.replace(hour=int(hour), minute=int(minute))


def hours(count: float) -> timedelta:
    return timedelta(hours=count)


def node(name: str, *, gpus: float = 8, used: float = 0, state: str | None = None, **more: Any) -> dict[str, Any]:
    """One node of partition `train` with 128 CPUs and 1 TiB; CPUs and memory are used in proportion to GPUs."""
    share = used / gpus if gpus else 0.0
    state = state or ("idle" if used == 0 else "allocated" if used == gpus else "mixed")
    row = {
        "name": name, "state": state, "state_raw": state.upper(), "gpu_model": "h100", "gpus": gpus,
        "gpus_allocated": used, "gpus_unusable": 0.0, "cpus": 128.0, "cpus_allocated": 128 * share,
        "memory_bytes": float(2**40), "memory_allocated_bytes": 2**40 * share, "partitions": ["train"], "schedulable": True,
    }  # fmt: skip
    return row | more


def nodes(prefix: str, first: int, last: int, **more: Any) -> list[dict[str, Any]]:
    return [node(f"{prefix}{number:02d}", **more) for number in range(first, last + 1)]


def job(
    number: str, *, state: str = "pending", reason: str | None = None, gpus: float = 8, **more: Any
) -> dict[str, Any]:
    """One job of lin in account vision, QOS normal, partition train, one node, 4 h."""
    count = more.get("nodes", 1)
    partition, account, qos = more.pop("partition", "train"), more.get("team", "vision"), more.pop("qos", "normal")
    row: dict[str, Any] = {
        "id": number, "key": number.partition("_")[0] if "[" in number else number, "name": f"job-{number}", "user": "lin", "team": account,
        "state": state, "state_raw": state.upper(), "reason_raw": reason, "queue": f"partition:{partition}",
        "priority": 1000.0, "gpus": gpus, "gpus_per_node": gpus / count if gpus else None, "nodes": count, "tasks": 1,
        "cpus": gpus * 4.0, "memory_bytes": gpus * 2.0**36, "time_limit_s": 4 * 3600.0, "submit_time": NOW - hours(2),
        "slurm_partition": partition, "slurm_account": account, "slurm_qos": qos,
    }  # fmt: skip
    if state in {"running", "suspended", "completing"}:
        row |= {"start_time": NOW - hours(1), "reason_raw": reason or "None"}
    row |= more
    if row["state"] in {"running", "suspended"} and "end_time" not in row and row["time_limit_s"] != float("inf"):
        row["end_time"] = row["start_time"] + timedelta(seconds=row["time_limit_s"])
    return row


def _frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = dict(SCHEMAS[table])
    if table == "jobs":
        schema |= {name: dtype for name, dtype in OWN.items() if any(name in row for row in rows)}
    schema.pop("cluster")
    return pl.DataFrame(
        rows, schema={k: v for k, v in schema.items() if any(k in row for row in rows)} if rows else schema
    )


TRAIN = SlurmPartition(name="train", max_time_s=2 * 86400.0, priority_tier=10)


def rules(**fields: Any) -> SlurmRules:
    return SlurmRules(**({"partitions": (TRAIN,)} | fields))


def snapshot(
    jobs: list[dict[str, Any]] = [], nodes: list[dict[str, Any]] = [], *,  # noqa: B006 - never changed
    rules: SlurmRules | None = None, gaps: tuple[Any, ...] = (), now: datetime = NOW, **tables: list[dict[str, Any]],
) -> Snapshot:  # fmt: skip
    meta = Meta(
        cluster="hpc-a", system="slurm", version="24.11.5", taken_at=now, capabilities=Capabilities(reads=("jobs",))
    )
    frames = {name: _frame(name, rows) for name, rows in {"jobs": jobs, "nodes": nodes, **tables}.items()}
    return Snapshot.of(meta, rules=rules or SlurmRules(partitions=(TRAIN,)), gaps=gaps, **frames)


def row_of(snap: Snapshot, number: str) -> dict[str, Any]:
    return snap.jobs.filter(pl.col("id") == number).row(0, named=True)
