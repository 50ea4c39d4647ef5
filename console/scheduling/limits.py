"""Limits as counters: what a job counts in, how full that is, and what forbids it outright.

Sources: Slurm's resource_limits.html (order of limits: partition QOS, job QOS, user association, accounts up the tree,
partition), job_reason_codes.html and acct_policy.c. Of one figure (a TRES, jobs, wall) the first one defined in that
order rules: a QOS that caps gres/gpu lets its jobs past every association's cap on gres/gpu, though they count there.
Among associations every level's Grp limits bind, and of their Max limits the nearest.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from connectors.model import Snapshot
from connectors.rules import Limits, SlurmAssociation, SlurmPartition, SlurmQos, SlurmRules
from connectors.text import _
from console.scheduling.cluster import Job
from console.scheduling.profile import EPSILON
from console.triage.words import amount as words_of
from console.triage.words import span

GPU = "gres/gpu"


@dataclass(slots=True)
class Counter:
    """One figure that may not exceed its limit; `queue` is the row that sets it, `label` names it for people."""

    queue: str
    label: str
    limit: float
    used: float = 0.0


class Claim(NamedTuple):
    """What one task counts in a counter; it may start beyond the limit where a nearer rule binds instead of it."""

    counter: int
    amount: float
    binds: bool = True


class Counters:
    """All counters of a cluster, filled by running jobs as they come and go."""

    def __init__(self) -> None:
        """Begin without counters."""
        self.all: list[Counter] = []
        self._known: dict[tuple[object, ...], int] = {}

    def claim(
        self, key: tuple[object, ...], queue: str, label: str, limit: float, amount: float, *, binds: bool = True
    ) -> Claim | None:
        """Return the claim of a job on a counter, made when first asked for; None where nothing limits."""
        if math.isinf(limit) or amount <= 0:
            return None
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.all)
            self.all.append(Counter(queue, label, limit))
        return Claim(number, amount, binds)

    def number(self, key: tuple[object, ...]) -> int | None:
        """Return the counter of that key, None where no job has asked for it."""
        return self._known.get(key)


def full(
    claims: Iterable[Claim], used: list[float], limit: list[float], pledged: list[float] | None = None
) -> int | None:
    """Return the first counter that binding claims would overfill, `pledged` amounts added; None where none is."""
    for number, amount, binds in claims:
        held = used[number] if pledged is None else used[number] + pledged[number]
        if binds and held + amount > limit[number] + EPSILON:
            return number
    return None


def tres_of(job: Job) -> dict[str, float]:
    """Return what one task of a job counts in TRES: cpu, mem (bytes), node, gres/gpu and gres/gpu:MODEL."""
    amounts = {"cpu": job.cpus, "mem": job.memory, "node": float(job.nodes), GPU: job.gpus}
    if job.model is not None:
        amounts[f"{GPU}:{job.model.casefold()}"] = job.gpus
    return amounts


def amount_of(job: Job, tres: str) -> float:
    """Return what one task of a job counts in that TRES; 0 for TRES that aren't read."""
    return tres_of(job).get(tres if tres in {"cpu", "mem", "node"} else tres.casefold(), 0.0)


READ_TRES = frozenset({"cpu", "mem", "node", GPU})


