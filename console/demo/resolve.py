"""What a change means on a simulated cluster: as on Slurm, whose quota is a limit (GrpTRES). Pure."""

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta
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
)
from connectors.errors import BadWords, NotFound
from connectors.ground import find
from connectors.model import Snapshot
from connectors.notation import format_when
from console.demo.targets import Row, find_job, find_nodes, find_queue, find_reservation, unsupported

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MAX_FIGURE = 2**31 - 1
IGNORE_JOBS = "IGNORE_JOBS"


def resolve(change: Change, snapshot: Snapshot) -> tuple[Change, ...]:
    """Return what the change means here, as changes that name everything in full.

    NotFound, Ambiguous, Unsupported, or BadWords when it makes no sense here.
    """
    return (_RESOLVERS[type(change)](change, snapshot),)


def _quota(change: SetQuota, snapshot: Snapshot) -> Change:
    queue = find_queue(change.queue, snapshot)
    kind = queue["kind"]
    for name in ("nominal", "borrow", "lend"):
        if getattr(change, name) is not None:
            raise unsupported(f"{name}= of {queue['id']}: the quota is a limit", change, snapshot, hint="set limit=")
    if change.resource != "gpu" or change.model is not None:
        raise unsupported("quotas are of GPUs of any model here", change, snapshot)
    limit = change.limit if change.gpus is None else change.gpus
    if change.gpus is not None and change.limit is not None and change.gpus != change.limit:
        raise BadWords("gpus= is the limit here: gpus= and limit= can't differ")
    writable = queue["writable"]
    for field, value in (("limit", limit), ("weight", change.weight), ("max_run_s", change.max_run_s)):
        if value is not None and field not in writable:
            word = "max_run" if field == "max_run_s" else field
            raise unsupported(f"a {kind} has no {word} that can be set", change, snapshot)
    for name, value in (("gpus=", limit), ("weight=", change.weight)):
        if value is not None and value != math.inf and (value != int(value) or not 0 <= value <= _MAX_FIGURE):
            raise BadWords(f"{name} is a whole number up to {_MAX_FIGURE}, not {value:g}")
    run = change.max_run_s
    if run is not None and run != math.inf and (run < 60 or run % 60):
        raise BadWords("max_run= is counted in whole minutes, at least one")
    if limit is change.weight is run is None:
        raise BadWords("the change names no figure", text=change.queue)
    return SetQuota(queue=queue["id"], limit=limit, weight=change.weight, max_run_s=run)


def _reserve(change: Reserve, snapshot: Snapshot) -> Change:
    if not _NAME.fullmatch(change.name):
        raise BadWords(f"{change.name!r} can't name a reservation", text=change.name, hint="letters, digits and . _ -")
    if find(snapshot, "reservations", change.name) is not None:
        raise BadWords(f"there is a reservation {change.name!r} already", text=change.name, hint="unreserve it first")
    start = max(change.start, snapshot.meta.taken_at).replace(microsecond=0)
    end = change.end.replace(microsecond=0)
    if end <= start:
        raise BadWords("the reservation is over before it begins", text=change.name)
    for name in (*change.users, *change.accounts, *change.flags):
        if not _NAME.fullmatch(name):
            raise BadWords(f"{name!r} is no name of a user, an account or a flag", text=name)
    users = change.users if change.users or change.accounts else (snapshot.meta.user or "operator",)
    whole = msgspec.structs.replace(change, start=start, end=end, users=users, gpus=None, model=None)
    busy = blockers(whole, snapshot)
    if change.nodes:
        nodes = tuple(row["name"] for row in find_nodes(change.nodes, snapshot))
        in_way = [busy[node] for node in nodes if node in busy]
        if in_way and IGNORE_JOBS not in change.flags:
            raise BadWords(
                f"these nodes are not free then: {'; '.join(in_way)}", hint=f"flags={IGNORE_JOBS} reserves them anyway"
            )
    else:
        nodes = _choose(change, snapshot, busy)
    return msgspec.structs.replace(whole, nodes=nodes)


def blockers(change: Reserve, snapshot: Snapshot) -> dict[str, str]:
    """Return, by node, what keeps it from being reserved from start to end."""
    found: dict[str, str] = {}
    for row in snapshot.nodes.iter_rows(named=True):
        if not row["schedulable"]:
            found[row["name"]] = f"{row['name']} is {row['state']}"
    for row in snapshot.jobs.iter_rows(named=True):
        if row["state"] != "running":
            continue
        end = _limit_end(row)
        if end > change.start:
            for node in row["nodelist"]:
                found[node] = f"{node} runs job {row['id']} until {format_when(end)}"
    for row in snapshot.reservations.iter_rows(named=True):
        if row["start_time"] < change.end and change.start < row["end_time"]:
            for node in row["nodelist"]:
                found[node] = f"{node} is in reservation {row['name']}"
    return found


def _limit_end(row: Row) -> datetime:
    end: datetime = row["start_time"] + timedelta(seconds=row["time_limit_s"])
    return end


