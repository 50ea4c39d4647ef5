"""A what-if, a proposal and a receipt as lines: the plan first where one waits, then before, after and change."""

from datetime import datetime, tzinfo

from connectors.change import Receipt
from connectors.text import _, plural
from console.messages import Proposal
from console.scheduling.forecast import GroupChange, JobShift, WhatIf
from console.ui.figures import age, clock, gpu_words, minutes, moment, plain, signed, span
from console.ui.lines import Line, fit, safe, width_of, wrap
from console.ui.state import Verdict

_BAR = 12


def whatif_verdict(whatif: WhatIf) -> Verdict:
    """Return the comparison's verdict for row 2."""
    says = safe(whatif.says)
    match whatif.verdict:
        case "better":
            return Verdict(word="BETTER", says=says)
        case "worse":
            return Verdict(word="WORSE", says=says)
        case "trade":
            return Verdict(word="TRADE", says=says)
        case "same":
            return Verdict(word="SAME", says=says)
        case "unknown":
            return Verdict(word="UNKNOWN", glyph="?", says=says)


def receipt_verdict(receipt: Receipt, receipt_id: str, words: str) -> Verdict:
    """Return what row 2 says when a change was carried out."""
    undo = _("U undoes it") if receipt.undo else _("it has no undo")
    what = safe(words)
    match receipt.outcome:
        case "verified":
            says = _("done and read back: {what}. Receipt {receipt}; {undo}")
            return Verdict(word="OK", says=says.format(what=what, receipt=safe(receipt_id), undo=undo))
        case "differs":
            says = _("carried out, but reading back shows something else: {what}. Receipt {receipt}; {undo}")
        case "partial":
            says = _("only partly carried out: {what}. Receipt {receipt}; {undo}")
        case "unread":
            says = _("carried out, but it could not be read back: {what}. Receipt {receipt}; {undo}")
    return Verdict(word="ACT", glyph="!", says=says.format(what=what, receipt=safe(receipt_id), undo=undo))


def _block(lead: str, tone: str, text: str, width: int, text_tone: str = "base") -> list[Line]:
    parts = wrap(text, max(20, width - width_of(lead) - 1))
    first: Line = ((lead, tone), (parts[0], text_tone))
    return [first, *(((" " * width_of(lead) + part, text_tone),) for part in parts[1:])]


def _row(label: str, unit: str, before: str, after: str, change: str, word: str, width: int) -> Line:
    room = max(24, min(44, width - 45))
    tone = {"better": "good", "worse": "bad"}.get(word, "dim")
    shown = {"better": _("better"), "worse": _("worse"), "same": _("same"), "": ""}[word]
    figures = f"{before:>10}{after:>10}{change:>10}"
    return ((fit("   " + label, room), "base"), (fit(unit, 5), "dim"), (figures, "base"), (f"  {shown}", tone))


def _direction(change: float | None, *, less_is_better: bool) -> str:
    if change is None or abs(change) < 1e-9:
        return "" if change is None else "same"
    return "better" if (change < 0) == less_is_better else "worse"


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _figures(whatif: WhatIf, width: int) -> list[Line]:
    before, after = whatif.baseline, whatif.changed
    room = max(24, min(44, width - 45))
    head = (
        fit("", room + 5)
        + f"{fit(_('BEFORE'), 10, 'right')}{fit(_('AFTER'), 10, 'right')}{fit(_('CHANGE'), 10, 'right')}"
    )
    lines: list[Line] = [((head, "head"),)]
    for label, one, two in (
        (_("Median wait, all"), before.waits.p50_s, after.waits.p50_s),
        (_("P90 wait, all"), before.waits.p90_s, after.waits.p90_s),
    ):
        change = _difference(one, two)
        word = _direction(None if change is None else round(change / 60), less_is_better=True)
        shown = signed(None if change is None else change / 60)
        lines.append(_row(label, _("min"), minutes(one), minutes(two), shown, word, width))
    one, two = before.utilization_ratio, after.utilization_ratio
    change = _difference(one, two)
    hours = span(before.horizon_s)
    busy = ["?" if ratio is None else f"{ratio * 100:.1f}" for ratio in (one, two)]
    word = _direction(None if change is None else round(change, 3), less_is_better=False)
    shown = signed(None if change is None else change * 100, 1)
    lines.append(_row(_("GPUs in use, mean of {time}").format(time=hours), "%", busy[0], busy[1], shown, word, width))
    counts = before.waits.started, after.waits.started
    word = _direction(counts[1] - counts[0], less_is_better=False)
    lines.append(
        _row(_("Jobs that start within {time}").format(time=hours), _("jobs"), f"{counts[0]:,}", f"{counts[1]:,}",
             signed(counts[1] - counts[0]), word, width)
    )  # fmt: skip
    stopped = len(before.preempted), len(after.preempted)
    word = _direction(stopped[1] - stopped[0], less_is_better=True)
    lines.append(
        _row(_("Jobs preempted"), _("jobs"), f"{stopped[0]:,}", f"{stopped[1]:,}", signed(stopped[1] - stopped[0]),
             word, width)
    )  # fmt: skip
    return lines


