"""Slurm's reasons that wait for something else than room: a time, another job, a person, a licence, a reservation."""

import re
from collections.abc import Callable
from datetime import datetime

import polars as pl

from connectors.model import ACTIVE_STATES
from connectors.text import _, plural
from console.triage.board import Reservation, Row, end_of, own
from console.triage.case import Case, Found
from console.triage.diagnosis import Cause, Evidence
from console.triage.room_findings import outage
from console.triage.words import figure, hosts, name, quoted, some, span

_DEPENDENCY = re.compile(
    r"(?P<kind>after\w*|singleton|expand)(?::(?P<ids>[^,?()]+))?(?:\((?P<word>[^)]*)\))?", re.IGNORECASE
)
_FAILED = frozenset({"failed", "cancelled", "timeout", "out_of_memory", "node_failed", "preempted"})


class _Parent:
    """One job that this one waits for, as far as the job list shows it."""

    def __init__(self, case: Case, kind: str, job: str, word: str) -> None:
        """Look it up."""
        self.kind, self.id = kind.lower(), job
        base = job.partition("+")[0].partition("_")[0]
        self.row: Row | None = case.board.find(job) or case.board.find(base)
        self.state: str | None = self.row["state"] if self.row else None
        if self.state is None and "failed" in word.lower():
            self.state = "failed"  # it has left the job list, and Slurm keeps what became of it

    @property
    def kept_from(self) -> bool:
        """Return whether the condition can no longer come true."""
        if self.kind == "afterok":
            return self.state in _FAILED
        return self.kind == "afternotok" and self.state == "succeeded"

    @property
    def done(self) -> bool:
        """Return whether the condition has come true."""
        if self.state is None:
            return False
        if self.kind == "after":
            return self.state != "pending"
        ended = self.state == "succeeded" or self.state in _FAILED
        return ended and not self.kept_from


def parents(case: Case) -> list[_Parent]:
    """Return the jobs that the dependency names, those that are done left out."""
    found: list[_Parent] = []
    for match in _DEPENDENCY.finditer(case.row.get("dependency") or ""):
        for job in (match["ids"] or "").split(":"):
            bare = job.partition("+")[0] if match["kind"].lower() == "after" else job
            if bare.strip():
                found.append(_Parent(case, match["kind"], bare.strip(), match["word"] or ""))
    return [one for one in found if not one.done]


def dependency(case: Case) -> list[Found]:
    """Return GATED: which job it waits for, how that one stands, and whether it can ever come true."""
    waits, text = parents(case), case.row.get("dependency")
    broken = [one for one in waits if one.kept_from]
    if "?" in (text or "") and len(broken) < len(waits):
        broken = []  # one of several is enough
    if case.reason.tail == "never" or broken:
        return [_never(case, broken or waits)]
    if not waits and text and "singleton" in text.lower():
        return [_singleton(case)]
    if not waits:
        says = (
            _("waits for another job: {text}").format(text=quoted(text))
            if text
            else _("waits for another job, and the job list does not say which")
        )
        return [case.found(Cause.GATED, "wait", _("waits for another job"), says, who=_("nobody"), next_step=_("wait"))]
    first = waits[0]
    short = _("after {job}, which {state}").format(job=name(first.id), state=_state_word(first))
    if case.brief:
        return [case.found(Cause.GATED, "wait", short, short)]
    ends = [end_of(one.row, case.now) if one.row and one.state != "pending" else None for one in waits]
    known = None if any(end is None for end in ends) else max(end for end in ends if end is not None)
    listed = some([_parent_text(case, one) for one in waits])
    says = _("waits for {parents}; after that it still has to queue").format(parents=listed)
    facts = [case.evidence("scontrol show job", f"Dependency={quoted(text or '?')}")]
    pending = _("{job} itself is pending: {reason}")
    facts.extend(
        case.evidence("squeue", pending.format(job=name(one.id), reason=quoted(one.row["reason_raw"] or "None")))
        for one in waits
        if one.row and one.state == "pending"
    )
    return [
        case.found(
            Cause.GATED,
            "wait",
            short,
            says,
            *facts,
            clears_at=known,
            who=_("nobody"),
            next_step=_("wait; see the job that it waits for: {command}").format(command=f"explain {name(first.id)}"),
        )
    ]


def _parent_text(case: Case, one: _Parent) -> str:
    word = {"afterok": _("to succeed"), "afternotok": _("to fail"), "after": _("to start")}.get(one.kind, _("to end"))
    if one.row is None:
        return _("{job} {word} (not in the job list: ended, or not known)").format(job=name(one.id), word=word)
    end = end_of(one.row, case.now) if one.state != "pending" else None
    left = (end - case.now).total_seconds() if end else None
    ends = _(", ends by {when}, in {left}").format(when=case.when(end), left=span(left)) if end else ""
    return _("{job} {word} (it {state}{ends})").format(job=name(one.id), word=word, state=_state_word(one), ends=ends)


