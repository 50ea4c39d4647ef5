"""The nodes in scope: what is out of service first, with the reason that the system keeps."""

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult

from connectors.text import _, plural
from console.ui.figures import BLANK, NONE, Cell, age, figure, gpu_words, plain
from console.ui.lines import Line, safe, two_ends
from console.ui.screens.view import Target, View, scope_words
from console.ui.sifting import Sieve
from console.ui.state import Store, Verdict
from console.ui.widgets.row import Row
from console.ui.widgets.table import Column, ListRows, Table

if TYPE_CHECKING:  # polars is imported after the first frame only
    import polars as pl

COLUMNS = (
    Column(key="cluster", title=lambda: _("CLUSTER"), width=7, most=12, rank=4),
    Column(key="name", title=lambda: _("NODE"), width=8, most=24),
    Column(key="state", title=lambda: _("STATE"), width=7, most=9),
    Column(key="gpus", title=lambda: _("GPUS"), width=4, most=6, align="right"),
    Column(key="alloc", title=lambda: _("ALLOC"), width=5, align="right"),
    Column(key="free", title=lambda: _("FREE"), width=4, align="right"),
    Column(key="lost", title=lambda: _("LOST"), width=4, align="right", rank=2),
    Column(key="model", title=lambda: _("MODEL"), width=5, most=14, rank=3),
    Column(key="cpu", title=lambda: _("CPU%"), width=4, align="right", rank=6),
    Column(key="mem", title=lambda: _("MEM%"), width=4, align="right", rank=5),
    Column(key="partitions", title=lambda: _("PARTITIONS"), width=10, most=20, rank=7),
    Column(key="reason", title=lambda: _("REASON"), width=20, flex=True),
    Column(key="by", title=lambda: _("BY"), width=5, most=10, rank=1),
    Column(key="since", title=lambda: _("FOR"), width=4, align="right"),
)
ORDERS = ("state", "name", "free")
_OUT = ("down", "drained", "draining", "unknown")
_FIELDS = (
    "cluster", "name", "state", "state_raw", "gpus", "gpus_allocated", "gpus_unusable", "gpu_model", "cpus",
    "cpus_allocated", "memory_bytes", "memory_allocated_bytes", "partitions", "reason", "reason_by", "reason_time",
    "schedulable",
)  # fmt: skip


def node_state(state: str | None, unusable: float | None) -> Cell:
    """Return glyph and word of a node's state; a node in service with unusable GPUs is an exception too."""
    if state in {None, "unknown"}:
        return ("? " + _("unkn"), "warn")
    words = {
        "idle": _("free"), "mixed": _("part"), "allocated": _("full"), "planned": _("plan"), "reserved": _("resv"),
        "draining": _("drng"), "drained": _("drain"), "down": _("down"),
    }  # fmt: skip
    word = words.get(str(state), safe(str(state)))
    if state == "down":
        return ("x " + word, "bad")
    if state in {"drained", "draining"}:
        return ("! " + word, "warn")
    return ("x " + word, "bad") if unusable else ("  " + word, "base")


def free_gpus(row: Mapping[str, Any]) -> float | None:
    """Return the GPUs that a job could get here: none on a node that takes no jobs."""
    if row["schedulable"] is False or row["state"] in {"down", "drained", "draining"}:
        return 0.0
    if row["gpus"] is None or row["gpus_allocated"] is None:
        return None
    return max(0.0, float(row["gpus"] - row["gpus_allocated"] - (row["gpus_unusable"] or 0.0)))


def _share(part: float | None, whole: float | None, tone: str) -> Cell:
    if part is None or not whole:
        return ("?", tone)
    return (f"{part / whole * 100:.0f}", tone) if part else NONE


