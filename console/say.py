"""Diagnoses, forecasts, plans and receipts in words, for the command line. Plain text, safe for any terminal."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from connectors.change import Expectation, Plan, Receipt
from connectors.notation import cells, cut, format_age, format_human_duration, safe_text
from connectors.text import _, plural, weekday
from console.messages import AuditEntry, Proposal
from console.scheduling.forecast import GroupChange, JobShift, Waits, WhatIf
from console.triage.diagnosis import Diagnosis, Finding, Start

_HORIZON_S = 86400.0  # how far the forecast behind an explanation looks (scheduling.whatif.forecast)


def when(value: datetime | None, *, now: datetime | None = None) -> str:
    """Return a moment in the user's zone: `21:25` today, `Tue 03:10` this week, else `12-06 03:10`; `?` for None."""
    if value is None:
        return "?"
    local = value.astimezone()
    here = (now or datetime.now(UTC)).astimezone()
    days = (local.date() - here.date()).days
    if days == 0:
        return local.strftime("%H:%M")
    return f"{weekday(local.weekday())} {local:%H:%M}" if 0 < days < 7 else local.strftime("%m-%d %H:%M")


def duration(seconds: float | None) -> str:
    """Return a span in people's words, `?` for None."""
    if seconds is None:
        return "?"
    sign = "-" if seconds < 0 else ""
    whole = round(abs(seconds) / 60) * 60 if abs(seconds) >= 3600 else round(abs(seconds))
    return sign + format_human_duration(whole)


