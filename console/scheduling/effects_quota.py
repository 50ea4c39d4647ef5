"""What setting a quota, or stopping a queue, does to rules and tables: both are kept alike."""

import math
from typing import Any

import msgspec
import polars as pl

from connectors.change import SetQuota
from connectors.errors import BadWords, NotFound
from connectors.model import Snapshot
from connectors.rules import Limits, SlurmRules
from console.scheduling.limits import GPU

_TABLE_FIELDS = (("nominal", "nominal"), ("limit", "limit"), ("borrow", "borrow_limit"), ("lend", "lend_limit"))


def set_quota(snapshot: Snapshot, change: SetQuota) -> Snapshot:
    """Return the snapshot with the figures of a queue's quota set, in `quotas`, `queues` and the typed rules."""
    if change.queue not in snapshot.queues["id"] and change.queue not in snapshot.quotas["queue"]:
        raise NotFound("queue", change.queue, cluster=snapshot.meta.cluster)
    if isinstance(snapshot.rules, SlurmRules):
        snapshot = snapshot.with_rules(_slurm(snapshot, snapshot.rules, change))
    snapshot = snapshot.with_tables(quotas=_quotas(snapshot, change))
    return snapshot.with_tables(queues=_queues(snapshot, change))


def figure_of(change: SetQuota) -> float | None:
    """Return the figure that Slurm can hold: the limit, by whatever name it was given."""
    named = [value for value in (change.gpus, change.limit, change.nominal) if value is not None]
    return named[0] if named else None


def _slurm(snapshot: Snapshot, rules: SlurmRules, change: SetQuota) -> SlurmRules:
    kind, _colon, name = change.queue.partition(":")
    figure = figure_of(change)
    if change.borrow is not None or change.lend is not None:
        raise BadWords(f"{change.queue}: Slurm knows no borrowing or lending", text=change.queue)
    if kind == "partition":
        return _slurm_partition(rules, change, name, figure)
    if kind == "qos":
        qos = next((one for one in rules.qos or () if one.name == name), None)
        if qos is None:
            raise NotFound("QOS", name, cluster=snapshot.meta.cluster)
        new = msgspec.structs.replace(
            qos, grp_tres=_with(qos.grp_tres, change, figure),
            max_wall_s=qos.max_wall_s if change.max_run_s is None else change.max_run_s,
        )  # fmt: skip
        return msgspec.structs.replace(rules, qos=tuple(new if one is qos else one for one in rules.qos or ()))
    account, _slash, user = name.partition("/")
    rows = rules.associations or ()
    row = next((one for one in rows if one.account == account and one.user == user and not one.partition), None)
    if row is None:
        raise NotFound("association", change.queue, cluster=snapshot.meta.cluster)
    changed = msgspec.structs.replace(
        row, grp_tres=_with(row.grp_tres, change, figure),
        shares=row.shares if change.weight is None else change.weight,
        max_wall_s=row.max_wall_s if change.max_run_s is None else change.max_run_s,
    )  # fmt: skip
    return msgspec.structs.replace(rules, associations=tuple(changed if one is row else one for one in rows))


def _slurm_partition(rules: SlurmRules, change: SetQuota, name: str, figure: float | None) -> SlurmRules:
    part = next((one for one in rules.partitions if one.name == name), None)
    if part is None:
        raise NotFound("partition", name)
    if figure is not None:
        hint = f"set it on qos:{part.qos}" if part.qos else "set it on a QOS, an account or a user"
        raise BadWords(f"{change.queue}: a Slurm partition holds no GPU quota of its own", hint=hint)
    limit = part.max_time_s if change.max_run_s is None else change.max_run_s
    new = msgspec.structs.replace(part, max_time_s=limit)
    return msgspec.structs.replace(rules, partitions=tuple(new if one is part else one for one in rules.partitions))


def _with(limits: Limits, change: SetQuota, figure: float | None) -> Limits:
    if figure is None:
        return limits
    resource = {"gpu": GPU, "memory": "mem"}.get(change.resource, change.resource)
    name = f"{GPU}:{change.model}" if resource == GPU and change.model is not None else resource
    kept = {key: value for key, value in limits.items() if key.casefold() != name.casefold()}
    return kept if math.isinf(figure) else {**kept, name: figure}


def _quotas(snapshot: Snapshot, change: SetQuota) -> pl.DataFrame:
    frame = snapshot.quotas
    figures = {column: getattr(change, name) for name, column in _TABLE_FIELDS}
    row = (
        (pl.col("queue") == change.queue)
        & (pl.col("resource").fill_null("gpu") == change.resource)
        & pl.col("model").eq_missing(pl.lit(change.model, dtype=pl.String))
    )
    found = frame.filter(row)
    if change.gpus is not None:
        main = found["main"][0] if found.height else None
        figures["limit" if main not in frame.columns else main] = change.gpus
    set_figures = {column: value for column, value in figures.items() if value is not None}
    if not set_figures:
        return frame
    if not found.height:
        new: dict[str, Any] = {
            "cluster": snapshot.meta.cluster, "queue": change.queue, "resource": change.resource, "model": change.model,
            **set_figures,
        }  # fmt: skip
        return pl.concat([frame, pl.DataFrame({n: [new.get(n)] for n in frame.columns}, schema=frame.schema)])
    return frame.with_columns(
        pl.when(row).then(pl.lit(value, dtype=pl.Float64)).otherwise(pl.col(column)).alias(column)
        for column, value in set_figures.items()
    )


def _queues(snapshot: Snapshot, change: SetQuota) -> pl.DataFrame:
    figures = {"weight": change.weight, "max_run_s": change.max_run_s}
    chosen = pl.col("id") == change.queue
    return snapshot.queues.with_columns(
        pl.when(chosen).then(pl.lit(value, dtype=pl.Float64)).otherwise(pl.col(column)).alias(column)
        for column, value in figures.items()
        if value is not None
    )


def set_queue_state(snapshot: Snapshot, queue: str, state: str) -> Snapshot:
    """Return the snapshot with a queue stopped or open; a Slurm partition is DOWN or UP."""
    if queue not in snapshot.queues["id"]:
        raise NotFound("queue", queue, cluster=snapshot.meta.cluster)
    kind, _colon, name = queue.partition(":")
    rules = snapshot.rules
    if isinstance(rules, SlurmRules) and kind == "partition":
        word = "DOWN" if state == "stopped" else "UP"
        parts = tuple(msgspec.structs.replace(one, state=word) if one.name == name else one for one in rules.partitions)
        snapshot = snapshot.with_rules(msgspec.structs.replace(rules, partitions=parts))
    queues = snapshot.queues.with_columns(
        pl.when(pl.col("id") == queue)
        .then(pl.lit(state, dtype=snapshot.queues.schema["state"]))
        .otherwise(pl.col("state"))
        .alias("state")
    )
    return snapshot.with_tables(queues=queues)
