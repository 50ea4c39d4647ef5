"""The changes that were made from here: the audit log, newest first, and what can be undone."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from textual.app import ComposeResult

from connectors.text import _, plural
from console.messages import AuditEntry
from console.ui.figures import Cell, age, moment
from console.ui.lines import Line, safe
from console.ui.screens.view import View
from console.ui.state import Verdict
from console.ui.widgets.table import Column, ListRows, Table

COLUMNS = (
    Column(key="receipt", title=lambda: _("RECEIPT"), width=8, most=24),
    Column(key="at", title=lambda: _("AT"), width=11, rank=1),
    Column(key="age", title=lambda: _("AGE"), width=4, align="right"),
    Column(key="cluster", title=lambda: _("CLUSTER"), width=7, most=14, rank=2),
    Column(key="who", title=lambda: _("WHO"), width=5, most=12, rank=3),
    Column(key="outcome", title=lambda: _("OUTCOME"), width=10, most=12),
    Column(key="words", title=lambda: _("CHANGE"), width=24, flex=True),
    Column(key="undo", title=lambda: _("UNDO"), width=8, most=24),
)


class Changes(View):
    """The newest entries of the audit log."""

    view_name: ClassVar[str] = "changes"

    def compose(self) -> ComposeResult:
        """One table."""
        self.changes_table = Table(COLUMNS, self.palette, empty=self._nothing, id="changes")
        self.entries: tuple[AuditEntry, ...] | None = None
        yield self.changes_table

    def take(self, entries: tuple[AuditEntry, ...]) -> None:
        """Take over what the engine read."""
        self.entries = entries
        self.show()

    def show(self) -> None:
        """Show the entries with their ages."""
        now, zone = self.store.now(), self.store.zone
        rows: list[tuple[str, Sequence[Cell]]] = []
        for entry in self.entries or ():
            good = entry.outcome == "verified"
            undo = ("", "base")
            if entry.undone_by:
                undo = (_("by {receipt}").format(receipt=safe(entry.undone_by)), "dim")
            elif entry.undoable:
                undo = ("U", "accent")
            rows.append((
                entry.receipt,
                (
                    (safe(entry.receipt), "base"), (moment(entry.at, now, zone), "base"),
                    age((now - entry.at).total_seconds()), (safe(entry.cluster), "dim"), (safe(entry.who), "base"),
                    ("  " + safe(entry.outcome), "base") if good else ("! " + safe(entry.outcome), "bad"),
                    (safe(entry.words), "base"), undo,
                ),
            ))  # fmt: skip
        self.changes_table.set_rows(ListRows(rows))

    tick = show

    def _nothing(self, _width: int) -> list[Line]:
        if self.entries is None:
            says, key = _("The audit log is being read."), _("r = read again")
        else:
            says = _("No change was made from here yet.")
            key = _(": = name a change   3 = Queue, a = actions on a job")
        return [(), ((f"  {says}", "base"),), ((f"  {key}", "dim"),)]

    def verdict(self) -> Verdict:
        """Say what the newest change came to."""
        if not self.entries:
            return Verdict(word="WAIT" if self.entries is None else "OK", says=_("no change is known"))
        entry = self.entries[0]
        bad = [one for one in self.entries if one.outcome in {"differs", "partial", "unread"} and not one.undone_by]
        says = _("newest: {words} on {cluster}, {outcome}").format(
            words=safe(entry.words), cluster=safe(entry.cluster), outcome=safe(entry.outcome)
        )
        if bad:
            text = plural("{count} change did not end as planned", "{count} changes did not end as planned", len(bad))
            return Verdict(word="ACT", glyph="!", says=text.format(count=len(bad)) + "; " + says)
        return Verdict(word="OK", says=says)

    def entry(self) -> AuditEntry | None:
        """Return the entry under the cursor."""
        at = self.changes_table.cursor
        return self.entries[at] if self.entries and 0 <= at < len(self.entries) else None

    def undoable(self) -> str | None:
        """Return the receipt under the cursor if it can be undone."""
        entry = self.entry()
        return entry.receipt if entry is not None and entry.undoable and not entry.undone_by else None

    def row(self) -> tuple[str, dict[str, Any]] | None:
        """Return every field of the entry under the cursor."""
        entry = self.entry()
        if entry is None:
            return None
        fields = {**msgspec.structs.asdict(entry), "effects": list(entry.effects)}
        return _("RECEIPT {receipt}").format(receipt=safe(entry.receipt)), fields

    def table(self) -> Table:
        """Return the entries."""
        return self.changes_table
