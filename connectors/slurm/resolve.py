"""What a change means on Slurm: full ids, the limit that is Slurm's quota, the nodes that a reservation takes. Pure.

Slurm's quota is a limit: GrpTRES of a QOS, an account or a user in an account (sacctmgr(1)). Nothing is guaranteed,
lent or borrowed. A call that makes no sense as things stand is BadWords, what Slurm has no word for is Unsupported.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from connectors.change import (
    Cancel,
    Change,
    Drain,
    Hold,
    Release,
    Requeue,
    Reserve,
    Resume,
    SetPriority,
    SetQuota,
    StartQueue,
    StopQueue,
    Unreserve,
)  # fmt: skip
from connectors.errors import BadWords, NotFound
from connectors.ground import find
from connectors.model import ACTIVE_STATES, Snapshot
from connectors.slurm.placing import choose_nodes
from connectors.slurm.targets import (
    Queue,
    check_name,
    few,
    find_jobs,
    find_nodes,
    find_queue,
    find_reservation,
    is_held,
    rules_of,
    unsupported,
)  # fmt: skip

_RESERVATION = re.compile(r"[A-Za-z0-9_.-]+")
_FLAG = re.compile(r"[A-Za-z_]+(?:[=:][A-Za-z0-9:-]+)?")
_MAX_FIGURE = 2**31 - 1
_MAX_JOB_FACTOR = 65533  # slurm.conf(5)
_MAX_PRIORITY = 2**32 - 3  # NO_VAL and INFINITE follow (slurm.h)
_NO_REASON = frozenset({"none", "(null)", "n/a", "unknown"})
_NO_SHARE = {
    "nominal": "Slurm guarantees no share: its quota is a limit (GrpTRES)",
    "borrow": "Slurm's queues borrow nothing: a limit (GrpTRES) is all there is",
    "lend": "Slurm's queues lend nothing: a limit (GrpTRES) is all there is",
}
_RESUMABLE = ("draining", "drained", "down", "unknown")


def resolve(change: Change, snapshot: Snapshot) -> tuple[Change, ...]:
    """Return what the change means here, as changes that name everything in full.

    NotFound, Ambiguous, Unsupported, or BadWords when it makes no sense here.
    """
    return _RESOLVERS[type(change)](change, snapshot)


def _quota(change: SetQuota, snapshot: Snapshot) -> tuple[Change, ...]:
    queue = find_queue(change.queue, snapshot)
    if change.resource != "gpu":
        raise unsupported(
            f"gpudeck sets quotas of GPUs on Slurm, not of {change.resource!r}", snapshot, SetQuota,
            hint="sacctmgr modify qos ... set GrpTRES=cpu=N",
        )  # fmt: skip
    for name, why in _NO_SHARE.items():
        if getattr(change, name) is not None:
            raise unsupported(f"{name}= of {queue.id}: {why}", snapshot, SetQuota, hint="limit= sets the limit")
    limit = change.limit if change.gpus is None else change.gpus
    if change.gpus is not None and change.limit is not None and change.gpus != change.limit:
        raise BadWords("on Slurm gpus= is the limit: gpus= and limit= can't differ")
    _check_figures(change, queue, limit, snapshot)
    resolved = SetQuota(
        queue=queue.id,
        limit=limit,
        weight=change.weight,
        max_run_s=change.max_run_s,
        model=change.model,
        resource=change.resource,
    )
    return (resolved,)


def _check_figures(change: SetQuota, queue: Queue, limit: float | None, snapshot: Snapshot) -> None:
    if queue.kind not in {"partition", "qos", "account", "assoc"}:
        raise unsupported(f"{queue.id} is no queue that Slurm keeps figures of", snapshot, SetQuota)
    if limit is not None:
        if queue.kind == "partition":
            raise _partition_quota(queue, snapshot)
        if limit != math.inf:
            _whole(limit, "gpus=")
    if change.model is not None:
        if limit is None:
            raise BadWords("model= goes with gpus=")
        _check_model(change.model, snapshot)
    if change.weight is not None:
        if queue.kind == "qos":
            raise unsupported("a QOS has no weight", snapshot, SetQuota, hint="its Priority orders jobs, weights don't")
        _whole(change.weight, "weight=")
        if queue.kind == "partition" and change.weight > _MAX_JOB_FACTOR:
            raise BadWords(f"the PriorityJobFactor of a partition is at most {_MAX_JOB_FACTOR}")
    if change.max_run_s is not None and change.max_run_s != math.inf:
        if change.max_run_s < 60 or change.max_run_s % 60:
            raise BadWords("Slurm counts max_run= in whole minutes, at least one")
        _whole(change.max_run_s / 60, "max_run= in minutes")
    for name in filter(None, (queue.name, queue.user, queue.partition)):
        check_name(name, "name")
    if queue.kind in {"account", "assoc"}:
        _check_association(queue, snapshot)


def _check_association(queue: Queue, snapshot: Snapshot) -> None:
    rules = rules_of(snapshot)
    if rules is None or not rules.cluster_name:
        raise unsupported(
            "Slurm's own name of this cluster is not known; without it sacctmgr would change the account on every "
            "cluster",
            snapshot,
            SetQuota,
        )
    check_name(rules.cluster_name, "cluster name")
    same = [one for one in rules.associations or () if (one.account, one.user) == (queue.name, queue.user)]
    if queue.user and not queue.partition and any(one.partition for one in same):
        raise unsupported(
            f"user {queue.user} has associations by partition in {queue.name}: sacctmgr would change all of them",
            snapshot,
            SetQuota,
        )


def _check_model(model: str, snapshot: Snapshot) -> None:
    check_name(model, "GPU model")
    rules = rules_of(snapshot)
    if rules is not None and rules.gpu_types and model not in rules.gpu_types:
        raise NotFound(
            "GPU model", model, cluster=snapshot.meta.cluster, hint=f"Slurm knows {', '.join(rules.gpu_types)}"
        )


def _partition_quota(queue: Queue, snapshot: Snapshot) -> Exception:
    rules = rules_of(snapshot)
    own = next((one.qos for one in rules.partitions if one.name == queue.name), None) if rules else None
    hint = f"the limit of its QOS counts for it: quota qos:{own} gpus=..." if own else "quota qos:NAME gpus=..."
    return unsupported(f"partition {queue.name} has no GPU quota: partitions have none on Slurm", snapshot, SetQuota,
                       hint=hint)  # fmt: skip


def _whole(value: float, what: str) -> None:
    if value != int(value) or value > _MAX_FIGURE:
        raise BadWords(f"Slurm takes {what} as a whole number up to {_MAX_FIGURE}, not {value:g}")


def _reserve(change: Reserve, snapshot: Snapshot) -> tuple[Change, ...]:
    if not _RESERVATION.fullmatch(change.name) or change.name.startswith("-"):
        raise BadWords(
            f"{change.name!r} can't name a reservation", text=change.name, hint="letters, digits and . _ - only"
        )
    if find(snapshot, "reservations", change.name) is not None:
        raise BadWords(f"there is a reservation {change.name!r} already", text=change.name, hint="unreserve it first")
    now = snapshot.meta.taken_at.replace(microsecond=0)
    start = max(change.start.replace(microsecond=0), now)  # Slurm refuses one that began more than ten minutes ago
    end = change.end.replace(microsecond=0)
    if end <= start:
        raise BadWords("the reservation is over before it begins", text=change.name)
    for flag in change.flags:
        if not _FLAG.fullmatch(flag):
            raise BadWords(f"{flag!r} is no flag of a reservation", text=flag)
    users = tuple(dict.fromkeys(check_name(name, "user name") for name in change.users))
    accounts = tuple(dict.fromkeys(check_name(name, "account name") for name in change.accounts))
    if not users and not accounts:
        if not snapshot.meta.user:
            raise BadWords("whom Slurm takes us for is not known: name users= or accounts=", text=change.name)
        users = (check_name(snapshot.meta.user, "user name"),)
    resolved = Reserve(
        name=change.name, start=start, end=end, users=users, accounts=accounts, flags=tuple(dict.fromkeys(change.flags))
    )
    if change.nodes:
        nodes = find_nodes(change.nodes, snapshot)
    else:
        nodes = choose_nodes(msgspec.structs.replace(resolved, gpus=change.gpus, model=change.model), snapshot)
    return (msgspec.structs.replace(resolved, nodes=tuple(check_name(node, "node name") for node in nodes)),)


def _unreserve(change: Unreserve, snapshot: Snapshot) -> tuple[Change, ...]:
    find_reservation(change.name, snapshot)
    return (Unreserve(name=check_name(change.name, "reservation's name")),)


def _hold(change: Hold, snapshot: Snapshot) -> tuple[Change, ...]:
    return _each(change, snapshot, _check_hold)


def _check_hold(job: str, row: dict[str, Any]) -> None:
    if row["state"] in {"running", "suspended", "completing"}:
        # scontrol hold succeeds on a running job, which then goes on with priority 0
        raise BadWords(f"job {job} is {row['state']}: only a waiting job can be held", text=job, hint="see requeue")
    _must_wait(job, row, "held")
    if is_held(row):
        raise BadWords(f"job {job} is held already ({row['reason_raw'] or 'priority 0'})", text=job)


def _release(change: Release, snapshot: Snapshot) -> tuple[Change, ...]:
    return _each(change, snapshot, _check_release)


def _check_release(job: str, row: dict[str, Any]) -> None:
    _must_wait(job, row, "released")
    if is_held(row) is False:
        raise BadWords(f"job {job} is not held; it waits for {row['reason_raw'] or 'nothing that is said'}", text=job)


def _cancel(change: Cancel, snapshot: Snapshot) -> tuple[Change, ...]:
    return _each(change, snapshot, _check_cancel)


def _check_cancel(job: str, row: dict[str, Any]) -> None:
    if row["state"] not in (*ACTIVE_STATES, "unknown"):
        raise BadWords(f"job {job} has ended already: {row['state']}", text=job)
    if row["state"] == "completing":
        raise BadWords(f"job {job} is ending already", text=job)


def _requeue(change: Requeue, snapshot: Snapshot) -> tuple[Change, ...]:
    return _each(change, snapshot, _check_requeue)


def _check_requeue(job: str, row: dict[str, Any]) -> None:
    if row["state"] not in {"running", "suspended", "unknown"}:
        raise BadWords(f"job {job} is {row['state']}: only a running job can be requeued", text=job)


def _priority(change: SetPriority, snapshot: Snapshot) -> tuple[Change, ...]:
    if change.value != int(change.value) or change.value > _MAX_PRIORITY:
        raise BadWords(f"Slurm's priorities are whole numbers up to {_MAX_PRIORITY}, not {change.value:g}")
    if change.value < 1:
        raise BadWords("priority 0 is a hold", hint=f"hold {change.job}")
    return _each(change, snapshot, lambda job, row: _must_wait(job, row, "given a priority"))


def _must_wait(job: str, row: dict[str, Any], what: str) -> None:
    if row["state"] not in {"pending", "unknown"}:
        raise BadWords(f"job {job} is {row['state']}: only a waiting job can be {what}", text=job)


def _each(change: Any, snapshot: Snapshot, check: Callable[[str, dict[str, Any]], None]) -> tuple[Change, ...]:
    found = find_jobs(change.job, snapshot)
    for job, row in found:
        check(job, row)
    return tuple(msgspec.structs.replace(change, job=job) for job, _row in found)


def _drain(change: Drain, snapshot: Snapshot) -> tuple[Change, ...]:
    nodes = find_nodes(change.nodes, snapshot)
    reason = change.reason.strip()
    if not reason or not reason.isprintable() or reason.lower() in _NO_REASON:
        raise BadWords(f"{change.reason!r} is no reason that Slurm can keep", text=change.reason, hint="one plain line")
    rows = [find(snapshot, "nodes", node) or {} for node in nodes]
    if all(row["state"] in {"draining", "drained"} and row["reason"] == reason for row in rows):
        raise BadWords(f"{few(nodes)}: drained already, for that reason", text=reason)
    return (Drain(nodes=tuple(check_name(node, "node name") for node in nodes), reason=reason),)


def _resume(change: Resume, snapshot: Snapshot) -> tuple[Change, ...]:
    nodes = find_nodes(change.nodes, snapshot)
    states = {node: str((find(snapshot, "nodes", node) or {})["state"]) for node in nodes}
    in_service = [f"{node} is {state}" for node, state in states.items() if state not in _RESUMABLE]
    if in_service:
        raise BadWords(f"in service already: {few(in_service)}", hint="name only nodes that are drained or down")
    return (Resume(nodes=tuple(check_name(node, "node name") for node in nodes)),)


def _stop(change: StopQueue, snapshot: Snapshot) -> tuple[Change, ...]:
    queue = _partition(change.queue, snapshot, StopQueue)
    if _queue_state(queue, snapshot) == "stopped":
        raise BadWords(f"{queue.id} is stopped already", text=change.queue)
    return (StopQueue(queue=queue.id),)


def _start(change: StartQueue, snapshot: Snapshot) -> tuple[Change, ...]:
    queue = _partition(change.queue, snapshot, StartQueue)
    if _queue_state(queue, snapshot) == "open":
        raise BadWords(f"{queue.id} is open already", text=change.queue)
    return (StartQueue(queue=queue.id),)


def _partition(text: str, snapshot: Snapshot, change: type[Change]) -> Queue:
    queue = find_queue(text, snapshot)
    if queue.kind != "partition":
        raise unsupported(
            f"{queue.id} can't be stopped or started: on Slurm only partitions can", snapshot, change,
            hint=f"quota {queue.id} gpus=0 lets nothing with GPUs start",
        )  # fmt: skip
    check_name(queue.name, "partition")
    return queue


def _queue_state(queue: Queue, snapshot: Snapshot) -> str:
    row = find(snapshot, "queues", queue.id) or {}
    return str(row.get("state"))


_RESOLVERS: dict[type, Callable[[Any, Snapshot], tuple[Change, ...]]] = {
    SetQuota: _quota,
    Reserve: _reserve,
    Unreserve: _unreserve,
    Hold: _hold,
    Release: _release,
    Cancel: _cancel,
    Requeue: _requeue,
    SetPriority: _priority,
    Drain: _drain,
    Resume: _resume,
    StopQueue: _stop,
    StartQueue: _start,
}
