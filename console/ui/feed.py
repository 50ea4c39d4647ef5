"""The screen's end of the link: requests with their ids, events into the store, frames decoded off the event loop."""

import asyncio
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from connectors.text import _
from console.messages import (
    Answer,
    AskAudit,
    AskForecast,
    AskWhatIf,
    ClusterStatus,
    Commit,
    EngineDown,
    EngineUp,
    ExplainJob,
    Failed,
    Frames,
    Propose,
    ProposeUndo,
    RefreshNow,
    Request,
    Watch,
)  # fmt: skip
from console.ui.lines import safe
from console.ui.link import Link
from console.ui.state import Store

if TYPE_CHECKING:  # polars is imported after the first frame only
    import polars as pl

LinkFactory = Callable[[], Link]
TABLES = ("jobs", "nodes", "queues", "quotas")


class Feed:
    """Runs the link. `changed` is called after the store took something over."""

    def __init__(self, factory: LinkFactory, store: Store, changed: Callable[[], None]) -> None:
        """Keep what is needed; nothing starts before `run`."""
        self._factory = factory
        self._store = store
        self._changed = changed
        self._link: Link | None = None
        self._id = 0
        self._waiting: dict[str, Frames] = {}
        self._arrived = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Open the link and follow it until it is closed."""
        self._link = self._factory()
        async with asyncio.TaskGroup() as tasks:  # a fault in the decoder ends the screen with its traceback
            decoder = tasks.create_task(self._decode())
            try:
                async for event in self._link.events():
                    self._take(event)
            except OSError as error:
                self._down(str(error), None)
            decoder.cancel()

    async def close(self) -> None:
        """End the engine."""
        if self._link is not None:
            await self._link.close()

    # asking -------------------------------------------------------------------------------------------------------
    def next_id(self) -> int:
        """Return a new request id."""
        self._id += 1
        return self._id

    async def ask(self, request: Request) -> Answer:
        """Send and wait; a broken link is a Failed like any other."""
        if self._link is None:
            return Failed(message=_("the engine has not started yet"), exit_code=1, kind="NoEngine")
        try:
            return await self._link.send(request)
        except ConnectionError as error:
            says = _("the engine ended before it answered: {error}").format(error=safe(str(error)))
            return Failed(message=says, exit_code=1, kind="NoEngine")

    async def explain(self, cluster: str, job: str) -> Answer:
        """Ask why a job does not run."""
        return await self.ask(ExplainJob(id=self.next_id(), cluster=cluster, job=job))

    async def whatif(self, cluster: str, words: str) -> Answer:
        """Ask what changes and suppositions would do."""
        return await self.ask(AskWhatIf(id=self.next_id(), cluster=cluster, words=words))

    async def forecast(self, cluster: str) -> Answer:
        """Ask for the baseline."""
        return await self.ask(AskForecast(id=self.next_id(), cluster=cluster))

    async def propose(self, cluster: str, words: str) -> Answer:
        """Ask for the plan of a change."""
        return await self.ask(Propose(id=self.next_id(), cluster=cluster, words=words))

    async def propose_undo(self, receipt: str) -> Answer:
        """Ask for the plan that undoes a receipt."""
        return await self.ask(ProposeUndo(id=self.next_id(), receipt=receipt))

    async def commit(self, proposal: str, typed: str) -> Answer:
        """Carry a proposal out."""
        return await self.ask(Commit(id=self.next_id(), proposal=proposal, typed=typed))

    async def refresh(self, cluster: str | None) -> Answer:
        """Ask for a reading now."""
        return await self.ask(RefreshNow(id=self.next_id(), cluster=cluster))

    async def audit(self) -> Answer:
        """Ask for the newest entries of the audit log."""
        return await self.ask(AskAudit(id=self.next_id()))

    # hearing ------------------------------------------------------------------------------------------------------
    async def _watch(self) -> None:
        answer = await self.ask(Watch(id=self.next_id(), tables=TABLES))
        if isinstance(answer, Failed) and self._store.engine != "down":
            self._down(answer.message, None)

    def _down(self, why: str, again_s: float | None) -> None:
        says = _("the engine ended: {why}").format(why=safe(why))
        if again_s is not None:
            says += "; " + _("it starts again in {seconds} s").format(seconds=f"{again_s:.0f}")
        self._store.engine = "down"
        self._store.engine_says = says + "; " + _("the picture is the last one")
        self._changed()

    def _take(self, event: object) -> None:
        match event:
            case ClusterStatus():
                self._store.take_status(event)
            case Frames():
                self._waiting[event.cluster] = event
                self._arrived.set()
                return
            case EngineDown():
                self._down(event.why, event.restart_in_s)
                return
            case EngineUp():
                self._store.engine = "up"
                self._store.take_clusters(event.clusters)
                self._watcher = asyncio.create_task(self._watch())
            case _:
                return
        self._changed()

    async def _decode(self) -> None:
        polars = await asyncio.to_thread(importlib.import_module, "polars")
        broken = (polars.exceptions.PolarsError, OSError)  # what reading bytes that are no Arrow file ends in
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                cluster = next(iter(self._waiting))
                frames = self._waiting.pop(cluster)
                try:
                    tables = await asyncio.to_thread(decode_tables, frames)
                except broken as error:
                    self._store.broken[cluster] = safe(str(error))
                else:
                    self._store.broken.pop(cluster, None)
                    self._store.frames[cluster] = tables
                    self._store.frames_at[cluster] = frames.taken_at
                self._changed()


def decode_tables(frames: Frames) -> dict[str, "pl.DataFrame"]:
    """Return the frames of the message; PolarsError or OSError for bytes that are none."""
    import polars as pl

    return {name: pl.read_ipc(data) for name, data in frames.tables.items()}
