"""Jobs that are not pending: what is wrong while they run, why they still hold nodes, how they ended."""

from connectors.text import _
from console.triage.board import end_of
from console.triage.case import Case, Found
from console.triage.diagnosis import Cause
from console.triage.room_findings import device_cause, repair_step
from console.triage.slurm_reasons import classify
from console.triage.words import amount, hosts, quoted, span

_LONG_COMPLETING_S = 600
_NEAR_S, _NEAR_SHARE = 900, 0.05


def completing(case: Case) -> list[Found]:
    """Return HOLDING_AFTER_END: it has ended, and its nodes are not given back yet."""
    row = case.row
    lasts = (case.now - row["end_time"]).total_seconds() if row.get("end_time") else None
    age = _("for {age}").format(age=span(lasts)) if lasts is not None else _("since when is not known")
    nodes = hosts(row.get("nodelist") or ())
    says = _("has ended and still holds {gpus} on {nodes}, {age}: the epilog or a process is not done").format(
        gpus=amount(row.get("gpus"), "gpu"), nodes=nodes or "?", age=age
    )
    long = lasts is None or lasts >= _LONG_COMPLETING_S
    step = _("look at the epilog and left-over processes on {nodes}").format(nodes=nodes or "?")
    facts = [
        case.node_evidence(node) for host in (row.get("nodelist") or ())[:4] if (node := case.board.by_name.get(host))
    ]
    return [
        case.found(
            Cause.HOLDING_AFTER_END,
            "act" if long else "running",
            _("ended, still holds its nodes"),
            says,
            *facts,
            who=_("admin"),
            next_step=step if long else _("wait a moment; then {step}").format(step=step),
        )
    ]


def running(case: Case) -> list[Found]:
    """Return what is wrong with a running or suspended job, as far as this cluster's tables show it."""
    row, found = case.row, []
    if row["state"] == "suspended":
        gpus, nodes = amount(row.get("gpus"), "gpu"), hosts(row.get("nodelist") or ()) or "?"
        says = _("is suspended: it holds {gpus} on {nodes} and does not run").format(gpus=gpus, nodes=nodes)
        if not row.get("gpus"):
            says = _("is suspended: it holds {nodes} and does not run").format(nodes=nodes)
        found.append(
            case.found(
                Cause.CLOSED_BY_ADMIN,
                "act",
                _("suspended"),
                says,
                who=_("admin"),
                next_step=_("let it run again: {command}").format(command=f"scontrol resume {case.id}"),
            )
        )
    found.extend(_nodes(case))
    if classify(row.get("reason_raw")).topic == "held" or (row.get("priority") == 0 and row["state"] == "running"):
        says = _("is held and runs on: the hold only counts if it is requeued")
        found.append(
            case.found(
                Cause.HELD,
                "running",
                _("held, runs on"),
                says,
                who=_("nobody"),
                next_step=_("if it should start again after a requeue: {command}").format(command=f"release {case.id}"),
            )
        )
    end = end_of(row, case.now)
    if end is not None and row.get("start_time") and row["state"] == "running":
        left, whole = (end - case.now).total_seconds(), max(1.0, (end - row["start_time"]).total_seconds())
        if left <= min(_NEAR_S, max(60.0, whole * _NEAR_SHARE)) or (left <= _NEAR_S and whole > 4 * _NEAR_S):
            says = _("ends by its time limit at {when}, in {left}, whether it is done or not").format(
                when=case.when(end), left=span(left)
            )
            found.append(
                case.found(
                    Cause.WINDOW,
                    "running",
                    _("near its time limit"),
                    says,
                    stated=False,
                    clears_at=end,
                    who=_("owner or admin"),
                    next_step=_("save its work, or have the limit raised: {command}").format(
                        command=f"scontrol update JobId={case.id} TimeLimit=…"
                    ),
                )
            )
    return found


def _nodes(case: Case) -> list[Found]:
    nodes = [node for host in case.row.get("nodelist") or () if (node := case.board.by_name.get(host)) is not None]
    silent = [n for n in nodes if n.state == "down" or "NOT_RESPONDING" in n.raw or n.raw.endswith("*")]
    leaving = [n for n in nodes if n.out and n not in silent]
    found = []
    if silent:
        listed = hosts(n.name for n in silent)
        says = _("its nodes {nodes} are down or do not answer: it may be lost").format(nodes=listed)
        facts = [case.node_evidence(node) for node in silent[:4]]
        found.append(
            case.found(
                Cause.NODE_OUT,
                "act",
                _("{nodes} do not answer").format(nodes=listed),
                says,
                *facts,
                stated=False,
                who=_("admin"),
                next_step=repair_step(silent, listed),
            )
        )
    if leaving:
        listed = hosts(n.name for n in leaving)
        device = device_cause(leaving[0].reason)
        says = _("its nodes {nodes} are being drained: it may run to its end, then they take nothing new").format(
            nodes=listed
        )
        facts = [case.node_evidence(node) for node in leaving[:4]]
        found.append(
            case.found(
                device[0] if device else Cause.NODE_OUT,
                "running",
                _("on draining {nodes}").format(nodes=listed),
                says,
                *facts,
                stated=False,
                who=_("admin"),
                next_step=repair_step(leaving, listed),
            )
        )
    return found


def ended_text(case: Case) -> str:
    """Return how a job ended: state, exit code or signal, when, where."""
    row = case.row
    words = {
        "succeeded": _("ended well"),
        "failed": _("failed"),
        "cancelled": _("was cancelled"),
        "timeout": _("reached its time limit"),
        "out_of_memory": _("ran out of memory"),
        "node_failed": _("lost its node"),
        "preempted": _("was preempted"),
    }
    parts = [
        words.get(
            row["state"] or "",
            _("is in a state that is not known: {raw}").format(raw=quoted(row.get("state_raw") or "?")),
        )
    ]
    if row.get("exit_signal"):
        parts.append(_("signal {signal}").format(signal=row["exit_signal"]))
    elif row.get("exit_code"):
        parts.append(_("exit code {code}").format(code=row["exit_code"]))
    if row.get("end_time"):
        parts.append(_("at {when}").format(when=case.when(row["end_time"])))
    if row.get("nodelist"):
        parts.append(_("on {nodes}").format(nodes=hosts(row["nodelist"])))
    if classify(row.get("reason_raw")).topic != "none":
        parts.append(_("reason {raw}").format(raw=case.raw))
    return ", ".join(parts)


def ended(case: Case) -> list[Found]:
    """Return what is worth saying of a job that ended badly."""
    row, says = case.row, ended_text(case)
    dead = [
        node for host in row.get("nodelist") or () if (node := case.board.by_name.get(host)) is not None and node.out
    ]
    causes = {"node_failed": Cause.NODE_OUT, "preempted": Cause.EVICTED}
    if row["state"] not in causes:
        return []
    facts = [case.node_evidence(node) for node in dead[:4]]
    step = (
        repair_step(dead, hosts(n.name for n in dead)) if dead else _("submit it again, or see whether it was requeued")
    )
    return [
        case.found(
            causes[row["state"]], "ok", says, says, *facts, who=_("admin") if dead else _("owner"), next_step=step
        )
    ]


def runs_text(case: Case) -> str:
    """Return where a job runs and since when."""
    row = case.row
    since = row.get("start_time")
    age = _(" for {age}").format(age=span((case.now - since).total_seconds())) if since else ""
    nodes = _(" on {nodes}").format(nodes=hosts(row["nodelist"])) if row.get("nodelist") else ""
    return _("runs{nodes}{age}").format(nodes=nodes, age=age)
