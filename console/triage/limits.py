"""Every limit that a job counts against, with what is used, who holds it and when enough of it is free again.

Slurm's chain (resource_limits): the partition's QOS, the job's own QOS, its association, and each account above; group
limits are checked on each level, and the tightest binds. Other systems, and a Slurm that does not tell its limits, are
read from `quotas` and `queues`, so that the same findings serve them.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

from connectors.rules import SlurmAssociation, SlurmQos
from connectors.text import _
from console.triage.board import Board, Row, end_of, own, partitions_of
from console.triage.words import amount, clock, name, some

Per = Literal["group", "user", "account", "job", "node", "minimum", "wall"]
RESOURCES = {"cpu": "cpu", "mem": "memory", "node": "node", "gres/gpu": "gpu"}


@dataclass(frozen=True, slots=True)
class Level:
    """One limit: `scope` is whom it counts (see `Board.members`), `used` None where it counts one job only."""

    scope: str
    label: str
    over: Literal["qos", "assoc", "queue"]
    per: Per
    resource: str
    model: str | None
    limit: float
    used: float | None
    asked: float

    @property
    def left(self) -> float:
        """Return what is free under the limit."""
        return max(0.0, self.limit - (self.used or 0.0))

    @property
    def blocks(self) -> bool:
        """Return whether the job does not fit under it now."""
        if self.per == "minimum":
            return self.asked < self.limit
        return (self.used or 0.0) + self.asked > self.limit + 1e-6

    @property
    def never(self) -> bool:
        """Return whether the job would not fit under it even if nobody used anything."""
        return self.blocks if self.per == "minimum" else self.asked > self.limit + 1e-6


@lru_cache(maxsize=512)
def split_tres(tres: str) -> tuple[str, str | None]:
    """Return resource and model of a TRES name: `gres/gpu:h100` is ("gpu", "h100"), `license/x` ("license", "x")."""
    base, _colon, model = tres.partition(":")
    if base in RESOURCES:
        return RESOURCES[base], model or None
    kind, _slash, rest = tres.partition("/")
    return (kind, rest) if rest else (tres, None)


def asked(row: Row, resource: str, model: str | None = None) -> float:
    """Return what one task of a job asks of a resource; a model's limit counts only jobs of that model."""
    if resource == "gpu":
        if model and (row.get("gpu_model") or "").lower() != model.lower():
            return 0.0
        return float(row.get("gpus") or 0.0)
    if resource in {"jobs", "submit"}:
        return 1.0
    column = {"cpu": "cpus", "memory": "memory_bytes", "node": "nodes"}.get(resource)
    return float(row.get(column) or 0.0) if column else 0.0


def _label(scope: str) -> str:
    kind, _colon, rest = scope.partition(":")
    named = {"qos": _("QOS {name}"), "account": _("account {name}"), "partition": _("partition {name}")}
    if kind == "assoc":
        account, _slash, user = rest.partition("/")
        return _("user {user} in account {account}").format(user=name(user), account=name(account))
    return named.get(kind, _("queue {name}")).format(name=name(rest or scope))


def _part(scope: str, kind: str, who: str) -> tuple[str, str]:
    label = _("user {user} in {scope}") if kind == "user" else _("account {user} in {scope}")
    return f"{scope}@{kind}:{who}", label.format(user=name(who), scope=_label(scope))


