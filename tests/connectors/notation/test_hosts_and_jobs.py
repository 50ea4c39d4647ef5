"""Host lists and job ids: the real spellings, and parse and format as inverses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.notation import (
    JobId,
    NotationError,
    TaskList,
    format_hostlist,
    format_job_id,
    parse_hostlist,
    parse_job_id,
    parse_task_list,
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("(null)", ()),
        ("None assigned", ()),
        ("gpu01", ("gpu01",)),
        ("gpu[02-03]", ("gpu02", "gpu03")),
        ("gpu[01,06]", ("gpu01", "gpu06")),
        ("gpu[01-03,07]-ib0", ("gpu01-ib0", "gpu02-ib0", "gpu03-ib0", "gpu07-ib0")),
        ("gpu-dy-h100-[1-4]", ("gpu-dy-h100-1", "gpu-dy-h100-2", "gpu-dy-h100-3", "gpu-dy-h100-4")),
        (
            "rack[0-1]_blade[0-1]",
            ("rack0_blade0", "rack0_blade1", "rack1_blade0", "rack1_blade1"),
        ),
        ("login1,gpu[09-11]", ("login1", "gpu09", "gpu10", "gpu11")),
        ("n[98-101]", ("n98", "n99", "n100", "n101")),
        ("n[098-101]", ("n098", "n099", "n100", "n101")),
    ],
)
def test_hostlist_both_ways(text, names):
    assert parse_hostlist(text) == names
    assert sorted(parse_hostlist(format_hostlist(names))) == sorted(names)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["gpu01"], "gpu01"),
        (["gpu03", "gpu01", "gpu02", "gpu02"], "gpu[01-03]"),
        (["gpu01-ib0", "gpu02-ib0", "gpu03-ib0", "gpu07-ib0"], "gpu[01-03,07]-ib0"),
        (["rack0_blade0", "rack0_blade1", "rack1_blade0", "rack1_blade1"], "rack[0-1]_blade[0-1]"),
        (["rack0_blade0", "rack0_blade1", "rack1_blade0"], "rack0_blade[0-1],rack1_blade0"),
        ([f"gpu-dy-h100-{n}" for n in (4, 2, 1, 3)], "gpu-dy-h100-[1-4]"),
        (["n9", "n10", "n09"], "n[9,09-10]"),
        ([f"n{n}" for n in range(8, 102)], "n[8-101]"),
        (["zeta", "alpha", "n1"], "alpha,n1,zeta"),
        ([f"ip-10-0-{a}-{b}" for a in (1, 2) for b in (7, 8)], "ip-10-0-[1-2]-[7-8]"),
    ],
)
def test_folding_is_the_shortest_form(names, text):
    assert format_hostlist(names) == text


NAMES = st.builds(
    "".join,
    st.lists(st.one_of(st.sampled_from(["gpu", "-", "ib", "_", "x"]), st.integers(0, 120).map(str),
                       st.integers(0, 12).map("{:03d}".format)), min_size=1, max_size=5),
)  # fmt: skip


@given(st.lists(NAMES, max_size=30))
@settings(max_examples=200, deadline=None)
def test_hostlist_inverse(names):
    folded = format_hostlist(names)
    back = parse_hostlist(folded)
    assert sorted(back) == sorted(set(names))
    assert format_hostlist(back) == folded


@pytest.mark.parametrize(
    "text",
    ["gpu[5-1]", "gpu[1-010]", "gpu[001-10]", "gpu[1", "gpu1]", "gpu[[1-2]]", "gpu[]", "gpu[a-b]", "gpu[1-2", "a,,b", "a,", ",",
     "a b", "gpu[٣-٥]", "gpu[1--2]", "x[0-100000]", "x[0-999][0-999]", "a\nb", "gpu[-1]", "gpu[1_0]"],
)  # fmt: skip
def test_hostlist_refused(text):
    with pytest.raises(NotationError):
        parse_hostlist(text)


@pytest.mark.parametrize("name", ["", "a,b", "a[1]", "a b", "a\n", "(null)"])
def test_a_name_that_cannot_stand_in_a_list(name):
    with pytest.raises(NotationError):
        format_hostlist(["gpu1", name])


def test_largest_list():
    assert len(parse_hostlist("x[00001-99999],y")) == 100_000


def r(*bounds):
    return range(bounds[0], bounds[1] + 1, *bounds[2:])


@pytest.mark.parametrize(
    ("text", "job", "count"),
    [
        ("123", JobId(123), 1),
        ("6_1", JobId(6, (r(1, 1),)), 1),
        ("6_[2-9%2]", JobId(6, (r(2, 9),), 2, bracketed=True), 8),
        ("6100_[17-99%16]", JobId(6100, (r(17, 99),), 16, bracketed=True), 83),
        ("123_[1,3,5-7:2%4]", JobId(123, (r(1, 1), r(3, 3), r(5, 7, 2)), 4, bracketed=True), 4),
        ("123_[0]", JobId(123, (r(0, 0),), bracketed=True), 1),
        ("23+0", JobId(23, het_offset=0), 1),
        ("24+1", JobId(24, het_offset=1), 1),
        ("4.batch", JobId(4, step="batch"), 1),
        ("4.1", JobId(4, step="1"), 1),
        ("6_0.batch", JobId(6, (r(0, 0),), step="batch"), 1),
        ("24+1.extern", JobId(24, het_offset=1, step="extern"), 1),
        ("24.0+1", JobId(24, step="0+1"), 1),
        ("9_[1,3,...]", JobId(9, (r(1, 1), r(3, 3)), truncated=True, bracketed=True), 3),
        ("10609_[...%3]", JobId(10609, (), 3, truncated=True, bracketed=True), 1),
        ("9_[0-" + "9" * 18 + "]", JobId(9, (r(0, 10**18 - 1),), bracketed=True), 10**18),
    ],
)
def test_job_id_both_ways(text, job, count):
    assert parse_job_id(text) == job
    assert format_job_id(job) == text
    assert job.count == count


@pytest.mark.parametrize(
    ("text", "ranges", "count"),
    [
        # the last number may have lost digits: 57 may be 570; a range's first number has not
        ("9_[1,3,57...]", (r(1, 1), r(3, 3)), 3),
        ("9_[1,5-7...%2]", (r(1, 1), r(5, 7)), 5),
        ("9_[1,57-...]", (r(1, 1), r(57, 57)), 3),
        ("9_[57-1...]", (r(57, 57),), 2),
        ("9_[0-99:...]", (r(0, 0),), 2),
        ("10609_[0...%3]", (), 1),
        ("10609_[%3]", (), 1),
    ],
)
def test_cut_list_is_a_lower_bound(text, ranges, count):
    job = parse_job_id(text)
    assert (job.tasks, job.truncated, job.count) == (ranges, True, count)


def test_overlapping_tasks_count_once():
    assert parse_job_id("1_[3,1-4,2]").tasks == (r(1, 4),)
    assert parse_job_id("1_[0-8:2,1-9:2]").tasks == (r(0, 9),)


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1\n", "a", "1_", "1_[]", "1_[5-1]", "1_[1-3:0]", "1_[,...]", "1_[1,,2]", "1+", "1.", "٣", "1_[٣]", "-1",
     "1_[1-2", "1_2+3", "N/A", "1_[1%]", "1" * 19],
)  # fmt: skip
def test_job_id_refused(text):
    with pytest.raises(NotationError):
        parse_job_id(text)


@pytest.mark.parametrize("text", ["", "N/A", "(null)"])
def test_no_task_list(text):
    assert parse_task_list(text) is None


@pytest.mark.parametrize("text", ["0", "2-9%2", "1,3,5-7:2", "1,3,...", "...%4"])
def test_task_list_both_ways(text):
    tasks = parse_task_list(text)
    assert isinstance(tasks, TaskList)
    assert str(tasks) == text


@st.composite
def jobs(draw):
    at, ranges = 0, []
    for gap, size, step in draw(st.lists(st.tuples(*[st.integers(1, 50)] * 3), min_size=1, max_size=6)):
        ranges.append(range(at + gap, at + gap + (size - 1) * step + 1, step if size > 1 else 1))
        at = ranges[-1][-1]
    throttle, truncated = draw(st.one_of(st.none(), st.integers(0, 99))), draw(st.booleans())
    step = draw(st.sampled_from([None, "batch", "0", "extern"]))
    base = draw(st.integers(0, 10**9))
    array = JobId(base, tuple(ranges), throttle, step=step, truncated=truncated, bracketed=True)
    return draw(
        st.sampled_from([array, JobId(base, het_offset=at, step=step), JobId(base, (range(at, at + 1),), step=step)])
    )


@given(jobs())
@settings(max_examples=200, deadline=None)
def test_job_id_inverse(job):
    assert parse_job_id(format_job_id(job)) == job
