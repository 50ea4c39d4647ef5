"""Steps on nodes and partitions: drain, resume, stop and start, all by `scontrol update`."""

from collections.abc import Sequence

from connectors.change import Change, Drain, Expectation, Resume, StartQueue, StopQueue
from connectors.notation import format_hostlist
from connectors.slurm.ledger import Draft, Ledger
from connectors.slurm.targets import check_name, few, rules_of, split_queue
from connectors.text import _

_LEAVING = ("draining", "drained")
_OUT = (*_LEAVING, "down")


def drain(change: Drain, ledger: Ledger) -> Draft:
    """Return `scontrol update nodename=... state=drain reason=...`."""
    argv = (*_update(change.nodes), "state=drain", f"reason={_quoted(change.reason)}")
    states = _expect_nodes(change.nodes, ledger)
    results: list[Expectation] = []
    for node in change.nodes:
        results += (
            Expectation(table="nodes", key=node, column="state", value=_OUT),
            Expectation(table="nodes", key=node, column="reason", value=change.reason),
        )
    undo, why = _undo_drain(change.nodes, states, ledger)
    again = [node for node, state in states.items() if state in _LEAVING]
    notes = [_("jobs that run there go on to their end")] if len(again) < len(states) else []
    if again:
        notes.append(_("{nodes}: drained already, the reason is replaced").format(nodes=few(again)))
    return Draft(
        says=_("drain {nodes}: {reason}").format(nodes=format_hostlist(change.nodes), reason=change.reason),
        argv=argv,
        results=tuple(results),
        undo=undo,
        why_no_undo=why,
        notes=tuple(notes),
    )


def resume(change: Resume, ledger: Ledger) -> Draft:
    """Return `scontrol update nodename=... state=resume`."""
    argv = (*_update(change.nodes), "state=resume")
    states = _expect_nodes(change.nodes, ledger)
    results = tuple(
        Expectation(table="nodes", key=node, column="state", value=_OUT, is_not=True) for node in change.nodes
    )
    down = [node for node, state in states.items() if state not in _LEAVING]
    undo: tuple[Change, ...] | None = tuple(_drains_again(change.nodes, ledger))
    why = ""
    if down or not undo:
        undo, why = (
            None,
            _("{nodes} can only be drained again, not put back as it was").format(nodes=few(down or change.nodes)),
        )
    notes = [
        _("{node} does not answer: it will be down again unless its slurmd comes back").format(node=node)
        for node in down
        if "*" in str(ledger.row("nodes", node).get("state_raw"))
        or "NOT_RESPONDING" in str(ledger.row("nodes", node).get("state_raw")).upper()
    ]
    return Draft(
        says=_("put {nodes} back into service").format(nodes=format_hostlist(change.nodes)),
        argv=argv,
        results=results,
        undo=undo,
        why_no_undo=why,
        notes=tuple(notes),
    )


def stop(change: StopQueue, ledger: Ledger) -> Draft:
    """Return `scontrol update partitionname=... state=DOWN`: nothing starts, jobs may still be submitted and wait."""
    undo, why = _undo_partition(change.queue, "UP", StartQueue(queue=change.queue), ledger)
    return Draft(
        says=_("start no more jobs from {queue}").format(queue=change.queue),
        argv=_partition(change.queue, "DOWN"),
        results=(Expectation(table="queues", key=change.queue, column="state", value="stopped"),),
        undo=undo,
        why_no_undo=why,
        notes=(_("jobs that run go on; jobs may still be submitted to {queue}, and wait").format(queue=change.queue),),
    )


def start(change: StartQueue, ledger: Ledger) -> Draft:
    """Return `scontrol update partitionname=... state=UP`."""
    undo, why = _undo_partition(change.queue, "DOWN", StopQueue(queue=change.queue), ledger)
    return Draft(
        says=_("let {queue} start jobs again").format(queue=change.queue),
        argv=_partition(change.queue, "UP"),
        results=(Expectation(table="queues", key=change.queue, column="state", value="open"),),
        undo=undo,
        why_no_undo=why,
    )


def _expect_nodes(nodes: Sequence[str], ledger: Ledger) -> dict[str, str]:
    """Return the present states; expects that who is in service stays so, who is not stays so, and the reasons."""
    states: dict[str, str] = {}
    for node in nodes:
        state = states[node] = _state(node, ledger)
        out = next((words for words in (_LEAVING, ("down",)) if state in words), None)
        ledger.expect(
            Expectation(table="nodes", key=node, column="state", value=_OUT, is_not=True)
            if out is None
            else Expectation(table="nodes", key=node, column="state", value=out)
        )
        ledger.value("nodes", node, "reason")
    return states


def _state(node: str, ledger: Ledger) -> str:
    """Return the node's state when this step comes."""
    earlier = ledger.results.get(("nodes", node, "state"))
    if earlier is None:
        return str(ledger.row("nodes", node).get("state"))
    return "idle" if earlier.is_not else "draining"


def _undo_drain(nodes: Sequence[str], states: dict[str, str], ledger: Ledger) -> tuple[tuple[Change, ...] | None, str]:
    down = [node for node, state in states.items() if state == "down"]
    if down:
        return None, _("{nodes}: down before, and resume would put it into service").format(nodes=few(down))
    drained = [node for node in nodes if states[node] in _LEAVING]
    before = list(_drains_again(drained, ledger))
    if drained and not before:
        return None, _("the old reason of {nodes} is not known").format(nodes=few(drained))
    served = tuple(node for node in nodes if node not in drained)
    return (*([Resume(nodes=served)] if served else []), *before), ""


def _drains_again(nodes: Sequence[str], ledger: Ledger) -> list[Change]:
    """Return the drains that bring the present reasons back; nothing if one of them is not known."""
    by_reason: dict[str, list[str]] = {}
    for node in nodes:
        reason = ledger.value("nodes", node, "reason")
        if not reason:
            return []
        by_reason.setdefault(str(reason), []).append(node)
    return [Drain(nodes=tuple(some), reason=reason) for reason, some in by_reason.items()]


def _update(nodes: Sequence[str]) -> tuple[str, ...]:
    for node in nodes:
        check_name(node, "node name")
    if not nodes:
        raise ValueError("no node was named")
    return ("scontrol", "update", f"nodename={format_hostlist(nodes)}")


def _quoted(reason: str) -> str:
    """Return the reason so that scontrol keeps it: it drops one quotation mark at the front and one at the end."""
    return f'"{reason}"' if reason.startswith('"') or reason.endswith('"') else reason


def _partition(queue: str, state: str) -> tuple[str, ...]:
    return ("scontrol", "update", f"partitionname={check_name(split_queue(queue).name, 'partition')}", f"state={state}")


def _undo_partition(queue: str, comes_back: str, undo: Change, ledger: Ledger) -> tuple[tuple[Change, ...] | None, str]:
    """Return the undo if Slurm's own word for the present state is the one that it brings back."""
    ledger.value("queues", queue, "state")
    rules = rules_of(ledger.snapshot)
    name = split_queue(queue).name
    state = next((one.state for one in rules.partitions if one.name == name), None) if rules else None
    earlier = ledger.results.get(("queues", queue, "state"))
    if earlier is not None:
        state = "DOWN" if earlier.value == "stopped" else "UP"
    if state == comes_back:
        return (undo,), ""
    return None, _("the partition's state was {state}, which gpudeck does not set").format(state=state or _("unknown"))
