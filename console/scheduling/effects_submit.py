"""Supposed jobs and nodes: rows that are modelled on those that are there."""

import math
from typing import Any

import msgspec
import polars as pl

from connectors.change import AddNodes, Reshape, Submit
from connectors.errors import BadWords, NotFound
from connectors.model import Snapshot
from connectors.rules import SlurmRules

_NOT_TAKEN_OVER = (
    "position", "eligible_time", "start_time", "end_time", "expected_start_time", "restarts", "exit_code",
    "exit_signal", "dependency", "parent_id", "chain", "nodelist", "requested_nodes", "slurm_reservation",
    "slurm_scheduled_nodes", "slurm_array_throttle",
)  # fmt: skip


def submit(snapshot: Snapshot, wanted: Submit) -> Snapshot:
    """Return the snapshot with the supposed jobs pending; what isn't named is taken from a job that is alike.

    Their priority is that of the model without its age. BadWords where nothing says how many GPUs or for how long.
    """
    if wanted.count < 1:
        return snapshot
    model = _model(snapshot, wanted)
    row: dict[str, Any] = dict.fromkeys(snapshot.jobs.columns)
    row.update({k: v for k, v in model.items() if k not in _NOT_TAKEN_OVER})
    _shape(snapshot, row, gpus=wanted.gpus, nodes=wanted.nodes, model=wanted.model)
    if wanted.user is not None:
        row["user"] = wanted.user
    row["time_limit_s"] = wanted.run_s if wanted.run_s is not None else row["time_limit_s"]
    if row["time_limit_s"] is None:
        raise BadWords("submit: for how long?", hint="add hours=, or like=JOB")
    _place_in_queue(snapshot, row, wanted.queue)
    at = snapshot.meta.taken_at
    priority = typical_priority(snapshot, row)
    row.update(
        cluster=snapshot.meta.cluster, state="pending", state_raw=None, reason_raw="None", submit_time=at,
        eligible_time=at, tasks=1, priority=priority, nodelist=[], requested_nodes=[], name=row["name"] or "supposed",
        kind=row["kind"] or "other",
    )  # fmt: skip
    taken = set(snapshot.jobs["id"])
    names = [f"supposed-{n}" for n in range(1, wanted.count + len(taken) + 1) if f"supposed-{n}" not in taken]
    rows = [{**row, "id": name, "key": name} for name in names[: wanted.count]]
    return snapshot.with_tables(jobs=pl.concat([snapshot.jobs, _frame(rows, snapshot.jobs)]))


def _frame(rows: list[dict[str, Any]], like: pl.DataFrame) -> pl.DataFrame:
    return pl.DataFrame({name: [row.get(name) for row in rows] for name in like.columns}, schema=like.schema)


def _model(snapshot: Snapshot, wanted: Submit) -> dict[str, Any]:
    jobs = snapshot.jobs
    if wanted.like is not None:
        found = jobs.filter((pl.col("id") == wanted.like) | (pl.col("key") == wanted.like))
        if not found.height:
            raise NotFound("job", wanted.like, cluster=snapshot.meta.cluster)
        return found.row(0, named=True)
    if wanted.gpus is None:
        raise BadWords("submit: how many GPUs?", hint="add gpus=, or like=JOB")
    in_queue = jobs
    if wanted.queue is not None:
        here = (pl.col("queue") == wanted.queue) | pl.col("bound_by").list.contains(wanted.queue).fill_null(value=False)
        in_queue = jobs.filter(here)
    user = wanted.user or snapshot.meta.user
    for frame in (in_queue.filter(pl.col("user") == user), in_queue if wanted.user is None else in_queue.clear()):
        if frame.height:
            row = frame.row(0, named=True)
            kept = ("user", "team", "project", "queue", "bound_by", "slurm_partition", "slurm_account", "slurm_qos",
                    "priority", "submit_time", "eligible_time", "preemptible")  # fmt: skip
            return {"name": None, "time_limit_s": None, "kind": None, **{k: row[k] for k in kept if k in row}}
    blank: dict[str, Any] = dict.fromkeys(jobs.columns)
    blank.update(user=user, queue=wanted.queue, bound_by=_bound_by(snapshot, wanted.queue, user))
    return blank


def _bound_by(snapshot: Snapshot, queue: str | None, user: str | None) -> list[str]:
    """Return what would limit a user who has no job there: queue, association, accounts up the tree."""
    found = [queue] if queue is not None else []
    rules = snapshot.rules
    if not isinstance(rules, SlurmRules):
        return found
    rows = {(one.account, one.user): one for one in rules.associations or ()}
    own = next((one for one in rows.values() if user and one.user == user), None)
    if own is not None:
        found.append(f"assoc:{own.account}/{own.user}")
        account: str | None = own.account
        while account and (account, "") in rows and f"account:{account}" not in found:
            found.append(f"account:{account}")
            account = rows[account, ""].parent
    return found


def _shape(
    snapshot: Snapshot, row: dict[str, Any], *, gpus: float | None, nodes: int | None, model: str | None
) -> None:
    """Set GPUs, nodes and model; CPUs and memory keep their share of a GPU, GPUs a node their number where it fits."""
    before = row["gpus"]
    if gpus is not None:
        row["gpus"] = gpus
    if model is not None:
        row["gpu_model"] = model
    total, per_node = row["gpus"], row["gpus_per_node"]
    if total is None:
        return
    if before and gpus is not None:
        for column in ("cpus", "memory_bytes"):
            row[column] = None if row[column] is None else row[column] * total / before
    if nodes is not None:
        row["nodes"] = nodes
    elif gpus is not None and per_node and total >= per_node and (total / per_node).is_integer():
        row["nodes"] = int(total / per_node)
    elif gpus is not None or row["nodes"] is None:
        sizes = snapshot.nodes
        if row["gpu_model"] is not None:
            sizes = sizes.filter(pl.col("gpu_model").str.to_lowercase() == str(row["gpu_model"]).lower())
        largest = sizes["gpus"].cast(pl.Float64).max()
        row["nodes"] = max(1, math.ceil(total / float(largest))) if isinstance(largest, float) and largest else 1
    row["min_nodes"] = row["nodes"]
    row["gpus_per_node"] = total / row["nodes"] if (total / row["nodes"]).is_integer() else None