class Limits:
    """The limits of one cluster."""

    def __init__(self, board: Board) -> None:
        """Read nothing yet."""
        self.board = board
        self._stated: dict[tuple[str, str, str | None], float] | None = None

    def used(self, scope: str, resource: str, model: str | None) -> float:
        """Return the usage that the system states for a scope, else the sum over its running jobs."""
        if self._stated is None:
            self._stated = {}
            for row in self.board.snapshot.quotas.to_dicts():
                if row["used"] is not None and row["queue"]:
                    model_key = row["model"].lower() if row["model"] else None
                    self._stated[row["queue"], _resource(row["resource"]), model_key] = row["used"]
        stated = self._stated.get((scope, resource, model.lower() if model else None))
        return self.board.usage.of(scope, resource, model) if stated is None else stated

    def chain(self, row: Row) -> list[Level]:
        """Return every limit that this job counts against, the tightest scope first within a resource."""
        rules = self.board.rules
        levels = list(self._from_tables(row))
        if rules.qos is not None:
            levels = [*self._from_qos(row), *(one for one in levels if not one.scope.startswith("qos:"))]
        if rules.associations is not None:
            slurm = ("account:", "assoc:")
            levels = [*self._from_accounts(row), *(one for one in levels if not one.scope.startswith(slurm))]
        return levels

    def _group(
        self, scope: str, over: Literal["qos", "assoc"], limits: Mapping[str, float], row: Row
    ) -> Iterator[Level]:
        for tres, limit in limits.items():
            resource, model = split_tres(tres)
            if math.isfinite(limit):
                yield Level(
                    scope,
                    _label(scope),
                    over,
                    "group",
                    resource,
                    model,
                    limit,
                    self.used(scope, resource, model),
                    asked(row, resource, model),
                )

    def _share(
        self, scope: str, kind: Literal["user", "account"], who: str, limits: Mapping[str, float], row: Row
    ) -> Iterator[Level]:
        part, label = _part(scope, kind, who)
        for tres, limit in limits.items():
            resource, model = split_tres(tres)
            if math.isfinite(limit):
                used = self.board.usage.of(part, resource, model)
                yield Level(part, label, "qos", kind, resource, model, limit, used, asked(row, resource, model))

    def _each(
        self, scope: str, over: Literal["qos", "assoc"], per: Per, limits: Mapping[str, float], row: Row
    ) -> Iterator[Level]:
        for tres, limit in limits.items():
            resource, model = split_tres(tres)
            if math.isfinite(limit):
                want = asked(row, resource, model)
                if per == "node":
                    want = _per_node(row, resource, want)
                yield Level(scope, _label(scope), over, per, resource, model, limit, None, want)

    def _from_qos(self, row: Row) -> Iterator[Level]:
        user, account = row.get("user") or "", own(row, "slurm_account", "team") or ""
        for scope in self.board.scopes(row):
            qos = self.board.qos.get(scope[4:]) if scope.startswith("qos:") else None
            if qos is None:
                continue
            yield from self._group(scope, "qos", qos.grp_tres, row)
            yield from self._share(scope, "user", user, qos.max_tres_per_user, row)
            yield from self._share(scope, "account", account, qos.max_tres_per_account, row)
            yield from self._each(scope, "qos", "job", qos.max_tres_per_job, row)
            yield from self._each(scope, "qos", "node", qos.max_tres_per_node, row)
            yield from self._each(scope, "qos", "minimum", qos.min_tres_per_job, row)
            yield from self._counts_of_qos(scope, qos, user, account)
            if math.isfinite(qos.max_wall_s):
                want = _wall(row)
                yield Level(scope, _label(scope), "qos", "wall", "wall", None, qos.max_wall_s, None, want)

    def _counts_of_qos(self, scope: str, qos: SlurmQos, user: str, account: str) -> Iterator[Level]:
        usage = self.board.usage
        if math.isfinite(qos.grp_jobs):
            used = usage.of(scope, "jobs")
            yield Level(scope, _label(scope), "qos", "group", "jobs", None, qos.grp_jobs, used, 1)
        kinds: tuple[tuple[Literal["user", "account"], str, float], ...] = (
            ("user", user, qos.max_jobs_per_user),
            ("account", account, qos.max_jobs_per_account),
        )
        for kind, who, limit in kinds:
            if math.isfinite(limit):
                part, label = _part(scope, kind, who)
                yield Level(part, label, "qos", kind, "jobs", None, limit, usage.of(part, "jobs"), 1)

    def _from_accounts(self, row: Row) -> Iterator[Level]:
        board, user = self.board, row.get("user") or ""
        account = own(row, "slurm_account", "team")
        chain: list[tuple[str, SlurmAssociation]] = []
        if account and (account, user) in board.associations:
            chain.append((f"assoc:{account}/{user}", board.associations[account, user]))
        for one in board.account_chain(account):
            if (one, "") in board.associations:
                chain.append((f"account:{one}", board.associations[one, ""]))
        inherited: set[str] = set()
        for scope, assoc in chain:
            yield from self._group(scope, "assoc", assoc.grp_tres, row)
            if math.isfinite(assoc.grp_jobs):
                used = board.usage.of(scope, "jobs")
                yield Level(scope, _label(scope), "assoc", "group", "jobs", None, assoc.grp_jobs, used, 1)
            # Max limits are inherited: the nearest level that sets one is the one that counts
            yield from self._nearest(scope, assoc, inherited, row)

    def _nearest(self, scope: str, assoc: SlurmAssociation, seen: set[str], row: Row) -> Iterator[Level]:
        board, user = self.board, row.get("user") or ""
        per_job = {tres: limit for tres, limit in assoc.max_tres_per_job.items() if f"job {tres}" not in seen}
        yield from self._each(scope, "assoc", "job", per_job, row)
        per_node = {tres: limit for tres, limit in assoc.max_tres_per_node.items() if f"node {tres}" not in seen}
        yield from self._each(scope, "assoc", "node", per_node, row)
        if math.isfinite(assoc.max_wall_s) and "wall" not in seen:
            seen.add("wall")
            yield Level(scope, _label(scope), "assoc", "wall", "wall", None, assoc.max_wall_s, None, _wall(row))
        if math.isfinite(assoc.max_jobs) and "jobs" not in seen:
            seen.add("jobs")
            account = own(row, "slurm_account", "team")
            mine = f"assoc:{account}/{user}"
            yield Level(
                mine, _label(mine), "assoc", "user", "jobs", None, assoc.max_jobs, board.usage.of(mine, "jobs"), 1
            )
        seen.update(f"job {tres}" for tres in per_job)
        seen.update(f"node {tres}" for tres in per_node)

    def _from_tables(self, row: Row) -> Iterator[Level]:
        scopes = set(self.board.scopes(row))
        for quota in self.board.snapshot.quotas.to_dicts():
            limit = quota["limit"]
            if limit is None and quota["nominal"] is not None and quota["borrow_limit"] is not None:
                limit = quota["nominal"] + quota["borrow_limit"]
            if quota["queue"] not in scopes or limit is None or not math.isfinite(limit):
                continue
            resource, model, scope = _resource(quota["resource"]), quota["model"], quota["queue"]
            used = self.used(scope, resource, model)
            yield Level(
                scope, _label(scope), _over(scope), "group", resource, model, limit, used, asked(row, resource, model)
            )
        for queue in self.board.snapshot.queues.to_dicts():
            if queue["id"] in scopes:
                yield from self._from_queue(queue, row)

    def _from_queue(self, queue: Row, row: Row) -> Iterator[Level]:
        scope = queue["id"]
        label, over = _label(scope), _over(scope)
        if (limit := queue["max_gpus_per_job"]) is not None and math.isfinite(limit):
            yield Level(scope, label, over, "job", "gpu", None, limit, None, asked(row, "gpu"))
        if (limit := queue["max_gpus_per_user"]) is not None and math.isfinite(limit):
            part, of_user = _part(scope, "user", row.get("user") or "")
            yield Level(
                part, of_user, over, "user", "gpu", None, limit, self.board.usage.of(part, "gpu"), asked(row, "gpu")
            )
        if (limit := queue["max_run_s"]) is not None and math.isfinite(limit) and not scope.startswith("partition:"):
            yield Level(scope, label, over, "wall", "wall", None, limit, None, _wall(row))


