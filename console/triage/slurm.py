"""Slurm's pending reasons explained: the queue, the nodes, and why a reason may not say what it seems to.

Reasons that wait for a time, a job or a person are in `slurm_gates`; the table of words is `slurm_reasons`.
"""

import re
from collections.abc import Callable

from msgspec.structs import replace

from connectors.notation import NotationError, parse_hostlist
from connectors.text import _, plural
from console.triage import slurm_doors as doors
from console.triage import slurm_gates as gates
from console.triage.board import end_of, partitions_of
from console.triage.case import Case, Found
from console.triage.diagnosis import Cause, Evidence
from console.triage.limit_findings import derived_limits, stated_limit
from console.triage.room_findings import busy, nodes_say, outage, oversize, reserved
from console.triage.slurm_line import line
from console.triage.words import hosts, name, some, span

_UNAVAILABLE = re.compile(r"Unavailable(?:Nodes)?:(?P<nodes>[^()\s]+)", re.IGNORECASE)
_NODE_CAUSES = frozenset({Cause.ALL_BUSY, Cause.SHAPE_NO_FIT})
# Topics whose own explainer has already compared what is asked with what there is.
CHECKED = frozenset({"constraints", "invalid", "access", "part_time", "part_nodes"})
_IN_LINE = frozenset({"resources", "priority", "down_text", "none", "nodes", "limit", "plain"})


def explain(case: Case) -> list[Found]:
    """Return the causes of a pending job in binding order; at least one."""
    found = TOPICS[case.reason.topic](case)
    if case.brief:
        return found
    seen = {(one.finding.cause, one.finding.says) for one in found}
    for one in _more(case):
        # a cause that the first ones already told with figures is not told again
        if (one.finding.cause, one.finding.says) not in seen and not _told(one, found):
            found.append(one)
            seen.add((one.finding.cause, one.finding.says))
    impossible = [one for one in found if one.verdict == "never" and one is not found[0]]
    if impossible and found[0].verdict != "never":
        # what can never be met binds before anything that passes
        return [*impossible, *(one for one in found if one not in impossible)]
    return found


def _told(one: Found, found: list[Found]) -> bool:
    cause = one.finding.cause
    for before in found:
        told = before.finding.cause
        if (told == cause and cause != Cause.QUOTA_FULL) or {told, cause} <= _NODE_CAUSES:
            return True
    return False


def _more(case: Case) -> list[Found]:
    topic = case.reason.topic
    if topic in CHECKED:
        return []
    large = oversize(case)
    more = [one for one in (large, doors.over_partition_time(case)) if one is not None]
    more.extend(derived_limits(case))
    if topic in _IN_LINE and large is None and case.room.candidates:
        more.extend(nodes_say(case, stated=False))
        if topic != "priority" and case.room.fits_now and (behind := line(case, stated=False)):
            more.append(behind)
    return more


def none(case: Case) -> list[Found]:
    """Return UNKNOWN: not evaluated yet."""
    says = _("Slurm has not looked at it in this cycle, so it gives no reason; that does not mean that it starts soon")
    return [
        case.found(
            Cause.UNKNOWN,
            "unknown",
            _("not evaluated yet"),
            says,
            who=_("nobody"),
            next_step=_("ask again after the next scheduling cycle: {command}").format(command=f"explain {case.id}"),
        )
    ]


def unknown(case: Case) -> list[Found]:
    """Return UNKNOWN for a word that nobody knows, with the word as it came."""
    says = _('reason "{raw}" is not known here; this is Slurm\'s own text').format(raw=case.raw)
    short = _('reason "{raw}", no detail').format(raw=case.raw)
    step = _("look at it with Slurm's own tool: {command}").format(command=f"scontrol show job {case.id}")
    return [case.found(Cause.UNKNOWN, "unknown", short, says, who=_("admin"), next_step=step)]


def resources(case: Case) -> list[Found]:
    """Return what keeps a job whose turn it is from starting."""
    if case.room.fits_now:
        return _fits_but(case)
    return nodes_say(case, stated=True)


def _fits_but(case: Case) -> list[Found]:
    if (behind := line(case, stated=True)) is not None:
        return [behind]
    if not case.room.candidates:
        return [busy(case, stated=True)]
    says = _("waits for resources by Slurm's last look; by the figures seen now {nodes} have room").format(
        nodes=hosts(node.name for node in case.room.fit[:8])
    )
    step = _("wait for the next scheduling cycle")
    return [
        case.found(
            Cause.ALL_BUSY, "wait", _("room now; waits for the next cycle"), says, who=_("nobody"), next_step=step
        )
    ]


