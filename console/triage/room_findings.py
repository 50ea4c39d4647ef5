"""What nodes have to do with it: all busy, not in that shape, out of service, kept for a reservation, or too large.

No word of a scheduler is read here: the findings rest on node, job and reservation tables alone.
"""

import math
import re
from collections.abc import Sequence
from datetime import datetime

from connectors.text import _, plural
from console.triage.board import Node, Row, end_of
from console.triage.case import Case, Found
from console.triage.diagnosis import Cause, Evidence
from console.triage.room import Ask, Room
from console.triage.words import amount, clock, figure, hosts, jobs_count, name, quoted, some, span

_LONG_COMPLETING_S = 600
_MANY_OUT = 0.25
_GRES_COUNT = re.compile(r"gres/gpu\S* count .*?lower than configured \((\d+) < (\d+)\)", re.IGNORECASE)
_DEVICE = re.compile(r"\b(xid|ecc|nvlink|row remap|fell off|gpu is lost|gpu \d+ (?:lost|fault))", re.IGNORECASE)


def device_cause(reason: str | None) -> tuple[Cause, str] | None:
    """Return what a node's reason says of its GPUs: a lost device, or devices that the driver does not offer."""
    if not reason:
        return None
    if match := _GRES_COUNT.search(reason):
        seen, wanted = match.groups()
        if int(seen) == 0:
            return Cause.DEVICE_NOT_OFFERED, _(
                "the driver offers none of {wanted} GPUs: more likely not loaded than all broken"
            ).format(wanted=wanted)
        return Cause.DEVICE_FAULT, _(
            "the driver sees {seen} of {wanted} GPUs; look for an Xid of that time in the kernel log before resuming"
        ).format(seen=seen, wanted=wanted)
    if _DEVICE.search(reason):
        return Cause.NODE_OUT, _("the reason names a fault of a GPU or its links")
    return None


def out_text(nodes: Sequence[Node], now: datetime) -> str:
    """Return nodes that are out, grouped by reason: `gn[21-28]: Kill task failed (root, since Sun 02:14)`."""
    groups: dict[tuple[str, str, str], list[Node]] = {}
    for node in nodes:
        groups.setdefault((node.state, node.reason or "", node.reason_by or ""), []).append(node)
    parts = []
    for (state, reason, by), members in sorted(groups.items(), key=lambda one: -len(one[1])):
        times = [node.reason_time for node in members if node.reason_time]
        since = _("since {when}").format(when=clock(min(times), now)) if times else ""
        who = ", ".join(part for part in (name(by) if by else "", since) if part)
        text = f"{hosts(node.name for node in members)}: {state}" + (f", {quoted(reason)}" if reason else "")
        parts.append(f"{text} ({who})" if who else text)
    return some(parts, 3)


def _shape(room: Room) -> str:
    shape = _size(room)
    return _("{shape}, with no other job there").format(shape=shape) if room.exclusive else shape


def _size(room: Room) -> str:
    ask = room.ask
    if ask.spread:
        return amount(ask.gpus, "gpu", ask.model)
    if ask.per_node <= 0:
        return plural("{count} node", "{count} nodes", ask.nodes).format(count=figure(ask.nodes))
    if ask.nodes == 1:
        return _("{gpus} on one node").format(gpus=amount(ask.per_node, "gpu", ask.model))
    return _("{gpus} on each of {nodes} nodes").format(
        gpus=amount(ask.per_node, "gpu", ask.model), nodes=figure(ask.nodes)
    )


def _free_text(room: Room) -> str:
    total = sum(node.gpus or 0.0 for node in room.usable)
    whole = amount(total, "gpu", room.ask.model)
    text = _("{free} of {total} in service are free").format(free=figure(room.free), total=whole)
    if room.largest and (room.largest.gpus_free or 0) > 0:
        block, host = figure(room.largest.gpus_free), name(room.largest.name)
        text += _(", the largest block is {block} on {node}").format(block=block, node=host)
    return text


