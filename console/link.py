"""The screen's side of the pipe: spawns the engine, matches replies to requests, and starts it again if it ends.

The engine's standard error goes to `engine.log` in the state folder, so that a fault leaves its traceback there and
never on the screen.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator

from console.messages import Answer, Begin, EngineDown, Event, Failed, Quit, Reply, Request, decode_event, encode
from console.paths import state_folder
from console.pipe import read_message, write_message

_RESTART_S = (1.0, 2.0, 5.0, 10.0)
_QUIT_S = 3.0
_LIMIT = 2**30


class EngineLink:
    """One engine in a process of its own (the `Link` of console.ui)."""

    def __init__(self, begin: Begin) -> None:
        """Keep how the engine is to begin; it is spawned when `events` is first asked."""
        self._begin = begin
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._closing = asyncio.Event()

    async def send(self, request: Request) -> Answer:
        """Send a request and return its answer; ConnectionError if the engine is not there or ends first."""
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            raise ConnectionError("the engine is not running")
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[request.id] = waiting
        try:
            await write_message(process.stdin, encode(request))
            return await waiting
        finally:
            self._waiting.pop(request.id, None)

    async def events(self) -> AsyncIterator[Event]:
        """Yield what the engine tells, over as many engines as it takes; stops after `close`."""
        failures = 0
        while not self._closing.is_set():
            process = await self._spawn()
            why = "it ended without a word"
            async for event in self._events_of(process):
                if isinstance(event, Reply) and event.id == -1 and isinstance(event.answer, Failed):
                    why = (
                        event.answer.message
                        if event.answer.hint is None
                        else f"{event.answer.message} ({event.answer.hint})"
                    )
                    continue
                failures = 0
                yield event
            code = await process.wait()
            self._forget("the engine ended")
            if self._closing.is_set():
                return
            wait_s = _RESTART_S[min(failures, len(_RESTART_S) - 1)]
            failures += 1
            yield EngineDown(why=f"{why} (exit {code}; {self._log()})", restart_in_s=wait_s)
            await asyncio.sleep(wait_s)

    async def close(self) -> None:
        """Ask the engine to end, and end it if it does not."""
        self._closing.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ConnectionError, TimeoutError):  # either way it is ended below
            if process.stdin is not None:
                await write_message(process.stdin, encode(Quit()))
            await asyncio.wait_for(process.wait(), _QUIT_S)
        if process.returncode is None:
            process.kill()
            await process.wait()

    @staticmethod
    def _log() -> str:
        return str(state_folder() / "engine.log")

    async def _spawn(self) -> asyncio.subprocess.Process:
        log = os.open(self._log(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "console.service", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=log, limit=_LIMIT, start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(log)
        self._process = process
        if process.stdin is not None:
            await write_message(process.stdin, encode(self._begin))
        return process

    async def _events_of(self, process: asyncio.subprocess.Process) -> AsyncIterator[Event]:
        if process.stdout is None:
            return
        with contextlib.suppress(ConnectionError):  # it ended in the middle of a message: said as EngineDown
            while (data := await read_message(process.stdout)) is not None:
                event = decode_event(data)
                if isinstance(event, Reply) and event.id != -1:
                    waiting = self._waiting.get(event.id)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(event.answer)
                    continue
                yield event

    def _forget(self, why: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError(why))