def priority(case: Case) -> list[Found]:
    """Return who is ahead, and what is kept for them."""
    behind = line(case, stated=True)
    if behind is not None:
        return [behind]
    says = _("jobs of higher priority are ahead of it, and the job list does not show them")
    return [case.found(Cause.BEHIND_IN_LINE, "wait", _("behind others"), says, who=_("nobody"), next_step=_("wait"))]


def down_text(case: Case) -> list[Found]:
    """Return what Slurm's three-fold text means here; a down node is only named where the node list shows one."""
    if case.room.fits_now:
        return _fits_but(case)
    found = nodes_say(case, stated=True)
    higher = None if case.brief else _higher_tier(case)
    if higher is not None:
        at = next((i for i, one in enumerate(found) if one.finding.cause in _NODE_CAUSES), 0)
        found[at] = _with(found[at], case.evidence("derived", higher), says=f"{found[at].finding.says}; {higher}")
    if not case.brief and not case.room.out and case.board.nodes:
        text = _("no node that could take it is down or drained: Slurm's text names three alternatives")
        found[0] = _with(found[0], case.evidence("derived", text))
    return found


def _with(found: Found, fact: Evidence, says: str | None = None) -> Found:
    finding = found.finding
    changed = replace(finding, evidence=(*finding.evidence, fact), says=says or finding.says)
    return Found(finding=changed, verdict=found.verdict, short=found.short)


def _higher_tier(case: Case) -> str | None:
    tiers = case.board.partitions
    own = max((tiers[part].priority_tier for part in case.partitions if part in tiers), default=None)
    if own is None:
        return None
    above = {part.name for part in tiers.values() if part.priority_tier > own}
    rows = [
        row
        for row in case.room.on_candidates
        if above.intersection(partitions_of(row)) and (row["gpus"] or not case.room.ask.gpus)
    ]
    if not rows:
        return None
    listed = sorted({part for row in rows for part in partitions_of(row) if part in above})
    ends = [end for row in rows if (end := end_of(row, case.now)) is not None]
    text = _("jobs of partition {above}, which comes first, hold {nodes}").format(
        above=some([name(part) for part in listed]), nodes=hosts({h for row in rows for h in row["nodelist"] or ()})
    )
    return text + (_("; the earliest end there is {when}").format(when=case.when(min(ends))) if ends else "")


def nodes(case: Case) -> list[Found]:
    """Return what ReqNodeNotAvail means: its tail and the node list decide, not the word."""
    raw = case.row.get("reason_raw") or ""
    named = _named(raw)
    wanted = tuple(dict.fromkeys((*named, *(case.row.get("requested_nodes") or ()), *_reserved_nodes(case))))
    dead = [host for host in wanted if host in case.board.by_name and case.board.by_name[host].out]
    if dead and (out := outage(case, stated=True, only=dead)) is not None:
        return [_pinned(case, out, dead)]
    tail = raw.replace("_", " ").lower()
    if "maintenance" in tail and (kept := _maintenance(case)) is not None:
        return [kept]
    if (kept := reserved(case, stated=True)) is not None:
        return [kept]
    if not named and (behind := line(case, stated=True)) is not None:
        return [behind]
    if "may be reserved" in tail:
        says = _("the nodes that it wants are kept for an earlier job; none of them is down")
        return [
            case.found(
                Cause.BEHIND_IN_LINE,
                "wait",
                _("its nodes are kept for an earlier job"),
                says,
                who=_("nobody"),
                next_step=_("wait"),
            )
        ]
    if named and not case.board.nodes:
        says = _("Slurm says that {nodes} cannot be used; the node list could not be read").format(nodes=hosts(named))
        return [
            case.found(
                Cause.NODE_OUT, "act", _("{nodes} not available").format(nodes=hosts(named)), says, who=_("admin")
            )
        ]
    if "maintenance" in tail:
        says = _("its nodes are reserved for maintenance; the reservation could not be read")
        return [case.found(Cause.WINDOW, "wait", _("its nodes are reserved for maintenance"), says, who=_("nobody"))]
    if named:
        says = _(
            "Slurm says that {nodes} cannot be used, but the node list shows none of them out: its word may be old"
        ).format(nodes=hosts(named))
        return [
            case.found(
                Cause.UNKNOWN,
                "unknown",
                _("{nodes} not available by Slurm's last look").format(nodes=hosts(named)),
                says,
                who=_("admin"),
            )
        ]
    found = nodes_say(case, stated=True)
    return found or _fits_but(case)


