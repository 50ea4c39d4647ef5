"""The one filter grammar: what it reads, what it refuses, and that no text breaks it."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import BadWords
from connectors.model import JOBS, SCHEMAS, empty
from console.filters import DERIVED_COLUMNS, parse_filter, pick_columns, sort

NOW = datetime(2026, 11, 30, 11, 30, tzinfo=UTC)
ROWS = [
    {"id": "1", "name": "llm-pre", "user": "ana", "team": "vision", "state": "running", "gpus": 64.0, "time_limit_s": float("inf"),
     "memory_bytes": 2.0**37, "nodelist": ["gn01", "gn02"], "bound_by": ["qos:nlp"], "submit_time": NOW - timedelta(hours=3),
     "preemptible": True, "labels": [{"key": "app", "value": "Train"}], "reason_raw": None},
    {"id": "2", "name": "test.*", "user": "Bo", "team": "vision", "state": "pending", "gpus": 8.0, "time_limit_s": 7200.0,
     "memory_bytes": 2.0**36, "nodelist": [], "bound_by": ["qos:vis", "account:x"], "submit_time": NOW - timedelta(minutes=5),
     "preemptible": False, "labels": [], "reason_raw": "QOSGrpGRES"},
    {"id": "3", "name": "Ärger [x] | y", "user": "bob", "team": None, "state": "pending", "gpus": None, "time_limit_s": 3600.0,
     "memory_bytes": None, "nodelist": None, "bound_by": None, "submit_time": NOW - timedelta(days=1), "preemptible": None,
     "labels": None, "reason_raw": "Priority"},
]  # fmt: skip
JOBS_FRAME = pl.DataFrame(ROWS, schema={k: JOBS[k] for k in ROWS[0]})


def found(text):
    return parse_filter(text, NOW).apply(JOBS_FRAME)["id"].to_list()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", ["1", "2", "3"]), ("   ", ["1", "2", "3"]),
        ("state:pending", ["2", "3"]), ("state:PENDING", ["2", "3"]), ("!state:pending", ["1"]),
        ("team:vision gpus>8", ["1"]), ("gpus>=8", ["1", "2"]), ("gpus<8", []), ("gpus<=8", ["2"]), ("gpus:8", ["2"]),
        ("!gpus:8", ["1"]), ("user:bo", ["2"]), ("user:bo*", ["2", "3"]), ("user:*", ["1", "2", "3"]),
        ("team:null", ["3"]), ("!team:null", ["1", "2"]), ("!team:vision", []), ("gpus:null", ["3"]),
        ("pre", ["1"]), ("PRE", ["1"]), ("!pre", ["2", "3"]), ("2", ["2"]), ("ärger", ["3"]), ("l*pre", ["1"]),
        ("name:test", ["2"]), ("!name:test", ["1", "3"]), ('"[x] |"', ["3"]), ('name:"test.*"', ["2"]), ("name:test.*", ["2"]),
        ("name:t.st", []), ("name:(", []), ("[x]", ["3"]), ("name:*[x]*", ["3"]),
        ("time_limit_s>2h", ["1"]), ("time_limit_s:2h", ["2"]), ("time_limit_s<=90m", ["3"]), ("time_limit_s:unlimited", ["1"]),
        ("time_limit_s>3600", ["1", "2"]), ("memory_bytes>64G", ["1"]), ("memory_bytes:64GiB", ["2"]), ("memory_bytes<1T", ["1", "2"]),
        ("nodelist:gn02", ["1"]), ("nodelist:gn*", ["1"]), ("!nodelist:gn02", ["2"]), ("nodelist:null", ["3"]),
        ("bound_by:qos:nlp", ["1"]), ("bound_by:account:x", ["2"]), ("labels:app=train", ["1"]), ("labels:app", ["1"]),
        ("preemptible:yes", ["1"]), ("preemptible:false", ["2"]),
        ("submit_time>now-1h", ["2"]), ("submit_time<08:31", ["1", "3"]), ("submit_time:2026-11-30", ["1", "2"]),
        ("submit_time<2026-11-30", ["3"]), ("submit_time:08:30", ["1"]), ("submit_time>2026-11-29", ["1", "2"]),
        ("reason_raw:qos", ["2"]), ("\tstate:pending\n user:bob ", ["3"]),
    ],
)  # fmt: skip
def test_rows(text, ids):
    assert found(text) == ids


@pytest.mark.parametrize(
    ("text", "position", "said"),
    [
        ("statte:pending", 0, "state"),
        ("team:vision gpuss>8", 12, "gpus"),
        ("wait_ss>2h", 0, "wait_s"),
        ("verdct:ACT", 0, "verdict"),
        ("team:", 5, "value is missing"),
        ("!", 0, "condition"),
        ("! team:x", 0, "condition"),
        ("!!team:x", 0, "condition"),
        ('name:"abc', 5, "not closed"),
        ('"abc', 0, "not closed"),
        ('name:"a"b', 8, "blank"),
        ('na"me', 2, "quote"),
        ("1:2", 0, "not a field"),
        ("a b:c", 2, "not a field"),
    ],
)
def test_words_that_cannot_be_read(text, position, said):
    with pytest.raises(BadWords) as caught:
        parse_filter(text, NOW)
    assert caught.value.position == position
    assert said in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "position", "said"),
    [
        ("gpus>many", 5, "a number"), ("time_limit_s>soon", 13, "duration"), ("memory_bytes>much", 13, "memory"),
        ("name>a", 5, "name:value"), ("state:pendng", 6, "pending"), ("nodelist>a", 9, "list"), ("preemptible:perhaps", 12, "true or false"),
        ("submit_time>yesterday", 12, "time"), ("slurm_qos:normal", 0, "slurm_qos"), ("partitions:train", 0, "partitions"),
        ("submit_time>9999-99-99", 12, "time"), ("gpus>nan", 5, "number"), ("gpus>1e5", 5, "number"), ("name:" + "x" * 1001, 5, "1000"),
    ],
)  # fmt: skip
def test_values_that_a_table_cannot_hold(text, position, said):
    with pytest.raises(BadWords) as caught:
        found(text)
    assert caught.value.position == position
    assert said in str(caught.value)


def test_a_connectors_own_column_is_known_to_its_table():
    frame = pl.DataFrame({"id": ["1", "2"], "slurm_qos": ["low", "high"]})
    assert parse_filter("slurm_qos:high").apply(frame)["id"].to_list() == ["2"]


@pytest.mark.parametrize("table", sorted(SCHEMAS))
def test_every_table_takes_a_word(table):
    assert parse_filter("something", NOW).apply(empty(table)).is_empty()


def test_derived_columns_are_fields():
    for name in DERIVED_COLUMNS:
        parse_filter(f"{name}:null", NOW)


_PIECES = st.sampled_from(
    ["state", "name", "nodelist", "gpus", "submit_time", "time_limit_s", "labels", ":", ">", "<=", "!", '"', "\\", " ", "*", "null", "[", "(?i)", "8", "2h", "now-", "é", "\0", "\ud800", "$", "\\z"]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=40), st.lists(_PIECES, max_size=12).map("".join)))
def test_any_text_is_read_or_refused(text):
    refused, kept = None, JOBS_FRAME
    try:
        kept = parse_filter(text, NOW).apply(JOBS_FRAME)
    except BadWords as error:
        refused = error
    assert refused is None or (refused.text == text and 0 <= (refused.position or 0) <= len(text))
    assert kept.columns == JOBS_FRAME.columns


@settings(max_examples=150, deadline=None)
@given(
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=20),
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=20),
)
def test_a_quoted_value_means_itself_and_nothing_else(value, other):
    frame = pl.DataFrame({"team": [value, other]})
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    kept = parse_filter(f'team:"{quoted}"').apply(frame)["team"].to_list()
    assert value in kept
    assert all(one.lower() == value.lower() for one in kept)


def test_sorting():
    assert sort(JOBS_FRAME, "-gpus")["id"].to_list() == ["1", "2", "3"]
    assert sort(JOBS_FRAME, "gpus")["id"].to_list() == ["2", "1", "3"]
    assert sort(JOBS_FRAME, "state, -submit_time")["id"].to_list() == ["2", "3", "1"]
    for keys, position in (("gpusx", 0), ("gpus,-wat", 5), ("gpus,", 5), ("nodelist", 0), ("", 0)):
        with pytest.raises(BadWords) as caught:
            sort(JOBS_FRAME, keys)
        assert caught.value.position == position


def test_picking_columns():
    assert pick_columns(JOBS_FRAME, "gpus, id,gpus").columns == ["gpus", "id"]
    with pytest.raises(BadWords, match="user"):
        pick_columns(JOBS_FRAME, "id,usr")


def test_case_is_folded_as_the_tables_fold_it():
    frame = pl.DataFrame({"name": ["\U00010d50x"]})  # a capital that the tables' Unicode has, and not every Python's
    assert parse_filter('name:"\U00010d50"').apply(frame).height == 1