def _place_in_queue(snapshot: Snapshot, row: dict[str, Any], queue: str | None) -> None:
    """Move the row to another queue: a partition or a QOS on Slurm, the queue itself elsewhere."""
    rules = snapshot.rules
    if queue is not None and queue != row["queue"] and queue not in (row["bound_by"] or ()):
        if queue not in snapshot.queues["id"]:
            raise NotFound("queue", queue, cluster=snapshot.meta.cluster)
        kind, _colon, name = queue.partition(":")
        row["bound_by"] = [queue, *(one for one in row["bound_by"] or () if one.partition(":")[0] != kind)]
        if kind in {"partition", "qos"} and f"slurm_{kind}" in row:
            row[f"slurm_{kind}"] = name
        if kind == "partition" or not isinstance(rules, SlurmRules):
            row["queue"] = queue
    partition = row["queue"] is not None and str(row["queue"]).startswith("partition:")
    if isinstance(rules, SlurmRules) and not partition:
        default = next((one.name for one in rules.partitions if one.default), None)
        if default is not None:
            row["queue"] = f"partition:{default}"
            row["bound_by"] = [f"partition:{default}", *(row["bound_by"] or ())]


def typical_priority(snapshot: Snapshot, row: dict[str, Any]) -> float | None:
    """Return the priority of a job that begins to wait now: its own or that of jobs of its queue, without age.

    None where the system has no priorities.
    """
    said = row.get("priority")
    since = row.get("eligible_time") or row.get("submit_time")
    if not said:
        jobs = snapshot.jobs.filter(pl.col("priority") > 0)
        near = jobs.filter(pl.col("queue") == row["queue"]) if row["queue"] is not None else jobs
        known = near if near.height else jobs
        if not known.height:
            return None
        ordered = known.sort("priority", "id")
        middle = ordered.row(ordered.height // 2, named=True)
        said, since = middle["priority"], middle["eligible_time"] or middle["submit_time"]
    priority = float(said)
    rules = snapshot.rules
    if not isinstance(rules, SlurmRules) or since is None or not rules.max_age_s:
        return priority
    waited = max(0.0, (snapshot.meta.taken_at - since).total_seconds())
    young: float = max(1.0, priority - rules.weight_age * min(1.0, waited / rules.max_age_s))
    return young


def reshape(snapshot: Snapshot, wanted: Reshape, keys: list[str]) -> Snapshot:
    """Return the snapshot with a pending job asking for something else; BadWords if it isn't pending."""
    rows = snapshot.jobs.to_dicts()
    touched = False
    for row in rows:
        if row["key"] not in keys or row["state"] != "pending":
            continue
        touched = True
        _shape(snapshot, row, gpus=wanted.gpus, nodes=wanted.nodes, model=wanted.model)
        if wanted.limit_s is not None:
            row["time_limit_s"] = wanted.limit_s
        if wanted.queue is not None:
            _place_in_queue(snapshot, row, wanted.queue)
        if row["priority"] != 0:
            row["reason_raw"] = "None"  # the reason was that of the old shape
    if not touched:
        raise BadWords(f"reshape {wanted.job}: only a pending job can ask for something else")
    return snapshot.with_tables(jobs=_frame(rows, snapshot.jobs))


def add_nodes(snapshot: Snapshot, wanted: AddNodes) -> Snapshot:
    """Return the snapshot with more nodes, alike those with the same GPUs and in the same partitions."""
    nodes = snapshot.nodes
    alike = nodes.filter(pl.col("gpus") == wanted.gpus)
    if wanted.model is not None:
        same = nodes.filter(pl.col("gpu_model").str.to_lowercase() == wanted.model.lower())
        alike = same.filter(pl.col("gpus") == wanted.gpus) if same.height else alike
        alike = alike if alike.height else same
    like = (alike if alike.height else nodes).row(0, named=True) if nodes.height else dict.fromkeys(nodes.columns)
    shared = sorted(set(nodes["partitions"].explode(empty_as_null=True).drop_nulls())) if nodes.height else []
    row = {
        **like, "cluster": snapshot.meta.cluster, "state": "idle", "state_raw": None, "reason": None,
        "reason_by": None, "reason_time": None, "gpus": wanted.gpus, "gpu_model": wanted.model or like["gpu_model"],
        "gpus_allocated": 0.0, "gpus_unusable": 0.0, "cpus_allocated": 0.0, "memory_allocated_bytes": 0.0,
        "schedulable": True, "partitions": like["partitions"] or shared,
    }  # fmt: skip
    taken = set(nodes["name"])
    names = [f"added-{n}" for n in range(1, wanted.nodes + len(taken) + 1) if f"added-{n}" not in taken][: wanted.nodes]
    more = snapshot.with_tables(nodes=pl.concat([nodes, _frame([{**row, "name": name} for name in names], nodes)]))
    rules = more.rules
    if not isinstance(rules, SlurmRules):
        return more
    parts = tuple(
        msgspec.structs.replace(part, nodes=(*part.nodes, *names)) if like["name"] in part.nodes else part
        for part in rules.partitions
    )
    return more.with_rules(msgspec.structs.replace(rules, partitions=parts))
