"""Two forecasts side by side: who gains, who loses, and the verdict in one sentence."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from connectors.change import Cancel, Change, Hold, Requeue, SetQuota, Supposition
from connectors.language import write
from connectors.notation import cells
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
from console.triage.words import clock, figure, name, span

NOTICEABLE_S = 60.0  # shifts below are taken as the same
_SAYS_CELLS = 110
_NO_WAITS = Waits(jobs=0, started=0, p50_s=None, p90_s=None, p95_s=None)


class Stopped(NamedTuple):
    """A running job that an item itself ends or puts back into the queue, and the work that is lost with it."""

    key: str
    name: str
    lost_gpu_s: float | None


def compare(
    before: Forecast,
    after: Forecast,
    items: Sequence[Change | Supposition],
    *,
    history: bool,
    elapsed_ms: float,
    stopped: Sequence[Stopped] = (),
) -> WhatIf:
    """Return the two forecasts side by side, jobs paired by key.

    A job that an item holds, cancels or stops loses, and counts in the verdict like any other; new jobs don't.
    """
    shifts = _shifts(before, after)
    teams = _groups(before.by_team, after.by_team)
    queues = _groups(before.by_queue, after.by_queue)
    seen = {(one.id, one.by) for one in before.preempted}
    more = tuple(one for one in after.preempted if (one.id, one.by) not in seen)
    verdict = _verdict(shifts, lost=bool(more or stopped))
    if verdict == "same" and any(_has_no_play(item) for item in items):
        verdict = "unknown"
    why = _("without history nothing of the past can be replayed") if not history else _("not made yet")
    sentence = _Sentence(before, after, shifts, _named(items))
    return WhatIf(
        cluster=before.cluster, assumed=tuple(write(item) for item in items), baseline=before, changed=after,
        by_team=teams, by_queue=queues, jobs=shifts, preempted=more, verdict=verdict,
        says=_("what this changes is not simulated: it acts through fair share") if verdict == "unknown"
        else sentence.of(teams, more, stopped),
        backtest=Backtest(available=False, why=why), elapsed_ms=elapsed_ms,
    )  # fmt: skip


def _named(items: Sequence[Change | Supposition]) -> frozenset[str]:
    return frozenset(item.job for item in items if isinstance(item, Cancel | Hold | Requeue))


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
    for one in sorted({*old, *new}):
        was, now = old.get(one), new.get(one)
        waits_before = was.waits if was is not None else _NO_WAITS
        waits_after = now.waits if now is not None else _NO_WAITS
        change = None
        if waits_before.p50_s is not None and waits_after.p50_s is not None:
            change = waits_after.p50_s - waits_before.p50_s
        found.append(
            GroupChange(
                name=one,
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


_GAINS, _LOSSES = frozenset({"sooner", "starts"}), frozenset({"later", "starts no more"})


def _verdict(shifts: Sequence[JobShift], *, lost: bool) -> Verdict:
    gain = any(one.word in _GAINS for one in shifts)
    loss = lost or any(one.word in _LOSSES for one in shifts)
    if gain and loss:
        return "trade"
    return "better" if gain else "worse" if loss else "same"


class _Sentence:
    """The verdict in one sentence: the jobs that the items name, teams, new jobs, and what work is lost."""

    def __init__(self, before: Forecast, after: Forecast, shifts: Sequence[JobShift], meant: frozenset[str]) -> None:
        """Tell the jobs that the items name, their ids being `meant`, from the others."""
        self.before, self.after = before, after
        self.meant = [one for one in shifts if one.id in meant]
        self.others = [one for one in shifts if one.id not in meant]

    def of(self, teams: Sequence[GroupChange], preempted: Sequence[Preempted], stopped: Sequence[Stopped]) -> str:
        """Return as many parts as fit, those that decide first."""
        parts = [self._stopped(stopped)] if stopped else []
        parts += [self._shift(one) for one in self.meant if one.word != "new"][:2]
        if preempted:
            text = plural("{count} job is preempted", "{count} jobs are preempted", len(preempted))
            parts.append(text.format(count=len(preempted)))
        parts += [self._shift(one) for one in self.others if one.word == "new"][:2]
        moved = [one for one in self.others if one.word != "new"]
        parts += [_team_says(one) for one in _telling(teams, moved)] or [self._shift(one) for one in moved[:3]]
        return _as_fits(parts) if parts else self._same()

    def _same(self) -> str:
        waits = self.after.waits
        text = plural(
            "no start moves by a minute or more: {started} of {count} waiting job starts within {horizon}, as before",
            "no start moves by a minute or more: {started} of {count} waiting jobs start within {horizon}, as before",
            waits.jobs,
        )  # fmt: skip
        return text.format(started=figure(waits.started), count=figure(waits.jobs), horizon=span(self.after.horizon_s))

    def _stopped(self, stopped: Sequence[Stopped]) -> str:
        lost = [one.lost_gpu_s for one in stopped if one.lost_gpu_s is not None]
        hours = figure(round(sum(lost) / 3600, 1)) if len(lost) == len(stopped) else "?"
        if len(stopped) == 1:
            return _("{job} is stopped, {hours} GPU-hours of work are lost").format(
                job=name(stopped[0].name), hours=hours
            )
        text = plural(
            "{count} running job is stopped, {hours} GPU-hours of work are lost",
            "{count} running jobs are stopped, {hours} GPU-hours of work are lost",
            len(stopped),
        )
        return text.format(count=len(stopped), hours=hours)

    def _shift(self, one: JobShift) -> str:
        job, start, was = name(one.name or one.id), self._when(one.start_after), self._when(one.start_before)
        if one.word == "new":
            return _("{job} would start {time}").format(job=job, time=start)
        if one.start_after is None:
            return _("{job} no longer starts within {horizon} (was {before})").format(
                job=job, horizon=span(self.after.horizon_s), before=was
            )
        return _("{job} starts {time} (was {before})").format(job=job, time=start, before=was)

    def _when(self, when: datetime | None) -> str:
        if when is None:
            return _("not within {horizon}").format(horizon=span(self.before.horizon_s))
        return clock(when, self.before.made_at)


def _as_fits(parts: Sequence[str]) -> str:
    text = parts[0]
    for part in dict.fromkeys(parts[1:]):
        if cells(f"{text}; {part}") <= _SAYS_CELLS:
            text = f"{text}; {part}"
    return text


def _telling(teams: Sequence[GroupChange], moved: Sequence[JobShift]) -> list[GroupChange]:
    """Return the teams whose median wait moves because jobs of theirs move, not because jobs come or go."""
    gain = {one.team or "" for one in moved if one.word in _GAINS}
    loss = {one.team or "" for one in moved if one.word in _LOSSES}
    told = [
        one for one in teams
        if one.wait_p50_change_s is not None
        and ((one.word == "better" and one.name in gain) or (one.word == "worse" and one.name in loss))
    ]  # fmt: skip
    return sorted(told, key=lambda one: (one.wait_p50_change_s or 0.0, one.name))[:4]


def _team_says(one: GroupChange) -> str:
    team, time = name(one.name) if one.name else _("(no team)"), span(abs(one.wait_p50_change_s or 0.0))
    if one.word == "better":
        return _("{team} waits {time} less").format(team=team, time=time)
    return _("{team} waits {time} more").format(team=team, time=time)