def _choose(change: Reserve, snapshot: Snapshot, busy: dict[str, str]) -> tuple[str, ...]:
    """Return the fewest whole nodes that are free then and hold so many GPUs."""
    models = sorted({str(row) for row in snapshot.nodes["gpu_model"]})
    if change.model is None and len(models) > 1:
        raise BadWords("`reserve` with gpus= needs model= here", hint=f"models: {', '.join(models)}")
    if change.model is not None and change.model not in models:
        raise NotFound("GPU model", change.model, cluster=snapshot.meta.cluster, near=models)
    if not change.gpus:
        raise BadWords("a reservation needs gpus= of at least 1, or nodes=")
    rows = [row for row in snapshot.nodes.to_dicts() if change.model in {None, row["gpu_model"]}]
    free = sorted(
        ((row["gpus"] - row["gpus_unusable"], row["name"]) for row in rows if row["name"] not in busy),
        key=lambda one: (-one[0], one[1]),
    )
    chosen: list[str] = []
    left = change.gpus
    for gpus, name in free:
        if left > 0:
            chosen.append(name)
            left -= gpus
    if left > 0:
        names = {row["name"] for row in rows}
        ways = "; ".join([why for node, why in busy.items() if node in names][:6])
        raise unsupported(
            f"only {change.gpus - left:g} of {change.gpus:g} GPUs, on {len(free)} whole nodes, will be free at "
            f"{format_when(change.start)}; in the way: {ways or 'nothing, there are no more'}",
            change, snapshot, hint="begin later, ask for fewer, or cancel what is in the way",
        )  # fmt: skip
    return tuple(sorted(chosen))


def _unreserve(change: Unreserve, snapshot: Snapshot) -> Change:
    return Unreserve(name=find_reservation(change.name, snapshot)["name"])


def _waiting(job: str, snapshot: Snapshot, what: str) -> Row:
    row = find_job(job, snapshot)
    if row["state"] != "pending":
        raise BadWords(f"job {job} is {row['state']}: only a waiting job can be {what}", text=job)
    return row


def _hold(change: Hold, snapshot: Snapshot) -> Change:
    row = _waiting(change.job, snapshot, "held")
    if row["demo_held_by"] is not None:
        raise BadWords(f"job {change.job} is held already, by {row['demo_held_by']}", text=change.job)
    return Hold(job=row["id"])


def _release(change: Release, snapshot: Snapshot) -> Change:
    row = _waiting(change.job, snapshot, "released")
    if row["demo_held_by"] is None:
        raise BadWords(f"job {change.job} is not held; it waits for {row['reason_raw']}", text=change.job)
    return Release(job=row["id"])


def _cancel(change: Cancel, snapshot: Snapshot) -> Change:
    row = find_job(change.job, snapshot)
    if row["state"] not in {"pending", "running"}:
        raise BadWords(f"job {change.job} has ended already: {row['state']}", text=change.job)
    return Cancel(job=row["id"])


def _requeue(change: Requeue, snapshot: Snapshot) -> Change:
    row = find_job(change.job, snapshot)
    if row["state"] != "running":
        raise BadWords(f"job {change.job} is {row['state']}: only a running job can be requeued", text=change.job)
    return Requeue(job=row["id"])


def _priority(change: SetPriority, snapshot: Snapshot) -> Change:
    row = _waiting(change.job, snapshot, "given a priority")
    if change.value != int(change.value) or change.value > _MAX_FIGURE:
        raise BadWords(f"a priority is a whole number up to {_MAX_FIGURE}, not {change.value:g}", text=change.job)
    if change.value < 1:
        raise BadWords("priority 0 is a hold", hint=f"hold {change.job}")
    if row["demo_held_by"] is not None:
        raise BadWords(f"job {change.job} is held", text=change.job, hint=f"release {change.job} first")
    return SetPriority(job=row["id"], value=change.value)


def _drain(change: Drain, snapshot: Snapshot) -> Change:
    rows = find_nodes(change.nodes, snapshot)
    reason = change.reason.strip()
    if not reason or not reason.isprintable():
        raise BadWords(f"{change.reason!r} is no reason that can be kept", text=change.reason, hint="one plain line")
    if all(not row["schedulable"] and row["reason"] == reason for row in rows):
        raise BadWords("drained already, for that reason", text=reason)
    return Drain(nodes=tuple(row["name"] for row in rows), reason=reason)


def _resume(change: Resume, snapshot: Snapshot) -> Change:
    rows = find_nodes(change.nodes, snapshot)
    if serving := [f"{row['name']} is {row['state']}" for row in rows if row["schedulable"]]:
        raise BadWords(f"in service already: {', '.join(serving)}", hint="name only nodes that are drained")
    return Resume(nodes=tuple(row["name"] for row in rows))


def _partition(change: StopQueue | StartQueue, snapshot: Snapshot, *, not_in: str) -> str:
    queue = find_queue(change.queue, snapshot)
    if queue["kind"] != "partition":
        raise unsupported(
            f"{queue['id']} can't be stopped or started: only partitions can", change, snapshot,
            hint=f"quota {queue['id']} gpus=0 lets nothing with GPUs start",
        )  # fmt: skip
    if queue["state"] == not_in:
        raise BadWords(f"{queue['id']} is {not_in} already", text=change.queue)
    return str(queue["id"])


def _stop(change: StopQueue, snapshot: Snapshot) -> Change:
    return StopQueue(queue=_partition(change, snapshot, not_in="stopped"))


def _start(change: StartQueue, snapshot: Snapshot) -> Change:
    return StartQueue(queue=_partition(change, snapshot, not_in="open"))


_RESOLVERS: dict[type, Callable[[Any, Snapshot], Change]] = {
    SetQuota: _quota, Reserve: _reserve, Unreserve: _unreserve, Hold: _hold, Release: _release, Cancel: _cancel,
    Requeue: _requeue, SetPriority: _priority, Drain: _drain, Resume: _resume, StopQueue: _stop, StartQueue: _start,
}  # fmt: skip
