"""Jobs that ended, from sacct."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from recordings import FOLDER, live, sacct_answer

from connectors.connector import Answer
from connectors.errors import Malformed, Unreachable, Unsupported
from connectors.model import JOBS
from connectors.slurm.commands import HISTORY_FIELDS, US, sacct
from connectors.slurm.history import history_table

SINCE = datetime.fromtimestamp(1796000000, UTC)
ENDED = {
    "JobID": "9", "JobIDRaw": "9", "User": "mira", "Account": "vision", "Partition": "train", "QOS": "train",
    "State": "COMPLETED", "ExitCode": "0:0", "Priority": "100", "Submit": "1796000000", "Eligible": "1796000001",
    "Start": "1796000002", "End": "1796000100", "TimelimitRaw": "60", "NNodes": "1", "NCPUS": "8",
    "ReqTRES": "cpu=8,gres/gpu=4,mem=1000M,node=1", "AllocTRES": "cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=1000M,node=1",
    "NodeList": "gpu05", "Reservation": "", "Constraints": "", "Reason": "None", "JobName": "lm-sft",
}  # fmt: skip


def table(*rows: dict[str, str], since: datetime = SINCE):
    return history_table(sacct_answer(list(rows)), since, cluster="halcyon")


def test_an_ended_job_has_the_schema_of_jobs() -> None:
    frame = table(ENDED)
    assert frame.columns[: len(JOBS)] == list(JOBS)
    row = frame.to_dicts()[0]
    assert (row["id"], row["state"], row["gpus"], row["gpu_model"], row["time_limit_s"]) == (
        "9", "succeeded", 4.0, "a100", 3600.0,
    )  # fmt: skip
    assert row["end_time"] - row["start_time"] == timedelta(seconds=98)
    assert (row["queue"], row["nodelist"], row["exit_code"]) == ("partition:train", ["gpu05"], 0)


@pytest.mark.parametrize(
    ("state", "want"),
    [
        ("CANCELLED by 1007", "cancelled"), ("NODE_FAIL", "node_failed"), ("OUT_OF_MEMORY", "out_of_memory"),
        ("PREEMPTED", "preempted"), ("TIMEOUT", "timeout"), ("REQUEUED", "unknown"), ("FAILED", "failed"),
    ],
)  # fmt: skip
def test_states(state: str, want: str) -> None:
    row = table({**ENDED, "State": state}).to_dicts()[0]
    assert (row["state"], row["state_raw"]) == (want, state)


def test_only_what_ended_since_then() -> None:
    rows = [
        ENDED,
        {**ENDED, "JobID": "10", "End": "Unknown", "State": "RUNNING"},
        {**ENDED, "JobID": "11", "End": "1796000050"},
    ]
    assert table(*rows, since=datetime.fromtimestamp(1796000099, UTC))["id"].to_list() == ["9"]


def test_earlier_runs_of_a_requeued_job_are_rows_of_their_own() -> None:
    frame = table({**ENDED, "State": "PREEMPTED", "End": "1796000050"}, ENDED)
    assert frame["state"].to_list() == ["preempted", "succeeded"]


@pytest.mark.parametrize("name", ["a|b", "two\nlines", f"x{US}y", "\n", "训练", "JobID|State"])
def test_any_name(name: str) -> None:
    frame = table({**ENDED, "JobName": name}, {**ENDED, "JobID": "10"})
    assert frame["name"].to_list() == [name, "lm-sft"]


def test_cancelled_before_it_started() -> None:
    row = table({**ENDED, "State": "CANCELLED by 0", "NodeList": "None assigned", "AllocTRES": ""}).to_dicts()[0]
    assert (row["start_time"], row["nodelist"], row["gpus"]) == (None, [], 4.0)


def test_a_history_with_holes_is_refused() -> None:
    with pytest.raises(Malformed, match="1 of 2 rows have a end_time"):
        table(ENDED, {**ENDED, "End": "yesterday"})
    answer = sacct_answer([ENDED, ENDED])
    cut = msgspec.structs.replace(answer, out=answer.out[:-60])
    with pytest.raises(Malformed, match="rows could not be read"):
        history_table(cut, SINCE, cluster="halcyon")


@pytest.mark.parametrize(
    ("code", "words", "error"),
    [
        (1, "Slurm accounting storage is disabled", Unsupported),
        (1, "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection", Unreachable),
        (-1, "", Unreachable),
    ],
)
def test_failures(code: int, words: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        history_table(Answer(asked="sacct", code=code, out=b"", err=words.encode()), SINCE, cluster="halcyon")


def test_the_command_asks_in_utc() -> None:
    asked = sacct("0011", datetime(2026, 11, 30, 21, 0, tzinfo=UTC))
    assert asked[:3] == ("env", "TZ=UTC0", "sacct")
    assert asked[asked.index("-S") + 1] == "2026-11-30T21:00:00"


def test_the_captured_history() -> None:
    frame = history_table(live().answers["sacct"], datetime(2026, 11, 30, tzinfo=UTC), cluster="halcyon")
    by_name = {row["name"]: row for row in frame.to_dicts()}
    assert by_name["segv"]["exit_signal"] == 11
    assert by_name["exit3"]["exit_code"] == 3
    assert by_name["low-norequeue"]["state"] == "preempted"


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_the_states_that_each_version_recorded_are_known(version: str) -> None:
    lines = (FOLDER / version / "cli" / "sacct-P.txt").read_text().splitlines()
    header = lines[0].split("|")
    rows = [dict(zip(header, line.split("|"), strict=True)) for line in lines[1:] if "." not in line.split("|")[0]]
    ended = [row for row in rows if row["End"] != "Unknown"]
    stamp = "1796000100"
    made = [
        {**ENDED, **{name: row[name] for name in row if name in HISTORY_FIELDS}, "Submit": stamp, "Eligible": stamp,
         "Start": stamp, "End": stamp}
        for row in ended
    ]  # fmt: skip
    frame = table(*made)
    assert len(frame) == len(ended) > 10
    unknown = {row["state_raw"] for row in frame.to_dicts() if row["state"] == "unknown"}
    assert unknown <= {"REQUEUED"}
    assert {"succeeded", "failed", "cancelled", "timeout", "preempted"} <= set(frame["state"])
