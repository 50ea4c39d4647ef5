"""Figures, times and names as they stand in a sentence; every name from outside is made safe here."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache

from connectors.notation import format_bytes, format_hostlist, format_human_duration, safe_text
from connectors.text import _, plural, weekday

_NAME_CELLS = 60
_TEXT_CELLS = 160


def figure(value: float | None) -> str:
    """Return `8`, `0.5`, `1,024`, `unlimited`, or `?` for None."""
    if value is None or math.isnan(value):
        return "?"
    if math.isinf(value):
        return _("unlimited")
    return f"{round(value):,}" if abs(value - round(value)) < 1e-9 else f"{value:,.2f}".rstrip("0").rstrip(".")


def amount(value: float | None, resource: str, model: str | None = None) -> str:
    """Return the figure with its unit: `8 GPUs`, `4 h100 GPUs`, `96.0 GiB`, `3 running jobs`."""
    if resource == "memory":
        return format_bytes(value)
    shown, one = figure(value), value == 1
    if resource == "gpu":
        unit = _("GPU") if one else _("GPUs")
        return f"{shown} {name(model)} {unit}" if model else f"{shown} {unit}"
    if resource == "cpu":
        unit = _("CPU") if one else _("CPUs")
    elif resource == "node":
        unit = _("node") if one else _("nodes")
    elif resource == "jobs":
        unit = _("running job") if one else _("running jobs")
    elif resource == "submit":
        unit = _("job in the queue") if one else _("jobs in the queue")
    else:
        unit = name(model or resource)
    return f"{shown} {unit}"


def span(seconds: float | None) -> str:
    """Return a duration as people write it, `2d4h`, `1h30m`; seconds only below ten minutes; `?` for None."""
    if seconds is None or math.isnan(seconds):
        return "?"
    if math.isinf(seconds):
        return _("unlimited")
    seconds = max(0.0, seconds)
    return format_human_duration(seconds if seconds < 600 else seconds - seconds % 60)


def clock(moment: datetime | None, now: datetime) -> str:
    """Return the moment in the zone of this machine: `21:25` today, `Tue 03:10` within a week, `12-06 03:10` after."""
    if moment is None:
        return "?"
    local, today = moment.astimezone(), now.astimezone()
    if local.date() == today.date():
        return local.strftime("%H:%M")
    if abs((local.date() - today.date()).days) < 7:
        return f"{weekday(local.weekday())} {local:%H:%M}"
    return local.strftime("%m-%d %H:%M" if local.year == today.year else "%Y-%m-%d %H:%M")


def name(text: str | None) -> str:
    """Return a name from outside, made safe and cut; `?` where there is none."""
    return safe_text(text, _NAME_CELLS) if text else "?"


def quoted(text: str) -> str:
    """Return the system's own words, made safe and cut."""
    return safe_text(text, _TEXT_CELLS)


def hosts(names: Iterable[str]) -> str:
    """Return node names folded, `gn[21-28]`, made safe and cut."""
    return _folded(tuple(names))


@lru_cache(maxsize=65536)
def _folded(names: tuple[str, ...]) -> str:
    return safe_text(format_hostlist(names) if len(names) > 1 else "".join(names), _NAME_CELLS)


def some(items: Sequence[str], most: int = 4, *, of: int | None = None) -> str:
    """Return the first items, and how many more there are: of so many where only the first ones are given."""
    listed = ", ".join(items[:most])
    rest = (len(items) if of is None else of) - most
    if rest <= 0:
        return listed
    return listed + " " + plural("and {count} more", "and {count} more", rest).format(count=rest)


def jobs_count(count: int) -> str:
    """Return `1 job` or `3 jobs`."""
    return plural("{count} job", "{count} jobs", count).format(count=f"{count:,}")
