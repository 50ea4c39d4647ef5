"""States, moments and safe text."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from connectors.notation import (
    NotationError,
    cells,
    cut,
    format_when,
    parse_slurm_time,
    parse_when,
    safe_text,
    split_states,
)

PARIS = ZoneInfo("Europe/Paris")


@pytest.mark.parametrize(
    ("state", "words", "marks"),
    [
        ("IDLE+DRAIN", {"IDLE", "DRAIN"}, set()),
        ("idle*+drain", {"IDLE", "DRAIN"}, {"NOT_RESPONDING"}),
        ("mixed-", {"MIXED"}, {"PLANNED"}),
        ("mixed+reserved+planned", {"MIXED", "RESERVED", "PLANNED"}, set()),
        ("down*", {"DOWN"}, {"NOT_RESPONDING"}),
        ("down+not_responding", {"DOWN", "NOT_RESPONDING"}, set()),
        ("idle~", {"IDLE"}, {"POWERED_DOWN"}),
        ("idle#", {"IDLE"}, {"POWERING_UP"}),
        ("idle%", {"IDLE"}, {"POWERING_DOWN"}),
        ("idle!", {"IDLE"}, {"POWER_DOWN_PENDING"}),
        ("mix$", {"MIXED"}, {"MAINTENANCE"}),
        ("alloc@", {"ALLOCATED"}, {"REBOOT_REQUESTED"}),
        ("down^*", {"DOWN"}, {"REBOOT_ISSUED", "NOT_RESPONDING"}),
        ("ALLOCATED+COMPLETING", {"ALLOCATED", "COMPLETING"}, set()),
        ("allocated+", {"ALLOCATED"}, {"COMPLETING"}),
        ("CANCELLED+", {"CANCELLED"}, {"CUT"}),
        ("PD", {"PENDING"}, set()),
        ("R", {"RUNNING"}, set()),
        ("CG", {"COMPLETING"}, set()),
        ("RD", {"RESV_DEL_HOLD"}, set()),
        ("INVAL", {"INVAL"}, set()),
        ("brand_new", {"BRAND_NEW"}, set()),
        (["MIXED", "PLANNED"], {"MIXED", "PLANNED"}, set()),
        (["PENDING", "REQUEUED"], {"PENDING", "REQUEUED"}, set()),
        ("", set(), set()),
        ([], set(), set()),
    ],
)
def test_states(state, words, marks):
    found = split_states(state)
    assert (found.words, found.marks, found.by_uid) == (words, marks, None)


def test_cancelled_names_a_uid():
    found = split_states("CANCELLED by 1007")
    assert (found.words, found.by_uid) == ({"CANCELLED"}, 1007)


NOW = datetime(2026, 11, 30, 21, 0, tzinfo=PARIS)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", "2026-11-30T20:00:00Z"),
        ("now+2h", "2026-11-30T22:00:00Z"),
        ("now+1day", "2026-12-01T20:00:00Z"),
        ("22:00", "2026-11-30T21:00:00Z"),
        ("20:00", "2026-12-01T19:00:00Z"),
        ("21:00", "2026-12-01T20:00:00Z"),
        ("21:00:01", "2026-11-30T20:00:01Z"),
        ("2026-12-01T20:00", "2026-12-01T19:00:00Z"),
        ("2026-12-01 20:00:30", "2026-12-01T19:00:30Z"),
        ("2026-12-01T20:00Z", "2026-12-01T20:00:00Z"),
        ("2026-12-01T20:00:00+05:30", "2026-12-01T14:30:00Z"),
        ("2026-12-01T20:00:00-08:00", "2026-12-02T04:00:00Z"),
    ],
)
def test_when(text, moment):
    assert format_when(parse_when(text, NOW)) == moment


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "24:00", "20:60", "20", "2026-13-01T20:00", "2026-02-30T20:00", "2026-12-01", "now-2h", "now+90", "now+unlimited",
     "now+999999999999w", "2026-12-01T20:00+24:00", "٢٠:٠٠", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"],
)  # fmt: skip
def test_when_refused(text):
    with pytest.raises(NotationError):
        parse_when(text, NOW)


def test_when_clocks_change():
    # in Paris 2026-03-29 has no 02:30, and 2026-10-25 has it twice
    for text, kind in (("2026-03-29T02:30", "never"), ("2026-10-25T02:30", "twice")):
        with pytest.raises(NotationError, match=kind):
            parse_when(text, NOW)
    before = datetime(2026, 3, 29, 1, 0, tzinfo=PARIS)
    assert format_when(parse_when("02:30", before)) == "2026-03-30T00:30:00Z"
    between = datetime(2026, 10, 25, 0, 45, tzinfo=UTC).astimezone(PARIS)
    assert format_when(parse_when("02:30", between)) == "2026-10-25T01:30:00Z"


def test_times_without_a_zone_are_refused():
    with pytest.raises(ValueError):
        parse_when("now", datetime(2026, 1, 1))
    with pytest.raises(ValueError):
        format_when(datetime(2026, 1, 1))


@given(
    st.datetimes(
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]), min_value=datetime(2, 1, 1)
    )
)
@settings(max_examples=100, deadline=None)
def test_when_inverse(moment):
    moment = moment.replace(microsecond=0)
    assert parse_when(format_when(moment), NOW) == moment


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("1796069823", None, datetime(2026, 11, 30, 20, 17, 3, tzinfo=UTC)),
        ("2026-11-30T20:00:28", UTC, datetime(2026, 11, 30, 20, 0, 28, tzinfo=UTC)),
        ("2026-11-30T20:00:28", PARIS, datetime(2026, 11, 30, 19, 0, 28, tzinfo=UTC)),
        ("2026-10-25T02:30:00", PARIS, datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        ("2026-11-30T20:00:28Z", None, datetime(2026, 11, 30, 20, 0, 28, tzinfo=UTC)),
        *[
            (word, None, None)
            for word in ("N/A", "Unknown", "NONE", "None", "0", "", "(null)", "4294967294", "18446744073709551615")
        ],
    ],
)
def test_slurm_time(text, zone, moment):
    assert parse_slurm_time(text, zone) == moment


def test_slurm_time_says_that_the_zone_is_missing():
    with pytest.raises(NotationError, match="zone is not known"):
        parse_slurm_time("2026-11-30T20:00:28")


@pytest.mark.parametrize("text", ["Ystday 14:00", "99999999999999", "-5", "1.5", "٣", "2026-11-31T00:00:00"])
def test_slurm_time_refused(text):
    with pytest.raises(NotationError):
        parse_slurm_time(text, UTC)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train[b", "train[b"),
        ("a\nb\tc\r", "a␤b␉c␍"),
        ("\x1b[2Jgone\x7f", "␛[2Jgone␡"),
        ("\x9b31m\x85", "\\x9b31m\\x85"),
        ("a\u202etxt.exe", "a\\u202etxt.exe"),
        ("a\u2066b\u200fc\u061c", "a\\u2066b\\u200fc\\u061c"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("a\u200bb\u200dc\ufeff\u00ad", "a\\u200bb\\u200dc\\ufeff\\xad"),
        ("\ud800x", "\\ud800x"),
        ("\U000e0041", "\\U000e0041"),
        ("👩\u200d💻 ok", "👩\u200d💻 ok"),
        ("👩\u200dx", "👩\\u200dx"),
        ("训练 ünï e\u0301", "训练 ünï e\u0301"),
        ("\u0301x", "\\u0301x"),
        ("e" + "\u0301" * 5, "e" + "\u0301" * 3 + "\\u0301" * 2),
        ("a\u3164b\u2800", "a\\u3164b\\u2800"),
        ("", ""),
    ],
)
def test_safe_text(text, shown):
    assert safe_text(text) == shown


TEXTS = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("ab [é训\u0301\u200d\ufe0f\u202e\n\x1b\x9b👩💻❤👍🏽🇩🇪1\u20e3\ud800\u1112\u1161"),
    ),
    max_size=30,
)


@given(TEXTS, st.integers(0, 20))
@settings(max_examples=300, deadline=None)
def test_safe_text_acts_on_nothing_and_fits(text, width):
    shown = safe_text(text)
    assert safe_text(shown) == shown
    assert shown.splitlines() == ([shown] if shown else [])
    assert not any(sign < " " or "\x7f" <= sign <= "\x9f" or "\ud800" <= sign <= "\udfff" for sign in shown)
    shown.encode()
    short = safe_text(text, width)
    assert cells(short) <= width
    assert short == shown if cells(shown) <= width else short == "" or short.endswith(">")
    assert cells(cut(text, width)) <= max(width, 0)


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("训练", 4), ("e\u0301", 1), ("👍🏽", 2), ("👩\u200d💻", 2), ("❤\ufe0f", 2), ("❤", 1), ("🇩🇪", 2), ("한", 2),
     ("\u1112\u1161", 2), ("·½…→●", 5), ("1\ufe0f\u20e3", 2), ("␛", 1), ("ก็", 1), ("", 0)],
)  # fmt: skip
def test_cells(text, width):
    assert cells(text) == width
    # the screens measure with this one: a column shifts where the two differ
    assert cell_len(text) == width


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [("abcdef", 4, "abc>"), ("abcd", 4, "abcd"), ("训练任务", 5, "训练>"), ("训练任务", 6, "训练>"), ("训练任务", 8, "训练任务"),
     ("e\u0301e\u0301e\u0301", 2, "e\u0301>"), ("👩\u200d💻x", 2, ">"), ("abc", 1, ">"), ("abc", 0, ""), ("训", 1, ">"), ("abc", -1, "")],
)  # fmt: skip
def test_cut(text, width, short):
    assert cut(text, width) == short
