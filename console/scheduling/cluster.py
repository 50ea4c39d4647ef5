"""A snapshot as the scheduler sees it: nodes as arrays, running and pending jobs, reservations.

Times are seconds from `taken_at`. Unknown CPU and memory figures don't constrain; what else had to be assumed stands in
`notes`.
"""

import math
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from connectors.model import Snapshot
from connectors.text import _, plural
from console.scheduling.profile import EPSILON, Demand

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

SERVING_STATES = frozenset({"idle", "mixed", "allocated", "planned", "reserved"})
HOLDING_STATES = frozenset({"running", "suspended", "completing"})
SOON_S = 60.0  # a job past its limit, or completing, is taken to end this soon
_OWN = (
    "slurm_partition", "slurm_account", "slurm_qos", "slurm_reservation", "slurm_array_throttle", "slurm_licenses",
    "slurm_exclusive", "slurm_excluded_nodes", "slurm_requeue",
)  # fmt: skip
_COLUMNS = (
    "id", "key", "name", "user", "team", "state", "reason_raw", "queue", "bound_by", "priority", "submit_time",
    "eligible_time", "start_time", "end_time", "time_limit_s", "gpus", "gpus_per_node", "gpu_model", "nodes",
    "min_nodes", "cpus", "memory_bytes", "tasks", "nodelist", "requested_nodes", "constraint", "preemptible",
    "dependency", "parent_id",
)  # fmt: skip
_TIMES = ("submit_time", "eligible_time", "start_time", "end_time")


@dataclass(slots=True)
class Job:
    """One row of `jobs`; `demand` is what it asks of each of `nodes` nodes, `gpus` its total (per task)."""

    row: int
    key: str
    id: str
    name: str
    user: str | None
    team: str | None
    account: str | None
    qos: str | None
    queue: str | None
    partitions: tuple[str, ...]
    bound_by: tuple[str, ...]
    state: str
    reason: str
    priority: float | None
    submit: float | None
    eligible: float | None
    start: float | None
    limit_s: float
    gpus: float
    cpus: float
    memory: float
    nodes: int
    demand: Demand
    model: str | None
    constraint: str | None
    requested: tuple[str, ...]
    tasks: int
    preemptible: bool | None
    dependency: str | None
    parent: str | None
    reservation: str | None
    throttle: float | None
    licenses: str | None
    excluded: tuple[str, ...]
    requeue: bool | None
    number: tuple[int, int]
    placed: tuple[tuple[int, Demand], ...] = ()
    end: float = math.inf


@dataclass(slots=True)
class Reserved:
    """One reservation; `demand` is None where it keeps whole nodes."""

    name: str
    start: float
    end: float
    nodes: tuple[int, ...]
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    flags: frozenset[str]
    demand: Demand | None = None


@dataclass(slots=True)
class Cluster:
    """Nodes as parallel arrays (usable totals), jobs and reservations of one snapshot."""

    taken_at: datetime
    names: list[str]
    gpus: Floats
    cpus: Floats
    memory: Floats
    models: list[str | None]
    features: list[frozenset[str]]
    partitions: list[frozenset[str]]
    weight: Floats
    serving: Mask
    other: list[Demand]
    running: list[Job] = field(default_factory=list)
    pending: list[Job] = field(default_factory=list)
    reserved: list[Reserved] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)

    def moment(self, seconds: float) -> datetime:
        """Return the time of day of seconds since the snapshot."""
        return self.taken_at + timedelta(seconds=seconds)


def read_cluster(snapshot: Snapshot, default_limit_s: dict[str, float] | None = None) -> Cluster:
    """Read a snapshot; `default_limit_s` by partition serves jobs that state no limit."""
    cluster = _read_nodes(snapshot)
    _read_jobs(snapshot, cluster, default_limit_s or {})
    _read_reservations(snapshot, cluster)
    _hold_what_no_job_explains(snapshot, cluster)
    return cluster


def number_of(job_id: str) -> tuple[int, int]:
    """Return the numbers of a job id that order it (base, task); names without a number come last."""
    found = re.match(r"(\d+)(?:_\[?(\d+))?", job_id)
    return (int(found[1]), int(found[2] or 0)) if found else (1 << 62, 0)


