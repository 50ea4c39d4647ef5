"""Limits in words: which one, how much is used and asked, who holds it, when it clears, what would fit."""

import math
from collections.abc import Sequence

from connectors.text import _
from console.triage.board import Board
from console.triage.case import Case, Found
from console.triage.diagnosis import Cause, Evidence
from console.triage.limits import Cap, Level, clears, holder_text, holders, shares_text
from console.triage.words import amount, figure, name, some, span

_BUDGETS = {"minutes", "run minutes", "minutes per job"}


def stated_limit(case: Case) -> Found:
    """Return the limit that Slurm's reason names, with the level of it that binds."""
    reason = case.reason
    if reason.per in _BUDGETS:
        return _budget(case)
    levels = case.limits.chain(case.row, only=lambda cap: _names(case, cap))
    blocking = [level for level in levels if level.blocks]
    if blocking:
        return describe(case, tightest(blocking), stated=True)
    return _unseen(case, levels)


def derived_limits(case: Case, most: int = 2) -> list[Found]:
    """Return limits that block the job and that nobody stated, the tightest first; impossible ones before full ones."""
    if not enforced(case.board):
        return []
    blocking = [level for level in case.limits.chain(case.row) if level.blocks and level.asked > 0]
    ordered = sorted(blocking, key=lambda level: (not level.never, level.left))
    return [describe(case, level, stated=False) for level in ordered[:most]]


def enforced(board: Board) -> bool:
    """Return whether Slurm applies limits at all (AccountingStorageEnforce); where it did not say, it does."""
    enforce = board.rules.enforce
    return not enforce or bool({"limits", "safe", "all", "qos"}.intersection(enforce))


def tightest(levels: Sequence[Level]) -> Level:
    """Return the level that binds: one that can never be met, else the one with the least left."""
    return min(levels, key=lambda level: (not level.never, level.left if level.used is not None else level.limit))


def beyond_limit(case: Case) -> Found | None:
    """Return the limit that the job could not meet even if nobody used anything of it; None where there is none."""
    level = next((one for one in case.limits.chain(case.row) if one.never and one.asked > 0), None)
    return None if level is None else describe(case, level, stated=False)


def _names(case: Case, cap: Cap) -> bool:
    reason = case.reason
    over = cap.over == reason.over or (cap.over == "queue" and reason.over == "qos")
    return cap.per == reason.per and over and (not reason.resource or cap.resource == reason.resource)


def describe(case: Case, level: Level, *, stated: bool) -> Found:
    """Return one level as a finding."""
    if level.per in {"group", "user", "account"}:
        return _impossible(case, level, stated=stated) if level.never else _full(case, level, stated=stated)
    return _impossible(case, level, stated=stated)


def _impossible(case: Case, level: Level, *, stated: bool) -> Found:
    if level.per == "wall":
        asked, cap = span(level.asked), span(level.limit)
        short = _("time limit {asked}; {whose} allows {cap}")
    else:
        asked, cap = (amount(value, level.resource, level.model) for value in (level.asked, level.limit))
        short = (
            _("{asked}; {whose} wants at least {cap}") if level.per == "minimum" else _("{asked}; {whose} allows {cap}")
        )
    short = short.format(asked=asked, whose=level.whole, cap=cap)
    if case.brief:
        return case.found(Cause.NEVER_FITS, "never", short, short, stated=stated)
    forms = {
        "wall": _("time limit {asked}; {whose} allows at most {cap}"),
        "job": _("asks {asked}; {whose} allows at most {cap} a job"),
        "node": _("asks {asked} a node; {whose} allows at most {cap} a node"),
        "minimum": _("asks {asked}; {whose} wants at least {cap} a job"),
        "user": _("asks {asked}; {whose} allows {cap} a user"),
        "account": _("asks {asked}; {whose} allows {cap} an account"),
        "group": _("asks {asked}; {whose} allows {cap} in all"),
    }
    steps = {
        "wall": _("lower its time limit to at most {cap}, or use another QOS or partition"),
        "minimum": _("ask for at least {cap}, or use another QOS"),
    }
    step = steps.get(level.per, _("split it, ask for at most {cap}, use another QOS, or have the cap raised"))
    better = _("at least {cap} can start") if level.per == "minimum" else _("at most {cap} can start")
    if level.per == "wall":
        better = _("a limit of at most {cap} can start")
    return case.found(
        Cause.NEVER_FITS,
        "never",
        short,
        forms[level.per].format(asked=asked, whose=level.whole, cap=cap),
        *_limit_evidence(case, level),
        stated=stated,
        who=_("owner or admin"),
        next_step=step.format(cap=cap),
        counterfactual=better.format(cap=cap),
    )


