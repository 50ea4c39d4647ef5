"""Slurm's reasons that name a closed door: a partition's limits and access, wrong names, features that nobody has."""

import re
from collections.abc import Callable

from msgspec.structs import replace

from connectors.notation import format_slurm_duration
from connectors.text import _
from console.triage.case import Case, Found
from console.triage.diagnosis import Cause
from console.triage.limits import partition_limits
from console.triage.room import feature_words, matches
from console.triage.room_findings import outage, too_large
from console.triage.slurm_gates import fill
from console.triage.words import amount, hosts, name, quoted, some, span

_ALLOWS = re.compile(r"\((?P<part>\S+) allows (?P<allowed>\S+) not (?P<mine>[^)]+)\)")


def partition(case: Case) -> list[Found]:
    """Return CLOSED_BY_ADMIN."""
    says = fill(case, _(case.reason.says))
    facts = [
        case.evidence("scontrol show partition", f"PartitionName={name(one.name)} State={name(one.state)}")
        for one in partition_limits(case.board, case.row)
    ]
    others = [
        part.name
        for part in case.board.rules.partitions
        if part.state.upper() == "UP" and part.name not in case.partitions
    ]
    return [
        case.found(
            case.reason.cause,
            "act",
            _("partition {partition} is stopped").format(partition=case.partition),
            says,
            *facts,
            who=_("admin"),
            next_step=_("when it may start jobs again: {command}").format(command=f"start partition:{case.partition}"),
            counterfactual=_("partitions that are up: {names}").format(names=some([name(one) for one in others]))
            if others
            else None,
        )
    ]


def access(case: Case) -> list[Found]:
    """Return BAD_REQUEST: its QOS or account may not use this partition; with what is allowed."""
    what = _("account") if case.reason.over == "account" else _("QOS")
    mine = case.account if case.reason.over == "account" else case.qos
    allowed: list[str] = []
    for one in partition_limits(case.board, case.row):
        listed = one.allow_accounts if case.reason.over == "account" else one.allow_qos
        allowed.extend(listed or ())
    if (match := _ALLOWS.search(case.row.get("reason_raw") or "")) and not allowed:
        allowed, mine = match["allowed"].split(","), match["mine"]
    if case.reason.says and not case.reason.over:
        says = fill(case, _(case.reason.says))
    elif allowed:
        says = _("{what} {mine} may not use partition {partition}; it allows {allowed}").format(
            what=what, mine=name(mine), partition=case.partition, allowed=some([name(one) for one in allowed], 6)
        )
    else:
        says = _("{what} {mine} may not use partition {partition}").format(
            what=what, mine=name(mine), partition=case.partition
        )
    facts = (
        [
            case.evidence(
                "scontrol show partition",
                _("{name} allows {allowed}").format(
                    name=case.partition, allowed=some([name(one) for one in allowed], 6)
                ),
            )
        ]
        if allowed
        else []
    )
    return [
        case.found(
            Cause.BAD_REQUEST,
            "act",
            says,
            says,
            *facts,
            who=_("owner, or the admin of the partition"),
            next_step=_("use another partition, or a {what} that it allows").format(what=what),
            counterfactual=_("with {what} {allowed} it would queue here").format(what=what, allowed=name(allowed[0]))
            if allowed
            else None,
        )
    ]


def invalid(case: Case) -> list[Found]:
    """Return BAD_REQUEST: its QOS or account does not exist (any more), or is not allowed to its user."""
    if case.reason.over == "qos":
        mine, there = case.qos, case.qos in case.board.qos
        known = case.board.rules.qos is not None
        what = _("QOS")
    else:
        mine, what, known = case.account, _("account"), case.board.rules.associations is not None
        there = any(account == mine for account, _user in case.board.associations)
    if known and not there:
        says = _("its {what} {name} does not exist any more; waiting does not help").format(what=what, name=name(mine))
    elif known:
        says = _("its user may not use {what} {name} (it exists); waiting does not help").format(
            what=what, name=name(mine)
        )
    else:
        says = _("its {what} {name} is not valid (any more); waiting does not help").format(what=what, name=name(mine))
    better = None
    if case.reason.over == "qos" and known:
        assoc = case.board.associations.get((case.account or "", case.row.get("user") or ""))
        usable = [one for one in (assoc.qos if assoc else ()) if one in case.board.qos] or sorted(case.board.qos)
        better = _("QOS that exist: {names}").format(names=some([name(one) for one in usable], 6))
    key = "QOS" if case.reason.over == "qos" else "Account"
    return [
        case.found(
            Cause.BAD_REQUEST,
            "act",
            _("{what} {name} is not valid").format(what=what, name=name(mine)),
            says,
            who=_("owner, or admin"),
            next_step=_("give it another: {command}").format(command=f"scontrol update JobId={case.id} {key}=…"),
            counterfactual=better,
        )
    ]


