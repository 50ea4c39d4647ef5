"""The derived columns of jobs: waits, verdicts, and why in the words of the queue screen (screens.md 4.4).

Rows are told apart only by what their reason needs (a quota by its scopes, a shape by its size), and each kind is
explained once: 50,000 rows take tenths of a second.
"""

import math
from collections.abc import Callable, Sequence

import polars as pl

from connectors.model import ACTIVE_STATES, Snapshot
from connectors.text import _
from console.scheduling.forecast import Forecast
from console.triage import running, slurm
from console.triage.board import Board, Row
from console.triage.case import Case, Found
from console.triage.limit_findings import beyond_limit, enforced
from console.triage.limits import Limits
from console.triage.room_findings import oversize
from console.triage.slurm_doors import over_partition_time
from console.triage.slurm_line import heads
from console.triage.slurm_reasons import Reason, classify
from console.triage.words import hosts

_PART = ("queue", "slurm_partition")
_WHO = (*_PART, "team", "user", "slurm_account", "slurm_qos", "_bound")
_SIZE = ("gpus", "gpus_per_node", "gpu_model", "nodes", "min_nodes", "cpus", "memory_bytes")
_SHAPE = (*_PART, *_SIZE, "constraint", "slurm_reservation", "slurm_exclusive", "_pins")
# The columns that decide what is asked of a resource; all of them where Slurm did not say of which.
_AMOUNTS: dict[str, tuple[str, ...]] = {
    "gpu": ("gpus", "gpu_model"), "cpu": ("cpus",), "memory": ("memory_bytes",), "node": ("nodes",), "jobs": (),
    "submit": (), "wall": ("time_limit_s",),
}  # fmt: skip
# What a topic's short words depend on, besides the reason.
_NEEDS: dict[str, tuple[str, ...]] = {
    "none": (), "unknown": (), "plain": (*_PART, "slurm_qos"), "partition": _PART,
    "access": (*_PART, "slurm_qos", "slurm_account", "team"), "invalid": ("slurm_qos", "slurm_account", "team", "user"),
    "held": ("restarts",), "resources": (*_SHAPE, "_behind"), "down_text": (*_SHAPE, "_behind"), "constraints": _SHAPE,
    "part_time": (*_PART, "time_limit_s", "slurm_qos"), "part_nodes": _SHAPE,
    "begin": ("eligible_time", "expected_start_time", "restarts"), "dependency": ("dependency",),
    "licenses": ("slurm_licenses",), "reservation": ("slurm_reservation",), "nodes": (*_SHAPE, "_behind"),
    "priority": ("queue", "_behind"), "array": ("key", "slurm_array_throttle"),
}  # fmt: skip
_Kinds = list[tuple[list[int], Row]]
_SEP = "\x1f"


def derive(snapshot: Snapshot, forecast: Forecast | None = None) -> pl.DataFrame:
    """Return jobs with wait_s, run_s, gpu_h, cost_per_hour, verdict, why, start_p50, start_p90 and idle_s.

    wait_s: seconds from submission to the start, or to now while it waits. run_s: seconds from its start to its end,
    or to now. gpu_h: GPU-hours held so far. cost_per_hour: of its GPUs while it holds them, null without a price.
    verdict: RUNNING, WAIT, ACT, NEVER, UNKNOWN, or OK for a job that ended. idle_s is null: no source has said it.
    """
    jobs, now = snapshot.jobs, pl.lit(snapshot.meta.taken_at)
    started, pending = pl.col("start_time"), pl.col("state") == "pending"
    holds = pl.col("state").is_in(["running", "suspended", "completing"])
    start = pl.when(pending).then(None).otherwise(started)
    end = pl.when(holds).then(now).otherwise(pl.col("end_time"))
    waited = pl.when(pending).then(now).otherwise(start) - pl.col("submit_time")
    run_s = _seconds(end - start)
    frame = jobs.with_columns(
        _seconds(waited).alias("wait_s"),
        run_s.alias("run_s"),
        (run_s * pl.col("gpus") * pl.col("tasks").fill_null(1) / 3600).alias("gpu_h"),
    )
    frame = _with_cost(frame, snapshot)
    frame = _with_verdicts(frame, snapshot)
    frame = _with_forecast(frame, forecast)
    return frame.with_columns(pl.lit(None, dtype=pl.Float64).alias("idle_s"))


def _seconds(span: pl.Expr) -> pl.Expr:
    # clocks that disagree give no negative waits
    return (span.dt.total_microseconds() / 1e6).clip(lower_bound=0.0)


