"""The two questions: what will happen, and what would happen instead."""

from collections.abc import Sequence

import polars as pl

from connectors.change import Change, Supposition
from connectors.model import Snapshot
from connectors.text import plural
from console.scheduling.cluster import HOLDING_STATES
from console.scheduling.compare import Stopped, compare
from console.scheduling.effects import change_snapshot
from console.scheduling.estimates import Estimates, basis, learn
from console.scheduling.forecast import Forecast, WhatIf
from console.scheduling.report import make_forecast
from console.scheduling.simulator import simulate
from console.scheduling.world import make_world

_MOST_PLAYED = 2_500  # jobs times seeds: beyond it fewer seeds are played, and `Forecast.seeds` says how many


def forecast(
    snapshot: Snapshot, *, history: pl.DataFrame | None = None, horizon_s: float = 86400.0, seeds: int = 20
) -> Forecast:
    """Return what would happen from `meta.taken_at` on, with no new arrivals.

    `history` holds finished jobs in the schema of `jobs`; without it run times are the time limits and one run says
    all. Large queues are played with fewer seeds than asked for.
    """
    return _forecast(snapshot, learn(history), horizon_s, seeds)


def whatif(
    snapshot: Snapshot,
    items: Sequence[Change | Supposition],
    *,
    history: pl.DataFrame | None = None,
    horizon_s: float = 86400.0,
    seeds: int = 20,
    elapsed_ms: float = 0.0,
) -> WhatIf:
    """Return forecasts without and with resolved changes and suppositions, with the same seeds and estimates.

    Raises the errors of `effects.apply_changes` and `effects.suppose` for items that make no sense here.
    """
    estimates = learn(history)
    changed = change_snapshot(snapshot, items)
    before = _forecast(snapshot, estimates, horizon_s, seeds)
    after = _forecast(changed, estimates, horizon_s, before.seeds)
    stopped = _stopped(snapshot, changed)
    return compare(before, after, items, history=estimates.known, elapsed_ms=elapsed_ms, stopped=stopped)


def _stopped(before: Snapshot, after: Snapshot) -> list[Stopped]:
    """Return the jobs that hold something before the changes and not after them."""
    holds = pl.col("state").is_in(list(HOLDING_STATES))
    ran = (pl.lit(before.meta.taken_at) - pl.col("start_time")).dt.total_seconds().clip(lower_bound=0)
    still = after.jobs.filter(holds)["key"].to_list()
    gone = before.jobs.filter(holds & ~pl.col("key").is_in(still)).select(
        "key", pl.coalesce("name", "id").alias("name"),
        lost=(ran * pl.col("gpus") * pl.col("tasks").fill_null(1)).cast(pl.Float64),
    )  # fmt: skip
    return [Stopped(*row) for row in gone.iter_rows()]


def _forecast(snapshot: Snapshot, estimates: Estimates, horizon_s: float, seeds: int) -> Forecast:
    world = make_world(snapshot, estimates)
    jobs = len(world.cluster.pending) + len(world.cluster.running)
    count = 1
    rests_on = basis(estimates, world.cluster)
    if world.has_history:
        count = max(1, min(seeds, _MOST_PLAYED // max(1, jobs)))
        if count < seeds:
            text = plural(
                "simulated with {count} draw of run times instead of {asked}: there are many jobs",
                "simulated with {count} draws of run times instead of {asked}: there are many jobs",
                count,
            )
            rests_on = f"{rests_on}; {text.format(count=count, asked=seeds)}"
    results = [simulate(world, seed, horizon_s) for seed in range(count)]
    return make_forecast(world, results, horizon_s, rests_on)