def _groups(title: str, groups: tuple[GroupChange, ...], width: int) -> list[Line]:
    shown = [group for group in groups if group.word != "same"] or list(groups)
    if not shown:
        return []
    name = max(24, min(28, width - 64))
    most = max((abs(group.wait_p50_change_s or 0.0) for group in shown), default=0.0)
    wide = width >= 110
    head = (
        fit(f" {title}", name)
        + f"{fit(_('BEFORE'), 9, 'right')}{fit(_('AFTER'), 8, 'right')}{fit(_('CHANGE'), 8, 'right')}"
    )
    head += "  " + fit(_("<- less wait"), _BAR) + " " + fit(_("more ->"), _BAR)
    if wide:
        head += f"{fit(_('BEFORE'), 12, 'right')}{fit(_('AFTER'), 9, 'right')}{fit(_('CHANGE'), 9, 'right')}  " + _(
            "GPU h"
        )
    lines: list[Line] = [((head, "head"),)]
    for group in sorted(shown, key=lambda one: one.wait_p50_change_s or 0.0)[:12]:
        change = group.wait_p50_change_s
        size = 0 if change is None or most == 0 else max(1 if change else 0, round(abs(change) / most * _BAR))
        less = ("<" * size if change and change < 0 else "").rjust(_BAR)
        more = (">" * size if change and change > 0 else "").ljust(_BAR)
        figures = f"{minutes(group.before.p50_s):>9}{minutes(group.after.p50_s):>8}"
        figures += f"{signed(None if change is None else change / 60):>8}"
        spans: list[tuple[str, str]] = [
            (fit(f"   {safe(group.name)}", name), "base"), (figures, "base"), ("  " + less, "good"), ("|", "dim"),
            (more, "bad"),
        ]  # fmt: skip
        if wide:
            hours = f"{group.gpu_hours_before:>12,.0f}{group.gpu_hours_after:>9,.0f}"
            hours += f"{signed(group.gpu_hours_after - group.gpu_hours_before):>9}"
            spans.append((hours, "base"))
        lines.append(tuple(spans))
    if len(groups) > len(shown):
        same = plural("{count} other is the same", "{count} others are the same", len(groups) - len(shown))
        lines.append(((f"   {same.format(count=len(groups) - len(shown))}", "dim"),))
    return lines


def _shift_words(shift: JobShift, now: datetime, zone: tzinfo | None) -> str:
    name = f"{safe(shift.id)} {safe(shift.name)}".strip()
    before, after = moment(shift.start_before, now, zone), moment(shift.start_after, now, zone)
    match shift.word:
        case "starts" | "new":
            return _("{job} starts {time}").format(job=name, time=after)
        case "starts no more":
            return _("{job} starts no more within the horizon (was {time})").format(job=name, time=before)
        case "sooner":
            return _("{job} starts {time} (was {before}, {span} sooner)").format(
                job=name, time=after, before=before, span=span(abs(shift.shift_s or 0))
            )
        case "later":
            return _("{job} starts {time} (was {before}, {span} later)").format(
                job=name, time=after, before=before, span=span(abs(shift.shift_s or 0))
            )


def whatif_lines(whatif: WhatIf, width: int, now: datetime, zone: tzinfo | None) -> list[Line]:
    """Return the comparison: figures, teams, the jobs that decide it, and how far to trust it."""
    lines = _figures(whatif, width)
    lines += [(), *_groups(_("BY TEAM  wait P50, min"), whatif.by_team, width)] if whatif.by_team else []
    if whatif.jobs:
        lines.append(())
        total = max(whatif.changed.waits.jobs, len(whatif.jobs))
        title = plural("DECIDED BY  {some} of {count} job", "DECIDED BY  {some} of {count} jobs", total)
        title = title.format(some=len(whatif.jobs), count=plain(total))
        lines.append(((f" {title}", "title"),))
        for shift in whatif.jobs[:10]:
            tone = {"sooner": "good", "starts": "good", "later": "bad", "starts no more": "bad"}.get(shift.word, "base")
            glyph = {"sooner": "<", "later": ">", "starts": "+", "new": "+", "starts no more": "-"}[shift.word]
            lines += _block(f"   {glyph} ", tone, _shift_words(shift, now, zone), width)
    if whatif.preempted:
        lines += [(), ((" " + _("PREEMPTED"), "title"),)]
        for job in whatif.preempted[:10]:
            lost = "?" if job.lost_gpu_s is None else plain(job.lost_gpu_s / 3600)
            says = _("{job} of {user}, {gpus}, at {time} for {by}: {lost} GPU h of work lost").format(
                job=f"{safe(job.id)} {safe(job.name)}", user=safe(job.user or "?"), gpus=gpu_words(job.gpus),
                time=moment(job.at, now, zone), by=safe(job.by), lost=lost,
            )  # fmt: skip
            lines += _block("   x ", "bad", says, width)
    lines.append(())
    trust = _("replayed against the past") if whatif.backtest.available else _("not replayed against the past")
    if whatif.backtest.why:
        trust += f" ({safe(whatif.backtest.why)})"
    seeds = plural("{count} seed", "{count} seeds", whatif.changed.seeds).format(count=whatif.changed.seeds)
    basis = _("{trust}; run times rest on {basis}; policy {policy}; {seeds}, {seconds} s").format(
        trust=trust, basis=safe(whatif.changed.basis), policy=safe(whatif.changed.policy), seeds=seeds,
        seconds=f"{whatif.elapsed_ms / 1000:.1f}",
    )  # fmt: skip
    lines += _block(fit(" " + _("TRUST"), 13), "title", basis, width)
    if whatif.changed.not_modelled:
        says = "; ".join(safe(text) for text in whatif.changed.not_modelled)
        lines += _block(fit(" " + _("NOT MODELLED"), 15), "title", says, width)
    return lines


