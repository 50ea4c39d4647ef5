"""What changes and suppositions do to a snapshot: the what-if is played on the result.

Items are resolved: full ids, chosen nodes. All functions are pure; the snapshot that comes in stays as it is.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, assert_never

import polars as pl

from connectors.change import (
    CHANGE_TYPES,
    AddNodes,
    Cancel,
    Change,
    Drain,
    Hold,
    Release,
    RemoveNodes,
    Requeue,
    Reserve,
    Reshape,
    Resume,
    SetPriority,
    SetQuota,
    StartQueue,
    StopQueue,
    Submit,
    Supposition,
    Unreserve,
    UsePolicy,
)  # fmt: skip
from connectors.errors import BadWords, NotFound
from connectors.model import Snapshot
from console.scheduling.cluster import HOLDING_STATES, Job, read_cluster
from console.scheduling.effects_quota import set_queue_state, set_quota
from console.scheduling.effects_submit import add_nodes, reshape, submit, typical_priority
from console.scheduling.play import REQUEUE_S
from console.scheduling.policies import rules_named

_NOT_HELD = "None"
_GONE = ("start_time", "end_time", "expected_start_time")


def change_snapshot(snapshot: Snapshot, items: Iterable[Change | Supposition]) -> Snapshot:
    """Return the snapshot with changes and suppositions played in order."""
    for item in items:
        snapshot = apply_changes(snapshot, [item]) if isinstance(item, CHANGE_TYPES) else suppose(snapshot, item)  # type: ignore[list-item, arg-type]  # CHANGE_TYPES are the members of Change
    return snapshot


def apply_changes(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    """Return the snapshot as it would be after resolved changes.

    NotFound names a job, queue, node or reservation that isn't there; BadWords a change that wasn't resolved or that
    this system cannot follow.
    """
    for change in changes:
        snapshot = _apply(snapshot, change)
    return snapshot


def _apply(snapshot: Snapshot, change: Change) -> Snapshot:
    match change:
        case SetQuota():
            return set_quota(snapshot, change)
        case StopQueue(queue=queue):
            return set_queue_state(snapshot, queue, "stopped")
        case StartQueue(queue=queue):
            return set_queue_state(snapshot, queue, "open")
        case Reserve():
            return _reserve(snapshot, change)
        case Unreserve(name=name):
            return _unreserve(snapshot, name)
        case Drain(nodes=nodes, reason=reason):
            return _drain(snapshot, nodes, reason)
        case Resume(nodes=nodes):
            return _resume(snapshot, nodes)
        case Hold(job=job):
            return _hold(snapshot, job)
        case Release(job=job):
            return _release(snapshot, job)
        case SetPriority(job=job, value=value):
            return _set_priority(snapshot, job, value)
        case Cancel(job=job):
            return end_jobs(snapshot, keys_of(snapshot, job))
        case Requeue(job=job):
            return _requeue(snapshot, job)
        case _:
            assert_never(change)


def suppose(snapshot: Snapshot, supposition: Supposition) -> Snapshot:
    """Return the snapshot as it would be under a supposition; the errors are those of `apply_changes`."""
    match supposition:
        case Submit():
            return submit(snapshot, supposition)
        case Reshape(job=job):
            return reshape(snapshot, supposition, keys_of(snapshot, job))
        case AddNodes():
            return add_nodes(snapshot, supposition)
        case RemoveNodes(nodes=nodes):
            return _remove(snapshot, nodes)
        case UsePolicy(name=name):
            return snapshot.with_rules(rules_named(name, snapshot))
        case _:
            assert_never(supposition)


def keys_of(snapshot: Snapshot, job: str) -> list[str]:
    """Return the keys of the job of that id or key, an array's base standing for all its rows; NotFound if none."""
    for match in (pl.col("id") == job, pl.col("key") == job, pl.col("parent_id") == job):
        found = snapshot.jobs.filter(match)["key"].to_list()
        if found:
            return found
    raise NotFound("job", job, cluster=snapshot.meta.cluster)


def edit_jobs(snapshot: Snapshot, keys: Sequence[str], **values: Any) -> Snapshot:
    """Return the snapshot with columns of these jobs set."""
    chosen = pl.col("key").is_in(list(keys))
    return snapshot.with_tables(jobs=_set(snapshot.jobs, chosen, values))


