"""The way in: why a job does not run, or what is wrong with it while it runs."""

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from connectors.model import Snapshot
from connectors.text import _
from console.scheduling.forecast import Forecast, JobForecast
from console.triage import running, slurm
from console.triage.board import Board
from console.triage.case import Case, Found
from console.triage.diagnosis import Cause, Diagnosis, Evidence, JobVerdict, Start
from console.triage.limits import Limits
from console.triage.slurm_reasons import classify
from console.triage.words import clock, quoted, span

# Behind these causes Slurm's start time is the end of some time limit or the begin time, not a plan.
_WORTHLESS = frozenset({
    Cause.QUOTA_FULL, Cause.BORROW_BLOCKED, Cause.HELD, Cause.BAD_REQUEST, Cause.CLOSED_BY_ADMIN, Cause.GATED,
})  # fmt: skip


def diagnose(
    snapshot: Snapshot,
    job: dict[str, Any],
    *,
    forecast: Forecast | None = None,
    previous_reason: tuple[str, datetime] | None = None,
) -> Diagnosis:
    """Return why a job does not run: causes in binding order, each with evidence, figures and a next step.

    `job` is a named row of `snapshot.jobs`; now is the snapshot's time. `previous_reason` is the last reason that the
    job had before the system fell back to none, and when that was seen. Times in sentences are in this machine's zone.
    """
    board = Board(snapshot)
    case = Case(board=board, limits=Limits(board), row=job)
    state = job.get("state")
    if state == "pending":
        return _pending(case, forecast, previous_reason)
    if state == "completing":
        found = running.completing(case)
        return _answer(case, found[0].verdict, found[0].finding.says, found)
    if state in {"running", "suspended"}:
        found = running.running(case)
        acts = [one for one in found if one.verdict == "act"]
        verdict: JobVerdict = "act" if acts else "running"
        runs = [running.runs_text(case)] if state == "running" else []
        says = "; ".join([*runs, *(one.finding.says for one in found)])
        return _answer(case, verdict, says, [*acts, *(one for one in found if one not in acts)])
    if state is None or state == "unknown":
        says = _("is in a state that is not known: {raw}").format(raw=quoted(job.get("state_raw") or "?"))
        return _answer(case, "unknown", says, [case.found(Cause.UNKNOWN, "unknown", says, says)])
    return _answer(case, "ok", running.ended_text(case), running.ended(case))


def _answer(case: Case, verdict: JobVerdict, says: str, found: list[Found], start: Start | None = None) -> Diagnosis:
    return Diagnosis(
        job=case.row["id"] or case.row["key"] or "",
        cluster=case.board.snapshot.meta.cluster,
        verdict=verdict,
        says=says,
        causes=tuple(one.finding for one in found),
        start=start,
    )


def _pending(case: Case, forecast: Forecast | None, previous: tuple[str, datetime] | None) -> Diagnosis:
    found = slurm.explain(case)
    if case.reason.topic == "none" and previous is not None:
        found = _with_previous(case, found, previous)
    if case.board.gap("jobs", "jobs.reason_raw"):
        note = case.evidence("derived", _("the job list could not be read in full: this may be old"))
        found[0] = _noted(found[0], note)
    foreseen = _foreseen(case, forecast)
    verdict = found[0].verdict
    start = _start(case, found, forecast, foreseen)
    says = found[0].finding.says
    if start is not None and start.p50 is not None and verdict in {"wait", "unknown"}:
        planned = _("; Slurm plans it for {when} at the latest") if foreseen is None else _("; starts about {when}")
        says += planned.format(when=case.when(start.p50))
    return _answer(case, verdict, says, found, start)


def _noted(found: Found, note: Evidence) -> Found:
    finding = replace(found.finding, evidence=(*found.finding.evidence, note))
    return Found(finding=finding, verdict=found.verdict, short=found.short)


def _with_previous(case: Case, found: list[Found], previous: tuple[str, datetime]) -> list[Found]:
    raw, seen = previous
    age = span((case.now - seen).total_seconds())
    reason = classify(raw)
    first = next((one for one in found if one.finding.cause == Cause.UNKNOWN), found[0])
    text = _("before that it said {raw} ({cause}), {age} ago").format(
        raw=quoted(raw), cause=reason.cause.value, age=age
    )
    note = Evidence(source="squeue", text=text, as_of=seen)
    finding = replace(first.finding, says=f"{first.finding.says}; {text}", evidence=(*first.finding.evidence, note))
    changed = Found(finding=finding, verdict=first.verdict, short=first.short)
    return [changed if one is first else one for one in found]


def _foreseen(case: Case, forecast: Forecast | None) -> JobForecast | None:
    if forecast is None:
        return None
    key, job = case.row.get("key"), case.row.get("id")
    return next((one for one in forecast.jobs if one.key == key or one.id == job), None)


def _start(case: Case, found: list[Found], forecast: Forecast | None, foreseen: JobForecast | None) -> Start | None:
    verdict = found[0].verdict
    if verdict == "never":
        return None
    if forecast is not None and foreseen is not None and not foreseen.never:
        basis = _("forecast of {when}; run times from {basis}").format(
            when=clock(forecast.made_at, case.now), basis=forecast.basis
        )
        return Start(p50=foreseen.start_p50, p90=foreseen.start_p90, basis=basis)
    expected = case.row.get("expected_start_time")
    stated = {one.finding.cause for one in found if one.verdict != "never"}
    if verdict == "act" or expected is None or expected <= case.now or stated & _WORTHLESS:
        return None
    basis = _("Slurm's own plan as of {when}, by time limits: no later than").format(when=case.when(case.now))
    return Start(p50=expected, p90=None, basis=basis)