def _read_nodes(snapshot: Snapshot) -> Cluster:
    rows = snapshot.nodes.to_dicts()
    count = len(rows)
    usable = np.array([max(0.0, (r["gpus"] or 0.0) - (r["gpus_unusable"] or 0.0)) for r in rows], dtype=np.float64)
    cluster = Cluster(
        taken_at=snapshot.meta.taken_at,
        names=[r["name"] for r in rows],
        gpus=usable,
        cpus=np.array([math.inf if r["cpus"] is None else r["cpus"] for r in rows], dtype=np.float64),
        memory=np.array([math.inf if r["memory_bytes"] is None else r["memory_bytes"] for r in rows], dtype=np.float64),
        models=[r["gpu_model"] for r in rows],
        features=[_features(r) for r in rows],
        partitions=[frozenset(r["partitions"] or ()) for r in rows],
        weight=np.array([r.get("slurm_weight") or 0.0 for r in rows], dtype=np.float64),
        serving=np.array([_serves(r) for r in rows], dtype=np.bool_),
        other=[Demand(0.0, 0.0, 0.0)] * count,
        index={r["name"]: i for i, r in enumerate(rows)},
    )
    silent = sum(r["gpus"] is None for r in rows)
    if silent:
        text = plural(
            "{count} node states no GPUs and is taken to have none",
            "{count} nodes state no GPUs and are taken to have none",
            silent,
        )
        cluster.notes.append(text.format(count=silent))
    return cluster


def _serves(row: dict[str, Any]) -> bool:
    if row["schedulable"] is not None:
        return bool(row["schedulable"]) and row["state"] not in {"down", "drained", "draining"}
    return row["state"] in SERVING_STATES


def _features(row: dict[str, Any]) -> frozenset[str]:
    listed = row.get("slurm_features") or ()
    words = {part.strip() for part in listed.split(",")} if isinstance(listed, str) else {str(part) for part in listed}
    for label in row["labels"] or ():
        words.update((label["key"], label["value"]))
    return frozenset(word for word in words if word)


def _job_rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    frame = snapshot.jobs
    own = [name for name in _OWN if name in frame.columns]
    since = [
        ((pl.col(name) - pl.lit(snapshot.meta.taken_at)).dt.total_microseconds() / 1e6).alias(name) for name in _TIMES
    ]
    active = frame.with_row_index("row").filter(pl.col("state").is_in(["pending", *sorted(HOLDING_STATES)]))
    return active.select("row", *_COLUMNS, *own).with_columns(since).to_dicts()


def _read_jobs(snapshot: Snapshot, cluster: Cluster, default_limit_s: dict[str, float]) -> None:
    unknown_gpus = unknown_limit = suspended = 0
    largest = float(cluster.gpus.max()) if len(cluster.names) else 0.0
    for row in _job_rows(snapshot):
        job = _job(row, largest, default_limit_s)
        unknown_gpus += row["gpus"] is None and row["gpus_per_node"] is None
        unknown_limit += row["time_limit_s"] is None and math.isinf(job.limit_s)
        if job.state == "pending":
            cluster.pending.append(job)
            continue
        suspended += job.state == "suspended"
        job.end = _end_of(row, job)
        cluster.running.append(job)
    _place_running(snapshot, cluster)
    said = (
        (unknown_gpus, plural(
            "{count} job states no GPUs and is taken to ask for none",
            "{count} jobs state no GPUs and are taken to ask for none", unknown_gpus,
        )),
        (unknown_limit, plural(
            "{count} job states no time limit and is taken to have none",
            "{count} jobs state no time limit and are taken to have none", unknown_limit,
        )),
        (suspended, plural(
            "{count} suspended job is taken to keep what it holds",
            "{count} suspended jobs are taken to keep what they hold", suspended,
        )),
    )  # fmt: skip
    cluster.notes.extend(text.format(count=count) for count, text in said if count)