def _named(raw: str) -> tuple[str, ...]:
    match = _UNAVAILABLE.search(raw)
    if match is None:
        return ()
    try:
        return parse_hostlist(match["nodes"].rstrip(","))
    except NotationError:
        return ()


def _reserved_nodes(case: Case) -> tuple[str, ...]:
    mine = case.row.get("slurm_reservation")
    return next((tuple(sorted(one.nodes)) for one in case.board.reservations if mine and one.name == mine), ())


def _pinned(case: Case, out: Found, dead: list[str]) -> Found:
    pins = set(case.row.get("requested_nodes") or ())
    listed = hosts(dead)
    if not pins.intersection(dead):
        if case.row.get("slurm_reservation") and set(_reserved_nodes(case)).intersection(dead):
            says = _("its reservation {name} needs {nodes}; {what}").format(
                name=name(case.row["slurm_reservation"]), nodes=listed, what=out.finding.says
            )
            return Found(finding=replace(out.finding, says=says), verdict="act", short=out.short)
        return out
    equal = _equal_idle(case, dead)
    says = _("it names {nodes} itself; {what}").format(nodes=listed, what=out.finding.says)
    better = (
        _("without the node name it could use {nodes}, which have room now").format(nodes=hosts(equal))
        if equal
        else None
    )
    step = out.finding.next_step
    if equal:
        step = plural(
            "drop the node name ({count} equal node has room), or {repair}",
            "drop the node name ({count} equal nodes have room), or {repair}",
            len(equal),
        ).format(count=len(equal), repair=step)
    else:
        step = _("drop the node name, or {repair}").format(repair=step)
    finding = replace(
        out.finding, says=says, who_acts=_("owner (drop the name), or admin"), next_step=step, counterfactual=better
    )
    return Found(
        finding=finding, verdict="act", short=_("names {nodes}: {short}").format(nodes=listed, short=out.short)
    )


def _equal_idle(case: Case, dead: list[str]) -> list[str]:
    model = case.row.get("gpu_model") or next((case.board.by_name[host].model for host in dead), None)
    room = case.room
    return [
        node.name
        for node in room.in_partition
        if node.name not in dead
        and not node.out
        and node.name not in room.kept
        and (not model or not node.model or node.model.lower() == model.lower())
        and room.holds(node)
    ]


def _maintenance(case: Case) -> Found | None:
    mine = {node.name for node in case.room.candidates}
    coming = [
        one
        for one in case.board.reservations
        if (one.kind == "maintenance" or "maint" in one.name.lower())
        and (not mine or not mine.isdisjoint(one.nodes))
        and (one.end is None or one.end > case.now)
    ]
    if not coming:
        return None
    first = min(coming, key=lambda one: one.start or case.now)
    listed = hosts(mine & first.nodes) if mine & first.nodes else hosts(first.nodes)
    if first.start is None or first.start <= case.now:
        says = _("maintenance {name} holds {nodes} until {end}").format(
            name=name(first.name), nodes=listed, end=case.when(first.end)
        )
        return case.found(
            Cause.WINDOW,
            "wait",
            says,
            says,
            clears_at=first.end,
            who=_("nobody"),
            next_step=_("wait until {end}").format(end=case.when(first.end)),
        )
    left = span((first.start - case.now).total_seconds())
    limit = case.row.get("time_limit_s")
    says = _("maintenance {name} takes {nodes} at {start}; a limit of {limit} reaches into it").format(
        name=name(first.name), nodes=listed, start=case.when(first.start), limit=span(limit)
    )
    return case.found(
        Cause.WINDOW,
        "wait",
        _("runs into maintenance {name} at {start}").format(name=name(first.name), start=case.when(first.start)),
        says,
        clears_at=first.end,
        who=_("owner (shorten it), or wait"),
        next_step=_("shorten its time limit to at most {left}, or wait until {end}").format(
            left=left, end=case.when(first.end)
        ),
        counterfactual=_("a limit of at most {limit} would fit before {start}").format(
            limit=left, start=case.when(first.start)
        ),
    )


def _limit(case: Case) -> list[Found]:
    return [stated_limit(case)]


TOPICS: dict[str, Callable[[Case], list[Found]]] = {
    "none": none,
    "unknown": unknown,
    "resources": resources,
    "priority": priority,
    "down_text": down_text,
    "nodes": nodes,
    "limit": _limit,
    **gates.TOPICS,
    **doors.TOPICS,
}
