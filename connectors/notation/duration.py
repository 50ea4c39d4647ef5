"""Durations: as Slurm writes them, as people write them, and as ages in four cells.

Source of Slurm's forms: sbatch(1), `--time`: "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours",
"days-hours:minutes" and "days-hours:minutes:seconds".
"""

import math
import re
from functools import lru_cache

from connectors.notation.errors import NotationError

_WHAT = "duration"
_ENDLESS = frozenset({"UNLIMITED", "INFINITE"})
_UNSET = frozenset({"", "N/A", "NONE", "(NULL)", "NOT_SET", "INVALID", "PARTITION_LIMIT", "UNKNOWN"})
_FIELD = r"[0-9]{1,12}"
_SLURM = re.compile(
    rf"(?P<days>{_FIELD})-(?P<dh>{_FIELD})(?::(?P<dm>{_FIELD})(?::(?P<ds>{_FIELD}(?:\.[0-9]{{1,9}})?))?)?"
    rf"|(?P<h>{_FIELD}):(?P<hm>{_FIELD}):(?P<hs>{_FIELD}(?:\.[0-9]{{1,9}})?)"
    rf"|(?P<m>{_FIELD}):(?P<ms>{_FIELD}(?:\.[0-9]{{1,9}})?)"
    rf"|(?P<minutes>{_FIELD})"
)
_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_HUMAN_PART = re.compile(
    rf"(?P<number>{_FIELD}(?:\.[0-9]{{1,9}})?)\s*"
    r"(?P<unit>weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])\s*"
)


@lru_cache(maxsize=8192)
def parse_duration(text: str) -> float | None:
    """Return Slurm's duration in seconds: infinity for UNLIMITED, None where the system says that it has none.

    None stands for ``, `N/A`, `NONE`, `(null)`, `NOT_SET`, `INVALID`, `Partition_Limit` and `Unknown`. A bare number is
    minutes and `5:00` is minutes and seconds. Raises NotationError.
    """
    word = text.strip().upper()
    if word in _ENDLESS:
        return math.inf
    if word in _UNSET:
        return None
    match = _SLURM.fullmatch(word)
    if match is None:
        raise NotationError(_WHAT, text, "Slurm writes days-hours:minutes:seconds, UNLIMITED, or minutes")
    part = {name: float(value) for name, value in match.groupdict(default="0").items()}
    hours = part["days"] * 24 + part["dh"] + part["h"]
    minutes = hours * 60 + part["dm"] + part["hm"] + part["m"] + part["minutes"]
    return minutes * 60 + part["ds"] + part["hs"] + part["ms"]


def parse_human_duration(text: str) -> float:
    """Return the seconds of `90m`, `2d4h`, `1h 30m`, `1.5h`, `1-12:00:00`, `04:00:00` or `unlimited` (infinity).

    Units run from large to small, each once. Raises NotationError, also for a bare number and for `5:00`, which one
    reader takes for minutes and another for hours.
    """
    word = text.strip().lower()
    if word in {"unlimited", "infinite"}:
        return math.inf
    match = _SLURM.fullmatch(word)
    if match is not None:
        if match["minutes"] or match["m"]:
            raise NotationError(_WHAT, text, "the unit is missing: write 90m, 5m, 2d4h or 01:30:00")
        seconds = parse_duration(word)
        if seconds is not None:
            return seconds
    total, at, last = 0.0, 0, math.inf
    while part := _HUMAN_PART.match(word, at):
        unit = _UNITS[part["unit"][0]]
        if unit >= last:
            raise NotationError(_WHAT, text, "units run from large to small, each once", at)
        total, at, last = total + float(part["number"]) * unit, part.end(), unit
    if at == 0 or at != len(word):
        raise NotationError(_WHAT, text, "write 90m, 2d4h, 1-12:00:00 or unlimited", at)
    return total


def format_slurm_duration(seconds: float | None) -> str:
    """Return `D-HH:MM:SS` or `HH:MM:SS`, to the nearest second; `UNLIMITED` for infinity and `N/A` for None.

    `parse_duration` reads it back. Raises ValueError for a negative number or NaN.
    """
    if seconds is None:
        return "N/A"
    if seconds == math.inf:
        return "UNLIMITED"
    days, rest = divmod(_checked(seconds), 86_400)
    clock = f"{rest // 3_600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock


def format_human_duration(seconds: float) -> str:
    """Return `2d4h`, `1h30m`, `45s`, to the nearest second; `0s` for none and `unlimited` for infinity.

    `parse_human_duration` reads it back. Raises ValueError for a negative number or NaN.
    """
    if seconds == math.inf:
        return "unlimited"
    rest = _checked(seconds)
    written = ""
    for unit, size in _UNITS.items():
        if unit == "w":
            continue  # people say 10 days, not a week and three days
        count, rest = divmod(rest, size)
        written += f"{count}{unit}" if count else ""
    return written or "0s"


def format_age(seconds: float | None) -> str:
    """Return an age or a wait in at most 4 cells: `59s 99m 47h 99d 27w`, rounded down; `?` for None or NaN.

    Seconds below 100 s, minutes below 100 min, hours below 48 h, days below 100 d, then weeks; years where weeks need
    more than four cells. A negative age (clocks that disagree) keeps its sign. Infinity is `inf`.
    """
    if seconds is None or math.isnan(seconds):
        return "?"
    sign = "-" if seconds < 0 else ""
    age = abs(seconds)
    many = 100 if sign else 1_000
    for unit, below in (("s", 100), ("m", 100), ("h", 48), ("d", 100), ("w", many)):
        if age < _UNITS[unit] * below:
            return f"{sign}{int(age // _UNITS[unit])}{unit}"
    years = age / 31_557_600
    return f"{sign}{int(years)}y" if years < many else f"{sign}inf"


def _checked(seconds: float) -> int:
    if math.isnan(seconds) or seconds < 0:
        raise ValueError(f"a duration is not negative: {seconds}")
    return round(seconds)
