"""One thing that every way of running commands on a cluster offers: a script goes in, code and bytes come out.

The script is fed on standard input to a POSIX `sh` that is exec'd with a clean locale, so the user's login shell
(csh, fish, a restricted one), its start-up files and its banners never see it, and no quoting is needed on the way.
"""

from typing import Protocol, runtime_checkable

import msgspec

MAX_OUTPUT_BYTES = 512 * 1024 * 1024
"""More than this on one stream is a fault of the command or the cluster, not a refresh."""

SH = "exec env LC_ALL=C.UTF-8 LANG=C.UTF-8 /bin/sh -s"
"""The remote command: words that sh, csh and fish read alike; the script itself follows on standard input."""


class ShellAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one script answered: its exit code (128 + n for signal n) and both streams, byte for byte."""

    code: int
    out: bytes
    err: bytes


@runtime_checkable
class Shell(Protocol):
    """Runs scripts in one place. All failures to run are Unreachable; a script's own failure is its exit code."""

    where: str
    """The place, in words for messages: `login1`, `ops@login1:2222`, `this machine`."""

    async def run(self, script: str, *, timeout_s: float) -> ShellAnswer:
        """Run a POSIX sh script; connects first where that is needed.

        `timeout_s` counts from the script's start, not from connecting. Unreachable if there is no connection, if it
        breaks, or if no answer came in time; Malformed if a stream is longer than MAX_OUTPUT_BYTES.
        """
        ...

    async def close(self) -> None:
        """Drop the connection; closing twice is fine, and `run` connects again."""
        ...


class _Readable(Protocol):
    async def read(self, n: int = ..., /) -> bytes: ...


class OutputTooLong(Exception):
    """A stream went on past MAX_OUTPUT_BYTES; the shell makes it Malformed."""

    def __str__(self) -> str:
        """Return it in words."""
        return f"more than {MAX_OUTPUT_BYTES >> 20} MiB of output"


async def read_capped(stream: _Readable) -> bytes:
    """Return all of a stream. OutputTooLong once it is longer than MAX_OUTPUT_BYTES: it may never end."""
    parts: list[bytes] = []
    size = 0
    while part := await stream.read(1 << 18):
        size += len(part)
        if size > MAX_OUTPUT_BYTES:
            raise OutputTooLong
        parts.append(part)
    return b"".join(parts)
