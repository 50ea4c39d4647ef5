"""Resolved changes as steps, with what they expect, what will be read back, and what takes them back. Pure.

Steps are written as what Slurm would be given; no command is run.
"""

import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from connectors.change import (
    Cancel,
    Change,
    Drain,
    Expectation,
    Hold,
    Plan,
    Release,
    Requeue,
    Reserve,
    Resume,
    SetPriority,
    SetQuota,
    StartQueue,
    Step,
    StopQueue,
    Unreserve,
)
from connectors.ground import quota_key
from connectors.model import Snapshot
from connectors.notation import format_hostlist, format_slurm_duration, format_when
from connectors.text import _, plural
from console.demo.targets import find_job, find_nodes, find_queue, find_reservation

_OUT = ("draining", "drained")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One change's share of a plan; `undo` None says that nothing takes it back, `why` then says why not."""

    step: Step
    expects: tuple[Expectation, ...]
    undo: tuple[Change, ...] | None = None
    why: str | None = None
    notes: tuple[str, ...] = ()


def plan(changes: Sequence[Change], snapshot: Snapshot) -> Plan:
    """Return the plan of resolved changes."""
    parts = [_PARTS[type(change)](change, snapshot) for change in changes]
    undo: list[Change] | None = []
    for part in reversed(parts):
        undo = None if undo is None or part.undo is None else [*undo, *part.undo]
    steps = tuple(msgspec.structs.replace(part.step, undo=part.undo) for part in parts)
    notes = (_("simulated: no command is run; the steps show what Slurm would be given"),)
    return Plan(
        cluster=snapshot.meta.cluster, system=snapshot.meta.system, made_at=snapshot.meta.taken_at,
        changes=tuple(changes), steps=steps, expects=tuple(one for part in parts for one in part.expects),
        results=_last(one for step in steps for one in step.results), inverse=None if undo is None else tuple(undo),
        why_no_inverse=next((part.why for part in parts if part.undo is None), None),
        notes=(*notes, *(note for part in parts for note in part.notes)),
    )  # fmt: skip


def _last(results: Iterable[Expectation]) -> tuple[Expectation, ...]:
    """Return the results without those that a later step of the same plan overrides."""
    kept = {(one.table, one.key, one.column): one for one in results}
    return tuple(kept.values())


def _job(key: str, column: str, value: Any, **more: bool) -> Expectation:
    return Expectation(table="jobs", key=key, column=column, value=value, **more)


def _quota(change: SetQuota, snapshot: Snapshot) -> Part:
    queue = find_queue(change.queue, snapshot)
    kind, _mark, name = str(queue["id"]).partition(":")
    words: list[str] = []
    expects: list[Expectation] = []
    results: list[Expectation] = []
    old: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    if change.limit is not None:
        key = quota_key(change.queue)
        rows = [row for row in snapshot.quotas.to_dicts() if row["queue"] == change.queue]
        old["limit"] = rows[0]["limit"]
        words.append(f"GrpTRES=gres/gpu={-1 if change.limit == math.inf else int(change.limit)}")
        expects.append(Expectation(table="quotas", key=key, column="limit", value=old["limit"]))
        results.append(Expectation(table="quotas", key=key, column="limit", value=change.limit))
        if rows[0]["used"] > change.limit:
            text = _("{queue} uses {used} now: what runs goes on, nothing more starts above {limit:g}")
            held = plural("{count} GPU", "{count} GPUs", round(rows[0]["used"])).format(count=f"{rows[0]['used']:g}")
            notes = (text.format(queue=change.queue, used=held, limit=change.limit),)
    for field, word in (("weight", "Fairshare"), ("max_run_s", "MaxTime" if kind == "partition" else "MaxWall")):
        value = getattr(change, field)
        if value is None:
            continue
        old[field] = queue[field]
        shown = format_slurm_duration(value) if field == "max_run_s" else f"{value:g}"
        words.append(f"{word}={shown}")
        expects.append(Expectation(table="queues", key=change.queue, column=field, value=old[field]))
        results.append(Expectation(table="queues", key=change.queue, column=field, value=value))
    command = f"sacctmgr -i modify {kind} where name={name} set"
    if kind == "partition":
        command = f"scontrol update partitionname={name}"
    step = Step(
        says=_("set {what} of {queue}").format(what=", ".join(words), queue=change.queue),
        native=f"{command} {' '.join(words)}", results=tuple(results),
    )  # fmt: skip
    return Part(step=step, expects=tuple(expects), undo=(SetQuota(queue=change.queue, **old),), notes=notes)


