"""How long jobs run: from what alike jobs of the past used of their limits, else the limits themselves.

For each job the closest group with enough finished jobs serves: the same user, name stem and queue (5), the user in
that queue (10), the queue (30). A seed draws one quantile per job, so that two runs with the same seed give every job
the same run time. A running job's draw is among those that ran longer than it has already.
"""

import bisect
import math
import re
import zlib
from dataclasses import dataclass, field

import polars as pl

from connectors.text import _, plural
from console.scheduling.cluster import SOON_S, Cluster, Job

_ENOUGH = (("own", 5), ("user", 10), ("queue", 30))
_STARTED = ("succeeded", "failed", "timeout", "out_of_memory")


@dataclass(slots=True)
class Estimates:
    """Fractions of the limit and run times of past jobs, ascending, by group."""

    fractions: dict[tuple[str, ...], list[float]] = field(default_factory=dict)
    seconds: dict[tuple[str, ...], list[float]] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether there is any history; without it all seeds are alike."""
        return bool(self.fractions or self.seconds)

    def run_s(self, job: Job, task: int, seed: int) -> float:
        """Return how long a task of a pending job will run, at most its limit."""
        drawn = self._draw(job, task, seed, 0.0)
        return job.limit_s if drawn is None else min(job.limit_s, drawn)

    def remaining_s(self, job: Job, seed: int) -> float:
        """Return how long a running job will go on, given that it still runs."""
        ran = max(0.0, -(job.start or 0.0))
        drawn = self._draw(job, 0, seed, ran)
        return job.end if drawn is None else max(1.0, min(job.end, drawn - ran))

    def has(self, job: Job) -> bool:
        """Return whether history speaks for this job."""
        return self._group(job) is not None

    def _group(self, job: Job) -> list[float] | None:
        table = self.fractions if math.isfinite(job.limit_s) else self.seconds
        if not table:
            return None
        for key, (_kind, enough) in zip(_keys(job.user, job.name, job.queue), _ENOUGH, strict=True):
            values = table.get(key)
            if values is not None and len(values) >= enough:
                return values
        return None

    def _draw(self, job: Job, task: int, seed: int, ran_s: float) -> float | None:
        values = self._group(job)
        if values is None:
            return None
        unit = job.limit_s if math.isfinite(job.limit_s) else 1.0
        first = bisect.bisect_right(values, ran_s / unit) if unit > 0 else 0
        left = len(values) - first
        if left <= 0:
            return None
        chance = zlib.crc32(f"{seed}|{job.key}|{task}".encode()) / 2**32
        return max(1.0, values[first + min(left - 1, int(chance * left))] * unit)


def stem(name: str | None) -> str:
    """Return a job's name without the numbers that differ from run to run."""
    return re.sub(r"[\d_.:-]+", "-", name or "").strip("-").casefold()


def learn(history: pl.DataFrame | None) -> Estimates:
    """Read finished jobs (schema of `jobs`); without history the estimates are the limits."""
    found = Estimates()
    if history is None or history.height == 0:
        return found
    ran = (pl.col("end_time") - pl.col("start_time")).dt.total_microseconds() / 1e6
    rows = (
        history.filter(pl.col("state").is_in(_STARTED) & pl.col("start_time").is_not_null())
        .select("user", "name", "queue", pl.col("time_limit_s").alias("limit"), ran.alias("ran"))
        .filter(pl.col("ran") > 0)
        .rows()
    )
    for user, name, queue, limit, seconds in rows:
        for key in _keys(user, name, queue):
            found.seconds.setdefault(key, []).append(seconds)
            if limit is not None and math.isfinite(limit) and limit > 0:
                found.fractions.setdefault(key, []).append(min(1.0, seconds / limit))
    for table in (found.fractions, found.seconds):
        for values in table.values():
            values.sort()
    return found


def _keys(user: str | None, name: str | None, queue: str | None) -> tuple[tuple[str, ...], ...]:
    return (("own", user or "", stem(name), queue or ""), ("user", user or "", queue or ""), ("queue", queue or ""))


def basis(estimates: Estimates, cluster: Cluster) -> str:
    """Return in words what the run times rest on."""
    jobs = [*cluster.running, *cluster.pending]
    parts = []
    spoken = sum(estimates.has(job) for job in jobs) if estimates.known else 0
    if spoken:
        parts.append(
            _("run times of alike past jobs for {count} of {all} jobs, else time limits").format(
                count=spoken, all=len(jobs)
            )
        )
    else:
        parts.append(_("time limits: jobs are taken to use all of them"))
    endless = [job for job in cluster.running if math.isinf(job.end) and not estimates.has(job)]
    if endless:
        text = plural(
            "{count} running job has no known end and frees nothing",
            "{count} running jobs have no known end and free nothing",
            len(endless),
        )
        parts.append(text.format(count=len(endless)))
    overdue = [job for job in cluster.running if _is_overdue(job)]
    if overdue:
        text = plural(
            "{count} running job is past its limit and taken to end within a minute",
            "{count} running jobs are past their limit and taken to end within a minute",
            len(overdue),
        )
        parts.append(text.format(count=len(overdue)))
    return "; ".join(parts)


def _is_overdue(job: Job) -> bool:
    return job.start is not None and math.isfinite(job.limit_s) and job.start + job.limit_s < 0 and job.end <= SOON_S
