"""What the screen knows: the newest message of each cluster, how old it is, and what was last said in row 2."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from connectors.text import _, plural
from console.messages import ClusterStatus, Summary
from console.ui.lines import safe

if TYPE_CHECKING:  # polars is imported after the first frame only
    import polars as pl

VerdictWord = Literal["OK", "WAIT", "ACT", "NEVER", "RUNNING", "UNKNOWN", "BETTER", "WORSE", "TRADE", "SAME"]
ALL = ""  # the scope of all clusters


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Row 2: one of the fixed words, and one sentence of safe text; `brief` is said where the sentence is too long."""

    word: VerdictWord
    says: str
    brief: str = ""
    glyph: str = " "

    @property
    def tone(self) -> str:
        """Return the colour's meaning."""
        if self.glyph == "!" or self.word in {"ACT", "NEVER"}:
            return "bad"
        if self.glyph == "x" or self.word == "WORSE":
            return "bad"
        if self.word == "UNKNOWN":
            return "warn"
        return "good" if self.word == "BETTER" else "bold"


def verdict_words() -> dict[str, str]:
    """Return the fixed words in the chosen language."""
    return {
        "OK": _("OK"), "WAIT": _("WAIT"), "ACT": _("ACT"), "NEVER": _("NEVER"), "RUNNING": _("RUNNING"),
        "UNKNOWN": _("UNKNOWN"), "BETTER": _("BETTER"), "WORSE": _("WORSE"), "TRADE": _("TRADE"), "SAME": _("SAME"),
    }  # fmt: skip


class Store:
    """The screen's memory. `now` is the clock that ages are counted by: the demo's may run faster than the wall's."""

    def __init__(self, last: tuple[ClusterStatus, ...], now: Callable[[], datetime], zone: tzinfo | None) -> None:
        """Begin with the last known statuses; they count as not live until the engine repeats them."""
        self.now = now
        self.zone = zone
        self.statuses: dict[str, ClusterStatus] = {status.cluster: status for status in last}
        self.live: set[str] = set()
        self._ahead: dict[str, float] = {}
        self.frames: dict[str, dict[str, pl.DataFrame]] = {}
        self.frames_at: dict[str, datetime] = {}
        self.broken: dict[str, str] = {}  # why the newest tables of a cluster could not be read
        self.engine_runs = 0
        self.engine: Literal["starting", "up", "down"] = "starting"
        self.engine_says = ""
        self.cluster = ALL
        self.undoable: str | None = None
        for status in last:
            self._read_clock(status)

    # from the engine ----------------------------------------------------------------------------------------------
    def take_status(self, status: ClusterStatus) -> None:
        """Keep the newest status; while it only connects, or failed, the figures of the last picture stay."""
        old = self.statuses.get(status.cluster)
        if old is not None and status.taken_at is None and status.summary == Summary():
            status = replace(status, summary=old.summary, taken_at=old.taken_at, attention=old.attention)
        self.statuses[status.cluster] = status
        self.live.add(status.cluster)
        self._read_clock(status)

    def _read_clock(self, status: ClusterStatus) -> None:
        """Find out whose clock the cluster's times are on: its own where that explains `taken_at` better than ours."""
        skew = status.clock_skew_s or 0.0
        if status.taken_at is not None:
            ahead = (status.taken_at - self.now()).total_seconds()
            self._ahead[status.cluster] = skew if abs(ahead - skew) < abs(ahead) else 0.0

    def now_of(self, cluster: str | None) -> datetime:
        """Return the present moment on the clock that the cluster's times are on: a simulated one may run ahead."""
        return self.now() + timedelta(seconds=self._ahead.get(cluster or "", 0.0))

    def take_clusters(self, clusters: tuple[str, ...]) -> None:
        """Keep the config's order and forget clusters that it no longer names."""
        self.statuses = {name: self.statuses[name] for name in clusters if name in self.statuses}
        self.frames = {name: tables for name, tables in self.frames.items() if name in clusters}
        self.broken = {}
        self.engine_runs += 1
        if self.cluster not in clusters:
            self.cluster = ALL

    # questions ----------------------------------------------------------------------------------------------------
    @property
    def clusters(self) -> list[str]:
        """Return the names in the config's order."""
        return list(self.statuses)

    @property
    def one_cluster(self) -> str | None:
        """Return the cluster in scope where it is exactly one."""
        return self.cluster or (self.clusters[0] if len(self.statuses) == 1 else None)

    def age_s(self, status: ClusterStatus) -> float | None:
        """Return the seconds since the cluster's last reading."""
        return None if status.taken_at is None else (self.now_of(status.cluster) - status.taken_at).total_seconds()

    def fresh(self, status: ClusterStatus) -> bool:
        """Return whether its figures may be shown as true: live, not failed, and not older than three polls."""
        if status.state in {"stale", "failed", "connecting"} or status.cluster not in self.live:
            return False
        age = self.age_s(status)
        return age is not None and age <= 3 * (status.interval_s or 10.0) + 5

    def remembered(self, status: ClusterStatus) -> bool:
        """Return whether its figures are the last picture, shown until the first live one."""
        return status.taken_at is not None and (status.cluster not in self.live or status.state == "connecting")

    def in_scope(self) -> list[str]:
        """Return the clusters that the views of tables show."""
        return [self.cluster] if self.cluster else self.clusters

    def table(self, name: str) -> "pl.DataFrame | None":
        """Return that table of the clusters in scope, None if none has been sent."""
        frames = [self.frames[at][name] for at in self.in_scope() if name in self.frames.get(at, {})]
        if not frames:
            return None
        if len(frames) == 1:
            return frames[0]
        import polars as pl

        return pl.concat(frames, how="diagonal_relaxed")

    def scope_age(self) -> float | None:
        """Return the age of the oldest reading in scope."""
        ages = [self.age_s(self.statuses[name]) for name in self.in_scope() if name in self.statuses]
        known = [age for age in ages if age is not None]
        return max(known) if known and len(known) == len(ages) else None

    def stale_scope(self) -> list[str]:
        """Return the clusters in scope whose figures may not be trusted as now."""
        return [name for name in self.in_scope() if name in self.statuses and not self.fresh(self.statuses[name])]

    def engine_verdict(self) -> Verdict | None:
        """Return what row 2 must say of the engine and of what it sends, None while all is well."""
        if self.engine == "down":
            return Verdict(word="UNKNOWN", glyph="x", says=self.engine_says)
        if self.engine == "up" and not self.statuses:
            return Verdict(word="UNKNOWN", glyph="?", says=_("the config names no cluster; gpudeck doctor says why"))
        for name in self.in_scope():
            if name in self.broken:
                says = _("the tables of {cluster} can't be read: {error}; the picture is the last one")
                return Verdict(word="UNKNOWN", glyph="x", says=says.format(cluster=safe(name), error=self.broken[name]))
        return None


def error_of(status: ClusterStatus) -> str:
    """Return why a cluster can't be read in safe words, without its name, which stands beside them; empty if it can."""
    return safe(status.error or "").removeprefix(f"{safe(status.cluster)}: ")


def clusters_count(count: int) -> str:
    """Return `3 clusters`."""
    return plural("{count} cluster", "{count} clusters", count).format(count=count)