def _with_cost(frame: pl.DataFrame, snapshot: Snapshot) -> pl.DataFrame:
    prices = snapshot.prices.filter(pl.col("price_per_gpu_hour").is_not_null())
    holds = pl.col("state").is_in(["running", "suspended", "completing"])
    if prices.is_empty():
        return frame.with_columns(pl.lit(None, dtype=pl.Float64).alias("cost_per_hour"))
    # of several prices of a model the newest one counts
    newest = (
        prices.sort("as_of", nulls_last=False)
        .with_columns(pl.col("model").str.to_lowercase().alias("_model"))
        .group_by("_model", maintain_order=True)
        .agg(pl.col("price_per_gpu_hour").last().cast(pl.Float64).alias("_price"))
    )
    priced = frame.with_columns(pl.col("gpu_model").str.to_lowercase().alias("_model")).join(
        newest, on="_model", how="left", maintain_order="left"
    )
    cost = pl.when(holds).then(pl.col("_price") * pl.col("gpus") * pl.col("tasks").fill_null(1))
    return priced.with_columns(cost.alias("cost_per_hour")).drop("_model", "_price")


def _with_forecast(frame: pl.DataFrame, forecast: Forecast | None) -> pl.DataFrame:
    time = pl.Datetime("us", "UTC")
    if forecast is None or not forecast.jobs:
        nothing = pl.lit(None, dtype=time)
        return frame.with_columns(nothing.alias("start_p50"), nothing.alias("start_p90"))
    starts = pl.DataFrame(
        {
            "key": [one.key for one in forecast.jobs],
            "start_p50": [one.start_p50 for one in forecast.jobs],
            "start_p90": [one.start_p90 for one in forecast.jobs],
            "_never": [one.never for one in forecast.jobs],
        },
        schema={"key": pl.String, "start_p50": time, "start_p90": time, "_never": pl.Boolean},
    ).unique("key", keep="first")
    joined = frame.join(starts, on="key", how="left", maintain_order="left")
    gone = (pl.col("state") != "pending") | (pl.col("verdict") == "NEVER") | pl.col("_never").fill_null(value=False)
    return joined.with_columns(
        pl.when(gone).then(None).otherwise(pl.col(name)).alias(name) for name in ("start_p50", "start_p90")
    ).drop("_never")


def _with_verdicts(frame: pl.DataFrame, snapshot: Snapshot) -> pl.DataFrame:
    indexed = frame.with_row_index("_row")
    told = [*_pending(indexed, snapshot), *_holding(indexed, snapshot), *_ended(indexed)]
    words = pl.concat(told) if told else _table([], [], [])
    return indexed.join(words, on="_row", how="left", maintain_order="left").drop("_row")


def _table(rows: Sequence[int], verdicts: Sequence[str], why: Sequence[str]) -> pl.DataFrame:
    schema = {"_row": pl.UInt32, "verdict": pl.String, "why": pl.String}
    return pl.DataFrame({"_row": rows, "verdict": verdicts, "why": why}, schema=schema)


def _pending(indexed: pl.DataFrame, snapshot: Snapshot) -> list[pl.DataFrame]:
    waiting = indexed.filter(pl.col("state") == "pending")
    if waiting.is_empty():
        return []
    board = Board(snapshot)
    limits = Limits(board)
    topics = {raw: classify(raw).topic for raw in waiting["reason_raw"].unique().to_list()}
    first = heads(board)
    head = pl.col("queue").replace_strict(
        {queue: priority for queue, (_job, priority) in first.items()}, default=None, return_dtype=pl.Float64
    )
    leads = pl.col("id").is_in([job for job, _priority in first.values()])
    prepared = waiting.with_columns(
        pl.col("reason_raw").replace_strict(topics, default="none", return_dtype=pl.String).alias("_topic"),
        pl.col("bound_by").list.join(_SEP).alias("_bound"),
        pl.col("requested_nodes").list.join(_SEP).alias("_pins"),
        pl.when(leads).then(pl.lit("first")).otherwise((pl.col("priority") < head).cast(pl.String)).alias("_behind"),
    )
    told = []
    for (topic,), group in prepared.group_by("_topic"):
        if topic == "limit":
            told.extend(_limited(group, board, limits))
            continue
        needs = _NEEDS[str(topic)]
        if not snapshot.reservations.is_empty() and "gpus" in needs:
            needs = (*needs, "time_limit_s")
        told.append(_explained(_kinds(group, needs), board, limits))
    return [_with_impossible(pl.concat(told), prepared, board, limits)]


