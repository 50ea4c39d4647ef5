"""`gpudeck capture`: the raw answers of one refresh, so that a bug report reproduces anywhere."""

from pathlib import Path

from connectors.errors import BadWords, GpudeckError
from connectors.notation import safe_text
from connectors.text import _, plural
from console.engine import Engine


async def save(engine: Engine, folder: Path, *, redact: bool) -> list[str]:
    """Save each cluster into a folder of its own below `folder`; returns a line for each. Raises if none answered."""
    from connectors.raw import save_raw
    from console.redact import redacted

    lines, failures = [], []
    for member in engine.members:
        try:
            raw = await engine.raw(member.name)
            if redact:
                raw = redacted(raw, member.connector.interpret(raw))
        except GpudeckError as error:
            failures.append(error)
            lines.append(f"{member.name}: {safe_text(str(error))}")
            continue
        target = folder / member.name
        if target.exists():
            raise BadWords(f"{target} is there already", text=str(target), hint="name a new folder")
        save_raw(raw, target)
        count = len(raw.answers)
        saved = plural("{count} answer saved in {folder}", "{count} answers saved in {folder}", count)
        lines.append(f"{member.name}: " + saved.format(count=count, folder=target))
        if not redact:
            lines.append("  " + _("it holds names of users, jobs and hosts; --redact replaces them"))
    if failures and len(failures) == len(engine.members):
        raise failures[0]
    return lines