def _set(frame: pl.DataFrame, chosen: pl.Expr, values: dict[str, Any]) -> pl.DataFrame:
    return frame.with_columns(
        pl.when(chosen)
        .then(value if isinstance(value, pl.Expr) else pl.lit(value, dtype=frame.schema[name]))
        .otherwise(pl.col(name))
        .alias(name)
        for name, value in values.items()
        if name in frame.columns
    )


def _hold(snapshot: Snapshot, job: str) -> Snapshot:
    pending = _only_pending(snapshot, keys_of(snapshot, job))
    return edit_jobs(snapshot, pending, priority=0.0, reason_raw="JobHeldAdmin") if pending else snapshot


def _only_pending(snapshot: Snapshot, keys: Sequence[str]) -> list[str]:
    found: list[str] = snapshot.jobs.filter(pl.col("key").is_in(list(keys)) & (pl.col("state") == "pending"))[
        "key"
    ].to_list()
    return found


def _release(snapshot: Snapshot, job: str) -> Snapshot:
    for row in snapshot.jobs.filter(pl.col("key").is_in(_only_pending(snapshot, keys_of(snapshot, job)))).to_dicts():
        priority = row["priority"] if row["priority"] != 0 else typical_priority(snapshot, row)
        snapshot = edit_jobs(snapshot, [row["key"]], priority=priority, reason_raw=_NOT_HELD)
    return snapshot


def _set_priority(snapshot: Snapshot, job: str, value: float) -> Snapshot:
    keys = keys_of(snapshot, job)
    snapshot = edit_jobs(snapshot, keys, priority=value)
    if value <= 0:
        return _hold(snapshot, job)
    held = snapshot.jobs.filter(pl.col("key").is_in(keys) & pl.col("reason_raw").str.contains("(?i)held"))["key"]
    return edit_jobs(snapshot, held.to_list(), reason_raw=_NOT_HELD)


def end_jobs(snapshot: Snapshot, keys: Sequence[str]) -> Snapshot:
    """Return the snapshot without these jobs and what they hold."""
    freed = _give_back(snapshot, keys)
    return freed.with_tables(jobs=freed.jobs.filter(~pl.col("key").is_in(list(keys))))


def _requeue(snapshot: Snapshot, job: str) -> Snapshot:
    keys = keys_of(snapshot, job)
    running = snapshot.jobs.filter(pl.col("key").is_in(keys) & pl.col("state").is_in(list(HOLDING_STATES)))["key"]
    freed = _give_back(snapshot, running.to_list())
    again = snapshot.meta.taken_at + timedelta(seconds=REQUEUE_S)
    return edit_jobs(
        freed, running.to_list(), state="pending", reason_raw="BeginTime", eligible_time=again, nodelist=None,
        **dict.fromkeys(_GONE),
    )  # fmt: skip


def _give_back(snapshot: Snapshot, keys: Sequence[str]) -> Snapshot:
    """Take what these jobs hold off the nodes' and quotas' figures."""
    cluster = read_cluster(snapshot)
    ending = [job for job in cluster.running if job.key in set(keys)]
    if not ending:
        return snapshot
    freed: dict[str, list[float]] = {}
    for job in ending:
        for node, demand in job.placed:
            sums = freed.setdefault(cluster.names[node], [0.0, 0.0, 0.0])
            for i in range(3):
                sums[i] += demand[i]
    columns = ("gpus_allocated", "cpus_allocated", "memory_allocated_bytes")
    nodes = snapshot.nodes.with_columns(
        (pl.col(column) - pl.col("name").replace_strict({n: f[i] for n, f in freed.items()}, default=0.0)).clip(0.0)
        for i, column in enumerate(columns)
    )
    return snapshot.with_tables(nodes=nodes, quotas=_less_used(snapshot, ending))


def _less_used(snapshot: Snapshot, ending: Sequence[Job]) -> pl.DataFrame:
    less: dict[str, float] = {}
    for job in ending:
        for queue in dict.fromkeys((*job.bound_by, *((job.queue,) if job.queue else ()))):
            less[queue] = less.get(queue, 0.0) + job.gpus
    if not less:
        return snapshot.quotas
    gpu = pl.col("resource").fill_null("gpu") == "gpu"
    freed = pl.col("queue").replace_strict(less, default=0.0)
    return snapshot.quotas.with_columns(
        pl.when(gpu).then((pl.col("used") - freed).clip(0.0)).otherwise(pl.col("used")).alias("used")
    )


