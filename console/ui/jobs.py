"""Jobs as rows of the queue view: their order, their state in a word, and why they are where they are."""

from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from connectors.notation import NotationError, format_hostlist
from connectors.text import _
from console.ui.figures import BLANK, NONE, Cell, age, figure, gpu_words, span, start_range
from console.ui.lines import safe
from console.ui.state import Store
from console.ui.widgets.table import Column

if TYPE_CHECKING:  # polars is imported after the first frame only
    import polars as pl

COLUMNS = (
    Column(key="position", title=lambda: _("POS"), width=4, most=6, align="right", rank=6),
    Column(key="cluster", title=lambda: _("CLUSTER"), width=7, most=12, rank=3),
    Column(key="id", title=lambda: _("JOB"), width=6, most=10, align="right"),
    Column(key="name", title=lambda: _("NAME"), width=12, most=22),
    Column(key="user", title=lambda: _("USER"), width=5, most=10, rank=8),
    Column(key="team", title=lambda: _("TEAM"), width=5, most=12, rank=5),
    Column(key="gpus", title=lambda: _("GPUS"), width=5, most=7, align="right"),
    Column(key="nodes", title=lambda: _("N"), width=3, most=5, align="right", rank=7),
    Column(key="state", title=lambda: _("STATE"), width=7, most=9),
    Column(key="why", title=lambda: _("WHY"), width=34, flex=True),
    Column(key="wait", title=lambda: _("WAIT"), width=4, align="right"),
    Column(key="start", title=lambda: _("START P50/90"), width=12, most=16, align="right", rank=4),
    Column(key="start50", title=lambda: _("START"), width=5, most=11, align="right"),
)

ORDERS = ("line", "problems", "wait", "gpus", "name")
_NEEDED = (
    "cluster", "key", "id", "name", "user", "team", "gpus", "nodes", "state", "state_raw", "reason_raw", "position",
    "priority", "submit_time", "start_time", "end_time", "expected_start_time", "nodelist", "tasks", "wait_s", "run_s",
    "verdict", "why", "start_p50", "start_p90", "idle_s", "queue",
)  # fmt: skip
_ENDED = ("succeeded", "failed", "cancelled", "timeout", "out_of_memory", "node_failed", "preempted")


class Job(NamedTuple):
    """One row of the frame, as the screen reads it."""

    cluster: str
    key: str
    id: str
    name: str | None
    user: str | None
    team: str | None
    gpus: float | None
    nodes: int | None
    state: str | None
    state_raw: str | None
    reason_raw: str | None
    position: int | None
    priority: float | None
    submit_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    expected_start_time: datetime | None
    nodelist: list[str] | None
    tasks: int | None
    wait_s: float | None
    run_s: float | None
    verdict: str | None
    why: str | None
    start_p50: datetime | None
    start_p90: datetime | None
    idle_s: float | None
    queue: str | None


def order_words() -> dict[str, str]:
    """Return the names of the orders in the chosen language."""
    return {
        "line": _("the line"), "problems": _("problems first"), "wait": _("longest wait"), "gpus": _("most GPUs"),
        "name": _("name"),
    }  # fmt: skip


def prepare(frame: "pl.DataFrame") -> "pl.DataFrame":
    """Return the columns that the view needs, missing ones null, with `row_key` (cluster and key) before them."""
    import polars as pl

    # Added before selecting: a literal beside the columns of an empty frame would make a row of its own.
    whole = frame.with_columns(pl.lit(None).alias(name) for name in _NEEDED if name not in frame.columns)
    return whole.select(pl.concat_str(["cluster", "key"], separator="\x00").alias("row_key"), *_NEEDED)


def is_held(reason: str | None) -> bool:
    """Return whether the system's own reason says that somebody holds the job."""
    return reason is not None and reason in {"JobHeldUser", "JobHeldAdmin"}


