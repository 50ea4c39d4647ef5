"""`gpudeck capture`: the raw answers of one refresh, so that a bug report reproduces anywhere."""

import asyncio
from pathlib import Path

from connectors.errors import BadWords, GpudeckError
from connectors.text import _, plural
from console.engine import Engine


async def save(engine: Engine, folder: Path, *, redact: bool) -> tuple[list[str], list[GpudeckError]]:
    """Save each cluster into a folder of its own below `folder`; returns lines for those that were, and what failed.

    Raises BadWords where the folder can't be written or is there already, and the first failure if no cluster answered.
    """
    from connectors.raw import save_raw
    from console.redact import redacted

    lines: list[str] = []
    failures: list[GpudeckError] = []
    for member in engine.members:
        try:
            raw = await engine.raw(member.name)
            if redact:
                # a connector that knows its own answers hides names in them better than any list of names
                hide = getattr(member.connector, "redacted", redacted)
                raw = hide(raw, await asyncio.to_thread(member.connector.interpret, raw))
        except GpudeckError as error:
            failures.append(error)
            continue
        target = folder / member.name
        if target.exists():
            raise BadWords(f"{target} is there already", text=str(target), hint="name a new folder")
        try:
            save_raw(raw, target)
        except OSError as error:
            raise BadWords(f"{target} can't be written: {error.strerror}", text=str(target)) from error
        count = len(raw.answers)
        saved = plural("{count} answer saved in {folder}", "{count} answers saved in {folder}", count)
        lines.append(f"{member.name}: " + saved.format(count=count, folder=target))
        if not redact:
            lines.append("  " + _("it holds names of users, jobs and hosts; --redact replaces them"))
    if failures and len(failures) == len(engine.members):
        raise failures[0]
    return lines, failures