def _reserve(change: Reserve, _snapshot: Snapshot) -> Part:
    start, end = format_when(change.start), format_when(change.end)
    words = [f"reservationname={change.name}", f"starttime={start}", f"endtime={end}"]
    words += [f"nodes={format_hostlist(change.nodes)}"]
    words += [f"{key}={','.join(names)}" for key, names in (
        ("users", change.users), ("accounts", change.accounts), ("flags", change.flags)) if names]  # fmt: skip
    missing = Expectation(table="reservations", key=change.name, column="", exists=False)

    def now_there(column: str, value: Any) -> Expectation:
        return Expectation(table="reservations", key=change.name, column=column, value=value)

    step = Step(
        says=_("keep {nodes} from {start} to {end}").format(nodes=format_hostlist(change.nodes), start=start, end=end),
        native="scontrol create reservation " + " ".join(map(shlex.quote, words)),
        results=(now_there("nodelist", change.nodes), now_there("end_time", end)),
    )
    return Part(step=step, expects=(missing,), undo=(Unreserve(name=change.name),))


def _unreserve(change: Unreserve, snapshot: Snapshot) -> Part:
    row = find_reservation(change.name, snapshot)
    again = Reserve(
        name=change.name, start=row["start_time"], end=row["end_time"], nodes=tuple(row["nodelist"]),
        users=tuple(row["users"]), accounts=tuple(row["accounts"]), flags=tuple(row["flags"]),
    )  # fmt: skip
    gone = Expectation(table="reservations", key=change.name, column="", exists=False)
    there = Expectation(table="reservations", key=change.name, column="nodelist", value=tuple(row["nodelist"]))
    step = Step(
        says=_("drop reservation {name}").format(name=change.name),
        native=f"scontrol delete reservationname={change.name}", results=(gone,),
    )  # fmt: skip
    return Part(step=step, expects=(there,), undo=(again,))


def _hold(change: Hold, snapshot: Snapshot) -> Part:
    key = find_job(change.job, snapshot)["key"]
    step = Step(
        says=_("hold job {job}").format(job=change.job), native=f"scontrol hold {change.job}",
        results=(_job(key, "demo_held_by", None, is_not=True),),
    )  # fmt: skip
    return Part(
        step=step, expects=(_job(key, "state", "pending"), _job(key, "demo_held_by", None)),
        undo=(Release(job=change.job),),
    )  # fmt: skip


def _release(change: Release, snapshot: Snapshot) -> Part:
    row = find_job(change.job, snapshot)
    step = Step(
        says=_("release job {job}").format(job=change.job), native=f"scontrol release {change.job}",
        results=(_job(row["key"], "demo_held_by", None),),
    )  # fmt: skip
    expects = (_job(row["key"], "state", "pending"), _job(row["key"], "demo_held_by", None, is_not=True))
    return Part(
        step=step, expects=expects, undo=(Hold(job=change.job),),
        notes=(_("undo works while the job waits; once it runs it can't be held"),),
    )  # fmt: skip


def _cancel(change: Cancel, snapshot: Snapshot) -> Part:
    row = find_job(change.job, snapshot)
    step = Step(
        says=_("cancel job {job} ({name} of {user})").format(job=change.job, name=row["name"], user=row["user"]),
        native=f"scancel {change.job}", results=(_job(row["key"], "state", "cancelled", or_gone=True),),
    )  # fmt: skip
    expects = (_job(row["key"], "state", row["state"]), _job(row["key"], "restarts", float(row["restarts"])))
    return Part(step=step, expects=expects, why=_("a cancelled job is not brought back"))


def _requeue(change: Requeue, snapshot: Snapshot) -> Part:
    row = find_job(change.job, snapshot)
    key, restarts = row["key"], float(row["restarts"])
    step = Step(
        says=_("stop job {job} and put it back into its queue").format(job=change.job),
        native=f"scontrol requeue {change.job}",
        results=(_job(key, "state", "pending"), _job(key, "restarts", restarts + 1)),
    )
    return Part(
        step=step, expects=(_job(key, "state", "running"), _job(key, "restarts", restarts)),
        why=_("the work that the job has done since its start is lost"),
    )  # fmt: skip


