"""A diagnosis as lines: the answer, the causes in binding order, the evidence, and what would change it."""

import re
from datetime import datetime, tzinfo
from itertools import zip_longest

from connectors.text import _
from console.triage.diagnosis import Cause, Diagnosis, Finding
from console.ui.figures import age, clock, moment
from console.ui.lines import Line, fit, safe, width_of, wrap
from console.ui.state import Verdict, verdict_words


def verdict_of(diagnosis: Diagnosis) -> Verdict:
    """Return the diagnosis' verdict for row 2 and for its own first line."""
    says = safe(diagnosis.says)
    match diagnosis.verdict:
        case "act":
            return Verdict(word="ACT", glyph="!", says=says)
        case "never":
            return Verdict(word="NEVER", glyph="!", says=says)
        case "unknown":
            return Verdict(word="UNKNOWN", glyph="?", says=says)
        case "running":
            return Verdict(word="RUNNING", says=says)
        case "wait":
            return Verdict(word="WAIT", says=says)
        case "ok":
            return Verdict(word="OK", says=says)


def cause_word(cause: Cause) -> str:
    """Return the class of a cause in the words of people."""
    return {
        Cause.ALL_BUSY: _("all busy"), Cause.BEHIND_IN_LINE: _("behind in line"), Cause.QUOTA_FULL: _("quota full"),
        Cause.BORROW_BLOCKED: _("can't borrow"), Cause.NEVER_FITS: _("never fits"),
        Cause.SHAPE_NO_FIT: _("shape no fit"), Cause.GANG_PARTIAL: _("gang in part"),
        Cause.GANG_DEADLOCK: _("gang deadlock"), Cause.PLACEMENT_RULE: _("placement rule"), Cause.WINDOW: _("window"),
        Cause.NODE_OUT: _("node out"), Cause.DEVICE_FAULT: _("device fault"),
        Cause.DEVICE_NOT_OFFERED: _("no such device"), Cause.BAD_REQUEST: _("bad request"),
        Cause.CLOSED_BY_ADMIN: _("closed by admin"), Cause.HELD: _("held"), Cause.GATED: _("gated"),
        Cause.STARTED_NOT_RUNNING: _("not running yet"), Cause.EVICTED: _("evicted"), Cause.CRASH_LOOP: _("crash loop"),
        Cause.HOLDING_AFTER_END: _("holds after end"), Cause.ACCOUNT: _("account"),
        Cause.VENDOR_CAPACITY: _("vendor is full"), Cause.CONTROL_PLANE: _("control plane"),
        Cause.UNKNOWN: _("unknown"),
    }[cause]  # fmt: skip


_CAUSE, _STATED, _CLEARS, _WHO = 20, 10, 11, 23


def _says_room(width: int) -> int:
    return width - _CAUSE - _STATED - _CLEARS - _WHO


def _causes_head(width: int) -> Line:
    if width < 110:
        return ((fit("   # " + _("CAUSE"), _CAUSE) + _("WHAT IT SAYS"), "head"),)
    says = _says_room(width)
    text = fit("   # " + _("CAUSE"), _CAUSE) + fit(_("WHAT IT SAYS"), says) + fit(_("STATED BY"), _STATED)
    return ((text + fit(_("CLEARS"), _CLEARS) + fit(_("WHO ACTS"), _WHO), "head"),)


def _cause_lines(at: int, cause: Finding, width: int, now: datetime, zone: tzinfo | None) -> list[Line]:
    stated = {"system": _("system"), "derived": _("derived")}[cause.stated_by]
    clears = moment(cause.clears_at, now, zone) if cause.clears_at else "-"
    who = safe(cause.who_acts or "-")
    lines: list[Line]
    name = fit(f"   {at} {cause_word(cause.cause)}", _CAUSE)
    if width < 110:
        room = max(20, width - _CAUSE - 1)
        parts = wrap(safe(cause.says), room)
        lines = [((name, "bold"), (parts[0], "base"))]
        lines += [((" " * _CAUSE + part, "base"),) for part in parts[1:]]
        tail = [stated]
        if cause.clears_at is not None:
            tail.append(_("clears {time}").format(time=clears))
        if cause.who_acts:
            tail.append(who)
        return [*lines, ((" " * _CAUSE + ", ".join(tail), "dim"),)]
    room = _says_room(width)
    says, acts = wrap(safe(cause.says), room - 2), wrap(who, _WHO - 1)
    lines = [(
        (name, "bold"), (fit(says[0], room), "base"), (fit(stated, _STATED), "dim"),
        (fit(clears, _CLEARS), "base"), (fit(acts[0], _WHO), "base"),
    )]  # fmt: skip
    for more, act in zip_longest(says[1:], acts[1:], fillvalue=""):
        gap = " " * (_STATED + _CLEARS)
        lines.append(((" " * _CAUSE + fit(more, room) + gap + fit(act, _WHO), "base"),))
    return lines


