"""Propose, confirm, apply, verify, audit, undo: one path for the command line, the prompt and undo itself."""

import getpass
import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from connectors.change import CHANGE_TYPES, Change, Plan, Receipt, verb
from connectors.errors import BadWords, GpudeckError, Moved, NotFound, ReadOnly
from connectors.ground import moved
from connectors.language import only_changes, write_all
from connectors.language import read as read_changes
from console.engine import Engine
from console.messages import Proposal
from console.operations.audit import AuditLog


class Operations:
    """Carries changes out on an engine's clusters and keeps the audit log. Proposals live as long as this does."""

    def __init__(self, engine: Engine, audit: AuditLog) -> None:
        """Work on this engine and write to this log."""
        self._engine = engine
        self.audit = audit
        self._proposals: dict[str, tuple[Proposal, str | None]] = {}
        self._numbers = itertools.count(1)

    async def propose(
        self, cluster: str, changes: Sequence[Change], *, undoes: str | None = None, reread: bool = True
    ) -> Proposal:
        """Read the cluster anew, resolve, plan and forecast; nothing is changed. Raises as `resolve` and `plan` do.

        `reread=False` is for a caller that has read the cluster in this very call.
        """
        if reread:
            await self._engine.read(cluster, everything=True)
        snapshot, resolved = await self._engine.resolve(cluster, changes)
        plan = self._engine.member(cluster).connector.plan(only_changes(resolved), snapshot)
        whatif, whatif_error = None, None
        try:
            whatif = await self._engine.whatif(cluster, changes)
        except GpudeckError as error:
            whatif_error = str(error)
        proposal = Proposal(
            id=f"p{next(self._numbers)}",
            cluster=cluster,
            words=write_all(changes),
            plan=plan,
            confirm=confirm_word(plan),
            whatif=whatif,
            whatif_error=whatif_error,
        )
        self._proposals[proposal.id] = (proposal, undoes)
        return proposal

    async def propose_undo(self, receipt: str) -> Proposal:
        """Propose the inverse of what a receipt tells of.

        NotFound for an unknown receipt, BadWords if it can't be undone or is undone already, Moved if what it left
        behind is no longer there: somebody else has changed it since.
        """
        entry, done = self.audit.receipt(receipt)
        if entry.undone_by:
            raise BadWords(f"{receipt} was undone already, by {entry.undone_by}", text=receipt)
        if not done.undo:
            why = done.plan.why_no_inverse or "the system keeps no way back"
            raise BadWords(f"{receipt} can't be undone: {why}", text=receipt)
        snapshot = await self._engine.read(entry.cluster, everything=True)
        differences = moved(done.plan.results, snapshot)
        if differences and done.outcome == "verified":
            raise Moved(differences, cluster=entry.cluster)
        return await self.propose(entry.cluster, done.undo, undoes=receipt, reread=False)

    async def commit(self, proposal_id: str, typed: str) -> tuple[str, Receipt]:
        """Carry a proposal out if its word was typed and writing is allowed; returns the receipt and its name.

        An intent is in the audit log before anything is sent, the result after. Raises BadWords, ReadOnly, Moved,
        NotPermitted, Refused: then nothing was changed, and that is in the log too.
        """
        if proposal_id not in self._proposals:
            raise NotFound("proposal", proposal_id, hint="it was carried out already, or the engine was restarted")
        proposal, undoes = self._proposals[proposal_id]
        member = self._engine.member(proposal.cluster)
        if member.access != "write":
            raise ReadOnly(proposal.cluster)
        if typed.strip() != proposal.confirm:
            raise BadWords(f"the word is {proposal.confirm!r}, not {typed.strip()!r}: nothing was changed", text=typed)
        del self._proposals[proposal_id]
        async with self.audit.turn(proposal.cluster):
            receipt_id = self.audit.intent(proposal.cluster, self._intent(proposal, undoes))
            try:
                receipt = await member.connector.apply(proposal.plan)
            except GpudeckError as error:
                self.audit.result(receipt_id, proposal.cluster, _refusal(error), refused=True)
                raise
            self.audit.result(receipt_id, proposal.cluster, {"receipt": msgspec.to_builtins(receipt)})
        return receipt_id, receipt

    def _intent(self, proposal: Proposal, undoes: str | None) -> dict[str, Any]:
        snapshot = self._engine.member(proposal.cluster).snapshot
        return {
            "words": proposal.words,
            "resolved": write_all(proposal.plan.changes),
            "steps": [step.native for step in proposal.plan.steps],
            "forecast": proposal.whatif.says if proposal.whatif else proposal.whatif_error,
            "as": snapshot.meta.user if snapshot else None,
            "by": getpass.getuser(),
            "undoes": undoes,
        }


def read_words(words: Sequence[str], now: Any) -> list[Change]:
    """Read changes that are to be carried out; a supposition among them is BadWords."""
    return only_changes(read_changes(words, now=now))


def confirm_word(plan: Plan) -> str:
    """Return what must be typed to carry a plan out: the name of what its first change touches."""
    first = plan.changes[0]
    for name in ("queue", "job", "name", "nodes"):
        value = getattr(first, name, None)
        if isinstance(value, str):
            return value
        if isinstance(value, tuple) and value and isinstance(first, CHANGE_TYPES):
            from connectors.notation import format_hostlist

            return format_hostlist(value)
    return verb(first)


def _refusal(error: GpudeckError) -> dict[str, Any]:
    return {"error": type(error).__name__, "what": str(error), "said": getattr(error, "said", None)}