def order(frame: "pl.DataFrame", how: str) -> "pl.DataFrame":
    """Return the jobs in an order.

    `line`: those that wait, first to start first, then the held and those that cannot start, then the running, then the
    ended. The waiting stand before the running, unlike the layout's sketch: with a full cluster the running alone fill
    several screens, and the question asked here is about the line. `problems`: what needs a person first.
    """
    import polars as pl

    verdict = pl.col("verdict").cast(pl.String)
    state = pl.col("state").cast(pl.String)
    held = pl.col("reason_raw").cast(pl.String).is_in(["JobHeldUser", "JobHeldAdmin"])
    group = (
        pl.when(state.is_in(_ENDED)).then(6)
        .when(state.is_in(["running", "completing", "suspended"])).then(5)
        .when(verdict == "NEVER").then(3)
        .when(held).then(2)
        .when(verdict.is_in(["ACT", "UNKNOWN"]) | (state == "unknown")).then(1)
        .otherwise(0)
    )  # fmt: skip
    trouble = (
        pl.when(verdict.is_in(["NEVER", "ACT"])).then(0)
        .when(verdict == "UNKNOWN").then(1)
        .when(pl.col("idle_s") > 0).then(2)
        .otherwise(3)
    )  # fmt: skip
    line = [pl.col("position"), -pl.col("priority"), pl.col("submit_time")]
    if frame.get_column("cluster").n_unique() > 1:  # comparing one name 50,000 times is a third of the time
        line.insert(0, pl.col("cluster"))  # priorities of two systems can't be compared: each one's line stays together
    by: list[pl.Expr] = {
        "problems": [trouble, group, *line],
        "wait": [-pl.col("wait_s").cast(pl.Float64), *line],
        "gpus": [-pl.col("gpus"), *line],
        "name": [pl.col("name")],
    }.get(how, [group, *line])
    places = frame.select(pl.arg_sort_by(by, nulls_last=True, maintain_order=True)).to_series()
    return frame[places]  # a third of the time of sorting all columns


def keep_order(frame: "pl.DataFrame", keys: Sequence[str], how: str) -> "pl.DataFrame":
    """Return the rows in the order of keys that are on the screen already; new ones follow in the order `how`."""
    import polars as pl

    known = pl.DataFrame({"row_key": keys}, schema={"row_key": pl.String})
    old = known.join(frame, on="row_key", how="inner", maintain_order="left").select(frame.columns)
    new = frame.join(known, on="row_key", how="anti", maintain_order="left")
    return old if new.is_empty() else pl.concat([old, order(new, how)])


def state_cell(job: Job) -> Cell:
    """Return glyph and word of the job's state; the glyph is blank for what is normal."""
    verdict = job.verdict
    state = job.state or "unknown"
    if state in {"running", "completing", "suspended"}:
        if job.idle_s:
            return ("_ " + _("idle"), "warn")
        if verdict == "ACT":
            return ("! " + _("act"), "bad")
        return ("  " + {"running": _("run"), "completing": _("end"), "suspended": _("susp")}[state], "base")
    if state in _ENDED:
        words = {"succeeded": "  " + _("done"), "cancelled": "  " + _("canc"), "preempted": "  " + _("preem")}
        return (words[state], "base") if state in words else ("x " + _("fail"), "bad")
    if verdict == "NEVER":
        return ("! " + _("never"), "bad")
    if is_held(job.reason_raw):
        return ("  " + _("hold"), "base")
    if verdict == "ACT":
        return ("! " + _("act"), "bad")
    if verdict == "UNKNOWN" or state == "unknown":
        return ("? " + _("unkn"), "warn")
    return ("  " + _("wait"), "base")


def host_words(hosts: Sequence[str]) -> str:
    """Return `gpu[01-04]`, or the names with commas where a name is none that fits the notation."""
    try:
        return safe(format_hostlist(hosts))
    except NotationError:
        return safe(",".join(hosts))


