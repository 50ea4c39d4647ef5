"""The fleet: one row a cluster, worst first, and below it what needs a person."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec
from textual.app import ComposeResult

from connectors.text import _, plural
from console.messages import ClusterStatus, Summary
from console.triage.diagnosis import Attention
from console.ui.figures import BLANK, NONE, UNKNOWN, Cell, age, figure, gpu_words, percent, plain
from console.ui.lines import Line, safe, two_ends, width_of
from console.ui.screens.view import Target, View
from console.ui.state import Verdict, clusters_count, error_of
from console.ui.widgets.focus import take_keys
from console.ui.widgets.row import Row
from console.ui.widgets.table import Column, ListRows, Table

COLUMNS = (
    Column(key="cluster", title=lambda: _("CLUSTER"), width=10, most=20),
    Column(key="system", title=lambda: _("SYSTEM"), width=6, most=10, rank=6),
    Column(key="state", title=lambda: _("STATE"), width=7, most=9),
    Column(key="nodes", title=lambda: _("NODES"), width=5, most=7, align="right", rank=4),
    Column(key="lost", title=lambda: _("LOST"), width=4, most=6, align="right", rank=3),
    Column(key="gpus", title=lambda: _("GPUS"), width=6, most=8, align="right"),
    Column(key="alloc", title=lambda: _("ALLOC"), width=6, most=8, align="right", rank=5),
    Column(key="free", title=lambda: _("FREE"), width=5, most=7, align="right"),
    Column(key="place8", title=lambda: _("PLACE8"), width=6, most=7, align="right"),
    Column(key="busy", title=lambda: _("BUSY%"), width=5, align="right"),
    Column(key="pend", title=lambda: _("PEND"), width=6, most=7, align="right"),
    Column(key="never", title=lambda: _("NEVER"), width=5, most=6, align="right", rank=2),
    Column(key="old", title=lambda: _("OLD"), width=4, align="right"),
    Column(key="start", title=lambda: _("START"), width=5, align="right"),
    Column(key="use", title=lambda: _("IN USE"), width=12, rank=7),
    Column(key="age", title=lambda: _("AGE"), width=4, align="right"),
)
NEEDS = (
    Column(key="sev", title=lambda: _("SEV"), width=7, most=9),
    Column(key="age", title=lambda: _("AGE"), width=4, align="right"),
    Column(key="cluster", title=lambda: _("CLUSTER"), width=7, most=14),
    Column(key="what", title=lambda: _("WHAT"), width=48, flex=True),
    Column(key="who", title=lambda: _("WHO"), width=7, most=14, rank=1),
    Column(key="next", title=lambda: _("NEXT"), width=8, most=30, rank=2),
)
_SEVERITY = {"act": 0, "fault": 1, "stale": 2, "idle": 3}
_BAR = 12
_LEAD = 12  # cells of row 2 before its sentence
TOTAL = "\x00total"


def state_cell(status: ClusterStatus, *, live: bool) -> Cell:
    """Return glyph and word of a cluster's state."""
    if not live:
        return ("~ " + _("last"), "warn")
    return {
        "act": ("! " + _("act"), "bad"),
        "failed": ("x " + _("fail"), "bad"),
        "stale": ("~ " + _("stale"), "warn"),
        "connecting": ("~ " + _("conn"), "warn"),
        "ok": ("  " + _("ok"), "base"),
    }[status.state]


def use_bar(summary: Summary, *, stale: bool) -> str:
    """Return the GPUs as 12 cells: `#` allocated, `x` lost, `.` free; `?` for a missing figure, `~` for a stale one."""
    gpus, used = summary.gpus, summary.gpus_allocated
    if not gpus or used is None:
        return ("~" if stale else "?") * _BAR
    lost = 0 if not summary.gpus_lost else max(1, round(summary.gpus_lost / gpus * _BAR))
    busy = min(_BAR - lost, max(1 if used else 0, int(used / gpus * _BAR)))
    return "#" * busy + "." * (_BAR - busy - lost) + "x" * lost


def _next_words(step: str) -> str:
    """Return the next step as the console takes it: `e explain 884121` for `gpudeck explain 884121`."""
    words = safe(step).removeprefix("gpudeck ")
    return f"e {words}" if words.startswith("explain ") else words


def _rank(status: ClusterStatus) -> tuple[int, float, str]:
    order = {"act": 0, "failed": 1, "stale": 2, "connecting": 3, "ok": 4}
    return (order[status.state], -(status.summary.gpus or 0), status.cluster)