class NodeRows:
    """A frame of nodes as rows of a table."""

    def __init__(self, frame: "pl.DataFrame", store: Store) -> None:
        """Keep an ordered frame that holds `row_key`."""
        self._keys = frame.get_column("row_key")
        self.frame = frame.drop("row_key")
        self._store = store
        self._stale = set(store.stale_scope())
        self._cells: dict[int, tuple[Cell, ...]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def key(self, index: int) -> str:
        """Return cluster and name."""
        found: str = self._keys[index]
        return found

    def find(self, key: str) -> int | None:
        """Return where the key is."""
        return self._keys.index_of(key)

    def version(self, index: int) -> Hashable:
        """Return the cells."""
        return self.row(index)

    def row(self, index: int) -> tuple[Cell, ...]:
        """Return the cells of one node; made once."""
        cells = self._cells.get(index)
        if cells is None:
            cells = self._cells[index] = self._make(self.frame.row(index, named=True))
        return cells

    def _make(self, row: Mapping[str, Any]) -> tuple[Cell, ...]:
        stale = row["cluster"] in self._stale
        tone = "dim" if stale else "base"
        since = row["reason_time"]
        out = row["state"] in _OUT
        lost = row["gpus"] if out else row["gpus_unusable"]
        reason = row["reason"]
        state = node_state(row["state"], row["gpus_unusable"])
        return (
            (safe(row["cluster"]), "dim"),
            (safe(row["name"]), tone),
            ("~" + state[0][1:], "warn") if stale else state,
            figure(row["gpus"], tone),
            ("?", tone) if stale else figure(row["gpus_allocated"], tone),
            ("?", tone) if stale else figure(free_gpus(row), tone),
            ("?", tone) if stale else figure(lost, "bad" if lost else tone),
            (safe(row["gpu_model"]) if row["gpu_model"] else "?", "dim"),
            _share(row["cpus_allocated"], row["cpus"], tone),
            _share(row["memory_allocated_bytes"], row["memory_bytes"], tone),
            (safe(",".join(row["partitions"] or ())), "dim"),
            (safe(reason), tone) if reason else (NONE if not out else ("?", tone)),
            (safe(row["reason_by"]), "dim") if row["reason_by"] else BLANK,
            age((self._store.now_of(row["cluster"]) - since).total_seconds(), tone) if since else BLANK,
        )


class Nodes(View):
    """All nodes in scope."""

    view_name: ClassVar[str] = "nodes"

    def compose(self) -> ComposeResult:
        """The table, and under it one row that says what is filtered and marked."""
        self.sieve = Sieve()
        self.note = Row(self._note, self.palette, id="nodes-note")
        self._total = 0
        self.nodes_table = Table(COLUMNS, self.palette, empty=self._nothing, id="nodes")
        self.order = "state"
        self._of: tuple[Any, ...] = ()
        yield self.nodes_table
        yield self.note

    def on_mount(self) -> None:
        """Show what is there."""
        self.show()

    def show(self) -> None:
        """Take over a new snapshot, order or scope."""
        store = self.store
        scope = tuple((name, store.frames_at.get(name)) for name in store.in_scope())
        now = (scope, self.order, self.sieve.text, tuple(store.stale_scope()))
        self.note.display = bool(self.sieve.text or self.nodes_table.marks)
        self.note.update()
        if now == self._of:
            return
        self._of = now
        self.nodes_table.set_hidden(frozenset() if len(scope) > 1 else frozenset({"cluster"}))
        frame = store.table("nodes")
        self._total = 0 if frame is None else frame.height
        shown = None if frame is None else _ordered(self.sieve.apply(frame), self.order)
        self.nodes_table.set_rows(ListRows() if shown is None else NodeRows(shown, store))

    tick = show

    def set_filter(self, text: str) -> None:
        """Show only what the filter lets through."""
        self.sieve.text = text.strip()
        self.show()

    def _note(self, width: int) -> Line:
        parts = self.sieve.count(len(self.nodes_table.rows), self._total)
        if self.nodes_table.marks:
            parts.append(_("{count} marked").format(count=plain(len(self.nodes_table.marks))))
        return two_ends(self.sieve.line(), (("   ".join(parts) + " ", "base"),), width)

    def next_order(self) -> None:
        """Sort in the next order."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self.show()

    def _nothing(self, _width: int) -> list[Line]:
        where = scope_words(self.store)
        old = self.store.scope_age()
        asked = _("asked {age} ago").format(age=age(old)[0]) if old is not None else _("not answered yet")
        if self.sieve.text and self._total:
            says = _("No node of {where} passes the filter ({asked}; {total} without it).").format(
                where=where, asked=asked, total=plain(self._total)
            )
            return [(), ((f"  {says}", "base"),), ((f"  {_('/ = another filter   Esc = no filter')}", "dim"),)]
        says = _("No node of {where} is known ({asked}).").format(where=where, asked=asked)
        return [(), ((f"  {says}", "base"),), ((f"  {_('r = ask now   1 = Fleet')}", "dim"),)]

    def verdict(self) -> Verdict:
        """Say what is out of service and what is free."""
        frame = self.store.table("nodes")
        if frame is None:
            return Verdict(word="WAIT", glyph="~", says=_("the nodes are being read"))
        stale = self.store.stale_scope()
        if stale:
            names = ", ".join(safe(name) for name in stale)
            return Verdict(
                word="UNKNOWN", glyph="~", says=_("stale: {names}; what is shown is older").format(names=names)
            )
        out = frame.filter(frame["state"].cast(str).is_in(_OUT))
        free = [free_gpus(row) for row in frame.select(_FIELDS).iter_rows(named=True)]
        known = [value for value in free if value is not None]
        says = _("{gpus} free on {nodes}").format(
            gpus=gpu_words(sum(known), "+?" if len(known) < len(free) else ""),
            nodes=plural("{count} node", "{count} nodes", sum(value > 0 for value in known)).format(
                count=sum(value > 0 for value in known)
            ),
        )
        if out.is_empty():
            return Verdict(word="OK", says=says)
        lost = gpu_words(float(out["gpus"].sum()), "+?" if out["gpus"].null_count() else "")
        text = plural(
            "{count} of {total} nodes is out of service", "{count} of {total} nodes are out of service", len(out)
        )
        text = text.format(count=len(out), total=len(frame)) + ", " + _("{gpus} lost").format(gpus=lost)
        return Verdict(word="ACT", glyph="!", says=f"{text}; {says}")

    def context(self) -> str:
        """Return the scope and its age."""
        old = self.store.scope_age()
        return f"{scope_words(self.store)}  " + _("as of {age}").format(age=age(old)[0])

    def table(self) -> Table:
        """Return the nodes."""
        return self.nodes_table

    def row(self) -> tuple[str, dict[str, Any]] | None:
        """Return every field of the node under the cursor."""
        at = self._at(self.nodes_table.cursor)
        frame = None if at is None else self.store.frames.get(at.cluster, {}).get("nodes")
        if at is None or frame is None:
            return None
        found = frame.filter(frame["name"] == at.id).row(0, named=True)
        return _("NODE {node} on {cluster}").format(node=safe(at.id), cluster=safe(at.cluster)), found

    def _at(self, index: int) -> Target | None:
        rows = self.nodes_table.rows
        if not isinstance(rows, NodeRows) or not 0 <= index < len(rows):
            return None
        row = rows.frame.row(index, named=True)
        return Target(row["cluster"], "node", row["name"], "", row["gpus"])

    def target(self) -> Target | None:
        """Return the node under the cursor."""
        return self._at(self.nodes_table.cursor)

    def targets(self) -> list[Target]:
        """Return the marked nodes, else the one under the cursor."""
        rows = self.nodes_table.rows
        if not self.nodes_table.marks or not isinstance(rows, NodeRows):
            return super().targets()
        places = sorted(at for key in self.nodes_table.marks if (at := rows.find(key)) is not None)
        return [target for at in places if (target := self._at(at)) is not None]


def _ordered(frame: "pl.DataFrame", how: str) -> "pl.DataFrame":
    import polars as pl

    frame = frame.select(pl.concat_str(["cluster", "name"], separator="\x00").alias("row_key"), *_FIELDS)
    state = pl.col("state").cast(pl.String)
    trouble = (
        pl.when(state == "down").then(0).when(state == "unknown").then(1)
        .when(state.is_in(["drained", "draining"])).then(2)
        .when(pl.col("gpus_unusable") > 0).then(3).otherwise(4)
    )  # fmt: skip
    free = pl.when(trouble < 3).then(-1.0).otherwise(pl.col("gpus") - pl.col("gpus_allocated"))
    name = pl.col("name")
    by: list[pl.Expr] = {"state": [trouble, name], "name": [name], "free": [-free, name]}[how]
    return frame.sort(by, nulls_last=True, maintain_order=True)