def columns(rows: Sequence[Sequence[str]], *, indent: int = 2, right: Iterable[int] = ()) -> list[str]:
    """Return rows as aligned columns, widths in cells; the columns named in `right` are right-aligned."""
    if not rows:
        return []
    numeric = set(right)
    widths = [max(cells(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        parts = []
        for i, text in enumerate(row):
            blanks = " " * (widths[i] - cells(text))
            parts.append(blanks + text if i in numeric else text + blanks)
        lines.append(" " * indent + "  ".join(parts).rstrip())
    return lines


def diagnosis(answer: Diagnosis, row: dict[str, object], *, now: datetime) -> str:
    """Return why a job is not running: verdict first, then causes in binding order with their evidence.

    `now` is the cluster's own, which ages and days count from.
    """
    name = safe_text(str(row.get("name") or ""), 60)
    lines = [
        f"{answer.cluster}  "
        + _("job {job}").format(job=answer.job)
        + f"  {name}  {row.get('user') or '?'}/{row.get('team') or '?'}",
        f"{answer.verdict.upper()}  {safe_text(answer.says)}",
    ]
    if answer.start is not None:
        lines.append(_start(answer.start, now))
    for number, finding in enumerate(answer.causes, start=1):
        lines += ["", *_finding(number, finding, now)]
    return "\n".join(lines)


def _start(start: Start, now: datetime) -> str:
    span = duration(_HORIZON_S)
    if start.p50 is None and start.p90 is None:
        return _("does not start within {span}; basis: {basis}").format(span=span, basis=start.basis)
    later = _("not within {span}").format(span=span)
    return _("starts {p50} (P50), {p90} (P90); basis: {basis}").format(
        p50=later if start.p50 is None else when(start.p50, now=now),
        p90=later if start.p90 is None else when(start.p90, now=now),
        basis=start.basis,
    )


def _finding(number: int, finding: Finding, now: datetime) -> list[str]:
    stated = _("stated by the system") if finding.stated_by == "system" else _("worked out here")
    lines = [f"{number}. {finding.cause}  {safe_text(finding.says)}  ({stated})"]
    if finding.clears_at is not None:
        lines.append("   " + _("clears: {when}").format(when=when(finding.clears_at, now=now)))
    if finding.who_acts:
        lines.append("   " + _("who acts: {who}").format(who=safe_text(finding.who_acts)))
    if finding.next_step:
        lines.append("   " + _("next: {step}").format(step=safe_text(finding.next_step)))
    if finding.counterfactual:
        lines.append("   " + _("what would change it: {what}").format(what=safe_text(finding.counterfactual)))
    rows = [
        (
            safe_text(item.source),
            safe_text(item.text),
            _("{age} old").format(age=format_age((now - item.as_of).total_seconds())),
        )
        for item in finding.evidence
    ]
    return lines + columns(rows, indent=5)


def whatif(answer: WhatIf) -> str:
    """Return forecasts without and with the changes: verdict, figures, who wins and loses, the jobs that decide."""
    before, after = answer.baseline, answer.changed
    rows = [("", _("BEFORE"), _("AFTER"), _("CHANGE"))]
    for label, name in ((_("median wait"), "p50_s"), (_("P90 wait"), "p90_s"), (_("P95 wait"), "p95_s")):
        rows.append((label, *_spans(before.waits, after.waits, name, before.horizon_s)))
    rows.append(
        (
            _("jobs that start in {span}").format(span=duration(before.horizon_s)),
            f"{before.waits.started:,}",
            f"{after.waits.started:,}",
            f"{after.waits.started - before.waits.started:+,}",
        )
    )
    if before.utilization_ratio is not None and after.utilization_ratio is not None:
        b, a = before.utilization_ratio * 100, after.utilization_ratio * 100
        rows.append((_("GPUs held, mean %"), f"{b:.1f}", f"{a:.1f}", f"{a - b:+.1f}"))
    rows.append((_("jobs preempted"), f"{len(before.preempted):,}", f"{len(after.preempted):,}", ""))
    lines = [
        f"{answer.cluster}  " + safe_text("; ".join(answer.assumed)),
        f"{answer.verdict.upper()}  {safe_text(answer.says)}",
        "",
        *columns(rows, right=(1, 2, 3)),
    ]
    horizon_s = before.horizon_s
    lines += _groups(_("BY TEAM"), answer.by_team, horizon_s) + _groups(_("BY QUEUE"), answer.by_queue, horizon_s)
    lines += _shifts(answer.jobs)
    for lost in answer.preempted:
        lines.append(
            "  "
            + _("preempted: {id} {name} at {when} for {by}").format(
                id=lost.id, name=safe_text(lost.name, 40), when=when(lost.at), by=lost.by
            )
        )
    lines += ["", _("basis: {basis}").format(basis=safe_text(after.basis))]
    if not answer.backtest.available:
        lines.append(_("no back-test: {why}").format(why=answer.backtest.why))
    lines += [_("not modelled: {what}").format(what=safe_text(what)) for what in after.not_modelled]
    return "\n".join(lines)


def _spans(before: Waits, after: Waits, name: str, horizon_s: float) -> tuple[str, str, str]:
    """Return a percentile before and after, and its change; one that too few jobs reach lies beyond the horizon."""
    spans: list[float | None] = [getattr(waits, name) for waits in (before, after)]
    words = [
        f"> {duration(horizon_s)}" if span is None and waits.started < waits.jobs else duration(span)
        for span, waits in zip(spans, (before, after), strict=True)
    ]
    old, new = spans
    change = "" if old is None or new is None else ("+" if new > old else "") + duration(new - old)
    return words[0], words[1], change


def _groups(title: str, groups: Sequence[GroupChange], horizon_s: float) -> list[str]:
    moved = [group for group in groups if group.word != "same"]
    if not moved:
        return []

    def started(waits: Waits) -> str:
        return f"{waits.started}/{waits.jobs}"

    group_words = {"better": _("better"), "worse": _("worse"), "same": _("same")}
    rows = [(title, _("STARTED"), _("AFTER"), _("P50 BEFORE"), _("AFTER"), _("CHANGE"), "")]
    for group in moved:
        spans = _spans(group.before, group.after, "p50_s", horizon_s)
        rows.append(
            (safe_text(group.name), started(group.before), started(group.after), *spans, group_words[group.word])
        )
    return ["", *columns(rows, right=(1, 2, 3, 4, 5))]


def _shifts(shifts: Sequence[JobShift], limit: int = 12) -> list[str]:
    if not shifts:
        return []
    shift_words = {
        "sooner": _("sooner"), "later": _("later"), "starts": _("starts"), "starts no more": _("starts no more"),
        "new": _("new"),
    }  # fmt: skip
    rows = [(_("JOB"), _("NAME"), _("TEAM"), _("GPUS"), _("BEFORE"), _("AFTER"), _("SHIFT"), "")]
    for shift in shifts[:limit]:
        gpus = "?" if shift.gpus is None else f"{shift.gpus:g}"
        span = "" if shift.shift_s is None else ("+" if shift.shift_s > 0 else "") + duration(shift.shift_s)
        rows.append(
            (
                shift.id, cut(safe_text(shift.name), 28), safe_text(shift.team or "?"), gpus, when(shift.start_before),
                when(shift.start_after), span, shift_words[shift.word],
            )
        )  # fmt: skip
    lines = ["", *columns(rows, right=(3, 4, 5, 6))]
    if len(shifts) > limit:
        rest = len(shifts) - limit
        lines.append("  " + plural("… and {count} more job", "… and {count} more jobs", rest).format(count=rest))
    return lines


def proposal(answer: Proposal) -> str:
    """Return what would be done and what would come of it."""
    lines = [plan(answer.plan)]
    if answer.whatif is not None:
        lines += ["", whatif(answer.whatif)]
    elif answer.whatif_error:
        lines += ["", _("no forecast: {why}").format(why=safe_text(answer.whatif_error))]
    return "\n".join(lines)


def plan(answer: Plan) -> str:
    """Return a plan as readable steps, with what it expects and how it is undone."""
    from connectors.language import write_all

    lines = [_("PLAN on {cluster} ({system})").format(cluster=answer.cluster, system=answer.system)]
    for number, step in enumerate(answer.steps, start=1):
        lines += [f"  {number}. {safe_text(step.says)}", f"     {safe_text(step.native)}"]
    lines += ["  " + _("now: {what}").format(what=expectation(item)) for item in answer.expects]
    lines += ["  " + _("after: {what}").format(what=expectation(item)) for item in answer.results]
    if answer.inverse:
        lines.append("  " + _("undo: {what}").format(what=safe_text(write_all(answer.inverse))))
    else:
        lines.append("  " + _("no way back: {why}").format(why=safe_text(answer.why_no_inverse or "?")))
    lines += ["  " + _("note: {note}").format(note=safe_text(note)) for note in answer.notes]
    return "\n".join(lines)


def expectation(item: Expectation) -> str:
    """Return one expected value as words: `qos:train limit: 24`."""
    from connectors.ground import expected_words, subject

    return f"{safe_text(subject(item))}: {safe_text(expected_words(item))}"


def value_words(value: object) -> str:
    """Return a value read from a table as words: `unlimited` for infinity, `?` for null."""
    if value is None:
        return "?"
    if isinstance(value, float):
        return _("unlimited") if value == float("inf") else f"{value:g}"
    if isinstance(value, list | tuple):
        return ",".join(safe_text(str(item)) for item in value) or "-"
    return safe_text(str(value))


def receipt(name: str, answer: Receipt) -> str:
    """Return what came of a plan, in one line and the values read back."""
    from connectors.ground import expected_words, subject

    outcomes = {
        "verified": _("done and read back"),
        "differs": _("carried out, but reading back shows something else"),
        "partial": _("carried out in part: a later step was refused"),
        "unread": _("sent, but the system could not be read back"),
    }
    lines = [f"{name}  {outcomes[answer.outcome]}"]
    for found in answer.found:
        place = safe_text(subject(found.expected))
        if not found.ok:
            wanted = safe_text(expected_words(found.expected))
            words = _("{place} = {value}, expected {wanted}")
            lines.append("! " + words.format(place=place, value=value_words(found.value), wanted=wanted))
        elif found.value is None:
            lines.append("  " + expectation(found.expected))
        else:
            lines.append(f"  {place} = {value_words(found.value)}")
    if answer.said:
        lines.append("  " + _("the system said: {said}").format(said=safe_text(answer.said)))
    if answer.undo:
        lines.append("  " + _("gpudeck undo {receipt} takes it back").format(receipt=name))
    return "\n".join(lines)


def audit(entries: Sequence[AuditEntry]) -> str:
    """Return the audit log as a table, newest first."""
    if not entries:
        return _("The audit log is empty: nothing was changed with gpudeck by this user.")
    rows = [("", _("WHEN"), _("CLUSTER"), _("WHO"), _("OUTCOME"), _("CHANGE"))]
    for entry in entries:
        outcome = entry.outcome + (f" ({_('undone by')} {entry.undone_by})" if entry.undone_by else "")
        change = safe_text(entry.words) + (f"  [{'; '.join(map(safe_text, entry.effects))}]" if entry.effects else "")
        rows.append((entry.receipt, when(entry.at), entry.cluster, safe_text(entry.who), outcome, change))
    return "\n".join(columns(rows, indent=0))