def _job(row: dict[str, Any], largest: float, default_limit_s: dict[str, float]) -> Job:
    bound = tuple(row["bound_by"] or ())
    scope = dict(reversed([name.split(":", 1) for name in bound if ":" in name]))
    partitions = tuple(
        part for part in (row.get("slurm_partition") or _bare(row["queue"], "partition") or "").split(",") if part
    )
    nodes, demand, gpus = _shape(row, largest)
    limit = row["time_limit_s"]
    if limit is None:
        limit = next((default_limit_s[part] for part in partitions if part in default_limit_s), math.inf)
    throttle = row.get("slurm_array_throttle")
    return Job(
        row=row["row"], key=row["key"] or row["id"], id=row["id"], name=row["name"] or "", user=row["user"],
        team=row["team"], account=row.get("slurm_account") or _first(scope.get("assoc")) or scope.get("account") or
        row["team"], qos=row.get("slurm_qos") or scope.get("qos"), queue=row["queue"], partitions=partitions,
        bound_by=bound, state=row["state"], reason=row["reason_raw"] or "", priority=row["priority"],
        submit=row["submit_time"], eligible=row["eligible_time"], start=row["start_time"], limit_s=limit, gpus=gpus,
        cpus=row["cpus"] or 0.0, memory=row["memory_bytes"] or 0.0, nodes=nodes, demand=demand,
        model=row["gpu_model"], constraint=row["constraint"] or None, requested=tuple(row["requested_nodes"] or ()),
        tasks=max(1, row["tasks"] or 1), preemptible=row["preemptible"], dependency=row["dependency"] or None,
        parent=row["parent_id"], reservation=row.get("slurm_reservation") or None,
        throttle=None if throttle is None else float(throttle), licenses=row.get("slurm_licenses") or None,
        excluded=tuple(row.get("slurm_excluded_nodes") or ()), requeue=row.get("slurm_requeue"),
        number=number_of(row["id"]),
    )  # fmt: skip


def _bare(queue: str | None, kind: str) -> str | None:
    if queue is None:
        return None
    head, colon, tail = queue.partition(":")
    return tail if colon and head == kind else None if colon else queue


def _first(path: str | None) -> str | None:
    return path.split("/", 1)[0] if path else None


def _shape(row: dict[str, Any], largest: float) -> tuple[int, Demand, float]:
    """Return nodes, demand per node, and GPUs in all; GPUs without a shape go on as few nodes as can hold them."""
    per_node, total = row["gpus_per_node"], row["gpus"]
    nodes = row["min_nodes"] or row["nodes"]
    if nodes and row["nodes"] and nodes > row["nodes"]:
        nodes = row["nodes"]
    if not nodes:
        if per_node and total:
            nodes = math.ceil(total / per_node)
        else:
            nodes = math.ceil(total / largest) if total and largest else 1
    nodes = max(1, int(nodes), len(row["requested_nodes"] or ()))
    if total is None:
        total = (per_node or 0.0) * nodes
    share = per_node if per_node is not None else _even(total, nodes)
    whole = bool(row.get("slurm_exclusive"))
    demand = Demand(share, (row["cpus"] or 0.0) / nodes, (row["memory_bytes"] or 0.0) / nodes, whole)
    return nodes, demand, total


def _even(total: float, nodes: int) -> float:
    share = total / nodes
    return float(math.ceil(share)) if share >= 1 else share


def _end_of(row: dict[str, Any], job: Job) -> float:
    if job.state == "completing":
        return SOON_S
    if job.state == "suspended":
        return math.inf
    end = math.inf
    if job.start is not None and math.isfinite(job.limit_s):
        end = job.start + job.limit_s
    elif row["end_time"] is not None and not math.isinf(job.limit_s):
        end = float(row["end_time"])
    return end if end > 0 else SOON_S


def _place_running(snapshot: Snapshot, cluster: Cluster) -> None:
    """Give running jobs their share of each node; uneven ones take what the node says and others don't explain."""
    nodelists = snapshot.jobs["nodelist"]
    certain = np.zeros(len(cluster.names))
    unsure: dict[int, list[Job]] = {}
    spots: list[tuple[Job, list[int], bool]] = []
    for job in cluster.running:
        listed = nodelists[job.row]
        nodes = [] if listed is None else [cluster.index[n] for n in listed.to_list() if n in cluster.index]
        job.nodes = len(nodes) or job.nodes
        even = not nodes or (job.gpus / len(nodes)).is_integer() or len(nodes) == 1
        for node in nodes:
            if even:
                certain[node] += job.gpus / len(nodes)
            else:
                unsure.setdefault(node, []).append(job)
        spots.append((job, nodes, even))
    allocated = snapshot.nodes["gpus_allocated"].to_list()
    for job, nodes, even in spots:
        if not nodes:
            continue
        share = job.gpus / len(nodes)
        cpus, memory = job.cpus / len(nodes), job.memory / len(nodes)
        placed = []
        for node in nodes:
            mine = share
            if not even:
                rest = None if allocated[node] is None else allocated[node] - certain[node]
                alone = len(unsure[node]) == 1
                mine = max(0.0, rest) if alone and rest is not None else float(math.ceil(share))
            placed.append((node, Demand(mine, cpus, memory)))
        job.placed = tuple(placed)
        job.model = job.model or cluster.models[nodes[0]]


