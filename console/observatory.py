"""Observes every cluster of an engine and publishes what the screen shows: statuses and frames.

One task a cluster. A cluster that fails keeps its last snapshot and is asked again, later each time up to half a
minute, until it answers; the others never notice. Forecasts run beside the readings and at most a tenth of the time.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from connectors.errors import GpudeckError
from console.engine import Engine, Member
from console.messages import ClusterStatus, Event, Frames
from console.wire import SHOWN_TABLES, encode_frame, save_last

if TYPE_CHECKING:
    from connectors.model import Snapshot

Publish = Callable[[Event], None]
_LONGEST_WAIT_S = 30.0
_SAVE_EVERY_S = 20.0
_FORECAST_SHARE = 10.0  # a forecast that took 1 s is not repeated for 10 s
_FORECAST_LEAST_S = 30.0


@dataclass(slots=True)
class _Watched:
    """One cluster under observation."""

    member: Member
    status: ClusterStatus
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    forecast_due: float = 0.0
    forecasting: asyncio.Task[None] | None = None


class Observatory:
    """Runs until `close`; `publish` is called in the event loop's thread."""

    def __init__(self, engine: Engine, publish: Publish) -> None:
        """Observe the engine's members and tell `publish` of every change."""
        self._engine = engine
        self._publish = publish
        now = datetime.now(UTC)
        self._watched = {member.name: _Watched(member, _first_status(member, now)) for member in engine.members}
        self._tasks: list[asyncio.Task[None]] = []
        self._saved = 0.0

    @property
    def statuses(self) -> tuple[ClusterStatus, ...]:
        """Return the present status of each cluster."""
        return tuple(watched.status for watched in self._watched.values())

    def start(self) -> None:
        """Begin to observe."""
        self._tasks = [asyncio.create_task(self._watch(watched)) for watched in self._watched.values()]

    async def close(self) -> None:
        """Stop observing and keep the last figures for the next start."""
        tasks = self._tasks + [w.forecasting for w in self._watched.values() if w.forecasting is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        save_last(self.statuses)

    async def refresh(self, cluster: str | None) -> None:
        """Read one cluster, or all, now; a failure shows in its status."""
        names = [cluster] if cluster is not None else list(self._watched)
        await asyncio.gather(*(self._read_now(self._watched_of(name)) for name in names))

    def republish(self) -> None:
        """Publish everything that is known, for a screen that has just come."""
        for watched in self._watched.values():
            self._publish(watched.status)
            if watched.member.snapshot is not None:
                self._publish_frames(watched, watched.member.snapshot)

    def _watched_of(self, name: str) -> _Watched:
        self._engine.member(name)  # raises NotFound for a stranger
        return self._watched[name]

    async def _read_now(self, watched: _Watched) -> None:
        watched.asked.set()
        try:
            await self._engine.read(watched.member.name)
        except GpudeckError as error:
            self._fail(watched, error)
        else:
            await self._accept(watched)

    async def _watch(self, watched: _Watched) -> None:
        wait_s = 1.0
        while True:
            try:
                async for snapshot in watched.member.connector.observe():
                    watched.member.accept(snapshot)
                    await self._accept(watched)
                    wait_s = 1.0
            except GpudeckError as error:
                watched.member.error = error
                self._fail(watched, error)
            except Exception as error:  # noqa: BLE001 - a fault in one connector must not end the others; it is shown
                self._fail(watched, GpudeckError(f"a fault of gpudeck: {type(error).__name__}: {error}"))
            watched.asked.clear()
            try:
                await asyncio.wait_for(watched.asked.wait(), wait_s)
            except TimeoutError:
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    async def _accept(self, watched: _Watched) -> None:
        snapshot = watched.member.snapshot
        if snapshot is None:
            return
        status, frames = await asyncio.to_thread(_picture, watched.member, snapshot, watched.status)
        watched.status = status
        self._publish(status)
        self._publish(frames)
        self._save()
        idle = watched.forecasting is None or watched.forecasting.done()
        if idle and time.monotonic() >= watched.forecast_due:
            watched.forecasting = asyncio.create_task(self._forecast(watched))

    async def _forecast(self, watched: _Watched) -> None:
        began = time.monotonic()
        try:
            await self._engine.forecast(watched.member.name)
        except GpudeckError:
            watched.member.forecast = None  # START shows `?`; asking for the forecast itself says why
        took = time.monotonic() - began
        watched.forecast_due = time.monotonic() + max(_FORECAST_LEAST_S, took * _FORECAST_SHARE)
        if watched.member.error is None and watched.member.snapshot is not None:
            status, frames = await asyncio.to_thread(_picture, watched.member, watched.member.snapshot, watched.status)
            watched.status = status
            self._publish(status)
            self._publish(frames)

    def _fail(self, watched: _Watched, error: GpudeckError) -> None:
        old = watched.status
        state = "stale" if watched.member.snapshot is not None else "failed"
        watched.status = msgspec.structs.replace(
            old,
            state=state,
            since=old.since if old.state == state else datetime.now(UTC),
            error=error.what,
            hint=error.hint,
        )
        self._publish(watched.status)
        self._save()

    def _publish_frames(self, watched: _Watched, snapshot: "Snapshot") -> None:
        _status, frames = _picture(watched.member, snapshot, watched.status)
        self._publish(frames)

    def _save(self) -> None:
        if time.monotonic() - self._saved > _SAVE_EVERY_S:
            self._saved = time.monotonic()
            save_last(self.statuses)


def _first_status(member: Member, now: datetime) -> ClusterStatus:
    return ClusterStatus(
        cluster=member.name,
        system=member.config.system,
        state="connecting",
        since=now,
        access=member.access,
    )


def _picture(member: Member, snapshot: "Snapshot", old: ClusterStatus) -> tuple[ClusterStatus, Frames]:
    """Return the status and the frames of a snapshot; heavy, so it runs in a thread."""
    from console.derived import derive
    from console.summary import summarise
    from console.triage.attention import attention

    meta = snapshot.meta
    jobs = derive(snapshot, member.forecast)
    needs = attention(snapshot, jobs)
    state = "act" if any(item.severity in {"act", "fault"} for item in needs) else "ok"
    status = msgspec.structs.replace(
        old,
        state=state,
        since=old.since if old.state == state else datetime.now(UTC),
        version=meta.version,
        user=meta.user,
        error=None,
        hint=None,
        taken_at=meta.taken_at,
        took_ms=meta.took_ms,
        calls=meta.calls,
        interval_s=member.connector.interval_s,
        slowed=member.connector.slowed,
        clock_skew_s=meta.clock_skew_s,
        gaps=snapshot.gaps,
        capabilities=member.connector.capabilities,
        summary=summarise(snapshot, member.forecast, jobs),
        attention=needs,
    )
    tables = {name: snapshot.table(name) for name in SHOWN_TABLES}
    tables["jobs"] = jobs
    encoded = {name: encode_frame(frame) for name, frame in tables.items()}
    return status, Frames(cluster=member.name, taken_at=meta.taken_at, tables=encoded)