def _block(room: Room) -> float:
    """Return the most GPUs that fit on one node now, with the job's own CPUs and memory per GPU."""
    best, ask = 0.0, room.ask
    for node in room.usable:
        gpus = node.gpus_free or 0.0
        for have, want in ((node.cpus_free, ask.cpus), (node.memory_free, ask.memory)):
            if have is not None and want > 0 and ask.per_node > 0:
                gpus = min(gpus, math.floor(have / (want / ask.per_node) + 1e-9))
        if room.window(node.name, room.board.now) is None:
            best = max(best, gpus)
    return best


def _ends(rows: Sequence[Row], now: datetime) -> str:
    listed = [
        _("{job} ({gpus} of {user}, ends {when})").format(
            job=name(row["id"]),
            gpus=amount(row["gpus"], "gpu"),
            user=name(row["user"]),
            when=clock(end_of(row, now), now),
        )
        for row in rows
    ]
    return some(listed)


def _release(case: Case) -> tuple[datetime | None, tuple[Evidence, ...]]:
    if case.brief:
        return None, ()
    at, rows = case.room.release
    if at is None:
        endless = [row for row in case.room.on_candidates if end_of(row, case.now) is None]
        if not endless:
            return None, ()
        text = _("{jobs} there have no time limit, so no end is known").format(jobs=jobs_count(len(endless)))
        return None, (case.evidence("derived", text),)
    holders = [row for row in rows if row["gpus"] or not case.room.ask.gpus]
    text = _("by their time limits it fits at {when}, when these end: {jobs}").format(
        when=case.when(at), jobs=_ends(holders, case.now)
    )
    return at, (case.evidence("derived", text),)


def _smaller(case: Case) -> str | None:
    """Return which smaller or other shape fits now."""
    room, parts = case.room, []
    if room.exclusive:
        return None  # what is free beside other jobs is of no use to it
    block = _block(room)
    if 1 <= block < room.ask.per_node:
        parts.append(_("an ask of at most {gpus} on one node fits the nodes now").format(gpus=amount(block, "gpu")))
    free = sorted((node.gpus_free or 0.0 for node in room.usable), reverse=True)
    if room.ask.nodes == 1 and room.ask.per_node > 1 and sum(free) >= room.ask.gpus:
        count, total = 0, 0.0
        while total < room.ask.gpus:
            total += free[count]
            count += 1
        if count < 2:  # one node has enough GPUs: something else is missing there
            return "; ".join(parts) or None
        blocks = " + ".join(figure(value) for value in free[:count])
        parts.append(
            _("spread over {count} nodes ({blocks} free) it fits, if the code allows it").format(
                count=count, blocks=blocks
            )
        )
    if room.ask.nodes > 1 and room.fit:
        parts.append(
            plural("{count} such node is free now", "{count} such nodes are free now", len(room.fit)).format(
                count=len(room.fit)
            )
        )
    return "; ".join(parts) or None


def busy(case: Case, *, stated: bool) -> Found:
    """Return ALL_BUSY or SHAPE_NO_FIT with the figures that decide it."""
    room = case.room
    if not room.candidates:
        says = _("the devices that it asks are in use; the node list does not show which")
        return case.found(Cause.ALL_BUSY, "wait", _("waits for free GPUs"), says, stated=stated)
    at, facts = _release(case)
    needs, free = _shape(room), _free_text(room)
    if room.enough(room.fit_gpus) and not room.enough(room.fit) and not room.windowed:
        return _stranded(case, at, facts, stated=stated)
    fragments = room.ask.per_node > 0 and room.free >= room.ask.gpus
    cause = Cause.SHAPE_NO_FIT if fragments else Cause.ALL_BUSY
    if room.ask.nodes > 1:
        short = plural(
            "needs {need} such nodes; {count} is free", "needs {need} such nodes; {count} are free", len(room.fit)
        ).format(need=figure(room.ask.nodes), count=len(room.fit))
        if room.ask.per_node == max((node.gpus or 0.0 for node in room.candidates), default=0.0):
            short = plural(
                "needs {need} whole nodes; {count} is free", "needs {need} whole nodes; {count} are free", len(room.fit)
            ).format(need=figure(room.ask.nodes), count=len(room.fit))
    elif fragments:
        block = figure(room.largest.gpus_free if room.largest else None)
        short = _("{gpus} on one node; largest free block is {block}").format(
            gpus=amount(room.ask.per_node, "gpu"), block=block
        )
    else:
        short = _("asks {gpus}; {free} free").format(
            gpus=amount(room.ask.gpus, "gpu", room.ask.model), free=figure(room.free)
        )
    says = _("needs {shape}; {free}").format(shape=needs, free=free)
    step = _("wait, or ask for less") if case.brief or not _smaller(case) else _("wait, or ask for a smaller shape")
    return case.found(
        cause,
        "wait",
        short,
        says,
        case.evidence("derived", free),
        *facts,
        stated=stated,
        clears_at=at,
        who=_("owner (ask for less)") if fragments else _("nobody"),
        next_step=step,
        counterfactual=None if case.brief else _smaller(case),
    )


