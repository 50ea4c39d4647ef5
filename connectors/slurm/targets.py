"""What the words of a change name on a Slurm cluster, found in a snapshot: queues, jobs, nodes, reservations. Pure."""

import difflib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import polars as pl

from connectors.change import Change
from connectors.errors import Ambiguous, BadWords, ConnectorError, NotFound, Unsupported
from connectors.ground import find
from connectors.model import ACTIVE_STATES, Snapshot
from connectors.notation import JobId, NotationError, format_job_id, parse_job_id
from connectors.rules import SlurmRules

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
"""Names that sacctmgr and scontrol take as they are: no list, no range, no operator, no option."""

_FEW = 8
_MAX_SINGLE_TASKS = 64
HELD_REASONS = ("JobHeldUser", "JobHeldAdmin", "job requeued in held state", "JobHoldMaxRequeue")
"""What squeue and scontrol give as the reason of a job that is held (squeue(1), job reason codes)."""


class Queue(NamedTuple):
    """A queue's id taken apart; `user` and `partition` are empty unless it is an association."""

    id: str
    kind: str
    name: str
    user: str = ""
    partition: str = ""


def rules_of(snapshot: Snapshot) -> SlurmRules | None:
    """Return Slurm's own rules, or None where they could not be read."""
    return snapshot.rules if isinstance(snapshot.rules, SlurmRules) else None


def split_queue(queue_id: str) -> Queue:
    """Return the parts of `qos:nlp`, `account:vision`, `assoc:vision/ana` (`assoc:vision/ana/train`)."""
    kind, _mark, name = queue_id.partition(":")
    if kind != "assoc":
        return Queue(queue_id, kind, name)
    account, _mark, rest = name.partition("/")
    user, _mark, partition = rest.partition("/")
    return Queue(queue_id, kind, account, user, partition)


def find_queue(text: str, snapshot: Snapshot) -> Queue:
    """Return the queue of that id, or of that bare name while only one has it. NotFound, Ambiguous."""
    ids = [str(one) for one in snapshot.queues["id"].to_list()]
    if text in ids:
        return split_queue(text)
    same = [one for one in ids if text and text in (one.partition(":")[2], split_queue(one).user)]
    if len(same) > 1:
        raise Ambiguous(text, same, kind="queue")
    if same:
        return split_queue(same[0])
    raise absent("queue", "queues", text, snapshot, [*ids, *(one.partition(":")[2] for one in ids)])


def find_nodes(names: Iterable[str], snapshot: Snapshot) -> tuple[str, ...]:
    """Return the names, each once and in their order, if every one is a node of the cluster. NotFound."""
    known = snapshot.nodes["name"].to_list()
    exists = set(known)
    wanted = tuple(dict.fromkeys(names))
    for name in wanted:
        if name not in exists:
            raise absent("node", "nodes", name, snapshot, known)
    if not wanted:
        raise BadWords("no node was named")
    return wanted


def find_reservation(name: str, snapshot: Snapshot) -> dict[str, Any]:
    """Return the reservation's row. NotFound."""
    row = find(snapshot, "reservations", name)
    if row is None:
        raise absent("reservation", "reservations", name, snapshot, snapshot.reservations["name"].to_list())
    return row


def find_jobs(text: str, snapshot: Snapshot) -> list[tuple[str, dict[str, Any]]]:
    """Return the jobs that an id or a key names, each as the id that stands for it and its row.

    One, except for a list of array tasks (`123_[2-4]`) that is less than all that wait: then each task. A bare array
    id is the tasks that wait, as in the table; if none waits, the one task that runs. NotFound, Ambiguous, BadWords.
    """
    row = _row_of(text, snapshot)
    if row is not None:
        _whole(row)
        return [(str(row["id"]), row)]
    try:
        job = parse_job_id(text)
    except NotationError as error:
        raise _no_job(text, snapshot) from error
    if job.step is not None:
        raise BadWords(f"{text!r} is a step; name its job", text=text)
    if job.het_offset is not None:
        return _component(text, job, snapshot)
    if job.tasks is None:
        return _of_array(text, snapshot)
    return _tasks(text, job, snapshot)


def native_job(job_id: str) -> str:
    """Return the id as scontrol and scancel take it: without an array's throttle, a heterogeneous job as a whole."""
    job = parse_job_id(job_id)
    if job.tasks is None:  # also `38+0`: Slurm refuses to cancel one component
        return str(job.base)
    # scontrol and scancel know `2_[3-9]` but not `2_[3-9%2]` (22.05: "Invalid job id specified")
    return format_job_id(JobId(job.base, job.tasks, bracketed=job.bracketed and job.count > 1))


def job_key(job_id: str, snapshot: Snapshot) -> str:
    """Return the key that a resolved job is found by in a later snapshot."""
    row = _row_of(job_id, snapshot)
    return job_id if row is None else str(row["key"])


