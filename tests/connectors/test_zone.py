"""The machine's zone: the offset is that of the moment that is meant, not of today."""

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from connectors import zone
from connectors.errors import BadWords
from connectors.language import read
from connectors.zone import LOCAL


@pytest.fixture(autouse=True)
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_it_agrees_with_the_database_over_two_years():
    for step in range(2 * 365 * 24 * 2):
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=30 * step)
        ours, theirs = moment.astimezone(LOCAL), moment.astimezone(ZoneInfo("Europe/Berlin"))
        assert (ours.replace(tzinfo=None), ours.fold, ours.utcoffset()) == (
            theirs.replace(tzinfo=None),
            theirs.fold,
            theirs.utcoffset(),
        )
        assert ours.astimezone(UTC) == moment


def reserved(start, end, now):
    (change,) = read([f"reserve m nodes=a start={start} end={end}"], now=now)
    return change


@pytest.mark.parametrize("month", [1, 7])
def test_a_time_in_another_season_is_read_by_its_own_clock(month):
    now = datetime(2026, month, 10, 12, tzinfo=UTC).astimezone(LOCAL)
    assert reserved("2027-07-01T10:00", "2027-07-01T11:00", now).start == datetime(2027, 7, 1, 8, tzinfo=UTC)
    assert reserved("2027-01-01T10:00", "2027-01-01T11:00", now).start == datetime(2027, 1, 1, 9, tzinfo=UTC)


def test_a_night_over_the_change_of_clocks():
    now = datetime(2027, 3, 27, 18, tzinfo=UTC).astimezone(LOCAL)
    change = reserved("20:00", "08:00", now)
    assert (change.start, change.end) == (
        datetime(2027, 3, 27, 19, tzinfo=UTC),
        datetime(2027, 3, 28, 6, tzinfo=UTC),
    )


@pytest.mark.parametrize("text", ["2027-03-28T02:30", "2027-10-31T02:30"])
def test_a_time_that_clocks_skip_or_repeat_is_not_guessed(text):
    with pytest.raises(BadWords):
        reserved(text, "2027-12-01T00:00", zone.now())