def _full(case: Case, level: Level, *, stated: bool) -> Found:
    resource, model = level.resource, level.model
    cap, left = amount(level.limit, resource, model), amount(level.left, resource, model)
    free = left if resource == "memory" else figure(level.left)
    short = _("quota: {whose} has {left} of {cap} left").format(whose=level.label, left=free, cap=cap)
    if case.brief:
        return case.found(Cause.QUOTA_FULL, "wait", short, short, stated=stated)
    used = amount(level.used, resource) if resource == "memory" else figure(level.used)
    if resource == "jobs":
        says = _("{whose}: {used} of at most {cap}").format(whose=level.label, used=used, cap=cap)
    else:
        says = _("{whose} uses {used} of its {cap}: {left} left; this asks {asked}").format(
            whose=level.label, used=used, cap=cap, left=left, asked=amount(level.asked, resource, model)
        )
    rows = holders(case.board, level)
    at, freeing = clears(case.board, level, rows)
    facts = list(_limit_evidence(case, level))
    if rows:
        held = some([holder_text(row, level, case.now) for row in rows[:4]], of=len(rows))
        facts.append(case.evidence("derived", _("held by {jobs}").format(jobs=held)))
        if level.per == "group":
            facts.append(case.evidence("derived", _("by account: {shares}").format(shares=shares_text(rows, level))))
    if at:
        ends = some([name(row["id"]) for row in freeing])
        text = _("by time limits enough is free at {when}, with the end of {jobs}")
        facts.append(case.evidence("derived", text.format(when=case.when(at), jobs=ends)))
    facts.extend(worthless_estimate(case))
    own = level.per == "user"
    return case.found(
        Cause.QUOTA_FULL,
        "wait",
        short,
        says,
        *facts,
        stated=stated,
        clears_at=at,
        who=_("its owner: only the ends of that user's own jobs help")
        if own
        else _("nobody, or the admin of {whose}").format(whose=level.label),
        next_step=_raise(level),
        counterfactual=_fits(level),
    )


def _raise(level: Level) -> str:
    need = (level.used or 0.0) + level.asked
    if level.per == "group" and level.resource == "gpu" and not level.scope.startswith("partition:"):
        model = f" model={level.model}" if level.model else ""
        return _("wait, or raise the cap: {command}").format(
            command=f"quota {name(level.scope)} gpus={_plain(need)}{model}"
        )
    if level.per == "user":
        return _("wait for that user's own jobs, or have the cap raised to {need}").format(
            need=amount(need, level.resource)
        )
    return _("wait, or have the cap raised to {need}").format(need=amount(need, level.resource, level.model))


def _plain(value: float) -> str:
    return str(round(value)) if math.isclose(value, round(value)) else repr(value)


def _fits(level: Level) -> str:
    raised = _("a cap of {need} would let it pass").format(
        need=amount((level.used or 0.0) + level.asked, level.resource, level.model)
    )
    if level.resource == "jobs" or level.left <= 0:
        return raised
    fits = _("an ask of at most {left} fits the cap now").format(left=amount(level.left, level.resource, level.model))
    return f"{fits}; {raised}"


def _limit_evidence(case: Case, level: Level) -> tuple[Evidence, ...]:
    if case.brief:
        return ()
    cap = span(level.limit) if level.per == "wall" else amount(level.limit, level.resource, level.model)
    per = {
        "job": _("a job"),
        "node": _("a node"),
        "minimum": _("a job at least"),
        "user": _("a user"),
        "account": _("an account"),
        "wall": _("a job"),
    }
    scope = f"{level.label}: {cap}" + (f" {per[level.per]}" if level.per in per else "")
    text = _("limit of {scope}").format(scope=scope)
    if level.used is not None:
        text += _(", used {used}").format(used=amount(level.used, level.resource, level.model))
    source = "scontrol show assoc_mgr" if case.board.has_rules and level.over != "queue" else "quotas"
    return (case.evidence(source, text),)