def proposal_lines(proposal: Proposal, width: int, now: datetime, zone: tzinfo | None, *, writable: bool) -> list[Line]:
    """Return the change that waits: its native steps, its undo, what to know first, and its forecast."""
    plan = proposal.plan
    lines: list[Line] = [((" " + _("PLAN"), "title"), (f"  {safe(proposal.cluster)}, {safe(plan.system)}", "dim"))]
    for at, step in enumerate(plan.steps, 1):
        lines += _block(f"   {at} ", "dim", safe(step.says), width)
        lines += _block("     $ " if step.argv else "     > ", "accent", safe(step.native), width, "bold")
    if not plan.steps:
        lines.append(((f"   {_('no step: nothing would be changed')}", "base"),))
    for note in dict.fromkeys(plan.notes):  # a change of several jobs says the same of each
        lines += _block("   ! ", "warn", safe(note), width)
    if plan.inverse:
        from connectors.language import write_all

        lines += _block(fit(" " + _("UNDO"), 8), "title", safe(write_all(plan.inverse)), width)
    else:
        why = safe(plan.why_no_inverse or _("the system offers none"))
        lines += _block(fit(" " + _("UNDO"), 8), "title", _("none: {why}").format(why=why), width, "warn")
    word = safe(proposal.confirm)
    if writable:
        lines += _block(fit(" " + _("APPLY"), 8), "title", _("A, then type {word}").format(word=word), width)
    else:
        says = _("not from here: gpudeck is read-only (start it with --write)")
        lines += _block(fit(" " + _("APPLY"), 8), "title", says, width, "warn")
    lines.append(())
    if proposal.whatif is None:
        why = safe(proposal.whatif_error or _("the engine gave no reason"))
        return lines + _block(" " + _("NO FORECAST") + "  ", "title", why, width, "warn")
    return lines + whatif_lines(proposal.whatif, width, now, zone)


def _found_words(value: object) -> str:
    if value is None:
        return "?"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return plain(float(value))
    return safe(str(value))


def receipt_lines(receipt: Receipt, receipt_id: str, width: int, now: datetime, zone: tzinfo | None) -> list[Line]:
    """Return what was done: each step with the system's answer, what was read back, and the undo."""
    old = age((now - receipt.applied_at).total_seconds())[0]
    head = f"  {receipt.outcome}, {clock(receipt.applied_at, zone)}, {old}"
    lines: list[Line] = [((" " + _("RECEIPT {receipt}").format(receipt=safe(receipt_id)), "title"), (head, "base"))]
    for answer in receipt.answers:
        lines += _block("     $ ", "accent", safe(answer.native), width, "bold")
        said = safe(" ".join((answer.out + " " + answer.err).split())) or _("said nothing")
        lines += _block("       ", "dim", _("code {code}: {said}").format(code=answer.code, said=said), width)
    lines += [(), ((" " + _("READ BACK"), "title"),)]
    for found in receipt.found:
        key = safe(found.expected.key)
        if found.expected.table == "quotas":  # queue|resource|model
            key = " ".join(part for part in key.split("|") if part)
        what = f"{found.expected.table} {key} {found.expected.column}".strip()
        value, wanted = _found_words(found.value), _found_words(found.expected.value)
        if found.ok:
            lines += _block("   = ", "good", f"{what}: {value}", width)
        else:
            lines += _block("   x ", "bad", _("{what}: {value}, expected {wanted}").format(
                what=what, value=value, wanted=wanted), width)  # fmt: skip
    if not receipt.found:
        lines.append(((f"   {_('nothing was read back')}", "warn"),))
    if receipt.said:
        lines += _block("   ", "dim", safe(receipt.said), width)
    if receipt.undo:
        from connectors.language import write_all

        lines += [(), *_block(fit(" " + _("UNDO"), 8), "title", safe(write_all(receipt.undo)), width)]
    return lines
