"""Expectations held against a snapshot."""

import math
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.change import Expectation, Found
from connectors.connector import Capabilities, Meta
from connectors.ground import MISSING, check, holds, lookup, moved, quota_key, split_quota_key
from connectors.model import Snapshot

AT = datetime(2026, 12, 1, 20, 0, 0, 999, tzinfo=UTC)
META = Meta(cluster="lab", system="slurm", version=None, taken_at=AT, capabilities=Capabilities(reads=()))
SNAPSHOT = Snapshot.of(
    META,
    jobs=pl.DataFrame({
        "id": ["15", "16_[2-9%2]", "16_0", "odd_[x"], "key": ["15", "16", "16_0", "17"],
        "state": ["pending", "pending", "running", "pending"], "priority": [0.1 + 0.2, 7.0, None, 1.0],
        "tasks": [1, 8, 1, 1], "preemptible": [True, None, False, None],
    }),
    nodes=pl.DataFrame({"name": ["gpu01", "gpu02"], "state": ["idle", "drained"], "reason": [None, " bad fan"]}),
    queues=pl.DataFrame({"id": ["qos:train"], "max_run_s": [math.inf]}),
    quotas=pl.DataFrame({
        "queue": ["qos:train", "qos:train"], "resource": ["gpu", "gpu"], "model": [None, "h100"], "limit": [28.0, None]
    }),
    reservations=pl.DataFrame({"name": ["night"], "start_time": [AT], "nodelist": [["gpu02", "gpu01"]]}),
)  # fmt: skip


def want(table: str, key: str, column: str = "", value: Any = None, **more: bool) -> Expectation:
    return Expectation(table=table, key=key, column=column, value=value, **more)


LIMIT = want("quotas", "qos:train|gpu|", "limit", 24.0)


@pytest.mark.parametrize(
    ("expectation", "value"),
    [
        (LIMIT, 28.0),
        (want("quotas", "qos:train|gpu|h100", "limit"), None),
        (want("quotas", "qos:train|gpu|a100", "limit"), MISSING),
        (want("queues", "qos:train", "max_run_s"), math.inf),
        (want("jobs", "15", "state"), "pending"),
        (want("jobs", "15", "tasks"), 1.0),
        (want("jobs", "15", "preemptible"), True),
        (want("jobs", "16_4", "id"), "16_[2-9%2]"),
        (want("jobs", "16_0", "state"), "running"),
        (want("jobs", "16_1", "state"), MISSING),
        (want("jobs", "16_x", "state"), MISSING),
        (want("jobs", "17_1", "state"), MISSING),
        (want("nodes", "gpu01", "reason"), None),
        (want("nodes", "gpu01"), None),
        (want("reservations", "night", "nodelist"), ("gpu02", "gpu01")),
        (want("reservations", "night", "start_time"), "2026-12-01T20:00:00Z"),
        (want("reservations", "day", "start_time"), MISSING),
    ],
)
def test_what_stands_there(expectation, value) -> None:
    found = lookup(SNAPSHOT, expectation)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("expectation", [want("jobs", "15", "colour"), want("prices", "x", "model")])
def test_what_no_table_has_is_a_fault(expectation) -> None:
    with pytest.raises(KeyError):
        lookup(SNAPSHOT, expectation)


@pytest.mark.parametrize(
    ("expectation", "ok"),
    [
        (LIMIT, False),
        (want("quotas", "qos:train|gpu|", "limit", 28.0), True),
        (want("quotas", "qos:train|gpu|", "limit", 28.00001), True),
        (want("quotas", "qos:train|gpu|", "limit", 28.001), False),
        (want("quotas", "qos:train|gpu|", "limit", math.inf), False),
        (want("quotas", "qos:train|gpu|", "limit", "28"), False),
        (want("quotas", "qos:train|gpu|h100", "limit", None), True),
        (want("quotas", "qos:train|gpu|h100", "limit", 0.0), False),
        (want("quotas", "qos:train|gpu|a100", "limit", math.inf), False),
        (want("quotas", "qos:train|gpu|a100", "limit", math.inf, or_gone=True), True),
        (want("queues", "qos:train", "max_run_s", math.inf), True),
        (want("jobs", "15", "priority", 0.3), True),
        (want("jobs", "15", "priority", 0.0, is_not=True), True),
        (want("jobs", "15", "preemptible", True), True),
        (want("jobs", "15", "preemptible", 1.0), False),
        (want("jobs", "15", "state", ("pending", "running")), True),
        (want("jobs", "15", "state", ("pending", "running"), is_not=True), False),
        (want("jobs", "15", "state", ("running",)), False),
        (want("jobs", "99", "state", ("running",), is_not=True), False),
        (want("jobs", "99", "state", ("running",), is_not=True, or_gone=True), True),
        (want("jobs", "99", exists=False), True),
        (want("jobs", "15", exists=False), False),
        (want("jobs", "15"), True),
        (want("jobs", "99"), False),
        (want("nodes", "gpu01", "reason", None), True),
        (want("nodes", "gpu02", "reason", None), False),
        (want("reservations", "night", "nodelist", ("gpu01", "gpu02")), True),
        (want("reservations", "night", "nodelist", ("gpu01",)), False),
        (want("reservations", "night", "nodelist", "gpu01"), False),
        (want("reservations", "night", "start_time", "2026-12-01T20:00:00Z"), True),
    ],
)
def test_the_rules_of_comparison(expectation, ok) -> None:
    value = lookup(SNAPSHOT, expectation)
    assert holds(expectation, value) is ok
    shown = None if value is MISSING else value
    assert check([expectation], SNAPSHOT) == (Found(expected=expectation, value=shown, ok=ok),)
    assert bool(moved([expectation], SNAPSHOT)) is not ok


def test_what_moved_is_said_in_words() -> None:
    said = moved(
        [
            LIMIT,
            want("quotas", "qos:train|gpu|", "limit", 28.0),
            want("quotas", "qos:train|gpu|h100", "limit", math.inf),
            want("quotas", "qos:train|cpu|", "limit", 4.0),
            want("jobs", "15", "state", ("running", "suspended")),
            want("jobs", "15", "state", "pending", is_not=True),
            want("jobs", "99", "state", "pending"),
            want("nodes", "gpu01", "reason", "bad fan"),
            want("nodes", "gpu02", "reason", None),
            want("reservations", "night", exists=False),
            want("reservations", "night", "nodelist", ("gpu03",)),
        ],
        SNAPSHOT,
    )
    assert said == [
        "qos:train limit: expected 24, found 28",
        "qos:train limit (h100): expected unlimited, found nothing",
        "qos:train (cpu): is gone",
        "job 15 state: expected running or suspended, found pending",
        "job 15 state: expected not pending, found pending",
        "job 99: is gone",
        "gpu01 reason: expected 'bad fan', found nothing",
        "gpu02 reason: expected nothing, found ' bad fan'",
        "reservation night: is there now",
        "reservation night nodelist: expected gpu03, found gpu02,gpu01",
    ]


names = st.text(st.characters(exclude_characters="|"), min_size=1)


@given(st.text(), names, st.one_of(st.none(), names))
def test_a_quota_key_is_read_back(queue, resource, model) -> None:
    assert split_quota_key(quota_key(queue, resource, model)) == (queue, resource, model)


@given(st.one_of(st.floats(allow_nan=False), st.text(), st.none(), st.booleans(), st.lists(st.text()).map(tuple)))
def test_a_value_is_what_it_is(value) -> None:
    one = want("nodes", "x", "reason", value)
    assert holds(one, value)
    assert not holds(want("nodes", "x", "reason", value, is_not=True), value)