def _reserve(snapshot: Snapshot, change: Reserve) -> Snapshot:
    if not change.nodes:
        raise BadWords(f"reservation {change.name}: no nodes chosen yet", hint="resolve it first")
    _known_nodes(snapshot, change.nodes)
    if change.name in snapshot.reservations["name"]:
        raise BadWords(f"reservation {change.name} is there already", hint="unreserve it first")
    row = {
        "name": change.name, "start_time": change.start, "end_time": change.end, "nodelist": list(change.nodes),
        "gpus": change.gpus, "gpu_model": change.model, "users": list(change.users),
        "accounts": list(change.accounts), "flags": list(change.flags),
        "state": "ACTIVE" if change.start <= snapshot.meta.taken_at else "INACTIVE",
        "kind": "maintenance" if "MAINT" in change.flags else "user",
    }  # fmt: skip
    return snapshot.with_tables(reservations=with_row(snapshot.reservations, row))


def with_row(frame: pl.DataFrame, row: dict[str, Any]) -> pl.DataFrame:
    """Return the frame with one more row; columns that the row lacks are null."""
    full = {name: [row.get(name)] for name in frame.columns}
    return pl.concat([frame, pl.DataFrame(full, schema=frame.schema)])


def _unreserve(snapshot: Snapshot, name: str) -> Snapshot:
    if name not in snapshot.reservations["name"]:
        raise NotFound("reservation", name, cluster=snapshot.meta.cluster)
    return snapshot.with_tables(reservations=snapshot.reservations.filter(pl.col("name") != name))


def _known_nodes(snapshot: Snapshot, nodes: Sequence[str]) -> None:
    known = set(snapshot.nodes["name"])
    for name in nodes:
        if name not in known:
            raise NotFound("node", name, cluster=snapshot.meta.cluster)


def _drain(snapshot: Snapshot, nodes: Sequence[str], reason: str) -> Snapshot:
    _known_nodes(snapshot, nodes)
    busy = _busy(snapshot)

    def state(row: dict[str, Any]) -> str:
        if row["state"] == "down":
            return "down"
        return "draining" if row["name"] in busy else "drained"

    return _edit_nodes(
        snapshot, nodes, {"schedulable": lambda _row: False, "state": state, "reason": lambda _r: reason}
    )


def _resume(snapshot: Snapshot, nodes: Sequence[str]) -> Snapshot:
    _known_nodes(snapshot, nodes)
    busy = _busy(snapshot)

    def state(row: dict[str, Any]) -> str:
        return "mixed" if row["name"] in busy else "idle"

    return _edit_nodes(snapshot, nodes, {"schedulable": lambda _row: True, "state": state, "reason": lambda _r: None})


def _busy(snapshot: Snapshot) -> set[str]:
    held = snapshot.jobs.filter(pl.col("state").is_in(list(HOLDING_STATES)))["nodelist"]
    return set(held.explode(empty_as_null=True).drop_nulls().to_list())


def _edit_nodes(
    snapshot: Snapshot, nodes: Sequence[str], values: dict[str, Callable[[dict[str, Any]], Any]]
) -> Snapshot:
    rows = {row["name"]: row for row in snapshot.nodes.filter(pl.col("name").is_in(list(nodes))).to_dicts()}
    frame = snapshot.nodes
    for column, value_of in values.items():
        new = {name: value_of(row) for name, row in rows.items()}
        values_now = [new.get(name, old) for name, old in zip(frame["name"], frame[column], strict=True)]
        frame = frame.with_columns(pl.Series(column, values_now, dtype=frame.schema[column]))
    return snapshot.with_tables(nodes=frame)


def _remove(snapshot: Snapshot, nodes: Sequence[str]) -> Snapshot:
    _known_nodes(snapshot, nodes)
    gone = list(nodes)
    on_them = snapshot.jobs.filter(
        pl.col("state").is_in(list(HOLDING_STATES)) & pl.col("nodelist").list.eval(pl.element().is_in(gone)).list.any()
    )["key"]
    freed = end_jobs(snapshot, on_them.to_list())
    return freed.with_tables(nodes=freed.nodes.filter(~pl.col("name").is_in(gone)))
