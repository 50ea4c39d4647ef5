"""Durations, resources and quantities: the real spellings, and parse and format as inverses."""

import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.notation import (
    Gres,
    Memory,
    NotationError,
    format_age,
    format_bytes,
    format_gres,
    format_human_duration,
    format_memory,
    format_quantity,
    format_slurm_duration,
    format_tres,
    gpus_of_tres,
    parse_duration,
    parse_gres,
    parse_human_duration,
    parse_limits,
    parse_memory,
    parse_quantity,
    parse_tres,
)

HOUR, DAY = 3600, 86400
MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("UNLIMITED", math.inf), ("INFINITE", math.inf), ("365-00:00:00", 365 * DAY), ("10-00:00:00", 10 * DAY),
        ("1-12", DAY + 12 * HOUR), ("1-12:30", DAY + 12 * HOUR + 1800), ("04:00:00", 4 * HOUR), ("2:00:00", 2 * HOUR),
        ("5:00", 300), ("0:00", 0), ("6:07", 367), ("90", 5400), ("30:00", 1800), ("00:00:00", 0), ("00:04.125", 4.125),
        ("Partition_Limit", None), ("INVALID", None), ("NOT_SET", None), ("N/A", None), ("", None), ("NONE", None),
        ("None", None), ("(null)", None), ("Unknown", None),
    ],
)  # fmt: skip
def test_slurm_duration(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["-5", "1.5", "5m", "1:2:3:4", "1-", "٣", "1-2:3:4:5", "nan", "inf", "9" * 13, "Ystday 14:00"]
)
def test_slurm_duration_refused(text):
    with pytest.raises(NotationError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5400), ("2d4h", 2 * DAY + 4 * HOUR), ("1-12:00:00", 1.5 * DAY), ("30s", 30), ("unlimited", math.inf),
        ("1h 30m", 5400), ("1.5h", 5400), ("1w", 7 * DAY), ("04:00:00", 4 * HOUR), ("2days", 2 * DAY), ("1 hour", HOUR),
        ("1-12", 1.5 * DAY), (" 2D ", 2 * DAY), ("0s", 0),
    ],
)  # fmt: skip
def test_human_duration(text, seconds):
    assert parse_human_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "90", "5:00", "h", "4h2d", "1h1h", "1x", "-1h", "1h-", "1hm", "N/A", "none", "1.h", "٣h"]
)
def test_human_duration_refused(text):
    with pytest.raises(NotationError):
        parse_human_duration(text)


SECONDS = st.one_of(st.integers(0, 10**9), st.just(math.inf))


@given(SECONDS)
@settings(max_examples=150, deadline=None)
def test_duration_inverse(seconds):
    assert parse_duration(format_slurm_duration(seconds)) == seconds
    assert parse_human_duration(format_human_duration(seconds)) == seconds


def test_duration_formats():
    assert format_slurm_duration(None) == "N/A"
    assert parse_duration(format_slurm_duration(None)) is None
    assert format_slurm_duration(36 * HOUR + 59.6) == "1-12:01:00"
    assert format_human_duration(52 * HOUR) == "2d4h"
    assert format_human_duration(5400) == "1h30m"
    for bad in (-1.0, math.nan):
        with pytest.raises(ValueError):
            format_slurm_duration(bad)
        with pytest.raises(ValueError):
            format_human_duration(bad)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (59.9, "59s"), (99.9, "99s"), (100, "1m"), (99 * 60 + 59, "99m"), (6000, "1h"), (47 * HOUR + 3599, "47h"),
        (48 * HOUR, "2d"), (99 * DAY, "99d"), (100 * DAY, "14w"), (27 * 7 * DAY, "27w"), (999 * 7 * DAY, "999w"),
        (1000 * 7 * DAY, "19y"), (math.inf, "inf"), (None, "?"), (math.nan, "?"), (-5, "-5s"), (-math.inf, "-inf"),
        (-100 * 7 * DAY, "-1y"),
    ],
)  # fmt: skip
def test_age(seconds, text):
    assert format_age(seconds) == text


@given(st.one_of(st.none(), st.floats()))
@settings(max_examples=200, deadline=None)
def test_age_takes_four_cells(seconds):
    assert 1 <= len(format_age(seconds)) <= 4


def test_tres():
    tres = parse_tres("cpu=1,mem=1000M,node=1,billing=1,gres/gpu=8,gres/gpu:h100=8")
    assert tres == {"cpu": 1, "mem": 1000 * MIB, "node": 1, "billing": 1, "gres/gpu": 8, "gres/gpu:h100": 8}
    assert parse_tres("cpu=64,mem=500G,billing=64,gres/gpu=8,gres/gpu:a100=8")["mem"] == 500 * GIB
    assert parse_tres("cpu=17841,mem=17841133,gres/gpu=138318")["mem"] == 17841133 * MIB
    assert parse_tres("cpu=1,cpu=2") == {"cpu": 2}
    assert parse_tres("gres/gpu=-1") == {"gres/gpu": math.inf}
    assert parse_tres("cpu=1,energy=18446744073709551614") == {"cpu": 1}
    assert parse_tres("cpu=1,energy=-2") == {"cpu": 1}
    for nothing in ("", "(null)", "N/A"):
        assert parse_tres(nothing) == {}
    with pytest.raises(TypeError):
        tres["cpu"] = 2  # it is shared by all who asked for the same text


