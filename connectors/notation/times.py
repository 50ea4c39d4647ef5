"""Moments: as people write them (`20:00`, `now+2h`) and as Slurm does (epoch seconds, or local time without a zone)."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from connectors.notation.duration import parse_human_duration
from connectors.notation.errors import NotationError
from connectors.notation.numbers import whole

_WHAT = "time"
_CLOCK = re.compile(r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?")
_ISO = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[T ](?P<clock>[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.[0-9]{1,9})?"
    r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?"
)
# `0` and the last four (NO_VAL, INFINITE and their 64-bit forms, slurm.h) are what Slurm holds for no time.
_UNSET = frozenset({
    "", "N/A", "UNKNOWN", "NONE", "(NULL)", "INFINITE", "NOT_SET", "INVALID", "0",
    "4294967294", "4294967295", "18446744073709551614", "18446744073709551615",
})  # fmt: skip
_LAST_EPOCH = 253_402_300_799


def parse_when(text: str, now: datetime) -> datetime:
    """Return the moment, in UTC, that a person means at `now` (an aware time, whose zone is the person's).

    `20:00` is the next such time, `2026-12-01T20:00` is in the person's zone unless `Z` or an offset follows, and
    `now+2h` takes any duration of `parse_human_duration`. Raises NotationError, also for a local time that the change
    of clocks skips or repeats; ValueError where `now` has no zone.
    """
    zone = now.tzinfo
    if zone is None or now.utcoffset() is None:
        raise ValueError("now has no time zone")
    word = text.strip()
    try:
        if word == "now":
            return now.astimezone(UTC)
        if word.startswith("now+"):
            return now.astimezone(UTC) + timedelta(seconds=parse_human_duration(word[4:]))
        if clock := _CLOCK.fullmatch(word):
            return _next(text, now, zone, *(int(part) for part in clock.groups(default="0")))
        if iso := _ISO.fullmatch(word):
            return _from_iso(text, iso, zone)
    except OverflowError as error:
        raise NotationError(_WHAT, text, "it lies outside the calendar") from error
    raise NotationError(_WHAT, text, "write 20:00, 2026-12-01T20:00 or now+2h")


def format_when(moment: datetime) -> str:
    """Return `2026-12-01T20:00:00Z`, whole seconds, the rest dropped. Raises ValueError for a time without a zone."""
    if moment.utcoffset() is None:
        raise ValueError(f"a time without a zone: {moment.isoformat()}")
    return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


@lru_cache(maxsize=8192)
def parse_slurm_time(text: str, zone: tzinfo | None = None) -> datetime | None:
    """Return the moment in UTC; None for `N/A`, `Unknown`, `NONE`, `0` and Slurm's other words for "no time".

    Epoch seconds (SLURM_TIME_FORMAT=%s) need no zone. A local time needs the cluster's `zone`; of an hour that clocks
    repeat the first is taken. Raises NotationError, also for a local time where no zone is given.
    """
    word = text.strip()
    if word.upper() in _UNSET:
        return None
    seconds = whole(word)
    if seconds is not None:
        if seconds > _LAST_EPOCH:
            raise NotationError(_WHAT, text, "it lies outside the calendar")
        return datetime.fromtimestamp(seconds, UTC)
    iso = _ISO.fullmatch(word)
    if iso is None:
        raise NotationError(_WHAT, text, "Slurm writes epoch seconds or 2026-11-30T20:00:28")
    if zone is None and iso["zone"] is None:
        raise NotationError(_WHAT, text, "a local time, and the cluster's zone is not known: ask for epoch seconds")
    try:
        moment = _naive(text, iso)
        if iso["zone"]:
            return _offset(text, moment, iso["zone"])
        return moment.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError as error:
        raise NotationError(_WHAT, text, "it lies outside the calendar") from error


def _from_iso(text: str, iso: re.Match[str], zone: tzinfo) -> datetime:
    moment = _naive(text, iso)
    if iso["zone"]:
        return _offset(text, moment, iso["zone"])
    meant = _local(moment, zone)
    if len(meant) != 1:
        kind = "twice" if meant else "never"
        raise NotationError(_WHAT, text, f"the change of clocks makes it happen {kind}: give the offset, as +01:00")
    return meant[0]


def _naive(text: str, iso: re.Match[str]) -> datetime:
    try:
        return datetime.fromisoformat(f"{iso['date']}T{iso['clock']}")
    except ValueError as error:
        raise NotationError(_WHAT, text, str(error)) from error


def _offset(text: str, moment: datetime, zone: str) -> datetime:
    if zone == "Z":
        return moment.replace(tzinfo=UTC)
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > 23 or minutes > 59:
        raise NotationError(_WHAT, text, "the offset is more than a day")
    ahead = timedelta(hours=hours, minutes=minutes)
    return (moment - ahead if zone[0] == "+" else moment + ahead).replace(tzinfo=UTC)


def _local(moment: datetime, zone: tzinfo) -> list[datetime]:
    """Return the moments, in UTC, at which clocks of the zone show the time: none, one or two."""
    found = {moment.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(one for one in found if one.astimezone(zone).replace(tzinfo=None, fold=0) == moment)


def _next(text: str, now: datetime, zone: tzinfo, hour: int, minute: int, second: int) -> datetime:
    if hour > 23 or minute > 59 or second > 59:
        raise NotationError(_WHAT, text, "no such time of day")
    today = now.replace(hour=hour, minute=minute, second=second, microsecond=0, tzinfo=None, fold=0)
    for days in range(3):
        for moment in _local(today + timedelta(days=days), zone):
            if moment > now:
                return moment
    raise NotationError(_WHAT, text, "the zone's clocks do not show it in the next days")
