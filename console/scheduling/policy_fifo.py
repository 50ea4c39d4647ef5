"""First come, first served on nodes, with conservative backfill or without."""

import math
from collections.abc import Sequence

from connectors.model import Snapshot
from connectors.rules import FifoRules
from connectors.text import _
from console.scheduling.cluster import Cluster, Job
from console.scheduling.limits import Claim, Counters, TableLimits
from console.scheduling.policy import Fate, Planning, submit_of


class FifoPolicy:
    """Order of submission; limits as the tables state them; nobody is preempted."""

    name = "fifo"

    def __init__(self, snapshot: Snapshot, rules: FifoRules) -> None:
        """Read queues and quotas."""
        self.planning = Planning(backfill=rules.backfill)
        self.counters = Counters()
        self._tables = TableLimits(snapshot, self.counters)
        self._stopped = frozenset(row["id"] for row in snapshot.queues.to_dicts() if row["state"] == "stopped")

    def order(self, jobs: Sequence[Job], now: float) -> list[Job]:  # noqa: ARG002 - the protocol's; time changes nothing
        """Return the jobs by submission."""
        return sorted(jobs, key=lambda job: (submit_of(job), job.number, job.key))

    def next_reorder(self, jobs: Sequence[Job], now: float) -> float:  # noqa: ARG002 - the protocol's
        """Return inf: submission is for ever."""
        return math.inf

    def claims(self, job: Job) -> tuple[Claim, ...]:
        """Return what one task of the job counts in."""
        return self._tables.claims(job)

    def forbidden(self, job: Job) -> str | None:
        """Return why the job can never start under the limits as they stand."""
        return self._tables.forbidden(job)

    def closed(self, job: Job) -> str | None:
        """Return why the job's queue starts nothing."""
        stopped = next((queue for queue in (job.queue, *job.bound_by) if queue in self._stopped), None)
        return None if stopped is None else _("queue {name} is stopped").format(name=stopped)

    def fate(self, job: Job, victim: Job, ran_s: float) -> Fate | None:  # noqa: ARG002 - the protocol's
        """Return None: nobody is preempted."""
        return None

    def preempts(self, job: Job) -> bool:  # noqa: ARG002 - the protocol's
        """Return False: nobody is preempted."""
        return False

    def victim_key(self, victim: Job, ran_s: float) -> tuple[float, ...]:  # noqa: ARG002 - the protocol's
        """Return nothing to order by: there are no victims."""
        return ()

    def notes(self, cluster: Cluster) -> list[str]:  # noqa: ARG002 - the protocol's
        """Return what is left out: nothing beyond what the cluster itself notes."""
        return []