class SlurmLimits:
    """The limits of one Slurm cluster, applied to jobs."""

    def __init__(self, rules: SlurmRules, counters: Counters) -> None:
        """Index partitions, QOS and associations."""
        self.rules = rules
        self.counters = counters
        self.enforced = "limits" in rules.enforce or "safe" in rules.enforce
        self.partitions = {partition.name: partition for partition in rules.partitions}
        self.qos = {qos.name: qos for qos in rules.qos or ()}
        self.tree: dict[tuple[str, str, str], SlurmAssociation] = {
            (row.account, row.user, row.partition): row for row in rules.associations or ()
        }

    def qos_of(self, job: Job) -> Iterator[SlurmQos]:
        """Yield the partition's QOS, then the job's own (the other way round with OverPartQOS)."""
        of_partition = [
            self.qos[name]
            for part in job.partitions[:1]
            if part in self.partitions and (name := self.partitions[part].qos) in self.qos and name
        ]
        own = [self.qos[job.qos]] if job.qos in self.qos and job.qos else []
        order = own + of_partition if own and "OverPartQOS" in own[0].flags else of_partition + own
        yield from {qos.name: qos for qos in order}.values()

    def path(self, job: Job) -> Iterator[SlurmAssociation]:
        """Yield the user's association and each account up the tree."""
        account, user = job.account or "", job.user or ""
        for part in (*job.partitions[:1], ""):
            row = self.tree.get((account, user, part))
            if row is not None and row.user:
                yield row
                break
        seen: set[str] = set()
        while account and account not in seen:
            seen.add(account)
            row = self.tree.get((account, "", ""))
            if row is None:
                return
            yield row
            account = row.parent or ""

    def claims(self, job: Job) -> tuple[Claim, ...]:
        """Return what one task of the job counts in, tightest scope first."""
        if not self.enforced:
            return ()
        found: list[Claim | None] = []
        levels = list(self.path(job))
        ruled: set[str] = set()  # group figures that a QOS has defined
        for qos in self.qos_of(job):
            figures = {"jobs": qos.grp_jobs, **qos.grp_tres}
            found += self._group(job, f"qos:{qos.name}", figures, ruled)
            ruled |= {name for name, limit in figures.items() if math.isfinite(limit)}
        found += self._per_user_and_account(job)
        for row in levels:
            found += self._group(job, queue_of(row), {"jobs": row.grp_jobs, **row.grp_tres}, ruled)
        first = next((row for row in levels if math.isfinite(row.max_jobs)), None)
        if first is not None:
            key = (queue_of(first), "jobs", f"{job.account}/{job.user}")
            binds = not any(math.isfinite(qos.max_jobs_per_user) for qos in self.qos_of(job))
            found.append(self.counters.claim(key, queue_of(first), _("jobs"), first.max_jobs, 1.0, binds=binds))
        return tuple(claim for claim in found if claim is not None)

    def _group(self, job: Job, queue: str, figures: Limits, ruled: set[str]) -> Iterator[Claim | None]:
        for name, limit in figures.items():
            key, label, amount = (queue, "tres", name), name, amount_of(job, name)
            if name == "jobs":
                key, label, amount = (queue, "all", name), _("jobs"), 1.0
            yield self.counters.claim(key, queue, label, limit, amount, binds=name not in ruled)

    def _per_user_and_account(self, job: Job) -> Iterator[Claim | None]:
        named: set[tuple[str, str]] = set()
        for qos in self.qos_of(job):
            queue = f"qos:{qos.name}"
            for who, kind, tres, jobs in (
                (job.user, _("user {name}"), qos.max_tres_per_user, qos.max_jobs_per_user),
                (job.account, _("account {name}"), qos.max_tres_per_account, qos.max_jobs_per_account),
            ):
                if who is None:
                    continue
                label = kind.format(name=who)
                figures = {**tres, "jobs": jobs}
                for name, limit in figures.items():
                    if math.isinf(limit):
                        continue
                    amount = 1.0 if name == "jobs" else amount_of(job, name)
                    yield self.counters.claim(
                        (queue, kind, who, name), queue, f"{label}: {name}", limit, amount,
                        binds=(kind, name) not in named,
                    )  # fmt: skip
                    named.add((kind, name))

    def forbidden(self, job: Job) -> str | None:
        """Return why the job can never start as it stands under partition, QOS and association limits."""
        partitions = [self.partitions[name] for name in job.partitions if name in self.partitions]
        reasons = [self._forbidden_by_partition(job, partition) for partition in partitions]
        if reasons and all(reasons):
            return reasons[0]
        return self._forbidden_by_limits(job) if self.enforced else None

    def _forbidden_by_partition(self, job: Job, partition: SlurmPartition) -> str | None:
        flags = {flag for qos in self.qos_of(job) for flag in qos.flags}
        if job.limit_s > partition.max_time_s + 60 and math.isfinite(job.limit_s) and "PartitionTimeLimit" not in flags:
            return _("time limit {limit} is over partition {name}'s {most}").format(
                limit=span(job.limit_s), name=partition.name, most=span(partition.max_time_s)
            )
        if job.nodes > partition.max_nodes and "PartitionMaxNodes" not in flags:
            return _("asks {nodes}, partition {name} gives at most {most}").format(
                nodes=words_of(job.nodes, "node"), name=partition.name, most=f"{partition.max_nodes:g}"
            )
        if job.nodes < partition.min_nodes and "PartitionMinNodes" not in flags:
            return _("asks {nodes}, partition {name} wants at least {least}").format(
                nodes=words_of(job.nodes, "node"), name=partition.name, least=partition.min_nodes
            )
        return self._not_admitted(job, partition)

    def _not_admitted(self, job: Job, partition: SlurmPartition) -> str | None:
        if job.qos is not None and (
            (partition.allow_qos is not None and job.qos not in partition.allow_qos) or job.qos in partition.deny_qos
        ):
            return _("partition {name} does not take QOS {qos}").format(name=partition.name, qos=job.qos)
        accounts = {row.account for row in self.path(job)} | ({job.account} if job.account else set())
        allowed = partition.allow_accounts
        if accounts and (
            (allowed is not None and not accounts & set(allowed)) or job.account in partition.deny_accounts
        ):
            return _("partition {name} does not take account {account}").format(
                name=partition.name, account=job.account
            )
        return None

    def _forbidden_by_limits(self, job: Job) -> str | None:
        named: set[str] = set()
        scopes = [
            (f"qos:{q.name}", {**q.max_tres_per_job}, q.max_tres_per_node, q.max_wall_s) for q in self.qos_of(job)
        ] + [(queue_of(row), row.max_tres_per_job, row.max_tres_per_node, row.max_wall_s) for row in self.path(job)]
        for queue, per_job, per_node, wall in scopes:
            for name, limit in per_job.items():
                if name not in named and amount_of(job, name) > limit + EPSILON:
                    return _("asks {amount} {tres}, {queue} gives a job at most {most}").format(
                        amount=f"{amount_of(job, name):g}", tres=name, queue=queue, most=f"{limit:g}"
                    )
                named.add(name)
            for name, limit in per_node.items():
                if f"node/{name}" not in named and amount_of(job, name) / job.nodes > limit + EPSILON:
                    return _("asks {amount} {tres} a node, {queue} gives at most {most}").format(
                        amount=f"{amount_of(job, name) / job.nodes:g}", tres=name, queue=queue, most=f"{limit:g}"
                    )
                named.add(f"node/{name}")
            if "wall" not in named and math.isfinite(wall):
                named.add("wall")
                if job.limit_s > wall + 60:
                    return _("time limit {limit} is over {queue}'s {most}").format(
                        limit=span(job.limit_s), queue=queue, most=span(wall)
                    )
        return None


