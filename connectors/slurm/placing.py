"""Which nodes a reservation of so many GPUs takes: whole ones that will be free when it begins. Pure.

Slurm refuses a reservation over nodes whose jobs, by their time limits, run into it ("Requested nodes are busy").
Jobs that wait are passed over, as Slurm does: they are planned around the reservation.
"""

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import polars as pl

from connectors.change import Reserve
from connectors.errors import BadWords, NotFound
from connectors.model import Snapshot
from connectors.notation import format_when
from connectors.slurm.targets import few, unsupported

OUT_OF_SERVICE = ("draining", "drained", "down", "unknown")


class Blocker(NamedTuple):
    """Why a node can't be reserved then: a job, another reservation, or its own state; `until` None is not known."""

    node: str
    what: str
    until: datetime | None

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.node}: {self.what}"


class _Candidate(NamedTuple):
    usable: float
    free_at: datetime
    at: int
    name: str


def choose_nodes(change: Reserve, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the fewest nodes that hold `change.gpus` of its model from start to end, and fit best.

    BadWords where the model must be named; NotFound for a model that no node has; Unsupported, with what is in the
    way, where there are not enough.
    """
    if not change.gpus:
        raise BadWords("a reservation needs gpus= of at least 1, or nodes=")
    rows = _of_model(change, snapshot)
    blocked = blockers(change, snapshot)
    free_at = _free_at(snapshot)
    candidates = [
        _Candidate(_usable(row), free_at.get(row["name"], snapshot.meta.taken_at), at, row["name"])
        for at, row in enumerate(rows)
        if row["name"] not in blocked and _usable(row) >= 1
    ]
    there = sum(candidate.usable for candidate in candidates)
    if there < change.gpus:
        model = f" {change.model}" if change.model else ""
        ways = few(str(why[0]) for name, why in blocked.items() if name in {row["name"] for row in rows})
        raise unsupported(
            f"only {there:g} of {change.gpus:g}{model} GPUs, on {len(candidates)} whole nodes, will be free at "
            f"{format_when(change.start)}; in the way: {ways or 'nothing, the cluster has no more'}",
            snapshot,
            Reserve,
            hint="begin later, ask for fewer, or cancel what is in the way",
        )
    chosen = _fewest(candidates, change.gpus)
    order = {candidate.name: candidate.at for candidate in candidates}
    return tuple(sorted(chosen, key=order.__getitem__))


def blockers(change: Reserve, snapshot: Snapshot) -> dict[str, list[Blocker]]:
    """Return, by node, what keeps it from being reserved from start to end."""
    found: dict[str, list[Blocker]] = {}
    for blocker in _blockers(change, snapshot):
        found.setdefault(blocker.node, []).append(blocker)
    return found


def ends_at(row: dict[str, Any], taken_at: datetime) -> datetime | None:
    """Return when a running job must be over by its time limit, never before now; None if never or not known."""
    started, limit = row["start_time"], row["time_limit_s"]
    if started is None or limit is None or limit == math.inf:
        return None
    end: datetime = started + timedelta(seconds=limit)
    return max(end, taken_at)


def _blockers(change: Reserve, snapshot: Snapshot) -> Iterator[Blocker]:
    for row in snapshot.nodes.iter_rows(named=True):
        if row["state"] in OUT_OF_SERVICE:
            yield Blocker(row["name"], f"is {row['state']}", None)
    for row in _running(snapshot).iter_rows(named=True):
        end = ends_at(row, snapshot.meta.taken_at)
        if end is not None and end <= change.start:
            continue
        until = "without a time limit that is known" if end is None else f"until {format_when(end)}"
        for node in row["nodelist"] or ():
            yield Blocker(node, f"job {row['id']} runs {until}", end)
    for row in snapshot.reservations.iter_rows(named=True):
        begins, ends = row["start_time"], row["end_time"]
        if (begins is not None and begins >= change.end) or (ends is not None and ends <= change.start):
            continue
        for node in row["nodelist"] or ():
            yield Blocker(node, f"is in reservation {row['name']}", ends)


def _running(snapshot: Snapshot) -> pl.DataFrame:
    return snapshot.jobs.filter(pl.col("state").cast(pl.String).is_in(["running", "suspended"]))


def _free_at(snapshot: Snapshot) -> dict[str, datetime]:
    """Return, by node, the end of the last job that runs there: of nodes that fit alike, the first to be free wins."""
    found: dict[str, datetime] = {}
    for row in _running(snapshot).iter_rows(named=True):
        end = ends_at(row, snapshot.meta.taken_at)
        if end is not None:
            for node in row["nodelist"] or ():
                found[node] = max(end, found.get(node, end))
    return found


def _of_model(change: Reserve, snapshot: Snapshot) -> list[dict[str, Any]]:
    rows = [row for row in snapshot.nodes.iter_rows(named=True) if (row["gpus"] or 0) > 0]
    models = sorted({str(row["gpu_model"]) for row in rows if row["gpu_model"] is not None})
    if change.model is None:
        if len(models) > 1:
            raise BadWords("`reserve` with gpus= needs model= here", hint=f"models: {', '.join(models)}")
        return rows
    if change.model not in models:
        raise NotFound(
            "GPU model", change.model, cluster=snapshot.meta.cluster, hint=f"models: {', '.join(models) or 'none'}"
        )
    return [row for row in rows if row["gpu_model"] == change.model]


def _usable(row: dict[str, Any]) -> float:
    return float(row["gpus"] or 0) - float(row["gpus_unusable"] or 0)


def _fewest(candidates: list[_Candidate], gpus: float) -> list[str]:
    left = sorted(candidates, key=lambda one: (one.usable, one.free_at, one.at))
    chosen: list[str] = []
    while gpus > 0:
        fits = [one for one in left if one.usable >= gpus]
        # the smallest that is enough, else the first of the largest
        largest = [one for one in left if one.usable == left[-1].usable]
        one = fits[0] if fits else largest[0]
        left.remove(one)
        chosen.append(one.name)
        gpus -= one.usable
    return chosen
