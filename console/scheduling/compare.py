"""Two forecasts side by side: who gains, who loses, and the verdict in one sentence."""

from collections.abc import Sequence
from datetime import datetime

from connectors.change import Cancel, Change, Hold, Requeue, SetQuota, Supposition
from connectors.language import write
from connectors.text import _, plural
from console.scheduling.forecast import (
    Backtest,
    Forecast,
    Group,
    GroupChange,
    JobForecast,
    JobShift,
    Preempted,
    Verdict,
    Waits,
    WhatIf,
)  # fmt: skip

NOTICEABLE_S = 60.0  # shifts below are taken as the same
_NO_WAITS = Waits(jobs=0, started=0, p50_s=None, p90_s=None, p95_s=None)


def compare(
    before: Forecast, after: Forecast, items: Sequence[Change | Supposition], *, history: bool, elapsed_ms: float
) -> WhatIf:
    """Return the two forecasts side by side, jobs paired by key.

    Jobs that an item itself cancels, holds or requeues don't count in the verdict; new jobs don't either.
    """
    shifts = _shifts(before, after)
    teams = _groups(before.by_team, after.by_team)
    queues = _groups(before.by_queue, after.by_queue)
    seen = {(one.id, one.by) for one in before.preempted}
    more = tuple(one for one in after.preempted if (one.id, one.by) not in seen)
    meant = {item.job for item in items if isinstance(item, Cancel | Hold | Requeue)}
    verdict = _verdict([one for one in shifts if one.id not in meant], more)
    if verdict == "same" and any(_has_no_play(item) for item in items):
        verdict = "unknown"
    why = _("without history nothing of the past can be replayed") if not history else _("not made yet")
    return WhatIf(
        cluster=before.cluster, assumed=tuple(write(item) for item in items), baseline=before, changed=after,
        by_team=teams, by_queue=queues, jobs=shifts, preempted=more, verdict=verdict,
        says=_says(verdict, teams, shifts, more), backtest=Backtest(available=False, why=why), elapsed_ms=elapsed_ms,
    )  # fmt: skip


def _has_no_play(item: Change | Supposition) -> bool:
    """Return whether the item only moves what isn't played: a weight acts through fair share."""
    figures = ("gpus", "nominal", "limit", "borrow", "lend", "max_run_s")
    return isinstance(item, SetQuota) and item.weight is not None and all(getattr(item, one) is None for one in figures)


def _shifts(before: Forecast, after: Forecast) -> tuple[JobShift, ...]:
    old = {job.key: job for job in before.jobs}
    new = {job.key: job for job in after.jobs}
    found = []
    for key, job in {**old, **new}.items():
        was, now = old.get(key), new.get(key)
        shift = _shift(job, was, now)
        if shift is not None:
            found.append(shift)
    found.sort(key=lambda one: (-abs(one.shift_s) if one.shift_s is not None else float("-inf"), one.id))
    return tuple(found)


def _shift(job: JobForecast, was: JobForecast | None, now: JobForecast | None) -> JobShift | None:
    start_before = None if was is None else was.start_p50
    start_after = None if now is None else now.start_p50
    seconds = None
    if was is None:
        word = "new"
    elif start_before is None and start_after is None:
        return None
    elif start_before is None:
        word = "starts"
    elif start_after is None:
        word = "starts no more"
    else:
        seconds = (start_after - start_before).total_seconds()
        if abs(seconds) < NOTICEABLE_S:
            return None
        word = "sooner" if seconds < 0 else "later"
    return JobShift(
        id=job.id, name=job.name, user=job.user, team=job.team, queue=job.queue, gpus=job.gpus,
        start_before=start_before, start_after=start_after, shift_s=seconds, word=word,  # type: ignore[arg-type]  # one of its words
    )  # fmt: skip


def _groups(before: Sequence[Group], after: Sequence[Group]) -> tuple[GroupChange, ...]:
    old = {one.name: one for one in before}
    new = {one.name: one for one in after}
    found = []
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        waits_before = was.waits if was is not None else _NO_WAITS
        waits_after = now.waits if now is not None else _NO_WAITS
        change = None
        if waits_before.p50_s is not None and waits_after.p50_s is not None:
            change = waits_after.p50_s - waits_before.p50_s
        found.append(
            GroupChange(
                name=name,
                before=waits_before,
                after=waits_after,
                wait_p50_change_s=change,
                gpu_hours_before=was.gpu_hours if was is not None else 0.0,
                gpu_hours_after=now.gpu_hours if now is not None else 0.0,
                word=_word(waits_before, waits_after, change),  # type: ignore[arg-type]  # one of its words
            )
        )
    return tuple(found)


def _word(before: Waits, after: Waits, change: float | None) -> str:
    if change is not None:
        return "same" if abs(change) < NOTICEABLE_S else "better" if change < 0 else "worse"
    if before.p50_s is None and after.p50_s is not None and before.jobs:
        return "better"
    if after.p50_s is None and before.p50_s is not None and after.jobs:
        return "worse"
    if before.jobs == after.jobs and before.started != after.started:
        return "better" if after.started > before.started else "worse"
    return "same"


def _verdict(shifts: Sequence[JobShift], preempted: Sequence[Preempted]) -> Verdict:
    gain = any(one.word in {"sooner", "starts"} for one in shifts)
    loss = bool(preempted) or any(one.word in {"later", "starts no more"} for one in shifts)
    if gain and loss:
        return "trade"
    return "better" if gain else "worse" if loss else "same"


def _says(
    verdict: Verdict, teams: Sequence[GroupChange], shifts: Sequence[JobShift], preempted: Sequence[Preempted]
) -> str:
    if verdict == "unknown":
        return _("what this changes is not played: it acts through fair share")
    parts = [_team_says(one) for one in _telling(teams)]
    if not parts:
        parts = [_shift_says(one) for one in shifts[:3]]
    new = [one for one in shifts if one.word == "new"]
    parts += [_shift_says(one) for one in new[:2] if _shift_says(one) not in parts]
    if preempted:
        text = plural("{count} job is preempted", "{count} jobs are preempted", len(preempted))
        parts.append(text.format(count=len(preempted)))
    return "; ".join(parts) if parts else _("no start moves by a minute or more")


def _telling(teams: Sequence[GroupChange]) -> list[GroupChange]:
    moved = [one for one in teams if one.word != "same" and one.wait_p50_change_s is not None]
    return sorted(moved, key=lambda one: (one.wait_p50_change_s or 0.0, one.name))[:4]


def _team_says(one: GroupChange) -> str:
    minutes = abs(one.wait_p50_change_s or 0.0) / 60
    name = one.name or _("(no team)")
    if one.word == "better":
        return _("{team} waits {minutes} min less").format(team=name, minutes=f"{minutes:.0f}")
    return _("{team} waits {minutes} min more").format(team=name, minutes=f"{minutes:.0f}")


def _clock(when: datetime | None) -> str:
    return _("not within the horizon") if when is None else f"{when:%m-%d %H:%M} UTC"


def _shift_says(one: JobShift) -> str:
    if one.word == "new":
        return _("{job} would start {time}").format(job=one.name or one.id, time=_clock(one.start_after))
    return _("{job} starts {time} (was {before})").format(
        job=one.name or one.id, time=_clock(one.start_after), before=_clock(one.start_before)
    )
