"""Slurm: order, limits, backfill settings and preemption of one cluster, from its typed rules.

Source: scheduling.md A1 (slurmctld's job_scheduler, backfill, acct_policy and preempt plugins).
"""

import math
from collections.abc import Sequence
from functools import cmp_to_key

from connectors.model import Snapshot
from connectors.rules import SlurmRules
from connectors.text import _
from console.scheduling.cluster import Cluster, Job
from console.scheduling.limits import (
    GPU,
    Claim,
    Counters,
    SlurmLimits,
    TableLimits,
    limits_that_rules_set,
)  # fmt: skip
from console.scheduling.policy import Fate, Planning, submit_of

_OFF = frozenset({"OFF", "GANG", ""})
_NOT_PLAYED = ("bf_busy_nodes", "bf_min_age_reserve", "bf_min_prio_reserve", "bf_running_job_reserve")


class SlurmPolicy:
    """One Slurm cluster's way of choosing who starts."""

    name = "slurm"

    def __init__(self, snapshot: Snapshot, rules: SlurmRules) -> None:
        """Read the rules; queues without typed rules keep the limits of the tables."""
        self.rules = rules
        self.counters = Counters()
        self.limits = SlurmLimits(rules, self.counters)
        self._used_without_saying = not self.limits.enforced and any(
            str(reason).startswith(("QOS", "Assoc")) for reason in snapshot.jobs["reason_raw"].drop_nulls().unique()
        )
        if self._used_without_saying:  # what Slurm itself gives as a reason is enforced, whatever the config says
            self.limits.enforced = True
        described = {f"partition:{name}" for name in self.limits.partitions}
        if rules.qos is not None:
            described |= {queue for queue in snapshot.queues["id"] if queue.startswith("qos:")}
        if rules.associations is not None:
            described |= {queue for queue in snapshot.queues["id"] if queue.startswith(("account:", "assoc:"))}
        described |= {
            queue
            for queue in snapshot.quotas["queue"].drop_nulls()
            if (queue.startswith("qos:") and rules.qos is not None)
            or (queue.startswith(("account:", "assoc:")) and rules.associations is not None)
        }
        self._tables = TableLimits(snapshot, self.counters, frozenset(described))
        self._stopped = frozenset(row["id"] for row in snapshot.queues.to_dicts() if row["state"] == "stopped")
        self.planning = _planning(rules)
        self._tier = {name: partition.priority_tier for name, partition in self.limits.partitions.items()}
        self._by_qos = rules.preempt_type.rpartition("/")[2] == "qos"
        self._by_partition = rules.preempt_type.rpartition("/")[2] == "partition_prio"
        self._preempted_by = {q.name: frozenset(q.preempt) for q in rules.qos or ()} if self._by_qos else {}

    def order(self, jobs: Sequence[Job], now: float) -> list[Job]:
        """Return the jobs as Slurm tries them: preemptors, reservation, tier, priority, submit time, id."""
        ordered = sorted(jobs, key=lambda job: self._key(job, now))
        present = {job.qos for job in jobs}
        if not any(self._preempted_by.get(q or "", frozenset()) & present for q in present):
            return ordered
        return sorted(ordered, key=cmp_to_key(self._preemptor_first))

    def _key(self, job: Job, now: float) -> tuple[object, ...]:
        tier = max((self._tier.get(part, 1) for part in job.partitions), default=1)
        return (job.reservation is None, -tier, -self.priority(job, now), submit_of(job), job.number, job.key)

    def _preemptor_first(self, left: Job, right: Job) -> int:
        if right.qos in self._preempted_by.get(left.qos or "", frozenset()):
            return -1
        return 1 if left.qos in self._preempted_by.get(right.qos or "", frozenset()) else 0

    def priority(self, job: Job, now: float) -> float:
        """Return the priority at that time: what Slurm said, plus what age adds until PriorityMaxAge."""
        said = job.priority or 0.0
        weight, most = self.rules.weight_age, self.rules.max_age_s
        since = job.eligible if job.eligible is not None else job.submit
        if not weight or since is None or most <= 0:
            return said
        before = min(1.0, max(0.0, -since) / most)
        return said + weight * (min(1.0, max(0.0, now - since) / most) - before)

    def next_reorder(self, jobs: Sequence[Job], now: float) -> float:
        """Return when the next job's age is saturated: until then all rise alike."""
        if not self.rules.weight_age:
            return math.inf
        since = (job.eligible if job.eligible is not None else job.submit for job in jobs)
        full = (one + self.rules.max_age_s for one in since if one is not None)
        return min((one for one in full if one > now), default=math.inf)

    def claims(self, job: Job) -> tuple[Claim, ...]:
        """Return what one task of the job counts in: QOS, association, accounts, licences."""
        return (*self.limits.claims(job), *self._tables.claims(job), *self._licences(job))

    def _licences(self, job: Job) -> list[Claim]:
        found = []
        for word in (job.licenses or "").replace("|", ",").split(","):
            name, _colon, count = word.partition(":")
            total = self.rules.licenses.get(name.strip())
            if total is not None:
                amount = float(count) if count.isdigit() else 1.0
                queue = f"license:{name.strip()}"
                claim = self.counters.claim((queue,), queue, _("licences"), total[0], amount)
                found += [claim] if claim else []
        return found

    def forbidden(self, job: Job) -> str | None:
        """Return why the job can never start under the limits as they stand."""
        return self.limits.forbidden(job) or self._tables.forbidden(job)

    def closed(self, job: Job) -> str | None:
        """Return why its partitions start nothing (DOWN or INACTIVE; DRAIN still starts what is queued)."""
        if not job.partitions or not all(self._is_down(part) for part in job.partitions):
            return None
        return _("partition {name} is down").format(name=", ".join(job.partitions))

    def _is_down(self, part: str) -> bool:
        rule = self.limits.partitions.get(part)
        return f"partition:{part}" in self._stopped or (rule is not None and rule.state.upper() in {"DOWN", "INACTIVE"})

    def preempts(self, job: Job) -> bool:
        """Return whether the job could take anybody's place."""
        if self._by_qos:
            return bool(self._preempted_by.get(job.qos or ""))
        return self._by_partition

    def fate(self, job: Job, victim: Job, ran_s: float) -> Fate | None:
        """Return what becomes of the victim; None where it may not be preempted."""
        exempt = self.rules.preempt_exempt_s
        if self._by_qos:
            if victim.qos not in self._preempted_by.get(job.qos or "", frozenset()):
                return None
            qos = self.limits.qos.get(victim.qos or "")
            if qos is not None and qos.preempt_exempt_s is not None:
                exempt = qos.preempt_exempt_s
        elif not self._by_partition or self._tier_of(job) <= self._tier_of(victim):
            return None
        if ran_s < exempt:
            return None
        mode = self._mode(victim)
        if mode == "REQUEUE":
            return "cancel" if victim.requeue is False else "requeue"
        return "cancel" if mode == "CANCEL" else None

    def _tier_of(self, job: Job) -> int:
        return max((self._tier.get(part, 1) for part in job.partitions), default=1)

    def _mode(self, victim: Job) -> str:
        if self._by_qos:
            qos = self.limits.qos.get(victim.qos or "")
            own = (qos.preempt_mode if qos is not None else "cluster").upper()
            if own not in {"CLUSTER", ""}:
                return own.partition(",")[0]
        else:
            part = next((self.limits.partitions[p] for p in victim.partitions if p in self.limits.partitions), None)
            if part is not None:
                return part.preempt_mode.upper().partition(",")[0]
        modes = [mode.upper() for mode in self.rules.preempt_mode if mode.upper() not in _OFF]
        return modes[0] if modes else "OFF"

    def victim_key(self, victim: Job, ran_s: float) -> tuple[float, ...]:
        """Return the order of victims: lowest QOS priority or tier first, then the youngest if asked for."""
        qos = self.limits.qos.get(victim.qos or "")
        rank = float(qos.priority) if self._by_qos and qos is not None else float(self._tier_of(victim))
        return (rank, ran_s if self.rules.preempt_youngest_first else 0.0, victim.gpus, float(-victim.row))

    def notes(self, cluster: Cluster) -> list[str]:
        """Return what this cluster uses and is left out here."""
        rules, found = self.rules, []
        if rules.weight_fairshare:
            found.append(_("fair share stays as it is now: usage from now on does not change priorities"))
        if not self.limits.enforced and limits_that_rules_set(rules):
            found.append(_("limits are set but AccountingStorageEnforce does not enforce them"))
        if self._used_without_saying:
            found.append(_("AccountingStorageEnforce names no limits, yet jobs wait for them: they are enforced here"))
        if self._by_qos or self._by_partition:
            modes = {self._mode(job) for job in cluster.running if not job.reservation}
            if modes & {"SUSPEND"}:
                found.append(_("preemption by suspension: such jobs are not preempted here"))
            if any(q.grace_s > 0 for q in rules.qos or ()):
                found.append(_("GraceTime: preempted jobs end at once"))
        left_out = _("{name} is set and not simulated")
        found += [left_out.format(name=key) for key in _NOT_PLAYED if key in rules.parameters]
        if any(len(job.partitions) > 1 for job in cluster.pending):
            found.append(_("jobs that name several partitions are tried on all their nodes at the highest tier"))
        if any("+" in job.id for job in cluster.pending):
            found.append(_("parts of heterogeneous jobs start each on its own"))
        typed = {name for q in rules.qos or () for name in q.grp_tres if name.startswith(f"{GPU}:")}
        if typed and any(job.model is None and job.gpus for job in cluster.pending):
            found.append(_("limits on one GPU model don't count jobs that name no model"))
        return found + _unread_tres(rules)


def _unread_tres(rules: SlurmRules) -> list[str]:
    names: set[str] = set()
    for limits in (
        *(q.grp_tres for q in rules.qos or ()), *(q.max_tres_per_user for q in rules.qos or ()),
        *(a.grp_tres for a in rules.associations or ()),
    ):  # fmt: skip
        names |= {
            name for name, value in limits.items()
            if math.isfinite(value) and name not in {"cpu", "mem", "node", GPU} and not name.startswith(f"{GPU}:")
        }  # fmt: skip
    return [_("limits on {names} are not counted").format(names=", ".join(sorted(names)))] if names else []


def _planning(rules: SlurmRules) -> Planning:
    backfill = rules.scheduler.rpartition("/")[2] == "backfill"
    per_array = rules.parameters.get("bf_max_job_array_resv", "")
    return Planning(
        depth=rules.bf_max_job_test, window_s=rules.bf_window_s, interval_s=max(1.0, rules.bf_interval_s),
        per_user=rules.bf_max_job_user, per_partition=rules.bf_max_job_part, reserve=rules.bf_job_part_count_reserve,
        array_bookings=int(per_array) if per_array.isdigit() and int(per_array) else 20, backfill=backfill,
    )  # fmt: skip