def worthless_estimate(case: Case) -> tuple[Evidence, ...]:
    """Return why Slurm's own start time is left aside: behind a quota it is the end of a time limit, not a plan."""
    expected = case.row.get("expected_start_time")
    if expected is None or case.brief:
        return ()
    text = _("Slurm's own estimate, {when}, is left aside: behind a quota it is the end of some time limit, not a plan")
    return (case.evidence("derived", text.format(when=case.when(expected))),)


def _whose(case: Case) -> str:
    if case.reason.over == "assoc":
        return _("account {name} or one above it").format(name=name(case.account))
    return _("QOS {name}").format(name=name(case.qos))


def _unseen(case: Case, levels: Sequence[Level]) -> Found:
    reason = case.reason
    if levels:
        level = min(levels, key=lambda one: one.left)
        if level.per == "wall":
            seen = _("time limit {asked}, and {whose} allows {cap}").format(
                asked=span(level.asked), whose=level.label, cap=span(level.limit)
            )
        else:
            seen = _("{whose} uses {used} of {cap}, this asks {asked}").format(
                whose=level.label,
                used=figure(level.used or 0),
                cap=amount(level.limit, level.resource, level.model),
                asked=amount(level.asked, level.resource, level.model),
            )
        says = _(
            "Slurm says {raw}, but the figures seen now leave room: {seen}; its word is from an earlier look"
        ).format(raw=case.raw, seen=seen)
        return case.found(
            reason.cause,
            "wait",
            _("quota was full; there is room now"),
            says,
            *_limit_evidence(case, level),
            who=_("nobody"),
            next_step=_("wait for the next scheduling cycle"),
        )
    what = {
        "gpu": _("GPUs"),
        "cpu": _("CPUs"),
        "memory": _("memory"),
        "node": _("nodes"),
        "jobs": _("running jobs"),
        "submit": _("jobs in the queue"),
        "wall": _("time limit"),
    }
    limited = what.get(reason.resource, reason.resource or _("a resource"))
    forms = {
        "group": _("{whose} has reached its limit of {what}"),
        "user": _("its user has reached the limit of {what} in {whose}"),
        "account": _("its account has reached the limit of {what} in {whose}"),
        "job": _("asks more {what} than {whose} allows a job"),
        "node": _("asks more {what} a node than {whose} allows"),
        "wall": _("its time limit is longer than {whose} allows"),
        "minimum": _("asks less {what} than {whose} wants a job to ask"),
    }
    says = forms[reason.per].format(whose=_whose(case), what=limited)
    detail = case.evidence("derived", _("the figures of that limit could not be read here"))
    never = reason.verdict == "never"
    return case.found(
        reason.cause,
        reason.verdict,
        says,
        says,
        detail,
        *worthless_estimate(case),
        who=_("owner or admin") if never else _("nobody, or the admin of {whose}").format(whose=_whose(case)),
        next_step=_("ask for less, or have the limit raised") if never else _("wait, or have the limit raised"),
    )


def _budget(case: Case) -> Found:
    reason, whose = case.reason, _whose(case)
    if reason.per == "minutes per job":
        says = _("its size times its time limit is more than {whose} allows a job").format(whose=whose)
        step = _("lower its time limit or its size")
        return case.found(Cause.NEVER_FITS, "never", says, says, who=_("owner"), next_step=step)
    if reason.per == "run minutes":
        says = _("the running jobs of {whose} have as much left to run as it may (size times remaining time)").format(
            whose=whose
        )
        step = _("wait: it clears as they run on, or lower its time limit")
        return case.found(
            Cause.QUOTA_FULL,
            "wait",
            _("quota: {whose}, time left to run").format(whose=whose),
            says,
            who=_("nobody"),
            next_step=step,
        )
    says = _(
        "{whose} has used up its budget of {what}; it comes back as past usage fades, or when an admin resets it"
    ).format(whose=whose, what=_("run time") if reason.resource == "wall minutes" else _("resource minutes"))
    return case.found(
        Cause.QUOTA_FULL,
        "wait",
        _("budget of {whose} is used up").format(whose=whose),
        says,
        *worthless_estimate(case),
        who=_("admin of {whose}").format(whose=whose),
        next_step=_("wait until usage fades, or have the budget raised or reset"),
    )
