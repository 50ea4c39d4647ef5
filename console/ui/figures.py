"""Figures, ages, moments and states as cells: text and tone. Unknown is `?`, none is `-`; never a made-up zero."""

import math
from datetime import datetime, timedelta, tzinfo

from connectors.notation import format_age, format_human_duration
from connectors.text import _, plural, weekday

Cell = tuple[str, str]  # text, tone
UNKNOWN: Cell = ("?", "base")
NONE: Cell = ("-", "dim")
BLANK: Cell = ("", "base")


def figure(value: float | None, tone: str = "base", *, zero_is_none: bool = True) -> Cell:
    """Return a figure with thousands commas; fractions keep one decimal; zero is `-`, unknown `?`, infinity `inf`."""
    if value is None or math.isnan(value):
        return ("?", tone)
    if math.isinf(value):
        return ("inf" if value > 0 else "-inf", tone)
    if value == 0 and zero_is_none:
        return NONE
    whole = round(value)
    return (f"{whole:,}" if abs(value - whole) < 0.05 else f"{value:,.1f}", tone)


def plain(value: float | None) -> str:
    """Return the figure's text for a sentence: `0` for zero."""
    return figure(value, zero_is_none=False)[0]


def gpu_words(value: float | None, more: str = "") -> str:
    """Return `1 GPU`, `0.5 GPUs`, `? GPUs`; `more` follows the figure, as the `+?` of a sum with unknown parts."""
    # Only a whole figure has a grammatical number; a fraction takes the form for many.
    count = int(value) if value is not None and math.isfinite(value) and value == int(value) else 2
    return plural("{count} GPU", "{count} GPUs", 2 if more else count).format(count=plain(value) + more)


def percent(ratio: float | None) -> Cell:
    """Return 0.914 as `91`."""
    return UNKNOWN if ratio is None or math.isnan(ratio) else (f"{ratio * 100:.0f}", "base")


def signed(value: float | None, decimals: int = 0) -> str:
    """Return a change with its sign, `0` for none, `?` for unknown."""
    if value is None or math.isnan(value):
        return "?"
    text = f"{value:+,.{decimals}f}"
    return "0" if float(text.replace(",", "")) == 0 else text


def minutes(seconds: float | None) -> str:
    """Return seconds as whole minutes with commas; `?` for unknown."""
    return "?" if seconds is None or math.isnan(seconds) else f"{seconds / 60:,.0f}"


def age(seconds: float | None, tone: str = "base") -> Cell:
    """Return an age in at most 4 cells; clocks that differ by less than two seconds are not a negative age."""
    if seconds is not None and -2 < seconds < 0:
        seconds = 0.0
    return (format_age(seconds), tone)


def span(seconds: float | None) -> str:
    """Return a duration as people write it, rounded to whole minutes from ten minutes on; `?` for unknown."""
    if seconds is None or math.isnan(seconds):
        return "?"
    if math.isinf(seconds):
        return _("unlimited")
    return format_human_duration(round(seconds / 60) * 60 if abs(seconds) >= 600 else max(0.0, seconds))


def clock(when: datetime, zone: tzinfo | None = None) -> str:
    """Return `21:07:18` in the user's zone."""
    return f"{when.astimezone(zone):%H:%M:%S}"


def moment(when: datetime | None, now: datetime, zone: tzinfo | None = None) -> str:
    """Return `21:25` today, `Tue 03:10` within a week, `12-06 03:10` within half a year, else with the year."""
    if when is None:
        return "?"
    local, today = when.astimezone(zone), now.astimezone(zone)
    if local.date() == today.date():
        return f"{local:%H:%M}"
    distance = abs(local - today)
    if distance < timedelta(days=6):
        return f"{weekday(local.weekday())} {local:%H:%M}"
    if distance < timedelta(days=180):
        return f"{local:%m-%d %H:%M}"
    return f"{local:%Y-%m-%d}"


def start_range(p50: datetime | None, p90: datetime | None, now: datetime, zone: tzinfo | None = None) -> str:
    """Return `21:25/22:40`, `Tue 03:10/07:30` or `23:40/Tue 01:10`; the P50 alone where both are too long; else `?`."""
    first = moment(p50, now, zone)
    if p50 is None or p90 is None or p90 == p50:
        return first
    early, late = p50.astimezone(zone), p90.astimezone(zone)
    if max(abs(p50 - now), abs(p90 - now)) >= timedelta(days=6):
        return first
    if early.date() == late.date():
        return f"{first}/{late:%H:%M}"
    return f"{first}/{moment(p90, now, zone)}" if early.date() == now.astimezone(zone).date() else first
