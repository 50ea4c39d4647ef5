"""Queues and their quotas as a tree: figures first, then one bar on a scale common to the queues of a kind."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult

from connectors.text import _, plural
from console.ui.figures import NONE, Cell, age, figure, plain
from console.ui.lines import Line, safe, width_of
from console.ui.screens.view import Target, View, scope_words
from console.ui.state import Verdict
from console.ui.widgets.row import Row
from console.ui.widgets.table import Column, ListRows, Table

if TYPE_CHECKING:  # polars is imported after the first frame only
    import polars as pl

BAR = 40
COLUMNS = (
    Column(key="queue", title=lambda: _("QUEUE"), width=18, most=28),
    Column(key="nominal", title=lambda: _("NOM"), width=5, most=7, align="right"),
    Column(key="used", title=lambda: _("USED"), width=5, most=7, align="right"),
    Column(key="borrowed", title=lambda: _("BORROW"), width=6, align="right", rank=4),
    Column(key="pending", title=lambda: _("PEND"), width=5, most=7, align="right"),
    Column(key="limit", title=lambda: _("LIMIT"), width=5, most=7, align="right"),
    Column(key="bar", title=lambda: _("GPUS OF THE LIMIT"), width=BAR, rank=3),
    Column(key="bar16", title=lambda: _("GPUS OF LIMIT"), width=16, rank=2),
    Column(key="note", title=lambda: _("NOTE"), width=14, flex=True),
)


@dataclass(slots=True)
class Branch:
    """One queue with its GPU quota over all models, and the branches under it."""

    cluster: str
    id: str
    kind: str
    label: str
    queue: dict[str, Any] = field(default_factory=dict)
    quota: dict[str, Any] = field(default_factory=dict)
    children: list["Branch"] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Return the identity across refreshes."""
        return f"{self.cluster}\x00{self.id}\x00{self.label}"


def branches(queues: "pl.DataFrame", quotas: "pl.DataFrame | None") -> list[Branch]:
    """Return the trees: one root a kind (and cluster), queues under their parents, models under their queue."""
    models: dict[tuple[str, str], list[dict[str, Any]]] = {}
    whole: dict[tuple[str, str], dict[str, Any]] = {}
    for row in quotas.iter_rows(named=True) if quotas is not None else ():
        if row["resource"] not in {"gpu", None}:
            continue
        place = (row["cluster"], row["queue"])
        if row["model"] is None:
            whole[place] = row
        else:
            models.setdefault(place, []).append(row)
    found: dict[tuple[str, str], Branch] = {}
    for row in queues.iter_rows(named=True):
        place = (row["cluster"], row["id"])
        kind, colon, name = row["id"].partition(":")
        branch = Branch(*place, row["kind"] or kind, safe(name if colon else row["id"]), row, whole.get(place, {}))
        parts = models.get(place, [])
        if not branch.quota and len(parts) == 1:
            branch.quota = parts[0]
        elif parts:
            branch.children = [Branch(*place, branch.kind, safe(part["model"]), {}, part) for part in parts]
        found[place] = branch
    roots: dict[tuple[str, str], Branch] = {}
    for branch in found.values():
        parent = branch.queue["parent"]
        above = found.get((branch.cluster, parent)) if parent else None
        if above is None or _is_under(above, branch, found):
            place = (branch.cluster, branch.kind)
            title = safe(branch.kind.upper())
            above = roots.setdefault(place, Branch(branch.cluster, f"\x00{branch.kind}", branch.kind, title))
        above.children.append(branch)
    return list(roots.values())


def _is_under(above: Branch, branch: Branch, found: dict[tuple[str, str], Branch]) -> bool:
    """Return whether making `above` the parent would close a ring, which hostile data can ask for."""
    seen: set[str] = set()
    at: Branch | None = above
    while at is not None and at.id not in seen:
        if at is branch:
            return True
        seen.add(at.id)
        at = found.get((at.cluster, at.queue.get("parent") or ""))
    return False


def bar(quota: dict[str, Any], scale: float, width: int) -> str:
    """Return the bar: `#` own, `+` borrowed, `:` waiting, `.` unused, `|` nominal, `>` beyond the scale."""
    used = quota.get("used")
    if used is None or scale <= 0:
        return "?" if quota else ""

    def place(value: float) -> int:
        return max(0, min(width, round(value / scale * width)))

    borrowed = min(used, quota.get("borrowed") or 0.0)
    own, end = place(used - borrowed), place(used)
    cells = ["#"] * own + ["+"] * (end - own)
    waiting = place(used + (quota.get("pending") or 0.0)) - end
    cells += [":"] * waiting
    limit = quota.get("limit")
    if limit is not None and limit != float("inf"):
        cells += ["."] * max(0, place(limit) - len(cells))
    nominal = quota.get("nominal")
    if nominal and nominal != float("inf") and place(nominal) < width:
        cells += [" "] * max(0, place(nominal) + 1 - len(cells))
        cells[place(nominal)] = "|"
    if used + (quota.get("pending") or 0.0) > scale and len(cells) >= width:
        cells[width - 1] = ">"
    return "".join(cells[:width])