def _state_word(one: _Parent) -> str:
    words = {
        "pending": _("is still pending"),
        "running": _("runs"),
        "completing": _("is ending"),
        "suspended": _("is suspended"),
        "failed": _("failed"),
        "cancelled": _("was cancelled"),
        "timeout": _("reached its time limit"),
        "out_of_memory": _("ran out of memory"),
        "node_failed": _("lost its node"),
        "preempted": _("was preempted"),
        "succeeded": _("succeeded"),
    }
    return words.get(one.state or "", _("is not in the job list"))


def _never(case: Case, broken: list[_Parent]) -> Found:
    text = quoted(case.row.get("dependency") or "?")
    if broken and broken[0].state is not None:
        one = broken[0]
        ended = one.row["end_time"] if one.row else None
        when = _(" at {when}").format(when=case.when(ended)) if ended else ""
        says = _("waits for {job}, which {state}{when}: the condition {text} can never come true").format(
            job=name(one.id), state=_state_word(one), when=when, text=text
        )
        short = _("after {job}, which {state}").format(job=name(one.id), state=_state_word(one))
    else:
        listed = some([name(one.id) for one in broken]) or text
        says = _("waits for {jobs}, and that can never come true ({text})").format(jobs=listed, text=text)
        short = _("after {jobs}: never satisfied").format(jobs=listed)
    return case.found(
        Cause.GATED,
        "never",
        short,
        says,
        case.evidence("scontrol show job", f"Dependency={text}"),
        who=_("owner"),
        next_step=_("give it another dependency, or: {command}").format(command=f"cancel {case.id}"),
        counterfactual=_("without this dependency it would queue like any other"),
    )


def _singleton(case: Case) -> Found:
    row = case.row
    same = [] if case.brief else _namesakes(case)
    ends = [end_of(one, case.now) if one["state"] != "pending" else None for one in same]
    at = max((end for end in ends if end), default=None) if all(ends) else None
    first = name(same[0]["id"]) if same else _("an earlier one")
    says = _("singleton: it waits until {user}'s earlier jobs named {job} have ended").format(
        user=name(row.get("user")), job=name(row.get("name"))
    )
    if same:
        stands = _("{job} is still pending") if same[0]["state"] == "pending" else _("{job} runs")
        says = f"{says} ({stands.format(job=first)})"
    return case.found(
        Cause.GATED,
        "wait",
        _("after {job} of the same name").format(job=first),
        says,
        clears_at=at,
        who=_("nobody"),
        next_step=_("wait"),
    )


def _namesakes(case: Case) -> list[Row]:
    """Return its user's other jobs of that name that have not ended, those that hold something first."""
    row, jobs = case.row, case.board.snapshot.jobs
    same = (pl.col("name") == row.get("name")) & (pl.col("user") == row.get("user")) & (pl.col("id") != row["id"])
    found = jobs.filter(same & pl.col("state").is_in(list(ACTIVE_STATES))).to_dicts()
    return sorted(found, key=lambda one: one["state"] == "pending")


def begin(case: Case) -> list[Found]:
    """Return GATED until the begin time; after a requeue nobody asked for that time."""
    at, restarts = case.row.get("eligible_time"), case.row.get("restarts") or 0
    if at is None or at <= case.now:
        at = case.row.get("expected_start_time") or at
    if restarts:
        says = plural(
            "was put back into the queue ({count} restart); Slurm lets it start again from {when}",
            "was put back into the queue ({count} restarts); Slurm lets it start again from {when}",
            restarts,
        ).format(count=restarts, when=case.when(at))
        short = _("requeued; may start from {when}").format(when=case.when(at))
    else:
        says = _("was asked not to start before {when}; then it queues").format(when=case.when(at))
        short = _("not before {when}").format(when=case.when(at))
    return [case.found(Cause.GATED, "wait", short, says, clears_at=at, who=_("nobody"), next_step=_("wait"))]