def queue_of(row: SlurmAssociation) -> str:
    """Return the id of the queue row of an association."""
    return f"assoc:{row.account}/{row.user}" if row.user else f"account:{row.account}"


def limits_that_rules_set(rules: SlurmRules) -> bool:
    """Return whether any QOS or association limits anything."""
    qos = any(q.grp_tres or q.max_tres_per_user or q.max_tres_per_job or q.grp_jobs < math.inf for q in rules.qos or ())
    return qos or any(a.grp_tres or a.max_tres_per_job or a.grp_jobs < math.inf for a in rules.associations or ())


class TableLimits:
    """Limits as the tables `quotas` and `queues` state them, for queues that no typed rule describes."""

    def __init__(self, snapshot: Snapshot, counters: Counters, described: frozenset[str] = frozenset()) -> None:
        """`described` are queue ids whose limits come from typed rules."""
        self.counters = counters
        self._by_queue: dict[str, list[tuple[str, str | None, float]]] = {}
        for row in snapshot.quotas.filter(pl.col("limit").is_not_null() & pl.col("limit").is_finite()).to_dicts():
            if row["queue"] not in described:
                limit = (row["resource"] or "gpu", row["model"], row["limit"])
                self._by_queue.setdefault(row["queue"], []).append(limit)
        self._queues = {row["id"]: row for row in snapshot.queues.to_dicts() if row["id"] not in described}

    def claims(self, job: Job) -> tuple[Claim, ...]:
        """Return what one task of the job counts in."""
        found = []
        for queue in dict.fromkeys((*job.bound_by, *((job.queue,) if job.queue else ()))):
            for resource, model, limit in self._by_queue.get(queue, ()):
                amount = _table_amount(job, resource, model)
                label = resource if model is None else f"{resource} {model}"
                found.append(self.counters.claim((queue, resource, model), queue, label, limit, amount))
            most = self._queues.get(queue, {}).get("max_gpus_per_user")
            if most is not None and job.user is not None:
                label = _("user {name}").format(name=job.user)
                found.append(self.counters.claim((queue, "user", job.user), queue, label, most, job.gpus))
        return tuple(claim for claim in found if claim is not None)

    def forbidden(self, job: Job) -> str | None:
        """Return why the job can never start as it stands."""
        for queue in dict.fromkeys((*job.bound_by, *((job.queue,) if job.queue else ()))):
            row = self._queues.get(queue)
            if row is None:
                continue
            if row["max_gpus_per_job"] is not None and job.gpus > row["max_gpus_per_job"] + EPSILON:
                return _("asks {amount} GPUs, {queue} gives a job at most {most}").format(
                    amount=f"{job.gpus:g}", queue=queue, most=f"{row['max_gpus_per_job']:g}"
                )
            if row["max_run_s"] is not None and math.isfinite(job.limit_s) and job.limit_s > row["max_run_s"] + 60:
                return _("time limit {limit} is over {queue}'s {most}").format(
                    limit=span(job.limit_s), queue=queue, most=span(row["max_run_s"])
                )
        return None


def _table_amount(job: Job, resource: str, model: str | None) -> float:
    if model is not None and job.model is not None and model.casefold() != job.model.casefold():
        return 0.0
    return {"gpu": job.gpus, "cpu": job.cpus, "memory": job.memory, "mem": job.memory}.get(resource, 0.0)
