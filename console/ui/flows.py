"""What keys lead to when the engine must be asked: explain, what-if, propose, type the word, commit, undo."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from connectors.notation import NotationError, format_hostlist
from connectors.text import _
from console.messages import Answer, AuditList, Committed, Explained, Failed, Foreseen, Proposal
from console.scheduling.forecast import WhatIf
from console.ui.actions import Deed
from console.ui.lines import safe
from console.ui.screens.view import Target
from console.ui.state import Verdict

if TYPE_CHECKING:
    from console.ui.app import ConsoleApp


def words_of(deed: Deed, targets: Sequence[Target], value: str | None = None) -> str:
    """Return the change in the change language; a name is quoted as a shell would need it, `value` too."""
    if deed.kind == "node":
        names = [target.id for target in targets]
        try:
            objects = [format_hostlist(names)]
        except NotationError:
            objects = [",".join(names)]
    else:
        objects = [target.id for target in targets]
    tail = "" if deed.ask is None else f" {shlex.quote(f'{deed.ask}={value}')}"
    return "; ".join(f"{deed.verb} {shlex.quote(name)}{tail}" for name in objects)


def failure(answer: Failed) -> Verdict:
    """Return a failed request for row 2: what a person can put right is ACT, what can't be known is UNKNOWN."""
    says = safe(answer.message)
    if answer.hint and answer.hint not in answer.message:
        says += f" ({safe(answer.hint)})"
    if answer.exit_code in {2, 3, 5, 7}:
        return Verdict(word="ACT", glyph="!", says=says)
    return Verdict(word="UNKNOWN", glyph="x", says=says)


class Flows:
    """The conversations with the engine; each ends in something to see, a failure included."""

    def __init__(self, app: "ConsoleApp") -> None:
        """Keep the app whose rows and panels show what came of it."""
        self._app = app

    def _failed(self, answer: Answer) -> None:
        if isinstance(answer, Failed):
            self._app.say(failure(answer))
        else:
            says = _("the engine gave another answer: {kind}").format(kind=type(answer).__name__)
            self._app.say(Verdict(word="UNKNOWN", glyph="x", says=says))

    def _asking(self, cluster: str, what: str) -> None:
        says = _("asking {cluster}: {what}").format(cluster=safe(cluster), what=safe(what))
        self._app.say(Verdict(word="WAIT", says=says))

    async def explain(self, cluster: str, job: str) -> None:
        """Open the explanation of a job."""
        self._asking(cluster, f"explain {job}")
        answer = await self._app.feed.explain(cluster, job)
        if isinstance(answer, Explained):
            self._app.hush()
            await self._app.open_explanation(answer.diagnosis)
        else:
            self._failed(answer)

    async def whatif(self, cluster: str, words: str) -> None:
        """Show what changes and suppositions would do."""
        self._asking(cluster, f"whatif {words}")
        answer = await self._app.feed.whatif(cluster, words)
        if isinstance(answer, Foreseen):
            await self._show(cluster, words, answer.whatif)
        else:
            self._failed(answer)

    async def propose(self, cluster: str, words: str, *, then_ask: bool = False) -> None:
        """Show the plan and the forecast of a change; with `then_ask` ask for its word at once."""
        self._asking(cluster, words)
        answer = await self._app.feed.propose(cluster, words)
        if isinstance(answer, Proposal):
            await self._show(cluster, answer.words, answer)
            if then_ask:
                await self.ask_word(answer)
        else:
            self._failed(answer)

    async def undo(self, receipt: str) -> None:
        """Show the plan that undoes a receipt."""
        self._asking("", f"undo {receipt}")
        answer = await self._app.feed.propose_undo(receipt)
        if isinstance(answer, Proposal):
            await self._show(answer.cluster, answer.words, answer)
        else:
            self._failed(answer)

    async def ask_word(self, proposal: Proposal) -> None:
        """Ask for the word without which nothing is changed."""
        label = _("type {word} to apply:").format(word=safe(proposal.confirm))
        await self._app.prompt.ask("confirm", label)

    async def commit(self, proposal: Proposal, typed: str) -> None:
        """Carry it out if the word is right; a wrong word changes nothing and is asked again."""
        if typed.strip() != proposal.confirm:
            says = _("nothing was changed: {typed} is not the word, {word} is").format(
                typed=safe(typed.strip()) or _("an empty line"), word=safe(proposal.confirm)
            )
            self._app.say(Verdict(word="ACT", glyph="!", says=says))
            return
        self._asking(proposal.cluster, proposal.words)
        answer = await self._app.feed.commit(proposal.id, typed.strip())
        if isinstance(answer, Committed):
            self._app.store.undoable = answer.receipt_id if answer.receipt.undo else None
            await self._show(proposal.cluster, proposal.words, answer)
        else:
            self._failed(answer)

    async def audit(self) -> None:
        """Read the audit log into the view of changes."""
        answer = await self._app.feed.audit()
        if isinstance(answer, AuditList):
            self._app.take_audit(answer.entries)
        else:
            self._failed(answer)

    async def refresh(self, cluster: str | None) -> None:
        """Ask for a reading now."""
        answer = await self._app.feed.refresh(cluster)
        if isinstance(answer, Failed):
            self._failed(answer)
        else:
            where = safe(cluster) if cluster else _("all clusters")
            self._app.say(Verdict(word="OK", says=_("asked {where} for a new reading").format(where=where)))

    async def _show(self, cluster: str, words: str, result: WhatIf | Proposal | Committed) -> None:
        self._app.hush()
        await self._app.show_result(cluster, words, result)
