"""The queues and quotas tables: partitions, QOS, accounts and associations, each with its limits and its use.

Quotas have one row for a queue and a resource with `model` null (GPUs of every model together; this is what GrpTRES
gres/gpu limits), and further rows for the models that a limit names or that are in use: those are parts of the first,
never to be added to it. Slurm counts MIG slices as GPUs here, and so do these rows. `used` of GPUs is counted from the
running jobs that we see, or is slurmctld's own figure where we do not see all jobs.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import polars as pl

from connectors.model import QUEUES, QUOTAS
from connectors.rules import SlurmAssociation, SlurmPartition, SlurmQos, SlurmRules
from connectors.slurm.accounting import AssocMgr, used
from connectors.slurm.roles import writable

_GPU = "gres/gpu"
_PARTITION_STATES = {"UP": "open", "DOWN": "stopped", "INACTIVE": "stopped", "DRAIN": "draining"}
_RESOURCES = {"mem": "memory", "cpu": "cpu", "node": "node"}


def association_id(one: SlurmAssociation) -> str:
    """Return the queue id of an account or an association."""
    if not one.user:
        return f"account:{one.account}"
    return f"assoc:{one.account}/{one.user}" + (f"/{one.partition}" if one.partition else "")


def queues_table(
    rules: SlurmRules, counts: pl.DataFrame, admin_level: str | None, coordinator_of: Collection[str]
) -> pl.DataFrame:
    """Return the queues; `counts` is from `queue_counts`."""
    rows: list[dict[str, Any]] = [_partition(one) for one in rules.partitions]
    rows += [_qos(one) for one in rules.qos or ()]
    rows += [_association(one) for one in rules.associations or ()]
    for row in rows:
        row["writable"] = writable(row["id"], admin_level, coordinator_of)
        row["labels"] = []
    schema = {name: QUEUES[name] for name in QUEUES if name not in {"cluster", "running_jobs", "pending_jobs"}}
    frame = pl.DataFrame(rows, schema=schema)
    jobs = counts.select("id", "running_jobs", "pending_jobs")
    return frame.join(jobs, on="id", how="left").with_columns(pl.col("running_jobs", "pending_jobs").fill_null(0))


def queue_counts(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return, for each queue that binds a job: running and pending jobs and their GPUs, an array's tasks counted."""
    tasks, gpus = pl.col("tasks"), pl.col("slurm_gpus").fill_null(0.0) * pl.col("tasks")
    state = pl.col("state").cast(pl.String)
    holds = state.is_in(["running", "suspended", "completing"])
    return (
        jobs.filter(holds | (state == "pending"))
        .with_columns(holds=holds)
        .group_by("bound_by", "holds", "gpu_model")
        .agg(jobs=tasks.sum(), gpus=gpus.sum())
        .explode("bound_by")
        .filter(pl.col("bound_by").is_not_null())
        .group_by(id="bound_by")
        .agg(
            running_jobs=pl.col("jobs").filter("holds").sum().cast(pl.Int32),
            pending_jobs=pl.col("jobs").filter(pl.col("holds").not_()).sum().cast(pl.Int32),
            used=pl.col("gpus").filter("holds").sum(),
            pending=pl.col("gpus").filter(pl.col("holds").not_()).sum(),
        )
    )


def model_counts(jobs: pl.DataFrame) -> dict[str, dict[str, tuple[float, float]]]:
    """Return (used, pending) GPUs by model, by queue, of the jobs whose model is known."""
    state = pl.col("state").cast(pl.String)
    holds = state.is_in(["running", "suspended", "completing"])
    gpus = pl.col("slurm_gpus").fill_null(0.0) * pl.col("tasks")
    frame = (
        jobs.filter((holds | (state == "pending")) & pl.col("gpu_model").is_not_null())
        .with_columns(holds=holds)
        .group_by("bound_by", "holds", "gpu_model")
        .agg(gpus=gpus.sum())
        .explode("bound_by")
        .group_by("bound_by", "gpu_model")
        .agg(used=pl.col("gpus").filter("holds").sum(), pending=pl.col("gpus").filter(pl.col("holds").not_()).sum())
    )
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for queue, model, use, pending in frame.iter_rows():
        found.setdefault(queue, {})[model] = (use, pending)
    return found


