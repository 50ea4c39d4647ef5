"""Hand-made snapshots for tests of the core."""

import math
from datetime import UTC, datetime, timedelta

import polars as pl

from connectors.connector import Capabilities, Meta
from connectors.model import JOBS, NODES, QUEUES, QUOTAS, RESERVATIONS, Snapshot
from connectors.rules import FifoRules, Rules, SlurmPartition, SlurmRules

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HOUR = 3600.0
OWN = {
    "slurm_partition": pl.String, "slurm_account": pl.String, "slurm_qos": pl.String, "slurm_reservation": pl.String,
    "slurm_array_throttle": pl.Float64, "slurm_licenses": pl.String,
    "slurm_excluded_nodes": pl.List(pl.String), "slurm_requeue": pl.Boolean,
}  # fmt: skip


def at(hours: float) -> datetime:
    return NOW + timedelta(hours=hours)


def node(name: str, gpus: float = 8, model: str = "a100", **more: object) -> dict[str, object]:
    return {
        "name": name, "state": "idle", "gpu_model": model, "gpus": gpus, "gpus_unusable": 0, "cpus": 64,
        "memory_bytes": 512e9, "partitions": ["train"], "schedulable": True, **more,
    }  # fmt: skip


def job(name: str, /, gpus: float = 8, hours: float = 1, nodes: int = 1, **more: object) -> dict[str, object]:
    row: dict[str, object] = {
        "id": name, "key": name, "name": f"job-{name}", "user": "ana", "team": "vision", "state": "pending",
        "reason_raw": "Priority", "queue": "partition:train", "bound_by": ["partition:train"], "priority": 1000.0,
        "submit_time": at(-1), "eligible_time": at(-1), "time_limit_s": hours * HOUR, "gpus": gpus, "nodes": nodes,
        "gpus_per_node": gpus / nodes, "tasks": 1,
    }  # fmt: skip
    return {**row, **more}


def running(name: str, /, on: str | list[str], gpus: float = 8, hours: float = 1, ran: float = 0.0, **more: object):
    names = [on] if isinstance(on, str) else on
    return job(
        name,
        gpus,
        hours,
        len(names),
        **{"state": "running", "reason_raw": None, "start_time": at(-ran), "nodelist": names, **more},
    )


def frame(rows: list[dict[str, object]], schema) -> pl.DataFrame:
    own = {name: dtype for name, dtype in OWN.items() if any(name in row for row in rows)}
    columns = {name: dtype for name, dtype in {**schema, **own}.items() if name != "cluster"}
    return pl.DataFrame({name: [row.get(name) for row in rows] for name in columns}, schema=columns, strict=False)


def snapshot(
    nodes, jobs=(), *, rules: Rules | None = None, queues=(), quotas=(), reservations=(), user: str = "ops"
) -> Snapshot:
    meta = Meta(
        cluster="lab", system="slurm", version="22.05", taken_at=NOW, user=user, capabilities=Capabilities(reads=())
    )
    return Snapshot.of(
        meta,
        rules=rules if rules is not None else slurm(),
        nodes=_with_allocation(list(nodes), list(jobs)),
        jobs=frame(list(jobs), JOBS),
        queues=frame(list(queues), QUEUES),
        quotas=frame(list(quotas), QUOTAS),
        reservations=frame(list(reservations), RESERVATIONS),
    )


def _with_allocation(nodes, jobs) -> pl.DataFrame:
    rows = []
    for row in nodes:
        held = sum(j["gpus"] / len(j["nodelist"]) for j in jobs if j.get("nodelist") and row["name"] in j["nodelist"])
        rows.append({"gpus_allocated": held, "cpus_allocated": 0, "memory_allocated_bytes": 0, **row})
    return frame(rows, NODES)


def slurm(**more: object) -> SlurmRules:
    partition = more.pop("partitions", (SlurmPartition(name="train", default=True),))
    return SlurmRules(partitions=partition, enforce=("associations", "limits", "qos"), **more)


def fifo(backfill: bool = True) -> FifoRules:
    return FifoRules(backfill=backfill)


def start_hours(forecast, name: str) -> float | None:
    """Hours from now to the start of a job; None if it doesn't start."""
    one = next(j for j in forecast.jobs if j.id == name)
    return None if one.start_p50 is None else (one.start_p50 - NOW).total_seconds() / 3600


INF = math.inf