def scale_of(branch: Branch) -> float:
    """Return the figure at the bar's end: the largest finite limit, nominal or use under this root."""
    most = 0.0
    for one, _depth in walk([branch], set()):
        for name in ("limit", "nominal", "used"):
            value = one.quota.get(name)
            if value is not None and value != float("inf"):
                most = max(most, value)
    return most


def walk(tree: Sequence[Branch], folded: set[str], depth: int = 0) -> Iterator[tuple[Branch, int]]:
    """Yield the branches that are not folded away, with their depth."""
    for branch in tree:
        yield branch, depth
        if branch.key not in folded:
            yield from walk(branch.children, folded, depth + 1)


def note(branch: Branch) -> tuple[str, str]:
    """Return what figures do not say: state, loan, limits on a job or user, who preempts."""
    queue, quota, parts, tone = branch.queue, branch.quota, [], "dim"
    if branch.id.startswith("\x00"):
        return "", tone
    if queue.get("state") == "stopped":
        parts.append("! " + _("stopped"))
        tone = "bad"
    elif queue.get("state") in {"draining", "unknown"}:
        parts.append({"draining": "! " + _("draining"), "unknown": "? " + _("state unknown")}[queue["state"]])
        tone = "warn"
    if quota.get("limit") is not None and quota.get("used") is not None and quota["used"] >= quota["limit"] > 0:
        parts.append(_("full"))
        tone = "warn" if tone == "dim" else tone
    if quota.get("lent"):
        parts.append(_("lent {gpus}").format(gpus=plain(quota["lent"])))
    for name, words in (
        ("max_gpus_per_job", _("{gpus} a job")), ("max_gpus_per_user", _("{gpus} a user")),
    ):  # fmt: skip
        if queue.get(name) not in {None, float("inf")}:
            parts.append(words.format(gpus=plain(queue[name])))
    if queue.get("fairshare_ratio") is not None:
        parts.append(_("fair share {ratio}").format(ratio=f"{queue['fairshare_ratio']:.2f}"))
    elif queue.get("weight") is not None:
        parts.append(_("weight {weight}").format(weight=plain(queue["weight"])))
    if queue.get("running_jobs") is not None or queue.get("pending_jobs") is not None:
        parts.append(_("{running} run, {pending} wait").format(
            running=plain(queue.get("running_jobs")), pending=plain(queue.get("pending_jobs"))))  # fmt: skip
    return ", ".join(parts), tone


def _full_name(branch: Branch) -> str:
    """Return the queue's id, with the model where the quota is one model's."""
    model = branch.quota.get("model")
    return safe(branch.id) + (f" {safe(model)}" if model and not branch.queue else "")