def _partition(one: SlurmPartition) -> dict[str, Any]:
    mode = one.preempt_mode
    return {
        "id": f"partition:{one.name}", "kind": "partition", "parent": None,
        "state": _PARTITION_STATES.get(one.state, "unknown"), "weight": float(one.priority_job_factor),
        "priority": float(one.priority_tier), "preemption": None if mode == "OFF" else f"PreemptMode={mode}",
        "max_run_s": one.max_time_s, "max_gpus_per_job": None, "max_gpus_per_user": None,
    }  # fmt: skip


def _qos(one: SlurmQos) -> dict[str, Any]:
    return {
        "id": f"qos:{one.name}", "kind": "qos", "parent": None, "state": "open", "weight": None,
        "priority": float(one.priority), "preemption": f"preempts {','.join(one.preempt)}" if one.preempt else None,
        "max_run_s": one.max_wall_s, "max_gpus_per_job": one.max_tres_per_job.get(_GPU, math.inf),
        "max_gpus_per_user": one.max_tres_per_user.get(_GPU, math.inf),
    }  # fmt: skip


def _association(one: SlurmAssociation) -> dict[str, Any]:
    above = None
    if one.user:
        above = f"account:{one.account}"
    elif one.parent:
        above = f"account:{one.parent}"
    return {
        "id": association_id(one), "kind": "assoc" if one.user else "account", "parent": above, "state": "open",
        "weight": one.shares, "priority": None, "fairshare_ratio": one.fairshare_factor, "preemption": None,
        "max_run_s": one.max_wall_s, "max_gpus_per_job": one.max_tres_per_job.get(_GPU, math.inf),
        "max_gpus_per_user": None,
    }  # fmt: skip


def quotas_table(
    rules: SlurmRules, jobs: pl.DataFrame, counts: pl.DataFrame, live: AssocMgr | None, *, sees_all: bool
) -> pl.DataFrame:
    """Return the quotas; `sees_all` says whether the jobs that we see are all there are."""
    seen = {queue: (use, pending) for queue, use, pending in counts.select("id", "used", "pending").iter_rows()}
    by_model = model_counts(jobs)
    rows: list[dict[str, Any]] = []
    for queue, grp_tres, own_use in _queues(rules, live):
        models = {name[len(_GPU) + 1 :] for name in grp_tres if name.startswith(_GPU + ":")}
        models |= by_model.get(queue, {}).keys()
        use: float | None
        use, pending = seen.get(queue, (0.0, 0.0))
        if not sees_all:
            use = own_use.get(_GPU) if own_use is not None else None
        if _GPU in grp_tres or use or pending or models:
            rows.append(_row(queue, "gpu", None, grp_tres.get(_GPU, math.inf), use, pending))
        for model in sorted(models):
            use, pending = by_model.get(queue, {}).get(model, (0.0, 0.0))
            name = f"{_GPU}:{model}"
            if not sees_all:
                use = own_use.get(name) if own_use is not None else None
            if name in grp_tres or use:
                rows.append(_row(queue, "gpu", model, grp_tres.get(name, math.inf), use, pending))
        for name, limit in grp_tres.items():
            if not name.startswith(_GPU):
                now = own_use.get(name) if own_use is not None else None
                rows.append(_row(queue, _RESOURCES.get(name, name), None, limit, now, None))
    return pl.DataFrame(rows, schema={name: QUOTAS[name] for name in QUOTAS if name != "cluster"})


def _queues(
    rules: SlurmRules, live: AssocMgr | None
) -> Iterator[tuple[str, Mapping[str, float], Mapping[str, float] | None]]:
    """Yield each queue with its GrpTRES and slurmctld's own figures of use."""
    for partition in rules.partitions:
        yield f"partition:{partition.name}", {}, None
    for qos in rules.qos or ():
        words = live.qos.get(qos.name) if live else None
        yield f"qos:{qos.name}", qos.grp_tres, used(words.get("GrpTRES")) if words else None
    for one in rules.associations or ():
        row = live.associations.get((one.account, one.user, one.partition)) if live else None
        yield association_id(one), one.grp_tres, used(row.get("GrpTRES")) if row else None


def _row(
    queue: str, resource: str, model: str | None, limit: float, use: float | None, pending: float | None
) -> dict[str, Any]:
    return {
        "queue": queue, "resource": resource, "model": model, "limit": limit, "used": use, "pending": pending,
        "main": "limit",
    }  # fmt: skip