def _limited(group: pl.DataFrame, board: Board, limits: Limits) -> list[pl.DataFrame]:
    """Explain rows behind limits, told apart only by whom the limit counts and by what it limits."""
    told = []
    for (raw,), rows in group.group_by("reason_raw"):
        reason = classify(raw if isinstance(raw, str) else None)
        needs = (*_whom(reason, group, board), *_AMOUNTS.get(reason.resource, (*_SIZE, "time_limit_s")))
        if reason.per == "node":
            needs = (*needs, "gpus_per_node", "nodes")
        told.append(_explained(_kinds(rows, needs), board, limits))
    return told


def _whom(reason: Reason, group: pl.DataFrame, board: Board) -> tuple[str, ...]:
    one_for_all = reason.per not in {"user", "account"}
    if reason.over == "qos" and one_for_all and "slurm_qos" in group.columns:
        return (*_PART, "slurm_qos")
    users = any(one.user and (one.grp_tres or math.isfinite(one.grp_jobs)) for one in board.rules.associations or ())
    if reason.over == "assoc" and reason.per == "group" and board.rules.associations is not None and not users:
        return "team", "slurm_account"
    return _WHO


def _kinds(group: pl.DataFrame, needs: Sequence[str], *, reason: bool = True) -> _Kinds:
    """Return rows that are alike in these columns, and one of them as a dict."""
    columns = dict.fromkeys([*(["reason_raw"] if reason else []), *(name for name in needs if name in group.columns)])
    kinds = group.with_row_index("_at").group_by(*columns).agg(pl.col("_row"), pl.col("_at").first())
    firsts = group[kinds["_at"].to_list()].to_dicts()
    return list(zip(kinds["_row"].to_list(), firsts, strict=True))


def _with_impossible(told: pl.DataFrame, prepared: pl.DataFrame, board: Board, limits: Limits) -> pl.DataFrame:
    """Put first what can never be met, whatever the reason of the moment is."""
    never = dict.fromkeys(told.filter(pl.col("verdict") == "NEVER")["_row"].to_list(), "")
    rest = prepared.filter(~pl.col("_topic").is_in(list(slurm.CHECKED)))
    why: dict[int, str] = {}

    def check(kinds: _Kinds, explain: Callable[[Case], Found | None]) -> None:
        for members, first in kinds:
            found = explain(Case(board=board, limits=limits, row=first, brief=True))
            if found is not None:
                why.update((row, found.short) for row in members if row not in never and row not in why)

    check(_kinds(rest, (*_PART, "gpus", "gpus_per_node", "nodes", "min_nodes"), reason=False), oversize)
    check(_kinds(rest, (*_PART, "time_limit_s", "slurm_qos"), reason=False), over_partition_time)
    if enforced(board):
        check(_kinds(_over_a_cap(rest, limits), (*_WHO, *_SIZE, "time_limit_s"), reason=False), beyond_limit)
    if not why:
        return told
    rows = list(why)
    kept = told.filter(~pl.col("_row").is_in(rows))
    return pl.concat([kept, _table(rows, ["NEVER"] * len(rows), list(why.values()))])


