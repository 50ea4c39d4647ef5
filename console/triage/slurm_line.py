"""Who stands before a job in Slurm's queue, and which nodes are kept for them until when."""

from datetime import datetime

import polars as pl

from connectors.notation import NotationError, parse_hostlist
from connectors.text import _
from console.triage.board import Board, Row, partitions_of
from console.triage.case import Case, Found
from console.triage.diagnosis import Cause
from console.triage.slurm_reasons import classify
from console.triage.words import amount, hosts, jobs_count, name, quoted, some, span

_READY = frozenset({"resources", "priority", "down_text"})


def ahead(case: Case) -> list[Row]:
    """Return the pending jobs that come before this one for the same nodes, the first one first."""
    mine, parts = case.row.get("priority"), set(case.partitions)
    tiers = case.board.partitions
    own_tier = max((tiers[part].priority_tier for part in parts if part in tiers), default=None)
    found: list[Row] = []
    shared: dict[tuple[str, ...], bool] = {}

    def shares(theirs: tuple[str, ...]) -> bool:
        if theirs not in shared:
            shared[theirs] = any(not node.partitions.isdisjoint(theirs) for node in case.room.candidates)
        return shared[theirs]

    for row in case.board.pending:
        if row["id"] == case.row["id"] or classify(row["reason_raw"]).topic not in _READY:
            continue
        theirs = partitions_of(row)
        tier = max((tiers[part].priority_tier for part in theirs if part in tiers), default=None)
        if own_tier is not None and tier is not None and tier != own_tier:
            if tier > own_tier and shares(theirs):
                found.append(row)
            continue
        if parts and theirs and parts.isdisjoint(theirs) and not shares(theirs):
            continue
        if row["priority"] is not None and mine is not None and row["priority"] > mine:
            found.append(row)
    return found or _overtaken(case)


def _overtaken(case: Case) -> list[Row]:
    """Return the jobs of its partition whose turn it is: priorities may have changed since Slurm gave its reason."""
    if case.reason.topic != "priority":
        return []
    parts = set(case.partitions)
    return [
        row
        for row in case.board.pending
        if row["id"] != case.row["id"]
        and classify(row["reason_raw"]).topic == "resources"
        and not parts.isdisjoint(partitions_of(row))
    ]


def _brief(case: Case, *, stated: bool) -> Found | None:
    head, mine = heads(case.board).get(case.row.get("queue")), case.row.get("priority")
    if head is None or head[0] == case.row["id"]:
        return None
    if case.reason.topic != "priority" and (mine is None or head[1] <= mine):
        return None
    short = _("behind {job}").format(job=name(head[0]))
    return case.found(Cause.BEHIND_IN_LINE, "wait", short, short, stated=stated)


def heads(board: Board) -> dict[str | None, tuple[str, float]]:
    """Return the job that is first in line in each queue, and its priority: of those that wait for nodes."""
    if board.heads is None:
        jobs = board.snapshot.jobs.filter((pl.col("state") == "pending") & pl.col("priority").is_not_null())
        ready = [raw for raw in jobs["reason_raw"].unique().to_list() if classify(raw).topic in _READY]
        first = (
            jobs.filter(pl.col("reason_raw").is_in(ready))
            .sort("priority", descending=True, maintain_order=True)
            .group_by("queue", maintain_order=True)
            .agg(pl.col("id").first(), pl.col("priority").first())
        )
        board.heads = {queue: (job, priority) for queue, job, priority in first.iter_rows()}
    return board.heads


def line(case: Case, *, stated: bool) -> Found | None:
    """Return BEHIND_IN_LINE with the job that nodes are kept for, and the limit that would fit before it; or None."""
    if case.brief:
        return _brief(case, stated=stated)
    before = ahead(case)
    if not before:
        return None
    first = before[0]
    start = _kept_until(case, before)
    keeper = next((row for row in before if row["expected_start_time"] == start), first) if start else first
    planned = [node for node in case.room.usable if node.planned]
    gpus = sum((row["gpus"] or 0.0) * (row["tasks"] or 1) for row in before)
    says = _("ahead of it: {jobs} with {gpus}; the first is {first}").format(
        jobs=jobs_count(len(before)), gpus=amount(gpus, "gpu"), first=_job(first)
    )
    listed = some([_job(row) for row in before[:4]], of=len(before))
    facts = [case.evidence("derived", _("ahead: {jobs}").format(jobs=listed))]
    better, limit = None, case.row.get("time_limit_s")
    if start is not None:
        kept = keeper.get("slurm_scheduled_nodes") or hosts(node.name for node in planned)
        where = _(" on {nodes}").format(nodes=quoted(_text(kept))) if kept else ""
        facts.append(
            case.evidence(
                "squeue",
                _("{job} is planned to start at {when}{where}").format(
                    job=name(keeper["id"]), when=case.when(start), where=where
                ),
            )
        )
        left = (start - case.now).total_seconds()
        if case.room.fits_now and (limit is None or limit > left):
            says = _(
                "{nodes} with room are kept for {job}, which starts at {when}; a limit of {limit} would delay it"
            ).format(
                nodes=hosts(n.name for n in case.room.fit), job=_job(keeper), when=case.when(start), limit=span(limit)
            )
            better = _("a limit of at most {limit} would fit before {when}").format(
                limit=span(left), when=case.when(start)
            )
    if planned:
        facts.append(
            case.evidence("sinfo", _("kept by the plan: {nodes}").format(nodes=hosts(n.name for n in planned)))
        )
    return case.found(
        Cause.BEHIND_IN_LINE,
        "wait",
        _("behind {job}").format(job=name(keeper["id"])),
        says,
        *facts,
        stated=stated,
        clears_at=None if better else start,
        who=_("nobody, or the owner by a shorter limit") if better else _("nobody"),
        next_step=_("shorten its time limit, or wait") if better else _("wait"),
        counterfactual=better,
    )


def _text(value: object) -> str:
    return ",".join(str(one) for one in value) if isinstance(value, list | tuple) else str(value)


def _job(row: Row) -> str:
    return _("{job} ({gpus}, {user})").format(
        job=name(row["id"]), gpus=amount(row["gpus"], "gpu"), user=name(row["user"])
    )


def _kept_until(case: Case, before: list[Row]) -> datetime | None:
    """Return the earliest planned start of a job ahead that wants nodes this one could use."""
    mine = {node.name for node in case.room.candidates}
    starts: list[datetime] = []
    for row in before:
        start = row["expected_start_time"]
        if start is None or start <= case.now or classify(row["reason_raw"]).topic == "limit":
            continue
        if not mine.isdisjoint(_planned_nodes(row) or mine):
            starts.append(start)
    return min(starts, default=None)


def _planned_nodes(row: Row) -> tuple[str, ...]:
    planned = row.get("slurm_scheduled_nodes")
    if not planned:
        return ()
    try:
        return parse_hostlist(planned) if isinstance(planned, str) else tuple(planned)
    except NotationError:
        return ()
