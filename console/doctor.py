"""`gpudeck doctor`: checks config, folders, and each cluster's reachability, sources, clock and permissions."""

import stat
from typing import Literal

import msgspec

from connectors.notation import cells, safe_text
from connectors.text import _, plural
from console.engine import Engine, Reading
from console.paths import state_folder

Level = Literal["ok", "note", "fault"]
_SKEW_S = 5.0
_SLOW_MS = 5000.0


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One finding: what was checked, what was found, and what to do."""

    level: Level
    subject: str
    says: str
    fix: str | None = None

    def line(self) -> str:
        """Return the finding as one line."""
        words = {"ok": _("ok"), "note": _("note"), "fault": _("fault")}
        width = max(cells(word) for word in words.values())
        word = words[self.level]
        mark = ("! " if self.level == "fault" else "  ") + word + " " * (width - cells(word) + 1)
        return mark + f"{self.subject}: {safe_text(self.says)}" + (f" ({safe_text(self.fix)})" if self.fix else "")


async def examine(engine: Engine) -> list[Check]:
    """Return what was found, config first, then cluster by cluster."""
    found = [_config(engine), _state()]
    for reading in await engine.read_all():
        found += _cluster(engine, reading)
    return found


def _config(engine: Engine) -> Check:
    path = engine.config.path
    if path is None:
        return Check(level="note", subject=_("config"), says=_("there is no config file"), fix=_("see README"))
    loose = path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if loose:
        return Check(
            level="fault",
            subject=_("config"),
            says=_("{path} can be written by others").format(path=path),
            fix=f"chmod 600 {path}",
        )
    return Check(level="ok", subject=_("config"), says=str(path))


def _state() -> Check:
    folder = state_folder()
    if folder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return Check(
            level="fault",
            subject=_("state"),
            says=_("{path} is open to others").format(path=folder),
            fix=f"chmod 700 {folder}",
        )
    return Check(level="ok", subject=_("state"), says=str(folder))


def _cluster(engine: Engine, reading: Reading) -> list[Check]:
    name = reading.cluster
    if reading.snapshot is None:
        error = reading.error
        hint = error.hint if error else None
        says = error.what.removeprefix(f"{name}: ") if error else _("not read")
        return [Check(level="fault", subject=name, says=says, fix=hint)]
    meta = reading.snapshot.meta
    jobs, nodes = reading.snapshot.jobs.height, reading.snapshot.nodes.height
    found = [
        Check(
            level="ok",
            subject=name,
            says=_("{system} {version} answers as {user}: {jobs}, {nodes}").format(
                system=meta.system,
                version=meta.version or "?",
                user=meta.user or "?",
                jobs=plural("{count} job", "{count} jobs", jobs).format(count=jobs),
                nodes=plural("{count} node", "{count} nodes", nodes).format(count=nodes),
            ),
        )
    ]
    found += [
        Check(
            level="note",
            subject=name,
            says=f"{gap.source}: {gap.reason}",
            fix=_("leaves {what} unknown").format(what=", ".join(gap.affects)),
        )
        for gap in reading.snapshot.gaps
    ]
    if meta.took_ms is not None and meta.took_ms > _SLOW_MS:
        found.append(
            Check(level="note", subject=name, says=_("a refresh takes {s:.1f} s").format(s=meta.took_ms / 1000))
        )
    if meta.clock_skew_s is not None and abs(meta.clock_skew_s) > _SKEW_S:
        found.append(
            Check(level="note", subject=name, says=_("its clock is {s:+.0f} s from ours").format(s=meta.clock_skew_s))
        )
    return [*found, _permissions(engine, name)]


def _permissions(engine: Engine, name: str) -> Check:
    member, writes = engine.member(name), engine.capabilities(name).writes
    if member.access == "read":
        return Check(level="ok", subject=name, says=_("read-only here: nothing will be changed"))
    if not writes:
        return Check(
            level="note", subject=name, says=_("access is write, but the system lets this user change nothing")
        )
    return Check(level="ok", subject=name, says=_("may change: {verbs}").format(verbs=", ".join(writes)))