def _read_reservations(snapshot: Snapshot, cluster: Cluster) -> None:
    for row in snapshot.reservations.to_dicts():
        flags = frozenset(flag.upper() for flag in row["flags"] or ())
        nodes = tuple(cluster.index[name] for name in row["nodelist"] or () if name in cluster.index)
        start = -math.inf if row["start_time"] is None else (row["start_time"] - cluster.taken_at).total_seconds()
        end = math.inf if row["end_time"] is None else (row["end_time"] - cluster.taken_at).total_seconds()
        if end <= 0 or not nodes or "LICENSE_ONLY" in flags:
            continue
        whole = sum(float(cluster.gpus[node]) for node in nodes)
        demand = None
        if row["gpus"] is not None and 0 < row["gpus"] < whole:
            demand = Demand(math.ceil(row["gpus"] / len(nodes)), 0.0, 0.0)
        base = Reserved(
            row["name"], start, end, nodes, tuple(row["users"] or ()), tuple(row["accounts"] or ()), flags, demand
        )
        cluster.reserved.append(base)
        _repeat(base, cluster)


def _repeat(base: Reserved, cluster: Cluster) -> None:
    every = 86400.0 if "DAILY" in base.flags else 7 * 86400.0 if "WEEKLY" in base.flags else None
    if every is not None and math.isfinite(base.start):
        for again in range(1, 15 if every == 86400.0 else 5):
            shifted = Reserved(
                base.name, base.start + again * every, base.end + again * every, base.nodes, base.users, base.accounts,
                base.flags, base.demand,
            )  # fmt: skip
            cluster.reserved.append(shifted)
    strange = base.flags & {"HOURLY", "WEEKDAY", "WEEKEND", "TIME_FLOAT"}
    if strange:
        cluster.notes.append(
            _("reservation {name}: {flags} is not simulated, only its next time").format(
                name=base.name, flags=", ".join(sorted(strange))
            )
        )


def _hold_what_no_job_explains(snapshot: Snapshot, cluster: Cluster) -> None:
    """Account for what nodes report beyond the jobs' shares.

    CPUs and memory go to the jobs on the node (shares are even only on paper, `--mem=0` takes all); GPUs that no job
    explains are others' work that we may not see, and stay allocated.
    """
    shares: dict[int, list[tuple[Job, int]]] = {}
    held = np.zeros((len(cluster.names), 3))
    for job in cluster.running:
        for spot, (node, demand) in enumerate(job.placed):
            held[node] += demand[:3]
            shares.setdefault(node, []).append((job, spot))
    reported = snapshot.nodes.select("gpus_allocated", "cpus_allocated", "memory_allocated_bytes").rows()
    extra_gpus = 0.0
    for node, figures in enumerate(reported):
        rest = [max(0.0, (value or 0.0) - held[node][i]) for i, value in enumerate(figures)]
        if max(rest) <= EPSILON:
            continue
        there = shares.get(node, [])
        cluster.other[node] = Demand(rest[0], *((0.0, 0.0) if there else rest[1:]))
        extra_gpus += rest[0]
        for job, spot in there:
            old = job.placed[spot][1]
            more = Demand(old.gpus, old.cpus + rest[1] / len(there), old.memory + rest[2] / len(there))
            job.placed = (*job.placed[:spot], (node, more), *job.placed[spot + 1 :])
    if extra_gpus > EPSILON:
        cluster.notes.append(
            plural(
                "{count} GPU is allocated to no job that we see; it is taken to stay so",
                "{count} GPUs are allocated to no job that we see; they are taken to stay so",
                math.ceil(extra_gpus),
            ).format(count=f"{extra_gpus:g}")
        )