def _stranded(case: Case, at: datetime | None, facts: tuple[Evidence, ...], *, stated: bool) -> Found:
    room = case.room
    stuck = [node for node in room.fit_gpus if not room.holds(node)]
    node = max(stuck, key=lambda one: one.gpus_free or 0.0)
    by_memory = node.memory_free is not None and node.memory_free < room.ask.memory - 1e-6
    resource = "memory" if by_memory else "cpu"
    word = _("memory") if by_memory else _("CPUs")
    have, want = (node.memory_free, room.ask.memory) if by_memory else (node.cpus_free, room.ask.cpus)
    total = node.memory if by_memory else node.cpus
    holder = None if case.brief else _largest_holder(case, node.name, "memory_bytes" if by_memory else "cpus")
    evidence = list(facts)
    if holder:
        share = (holder["memory_bytes" if by_memory else "cpus"] or 0.0) / (len(holder["nodelist"] or ()) or 1)
        text = _("{job} of {user} holds {held} of {total} on {node} with {gpus}").format(
            job=name(holder["id"]),
            user=name(holder["user"]),
            held=amount(share, resource),
            total=amount(total, resource),
            node=name(node.name),
            gpus=amount(holder["gpus"], "gpu"),
        )
        evidence.append(case.evidence("derived", text))
    fair = (total or 0.0) / (node.gpus or 1.0)
    says = _("{gpus} are free on {node}, but only {have} of {what} there; this needs {want} a node").format(
        gpus=amount(node.gpus_free, "gpu"),
        node=name(node.name),
        have=amount(have, resource),
        what=word,
        want=amount(want, resource),
    )
    step = _("ask job {job} for a fair share: {fair} for each GPU").format(
        job=name(holder["id"]) if holder else "?", fair=amount(fair, resource)
    )
    return case.found(
        Cause.SHAPE_NO_FIT,
        "wait",
        _("GPUs are free, but {what} beside them is not").format(what=word),
        says,
        *evidence,
        stated=stated,
        clears_at=at,
        who=_("owner of the job that holds it"),
        next_step=step,
        counterfactual=_("an ask of at most {have} a node fits now").format(have=amount(have, resource))
        if have
        else None,
    )


def _largest_holder(case: Case, host: str, column: str) -> Row | None:
    rows = [row for row in case.board.holding if host in (row["nodelist"] or ())]
    return max(rows, key=lambda row: row[column] or 0.0, default=None)


def outage(case: Case, *, stated: bool, only: Sequence[str] = ()) -> Found | None:
    """Return NODE_OUT (or DEVICE_FAULT) where nodes that could take the job are out; None where none is."""
    room = case.room
    nodes = [case.board.by_name[host] for host in only if host in case.board.by_name and case.board.by_name[host].out]
    if not only:
        nodes = [node for node in room.out if room.could_hold(node)]
    if not nodes:
        return None
    gpus = sum(node.gpus or 0.0 for node in nodes)
    listed = hosts(node.name for node in nodes)
    cause, hint = Cause.NODE_OUT, None
    if (device := device_cause(nodes[0].reason)) and all(device_cause(node.reason) for node in nodes):
        cause, hint = device
    says = _("{gpus} are out of service: {nodes}").format(gpus=amount(gpus, "gpu"), nodes=out_text(nodes, case.now))
    evidence = () if case.brief else tuple(case.node_evidence(node) for node in nodes[:4])
    if hint and not case.brief:
        evidence = (*evidence, case.evidence("derived", hint))
    verdict = "act" if only or _outage_first(room) else "wait"
    reason = nodes[0].reason
    short = (
        _("{nodes} out: {reason}").format(nodes=listed, reason=quoted(reason))
        if reason
        else _("{nodes} out of service").format(nodes=listed)
    )
    return case.found(
        cause,
        "act" if verdict == "act" else "wait",
        short,
        says,
        *evidence,
        stated=stated,
        who=_("admin"),
        next_step=repair_step(nodes, listed),
        counterfactual=None if only else _back(room),
    )