class Quotas(View):
    """The tree of queues in scope."""

    view_name: ClassVar[str] = "quotas"

    def compose(self) -> ComposeResult:
        """The table and, under it, the legend of the bar."""
        self.quota_table = Table(COLUMNS, self.palette, empty=self._nothing, id="quotas")
        self.legend = Row(self._legend, self.palette, id="quota-legend")
        self.folded: set[str] = set()
        self.forest: list[Branch] = []
        self._shown: list[Branch] = []
        self._of: tuple[Any, ...] = ()
        yield self.quota_table
        yield self.legend

    def on_mount(self) -> None:
        """Show what is there."""
        self.show()

    def show(self) -> None:
        """Take over a new snapshot or scope."""
        store = self.store
        wide = self.app.size.width >= 110
        now = (tuple((name, store.frames_at.get(name)) for name in store.in_scope()), tuple(store.stale_scope()), wide)
        if now == self._of:
            return
        self._of = now
        queues = store.table("queues")
        quotas = store.table("quotas")
        self.forest = [] if queues is None else branches(queues, quotas)
        silent = {
            name for name, column in (("nominal", "nominal"), ("borrowed", "borrowed"))
            if quotas is None or quotas[column].null_count() == len(quotas)
        }  # fmt: skip
        self.quota_table.set_hidden(frozenset(silent | {"bar16" if wide else "bar"}))
        self._fill()

    def _fill(self) -> None:
        self._shown = []
        rows: list[tuple[str, Sequence[Cell]]] = []
        many = len(self.store.in_scope()) > 1
        for root in self.forest:
            scale = scale_of(root)
            for branch, depth in walk([root], self.folded):
                self._shown.append(branch)
                rows.append((branch.key, self._cells(branch, depth, scale, many=many)))
        self.quota_table.set_rows(ListRows(rows))
        self.legend.display = bool(rows)

    def _cells(self, branch: Branch, depth: int, scale: float, *, many: bool) -> list[Cell]:
        sign = "" if not branch.children else "> " if branch.key in self.folded else "v "
        name = "  " * depth + (sign or "  ") + branch.label
        if branch.id.startswith("\x00"):
            where = safe(branch.cluster) if many else ""
            ends = [("0" + plain(scale).rjust(size - 1), "dim") if scale else ("", "base") for size in (BAR, 16)]
            return [(f"{sign}{branch.label}", "bold"), *[("", "base")] * 5, *ends, (where, "dim")]
        stale = branch.cluster in self.store.stale_scope()
        tone = "dim" if stale else "base"
        quota = branch.quota

        def show(name: str) -> Cell:
            return NONE if not quota else figure(quota.get(name), tone)

        full = quota.get("used") is not None and quota.get("limit") is not None and quota["used"] >= quota["limit"] > 0
        used = show("used")
        return [
            (name, tone), show("nominal"), (used[0], "warn") if full and not stale else used,
            NONE if quota.get("borrowed") is None else show("borrowed"), show("pending"), show("limit"),
            (bar(quota, scale, BAR), tone), (bar(quota, scale, 16), tone), note(branch),
        ]  # fmt: skip

    def fold(self, *, closed: bool) -> None:
        """Fold or unfold the branch under the cursor; folding a leaf goes to its parent."""
        branch = self._branch()
        if branch is None:
            return
        if closed and (not branch.children or branch.key in self.folded):
            above = next((one for one in self._shown if branch in one.children), None)
            if above is not None:
                self.quota_table.go_to_key(above.key)
            return
        if closed:
            self.folded.add(branch.key)
        else:
            self.folded.discard(branch.key)
        self._fill()

    def _branch(self) -> Branch | None:
        at = self.quota_table.cursor
        return self._shown[at] if 0 <= at < len(self._shown) else None

    def _legend(self, width: int) -> Line:
        words = [
            ("#", _("used")), ("+", _("borrowed")), (":", _("waiting")), (".", _("unused")), ("|", _("nominal")),
            (">", _("past the scale")), ("", _("figures are GPUs")),
        ]  # fmt: skip
        text = ""
        for sign, says in words:
            more = f" {sign} {says}  " if sign else f" {says}"
            if width_of(text) + width_of(more) > width:
                break
            text += more
        return ((text, "dim"),)

    def _nothing(self, _width: int) -> list[Line]:
        where = scope_words(self.store)
        old = self.store.scope_age()
        asked = _("asked {age} ago").format(age=age(old)[0]) if old is not None else _("not answered yet")
        says = _("No queue of {where} is known ({asked}).").format(where=where, asked=asked)
        return [(), ((f"  {says}", "base"),), ((f"  {_('r = ask now   1 = Fleet')}", "dim"),)]

    def verdict(self) -> Verdict:
        """Say which queues are full, stopped, or wait although they are owed more."""
        if not self.forest:
            return Verdict(word="WAIT", glyph="~", says=_("the queues are being read"))
        stale = self.store.stale_scope()
        if stale:
            names = ", ".join(safe(name) for name in stale)
            return Verdict(
                word="UNKNOWN", glyph="~", says=_("stale: {names}; what is shown is older").format(names=names)
            )
        every = [one for one, _depth in walk(self.forest, set()) if not one.id.startswith("\x00")]
        stopped = [one.label for one in every if one.queue.get("state") == "stopped" and one.queue.get("pending_jobs")]
        full = [
            _full_name(one) for one in every
            if (one.quota.get("pending") or 0) > 0 and one.quota.get("used") is not None
            and one.quota.get("limit") is not None and one.quota["used"] >= one.quota["limit"]
        ]  # fmt: skip
        parts = []
        if stopped:
            parts.append(_("{names} stopped with jobs waiting").format(names=", ".join(dict.fromkeys(stopped))))
        if full:
            parts.append(
                plural("{names} is full with jobs waiting", "{names} are full with jobs waiting", len(full)).format(
                    names=", ".join(dict.fromkeys(full))
                )
            )
        if parts:
            return Verdict(word="ACT" if stopped else "WAIT", glyph="!" if stopped else " ", says="; ".join(parts))
        return Verdict(word="OK", says=_("no queue is at its limit with jobs waiting"))

    def context(self) -> str:
        """Return the scope and its age."""
        return f"{scope_words(self.store)}  " + _("as of {age}").format(age=age(self.store.scope_age())[0])

    def table(self) -> Table:
        """Return the tree's rows."""
        return self.quota_table

    def row(self) -> tuple[str, dict[str, Any]] | None:
        """Return every field of the queue and its quota."""
        branch = self._branch()
        if branch is None or branch.id.startswith("\x00"):
            return None
        fields = {**branch.queue, **{name: value for name, value in branch.quota.items() if name != "queue"}}
        return _("QUEUE {queue} on {cluster}").format(queue=safe(branch.id), cluster=safe(branch.cluster)), fields

    def target(self) -> Target | None:
        """Return the queue under the cursor."""
        branch = self._branch()
        if branch is None or branch.id.startswith("\x00"):
            return None
        return Target(branch.cluster, "queue", branch.id)
