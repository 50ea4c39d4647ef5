"""What the simulator asks of a scheduling policy: order, limits, how far to plan, whom to preempt."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from console.scheduling.cluster import Cluster, Job
from console.scheduling.limits import Claim, Counters

Fate = Literal["requeue", "cancel"]


class Planning(NamedTuple):
    """How far a pass plans ahead; the defaults are Slurm's (scheduling.md, A1).

    `depth` jobs are tested a pass, those that start within `window_s` get a booking. `per_user` and `per_partition`
    bound the tested ones (0: no bound), `reserve` how many of each partition are booked (0: all). Without `backfill` a
    job that has to wait blocks all behind it in its partition.
    """

    depth: int = 500
    window_s: float = 86400.0
    interval_s: float = 30.0
    per_user: int = 0
    per_partition: int = 0
    reserve: int = 0
    array_bookings: int = 20
    backfill: bool = True


class Policy(Protocol):
    """The rules of one system, read from a snapshot; all methods are pure."""

    name: str
    planning: Planning
    counters: Counters

    def order(self, jobs: Sequence[Job], now: float) -> list[Job]:
        """Return the jobs in the order in which they are tried at that time."""
        ...

    def next_reorder(self, jobs: Sequence[Job], now: float) -> float:
        """Return when the order of these jobs can change next though nothing but time passes; inf: never."""
        ...

    def claims(self, job: Job) -> tuple[Claim, ...]:
        """Return what one task of the job counts in."""
        ...

    def forbidden(self, job: Job) -> str | None:
        """Return why the job can never start under the limits as they stand."""
        ...

    def closed(self, job: Job) -> str | None:
        """Return why the job's queue starts nothing."""
        ...

    def fate(self, job: Job, victim: Job, ran_s: float) -> Fate | None:
        """Return what becomes of a running job if the pending one takes its place; None: it may not."""
        ...

    def preempts(self, job: Job) -> bool:
        """Return whether the job could take anybody's place."""
        ...

    def victim_key(self, victim: Job, ran_s: float) -> tuple[float, ...]:
        """Return the order in which victims are taken."""
        ...

    def notes(self, cluster: Cluster) -> list[str]:
        """Return what this cluster uses and the policy leaves out."""
        ...


def submit_of(job: Job) -> float:
    """Return when the job was submitted; jobs that don't say come last."""
    return math.inf if job.submit is None else job.submit
