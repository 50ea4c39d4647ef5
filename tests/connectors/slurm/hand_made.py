"""A small hand-made snapshot of cluster halcyon, on which every change of the language makes sense somewhere."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from connectors.connector import Capabilities, Gap, Meta
from connectors.model import JOBS, NODES, QUEUES, QUOTAS, RESERVATIONS, Snapshot
from connectors.rules import SlurmAssociation, SlurmPartition, SlurmQos, SlurmRules

NOW = datetime(2026, 11, 30, 20, 0, tzinfo=UTC)
HOUR = 3600.0


def at(hours: float) -> datetime:
    return NOW + timedelta(hours=hours)


def job(key: str, state: str = "pending", **more: Any) -> dict[str, Any]:
    row = {"id": key, "key": key, "name": f"job-{key}", "user": "mira", "state": state, "reason_raw": "Resources",
           "priority": 1000.0, "tasks": 1}  # fmt: skip
    if state in {"running", "suspended", "completing"}:
        row |= {"start_time": at(-1), "time_limit_s": 3 * HOUR, "reason_raw": "None"}
    return row | more


JOBS_NOW = (
    job("7", "running", nodelist=["gpu02", "gpu03"], user="mira"),
    job("8", "running", nodelist=["gpu05"], time_limit_s=1.5 * HOUR),
    job("9", "running", nodelist=["gpu07"], time_limit_s=math.inf),
    job("10", "suspended", nodelist=["gpu06"], time_limit_s=None),
    job("11", "completing", nodelist=["gpu01"], time_limit_s=9 * HOUR),
    job("12", "succeeded"),
    job("15"),
    job("16", id="16_[2-9%2]", reason_raw="JobArrayTaskLimit", tasks=8, parent_id="16"),
    job("16_0", "running", nodelist=["gpu01"], time_limit_s=1.2 * HOUR, parent_id="16"),
    job("18_0", "running", nodelist=["gpu01"], time_limit_s=1.2 * HOUR),
    job("18_1", "running", nodelist=["gpu01"], time_limit_s=1.2 * HOUR),
    job("19_3", "running", nodelist=["gpu01"], time_limit_s=1.2 * HOUR),
    job("20", id="20_[0-3,5...%3]", tasks=6),
    job("36", priority=0.0, reason_raw="JobHeldUser", user="anouk"),
    job("37", priority=0.0, reason_raw="JobHeldAdmin", user="anouk"),
    job("38", chain=["38+0", "38+1"]),
    job("39", id="39_[1-3]", reason_raw="JobArrayTaskLimit,JobHeldAdmin", tasks=3),
)


def node(name: str, model: str = "a100", **more: Any) -> dict[str, Any]:
    return {"name": name, "state": "idle", "state_raw": "IDLE", "gpu_model": model, "gpus": 8.0} | more


NODES_NOW = (
    node("gpu01", state="mixed"),
    node("gpu02", state="mixed"),
    node("gpu03", state="mixed"),
    node("gpu04", state="drained", state_raw="IDLE+DRAIN", reason="ECC errors, ticket 4711"),
    node("gpu05", state="mixed"),
    node("gpu06", state="mixed"),
    node("gpu07", "h100", state="mixed"),
    node("gpu08", "h100", state="down", state_raw="DOWN+NOT_RESPONDING", reason="Not responding"),
)
QUEUES_NOW = (
    {"id": "partition:train", "kind": "partition", "state": "open", "max_run_s": 48 * HOUR},
    {"id": "partition:low", "kind": "partition", "state": "stopped", "max_run_s": 24 * HOUR},
    {"id": "partition:old", "kind": "partition", "state": "draining", "max_run_s": math.inf},
    {"id": "qos:train", "kind": "qos", "state": "open", "max_run_s": math.inf},
    {"id": "qos:normal", "kind": "qos", "state": "open", "max_run_s": math.inf},
    {"id": "account:vision", "kind": "account", "state": "open", "weight": 30.0, "max_run_s": math.inf},
    {"id": "account:language", "kind": "account", "state": "open", "weight": 30.0, "max_run_s": math.inf},
    {"id": "assoc:vision/tomas", "kind": "assoc", "state": "open", "weight": 1.0, "max_run_s": 4 * HOUR},
    {"id": "assoc:vision/odd one", "kind": "assoc", "state": "open", "max_run_s": math.inf},
    {"id": "assoc:vision/parts", "kind": "assoc", "state": "open", "max_run_s": math.inf},
    {"id": "assoc:vision/parts/train", "kind": "assoc", "state": "open", "max_run_s": math.inf},
    {"id": "assoc:language/parent", "kind": "assoc", "state": "open", "max_run_s": None},
)
QUOTAS_NOW = (
    {"queue": "qos:train", "resource": "gpu", "limit": 24.0, "used": 16.0, "main": "limit"},
    {"queue": "account:vision", "resource": "gpu", "limit": 20.0, "used": 17.0, "main": "limit"},
    {"queue": "account:language", "resource": "gpu", "limit": math.inf, "used": 8.0, "main": "limit"},
    {"queue": "assoc:vision/tomas", "resource": "gpu", "limit": 4.0, "used": 1.0, "main": "limit"},
    {"queue": "assoc:language/parent", "resource": "gpu", "limit": None, "used": 1.0, "main": "limit"},
)
RESERVATIONS_NOW = (
    {"name": "vision-eval", "start_time": at(2), "end_time": at(4), "nodelist": ["gpu06"], "gpus": 8.0,
     "users": [], "accounts": ["vision"], "flags": ["SPEC_NODES"], "state": "INACTIVE"},
)  # fmt: skip
RULES = SlurmRules(
    cluster_name="halcyon",
    gpu_types=("a100", "h100"),
    partitions=(
        SlurmPartition(name="train", qos="train"),
        SlurmPartition(name="low", state="DOWN"),
        SlurmPartition(name="old", state="DRAIN"),
    ),
    qos=(SlurmQos(name="train", grp_tres={"gres/gpu": 24, "cpu": 512}), SlurmQos(name="normal")),
    associations=(
        SlurmAssociation(account="vision", grp_tres={"gres/gpu": 20}),
        SlurmAssociation(account="language"),
        SlurmAssociation(account="vision", user="tomas", grp_tres={"gres/gpu": 4}),
        SlurmAssociation(account="vision", user="parts"),
        SlurmAssociation(account="vision", user="parts", partition="train"),
    ),
)


def snapshot(
    *,
    jobs: Any = JOBS_NOW,
    nodes: Any = NODES_NOW,
    queues: Any = QUEUES_NOW,
    quotas: Any = QUOTAS_NOW,
    reservations: Any = RESERVATIONS_NOW,
    rules: SlurmRules | None = RULES,
    user: str | None = "opsadmin",
    gaps: tuple[Gap, ...] = (),
) -> Snapshot:
    meta = Meta(
        cluster="lab", system="slurm", version="22.05.8", taken_at=NOW, user=user, capabilities=Capabilities(reads=())
    )

    def frame(rows: Any, schema: Any) -> pl.DataFrame:
        own = {"slurm_reservation": pl.String} if schema is JOBS else {}
        columns = {name: kind for name, kind in schema.items() if name != "cluster"}
        return pl.DataFrame([dict.fromkeys(columns) | row for row in rows], schema=columns | own)

    return Snapshot.of(
        meta,
        rules=rules,
        gaps=gaps,
        jobs=frame(jobs, JOBS),
        nodes=frame(nodes, NODES),
        queues=frame(queues, QUEUES),
        quotas=frame(quotas, QUOTAS),
        reservations=frame(reservations, RESERVATIONS),
    )


def changed(rows: Any, key: str, value: str, **more: Any) -> tuple[dict[str, Any], ...]:
    """The same rows, with the one of that key changed."""
    assert any(row[key] == value for row in rows)
    return tuple(row | more if row[key] == value else row for row in rows)