@pytest.mark.parametrize(
    "text",
    [
        "cpu",
        "cpu=",
        "=1",
        "cpu=1,",
        "cpu=-3",
        "cpu=nan",
        "cpu=1e9",
        "cpu=00:00:00",
        "cpu=٣",
        "mem=1X",
        "cpu=1 ",
        "cpu=N(0)",
    ],
)
def test_tres_refused(text):
    with pytest.raises(NotationError):
        parse_tres(text)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("cpu=2,gres/gpu=16,gres/gpu:a100=16", (16, "a100")),
        ("gres/gpu:a100=16,gres/gpu=16", (16, "a100")),
        ("gres/gpu=1", (1, None)),
        ("gres/gpu:h100=4", (4, "h100")),
        ("gres/gpu:h100=4,gres/gpu:a100=2", (6, None)),
        ("gres/gpu=64,gres/gpu:a100=48,gres/gpu:h100=16", (64, None)),
        ("gres/gpu=8,gres/gpu:a100=8,gres/gpu:h100=0", (8, "a100")),
        ("gres/gpu=8,gres/gpu:a100=4", (8, None)),
        ("gres/gpu:1g.10gb=7", (7, "1g.10gb")),
        ("gres/gpu=0,gres/gpumem=5,gres/gpuutil=3", (0, None)),
        ("cpu=1,gres/gpumem=5,gres/gpuutil:x=3", (None, None)),
        ("(null)", (None, None)),
    ],
)
def test_gpus_are_counted_once(text, gpus):
    assert gpus_of_tres(parse_tres(text)) == gpus


def test_limits():
    assert parse_limits("gres/gpu=24(16),cpu=N(12),mem=N(1000)") == {
        "gres/gpu": (24, 16), "cpu": (math.inf, 12), "mem": (math.inf, 1000 * MIB),
    }  # fmt: skip
    assert parse_limits("") == {}
    for bad in ("cpu=1", "cpu=N", "cpu=1(N)", "cpu=()", "cpu=1(2)}", "cpu=1(2)(3)"):
        with pytest.raises(NotationError):
            parse_limits(bad)


TRES_NAMES = st.sampled_from(["cpu", "mem", "node", "billing", "gres/gpu", "gres/gpu:a100", "license/x@y", "fs/disk"])


@given(st.dictionaries(TRES_NAMES, st.integers(0, 2**43)))
@settings(max_examples=100, deadline=None)
def test_tres_inverse(counts):
    tres = {name: float(count * 1024 if name == "mem" else count) for name, count in counts.items()}
    assert parse_tres(format_tres(tres)) == tres


@pytest.mark.parametrize(
    "tres", [{"a,b": 1.0}, {"": 1.0}, {"cpu": 0.5}, {"cpu": -1.0}, {"cpu": math.nan}, {"mem": 1.0}, {"x": 1e19}]
)
def test_tres_that_cannot_be_written(tres):
    with pytest.raises(NotationError):
        format_tres(tres)


@pytest.mark.parametrize(
    ("text", "one"),
    [
        ("gpu:8", Gres("gpu", None, 8)),
        ("gpu:8(S:0-1)", Gres("gpu", None, 8, sockets=(0, 1))),
        ("gpu:a100:8", Gres("gpu", "a100", 8)),
        ("gpu:a100:8(IDX:0-7)", Gres("gpu", "a100", 8, tuple(range(8)))),
        ("gpu:a100:3(IDX:0,2-3)", Gres("gpu", "a100", 3, (0, 2, 3))),
        ("gpu:(null):4(IDX:0-3)", Gres("gpu", None, 4, (0, 1, 2, 3))),
        ("gpu:a100:0(IDX:N/A)", Gres("gpu", "a100", 0, ())),
        ("gpu:a100:2(IDX:N/A)", Gres("gpu", "a100", 2, None)),
        ("gpu:1g.10gb:7", Gres("gpu", "1g.10gb", 7)),
        ("shard:h100:4(4/8,-/8)", Gres("shard", "h100", 4, shares=((4, 8), (None, 8)))),
        ("gres:gpu:a100:8", Gres("gpu", "a100", 8)),
        ("gres/gpu:a100:8", Gres("gpu", "a100", 8)),
        ("gres/gpu:8", Gres("gpu", None, 8)),
        ("gres:gpu", Gres("gpu", None, 1)),
        ("gpu:h100", Gres("gpu", "h100", 1)),
        ("gres/gpu:a100=8", Gres("gpu", "a100", 8)),
        ("gpu:a100:1(CNT:1)", Gres("gpu", "a100", 1)),
        ("bandwidth:lustre:no_consume:4G", Gres("bandwidth", "lustre", 4 * GIB, no_consume=True)),
        ("gpu:a100:4(S:0)(IDX:0-1)", Gres("gpu", "a100", 4, (0, 1), (0,))),
    ],
)
def test_gres(text, one):
    assert parse_gres(text) == (one,)
    assert parse_gres(format_gres([one])) == (one,)


