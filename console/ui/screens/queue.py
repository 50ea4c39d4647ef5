"""The queue: every job of the clusters in scope, why it waits and when it starts; the explanation in the lower half."""

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult

from connectors.text import _, plural
from console.ui import jobs
from console.ui.figures import age, gpu_words, moment, plain
from console.ui.lines import Line, safe, two_ends
from console.ui.screens.view import Target, View
from console.ui.sifting import Sieve
from console.ui.state import Verdict, VerdictWord, error_of
from console.ui.widgets.row import Row
from console.ui.widgets.table import ListRows, Table

if TYPE_CHECKING:  # polars is imported after the first frame only
    import polars as pl


_AT_ONCE = 5_000  # rows that are filtered and sorted within a frame's time


class Queue(View):
    """All jobs in scope."""

    view_name: ClassVar[str] = "queue"

    def compose(self) -> ComposeResult:
        """The table, and under it one row that says what is filtered and marked."""
        self.jobs_table = Table(jobs.COLUMNS, self.palette, empty=self._nothing, id="jobs")
        self.note = Row(self._note, self.palette, id="queue-note")
        self.sieve = Sieve()
        self.order = "line"
        self._of: tuple[Any, ...] = ()
        self._total = 0
        self._silent: frozenset[str] = frozenset()
        self._due: tuple[bool, bool] | None = None  # keep and to_top of the arrangement that is being made
        yield self.jobs_table
        yield self.note

    def on_mount(self) -> None:
        """Show what is there."""
        self.show()

    # content ------------------------------------------------------------------------------------------------------
    def show(self) -> None:
        """Take over a new snapshot, filter, order or scope."""
        store = self.store
        self.jobs_table.set_hidden(
            self._silent | jobs.hidden_columns(self.app.size.width, with_cluster=len(store.in_scope()) > 1)
        )
        scope = tuple((name, store.frames_at.get(name)) for name in store.in_scope())
        now = (scope, self.sieve.text, self.order, tuple(store.stale_scope()))
        if now != self._of:
            old, self._of = self._of, now
            same = bool(old) and old[1:3] == now[1:3] and [at for at, _t in old[0]] == [at for at, _t in scope]
            self._load(keep=same, to_top=not same)
        self.note.display = bool(self.sieve.text or self.jobs_table.marks or self.order != "line")
        self.note.update()

    tick = show

    def _load(self, *, keep: bool, to_top: bool) -> None:
        frame = self.store.table("jobs")
        if frame is None:
            self._total = 0
            self.jobs_table.set_rows(ListRows())
            return
        if self._due is not None:  # what is being arranged for a key still counts when newer figures come in
            keep, to_top = keep and self._due[0], to_top or self._due[1]
            self.workers.cancel_group(self, "arrange")
        self._total = frame.height
        unplaced = frame.get_column("position").null_count() == frame.height
        self._silent = frozenset({"position"}) if unplaced else frozenset()
        shown = self.jobs_table.rows
        # Rows never move under the cursor without a key: only while it rests at the top is the list free to re-sort.
        stay = keep and isinstance(shown, jobs.JobRows) and (self.jobs_table.cursor > 0 or self.jobs_table.marks)
        keys = shown.keys if stay and isinstance(shown, jobs.JobRows) else None
        if frame.height <= _AT_ONCE:
            self._put(*_arranged(frame, self.sieve.text, self.order, keys), to_top=to_top)
        else:
            self._due = (keep, to_top)
            self.run_worker(self._arrange(frame, keys, to_top=to_top), group="arrange", exclusive=True)

    async def _arrange(self, frame: "pl.DataFrame", keys: list[str] | None, *, to_top: bool) -> None:
        """Filter and sort off the event loop, so that keys go on working; a newer arrangement ends an older one."""
        found = await asyncio.to_thread(_arranged, frame, self.sieve.text, self.order, keys)
        self._put(*found, to_top=to_top)
        self.note.update()

    def _put(self, frame: "pl.DataFrame", error: str, *, to_top: bool) -> None:
        self._due = None
        self.sieve.error = error
        self.jobs_table.set_rows(jobs.JobRows(frame, self.store), to_top=to_top)

    def set_filter(self, text: str) -> None:
        """Show only what the filter lets through; a filter that can't be read shows everything and says so."""
        self.sieve.text = text.strip()
        self.show()

    def next_order(self) -> None:
        """Sort in the next order, and anew."""
        self.order = jobs.ORDERS[(jobs.ORDERS.index(self.order) + 1) % len(jobs.ORDERS)]
        self.show()

    def sort_again(self) -> None:
        """Sort anew in the same order; the cursor stays on its job."""
        self._load(keep=False, to_top=False)

    # words --------------------------------------------------------------------------------------------------------
    def _note(self, width: int) -> Line:
        shown = len(self.jobs_table.rows)
        parts = []
        if self.order != "line":
            parts.append(_("by {order}").format(order=jobs.order_words()[self.order]))
        parts += self.sieve.count(shown, self._total)
        if self.jobs_table.marks:
            marked = self.targets()
            parts.append(_("{count} marked").format(count=plain(len(marked))))
            gpus = [target.gpus for target in marked]
            known = sum(value for value in gpus if value is not None)
            parts.append(gpu_words(known, "+?" if None in gpus else ""))
        return two_ends(self.sieve.line(), (("   ".join(parts) + " ", "base"),), width)

    def _nothing(self, _width: int) -> list[Line]:
        if self._due is not None:
            return [(), ((f"  {_('the jobs are being read')}", "base"),)]
        store = self.store
        where = ", ".join(safe(name) for name in store.in_scope()) or _("no cluster")
        old = store.scope_age()
        asked = _("asked {age} ago").format(age=age(old)[0].strip()) if old is not None else _("not answered yet")
        if self.sieve.text and self._total:
            says = _("No job on {where} passes the filter ({asked}; {total} without it).").format(
                where=where, asked=asked, total=plain(self._total)
            )
            key = _("/ = another filter   Esc = no filter")
        elif store.table("jobs") is None:
            says = _("No jobs of {where} have been read ({asked}).").format(where=where, asked=asked)
            failed = [
                error_of(status) for name, status in store.statuses.items() if name in store.in_scope() and status.error
            ]
            key = failed[0] if failed else _("r = ask now   1 = Fleet")
        else:
            says = _("No job on {where}: nothing waits, nothing runs ({asked}).").format(where=where, asked=asked)
            key = _("] = next cluster   1 = Fleet")
        return [(), ((f"  {says}", "base"),), ((f"  {key}", "dim"),)]

    def verdict(self) -> Verdict:
        """Say how long the line is and what starts next."""
        store = self.store
        scope = [store.statuses[name] for name in store.in_scope() if name in store.statuses]
        stale = store.stale_scope()
        if not scope or store.table("jobs") is None:
            failed = [status for status in scope if status.state == "failed"]
            if failed:
                name, error = safe(failed[0].cluster), error_of(failed[0]) or _("no reason was given")
                return Verdict(
                    word="UNKNOWN", glyph="x", says=_("{name} failed: {error}").format(name=name, error=error)
                )
            return Verdict(word="WAIT", glyph="~", says=_("the jobs are being read"))
        fresh = [status.summary for status in scope if status.cluster not in stale]
        if not fresh:
            ages = [(safe(name), age(store.age_s(store.statuses[name]))[0]) for name in stale]
            names = ", ".join(f"{name} {old}" for name, old in ages)
            says = _("last read {names} ago; the jobs below are those of then").format(names=names)
            return Verdict(word="UNKNOWN", glyph="~", says=says)
        line = self._line_verdict(fresh)
        if not stale:
            return line
        without = _("Without {names} (stale).").format(names=", ".join(safe(name) for name in stale))
        says, brief = f"{line.says}  {without}", f"{line.brief}  {without}"
        if line.word == "ACT":
            return Verdict(word="ACT", glyph="!", says=says, brief=brief)
        return Verdict(word="UNKNOWN", glyph="~", says=says, brief=brief)

    def _line_verdict(self, summaries: list[Any]) -> Verdict:
        def total(name: str) -> float | None:
            values = [getattr(summary, name) for summary in summaries]
            return None if None in values else sum(values)

        pending, never = total("pending"), total("never")
        says = _("{pending} pending, {gpus} asked, {free} free.").format(
            pending=plain(pending), gpus=gpu_words(total("pending_gpus")), free=plain(total("gpus_free"))
        )
        brief = _("{pending} pending.").format(pending=plain(pending))
        tail = ""
        if never:
            never_words = plural("{count} never starts.", "{count} never start.", round(never))
            tail += "  " + never_words.format(count=plain(never))
        soonest = self._next_start()
        if soonest:
            tail += "  " + soonest
        if pending == 0:
            return Verdict(word="OK", says=_("nothing waits; {gpus} free").format(gpus=gpu_words(total("gpus_free"))))
        word: VerdictWord = "ACT" if never else "WAIT"
        return Verdict(word=word, glyph="!" if never else " ", says=says + tail, brief=brief + tail)

    def _next_start(self) -> str:
        frame = self.store.table("jobs")
        if frame is None or "start_p50" not in frame.columns:
            return ""
        import polars as pl

        soonest = (
            frame.lazy().filter(pl.col("state").cast(pl.String) == "pending", pl.col("start_p50").is_not_null())
            .select("id", "start_p50", "cluster").sort("start_p50").head(1).collect()
        )  # fmt: skip
        if soonest.is_empty():
            return ""
        job, when, cluster = soonest.row(0)
        return _("Next: {job} at {time} (P50)").format(
            job=safe(job), time=moment(when, self.store.now_of(cluster), self.store.zone)
        )

    def context(self) -> str:
        """Return the scope and its age."""
        store = self.store
        where = safe(store.cluster) if store.cluster else safe(store.one_cluster or _("all clusters"))
        old = store.scope_age()
        gaps = sum(len(store.statuses[name].gaps) for name in store.in_scope() if name in store.statuses)
        parts = [where, _("as of {age}").format(age=age(old)[0] if old is not None else "?")]
        if gaps:
            parts.append(plural("{count} gap", "{count} gaps", gaps).format(count=gaps))
        return "  ".join(parts)

    # keys ---------------------------------------------------------------------------------------------------------
    def table(self) -> Table:
        """Return the jobs."""
        return self.jobs_table

    def job(self) -> jobs.Job | None:
        """Return the job under the cursor."""
        rows = self.jobs_table.rows
        if not isinstance(rows, jobs.JobRows) or self.jobs_table.cursor_key is None:
            return None
        return rows.job(self.jobs_table.cursor)

    def row(self) -> tuple[str, dict[str, Any]] | None:
        """Return every field of the job under the cursor."""
        job = self.job()
        frame = None if job is None else self.store.frames.get(job.cluster, {}).get("jobs")
        if job is None or frame is None:
            return None
        found = frame.row(by_predicate=pl_equal("key", job.key), named=True)
        return _("JOB {job} on {cluster}").format(job=safe(job.id), cluster=safe(job.cluster)), found

    def target(self) -> Target | None:
        """Return the job under the cursor."""
        job = self.job()
        return None if job is None else _target(job)

    def targets(self) -> list[Target]:
        """Return the marked jobs in the order of the rows, else the one under the cursor."""
        rows = self.jobs_table.rows
        if not self.jobs_table.marks or not isinstance(rows, jobs.JobRows):
            return super().targets()
        places = sorted(at for key in self.jobs_table.marks if (at := rows.find(key)) is not None)
        return [_target(rows.job(at)) for at in places]


def _arranged(frame: "pl.DataFrame", words: str, how: str, keys: list[str] | None) -> tuple["pl.DataFrame", str]:
    """Return the rows that pass the filter, in the order `how` or that of `keys`, and what is wrong with the filter."""
    sieve = Sieve()
    sieve.text = words
    frame = jobs.prepare(sieve.apply(frame))
    return (jobs.order(frame, how) if keys is None else jobs.keep_order(frame, keys, how)), sieve.error


def pl_equal(column: str, value: str) -> "pl.Expr":
    """Return the predicate that finds a row by its name."""
    import polars as pl

    return pl.col(column) == value


def _target(job: jobs.Job) -> Target:
    gpus = None if job.gpus is None else job.gpus * (job.tasks or 1)
    return Target(job.cluster, "job", job.id, job.name or "", gpus)
