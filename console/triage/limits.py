"""Every limit that a job counts against, with what is used, who holds it and when enough of it is free again.

Slurm's chain (resource_limits, acct_policy.c): the partition's QOS, the job's own QOS (the other way round with
OverPartQOS), its association, and each account above. Of one figure the first QOS that sets it rules, and no
association is asked then; without such a QOS the group limits of all levels bind. Other systems, and a Slurm that does
not tell its limits, are read from `quotas` and `queues`, so that the same findings serve them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from connectors.rules import SlurmPartition
from connectors.text import _
from console.triage.board import Board, Row, end_of, own, partitions_of
from console.triage.words import amount, clock, name, some

Per = Literal["group", "user", "account", "job", "node", "minimum", "wall"]
Over = Literal["qos", "assoc", "queue"]
RESOURCES = {"cpu": "cpu", "mem": "memory", "node": "node", "gres/gpu": "gpu"}


class Cap(NamedTuple):
    """One limit as it stands, whoever asks; `inherited` ones count only where no nearer level sets the same."""

    scope: str
    over: Over
    per: Per
    resource: str
    model: str | None
    limit: float
    inherited: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """One limit for one job: `scope` is whom it counts (see `Board.members`), `used` None where it counts one job."""

    scope: str
    over: Over
    per: Per
    resource: str
    model: str | None
    limit: float
    used: float | None
    asked: float

    @property
    def label(self) -> str:
        """Return whose limit it is, as words."""
        base, _at, who = self.scope.partition("@")
        if not who:
            return _label(base)
        kind, _colon, value = who.partition(":")
        form = _("user {who} in {scope}") if kind == "user" else _("account {who} in {scope}")
        return form.format(who=name(value), scope=_label(base))

    @property
    def whole(self) -> str:
        """Return whose limit it is, without the user or account that it is counted for."""
        return _label(self.scope.partition("@")[0])

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


def _caps(scope: str, over: Over, per: Per, limits: Mapping[str, float], *, inherited: bool = False) -> list[Cap]:
    return [
        Cap(scope, over, per, *split_tres(tres), limit, inherited)
        for tres, limit in limits.items()
        if math.isfinite(limit)
    ]


def _cap(scope: str, over: Over, per: Per, resource: str, limit: float | None, *, inherited: bool = False) -> list[Cap]:
    if limit is None or not math.isfinite(limit):
        return []
    return [Cap(scope, over, per, resource, None, limit, inherited)]


class Limits:
    """The limits of one cluster."""

    def __init__(self, board: Board) -> None:
        """Read nothing yet."""
        self.board = board
        self._by_scope: dict[str, tuple[Cap, ...]] = {}
        self._chains: dict[tuple[tuple[str, ...], str, str], list[tuple[Cap, str, float | None]]] = {}

    @cached_property
    def _quotas(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for row in self.board.snapshot.quotas.to_dicts():
            found.setdefault(row["queue"] or "", []).append(row)
        return found

    @cached_property
    def _queues(self) -> dict[str, Row]:
        return {row["id"]: row for row in self.board.snapshot.queues.to_dicts() if row["id"]}

    @cached_property
    def _stated(self) -> dict[tuple[str, str, str | None], float]:
        return {
            (queue, _resource(row["resource"]), row["model"].lower() if row["model"] else None): row["used"]
            for queue, rows in self._quotas.items()
            for row in rows
            if row["used"] is not None
        }

    def used(self, scope: str, resource: str, model: str | None) -> float:
        """Return the usage that the system states for a scope, else the sum over its running jobs."""
        stated = self._stated.get((scope, resource, model.lower() if model else None))
        return self.board.usage.of(scope, resource, model) if stated is None else stated

    def caps(self, scope: str) -> tuple[Cap, ...]:
        """Return the limits of one scope: from Slurm's rules where they could be read, else from the tables."""
        if scope not in self._by_scope:
            rules, kind = self.board.rules, scope.partition(":")[0]
            if kind == "qos" and rules.qos is not None:
                found = self._of_qos(scope)
            elif kind in {"account", "assoc"} and rules.associations is not None:
                found = [self._where_set(cap) for cap in self._of_association(scope)]
            else:
                found = self._of_tables(scope)
            self._by_scope[scope] = tuple(found)
        return self._by_scope[scope]

    def chain(self, row: Row, only: Callable[[Cap], bool] | None = None) -> list[Level]:
        """Return every limit that this job counts against: the partition's, its QOS', its own, and each account's.

        `only` picks some of them.
        """
        return [
            Level(scope, cap.over, cap.per, cap.resource, cap.model, cap.limit, used, _asked_of(cap, row))
            for cap, scope, used in self._counted(row)
            if only is None or only(cap)
        ]

    def _counted(self, row: Row) -> list[tuple[Cap, str, float | None]]:
        """Return the limits with whom each counts for this job, and what those use; the same for all jobs of a kind."""
        user, account = row.get("user") or "", own(row, "slurm_account", "team") or ""
        scopes = self.board.scopes(row)
        key = (scopes, user, account)
        if key not in self._chains:
            ruled: set[tuple[str, str, str | None]] = set()
            found: list[tuple[Cap, str, float | None]] = []
            for scope in self._in_order(scopes, row):
                here = [cap for cap in self.caps(scope) if cap.over == "queue" or cap[2:5] not in ruled]
                ruled.update(cap[2:5] for cap in here if cap.over == "qos" or cap.inherited)
                found.extend((cap, *self._whom(cap, user, account)) for cap in here)
            self._chains[key] = found
        return self._chains[key]

    def _in_order(self, scopes: Sequence[str], row: Row) -> list[str]:
        """Return the scopes with QOS first, the partition's before the job's own unless that one says OverPartQOS."""
        own_qos = self.board.qos.get(row.get("slurm_qos") or "")
        over = own_qos is not None and "OverPartQOS" in own_qos.flags
        ranks = {True: 0 if over else 2, False: 1}
        mine = f"qos:{row.get('slurm_qos')}"
        return sorted(scopes, key=lambda scope: ranks[scope == mine] if scope.startswith("qos:") else 3)

    def _whom(self, cap: Cap, user: str, account: str) -> tuple[str, float | None]:
        if cap.per == "group":
            return cap.scope, self.used(cap.scope, cap.resource, cap.model)
        if cap.per not in {"user", "account"}:
            return cap.scope, None
        # an association's own limit counts the association, a QOS' the user or account in it
        who = user if cap.per == "user" else account
        scope = f"assoc:{account}/{user}" if cap.inherited else f"{cap.scope}@{cap.per}:{who}"
        return scope, self.board.usage.of(scope, cap.resource, cap.model)

    def _of_qos(self, scope: str) -> list[Cap]:
        qos = self.board.qos.get(scope[4:])
        if qos is None:
            return []
        return [
            *_caps(scope, "qos", "group", qos.grp_tres),
            *_caps(scope, "qos", "user", qos.max_tres_per_user),
            *_caps(scope, "qos", "account", qos.max_tres_per_account),
            *_caps(scope, "qos", "job", qos.max_tres_per_job),
            *_caps(scope, "qos", "node", qos.max_tres_per_node),
            *_caps(scope, "qos", "minimum", qos.min_tres_per_job),
            *_cap(scope, "qos", "group", "jobs", qos.grp_jobs),
            *_cap(scope, "qos", "user", "jobs", qos.max_jobs_per_user),
            *_cap(scope, "qos", "account", "jobs", qos.max_jobs_per_account),
            *_cap(scope, "qos", "wall", "wall", qos.max_wall_s),
        ]

    def _of_association(self, scope: str) -> list[Cap]:
        kind, _colon, rest = scope.partition(":")
        account, _slash, user = rest.partition("/") if kind == "assoc" else (rest, "", "")
        assoc = self.board.associations.get((account, user))
        if assoc is None:
            return []
        return [
            *_caps(scope, "assoc", "group", assoc.grp_tres),
            *_cap(scope, "assoc", "group", "jobs", assoc.grp_jobs),
            *_caps(scope, "assoc", "job", assoc.max_tres_per_job, inherited=True),
            *_caps(scope, "assoc", "node", assoc.max_tres_per_node, inherited=True),
            *_cap(scope, "assoc", "wall", "wall", assoc.max_wall_s, inherited=True),
            *_cap(scope, "assoc", "user", "jobs", assoc.max_jobs, inherited=True),
        ]

    def _where_set(self, cap: Cap) -> Cap:
        """Return a limit on one job under the name of the account that it comes from.

        Slurm hands such limits down the tree and shows them at every user: as far up as the figure is the same.
        """
        if not cap.inherited or cap.per == "user":
            return cap
        account = cap.scope.partition(":")[2].partition("/")[0]
        for above in self.board.account_chain(account):
            there = self._of_association(f"account:{above}")
            if not any(one.inherited and one[2:] == cap[2:] for one in there):
                break
            cap = cap._replace(scope=f"account:{above}")
        return cap

    def _of_tables(self, scope: str) -> list[Cap]:
        over, found = _over(scope), []
        for quota in self._quotas.get(scope, ()):
            limit = quota["limit"]
            if limit is None and quota["nominal"] is not None and quota["borrow_limit"] is not None:
                limit = quota["nominal"] + quota["borrow_limit"]
            if limit is not None and math.isfinite(limit):
                found.append(Cap(scope, over, "group", _resource(quota["resource"]), quota["model"], limit))
        if (queue := self._queues.get(scope)) is not None:
            found.extend(_cap(scope, over, "job", "gpu", queue["max_gpus_per_job"]))
            found.extend(_cap(scope, over, "user", "gpu", queue["max_gpus_per_user"]))
            if not scope.startswith("partition:"):  # a partition's time limit is a finding of its own
                found.extend(_cap(scope, over, "wall", "wall", queue["max_run_s"]))
        return found


def _over(scope: str) -> Over:
    if scope.startswith("qos:"):
        return "qos"
    return "assoc" if scope.startswith(("account:", "assoc:")) else "queue"


def _resource(word: str | None) -> str:
    if word is None:
        return "gpu"
    return {"mem": "memory", "gres/gpu": "gpu", "cpus": "cpu", "nodes": "node"}.get(word, word)


def _asked_of(cap: Cap, row: Row) -> float:
    if cap.per == "wall":
        return _wall(row)
    want = asked(row, cap.resource, cap.model)
    return _per_node(row, cap.resource, want) if cap.per == "node" else want


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
            return end, _needed(given, -short, level)
    return None, []


def _needed(given: list[Row], spare: float, level: Level) -> list[Row]:
    """Return the jobs without which it would not be enough."""
    kept: list[Row] = []
    for row in given:
        held = asked(row, level.resource, level.model) * (row["tasks"] or 1)
        if held <= spare + 1e-6:
            spare -= held
        else:
            kept.append(row)
    return kept


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


def partition_limits(board: Board, row: Row) -> list[SlurmPartition]:
    """Return the partitions of a job that the rules know."""
    return [board.partitions[part] for part in partitions_of(row) if part in board.partitions]