def _priority(change: SetPriority, snapshot: Snapshot) -> Part:
    row = find_job(change.job, snapshot)
    key = row["key"]
    step = Step(
        says=_("set the priority of job {job} to {value:g}").format(job=change.job, value=change.value),
        native=f"scontrol update jobid={change.job} priority={change.value:g}",
        results=(_job(key, "priority", change.value),),
    )
    expects = (
        _job(key, "state", "pending"),
        _job(key, "demo_held_by", None),
        _job(key, "demo_priority_set", row["demo_priority_set"]),
    )
    return Part(
        step=step, expects=expects, undo=(SetPriority(job=change.job, value=max(1.0, row["priority"])),),
        notes=(_("a priority that was set no longer grows with the job's age; undo sets the figure of now"),),
    )  # fmt: skip


def _drain(change: Drain, snapshot: Snapshot) -> Part:
    rows = find_nodes(change.nodes, snapshot)
    expects = tuple(
        expectation
        for row in rows
        for expectation in (
            Expectation(table="nodes", key=row["name"], column="schedulable", value=row["schedulable"]),
            Expectation(table="nodes", key=row["name"], column="reason", value=row["reason"]),
        )
    )
    results = tuple(
        expectation
        for row in rows
        for expectation in (
            Expectation(table="nodes", key=row["name"], column="state", value=_OUT),
            Expectation(table="nodes", key=row["name"], column="reason", value=change.reason),
        )
    )
    nodes = format_hostlist(change.nodes)
    step = Step(
        says=_("drain {nodes}: what runs there goes on, nothing new starts").format(nodes=nodes),
        native=f"scontrol update nodename={nodes} state=drain reason={shlex.quote(change.reason)}", results=results,
    )  # fmt: skip
    serving = tuple(row["name"] for row in rows if row["schedulable"])
    undo: list[Change] = [Resume(nodes=serving)] if serving else []
    return Part(step=step, expects=expects, undo=(*undo, *_drained_as_before(rows)))


def _resume(change: Resume, snapshot: Snapshot) -> Part:
    rows = find_nodes(change.nodes, snapshot)
    nodes = format_hostlist(change.nodes)
    step = Step(
        says=_("put {nodes} back into service").format(nodes=nodes),
        native=f"scontrol update nodename={nodes} state=resume",
        results=tuple(Expectation(table="nodes", key=row["name"], column="schedulable", value=True) for row in rows),
    )
    expects = tuple(Expectation(table="nodes", key=row["name"], column="reason", value=row["reason"]) for row in rows)
    text = _("{node}: {count:g} of its GPUs can't be used")
    notes = [text.format(node=row["name"], count=row["gpus_unusable"]) for row in rows if row["gpus_unusable"]]
    return Part(step=step, expects=expects, undo=tuple(_drained_as_before(rows)), notes=tuple(notes))


def _drained_as_before(rows: Sequence[dict[str, Any]]) -> list[Change]:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if not row["schedulable"]:
            reasons.setdefault(row["reason"], []).append(row["name"])
    return [Drain(nodes=tuple(names), reason=reason) for reason, names in reasons.items()]


def _stop(change: StopQueue, _snapshot: Snapshot) -> Part:
    return _switch(change.queue, "open", "stopped", "down", StartQueue(queue=change.queue))


def _start(change: StartQueue, _snapshot: Snapshot) -> Part:
    return _switch(change.queue, "stopped", "open", "up", StopQueue(queue=change.queue))


def _switch(queue: str, before: str, after: str, word: str, undo: Change) -> Part:
    says = _("start no more jobs from {queue}") if after == "stopped" else _("let {queue} start jobs again")
    step = Step(
        says=says.format(queue=queue),
        native=f"scontrol update partitionname={queue.partition(':')[2]} state={word}",
        results=(Expectation(table="queues", key=queue, column="state", value=after),),
    )
    return Part(
        step=step, expects=(Expectation(table="queues", key=queue, column="state", value=before),), undo=(undo,)
    )  # fmt: skip


_PARTS: dict[type, Callable[[Any, Snapshot], Part]] = {
    SetQuota: _quota, Reserve: _reserve, Unreserve: _unreserve, Hold: _hold, Release: _release, Cancel: _cancel,
    Requeue: _requeue, SetPriority: _priority, Drain: _drain, Resume: _resume, StopQueue: _stop, StartQueue: _start,
}  # fmt: skip
