"""Jobs from squeue: every byte of a name, arrays, states, sizes, and rows that can't be read."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import msgspec
import polars as pl
import pytest
from recordings import FENCE, NOW, VERSIONS, job, recorded_rows, squeue_answer

from connectors.slurm.commands import US
from connectors.slurm.jobs import jobs_table
from connectors.slurm.sizes import mig_share
from connectors.slurm.states import job_state, node_state

HOSTILE = [
    "a|b", "first line\nsecond line", "\n", " leading and trailing ", "[red]x[/]", "x[/x]", "run[lr=1e-3]",
    "训练-大模型", "🚀 éà", "n" * 1000, "clear\x1b[2Jscreen", "$(reboot)", f"US{US}RS\x1eend", "JobId=1 JobState=RUNNING",
    "\x1e", f"1{US}1{US}1", "N/A", "(null)", "tab\there", "\r\n", "'\"`;&", "\u202egnp.exe", "begin 00112233",
]  # fmt: skip


def one(**changed: str) -> dict[str, Any]:
    frame, gaps = jobs_table(squeue_answer([job(**changed)]), NOW)
    assert gaps == []
    (row,) = frame.to_dicts()
    return row


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("field", ["name", "comment", "feature"])
def test_any_text_in_a_free_field_moves_nothing(name: str, field: str) -> None:
    rows = [job(jobarrayid="1", name="before"), job(jobarrayid="2", **{field: name}), job(jobarrayid="3", name="after")]
    frame, gaps = jobs_table(squeue_answer(rows), NOW)
    assert gaps == []
    assert frame["id"].to_list() == ["1", "2", "3"]
    assert frame["user"].to_list() == ["mira"] * 3
    if field == "name":
        assert frame["name"].to_list() == ["before", name, "after"]
        assert msgspec.json.decode(msgspec.json.encode(frame["name"].to_list())) == ["before", name, "after"]


def test_bytes_that_are_no_text_stay_visible() -> None:
    answer = squeue_answer([job(name="XX")])
    answer = msgspec.structs.replace(answer, out=answer.out.replace(b"XX", b"a\xff\xc3b\xe2\x82\xac"))
    frame, gaps = jobs_table(answer, NOW)
    assert gaps == []
    assert frame["name"].to_list() == ["a\\xff\\xc3b€"]


def test_no_jobs_is_an_empty_table() -> None:
    answer = msgspec.structs.replace(squeue_answer([job()]), out=b"")
    frame, gaps = jobs_table(answer, NOW)
    assert len(frame) == 0
    assert gaps == []
    assert {"id", "gpus", "nodelist", "kind", "slurm_qos"} <= set(frame.columns)


def test_rows_that_cannot_be_read_are_counted_and_the_rest_stays() -> None:
    answer = squeue_answer([job(jobarrayid=str(number)) for number in range(1, 6)])
    records = answer.out.split(b"\n")
    records[1] = records[1].replace(US.encode(), b"", 1)  # a field is missing
    records[3] = records[3].replace(FENCE.encode(), b"", 1)  # a fence is missing
    frame, gaps = jobs_table(msgspec.structs.replace(answer, out=b"\n".join(records)), NOW)
    assert frame["id"].to_list() == ["1", "3", "5"]
    (gap,) = gaps
    assert gap.affects == ("jobs",)
    assert gap.reason.startswith("2 of 5 rows could not be read, first: 2")


def test_a_row_without_an_id_is_counted() -> None:
    frame, gaps = jobs_table(squeue_answer([job(jobarrayid="what"), job(jobarrayid="8")]), NOW)
    assert frame["id"].to_list() == ["8"]
    assert frame["name"].to_list() == ["vlm-pretrain"]
    assert gaps[0].reason == "1 of 2 rows could not be read, first: what"


def test_a_cell_that_cannot_be_read_is_null_and_counted() -> None:
    rows = [
        job(jobarrayid="1", starttime="soon", tres__alloc="gres/gpu=many", timelimit="1:2:3:4"),
        job(jobarrayid="2"),
    ]
    frame, gaps = jobs_table(squeue_answer(rows), NOW)
    assert frame["start_time"].null_count() == frame["time_limit_s"].null_count() == 1
    assert frame["gpus"].to_list() == [None, 16.0]
    assert {gap.affects[0] for gap in gaps} == {"jobs.start_time", "jobs.gpus", "jobs.time_limit_s"}
    assert all(gap.reason.startswith("1 of 2 rows have a ") for gap in gaps)


def test_a_field_that_this_version_does_not_know_is_a_gap_and_shifts_nothing() -> None:
    full = squeue_answer([job()])
    less = job()
    del less["tres-per-task"], less["comment"]
    said = b"squeue: error: Invalid job format specification: TRES-per-task\n"
    said += b"squeue: error: Invalid job format specification: comment\n"
    answer = msgspec.structs.replace(squeue_answer([less]), asked=full.asked, err=said)
    frame, (gap,) = jobs_table(answer, NOW)
    assert frame["name"].to_list() == ["vlm-pretrain"]
    assert frame["slurm_comment"].to_list() == [None]
    assert frame["nodelist"].to_list() == [["gpu02", "gpu03"]]
    assert gap.reason == "this version has no field TRES-per-task, comment"


@pytest.mark.parametrize(
    ("array_id", "want"),
    [
        ("7", ("7", "7", None, 1, None)),
        ("16_3", ("16_3", "16_3", "16", 1, None)),
        ("16_[2-9%2]", ("16_[2-9]", "16", "16", 8, 2)),
        ("6100_[17-99%16]", ("6100_[17-99]", "6100", "6100", 83, 16)),
        ("5_[0-8:2,20]", ("5_[0-8:2,20]", "5", "5", 6, None)),
        ("38+1", ("38+1", "38+1", "38", 1, None)),
    ],
)
def test_ids_keys_and_tasks(array_id: str, want: tuple[Any, ...]) -> None:
    row = one(jobarrayid=array_id)
    assert (row["id"], row["key"], row["parent_id"], row["tasks"], row["slurm_array_throttle"]) == want


def test_a_cut_array_list_is_a_lower_bound() -> None:
    row = one(jobarrayid="5_[1,3,5,...]")
    assert row["tasks"] == 4
    assert row["id"].endswith("...]")


def test_keys_are_unique_even_beside_cancelled_tasks() -> None:
    rows = [job(jobarrayid="5_[3-9]", state="PENDING"), job(jobarrayid="5_[1-2]", state="CANCELLED")]
    frame, _gaps = jobs_table(squeue_answer(rows), NOW)
    assert frame["key"].to_list() == ["5", "5_[1-2]"]


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        ("PENDING", "pending"), ("CONFIGURING", "running"), ("COMPLETING", "completing"), ("COMPLETED", "succeeded"),
        ("CANCELLED by 1007", "cancelled"), ("TIMEOUT", "timeout"), ("OUT_OF_MEMORY", "out_of_memory"),
        ("NODE_FAIL", "node_failed"), ("PREEMPTED", "preempted"), ("BOOT_FAIL", "failed"), ("STOPPED", "suspended"),
        ("SPECIAL_EXIT", "pending"), ("DEADLINE", "timeout"), ("REVOKED", "cancelled"), ("WARP_SPEED", "unknown"),
        ("RUNNING+COMPLETING", "completing"), ("", "unknown"),
    ],
)  # fmt: skip
def test_states(raw: str, state: str) -> None:
    assert job_state(raw) == state
    assert one(state=raw)["state_raw"] == raw


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        ("IDLE", ("idle", True)), ("MIXED+PLANNED", ("mixed", True)), ("IDLE+PLANNED", ("planned", True)),
        ("IDLE+DRAIN", ("drained", False)), ("MIXED+DRAIN", ("draining", False)), ("ALLOCATED", ("allocated", True)),
        ("IDLE+COMPLETING+DRAIN", ("draining", False)), ("DOWN+NOT_RESPONDING", ("down", False)),
        ("DOWN+DRAIN", ("down", False)), ("MIXED+NOT_RESPONDING", ("unknown", False)), ("idle*", ("unknown", False)),
        ("IDLE+MAINTENANCE+RESERVED", ("reserved", True)), ("IDLE+CLOUD+POWERED_DOWN", ("idle", True)),
        ("IDLE+POWERING_DOWN", ("idle", False)), ("IDLE+DRAIN+NOT_RESPONDING", ("drained", False)),
        ("FUTURE", ("unknown", False)), ("INVAL", ("unknown", False)), ("IDLE+INVALID_REG", ("idle", False)),
        ("drained", ("drained", False)), ("draining", ("draining", False)), ("MIXED+FAIL", ("draining", False)),
    ],
)  # fmt: skip
def test_node_states(raw: str, want: tuple[str, bool]) -> None:
    assert node_state(raw) == want


def test_times_mean_what_the_state_says() -> None:
    pending = one(state="PENDING", nodelist="", starttime="1796000500", endtime="1796000900", eligibletime="N/A")
    assert pending["start_time"] is None
    assert pending["end_time"] is None
    assert pending["eligible_time"] is None
    assert pending["expected_start_time"] == datetime.fromtimestamp(1796000500, UTC)
    running = one()
    assert running["start_time"] == datetime.fromtimestamp(1796000002, UTC)
    assert running["end_time"] is None
    assert running["expected_start_time"] is None
    ended = one(state="TIMEOUT", exit_code="15")
    assert ended["end_time"] == datetime.fromtimestamp(1796086402, UTC)
    assert (ended["exit_code"], ended["exit_signal"]) == (0, 15)
    never = one(state="CANCELLED", nodelist="")
    assert never["start_time"] is None
    assert never["end_time"] is not None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("UNLIMITED", math.inf), ("1-00:00:00", 86400.0), ("5:00", 300.0), ("NOT_SET", None), ("Partition_Limit", None)],
)
def test_time_limits(text: str, seconds: float | None) -> None:
    assert one(timelimit=text)["time_limit_s"] == seconds


@pytest.mark.parametrize(("text", "want"), [("256", (1, 0)), ("139", (0, 11)), ("3:0", (3, 0)), ("N/A", (None, None))])
def test_exit_codes(text: str, want: tuple[int | None, int | None]) -> None:
    row = one(state="FAILED", exit_code=text)
    assert (row["exit_code"], row["exit_signal"]) == want


def sizes(**changed: str) -> tuple[Any, ...]:
    row = one(**changed)
    return row["gpus"], row["gpus_per_node"], row["gpu_model"], row["slurm_gpus"]


def test_gpus_are_counted_once() -> None:
    assert sizes() == (16.0, 8.0, "a100", 16.0)
    assert sizes(tres__alloc="cpu=1,mem=1M,node=1", tres__per__node="N/A", numnodes="1") == (0.0, 0.0, None, 0.0)
    assert sizes(tres__alloc="cpu=1,gres/gpu=3", tres__per__node="N/A", numnodes="1") == (3.0, 3.0, None, 3.0)
    # over several nodes nobody said how many on each
    assert sizes(tres__alloc="cpu=1,gres/gpu=3", tres__per__node="N/A") == (3.0, None, None, 3.0)


def test_gpus_of_a_cluster_that_does_not_track_them() -> None:
    tres = "cpu=4,mem=2000M,node=2,billing=4"
    assert sizes(tres__alloc=tres, tres__per__node="gres:gpu:h100:8") == (16.0, 8.0, "h100", 16.0)
    assert sizes(tres__alloc=tres, tres__per__node="N/A", tres__per__job="gres/gpu:6") == (6.0, None, None, 6.0)
    assert sizes(tres__alloc=tres, tres__per__node="N/A", tres__per__task="gres/gpu=2")[0] == 4.0
    assert sizes(tres__alloc=tres, tres__per__node="N/A", tres__per__socket="gres:gpu:1")[0] is None
    assert sizes(tres__alloc=tres + ",gres/shard=2", tres__per__node="gres:shard:2")[0] is None


def test_mig_slices_are_parts_of_a_gpu() -> None:
    gpus, per_node, model, counted = sizes(
        tres__alloc="cpu=1,gres/gpu=2,gres/gpu:1g.10gb=2", tres__per__node="gres:gpu:1g.10gb:2", numnodes="1"
    )
    assert gpus == pytest.approx(2 / 7)
    assert per_node == pytest.approx(2 / 7)
    assert (model, counted) == ("1g.10gb", 2.0)
    assert mig_share("2g.12gb") == 0.5  # an A30
    assert mig_share("a100_3g.20gb") == pytest.approx(3 / 7)
    assert mig_share("a100") == mig_share(None) == 1.0


@pytest.mark.parametrize(
    ("changed", "want"),
    [
        ({"partition": "interactive"}, ("interactive", "partition says interactive")),
        ({"partition": "gpu", "qos": "inference"}, ("inference", "QOS says inference")),
        ({"partition": "gpu", "qos": "normal"}, ("training", "name says pretrain")),
        ({"partition": "gpu", "qos": "normal", "name": "bash", "batchflag": "0"}, ("interactive", "name is bash")),
        ({"partition": "gpu", "qos": "normal", "name": "bash"}, ("other", "no rule matched")),
        ({"partition": "gpu", "qos": "normal", "name": "constraint"}, ("other", "no rule matched")),
    ],
)
def test_kinds_come_with_their_rule(changed: dict[str, str], want: tuple[str, str]) -> None:
    row = one(**changed)
    assert (row["kind"], row["kind_basis"]) == want


@pytest.mark.parametrize("version", VERSIONS)
def test_three_versions_read_alike(version: str) -> None:
    rows = recorded_rows(version)
    frame, gaps = jobs_table(squeue_answer(rows), NOW)
    assert gaps == []
    assert len(frame) == len(rows)
    by_name = {row["name"]: row for row in frame.to_dicts()}
    big = by_name["vlm-pretrain"]
    assert (big["state"], big["gpus"], big["gpus_per_node"], big["gpu_model"]) == ("running", 16.0, 8.0, "a100")
    assert big["nodelist"] == ["gpu02", "gpu03"]
    waits = by_name["vlm-eval"]
    assert (waits["state"], waits["reason_raw"], waits["gpus"]) == ("pending", "AssocGrpGRES", 8.0)
    sweep = frame.filter((pl.col("name") == "sweep") & (pl.col("state") == "pending")).to_dicts()
    assert [(row["tasks"], row["slurm_array_throttle"]) for row in sweep] == [(8, 2)]
    assert {"38+1", "24+1", "23+1"} & set(frame["id"])
    assert by_name["timeout"]["state"] == "timeout"
    assert frame["kind"].null_count() == 0
