"""What every view is: a part of the body with its own verdict, context and keys."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from textual.widget import Widget

from connectors.text import _
from console.ui.lines import safe
from console.ui.palette import Palette
from console.ui.state import Store, Verdict
from console.ui.widgets.focus import take_keys

if TYPE_CHECKING:
    from console.ui.widgets.page import Page
    from console.ui.widgets.table import Table


class Target(NamedTuple):
    """One object that keys act on: `kind` is job, node or queue; `id` is what the system's own tool takes."""

    cluster: str
    kind: str
    id: str
    name: str = ""
    gpus: float | None = None


class View(Widget):
    """One view. The app calls `show` whenever there is something new, and only while the view is on the screen."""

    view_name: ClassVar[str] = ""

    def __init__(self, store: Store, palette: Callable[[], Palette]) -> None:
        """Keep where the facts and the colours come from."""
        super().__init__(id=f"view-{self.view_name}")
        self.store = store
        self.palette = palette

    def show(self) -> None:
        """Take over what is new; called again and again, must be cheap when nothing is."""

    def tick(self) -> None:
        """A second has passed: ages grow."""

    def verdict(self) -> Verdict:
        """Return row 2."""
        raise NotImplementedError

    def context(self) -> str:
        """Return what stands at the right end of row 2, in safe text."""
        return ""

    def conditions(self) -> set[str]:
        """Return the guards of actions that are met here."""
        return set()

    def target(self) -> Target | None:
        """Return the object under the cursor."""
        return None

    def targets(self) -> list[Target]:
        """Return the marked objects, or the one under the cursor."""
        one = self.target()
        return [] if one is None else [one]

    def row(self) -> tuple[str, dict[str, Any]] | None:
        """Return a title in safe text and all fields of what stands under the cursor."""
        return None

    def table(self) -> "Table | None":
        """Return the table that keys act on."""
        return None

    def focus_first(self) -> None:
        """Give the focus to what takes the keys."""
        table = self.table()
        if table is not None:
            take_keys(table)

    def forget(self) -> None:
        """Draw everything anew in another theme."""
        from console.ui.widgets.page import Page
        from console.ui.widgets.row import Row
        from console.ui.widgets.table import Table

        for table in self.query(Table):
            table.forget()
        for row in self.query(Row):
            row.forget()
        for page in self.query(Page):
            page.forget()

    def page(self) -> "Page | None":
        """Return the page of text that copying takes, if this view is one."""
        return None


def scope_words(store: Store) -> str:
    """Return the clusters in scope in safe words."""
    return safe(store.cluster) if store.cluster else safe(store.one_cluster or _("all clusters"))
