"""What-if and change: one result at a time, before and after, and the change that waits for its word."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult

from connectors.text import _
from console.messages import Committed, Proposal
from console.scheduling.forecast import WhatIf
from console.ui.figures import age, clock
from console.ui.lines import Line, Span, safe, width_of, wrap
from console.ui.outcome import proposal_lines, receipt_lines, receipt_verdict, whatif_lines, whatif_verdict
from console.ui.palette import Palette
from console.ui.screens.view import View
from console.ui.state import Store, Verdict, verdict_words
from console.ui.widgets.focus import take_keys
from console.ui.widgets.page import Page


class WhatIfView(View):
    """The newest what-if, proposal or receipt."""

    view_name: ClassVar[str] = "whatif"

    def __init__(self, store: Store, palette: Callable[[], Palette]) -> None:
        """Begin with nothing asked."""
        super().__init__(store, palette)
        self.words = ""
        self.cluster = ""
        self.result: WhatIf | Proposal | Committed | None = None
        self.writable = False
        self._run = 0

    def compose(self) -> ComposeResult:
        """One page."""
        self.text = Page(self._lines, self.palette, id="whatif-page")
        yield self.text

    def focus_first(self) -> None:
        """Give the page the keys."""
        take_keys(self.text)

    def take(self, cluster: str, words: str, result: WhatIf | Proposal | Committed | None, *, writable: bool) -> None:
        """Show another result."""
        self.cluster, self.words, self.result, self.writable = cluster, words, result, writable
        self._run = self.store.engine_runs
        if self.is_mounted:
            self.text.update(to_top=True)

    def proposal(self) -> Proposal | None:
        """Return the change that waits for its word; None if the engine that made its plan is gone."""
        alive = self._run == self.store.engine_runs
        return self.result if alive and isinstance(self.result, Proposal) else None

    def conditions(self) -> set[str]:
        """Offer to apply while there is something to apply."""
        return {"proposal"} if isinstance(self.result, WhatIf | Proposal) and self.writable else set()

    def verdict(self) -> Verdict:
        """Return the verdict of what is shown."""
        result = self.result
        if isinstance(result, Committed):
            return receipt_verdict(result.receipt, result.receipt_id, self.words)
        whatif = result.whatif if isinstance(result, Proposal) else result
        if whatif is not None:
            return whatif_verdict(whatif)
        if isinstance(result, Proposal):
            return Verdict(word="UNKNOWN", glyph="?", says=_("its effect can't be foreseen; the plan is below"))
        return Verdict(word="WAIT", says=_("nothing was asked yet; w asks a what-if, : names a change"))

    def context(self) -> str:
        """Return which cluster and which snapshot it was made on."""
        result = self.result
        whatif = result.whatif if isinstance(result, Proposal) else result
        if not isinstance(whatif, WhatIf):
            return safe(self.cluster)
        made = whatif.baseline.made_at
        old = age((self.store.now_of(self.cluster) - made).total_seconds())[0]
        return _("{cluster}  on {time}, {age} old").format(
            cluster=safe(self.cluster), time=clock(made, self.store.zone), age=old
        )

    def page(self) -> Page:
        """Return the page."""
        return self.text

    def _lines(self, width: int) -> list[Line]:
        now, zone = self.store.now_of(self.cluster), self.store.zone
        result = self.result
        if result is None:
            return _help_lines()
        kind = _("CHANGE") if isinstance(result, Proposal | Committed) else _("WHAT IF")
        lines = _hanging((f" {kind}  ", "title"), safe(self.words), width, "bold")
        if isinstance(result, Committed):
            return [*lines, (), *receipt_lines(result.receipt, result.receipt_id, width, now, zone)]
        whatif = result.whatif if isinstance(result, Proposal) else result
        assumed = "; ".join(safe(text) for text in whatif.assumed) if whatif else ""
        if assumed and assumed != safe(self.words):
            lines += _hanging((" " + _("means") + "    ", "dim"), assumed, width)
        verdict = self.verdict()
        if whatif is not None and width_of(verdict.says) > width - 12:  # row 2 has cut it
            lines += _hanging((" " + verdict_words()[verdict.word] + "  ", verdict.tone), verdict.says, width)
        lines.append(())
        if isinstance(result, Proposal):
            return lines + proposal_lines(result, width, now, zone, writable=self.writable)
        return lines + whatif_lines(result, width, now, zone)


def _hanging(lead: Span, text: str, width: int, tone: str = "base") -> list[Line]:
    """Return a safe text beside its lead, in as many lines as it needs."""
    indent = width_of(lead[0])
    first, *rest = wrap(text, max(20, width - indent - 1))
    return [(lead, (first, tone)), *(((" " * indent + part, tone),) for part in rest)]


def _help_lines() -> list[Line]:
    examples = (
        ("quota qos:nlp gpus=48", _("give a queue more or less")),
        ("reserve maint gpus=32 start=20:00 end=08:00", _("keep GPUs free")),
        ("hold JOB   release JOB   cancel JOB   requeue JOB   priority JOB value=1000", _("act on a job")),
        ('drain gpu[01-04] reason="fan"   resume gpu01', _("take nodes out, and back")),
        ("stop QUEUE   start QUEUE", _("close and open a queue")),
        ("submit gpus=16 model=h100 hours=12 queue=team-a", _("suppose another job; what-if only")),
        ("reshape JOB gpus=16   add nodes=4 gpus=8   remove gpu07   policy fifo", _("suppose; what-if only")),
    )
    lines: list[Line] = [
        (),
        ((f"   {_('w asks what would happen; nothing is changed by it.')}", "base"),),
        ((f"   {_(': names a change; its plan and its forecast are shown, then A applies it.')}", "base"),),
        (),
    ]
    for words, says in examples:
        lines += [((f"   {words}", "bold"),), ((f"      {says}", "dim"),)]
    return lines
