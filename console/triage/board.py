"""A snapshot laid out for questions: nodes with what is free on them, running jobs with their ends, usage by scope.

Everything is worked out once and on demand: the queue screen asks it for thousands of rows, `explain` for one.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import polars as pl

from connectors.model import ACTIVE_STATES, Snapshot
from connectors.rules import SlurmAssociation, SlurmPartition, SlurmQos, SlurmRules

Row = dict[str, Any]
HOLDING = tuple(state for state in ACTIVE_STATES if state != "pending")
_OUT = frozenset({"down", "drained", "draining", "unknown"})
_SLIM = (
    "id",
    "key",
    "name",
    "user",
    "team",
    "state",
    "state_raw",
    "reason_raw",
    "queue",
    "bound_by",
    "priority",
    "gpus",
    "gpus_per_node",
    "gpu_model",
    "nodes",
    "cpus",
    "memory_bytes",
    "tasks",
    "nodelist",
    "start_time",
    "end_time",
    "time_limit_s",
    "parent_id",
    "expected_start_time",
    "dependency",
    "submit_time",
    "requested_nodes",
    "restarts",
)
_IN_LINE = (
    "id", "user", "queue", "reason_raw", "priority", "gpus", "tasks", "expected_start_time",
)  # fmt: skip
_OWN = (
    "slurm_partition",
    "slurm_account",
    "slurm_qos",
    "slurm_reservation",
    "slurm_scheduled_nodes",
    "slurm_licenses",
    "slurm_array_throttle",
)


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its state and what is free on it; a figure that the system did not give is None.

    `out` takes nothing new (down, drained, draining or cordoned), `planned` is kept for a job that starts later.
    """

    name: str
    state: str
    raw: str
    reason: str | None
    reason_by: str | None
    reason_time: datetime | None
    model: str | None
    gpus: float | None
    gpus_free: float | None
    cpus: float | None
    cpus_free: float | None
    memory: float | None
    memory_free: float | None
    partitions: frozenset[str]
    features: frozenset[str]
    out: bool
    planned: bool


@dataclass(frozen=True, slots=True)
class Reservation:
    """One reservation; `end` None is without end."""

    name: str
    start: datetime | None
    end: datetime | None
    nodes: frozenset[str]
    kind: str | None
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    state: str | None

    def active(self, now: datetime) -> bool:
        """Return whether it holds its nodes now."""
        return (self.start is None or self.start <= now) and (self.end is None or self.end > now)


def bare(queue: str | None) -> str | None:
    """Return a queue's name without its kind: `train` of `partition:train`."""
    return None if queue is None else queue.split(":", 1)[-1]


def own(row: Row, column: str, instead: str | None = None) -> Any:
    """Return a connector's own column, or another column where it is absent or null."""
    value = row.get(column)
    return row.get(instead) if value is None and instead else value


def partitions_of(row: Row) -> tuple[str, ...]:
    """Return the partitions that a job asked for; Slurm takes several, separated by commas."""
    text = row.get("slurm_partition") or bare(row.get("queue")) or ""
    return tuple(part for part in str(text).split(",") if part)


def end_of(row: Row, now: datetime) -> datetime | None:
    """Return when a running job ends by its limit; None where it has none or nobody said."""
    end, start, limit = row.get("end_time"), row.get("start_time"), row.get("time_limit_s")
    if limit is not None and math.isinf(limit):
        return None
    if end is None and start is not None and limit is not None:
        end = start + timedelta(seconds=limit)
    return None if end is None else max(end, now)


def _less(total: float | None, *parts: float | None) -> float | None:
    if total is None or any(part is None for part in parts):
        return None
    return max(0.0, total - sum(part for part in parts if part is not None))


def _features(row: Row) -> frozenset[str]:
    words: set[str] = set()
    listed = row.get("slurm_features")
    if isinstance(listed, str):
        words.update(part.strip() for part in listed.split(","))
    elif listed:
        words.update(str(part) for part in listed)
    for label in row.get("labels") or ():
        words.add(label["key"])
        if label["value"]:
            words.add(label["value"])
    return frozenset(word for word in words if word)


def _node(row: Row) -> Node:
    state, raw = row["state"] or "unknown", (row["state_raw"] or "").upper()
    return Node(
        name=row["name"],
        state=state,
        raw=raw,
        reason=row["reason"],
        reason_by=row["reason_by"],
        reason_time=row["reason_time"],
        model=row["gpu_model"],
        gpus=row["gpus"],
        gpus_free=_less(row["gpus"], row["gpus_allocated"], row["gpus_unusable"] or 0.0),
        cpus=row["cpus"],
        cpus_free=_less(row["cpus"], row["cpus_allocated"]),
        memory=row["memory_bytes"],
        memory_free=_less(row["memory_bytes"], row["memory_allocated_bytes"]),
        partitions=frozenset(row["partitions"] or ()),
        features=_features(row),
        out=state in _OUT or row["schedulable"] is False,
        planned=state == "planned" or "PLANNED" in raw,
    )


