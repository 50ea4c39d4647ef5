"""The engine: opens connectors, keeps the latest snapshot of each cluster, and answers questions about them.

The command line runs it in its own process, the screen in a process of its own (`console.service`). It holds all
mutable state of the program: members with their snapshots, the audit log's handle, proposals that wait for their word.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from connectors import zone
from connectors.change import Change, Supposition
from connectors.connector import Capabilities, Connector, Gap, Raw, connector_class
from connectors.errors import BadWords, GpudeckError, NotFound, Unreachable, Unsupported
from console.config import Access, ClusterConfig, Config

if TYPE_CHECKING:  # polars and the core load when a snapshot is first needed
    import polars as pl

    from connectors.model import Snapshot
    from console.scheduling.forecast import Forecast, WhatIf
    from console.triage.diagnosis import Diagnosis

_T = TypeVar("_T")
DEFAULT_TIMEOUT_S = 60.0
_HISTORY_FRESH_S = 1800.0
_OWN_CLOCK = timedelta(minutes=2)  # a refresh takes seconds: what is further from us runs on a time of its own


@dataclass(slots=True)
class Member:
    """One cluster in the engine: its connector, the last that was seen of it, and what went wrong since."""

    config: ClusterConfig
    connector: Connector
    access: Access
    snapshot: "Snapshot | None" = None
    error: GpudeckError | None = None
    forecast: "Forecast | None" = None
    history: "pl.DataFrame | None" = None
    history_gap: Gap | None = None
    history_read: float | None = None
    reasons: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    clock_ahead: timedelta = timedelta(0)

    @property
    def name(self) -> str:
        """Return the cluster's name."""
        return self.config.name

    def accept(self, snapshot: "Snapshot") -> None:
        """Keep a new snapshot, and the last reason of each pending job that says more than `None`."""
        import polars as pl

        self.snapshot = snapshot
        self.error = None
        ahead = snapshot.meta.taken_at - datetime.now(UTC)
        self.clock_ahead = ahead if abs(ahead) > _OWN_CLOCK else timedelta(0)
        pending = snapshot.jobs.filter(pl.col("state") == "pending").select("key", "reason_raw")
        keys = set(pending["key"])
        for key, reason in pending.iter_rows():
            if reason and reason != "None":
                self.reasons[key] = (reason, snapshot.meta.taken_at)
        for key in [key for key in self.reasons if key not in keys]:
            del self.reasons[key]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one cluster answered: a snapshot, or the error in its place."""

    cluster: str
    snapshot: "Snapshot | None"
    error: GpudeckError | None


class Engine:
    """Answers for a set of clusters. Every coroutine raises the family of `connectors.errors` and nothing else."""

    def __init__(
        self,
        config: Config,
        clusters: Sequence[ClusterConfig],
        *,
        write: bool = False,
        captured: Path | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Open a connector for each cluster; with `captured` they answer from folders (see `captured_clusters`)."""
        self.config = config
        self.timeout_s = timeout_s
        self._members: dict[str, Member] = {}
        for cluster in clusters:
            folder = None if captured is None else _capture_of(captured, cluster.name)
            access: Access = "write" if not folder and (write or cluster.access == "write") else "read"
            self._members[cluster.name] = Member(cluster, _open(config, cluster, folder), access)

    @property
    def members(self) -> tuple[Member, ...]:
        """Return all members in the order of the config."""
        return tuple(self._members.values())

    def member(self, name: str) -> Member:
        """Return a member by its cluster's name."""
        if name not in self._members:
            raise NotFound("cluster", name, near=sorted(self._members))
        return self._members[name]

    def capabilities(self, name: str) -> Capabilities:
        """Return what can be done on a cluster, as far as it is known by now."""
        return self.member(name).connector.capabilities

    def now(self, name: str) -> datetime:
        """Return what `now` means on a cluster, in this machine's zone: a demo or a capture has a time of its own."""
        return zone.now() + self.member(name).clock_ahead

    async def raw(self, name: str) -> Raw:
        """Return the raw answers of one refresh."""
        member = self.member(name)
        return await self._in_time(member, lambda: member.connector.read(everything=True))

    async def read(self, name: str, *, everything: bool = False) -> "Snapshot":
        """Read a cluster now and keep what was seen; `everything` reuses no slow answer (see `Connector.read`)."""
        member = self.member(name)
        try:
            raw = await self._in_time(member, lambda: member.connector.read(everything=everything))
            snapshot = await asyncio.to_thread(member.connector.interpret, raw)
        except GpudeckError as error:
            member.error = error
            raise
        member.accept(snapshot)
        return snapshot

    async def read_all(self) -> list[Reading]:
        """Read all clusters at once; one that fails does not spoil the others."""

        async def reading(member: Member) -> Reading:
            try:
                return Reading(member.name, await self.read(member.name), None)
            except GpudeckError as error:
                return Reading(member.name, None, error)

        return list(await asyncio.gather(*(reading(member) for member in self.members)))

    async def history(self, name: str) -> "pl.DataFrame | None":
        """Return the jobs that ended in the config's window, read at most half an hour ago; None where there are none.

        Why there are none stands in the member's `history_gap`.
        """
        member = self.member(name)
        if member.history_read is not None and time.monotonic() - member.history_read < _HISTORY_FRESH_S:
            return member.history
        member.history_gap = None
        try:
            since = _now_of(member) - timedelta(seconds=member.config.history_s)
            member.history = await self._in_time(member, lambda: member.connector.history(since))
        except Unsupported:
            member.history = None
        except GpudeckError as error:
            member.history = None
            member.history_gap = Gap(
                source="history", reason=str(error), since=datetime.now(UTC), affects=("forecast.basis",)
            )
        member.history_read = time.monotonic()
        return member.history

    async def forecast(self, name: str) -> "Forecast":
        """Return what would happen on a cluster from its last snapshot on."""
        from console.scheduling.whatif import forecast

        member = self.member(name)
        snapshot = member.snapshot or await self.read(name)
        history = await self.history(name)
        member.forecast = await asyncio.to_thread(forecast, snapshot, history=history)
        return member.forecast

    async def explain(self, name: str, job: str) -> "Diagnosis":
        """Return why a job is not running; NotFound if the last snapshot has no such job."""
        from console.jobs import find_job
        from console.triage.explain import diagnose

        member = self.member(name)
        snapshot = member.snapshot or await self.read(name)
        row = find_job(snapshot, job)
        if member.forecast is None or member.forecast.made_at != snapshot.meta.taken_at:
            await self.forecast(name)
        previous = member.reasons.get(str(row["key"]))
        return await asyncio.to_thread(diagnose, snapshot, row, forecast=member.forecast, previous_reason=previous)

    async def resolve(
        self, name: str, items: Sequence[Change | Supposition]
    ) -> "tuple[Snapshot, list[Change | Supposition]]":
        """Return the snapshot and what the items mean on it, each on the ground that those before it leave."""
        from connectors.change import CHANGE_TYPES
        from console.scheduling.effects import apply_changes, suppose

        member = self.member(name)
        snapshot = member.snapshot or await self.read(name)
        ground, resolved = snapshot, list[Change | Supposition]()
        for number, item in enumerate(items, start=1):
            if isinstance(item, CHANGE_TYPES):
                changes = member.connector.resolve(item, ground)  # type: ignore[arg-type]  # a tuple of types does not narrow
                if number < len(items):  # the last one leaves its ground to nobody
                    with suppress(NotFound):  # one task of a folded array is there, but has no row that could change
                        ground = apply_changes(ground, changes)
                resolved += changes
            else:
                ground = suppose(ground, item)  # type: ignore[arg-type]  # the same
                resolved.append(item)
        return snapshot, resolved

    async def whatif(self, name: str, items: Sequence[Change | Supposition]) -> "WhatIf":
        """Return forecasts without and with changes and suppositions."""
        import msgspec

        from console.scheduling.whatif import whatif

        snapshot, resolved = await self.resolve(name, items)
        history = await self.history(name)
        began = time.perf_counter()
        answer = await asyncio.to_thread(whatif, snapshot, resolved, history=history)
        return msgspec.structs.replace(answer, elapsed_ms=round((time.perf_counter() - began) * 1000, 1))

    async def close(self) -> None:
        """Drop all connections."""
        await asyncio.gather(*(member.connector.close() for member in self.members), return_exceptions=True)

    async def _in_time(self, member: Member, ask: Callable[[], Awaitable[_T]]) -> _T:
        try:
            return await asyncio.wait_for(ask(), self.timeout_s)
        except TimeoutError:
            raise Unreachable(
                f"no answer within {self.timeout_s:g} s",
                cluster=member.name,
                source="engine",
                hint="--timeout gives it longer",
            ) from None


