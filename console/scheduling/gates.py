"""What keeps a pending job from being tried at all: holds, closed queues, dependencies, begin times.

The system's own reason decides only where nothing better is known: it is the last one that was evaluated, and may be
stale (slurm.md, section 6).
"""

import re
from dataclasses import dataclass

from connectors.text import _
from console.scheduling.cluster import Cluster, Job
from console.scheduling.placement import Places
from console.scheduling.policy import Policy
from console.triage.words import clock

_HELD = re.compile(r"JobHeld|held", re.IGNORECASE)
_NEVER = re.compile(
    r"InvalidQOS|InvalidAccount|BadConstraints|AccountNotAllowed|AccountingPolicy|PartitionTimeLimit|QOSNotAllowed"
    r"|MaxWallDuration|PerJobLimit|PerJob$|PerNode|QOS not permitted|group not permitted|account not permitted",
    re.IGNORECASE,
)
_ONE = re.compile(r"(?P<kind>[a-z]+)(?::(?P<ids>[^(]*))?(?:\((?P<state>\w+)\))?", re.IGNORECASE)
_AFTER_END = frozenset({"afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer"})


@dataclass(slots=True)
class Gate:
    """Why a job isn't tried: `never`, a `begin` time, parents whose end it waits for, or something not understood."""

    binding: str = ""
    why: str = ""
    never: bool = False
    unknown: bool = False
    begin: float = 0.0
    parents: tuple[str, ...] = ()
    any_parent: bool = False
    on_start: bool = False


Alive = dict[str, list[Job]]


def gate_of(job: Job, cluster: Cluster, policy: Policy, places: Places, alive: Alive) -> Gate:
    """Return what gates a pending job; `alive` finds jobs that haven't ended, see `alive_by_id`."""
    if job.priority == 0 or _HELD.search(job.reason):
        return Gate("held", _("held: {reason}").format(reason=job.reason or _("priority 0")), never=True)
    closed = policy.closed(job)
    if closed is not None:
        return Gate("closed", closed, never=True)
    if job.reason.startswith("DependencyNeverSatisfied"):
        return Gate("dependency", _("its dependency can no longer be met"), never=True)
    forbidden = policy.forbidden(job)
    if forbidden is not None:
        return Gate("limit", forbidden, never=True)
    where = places.of(job)
    if where.unknown is not None:
        return Gate("nodes", _("not simulated: {what}").format(what=where.unknown), unknown=True)
    if where.problem is not None:
        return Gate("nodes", where.problem, never=True)
    if _NEVER.search(job.reason) and not _checked(job, policy):
        return Gate("limit", _("the system says: {reason}").format(reason=job.reason), never=True)
    if job.reservation is not None and all(one.name != job.reservation for one in cluster.reserved):
        return Gate(
            f"reservation:{job.reservation}", _("reservation {name} is not there").format(name=job.reservation),
            never=True,
        )  # fmt: skip
    if job.dependency:
        gate = _dependency(job, alive)
        if gate is not None:
            return gate
    if job.reason.startswith("Dependency") and not job.dependency:
        return Gate("dependency", _("waits for a dependency that is not stated"), unknown=True)
    if job.eligible is not None and job.eligible > 0:
        return Gate("begin", _("begins at {time}").format(time=clock(cluster.moment(job.eligible), cluster.taken_at)),
                    begin=job.eligible)  # fmt: skip
    return Gate()


def _checked(job: Job, policy: Policy) -> bool:
    """Return whether the rules cover what the reason speaks of, so that the reason may be stale."""
    if job.reason.startswith(("Invalid", "BadConstraints", "AccountingPolicy")):
        return False
    partitions = getattr(getattr(policy, "limits", None), "partitions", {})
    return bool(job.partitions) and all(part in partitions for part in job.partitions)


def _dependency(job: Job, alive: Alive) -> Gate | None:
    text = (job.dependency or "").strip()
    any_of = "?" in text
    parents: list[str] = []
    on_start = False
    for part in re.split(r"[,?]", text):
        found = _ONE.fullmatch(part.strip())
        if found is None:
            return Gate("dependency", _("not simulated: dependency {text}").format(text=text), unknown=True)
        kind = found["kind"].lower()
        if (found["state"] or "").lower() == "fulfilled":
            if any_of:
                return None
            continue
        if kind == "singleton":
            alike = alive.get(f"singleton\0{job.user}\0{job.name}", ())
            parents += [one.key for one in alike if one.state != "pending" or one.number < job.number]
            continue
        ids = [one for one in (found["ids"] or "").split(":") if one]
        if kind not in _AFTER_END | {"after"} or not ids or kind == "afternotok":
            return Gate("dependency", _("not simulated: dependency {text}").format(text=text), unknown=True)
        on_start = on_start or kind == "after"
        for one in ids:
            name = one.partition("+")[0].removesuffix("_*")
            keys = [other.key for other in alive.get(name, ()) if other.key != job.key]
            if not keys and found["state"]:
                return Gate(
                    "dependency", _("waits for {id}, which is not on the list of jobs").format(id=name), unknown=True
                )
            parents += keys
    if not parents:
        return None
    return Gate(
        "dependency", _("waits for {text}").format(text=text), parents=tuple(dict.fromkeys(parents)),
        any_parent=any_of, on_start=on_start,
    )  # fmt: skip


def alive_by_id(cluster: Cluster) -> Alive:
    """Return jobs that haven't ended by id, key, array base and parent, and by user and name (for singleton)."""
    found: Alive = {}
    for job in (*cluster.running, *cluster.pending):
        base = job.id.partition("_")[0].partition("+")[0]
        for name in dict.fromkeys((job.id, job.key, base, job.parent or base, f"singleton\0{job.user}\0{job.name}")):
            found.setdefault(name, []).append(job)
    return found