class Usage:
    """What active jobs use, by scope (`qos:nlp`, `account:vision`, and the same for one user or account in it)."""

    def __init__(self) -> None:
        """Start empty."""
        self._sums: dict[tuple[str, str, str | None], float] = defaultdict(float)

    def add(self, scopes: Iterable[str], figures: Mapping[str, float], model: str | None) -> None:
        """Count figures (resource to amount) in each scope, and GPUs under their model too."""
        for scope in scopes:
            for resource, value in figures.items():
                self._sums[scope, resource, None] += value
            if model:
                self._sums[scope, "gpu", model.lower()] += figures["gpu"]

    def of(self, scope: str, resource: str, model: str | None = None) -> float:
        """Return what is used in a scope."""
        return self._sums.get((scope, resource, model.lower() if model else None), 0.0)


class Board:
    """One snapshot, laid out. `now` is the snapshot's own time: triage knows no clock."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Lay nothing out yet."""
        self.snapshot = snapshot
        self.now = snapshot.meta.taken_at
        self.rules = snapshot.rules if isinstance(snapshot.rules, SlurmRules) else SlurmRules()
        self.has_rules = isinstance(snapshot.rules, SlurmRules)
        self.heads: dict[str | None, tuple[str, float]] | None = None
        self._scopes: dict[tuple[Any, ...], tuple[str, ...]] = {}
        self._largest: dict[tuple[str, ...], float | None] = {}
        self._belonging: dict[tuple[str, ...], list[Node]] = {}

    def _rows(self, where: pl.Expr) -> list[Row]:
        jobs = self.snapshot.jobs
        columns = [*_SLIM, *(name for name in _OWN if name in jobs.columns)]
        return jobs.filter(where).select(columns).to_dicts()

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes."""
        return tuple(_node(row) for row in self.snapshot.nodes.to_dicts())

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """Return the nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def holding(self) -> list[Row]:
        """Return the jobs that hold something: running, suspended, completing."""
        return self._rows(pl.col("state").is_in(list(HOLDING)))

    @cached_property
    def pending(self) -> list[Row]:
        """Return the pending jobs, highest priority first, with the columns that a place in line rests on."""
        jobs = self.snapshot.jobs
        columns = [*_IN_LINE, *(name for name in ("slurm_partition", "slurm_scheduled_nodes") if name in jobs.columns)]
        waiting = jobs.filter(pl.col("state") == "pending").select(columns)
        ordered = waiting.sort(pl.col("priority").fill_null(-1.0), descending=True, maintain_order=True)
        return ordered.to_dicts()

    @cached_property
    def _index(self) -> dict[str, int]:
        jobs = self.snapshot.jobs
        found: dict[str, int] = {}
        for column in ("key", "id"):  # an id wins over a key
            found.update({text: number for number, text in enumerate(jobs[column].to_list()) if text})
        return found

    def find(self, job: str) -> Row | None:
        """Return the job of that id or key."""
        number = self._index.get(job)
        return None if number is None else self.snapshot.jobs.row(number, named=True)

    @cached_property
    def completing(self) -> bool:
        """Return whether any job has ended and still holds something."""
        return bool((self.snapshot.jobs["state"] == "completing").any())

    @cached_property
    def active_tasks(self) -> dict[str, int]:
        """Return how many tasks of each array hold something, by the array's base id."""
        jobs = self.snapshot.jobs.filter(pl.col("state").is_in(list(HOLDING)))
        base = pl.coalesce("parent_id", "key", "id").str.split("_").list.first()
        counted = jobs.group_by(base.alias("base")).agg(pl.col("tasks").fill_null(1).sum())
        return dict(zip(counted["base"].to_list(), counted["tasks"].to_list(), strict=True))

    def in_partitions(self, parts: tuple[str, ...]) -> list[Node]:
        """Return the nodes of these partitions; all of them where nothing says which belong."""
        if parts not in self._belonging:
            self._belonging[parts] = [node for node in self.nodes if self._belongs(node, parts)]
        return self._belonging[parts]

    def most_gpus(self, parts: tuple[str, ...]) -> float | None:
        """Return the GPUs of the largest node there; None where a node did not say how many it has."""
        if parts not in self._largest:
            counts = [node.gpus for node in self.in_partitions(parts)]
            known = [count for count in counts if count is not None]
            self._largest[parts] = max(known) if known and len(known) == len(counts) else None
        return self._largest[parts]

    def _belongs(self, node: Node, parts: tuple[str, ...]) -> bool:
        if not parts:
            return True
        if node.partitions:
            return not node.partitions.isdisjoint(parts)
        listed = [self.partitions[part].nodes for part in parts if part in self.partitions]
        return any(node.name in nodes for nodes in listed) if any(listed) else True

    @cached_property
    def reservations(self) -> tuple[Reservation, ...]:
        """Return all reservations."""
        return tuple(
            Reservation(
                name=row["name"],
                start=row["start_time"],
                end=row["end_time"],
                nodes=frozenset(row["nodelist"] or ()),
                kind=row["kind"],
                users=tuple(row["users"] or ()),
                accounts=tuple(row["accounts"] or ()),
                state=row["state"],
            )
            for row in self.snapshot.reservations.to_dicts()
        )

    @cached_property
    def partitions(self) -> dict[str, SlurmPartition]:
        """Return Slurm's partitions by name."""
        return {partition.name: partition for partition in self.rules.partitions}

    @cached_property
    def qos(self) -> dict[str, SlurmQos]:
        """Return Slurm's QOS by name."""
        return {qos.name: qos for qos in self.rules.qos or ()}

    @cached_property
    def associations(self) -> dict[tuple[str, str], SlurmAssociation]:
        """Return Slurm's associations by account and user ("" for the account itself)."""
        listed = self.rules.associations or ()
        return {(one.account, one.user): one for one in sorted(listed, key=lambda one: one.partition, reverse=True)}

    def account_chain(self, account: str | None) -> tuple[str, ...]:
        """Return the account and those above it."""
        chain: list[str] = []
        while account and account not in chain:
            chain.append(account)
            above = self.associations.get((account, ""))
            account = above.parent if above else None
        return tuple(chain)

    def scopes(self, row: Row) -> tuple[str, ...]:
        """Return every id that a job counts in: what the connector says, and what its fields say."""
        account, user = own(row, "slurm_account", "team"), row.get("user") or ""
        qos, parts = row.get("slurm_qos"), partitions_of(row)
        key = (account, user, qos, parts, tuple(row.get("bound_by") or ()))
        if key not in self._scopes:
            found = dict.fromkeys(key[4])
            found.update(dict.fromkeys(f"partition:{part}" for part in parts))
            for part in parts:
                if part in self.partitions and self.partitions[part].qos:
                    found[f"qos:{self.partitions[part].qos}"] = None
            if qos:
                found[f"qos:{qos}"] = None
            if account and self.snapshot.meta.system == "slurm":
                found[f"assoc:{account}/{user}"] = None
                found.update(dict.fromkeys(f"account:{one}" for one in self.account_chain(account)))
            self._scopes[key] = tuple(found)
        return self._scopes[key]

    @cached_property
    def usage(self) -> Usage:
        """Return what active jobs use in each scope, and in `SCOPE@user:U` and `SCOPE@account:A`."""
        jobs = self.snapshot.jobs.filter(pl.col("state").is_in(list(HOLDING)))
        own_columns = [name for name in ("slurm_partition", "slurm_account", "slurm_qos") if name in jobs.columns]
        bound = pl.col("bound_by").list.join("\x1f").alias("_bound")
        times = pl.col("tasks").fill_null(1)
        sums = (
            jobs.with_columns(bound)
            .group_by("_bound", "user", "team", "queue", "gpu_model", *own_columns)
            .agg(
                pl.col("bound_by").first(),
                (pl.col("gpus") * times).sum().alias("gpu"),
                (pl.col("cpus") * times).sum().alias("cpu"),
                (pl.col("memory_bytes") * times).sum().alias("memory"),
                (pl.col("nodes") * times).sum().alias("node"),
                times.sum().cast(pl.Float64).alias("jobs"),
            )
        )
        usage = Usage()
        for row in sums.to_dicts():
            figures = {name: float(row[name] or 0.0) for name in ("gpu", "cpu", "memory", "node", "jobs")}
            account, scopes = own(row, "slurm_account", "team"), self.scopes(row)
            usage.add(scopes, figures, row["gpu_model"])
            usage.add((f"{scope}@user:{row['user']}" for scope in scopes), figures, row["gpu_model"])
            usage.add((f"{scope}@account:{account}" for scope in scopes), figures, row["gpu_model"])
        return usage

    def members(self, scope: str) -> list[Row]:
        """Return the jobs that hold something in a scope; `SCOPE@user:U` and `SCOPE@account:A` too."""
        base, _at, who = scope.partition("@")
        found = [row for row in self.holding if base in self.scopes(row)]
        kind, _colon, value = who.partition(":")
        if kind == "user":
            return [row for row in found if row["user"] == value]
        if kind == "account":
            return [row for row in found if own(row, "slurm_account", "team") == value]
        return found

    def gap(self, *words: str) -> bool:
        """Return whether something that could not be read affects one of these tables or columns."""
        return any(what in words for gap in self.snapshot.gaps for what in gap.affects)
