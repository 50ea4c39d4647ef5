"""The engine's side of the pipe: requests in, replies and events out. Runs as a process of its own, or in one.

Started as `python -m console.service`, it speaks length-prefixed MessagePack (`console.pipe`) on its standard input and
output; the first message is a `Begin`. Whatever else would write to standard output goes to standard error.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from connectors.errors import GpudeckError
from connectors.language import only_changes
from connectors.language import read as read_changes
from connectors.text import use_language
from console import config as configuration
from console.engine import Engine, captured_clusters
from console.messages import (
    Answer,
    AskAudit,
    AskForecast,
    AskWhatIf,
    AuditList,
    Begin,
    Commit,
    Committed,
    Done,
    EngineUp,
    Event,
    Explained,
    ExplainJob,
    Failed,
    ForecastMade,
    Foreseen,
    Propose,
    ProposeUndo,
    Quit,
    RefreshNow,
    Reply,
    Request,
    Watch,
    decode_request,
    encode,
)  # fmt: skip
from console.observatory import Observatory
from console.operations.audit import AuditLog
from console.operations.process import Operations
from console.paths import state_folder
from console.pipe import read_message, write_message


def engine_of(begin: Begin) -> Engine:
    """Return the engine that a `Begin` asks for; `settings` go to its demo clusters. Raises BadWords and NotFound."""
    config = configuration.load(Path(begin.config) if begin.config else None)
    captured = Path(begin.captured) if begin.captured else None
    clusters = captured_clusters(captured) if captured else config.selected(begin.clusters)
    if begin.settings:
        clusters = tuple(
            msgspec.structs.replace(c, settings={**c.settings, **begin.settings}) if c.system == "demo" else c
            for c in clusters
        )
    return Engine(config, clusters, write=begin.write, captured=captured, timeout_s=begin.timeout_s)


class Service:
    """Answers requests; events go to `publish` as they come."""

    def __init__(self, engine: Engine, publish: Callable[[Event], None]) -> None:
        """Serve this engine."""
        self._engine = engine
        self._publish = publish
        self._observatory = Observatory(engine, publish)
        self._operations = Operations(engine, AuditLog(state_folder("audit")))
        self._handlers: dict[type, Callable[[Any], Awaitable[Answer]]] = {
            Watch: self._watch,
            RefreshNow: self._refresh,
            ExplainJob: self._explain,
            AskWhatIf: self._whatif,
            AskForecast: self._forecast,
            Propose: self._propose,
            ProposeUndo: self._propose_undo,
            Commit: self._commit,
            AskAudit: self._audit,
        }

    def start(self) -> None:
        """Say which clusters there are and begin to observe them."""
        path = self._engine.config.path
        names = tuple(member.name for member in self._engine.members)
        self._publish(EngineUp(clusters=names, config=str(path) if path else ""))
        self._observatory.start()

    async def answer(self, request: Request) -> Reply:
        """Return the reply to one request; a failure is an answer too."""
        try:
            answer = await self._handlers[type(request)](request)
        except GpudeckError as error:
            answer = Failed(message=error.what, exit_code=error.exit_code, kind=type(error).__name__, hint=error.hint)
        except Exception as error:  # noqa: BLE001 - a fault of ours is told to the person who asked, and the engine goes on
            answer = Failed(message=f"a fault of gpudeck: {type(error).__name__}: {error}", exit_code=1, kind="fault")
        return Reply(id=request.id, answer=answer)

    async def close(self) -> None:
        """Stop observing and drop the connections."""
        await self._observatory.close()
        await self._engine.close()

    async def _watch(self, _request: Watch) -> Answer:
        self._observatory.republish()
        return Done()

    async def _refresh(self, request: RefreshNow) -> Answer:
        await self._observatory.refresh(request.cluster)
        return Done()

    async def _explain(self, request: ExplainJob) -> Answer:
        return Explained(diagnosis=await self._engine.explain(request.cluster, request.job))

    async def _whatif(self, request: AskWhatIf) -> Answer:
        items = read_changes([request.words], now=self._engine.now(request.cluster))
        return Foreseen(whatif=await self._engine.whatif(request.cluster, items))

    async def _forecast(self, request: AskForecast) -> Answer:
        return ForecastMade(forecast=await self._engine.forecast(request.cluster))

    async def _propose(self, request: Propose) -> Answer:
        changes = only_changes(read_changes([request.words], now=self._engine.now(request.cluster)))
        return await self._operations.propose(request.cluster, changes)

    async def _propose_undo(self, request: ProposeUndo) -> Answer:
        return await self._operations.propose_undo(request.receipt)

    async def _commit(self, request: Commit) -> Answer:
        name, receipt = await self._operations.commit(request.proposal, request.typed)
        await self._observatory.refresh(receipt.plan.cluster)
        return Committed(receipt_id=name, receipt=receipt)

    async def _audit(self, request: AskAudit) -> Answer:
        return AuditList(entries=tuple(self._operations.audit.entries(request.limit)))


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """Serve one screen until it says Quit or goes away; returns the exit code."""
    first = await read_message(reader)
    if first is None:
        return 0
    begin = msgspec.msgpack.decode(first, type=Begin)
    use_language(begin.language)
    try:
        engine = engine_of(begin)
    except GpudeckError as error:
        failed = Failed(message=error.what, exit_code=error.exit_code, kind=type(error).__name__, hint=error.hint)
        await write_message(writer, encode(Reply(id=-1, answer=failed)))
        return error.exit_code
    outbox: asyncio.Queue[bytes] = asyncio.Queue()
    service = Service(engine, lambda event: outbox.put_nowait(encode(event)))
    sender = asyncio.create_task(_send(outbox, writer))
    service.start()
    running: set[asyncio.Task[None]] = set()

    async def handle(request: Request) -> None:
        outbox.put_nowait(encode(await service.answer(request)))

    try:
        while (data := await read_message(reader)) is not None:
            request = decode_request(data)
            if isinstance(request, Quit):
                break
            task = asyncio.create_task(handle(request))
            running.add(task)
            task.add_done_callback(running.discard)
    finally:
        for task in running:
            task.cancel()
        await service.close()
        sender.cancel()
    return 0


async def _send(outbox: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(
        ConnectionError, BrokenPipeError
    ):  # the screen went away: reading ends too, and with it us
        while True:
            await write_message(writer, await outbox.get())


async def _main() -> int:
    loop = asyncio.get_running_loop()
    private = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    reader = asyncio.StreamReader(limit=2**30)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(private, "wb", 0))
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    return await serve(reader, writer)


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