def captured_clusters(folder: Path) -> tuple[ClusterConfig, ...]:
    """Return the clusters that a capture holds: the folder itself, or one in each folder below it. Raises BadWords."""
    from connectors.raw import load_raw

    manifests = (
        [folder / "manifest.json"] if (folder / "manifest.json").is_file() else sorted(folder.glob("*/manifest.json"))
    )
    if not manifests:
        raise BadWords(f"{folder} is not a capture: no manifest.json in it or one folder below", text=str(folder))
    found = []
    for manifest in manifests:
        raw = load_raw(manifest.parent)
        found.append(ClusterConfig(name=raw.cluster, system=raw.system))
    return tuple(found)


def _capture_of(folder: Path, cluster: str) -> Path:
    return folder if (folder / "manifest.json").is_file() else folder / cluster


def _open(config: Config, cluster: ClusterConfig, captured: Path | None) -> Connector:
    try:
        return connector_class(cluster.system).open(cluster.name, cluster.settings, captured=captured)
    except BadWords as error:
        raise config.complain(cluster.name, error) from error
    except NotFound as error:
        raise config.complain(cluster.name, BadWords(error.what, text="system", hint=error.hint)) from error


def _now_of(member: Member) -> datetime:
    """Return the cluster's own now: a demo's and a capture's clock is not ours."""
    return member.snapshot.meta.taken_at if member.snapshot is not None else datetime.now(UTC)


def find_in_all(readings: Sequence[Reading], job: str) -> tuple[str, dict[str, Any]]:
    """Return the one cluster that has the job, and its row.

    Ambiguous if several have it; the unreadable cluster's own error if none has it and one could not be read; else
    NotFound.
    """
    from connectors.errors import Ambiguous
    from console.jobs import find_job

    hits: list[tuple[str, dict[str, Any]]] = []
    missing: list[NotFound] = []
    for reading in readings:
        if reading.snapshot is None:
            continue
        try:
            hits.append((reading.cluster, find_job(reading.snapshot, job)))
        except NotFound as error:
            missing.append(error)
    if len(hits) > 1:
        raise Ambiguous(job, [f"{job} on {cluster} (-c {cluster})" for cluster, _ in hits], kind="job")
    if hits:
        return hits[0]
    failed = next((reading.error for reading in readings if reading.error is not None), None)
    if failed is None and len(missing) == 1:
        raise missing[0]
    near = [f"{name} on {error.cluster}" for error in missing for name in error.near]
    raise failed or NotFound(
        "job", job, cluster=" or ".join(str(error.cluster) for error in missing) or None, near=near
    )