def is_held(row: dict[str, Any]) -> bool | None:
    """Return whether a waiting job is held: Slurm then keeps its priority at 0. None where that can't be told.

    squeue folds the waiting tasks of an array into one row with the priority of the first and the reasons of all
    (`JobArrayTaskLimit,JobHeldAdmin`): where some are held and some are not, it can't be told of any one.
    """
    reason = (row["reason_raw"] or "").strip()
    if row["priority"] is None and not reason:
        return None
    parts = reason.split(",")
    held = [part in HELD_REASONS for part in parts]
    if any(held) and not all(held):
        return None
    return row["priority"] == 0 or any(held)


def check_name(name: str, what: str) -> str:
    """Return the name if it can stand in a command as it is; BadWords otherwise."""
    if not NAME.fullmatch(name):
        raise BadWords(
            f"the {what} {name!r} can't be given to Slurm safely", text=name, hint="letters, digits and . _ @ + - only"
        )
    return name


def unsupported(what: str, snapshot: Snapshot, change: type[Change] | str, *, hint: str | None = None) -> Unsupported:
    """Return the error for what Slurm has no word for."""
    verb = change if isinstance(change, str) else str(change.__struct_config__.tag)
    return Unsupported(what, cluster=snapshot.meta.cluster, capability=verb, hint=hint)


def absent(kind: str, table: str, name: str, snapshot: Snapshot, known: Iterable[str]) -> NotFound | ConnectorError:
    """Return NotFound with names that come near; or, where the table could not be read, the error that says so."""
    for gap in snapshot.gaps:
        if table in gap.affects:
            return ConnectorError(
                f"the {table} could not be read ({gap.reason}), so it is not known whether there is a {kind} {name!r}",
                cluster=snapshot.meta.cluster,
                source=gap.source,
            )
    near = difflib.get_close_matches(name, list(dict.fromkeys(known)), n=4, cutoff=0.6)
    return NotFound(kind, name, cluster=snapshot.meta.cluster, near=near)


def few(items: Iterable[str]) -> str:
    """Return the first few, comma-separated, and how many more there are."""
    words = list(items)
    more = f" and {len(words) - _FEW} more" if len(words) > _FEW else ""
    return ", ".join(words[:_FEW]) + more


def _row_of(text: str, snapshot: Snapshot) -> dict[str, Any] | None:
    frame = snapshot.jobs.filter((pl.col("key") == text) | (pl.col("id") == text))
    if frame.is_empty():
        return None
    active = frame.filter(pl.col("state").cast(pl.String).is_in(ACTIVE_STATES))
    return (frame if active.is_empty() else active).row(0, named=True)


def _whole(row: dict[str, Any]) -> None:
    try:
        job = parse_job_id(str(row["id"]))
    except NotationError as error:
        raise BadWords(f"the job id {row['id']!r} is none that Slurm's commands take", text=str(row["id"])) from error
    if job.truncated:
        raise BadWords(f"Slurm cut the tasks of {row['id']!r} short", text=str(row["id"]), hint="name the tasks")


def _component(text: str, job: JobId, snapshot: Snapshot) -> list[tuple[str, dict[str, Any]]]:
    row = _row_of(str(job.base), snapshot) or _row_of(f"{job.base}+0", snapshot)
    if row is None:
        raise _no_job(text, snapshot)
    return [(str(row["id"]), row)]


def _of_array(text: str, snapshot: Snapshot) -> list[tuple[str, dict[str, Any]]]:
    frame = snapshot.jobs.filter(
        (pl.col("key").str.starts_with(f"{text}_") | pl.col("key").str.starts_with(f"{text}+"))
        & pl.col("state").cast(pl.String).is_in(ACTIVE_STATES)
    )
    rows = frame.to_dicts()
    if rows and all("+" in str(row["id"]) for row in rows):
        rows = rows[:1]
    if len(rows) > 1:
        raise Ambiguous(text, [str(row["id"]) for row in rows[:_FEW]], kind="array")
    if not rows:
        raise _no_job(text, snapshot)
    return [(str(rows[0]["id"]), rows[0])]


def _tasks(text: str, job: JobId, snapshot: Snapshot) -> list[tuple[str, dict[str, Any]]]:
    if job.truncated or job.count > _MAX_SINGLE_TASKS:
        raise BadWords(
            f"{text!r} names more than {_MAX_SINGLE_TASKS} tasks that are not all that wait",
            text=text,
            hint=f"{job.base} names all that wait",
        )
    found: list[tuple[str, dict[str, Any]]] = []
    for one in (task for some in job.tasks or () for task in some):
        task_id = f"{job.base}_{one}"
        row = find(snapshot, "jobs", task_id)
        if row is None:
            raise _no_job(task_id, snapshot)
        found.append((task_id, row))
    return found


def _no_job(text: str, snapshot: Snapshot) -> NotFound | ConnectorError:
    ids = snapshot.jobs["id"].drop_nulls().to_list()
    return absent("job", "jobs", text, snapshot, ids)
