"""What the core says: starts, waits, preemptions, utilisation, the jobs that decide it, and how far to trust it.

Definitions. wait: from submission to the (forecast) start, seconds. P50, P90, P95 over jobs use the nearest rank, and
over a job's seeds likewise. utilisation: GPU-seconds held by jobs over GPU-seconds in service, mean over the horizon.
An array's pending row counts once per task in figures over jobs.
"""

from datetime import datetime
from typing import Literal

import msgspec

Verdict = Literal["better", "worse", "trade", "same", "unknown"]


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """Waits over `jobs` jobs, seconds; a percentile is None where too few of them start within the horizon."""

    jobs: int
    started: int
    p50_s: float | None
    p90_s: float | None
    p95_s: float | None


class JobForecast(msgspec.Struct, frozen=True, kw_only=True):
    """One pending job: when it starts and what binds it now.

    `never` says that it cannot start as it stands (too large, gated by something that can't happen, held); `binding`
    is what holds it now: `nodes`, `order`, `quota:QUEUE`, `reservation:NAME`, `held`, `dependency`, `begin`, `limit`,
    `throttle`, `closed`; `frees` are ids of running jobs whose end lets it start, in order of their end. Starts beyond
    the horizon are None with never False.
    """

    key: str
    id: str
    name: str
    user: str | None
    team: str | None
    queue: str | None
    gpus: float | None
    tasks: int
    submit_time: datetime | None
    start_p50: datetime | None
    start_p90: datetime | None
    wait_p50_s: float | None
    wait_p90_s: float | None
    never: bool = False
    why: str = ""
    binding: str = ""
    frees: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class Preempted(msgspec.Struct, frozen=True, kw_only=True):
    """A running job that is stopped for another, and the work that is lost."""

    id: str
    name: str
    user: str | None
    team: str | None
    queue: str | None
    gpus: float | None
    at: datetime
    by: str
    lost_gpu_s: float | None


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one team or queue over the horizon."""

    name: str
    waits: Waits
    gpu_hours: float


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen on one cluster from `made_at` on, with no new arrivals.

    `basis` says in words what run times rest on ("time limits", "history of 132 jobs of ana, else limits");
    `not_modelled` lists what the policy leaves out and this cluster uses.
    """

    cluster: str
    policy: str
    made_at: datetime
    horizon_s: float
    seeds: int
    basis: str
    jobs: tuple[JobForecast, ...]
    waits: Waits
    by_team: tuple[Group, ...]
    by_queue: tuple[Group, ...]
    preempted: tuple[Preempted, ...]
    utilization_ratio: float | None
    gpu_hours: float
    not_modelled: tuple[str, ...] = ()


class GroupChange(msgspec.Struct, frozen=True, kw_only=True):
    """One team or queue before and after; `word` is better, worse or same by the median wait of its jobs."""

    name: str
    before: Waits
    after: Waits
    wait_p50_change_s: float | None
    gpu_hours_before: float
    gpu_hours_after: float
    word: Literal["better", "worse", "same"]


class JobShift(msgspec.Struct, frozen=True, kw_only=True):
    """One job that starts at another time; `shift_s` is after minus before, None where one of them has no start."""

    id: str
    name: str
    user: str | None
    team: str | None
    queue: str | None
    gpus: float | None
    start_before: datetime | None
    start_after: datetime | None
    shift_s: float | None
    word: Literal["sooner", "later", "starts", "starts no more", "new"]


class Backtest(msgspec.Struct, frozen=True, kw_only=True):
    """How the plain replay of the past compares with what happened; `available` False says why there is none."""

    available: bool
    why: str = ""


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """Forecasts without and with changes, side by side.

    `assumed` are the resolved changes and suppositions in the change language; `says` is the verdict in one sentence
    with the figures that decide it; `decided_by` are the jobs that decide it.
    """

    cluster: str
    assumed: tuple[str, ...]
    baseline: Forecast
    changed: Forecast
    by_team: tuple[GroupChange, ...]
    by_queue: tuple[GroupChange, ...]
    jobs: tuple[JobShift, ...]
    preempted: tuple[Preempted, ...]
    verdict: Verdict
    says: str
    backtest: Backtest
    elapsed_ms: float