def why_cell(job: Job) -> Cell:
    """Return the binding cause in words; for a running job what is wrong, else its nodes; else the raw reason."""
    if job.state in {"running", "completing", "suspended"}:
        if job.idle_s:
            held = _("0 % busy for {time}, holds {gpus}")
            return (held.format(time=span(job.idle_s), gpus=gpu_words(job.gpus)), "base")
        if job.nodelist:
            return (host_words(job.nodelist), "base")
    if job.why:
        return (safe(job.why), "base")
    if job.reason_raw and job.reason_raw not in {"None", "(null)"}:
        return (_("reason {reason}").format(reason=safe(job.reason_raw)), "base")
    if job.state == "unknown" and job.state_raw:
        return (_("state {state}").format(state=safe(job.state_raw)), "base")
    return NONE if job.state in {"running", "completing", *_ENDED} else ("?", "base")


class JobRows:
    """A frame of jobs as rows of a table; only the rows that are looked at are ever made."""

    def __init__(self, frame: "pl.DataFrame", store: Store) -> None:
        """Keep a prepared and ordered frame; starts are shown against the minute at which it is made."""
        self._keys = frame.get_column("row_key")
        self.frame = frame.drop("row_key")
        self._now_of = store.now_of
        self._zone = store.zone
        self._cells: dict[int, tuple[Cell, ...]] = {}
        self._stale = set(store.stale_scope())

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def keys(self) -> list[str]:
        """Return all keys in their order."""
        return self._keys.to_list()

    def job(self, index: int) -> Job:
        """Return one row of the frame."""
        return Job._make(self.frame.row(index))

    def key(self, index: int) -> str:
        """Return cluster and key."""
        found: str = self._keys[index]
        return found

    def version(self, index: int) -> Hashable:
        """Return the cells, for they are what is drawn."""
        return self.row(index)

    def find(self, key: str) -> int | None:
        """Return where the key is."""
        return self._keys.index_of(key)

    def row(self, index: int) -> tuple[Cell, ...]:
        """Return the cells of one job; made once, for a table asks several times."""
        cells = self._cells.get(index)
        if cells is None:
            cells = self._cells[index] = self._make(self.job(index))
        return cells

    def _make(self, job: Job) -> tuple[Cell, ...]:
        tone = "dim" if job.cluster in self._stale else "base"
        waiting = job.state in {"pending", "unknown", None}
        state = state_cell(job)
        why = why_cell(job)
        if job.cluster in self._stale:
            state = ("~" + state[0][1:], "warn")
            why = (why[0], "dim")
        seconds = job.wait_s if waiting else job.run_s
        name = safe(job.name) if job.name is not None else "?"
        if job.tasks is not None and job.tasks > 1:
            name += f"[{job.tasks}]"
        return (
            figure(job.position, tone) if job.position is not None else NONE,
            (safe(job.cluster), "dim"),
            (safe(job.id), tone),
            (name, tone),
            (safe(job.user) if job.user is not None else "?", tone),
            (safe(job.team) if job.team is not None else "?", tone),
            figure(job.gpus, tone),
            figure(job.nodes, tone),
            state,
            why,
            age(seconds, tone),
            *self._start(job, waiting=waiting),
        )

    def _start(self, job: Job, *, waiting: bool) -> tuple[Cell, Cell]:
        if not waiting:
            return BLANK, BLANK
        if job.verdict == "NEVER":
            return (_("never"), "bad"), (_("never"), "bad")
        if job.start_p50 is None:
            return (BLANK, BLANK) if is_held(job.reason_raw) else (("?", "base"), ("?", "base"))
        now = self._now_of(job.cluster)
        both = start_range(job.start_p50, job.start_p90, now, self._zone)
        return (both, "base"), (start_range(job.start_p50, None, now, self._zone), "base")


def hidden_columns(width: int, *, with_cluster: bool) -> frozenset[str]:
    """Return the columns that are left out: P90 below 100 cells, the cluster where there is only one."""
    hidden = {"start50" if width >= 100 else "start"}
    return frozenset(hidden if with_cluster else hidden | {"cluster"})