def array(case: Case) -> list[Found]:
    """Return GATED by the `%n` that the owner wrote: not a shortage."""
    row = case.row
    base = (row.get("key") or row["id"] or "").partition("_")[0]
    throttle = own(row, "slurm_array_throttle")
    if throttle is None and (match := re.search(r"%(\d+)", row["id"] or "")):
        throttle = int(match[1])
    tasks, active = row.get("tasks") or 1, case.board.active_tasks.get(base, 0)
    limit = (
        _("%{count} that its owner wrote").format(count=throttle) if throttle else _("throttle that its owner wrote")
    )
    says = plural(
        "{tasks} task waits: {active} run, as many as the {limit} allows; not a shortage",
        "{tasks} tasks wait: {active} run, as many as the {limit} allows; not a shortage",
        tasks,
    ).format(tasks=f"{tasks:,}", active=active, limit=limit)
    wanted = (throttle or active) * 2
    return [
        case.found(
            Cause.GATED,
            "act",
            _("array throttle {limit}: {active} run").format(limit=f"%{throttle}" if throttle else "?", active=active),
            says,
            who=_("owner"),
            next_step=_("wait, or raise it: {command}").format(
                command=f"scontrol update JobId={name(base)} ArrayTaskThrottle={wanted}"
            ),
            counterfactual=_("a throttle of {count} would let that many run, where there is room").format(
                count=active + tasks
            ),
        )
    ]


def _licences(text: object) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in str(text or "").split(","):
        label, _sep, count = part.strip().rpartition(":") if ":" in part else (part.strip(), "", "1")
        if label and count.isascii() and count.isdigit() and len(count) < 10:
            found[label] = float(count)
    return found


def licenses(case: Case) -> list[Found]:
    """Return GATED by licences, with what is free of each and who holds the rest."""
    wants, known = _licences(case.row.get("slurm_licenses")), case.board.rules.licenses
    seen = [(label, count, *known[label]) for label, count in wants.items() if label in known]
    short_of = [one for one in seen if one[2] - one[3] < one[1]]
    if not short_of:
        text = quoted(str(case.row.get("slurm_licenses") or "?"))
        says = _("waits for licences ({text}); how many are in use could not be read").format(text=text)
        if seen:
            says = _("waited for licences ({text}) at Slurm's last look; enough are free now").format(text=text)
        return [case.found(Cause.GATED, "wait", _("waits for licences"), says, who=_("nobody"), next_step=_("wait"))]
    label, count, total, used = short_of[0]
    free, whole, named = figure(total - used), figure(total), name(label)
    at, facts = _licence_holders(case, label, count - (total - used))
    figures = f"{named}: Total={whole} Used={figure(used)} Free={free}"
    says = plural(
        "asks {count} licence {name}; {free} of {total} free",
        "asks {count} licences {name}; {free} of {total} free",
        round(count),
    ).format(count=figure(count), name=named, free=free, total=whole)
    return [
        case.found(
            Cause.GATED,
            "wait",
            _("licence {name}: {free} of {total} free").format(name=named, free=free, total=whole),
            says,
            case.evidence("scontrol show licenses", figures),
            *facts,
            clears_at=at,
            who=_("nobody"),
            next_step=_("wait, or ask the holders"),
            counterfactual=_("an ask of at most {free} fits now").format(free=free) if total > used else None,
        )
    ]


def _licence_holders(case: Case, label: str, need: float) -> tuple[datetime | None, list[Evidence]]:
    """Return when enough of a licence is given back by time limits, and who holds it."""
    holding = () if case.brief else case.board.holding
    counts = [(row, _licences(row.get("slurm_licenses")).get(label, 0.0)) for row in holding]
    held_by = sorted(((row, count) for row, count in counts if count), key=lambda one: -one[1])
    if not held_by:
        return None, [case.evidence("derived", _("no job of this cluster is seen to hold them"))]
    form = _("{job} ({count} of {user}, ends {when})")
    listed = [
        form.format(
            job=name(row["id"]), count=figure(count), user=name(row["user"]), when=case.when(end_of(row, case.now))
        )
        for row, count in held_by
    ]
    facts = [case.evidence("derived", _("held by {jobs}").format(jobs=some(listed)))]
    ending = [(end, count) for row, count in held_by if (end := end_of(row, case.now)) is not None]
    for end, count in sorted(ending, key=lambda one: one[0]):
        need -= count
        if need <= 0:
            return end, facts
    return None, facts


