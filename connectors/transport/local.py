"""Commands on this machine: for a login node, or a Slurm client that is installed here."""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from connectors.errors import Malformed, Unreachable
from connectors.transport.shell import SH, OutputTooLong, ShellAnswer, read_capped

_ARGV = tuple(SH.removeprefix("exec ").split())
_DRAIN_S = 2.0


class LocalShell:
    """A Shell in a child process of ours."""

    def __init__(self, cluster: str) -> None:
        """Start nothing yet."""
        self.where = "this machine"
        self._cluster = cluster

    async def run(self, script: str, *, timeout_s: float) -> ShellAnswer:
        """Run a script; see `Shell.run`."""
        return await run_process(_ARGV, script, timeout_s=timeout_s, cluster=self._cluster, where=self.where)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


async def run_process(argv: Sequence[str], script: str, *, timeout_s: float, cluster: str, where: str) -> ShellAnswer:
    """Run a program in a process group of its own with the script on standard input; the group is ended on timeout.

    Unreachable if it can't be started or gives no answer in time; Malformed if a stream is too long.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise Unreachable(f"{where}: {argv[0]}: {error}", cluster=cluster, source="shell") from error
    try:
        async with asyncio.timeout(timeout_s):
            return await _talk(process, script)
    except OutputTooLong as error:
        raise Malformed(str(error), cluster=cluster, source=where) from None
    except TimeoutError:
        raise Unreachable(f"{where}: no answer within {timeout_s:g} s", cluster=cluster, source="shell") from None
    finally:
        if process.returncode is None:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # what stands in the pipes must be read, or a stream that was paused would never see its end and `wait` would hang
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            await process.communicate()


async def _talk(process: asyncio.subprocess.Process, script: str) -> ShellAnswer:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise RuntimeError("all three streams are pipes")
    feeding = asyncio.create_task(_feed(process.stdin, script.encode()))
    reading = [asyncio.create_task(read_capped(stream)) for stream in (process.stdout, process.stderr)]
    try:
        out, err = await asyncio.gather(*reading)
        await feeding
    finally:
        for task in (feeding, *reading):
            task.cancel()
        await asyncio.gather(feeding, *reading, return_exceptions=True)
    code = await process.wait()
    return ShellAnswer(code=code if code >= 0 else 128 - code, out=out, err=err)


async def _feed(stdin: asyncio.StreamWriter, script: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # the program ended early; its code and words say why
        stdin.write(script)
        await stdin.drain()
        stdin.close()