def test_gres_lists():
    assert [(g.type, g.count, g.indexes) for g in parse_gres("gpu:a100:3(IDX:0,2-3),gpu:h100:1(IDX:7),shard:8")] == [
        ("a100", 3, (0, 2, 3)), ("h100", 1, (7,)), (None, 8, None),
    ]  # fmt: skip
    for nothing in ("", "(null)", "N/A"):
        assert parse_gres(nothing) == ()
    assert parse_gres(format_gres([])) == ()


@pytest.mark.parametrize(
    "text",
    ["gpu:", ":8", "gpu:a:b:8", "gpu:8(", "gpu:8)", "gpu:8((S:0))", "gpu:8(IDX:)", "gpu:8(IDX:7-0)", "gpu:8(IDX:0-99999)",
     "gpu:8(what)", "gpu:8,", "gpu:2(CNT:3)", "gres:gres:gpu:1", "a b:1", "gpu:999999999T", "gpu:1(IDX:٣)"],
)  # fmt: skip
def test_gres_refused(text):
    with pytest.raises(NotationError):
        parse_gres(text)


@given(st.lists(st.sampled_from([*"0123456789(),-:=/", "gpu", "shard", ":a100:", "(IDX:", "(S:", "N/A", "(null)", "gres/", "4/8",
                                 "no_consume", "gpu:2(IDX:0-1)", "gpu:h100:8"]), max_size=7).map("".join))  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_gres_inverse_for_all_that_is_read(text):
    try:
        found = parse_gres(text)
    except NotationError:
        return
    assert parse_gres(format_gres(found)) == found


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("1000M", Memory(1000 * MIB)), ("500G", Memory(500 * GIB)), ("7.5Gn", Memory(7680 * MIB, "node")),
        ("4000Mc", Memory(4000 * MIB, "cpu")), ("512000", Memory(512000 * MIB)), ("0", Memory(0)), ("0n", Memory(0, "node")),
        ("1234K", Memory(1234 * 1024)), ("10GB", Memory(10 * GIB)), ("N/A", None), ("", None), ("(null)", None),
    ],
)  # fmt: skip
def test_memory(text, memory):
    assert parse_memory(text) == memory


@pytest.mark.parametrize("text", ["1X", "-1M", "1e3", "M", "1 M", "nan", "٣M", "9" * 18 + "E", "1KiB"])
def test_memory_refused(text):
    with pytest.raises(NotationError):
        parse_memory(text)


@given(st.one_of(st.none(), st.builds(Memory, st.integers(0, 2**63 - 1), st.sampled_from(["node", "cpu", None]))))
@settings(max_examples=100, deadline=None)
def test_memory_inverse(memory):
    assert parse_memory(format_memory(memory)) == memory


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1500m", "1.5"), ("2Ki", "2048"), ("1Gi", str(GIB)), ("1e3", "1000"), ("1E3", "1000"), ("1E", "1e18"), ("8", "8"),
        ("0.5", "0.5"), (".5", "0.5"), ("1.", "1"), ("-3", "-3"), ("+3", "3"), ("1M", "1000000"), ("100n", "0.0000001"),
        ("0e99", "0"), ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("98765432109876543210Ei", str(98765432109876543210 * 2**60)),
    ],
)  # fmt: skip
def test_quantity(text, value):
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["", "m", "1 Gi", "1gi", "NaN", "Infinity", "1e", "1e999", "1_0", "٣", "1e99", "1e-99", "0x10", "1K"]
)
def test_quantity_refused(text):
    with pytest.raises(NotationError):
        parse_quantity(text)


@given(st.decimals(min_value=-(10**30), max_value=10**30, places=9, allow_nan=False, allow_infinity=False))
@settings(max_examples=100, deadline=None)
def test_quantity_inverse(value):
    assert parse_quantity(format_quantity(value)) == value


def test_quantity_format_refuses_what_is_none():
    with pytest.raises(ValueError):
        format_quantity(Decimal("NaN"))


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1024**2 - 1, "1.0 MiB"), (7680 * MIB, "7.5 GiB"), (500 * GIB, "500.0 GiB"),
     (80 * GIB, "80.0 GiB"), (2**60, "1.0 EiB"), (2**73, "8192.0 EiB"), (None, "?"), (math.nan, "?"), (math.inf, "inf"),
     (-2048, "-2.0 KiB")],
)  # fmt: skip
def test_bytes(size, text):
    assert format_bytes(size) == text