def held(case: Case) -> list[Found]:
    """Return HELD: by whom or by what, and what to look at before it is released."""
    kind, restarts = case.reason.tail, case.row.get("restarts") or 0
    texts = {
        "user": (_("held by its owner"), _("held by its owner: it starts only after a release"), _("owner")),
        "admin": (_("held by an admin"), _("held by an admin: it starts only after an admin releases it"), _("admin")),
        "max requeue": (
            _("held by Slurm: requeued too often"),
            _("held by Slurm: it was requeued more often than the site allows"),
            _("owner or admin"),
        ),
        "requeued": (
            _("requeued and held"),
            _("was put back into the queue and held there: it does not retry by itself"),
            _("owner or admin"),
        ),
        "launch failed": (
            _("held by Slurm: its launch failed"),
            _("held by Slurm after its launch failed: it does not retry by itself"),
            _("admin"),
        ),
        "environment": (
            _("held by Slurm: its user environment failed"),
            _("held by Slurm: its user's environment could not be fetched"),
            _("admin"),
        ),
    }
    short, says, who = texts[kind]
    if restarts:
        says += plural(" ({count} restart)", " ({count} restarts)", restarts).format(count=restarts)
    release = f"release {case.id}"
    step: str = _("when it may start: {command}").format(command=release)
    facts: list[Evidence] = []
    if kind in {"launch failed", "environment", "max requeue"}:
        hosts_seen = case.row.get("nodelist") or ()
        seen = [case.board.by_name[host] for host in hosts_seen[:4] if host in case.board.by_name]
        facts = [case.node_evidence(node) for node in seen]
        where = hosts(hosts_seen) if hosts_seen else _("the node of its last start")
        step = _("read the log of {nodes} first (prolog, mount, user unknown), then: {command}").format(
            nodes=where, command=release
        )
    return [case.found(Cause.HELD, "act", short, says, *facts, who=who, next_step=step)]


def reservation(case: Case) -> list[Found]:
    """Return WINDOW: the job's own reservation has not begun; or it is gone, over, or its nodes are out."""
    mine = case.row.get("slurm_reservation")
    found = next((one for one in case.board.reservations if mine and one.name == mine), None)
    listed = name(mine)
    known = bool(case.board.reservations) or not case.board.gap("reservations")
    if case.reason.tail in {"deleted", "invalid"} or (mine and found is None and known):
        says = _("its reservation {name} is no longer there").format(name=listed)
        step = _("take the reservation off it: {command}").format(
            command=f"scontrol update JobId={case.id} ReservationName="
        )
        return [case.found(Cause.BAD_REQUEST, "act", says, says, who=_("owner"), next_step=step)]
    if found is None:
        says = _("waits for its reservation; which one, and from when, could not be read")
        return [
            case.found(Cause.WINDOW, "wait", _("waits for its reservation"), says, who=_("nobody"), next_step=_("wait"))
        ]
    facts = (_slot(case, found),)
    if found.start is not None and found.start > case.now:
        start, left = case.when(found.start), span((found.start - case.now).total_seconds())
        says = _("its reservation {name} begins at {start}, in {left}").format(name=listed, start=start, left=left)
        short = _("reservation {name} begins at {start}").format(name=listed, start=start)
        return [
            case.found(
                Cause.WINDOW, "wait", short, says, *facts, clears_at=found.start, who=_("nobody"), next_step=_("wait")
            )
        ]
    if found.end is not None and found.end <= case.now:
        says = _("its reservation {name} ended at {end}").format(name=listed, end=case.when(found.end))
        step = _("take the reservation off it, or have it renewed")
        return [case.found(Cause.BAD_REQUEST, "act", says, says, *facts, who=_("owner"), next_step=step)]
    dead = [host for host in sorted(found.nodes) if host in case.board.by_name and case.board.by_name[host].out]
    if dead and (out := outage(case, stated=True, only=dead)) is not None:
        return [out]
    says = _("its reservation {name} has begun, and its nodes are still in use").format(name=listed)
    return [case.found(Cause.WINDOW, "wait", says, says, *facts, who=_("nobody"), next_step=_("wait"))]


def _slot(case: Case, found: Reservation) -> Evidence:
    text = _("{name}: {start} to {end}, {nodes}").format(
        name=name(found.name), start=case.when(found.start), end=case.when(found.end), nodes=hosts(found.nodes)
    )
    return case.evidence("scontrol show reservation", text)


def fill(case: Case, says: str) -> str:
    return says.format(partition=case.partition, qos=name(case.qos))


def plain_reason(case: Case) -> list[Found]:
    """Return the sentence of the table."""
    reason = case.reason
    says = fill(case, _(reason.says))
    steps = {
        "wait": _("wait"),
        "act": _("see {command}").format(command=f"scontrol show job {case.id}"),
        "never": _("change the request, or: {command}").format(command=f"cancel {case.id}"),
    }
    return [
        case.found(reason.cause, reason.verdict, says, says, who=_(reason.who), next_step=steps.get(reason.verdict))
    ]


TOPICS: dict[str, Callable[[Case], list[Found]]] = {
    "dependency": dependency, "begin": begin, "array": array, "licenses": licenses, "held": held,
    "reservation": reservation, "plain": plain_reason,
}  # fmt: skip
