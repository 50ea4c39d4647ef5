"""The panel: an explanation, a description, or the keys; below the list or instead of it."""

from collections.abc import Callable
from typing import Any

from textual.app import ComposeResult
from textual.widget import Widget

from console.messages import ClusterStatus
from console.triage.diagnosis import Diagnosis
from console.ui.lines import Line, safe, text_of
from console.ui.palette import Palette
from console.ui.state import Store, Verdict
from console.ui.widgets.page import Page
from console.ui.widgets.row import Row


class Panel(Widget):
    """One page of text with a rule of blank space above it when it shares the screen."""

    def __init__(self, store: Store, palette: Callable[[], Palette]) -> None:
        """Make it empty."""
        super().__init__(id="panel")
        self._store = store
        self._palette = palette
        self._lines: Callable[[int], list[Line]] = lambda _width: []
        self._verdict: Verdict | None = None
        self._copy: Callable[[], str] = lambda: ""
        self.diagnosis: Diagnosis | None = None
        self.showing_keys = False
        self.may_share = False
        self.covers = True

    def compose(self) -> ComposeResult:
        """A blank row and the page."""
        self.rule = Row(lambda _width: (), self._palette)
        self.page = Page(self._page_lines, self._palette, id="panel-page")
        yield self.rule
        yield self.page

    def _page_lines(self, width: int) -> list[Line]:
        return self._lines(width)

    def _fill(
        self,
        lines: Callable[[int], list[Line]],
        *,
        verdict: Verdict | None,
        share: bool,
        copy: Callable[[], str] | None,
    ) -> None:
        self._lines, self._verdict, self.may_share = lines, verdict, share
        self.showing_keys = False
        self._copy = copy or (lambda: "\n".join(text_of(line) for line in lines(100)))
        self.page.update(to_top=True)

    def explain(self, diagnosis: Diagnosis) -> None:
        """Show a diagnosis."""
        from console.ui.explain import copy_text, explain_lines, verdict_of

        self.diagnosis = diagnosis
        about = self.about(diagnosis.cluster, diagnosis.job)
        now, zone = self._store.now_of(diagnosis.cluster), self._store.zone
        self._fill(
            lambda width: explain_lines(diagnosis, about, width, now, zone, with_verdict=not self.covers),
            verdict=verdict_of(diagnosis), share=True, copy=lambda: copy_text(diagnosis),
        )  # fmt: skip

    def about(self, cluster: str, job: str) -> str:
        """Return who, what and how much of a job, in safe words, from the table; empty where it is not in there."""
        frame = self._store.frames.get(cluster, {}).get("jobs")
        if frame is None:
            return safe(cluster)
        import polars as pl

        found = frame.filter((pl.col("id") == job) | (pl.col("key") == job)).head(1)
        if found.is_empty():
            return safe(cluster)
        from console.ui.describe import job_words

        return job_words(found.row(0, named=True))

    def describe(self, title: str, row: dict[str, Any]) -> None:
        """Show every field of one row."""
        from console.ui.describe import field_lines

        self.diagnosis = None
        now, zone = self._store.now_of(row.get("cluster")), self._store.zone
        self._fill(lambda width: field_lines(title, row, width, now, zone), verdict=None, share=True, copy=None)

    def cluster(self, status: ClusterStatus) -> None:
        """Show all that is known of a cluster's connection."""
        from console.ui.describe import status_lines

        self.diagnosis = None
        now, zone = self._store.now_of(status.cluster), self._store.zone
        self._fill(lambda width: status_lines(status, width, now, zone), verdict=None, share=True, copy=None)

    def keys(self, scope: str) -> None:
        """Show all keys."""
        from console.ui.chrome import help_lines

        self.diagnosis = None
        self._fill(lambda width: help_lines(scope, width), verdict=None, share=False, copy=None)
        self.showing_keys = True

    def verdict(self) -> Verdict | None:
        """Return what row 2 says while the panel covers the view."""
        return self._verdict

    def text(self) -> str:
        """Return what copying takes."""
        return self._copy()

    def forget(self) -> None:
        """Draw anew in another theme."""
        self.rule.forget()
        self.page.update()