def over_partition_time(case: Case) -> Found | None:
    """Return NEVER_FITS where the partition's MaxTime is below the job's limit; None where it is not, or unknown."""
    limits, asked = partition_limits(case.board, case.row), case.row.get("time_limit_s")
    if not limits or asked is None or any(asked <= one.max_time_s for one in limits):
        return None
    qos = case.board.qos.get(case.qos or "")
    if qos is not None and any(flag.lower() == "partitiontimelimit" for flag in qos.flags):
        return None  # such a QOS may go beyond the partition's limit
    one = max(limits, key=lambda part: part.max_time_s)
    most = span(one.max_time_s)
    longer = [
        part.name
        for part in case.board.rules.partitions
        if part.max_time_s >= asked and part.state.upper() == "UP" and part.name not in case.partitions
    ]
    elsewhere = _(", or move it to {names}").format(names=some([name(part) for part in longer], 3)) if longer else ""
    command = f"scontrol update JobId={case.id} TimeLimit={format_slurm_duration(one.max_time_s)}"
    return case.found(
        Cause.NEVER_FITS,
        "never",
        _("time limit {asked}; {partition} allows {most}").format(
            asked=span(asked), partition=name(one.name), most=most
        ),
        _("time limit {asked}; partition {partition} allows at most {most}").format(
            asked=span(asked), partition=name(one.name), most=most
        ),
        *(
            ()
            if case.brief
            else (case.evidence("scontrol show partition", f"PartitionName={name(one.name)} MaxTime={most}"),)
        ),
        stated=case.reason.topic == "part_time",
        who=_("owner (its wait so far bought nothing)"),
        next_step=_("lower it: {command}{elsewhere}").format(command=command, elsewhere=elsewhere),
        counterfactual=_("a limit of at most {most} can start here").format(most=most),
    )


def part_time(case: Case) -> list[Found]:
    """Return the partition's MaxTime against what is asked."""
    if (found := over_partition_time(case)) is not None:
        return [found]
    limits = partition_limits(case.board, case.row)
    if limits and case.row.get("time_limit_s") is not None:
        says = _(
            "Slurm says that its time limit is too long, but {partition} now allows {most} and its limit is {asked}"
        ).format(
            partition=case.partition,
            most=span(max(one.max_time_s for one in limits)),
            asked=span(case.row["time_limit_s"]),
        )
        return [
            case.found(
                Cause.NEVER_FITS,
                "wait",
                _("time limit fits now; waits for the next look"),
                says,
                who=_("nobody"),
                next_step=_("wait for the next scheduling cycle"),
            )
        ]
    says = _("its time limit is longer than partition {partition} allows").format(partition=case.partition)
    return [case.found(Cause.NEVER_FITS, "never", says, says, who=_("owner"), next_step=_("lower its time limit"))]


def part_nodes(case: Case) -> list[Found]:
    """Return the partition's node limits against what is asked; the word also stands for nodes that are out."""
    one = max(partition_limits(case.board, case.row), key=lambda part: part.max_nodes, default=None)
    count, total = int(case.row.get("nodes") or case.row.get("min_nodes") or 1), len(case.room.in_partition)
    asked = amount(count, "node")
    if one is not None and count < one.min_nodes:
        return [_too_few_or_many(case, asked, amount(one.min_nodes, "node"), few=True)]
    if one is not None and count > one.max_nodes:
        return [_too_few_or_many(case, asked, amount(one.max_nodes, "node"), few=False)]
    if total and count > total:
        return [_too_few_or_many(case, asked, amount(total, "node"), few=False, owned=True)]
    if (out := outage(case, stated=True)) is not None:
        says = _("the {asked} that it asks are within the limit of {partition}, but {what}").format(
            asked=asked, partition=case.partition, what=out.finding.says
        )
        return [Found(finding=replace(out.finding, says=says), verdict="act", short=out.short)]
    says = _("partition {partition} does not allow the {asked} that it asks").format(
        partition=case.partition, asked=asked
    )
    return [case.found(Cause.NEVER_FITS, "never", says, says, who=_("owner"), next_step=_("ask for fewer nodes"))]


