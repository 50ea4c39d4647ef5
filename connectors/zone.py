"""This machine's own time zone with its rules, so that a time next summer is read by next summer's clock.

`datetime.astimezone()` without an argument gives today's offset from UTC as a fixed zone, and the standard library has
no name for the zone of the machine; its rules stand behind naive datetimes (time zone database or TZ).
"""

from datetime import UTC, datetime, timedelta, tzinfo


class _Local(tzinfo):
    """The zone of TZ or /etc/localtime; `fold` tells apart the hour that clocks repeat."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        return None if dt is None else dt.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, dt: datetime | None) -> timedelta | None:  # noqa: ARG002 - tzinfo wants the parameter
        return None  # the system tells offsets only

    def tzname(self, dt: datetime | None) -> str | None:
        return None if dt is None else dt.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, dt: datetime) -> datetime:
        here = dt.replace(tzinfo=UTC).astimezone()
        local = here.replace(tzinfo=self, fold=0)
        return local if local.utcoffset() == here.utcoffset() else local.replace(fold=1)


LOCAL: tzinfo = _Local()
"""The machine's zone."""


def now() -> datetime:
    """Return the present time in the machine's zone, with the rules of that zone."""
    return datetime.now(LOCAL)