def _over_a_cap(rest: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    """Return the rows that ask more than the smallest limit of their kind: only those are looked at one by one."""
    who = [name for name in _WHO if name in rest.columns]
    columns = {"gpu": "gpus", "cpu": "cpus", "memory": "memory_bytes", "node": "nodes", "wall": "time_limit_s"}
    numbered = rest.with_columns(pl.concat_str(pl.col(who).fill_null(""), separator=_SEP).rank("dense").alias("_group"))
    groups = numbered.unique("_group").select("_group", *who[:-1], "bound_by").to_dicts()
    smallest: dict[str, list[float]] = {resource: [] for resource in columns}
    for group in groups:
        caps = [cap for scope in limits.board.scopes(group) for cap in limits.caps(scope)]
        least = any(cap.per == "minimum" for cap in caps)
        for resource, values in smallest.items():
            values.append(-1.0 if least else min((c.limit for c in caps if c.resource == resource), default=math.inf))
    found = {"_group": [group["_group"] for group in groups]} | {f"_{what}": caps for what, caps in smallest.items()}
    caps_frame = pl.DataFrame(found)
    joined = numbered.join(caps_frame.cast({"_group": numbered.schema["_group"]}), on="_group", maintain_order="left")
    over = [pl.col(column).fill_null(0) > pl.col(f"_{resource}") for resource, column in columns.items()]
    return joined.filter(pl.any_horizontal(over)).select(rest.columns)


def _explained(kinds: _Kinds, board: Board, limits: Limits) -> pl.DataFrame:
    rows: list[int] = []
    verdicts: list[str] = []
    why: list[str] = []
    for members, first in kinds:
        found = slurm.explain(Case(board=board, limits=limits, row=first, brief=True))[0]
        rows.extend(members)
        verdicts.extend([found.verdict.upper()] * len(members))
        why.extend([found.short] * len(members))
    return _table(rows, verdicts, why)


def _holding(indexed: pl.DataFrame, snapshot: Snapshot) -> list[pl.DataFrame]:
    active = indexed.filter(pl.col("state").is_in(["running", "suspended", "completing"]))
    if active.is_empty():
        return []
    folded: dict[tuple[str, ...], str] = {}

    def fold(nodes: list[str] | None) -> str:
        key = tuple(nodes or ())
        if key not in folded:
            folded[key] = hosts(key) if key else _("on no node that is named")
        return folded[key]

    why = [fold(nodes) for nodes in active["nodelist"].to_list()]
    told = _table(active["_row"].to_list(), ["RUNNING"] * active.height, why)
    odd = active.filter(_odd(snapshot)).to_dicts()
    if not odd:
        return [told]
    board = Board(snapshot)
    limits = Limits(board)
    rows, verdicts, texts = [], [], []
    for row in odd:
        case = Case(board=board, limits=limits, row=row, brief=True)
        found = running.completing(case) if row["state"] == "completing" else running.running(case)
        worst = next((one for one in found if one.verdict == "act"), found[0] if found else None)
        if worst is not None:
            rows.append(row["_row"])
            verdicts.append(worst.verdict.upper())
            texts.append(f"{worst.short}: {fold(row['nodelist'])}" if row["nodelist"] else worst.short)
    return [told.filter(~pl.col("_row").is_in(rows)), _table(rows, verdicts, texts)]


def _odd(snapshot: Snapshot) -> pl.Expr:
    """Return the rows that may have something wrong: not plainly running, held, or on a node that is not well."""
    silent = pl.col("state_raw").str.to_uppercase().str.contains("NOT_RESPONDING|\\*$").fill_null(value=False)
    poor = pl.col("state").is_in(["down", "drained", "draining"]) | silent | (pl.col("schedulable") == False)  # noqa: E712 - an expression, not a test
    ill = snapshot.nodes.filter(poor)["name"].to_list()
    on_ill = pl.col("nodelist").list.set_intersection(ill).list.len() > 0 if ill else pl.lit(value=False)
    held = pl.col("reason_raw").str.starts_with("JobHeld")
    return (
        (pl.col("state") != "running") | on_ill.fill_null(value=False) | held.fill_null(value=False)
        | (pl.col("priority") == 0).fill_null(value=False)
    )  # fmt: skip


def _ended(indexed: pl.DataFrame) -> list[pl.DataFrame]:
    rest = indexed.filter(~pl.col("state").is_in(list(ACTIVE_STATES)) | pl.col("state").is_null())
    if rest.is_empty():
        return []
    words = {
        "succeeded": _("ended well"), "failed": _("failed"), "cancelled": _("cancelled"),
        "timeout": _("reached its time limit"),
        "out_of_memory": _("ran out of memory"), "node_failed": _("its node failed"), "preempted": _("preempted"),
    }  # fmt: skip
    signal = pl.format(_("signal {}"), pl.col("exit_signal"))
    code = pl.format(_("exit code {}"), pl.col("exit_code"))
    detail = pl.when(pl.col("exit_signal") > 0).then(signal).when(pl.col("exit_code") > 0).then(code)
    state = pl.col("state").cast(pl.String).fill_null("unknown")
    base = state.replace_strict(words, default=None, return_dtype=pl.String)
    why = pl.when(detail.is_not_null()).then(base + ", " + detail).otherwise(base)
    unknown = pl.format(_("state {}"), pl.col("state_raw").fill_null("?"))
    return [
        rest.select(
            "_row",
            pl.when(base.is_null()).then(pl.lit("UNKNOWN")).otherwise(pl.lit("OK")).alias("verdict"),
            pl.when(base.is_null()).then(unknown).otherwise(why).alias("why"),
        )
    ]
