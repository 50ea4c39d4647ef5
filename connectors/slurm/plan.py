"""Resolved changes as commands of Slurm, with what they expect of the ground, and their inverse. Pure.

One change is one step and one command, an argument list that never depends on a shell. Each names what it changes:
`sacctmgr modify qos set ...` without a name changes every QOS. Whole figures are sent, never `+=` (26.05 refuses it).
Sources: sacctmgr(1), scontrol(1), scancel(1), and what 22.05, 24.11 and 26.05 answered.
"""

import shlex
from collections.abc import Callable, Sequence
from typing import Any

from connectors.change import (
    Cancel,
    Change,
    Drain,
    Hold,
    Plan,
    Release,
    Requeue,
    Reserve,
    Resume,
    SetPriority,
    SetQuota,
    StartQueue,
    Step,
    StopQueue,
    Unreserve,
)  # fmt: skip
from connectors.errors import BadWords
from connectors.model import Snapshot
from connectors.slurm import job_steps, node_steps, quota_steps, reservation_steps
from connectors.slurm.ledger import Draft, Ledger


def plan(changes: Sequence[Change], snapshot: Snapshot) -> Plan:
    """Return the steps of resolved changes, in their order; the inverse runs the other way.

    BadWords for no change at all, and for reservations in one plan that would refuse each other.
    """
    if not changes:
        raise BadWords("there is nothing to plan")
    _check_reservations([change for change in changes if isinstance(change, Reserve)])
    ledger = Ledger(snapshot)
    drafts = [_draft(change, ledger) for change in changes]
    undo: list[Change] = []
    for draft in reversed(drafts):
        undo += draft.undo or ()
    reasons = [draft.why_no_undo for draft in drafts if draft.undo is None and draft.why_no_undo]
    whole = all(draft.undo is not None for draft in drafts)
    return Plan(
        cluster=snapshot.meta.cluster,
        system=snapshot.meta.system,
        made_at=snapshot.meta.taken_at,
        changes=tuple(changes),
        steps=tuple(_step(draft) for draft in drafts),
        expects=tuple(ledger.expects.values()),
        results=tuple(ledger.results.values()),
        inverse=tuple(undo) if whole else None,
        why_no_inverse=None if whole else "; ".join(dict.fromkeys(reasons)),
        notes=tuple(dict.fromkeys(note for draft in drafts for note in draft.notes)),
    )


def _draft(change: Change, ledger: Ledger) -> Draft:
    draft = _DRAFTS[type(change)](change, ledger)
    ledger.done(draft.results)
    return draft


def _step(draft: Draft) -> Step:
    native = shlex.join(draft.argv)
    return Step(says=draft.says, native=native, argv=draft.argv, results=draft.results, undo=draft.undo)


def _check_reservations(all_of_them: Sequence[Reserve]) -> None:
    for at, one in enumerate(all_of_them):
        for other in all_of_them[at + 1 :]:
            shared = set(one.nodes) & set(other.nodes)
            if shared and one.start < other.end and other.start < one.end:
                raise BadWords(
                    f"reservations {one.name} and {other.name} would both take {', '.join(sorted(shared))} at a time",
                    hint="carry out one, then plan the other",
                )


_DRAFTS: dict[type, Callable[[Any, Ledger], Draft]] = {
    SetQuota: quota_steps.quota,
    Reserve: reservation_steps.reserve,
    Unreserve: reservation_steps.unreserve,
    Hold: job_steps.hold,
    Release: job_steps.release,
    Cancel: job_steps.cancel,
    Requeue: job_steps.requeue,
    SetPriority: job_steps.priority,
    Drain: node_steps.drain,
    Resume: node_steps.resume,
    StopQueue: node_steps.stop,
    StartQueue: node_steps.start,
}
