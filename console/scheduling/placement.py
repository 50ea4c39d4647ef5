"""Which nodes a job may use at all: partition, GPU model, features, named nodes, size."""

import re

import numpy as np

from connectors.text import _
from console.scheduling.cluster import Cluster, Job, Mask
from console.scheduling.profile import EPSILON, Demand
from console.triage.words import amount

_PLAIN = re.compile(r"[A-Za-z0-9_.:+-]+(?:[&|,][A-Za-z0-9_.:+-]+)*")


class Where:
    """The nodes that a kind of job may use, and why there are none or too few."""

    __slots__ = ("demands", "key", "mask", "nodes", "problem", "unknown")

    def __init__(self, key: int, mask: Mask, problem: str | None, unknown: str | None) -> None:
        """Keep the mask over nodes; `unknown` says what of the job's wishes can't be read."""
        self.key = key
        self.mask = mask
        self.nodes = [int(i) for i in np.flatnonzero(mask)]
        self.problem = problem
        self.unknown = unknown


class Places:
    """Eligible nodes by job, shared among jobs that ask alike."""

    def __init__(self, cluster: Cluster, partition_nodes: dict[str, frozenset[str]] | None = None) -> None:
        """`partition_nodes` serves partitions that nodes themselves don't name."""
        self.cluster = cluster
        self._partition_nodes = partition_nodes or {}
        self._known: dict[tuple[object, ...], Where] = {}

    def of(self, job: Job) -> Where:
        """Return where the job may run, whole or not, free or not."""
        key = (
            job.partitions,
            job.model,
            job.constraint,
            job.requested,
            job.excluded,
            job.demand,
            job.nodes,
            job.reservation,
        )
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._find(job, len(self._known))
        return found

    def _find(self, job: Job, number: int) -> Where:
        cluster = self.cluster
        mask = self._of_partitions(job)
        problem = None if mask.any() else _("no node of its partition is known")
        mask, problem = self._of_model(job, mask, problem)
        unknown = None
        if job.reservation is not None:
            inside = {node for one in cluster.reserved if one.name == job.reservation for node in one.nodes}
            mask = mask & np.array([node in inside for node in range(len(mask))], dtype=np.bool_)
        if job.constraint is not None:
            wanted = satisfied(job.constraint, cluster.features)
            if wanted is None:
                unknown = _("constraint {constraint}").format(constraint=job.constraint)
            else:
                mask = mask & wanted
                problem = problem or _none(mask, _("no node has the features {text}"), job.constraint)
        if job.excluded:
            mask = mask & np.array([name not in set(job.excluded) for name in cluster.names], dtype=np.bool_)
            problem = problem or _none(
                mask, _("every node open to it is excluded by the job itself: {text}"), job.excluded
            )
        if job.requested:
            pinned = np.array([name in set(job.requested) for name in cluster.names], dtype=np.bool_)
            if len(job.requested) >= job.nodes:
                mask = mask & pinned
                problem = problem or _none(mask, _("none of the nodes it names is open to it: {text}"), job.requested)
            else:
                unknown = _("named nodes among others")
        big = self._big_enough(job)
        if problem is None and int((mask & big).sum()) < job.nodes:
            problem = _("asks {nodes} with {shape}; {count} such exist for it").format(
                nodes=nodes_of(job), shape=shape(job.demand), count=int((mask & big).sum())
            )
        mask = mask & big
        if problem is None and int((mask & cluster.serving).sum()) < job.nodes:
            out = [cluster.names[i] for i in np.flatnonzero(mask & ~cluster.serving)]
            problem = _("asks {nodes} with {shape}; in service: {count}, out of it: {out}").format(
                nodes=nodes_of(job), shape=shape(job.demand), count=int((mask & cluster.serving).sum()), out=few(out)
            )
        return Where(number, mask & cluster.serving, problem, unknown)

    def _of_partitions(self, job: Job) -> Mask:
        cluster = self.cluster
        if not job.partitions:
            return np.ones(len(cluster.names), dtype=np.bool_)
        wanted = set(job.partitions)
        by_rules = frozenset().union(*(self._partition_nodes.get(name, frozenset()) for name in job.partitions))
        return np.array(
            [
                bool(wanted & parts) if parts else name in by_rules
                for name, parts in zip(cluster.names, cluster.partitions, strict=True)
            ],
            dtype=np.bool_,
        )

    def _of_model(self, job: Job, mask: Mask, problem: str | None) -> tuple[Mask, str | None]:
        if job.model is None or job.demand.gpus <= 0:
            return mask, problem
        wanted = job.model.casefold()
        right = np.array([m is not None and m.casefold() == wanted for m in self.cluster.models], dtype=np.bool_)
        mask = mask & right
        return mask, problem or _none(mask, _("no node open to it has GPUs of model {text}"), job.model)

    def _big_enough(self, job: Job) -> Mask:
        cluster, demand = self.cluster, job.demand
        big: Mask = (
            (cluster.gpus >= demand.gpus - EPSILON)
            & (cluster.cpus >= demand.cpus - EPSILON)
            & (cluster.memory >= demand.memory - EPSILON)
        )
        return big


def _none(mask: Mask, text: str, what: str | tuple[str, ...]) -> str | None:
    if mask.any():
        return None
    return text.format(text=what if isinstance(what, str) else few(what))


def few(names: list[str] | tuple[str, ...], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else _("{names} and {count} more").format(names=shown, count=len(names) - most)


def nodes_of(job: Job) -> str:
    """Return how many nodes a job asks, in words."""
    return amount(job.nodes, "node")


def shape(demand: Demand) -> str:
    """Return what a job asks of one node in words: GPUs, or CPUs where it asks no GPU."""
    if demand.whole:
        return _("nobody else on it")
    if demand.gpus > 0:
        return amount(demand.gpus, "gpu")
    return amount(demand.cpus, "cpu")


def satisfied(constraint: str, features: list[frozenset[str]]) -> Mask | None:
    """Return which nodes satisfy `a&b`, `a,b` or `a|b`; None for notations beyond that (sbatch(1), --constraint)."""
    if not _PLAIN.fullmatch(constraint) or ("|" in constraint and re.search("[&,]", constraint)):
        return None
    if "|" in constraint:
        any_of = set(constraint.split("|"))
        return np.array([bool(any_of & have) for have in features], dtype=np.bool_)
    all_of = set(re.split("[&,]", constraint))
    return np.array([all_of <= have for have in features], dtype=np.bool_)