def _evidence_lines(at: int, cause: Finding, width: int, now: datetime, zone: tzinfo | None) -> list[Line]:
    lines: list[Line] = [(), ((" " + _("EVIDENCE for {number}").format(number=at), "title"),)]
    if not cause.evidence:
        return [*lines, ((f"   {_('none was given')}", "base"),)]
    name_width = min(24, max(width_of(safe(item.source)) for item in cause.evidence)) + 2
    for item in cause.evidence:
        old = (now - item.as_of).total_seconds()
        tail = f"{clock(item.as_of, zone)}  " + (_("{age} old").format(age=age(old)[0]) if old >= 100 else "")
        tail = fit(tail, 18)
        room = max(20, width - 3 - name_width - 20)
        parts = wrap(safe(item.text), room)
        lines.append((
            (" " * 3 + fit(safe(item.source), name_width), "dim"), (fit(parts[0], room), "base"), ("  " + tail, "dim"),
        ))  # fmt: skip
        lines += [((" " * (3 + name_width) + part, "base"),) for part in parts[1:]]
    return lines


def explain_lines(
    diagnosis: Diagnosis, about: str, width: int, now: datetime, zone: tzinfo | None, *, with_verdict: bool
) -> list[Line]:
    """Return the panel; `about` is the job in safe words, `with_verdict` repeats what row 2 says."""
    lines: list[Line] = [((" " + _("JOB {job}").format(job=safe(diagnosis.job)), "title"), (f"  {about}", "base"))]
    verdict = verdict_of(diagnosis)
    if with_verdict or width_of(verdict.says) > width - 12:  # row 2 has cut it
        word = f" {verdict.glyph} {verdict_words()[verdict.word]}  "
        parts = wrap(verdict.says, max(20, width - width_of(word) - 1))
        lines.append(((word, verdict.tone), (parts[0], "base")))
        lines += [((" " * width_of(word) + part, "base"),) for part in parts[1:]]
    start = diagnosis.start
    if start is not None and start.p50 is not None:
        p50, p90 = moment(start.p50, now, zone), moment(start.p90, now, zone)
        words = (
            _("starts {p50} (P50 and P90); basis: {basis}")
            if p50 == p90
            else _("starts {p50} (P50), {p90} (P90); basis: {basis}")
        )
        says = words.format(p50=p50, p90=p90, basis=safe(start.basis))
        lines += [((f"   {part}", "base"),) for part in wrap(says, max(20, width - 4))]
    elif start is not None:
        lines.append(((f"   {_('no start can be foreseen; basis: {basis}').format(basis=safe(start.basis))}", "base"),))
    lines.append(())
    if not diagnosis.causes:
        lines.append(((f"   {_('No cause was found.')}", "base"),))
    else:
        lines.append(_causes_head(width))
        for at, cause in enumerate(diagnosis.causes, 1):
            lines += _cause_lines(at, cause, width, now, zone)
    lines += _change_lines(diagnosis, width)
    for at, cause in enumerate(diagnosis.causes, 1):
        lines += _evidence_lines(at, cause, width, now, zone)
    return lines


def _change_lines(diagnosis: Diagnosis, width: int) -> list[Line]:
    offers = [(at, cause) for at, cause in enumerate(diagnosis.causes, 1) if cause.counterfactual or cause.next_step]
    if not offers:
        return []
    lines: list[Line] = [(), ((" " + _("WHAT WOULD CHANGE IT"), "title"),)]
    for at, cause in offers:
        texts = [text for text in (cause.counterfactual,) if text]
        for text in texts:
            parts = wrap(safe(text), max(20, width - 7))
            lines.append(((f"   {at} ", "dim"), (parts[0], "base")))
            lines += [((" " * 5 + part, "base"),) for part in parts[1:]]
        if cause.next_step:
            lead = f"   {at} " if not texts else " " * 5
            lines.append(((lead, "dim"), (_("next: ") + safe(cause.next_step), "accent")))
    return lines


def suggestion(diagnosis: Diagnosis) -> str:
    """Return the change or supposition that the first next step with one ends in; empty if there is none.

    `wait, or raise the cap: quota qos:nlp gpus=40` and `gpudeck whatif reshape 17 gpus=4` both end in one.
    """
    from connectors.language import VERBS

    pattern = re.compile(rf"(?:^|: |\bwhatif |\bdo )((?:{'|'.join(VERBS)}) \S.*)$")
    for cause in diagnosis.causes:
        found = pattern.search((cause.next_step or "").strip())
        if found:
            return found.group(1)
    return ""


def copy_text(diagnosis: Diagnosis) -> str:
    """Return the answer as one would paste it into a chat: verdict, causes, evidence, next steps; safe text."""
    lines = [f"{diagnosis.cluster} {diagnosis.job}: {diagnosis.verdict.upper()}  {diagnosis.says}"]
    for at, cause in enumerate(diagnosis.causes, 1):
        lines.append(f"{at}. {cause.cause.value} ({cause.stated_by}): {cause.says}")
        lines += [f"   {item.source}: {item.text} [{item.as_of.isoformat()}]" for item in cause.evidence]
        if cause.next_step:
            lines.append(f"   next: {cause.next_step}")
    return "\n".join(safe(line) for line in lines)
