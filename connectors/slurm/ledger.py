"""What a plan in the making expects of the ground, and what its later steps will find of its earlier ones."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from connectors.change import Change, Expectation
from connectors.ground import MISSING, Value, find, lookup
from connectors.model import Snapshot

_ONE_ROW_ONE_THING = frozenset({"jobs", "nodes", "reservations"})


class Draft(NamedTuple):
    """One step in the making; `undo` is None where there is none, and `why_no_undo` says why."""

    says: str
    argv: tuple[str, ...]
    results: tuple[Expectation, ...]
    undo: tuple[Change, ...] | None
    why_no_undo: str = ""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Ledger:
    """Reads values for the steps of one plan: those of the snapshot are noted as expected, those of steps are not."""

    snapshot: Snapshot
    expects: dict[tuple[str, str, str], Expectation] = field(default_factory=dict)
    results: dict[tuple[str, str, str], Expectation] = field(default_factory=dict)

    def row(self, table: str, key: str) -> dict[str, Any]:
        """Return the row as it is in the snapshot; an empty one where there is none."""
        return find(self.snapshot, table, key) or {}

    def value(self, table: str, key: str, column: str) -> Value:
        """Return the value that stands there when this step comes, and expect it; None where there is no row.

        A row that is missing is expected to stay so.
        """
        known = self.results.get((table, key, column))
        if known is not None and not known.is_not:
            return known.value
        found = lookup(self.snapshot, Expectation(table=table, key=key, column=column))
        if found is MISSING:
            self.expect(Expectation(table=table, key=key, column="", exists=False))
            return None
        self.expect(Expectation(table=table, key=key, column=column, value=found))
        return found

    def expect(self, expectation: Expectation) -> None:
        """Note what must hold before anything is sent, unless an earlier step of this plan sees to it."""
        touched = any(key[:2] == (expectation.table, expectation.key) for key in self.results)
        if touched and expectation.table in _ONE_ROW_ONE_THING:
            return
        place = (expectation.table, expectation.key, expectation.column)
        if place not in self.results:
            self.expects.setdefault(place, expectation)

    def done(self, results: Iterable[Expectation]) -> None:
        """Note what a step leaves behind; of one job, node or reservation only the last step's results stay."""
        results = tuple(results)
        for one in {(item.table, item.key) for item in results if item.table in _ONE_ROW_ONE_THING}:
            self.results = {place: item for place, item in self.results.items() if place[:2] != one}
        for item in results:
            self.results[item.table, item.key, item.column] = item