def _too_few_or_many(case: Case, asked: str, cap: str, *, few: bool, owned: bool = False) -> Found:
    form = _("asks {asked}; partition {partition} allows at most {cap} a job")
    step, better = _("ask for at most {cap}, or use another partition"), _("at most {cap} can start here")
    if few:
        form = _("asks {asked}; partition {partition} wants at least {cap} a job")
        step, better = _("ask for at least {cap}, or use another partition"), _("at least {cap} can start here")
    elif owned:
        form = _("asks {asked}; partition {partition} has {cap}")
    says = form.format(asked=asked, partition=case.partition, cap=cap)
    fact = case.evidence("nodes" if owned else "scontrol show partition", f"{case.partition}: {cap}")
    short = _("{asked}; {partition} allows {cap}").format(asked=asked, partition=case.partition, cap=cap)
    return case.found(
        Cause.NEVER_FITS,
        "never",
        says if few else short,
        says,
        fact,
        who=_("owner"),
        next_step=step.format(cap=cap),
        counterfactual=better.format(cap=cap),
    )


def constraints(case: Case) -> list[Found]:
    """Return NEVER_FITS by a placement rule: which features no node has together; unknown where nothing shows it."""
    room = case.room
    if (lacking := _features_nobody_has(case)) is not None:
        return [lacking]
    if (large := too_large(case)) is not None:
        fact = case.stated()
        return [Found(replace(large.finding, stated_by="system", evidence=(fact,)), large.verdict, large.short)]
    if not room.candidates:
        model = case.row.get("gpu_model")
        says = _("no node of {partition} can satisfy what it asks").format(partition=case.partition)
        if model and room.in_partition:
            says = _("no node of {partition} has {model} GPUs").format(partition=case.partition, model=name(model))
        step = _("change what it asks; then release {job}, for it is usually held as well").format(job=case.id)
        return [case.found(Cause.NEVER_FITS, "never", says, says, who=_("owner"), next_step=step)]
    says = _(
        "Slurm says that its constraints can't be satisfied, not which; by the node list {nodes} could hold it"
    ).format(nodes=hosts(node.name for node in room.capable[:8]))
    short = _('reason "{raw}", no detail').format(raw=case.raw)
    step = _("see {command}; if a node was missing then, release {job}").format(
        command=f"scontrol show job {case.id}", job=case.id
    )
    return [case.found(Cause.NEVER_FITS, "unknown", short, says, who=_("owner or admin"), next_step=step)]


def _features_nobody_has(case: Case) -> Found | None:
    constraint, nodes = case.row.get("constraint"), case.room.in_partition
    if not constraint or not nodes or any(matches(constraint, node.features) for node in nodes):
        return None
    form, asked = _("{feature} on {count}"), quoted(constraint)
    counts = [
        form.format(feature=name(word), count=sum(word in node.features for node in nodes))
        for word in feature_words(constraint)
    ]
    listed = some(counts, 8)
    says = _("no node of {partition} has the features {constraint} together ({counts})").format(
        partition=case.partition, constraint=asked, counts=listed
    )
    step = _("change the features: {command}; then release {job}, for it is usually held as well").format(
        command=f"scontrol update JobId={case.id} Features=…", job=case.id
    )
    return case.found(
        Cause.NEVER_FITS,
        "never",
        _("no node has {constraint}").format(constraint=asked),
        says,
        case.evidence("scontrol show node", _("nodes with each feature: {counts}").format(counts=listed)),
        who=_("owner"),
        next_step=step,
        counterfactual=_better_features(case, constraint),
    )


def _better_features(case: Case, constraint: str) -> str | None:
    words = feature_words(constraint)
    best: dict[frozenset[str], int] = {}
    for node in case.room.in_partition:
        has = frozenset(word for word in words if word in node.features)
        best[has] = best.get(has, 0) + 1
    ranked = sorted((one for one in best.items() if one[0]), key=lambda one: (-len(one[0]), -one[1]))
    parts = [
        _("{features} alone: {nodes}").format(
            features="&".join(name(w) for w in words if w in has), nodes=amount(n, "node")
        )
        for has, n in ranked[:3]
    ]
    return "; ".join(parts) or None


TOPICS: dict[str, Callable[[Case], list[Found]]] = {
    "partition": partition, "access": access, "invalid": invalid, "part_time": part_time, "part_nodes": part_nodes,
    "constraints": constraints,
}  # fmt: skip