def _back(room: Room) -> str | None:
    return _("with these nodes back it would start now") if room.out_would_do else None


def repair_step(nodes: Sequence[Node], listed: str) -> str:
    """Return what to do with nodes that are out; a hung process is looked for before anything is resumed."""
    reason = (nodes[0].reason or "").lower()
    if "kill task failed" in reason:
        return _("look for left-over processes and the storage mount first, then: resume {nodes}").format(nodes=listed)
    if device_cause(nodes[0].reason):
        return _("look at the GPUs first (kernel log, Xid), then: resume {nodes}").format(nodes=listed)
    if "not responding" in reason:
        return _("see why the node does not answer, then: resume {nodes}").format(nodes=listed)
    return _("repair, then: resume {nodes}").format(nodes=listed)


def _outage_first(room: Room) -> bool:
    total = sum(node.gpus or 0.0 for node in room.candidates)
    gone = sum(node.gpus or 0.0 for node in room.out)
    return room.out_would_do and total > 0 and gone / total >= _MANY_OUT


def completing(case: Case, *, stated: bool) -> Found | None:
    """Return HOLDING_AFTER_END where ended jobs still hold what this one needs."""
    room = case.room
    if not case.board.completing or room.fits_now:
        return None
    rows = [row for row in room.on_candidates if row["state"] == "completing"]
    if not rows:
        return None
    held = {host for row in rows for host in row["nodelist"] or ()}
    others = [row for row in room.on_candidates if row["state"] != "completing"]
    back = [n for n in room.usable if n.name in held and room.could_hold(n) and not _busy(n, others, room)]
    if not room.enough([*room.fit, *(node for node in back if node not in room.fit)]):
        return None
    worst = min(rows, key=lambda row: row["end_time"] or case.now)
    lasts = (case.now - worst["end_time"]).total_seconds() if worst["end_time"] else None
    says = _("{job} has ended and still holds {nodes} ({gpus}), for {age}").format(
        job=name(worst["id"]), nodes=hosts(worst["nodelist"] or ()), gpus=amount(worst["gpus"], "gpu"), age=span(lasts)
    )
    long = lasts is None or lasts >= _LONG_COMPLETING_S
    return case.found(
        Cause.HOLDING_AFTER_END,
        "act" if long else "wait",
        _("{job} ended and still holds its nodes").format(job=name(worst["id"])),
        says,
        stated=stated,
        who=_("admin"),
        next_step=_("look at the epilog on {nodes}").format(nodes=hosts(worst["nodelist"] or ())),
    )


def _busy(node: Node, rows: Sequence[Row], room: Room) -> bool:
    taken = sum(
        (row["gpus"] or 0.0) / (len(row["nodelist"]) or 1) for row in rows if node.name in (row["nodelist"] or ())
    )
    return (node.gpus or 0.0) - taken < room.ask.per_node


