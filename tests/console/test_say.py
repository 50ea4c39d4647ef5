"""Words for people on the command line: what lies beyond the horizon is said, never shown as unknown."""

from datetime import UTC, datetime

import pytest

from console import say
from console.doctor import Check
from console.scheduling.forecast import Waits
from console.triage.diagnosis import Diagnosis, Start

NOW = datetime(2026, 11, 30, 21, 0, tzinfo=UTC)


def diagnosed(p50, p90):
    start = Start(p50=p50, p90=p90, basis="limits")
    answer = Diagnosis(job="1", cluster="hpc", verdict="wait", says="waits", causes=(), start=start)
    return say.diagnosis(answer, {"name": "a"}, now=NOW)


def test_a_start_beyond_the_horizon_is_said():
    assert "does not start within 1d; basis: limits" in diagnosed(None, None)
    assert "(P50), not within 1d (P90)" in diagnosed(NOW, None)
    assert "?" not in diagnosed(None, None).replace("?/?", "")


@pytest.mark.parametrize(("started", "p50", "shown"), [(3, None, "> 1d"), (9, 60.0, "1m"), (10, None, "?")])
def test_a_percentile_that_too_few_jobs_reach_lies_beyond_the_horizon(started, p50, shown):
    waits = Waits(jobs=10, started=started, p50_s=p50, p90_s=None, p95_s=None)
    assert say._spans(waits, waits, "p50_s", 86400.0)[:2] == (shown, shown)


def test_marks_of_a_check_stay_in_line():
    lines = [Check(level=level, subject="s", says="x").line() for level in ("ok", "note", "fault")]
    assert [line.index("s: x") for line in lines] == [8, 8, 8]
    assert lines[2].startswith("! fault")
