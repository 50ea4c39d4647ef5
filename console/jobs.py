"""Finding the one job that a person means."""

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from connectors.errors import NotFound
from connectors.notation import NotationError, parse_job_id

if TYPE_CHECKING:
    from connectors.model import Snapshot

_THROTTLE = re.compile(r"%\d+(?=\]$)")


def find_job(snapshot: "Snapshot", job: str) -> dict[str, Any]:
    """Return the row of a job by id or key; a single task of a pending array gives the array's row.

    NotFound names ids that look like it.
    """
    import polars as pl

    jobs = snapshot.jobs
    job = _THROTTLE.sub("", job)  # squeue writes `16_[2-9%2]`, the tools that take ids want `16_[2-9]`
    for column in ("id", "key"):
        found = jobs.filter(pl.col(column) == job)
        if found.height:
            return found.row(0, named=True)
    task = _one_task(job)
    if task is not None:
        base, index = task
        for row in jobs.filter(pl.col("key") == base).iter_rows(named=True):
            if any(index in span for span in _parsed_tasks(str(row["id"]))):
                return row
    ids = [str(value) for value in jobs["id"]]
    raise NotFound("job", job, cluster=snapshot.meta.cluster, near=get_close_matches(job, ids[:5000], cutoff=0.8))


def _one_task(job: str) -> tuple[str, int] | None:
    """Return base id and index of `123_4`; None for anything else."""
    base, _, _ = job.partition("_")
    spans = _parsed_tasks(job)
    return (base, spans[0].start) if len(spans) == 1 and len(spans[0]) == 1 else None


def _parsed_tasks(text: str) -> tuple[range, ...]:
    try:
        return parse_job_id(text).tasks or ()
    except NotationError:
        return ()