def reserved(case: Case, *, stated: bool) -> Found | None:
    """Return WINDOW where a reservation, coming or active, keeps the nodes that would do."""
    room, now = case.room, case.now
    if room.fits_now:
        return None
    roomy = bool(room.windowed) and room.enough([*room.fit, *room.windowed])
    taken = room.windowed if roomy else room.shut
    if taken:
        coming = [one for node in taken if (one := room.window(node.name, now))]
        first = min(coming, key=lambda one: one.start or now)
        left = (first.start - now).total_seconds() if first.start else 0.0
        says = _("reservation {name} takes {nodes} at {start}, before this would end by its limit of {limit}").format(
            name=name(first.name),
            nodes=hosts(n.name for n in taken),
            start=case.when(first.start),
            limit=span(room.ask.limit_s),
        )
        return case.found(
            Cause.WINDOW,
            "wait",
            _("runs into reservation {name} at {start}").format(name=name(first.name), start=case.when(first.start)),
            says,
            stated=stated,
            clears_at=first.end,
            who=_("owner (shorten it), or wait"),
            next_step=_("shorten the time limit, or wait until {end}").format(end=case.when(first.end)),
            counterfactual=_("a limit of at most {limit} would fit before {start}").format(
                limit=span(left), start=case.when(first.start)
            )
            if roomy
            else None,
        )
    back = [node for node in room.candidates if node.name in room.kept and not node.out and room.holds(node)]
    if back and room.enough([*room.fit, *back]):
        holder = room.kept[back[0].name]
        whom = some([name(who) for who in (*holder.users, *holder.accounts)], 3) or _("others")
        says = _("reservation {name} keeps {nodes} for {whom} until {end}").format(
            name=name(holder.name), nodes=hosts(n.name for n in back), whom=whom, end=case.when(holder.end)
        )
        return case.found(
            Cause.WINDOW,
            "wait",
            _("kept by reservation {name} until {end}").format(name=name(holder.name), end=case.when(holder.end)),
            says,
            stated=stated,
            clears_at=holder.end,
            who=_("admin, or wait"),
            next_step=_("wait, or: unreserve {name}").format(name=name(holder.name)),
        )
    return None


def oversize(case: Case) -> Found | None:
    """Return NEVER_FITS by sizes and counts alone: more GPUs than any node has, or more nodes than there are.

    A GPU model or a feature that is spelled otherwise than on the nodes is no proof, so neither is looked at.
    """
    nodes = case.board.in_partitions(case.partitions)
    if not nodes:
        return None
    most = case.board.most_gpus(case.partitions)
    ask = Ask.of(case.row, most or 0.0)
    if most is not None and ask.per_node > most and not ask.spread:
        asked, largest = amount(ask.per_node, "gpu"), figure(most)
        says = _("asks {ask} a node; the largest node of {partition} has {most}").format(
            ask=asked, partition=case.partition, most=largest
        )
        short = _("{ask} a node; largest node has {most}").format(ask=asked, most=largest)
        step = _("ask for at most {most} a node, over more nodes").format(most=amount(most, "gpu"))
        better = _("at most {most} a node can ever start").format(most=amount(most, "gpu"))
        return case.found(
            Cause.NEVER_FITS, "never", short, says, stated=False, who=_("owner"), next_step=step, counterfactual=better
        )
    if ask.nodes > len(nodes):
        asked, largest = amount(ask.nodes, "node"), amount(len(nodes), "node")
        says = _("asks {ask}; {partition} has {have}").format(ask=asked, partition=case.partition, have=largest)
        step = _("ask for at most {have}").format(have=largest)
        return case.found(Cause.NEVER_FITS, "never", says, says, stated=False, who=_("owner"), next_step=step)
    return None


def too_large(case: Case) -> Found | None:
    """Return NEVER_FITS where no set of nodes could ever hold it, its GPU model and features included."""
    room = case.room
    if (found := oversize(case)) is not None or not room.in_partition or not room.never:
        return found
    says = plural(
        "needs {shape}; {count} node of {partition} could ever hold that",
        "needs {shape}; {count} nodes of {partition} could ever hold that",
        len(room.capable),
    ).format(shape=_shape(room), count=figure(len(room.capable)), partition=case.partition)
    return case.found(
        Cause.NEVER_FITS, "never", _("no node can ever hold its shape"), says, stated=False, who=_("owner")
    )


def nodes_say(case: Case, *, stated: bool) -> list[Found]:
    """Return what the nodes say, in the order in which it binds; the first is stated where `stated` is."""
    room = case.room
    if room.fits_now:
        return []
    found: list[Found] = []
    out = outage(case, stated=False)
    if out and out.verdict == "act":
        found.append(out)
    found.extend(one for one in (completing(case, stated=False), reserved(case, stated=False)) if one)
    if room.usable or not room.candidates or not found:
        found.append(busy(case, stated=stated))
    if out and out not in found:
        found.append(out)
    return found