def _over(scope: str) -> Literal["qos", "assoc", "queue"]:
    if scope.startswith("qos:"):
        return "qos"
    return "assoc" if scope.startswith(("account:", "assoc:")) else "queue"


def _resource(word: str | None) -> str:
    if word is None:
        return "gpu"
    return {"mem": "memory", "gres/gpu": "gpu", "cpus": "cpu", "nodes": "node"}.get(word, word)


def _per_node(row: Row, resource: str, total: float) -> float:
    if resource == "gpu" and row.get("gpus_per_node") is not None:
        return float(row["gpus_per_node"]) if total else 0.0
    return total / (row.get("nodes") or row.get("min_nodes") or 1)


def _wall(row: Row) -> float:
    limit = row.get("time_limit_s")
    return 0.0 if limit is None else float(limit)


def holders(board: Board, level: Level) -> list[Row]:
    """Return the jobs that hold something of the limit, the largest first."""
    rows = [row for row in board.members(level.scope) if asked(row, level.resource, level.model) > 0]
    return sorted(rows, key=lambda row: -asked(row, level.resource, level.model))


def clears(board: Board, level: Level, rows: list[Row]) -> tuple[datetime | None, list[Row]]:
    """Return when enough holders end by their time limits, and which those are; None where limits don't say."""
    short = (level.used or 0.0) + level.asked - level.limit
    ending = sorted(((end, row) for row in rows if (end := end_of(row, board.now)) is not None), key=lambda one: one[0])
    given: list[Row] = []
    for end, row in ending:
        given.append(row)
        short -= asked(row, level.resource, level.model) * (row["tasks"] or 1)
        if short <= 1e-6:
            return end, given
    return None, []


def holder_text(row: Row, level: Level, now: datetime) -> str:
    """Return `884093 (32 GPUs, ana, ends 16:56)`."""
    end = end_of(row, now)
    ends = _("ends {when}").format(when=clock(end, now)) if end else _("no end known")
    held = amount(asked(row, level.resource, level.model) * (row["tasks"] or 1), level.resource, level.model)
    return _("{job} ({held}, {user}, {ends})").format(job=name(row["id"]), held=held, user=name(row["user"]), ends=ends)


def shares_text(rows: list[Row], level: Level) -> str:
    """Return who holds how much, by account and user: `vision-det 36 (lin 20, ana 16)`."""
    by_account: dict[str, dict[str, float]] = {}
    for row in rows:
        account = own(row, "slurm_account", "team") or "?"
        users = by_account.setdefault(account, {})
        held = asked(row, level.resource, level.model) * (row["tasks"] or 1)
        users[row["user"] or "?"] = users.get(row["user"] or "?", 0.0) + held
    parts = []
    for account, users in sorted(by_account.items(), key=lambda item: -sum(item[1].values())):
        listed = some(
            [
                f"{name(user)} {amount(held, level.resource)}"
                for user, held in sorted(users.items(), key=lambda u: -u[1])
            ],
            3,
        )
        parts.append(f"{name(account)} {amount(sum(users.values()), level.resource)} ({listed})")
    return some(parts, 3)


def partition_limits(board: Board, row: Row) -> list[Any]:
    """Return the partitions of a job that the rules know."""
    return [board.partitions[part] for part in partitions_of(row) if part in board.partitions]