def _sum(statuses: list[ClusterStatus], name: str) -> float | None:
    """Return the sum of a figure over clusters, None as soon as one of them did not give it."""
    values = [getattr(status.summary, name) for status in statuses]
    return None if None in values else sum(values)


def _losses(never: float, lost: float) -> list[str]:
    """Return what makes a cluster need a person: jobs that can never start, GPUs lost."""
    parts = []
    if never:
        words = plural("{count} job can never start", "{count} jobs can never start", round(never))
        parts.append(words.format(count=plain(never)))
    if lost:
        parts.append(_("{gpus} lost").format(gpus=gpu_words(lost)))
    return parts


class Fleet(View):
    """All clusters at once."""

    view_name: ClassVar[str] = "fleet"

    def compose(self) -> ComposeResult:
        """Two tables, and a heading between them."""
        self.clusters_table = Table(
            COLUMNS, self.palette, empty=self._no_clusters, footer=True, keep_cursor=False, id="clusters"
        )
        self.needs_table = Table(NEEDS, self.palette, empty=self._no_needs, keep_cursor=False, id="needs")
        self.heading = Row(self._heading, self.palette, id="needs-heading")
        blank = Row(lambda _width: (), self.palette)
        self.needs: list[Attention] = []
        yield self.clusters_table
        yield blank
        yield self.heading
        yield self.needs_table

    def on_mount(self) -> None:
        """Show the last picture in the very first frame."""
        self.show()

    def focus_first(self) -> None:
        """Give the focus to the clusters."""
        take_keys(self.clusters_table)

    # content ------------------------------------------------------------------------------------------------------
    def show(self) -> None:
        """Take over statuses and ages."""
        ordered = sorted(self.store.statuses.values(), key=_rank)
        rows: list[tuple[str, Sequence[Cell]]] = [(status.cluster, self._cells(status)) for status in ordered]
        if len(ordered) > 1:
            rows.append((TOTAL, self._total(ordered)))
        self.clusters_table.set_footer(len(ordered) > 1)
        self.clusters_table.set_rows(ListRows(rows))
        most = max(4, (self.app.size.height - 6) // 2)
        height = min(len(rows) + 1 if rows else 6, most)
        if self.clusters_table.styles.height is None or self.clusters_table.styles.height.value != height:
            self.clusters_table.styles.height = height
        self._show_needs(ordered)
        self.heading.update()

    tick = show

    def _show_needs(self, ordered: list[ClusterStatus]) -> None:
        found = [item for status in ordered for item in status.attention]
        found += [item for status in ordered for item in self._of_the_source(status)]
        found.sort(key=lambda item: (_SEVERITY[item.severity], -(self._since_s(item) or 0.0)))
        self.needs = found
        words = {
            "act": ("! " + _("act"), "bad"),
            "fault": ("x " + _("fault"), "bad"),
            "stale": ("~ " + _("stale"), "warn"),
            "idle": ("_ " + _("idle"), "warn"),
        }
        rows: list[tuple[str, Sequence[Cell]]] = []
        seen: dict[str, int] = {}
        for item in found:
            name = f"{item.cluster}\x00{item.severity}\x00{item.what}"
            seen[name] = seen.get(name, 0) + 1
            rows.append(
                (
                    f"{name}\x00{seen[name]}",
                    (
                        words[item.severity],
                        age(self._since_s(item)),
                        (safe(item.cluster), "base"),
                        (safe(item.what), "base"),
                        (safe(item.who), "base"),
                        (_next_words(item.next_step), "dim"),
                    ),
                )
            )
        self.needs_table.set_rows(ListRows(rows))

    def _since_s(self, item: Attention) -> float | None:
        return None if item.since is None else (self.store.now_of(item.cluster) - item.since).total_seconds()

    def _of_the_source(self, status: ClusterStatus) -> Iterator[Attention]:
        """Yield what the console itself must say of a cluster that does not answer, unless the engine said it."""
        said = any(item.severity == "stale" for item in status.attention)
        if said or status.state not in {"failed", "stale"} or status.cluster not in self.store.live:
            return
        what = error_of(status) or (_("the cluster can't be read") if status.state == "failed" else _("no new answer"))
        yield Attention(
            severity="stale",
            cluster=status.cluster,
            what=what if not status.hint else f"{what} ({status.hint})",
            since=status.since,
            who=_("ops"),
            next_step=_("r asks again"),
        )

    def _cells(self, status: ClusterStatus) -> list[Cell]:
        fresh, remembered = self.store.fresh(status), self.store.remembered(status)
        summary = status.summary if fresh or remembered else Summary()
        tone = "base" if fresh else "dim"

        def show(value: float | None) -> Cell:
            return figure(value, tone)

        lost = show(summary.gpus_lost)
        never = show(summary.never)
        return [
            (safe(status.cluster), "bold"),
            (safe(status.system), "dim"),
            state_cell(status, live=status.cluster in self.store.live),
            show(status.summary.nodes),
            (lost[0], "bad") if fresh and summary.gpus_lost else lost,
            show(status.summary.gpus),
            show(summary.gpus_allocated),
            show(summary.gpus_free),
            show(summary.place8),
            (percent(summary.busy_ratio)[0], tone),
            show(summary.pending),
            (never[0], "bad") if fresh and summary.never else never,
            NONE if summary.pending == 0 else age(summary.oldest_wait_s, tone),
            age(summary.start_p50_s, tone),
            (use_bar(summary, stale=not fresh), tone),
            UNKNOWN if status.taken_at is None else age(self.store.age_s(status), "base" if fresh else "warn"),
        ]

    def _total(self, ordered: list[ClusterStatus]) -> list[Cell]:
        fresh = [status.summary for status in ordered if self.store.fresh(status)]
        shown = fresh or [status.summary for status in ordered if self.store.remembered(status)]

        def total(name: str) -> Cell:
            values = [getattr(summary, name) for summary in shown]
            return UNKNOWN if not values or None in values else figure(sum(values), "base" if fresh else "dim")

        busy = [(s.busy_ratio, s.gpus_allocated) for s in shown]
        weight = sum(gpus or 0 for _ratio, gpus in busy)
        known = weight and all(ratio is not None and gpus is not None for ratio, gpus in busy)
        mean = sum((ratio or 0) * (gpus or 0) for ratio, gpus in busy) / weight if known else None
        waits = [s.oldest_wait_s for s in shown if s.oldest_wait_s is not None]
        name = _("all") if len(fresh) == len(ordered) else _("all ({count} fresh)").format(count=len(fresh))
        return [
            (name, "bold"), BLANK, BLANK, total("nodes"), total("gpus_lost"), total("gpus"), total("gpus_allocated"),
            total("gpus_free"), total("place8"), percent(mean), total("pending"), total("never"),
            age(max(waits)) if waits else NONE if shown else UNKNOWN, BLANK, BLANK, BLANK,
        ]  # fmt: skip

    # words --------------------------------------------------------------------------------------------------------
    def _heading(self, width: int) -> Line:
        right: Line = ((_("worst first, then oldest") + " ", "dim"),) if self.needs else ()
        left: Line = ((" " + _("NEEDS A PERSON") + "  ", "title"), (str(len(self.needs)) if self.needs else "", "base"))
        return two_ends(left, right, width)

    def _no_clusters(self, _width: int) -> list[Line]:
        if self.store.engine == "starting":
            words = [_("No cluster is known from last time."), _("The engine starts and reads the config.")]
        else:
            words = [
                _("The config names no cluster."),
                _("gpudeck demo opens simulated ones; gpudeck doctor says where the config is looked for."),
            ]
        return [(), *(((f"  {line}", "base"),) for line in words), ((f"  {_('q = quit')}", "dim"),)]

    def _no_needs(self, _width: int) -> list[Line]:
        statuses = list(self.store.statuses.values())
        asked = [status for status in statuses if self.store.fresh(status)]
        if not asked:
            return [((f"  {_('Not known yet: no cluster has answered.')}", "base"),)]
        text = _("Nothing. {clusters} asked, of {total}; Enter opens the jobs.").format(
            clusters=clusters_count(len(asked)), total=len(statuses)
        )
        return [((f"  {text}", "base"),)]

    def verdict(self) -> Verdict:
        """Say what must be done first, in one sentence."""
        statuses = sorted(self.store.statuses.values(), key=_rank)
        if not statuses:  # once the engine is up, the store itself says that the config names none
            return Verdict(word="WAIT", says=_("the engine starts; nothing is known from last time"))
        live = [status for status in statuses if status.cluster in self.store.live]
        if not live or all(status.state == "connecting" for status in live):
            says = _("connecting to {clusters}; the figures are the last ones known").format(
                clusters=clusters_count(len(statuses))
            )
            return Verdict(word="WAIT", glyph="~", says=says)
        acting = [status for status in live if status.state == "act" and self.store.fresh(status)]
        unsure = [status for status in live if status.state != "connecting" and not self.store.fresh(status)]
        troubled = acting + unsure
        if troubled:
            parts = "; ".join(self._trouble(status) for status in troubled)
            says = _("{some} of {clusters}: {parts}").format(
                some=len(troubled), clusters=clusters_count(len(statuses)), parts=parts
            )
            failed = any(status.state == "failed" for status in unsure)
            room = self.app.size.width - _LEAD
            shorter = (parts, *self._in_all(acting, unsure, statuses))
            brief = next((words for words in shorter if width_of(words) <= room), shorter[-1])
            if acting:
                return Verdict(word="ACT", glyph="!", says=says, brief=brief)
            return Verdict(word="UNKNOWN", glyph="x" if failed else "~", says=says, brief=brief)
        used, gpus, pending = (_sum(live, name) for name in ("gpus_allocated", "gpus", "pending"))
        waiting = plural("{count} job waits", "{count} jobs wait", 2 if pending is None else round(pending))
        says = _("{clusters}; {used} of {gpus} in use; {waiting}").format(
            clusters=clusters_count(len(statuses)), used=plain(used), gpus=gpu_words(gpus),
            waiting=waiting.format(count=plain(pending)),
        )  # fmt: skip
        return Verdict(word="OK", says=says)

    def _in_all(
        self, acting: list[ClusterStatus], unsure: list[ClusterStatus], every: list[ClusterStatus]
    ) -> tuple[str, str]:
        """Return the troubles summed over the clusters, with and without their count."""
        never = sum(status.summary.never or 0 for status in acting)
        parts = _losses(never, sum(status.summary.gpus_lost or 0 for status in acting))
        failed = [status for status in unsure if status.state == "failed"]
        for count, words in (
            (len(failed), plural("{count} failed", "{count} failed", len(failed))),
            (len(unsure) - len(failed), plural("{count} stale", "{count} stale", len(unsure) - len(failed))),
        ):
            parts += [words.format(count=count)] if count else []
        said = ", ".join(parts or [_("needs a person")])
        if failed and not acting:
            said += "; " + self._trouble(failed[0])
        whole = _("{some} of {clusters}: {parts}").format(
            some=len(acting) + len(unsure), clusters=clusters_count(len(every)), parts=said
        )
        return whole, said

    def _trouble(self, status: ClusterStatus) -> str:
        name = safe(status.cluster)
        if not self.store.fresh(status):
            old = age(self.store.age_s(status))[0]
            if status.state == "failed":
                return _("{name} failed: {error}").format(name=name, error=error_of(status) or _("no reason was given"))
            return _("{name} is stale, last read {age} ago").format(name=name, age=old)
        summary = status.summary
        parts = _losses(summary.never or 0, summary.gpus_lost or 0)
        if not parts and status.attention:
            parts.append(safe(status.attention[0].what))
        return f"{name}: " + ", ".join(parts or [_("needs a person")])

    # keys ---------------------------------------------------------------------------------------------------------
    def table(self) -> Table:
        """Return the table that has the focus."""
        return self.needs_table if self.needs_table.has_focus else self.clusters_table

    def need(self) -> Attention | None:
        """Return the thing under the cursor of the lower table."""
        if not self.needs_table.has_focus or not 0 <= self.needs_table.cursor < len(self.needs):
            return None
        return self.needs[self.needs_table.cursor]

    def row(self) -> tuple[str, dict[str, Any]] | None:
        """Return the whole of the thing under the cursor of the lower table."""
        need = self.need()
        if need is None:
            return None
        fields = {**msgspec.structs.asdict(need), "objects": list(need.objects)}
        return _("NEEDS A PERSON on {cluster}").format(cluster=safe(need.cluster)), fields

    def cluster(self) -> str | None:
        """Return the cluster that the cursor stands on, or that the thing under it belongs to."""
        need = self.need()
        return need.cluster if need else self.clusters_table.cursor_key

    def target(self) -> Target | None:
        """Return the job that the thing under the cursor is about, where it names one."""
        need = self.need()
        if need is None or not need.objects:
            return None
        step = need.next_step.split()
        kind = "job" if "explain" in step else "node" if need.severity == "fault" else "job"
        named = [word for word in step if word in need.objects]
        return Target(need.cluster, kind, named[0] if named else need.objects[0])

    def on_table_left(self, event: Table.Left) -> None:
        """Go over from one table to the other."""
        if event.table is self.clusters_table and event.step > 0 and self.needs_table.last >= 0:
            take_keys(self.needs_table)
            self.needs_table.go(0)
        elif event.table is self.needs_table and event.step < 0:
            take_keys(self.clusters_table)
