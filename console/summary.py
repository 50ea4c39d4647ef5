"""The figures of one cluster for the fleet view, each GPU counted once; what was not said stays None."""

import math

import polars as pl

from connectors.model import Snapshot
from console.messages import Summary
from console.scheduling.forecast import Forecast
from console.triage.slurm_reasons import classify

_LOST = ("down", "drained")
_OUT = ("down", "drained", "draining", "unknown")


def summarise(snapshot: Snapshot, forecast: Forecast | None = None, derived: pl.DataFrame | None = None) -> Summary:
    """Return the figures, by the definitions of `console.messages.Summary`.

    Node figures are None where the nodes were not read or one of them did not say; job figures likewise. Arrays count
    once per task. busy_ratio is the mean of all readings of `gpus.utilization_ratio`. `derived` is what
    `console.derived.derive` made of this snapshot; it is made here where it is not given. start_p50_s is None: a
    forecast of the present queue holds no new job.
    """
    if derived is None:
        from console.derived import derive

        derived = derive(snapshot, forecast)
    figures: dict[str, float | int | None] = {}
    if _read(snapshot, "nodes"):
        figures |= _of_nodes(snapshot)
    if _read(snapshot, "jobs"):
        figures |= _of_jobs(derived)
    busy = snapshot.gpus["utilization_ratio"].mean()
    figures["busy_ratio"] = float(busy) if isinstance(busy, int | float) else None
    return Summary(**figures)  # type: ignore[arg-type] # the names are those of Summary, checked by a test


def _read(snapshot: Snapshot, table: str) -> bool:
    """Return whether a table holds what the system has: an empty one behind a gap is no empty cluster."""
    if any(table in gap.affects for gap in snapshot.gaps):
        return False
    return not snapshot.table(table).is_empty() or table in snapshot.meta.capabilities.reads


def _total(frame: pl.DataFrame, value: pl.Expr) -> float | None:
    column = frame.select(value.alias("value"))["value"]
    return None if column.null_count() else float(column.sum())


def _of_nodes(snapshot: Snapshot) -> dict[str, float | int | None]:
    nodes = snapshot.nodes
    lost = nodes.filter(pl.col("state").is_in(list(_LOST)))
    up = nodes.filter(~pl.col("state").is_in(list(_LOST)) | pl.col("state").is_null())
    unusable = pl.min_horizontal(pl.col("gpus_unusable").fill_null(0.0), pl.col("gpus"))
    serving = up.filter(
        ~pl.col("state").is_in(list(_OUT)),
        pl.col("state").is_not_null(),
        pl.col("schedulable").fill_null(value=True),
    )
    free = (pl.col("gpus") - pl.col("gpus_allocated") - unusable).clip(lower_bound=0.0)
    lost_gpus, unusable_gpus = _total(lost, pl.col("gpus")), _total(up, unusable)
    return {
        "nodes": nodes.height,
        "nodes_lost": lost.height,
        "gpus": _total(nodes, pl.col("gpus")),
        "gpus_allocated": _total(up, pl.col("gpus_allocated")),
        "gpus_free": _total(serving, free),
        "gpus_lost": None if lost_gpus is None or unusable_gpus is None else lost_gpus + unusable_gpus,
        "place8": _place8(snapshot, serving.with_columns(free.alias("_free"))),
    }


def _place8(snapshot: Snapshot, serving: pl.DataFrame) -> int | None:
    largest = snapshot.nodes["gpus"].max()
    if not isinstance(largest, int | float) or largest <= 0 or serving["_free"].null_count():
        return None
    shape = min(8.0, float(largest))
    now = snapshot.meta.taken_at
    begun = (pl.col("start_time") <= now).fill_null(value=True) & (pl.col("end_time") > now).fill_null(value=True)
    kept = {host for hosts in snapshot.reservations.filter(begun)["nodelist"].to_list() for host in hosts or ()}
    open_nodes = serving.filter(~pl.col("name").is_in(list(kept)))
    frees: list[float] = open_nodes["_free"].to_list()
    return sum(math.floor(free / shape + 1e-9) for free in frees)


def _of_jobs(derived: pl.DataFrame) -> dict[str, float | int | None]:
    tasks = pl.col("tasks").fill_null(1)
    pending = derived.filter(pl.col("state") == "pending")
    held = [raw for raw in pending["reason_raw"].unique().to_list() if classify(raw).topic == "held"]
    waiting = pending.filter(~pl.col("reason_raw").is_in(held) | pl.col("reason_raw").is_null())
    oldest = waiting["wait_s"].max()
    return {
        "running": _count(derived.filter(pl.col("state") == "running"), tasks),
        "pending": _count(pending, tasks),
        "pending_gpus": _total(pending, pl.col("gpus") * tasks),
        "never": _count(pending.filter(pl.col("verdict") == "NEVER"), tasks),
        "oldest_wait_s": float(oldest) if isinstance(oldest, int | float) else None,
    }


def _count(frame: pl.DataFrame, tasks: pl.Expr) -> int:
    return int(frame.select(tasks.sum()).item())
