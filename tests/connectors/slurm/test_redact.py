"""Answers without names: nothing of a person, account, job or host is left, and all of it reads as before."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec
import pytest
from recordings import job, live, squeue_answer

from connectors.slurm.history import history_table
from connectors.slurm.interpret import interpret
from connectors.slurm.redact import redacted

SHAPE = ["id", "state", "gpus", "tasks", "priority", "submit_time", "start_time", "time_limit_s", "restarts"]


def test_a_refresh_reads_as_before_and_names_nobody() -> None:
    raw = live()
    before = interpret(raw)
    hidden = redacted(raw, before)
    after = interpret(hidden)
    assert after.gaps == before.gaps
    assert after.jobs.select(SHAPE).equals(before.jobs.select(SHAPE))
    for table in ("nodes", "queues", "quotas", "reservations", "gpus"):
        assert after.table(table).height == before.table(table).height, table
    assert after.nodes["state"].equals(before.nodes["state"])
    assert after.quotas.drop("queue").equals(before.quotas.drop("queue"))
    names = {*before.jobs["user"], *before.jobs["team"], *before.nodes["name"], *before.reservations["name"]}
    text = b"\n".join(answer.out + answer.err for answer in hidden.answers.values()).decode()
    left = {name for name in names - {"root", None} if re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?!\w)", text)}
    assert not left
    assert not set(before.jobs["name"]) & set(after.jobs["name"])


@pytest.mark.parametrize("name", ["RUNNING", "1", "gpu01", "mira", "PENDING|x", "a=b", "\x1f", "N/A", "line\nbreak"])
def test_a_job_may_be_called_anything(name: str) -> None:
    raw = live()
    rows = [job(name=name, jobarrayid="7", jobid="7"), job(name="other", jobarrayid="8", jobid="8", state="RUNNING")]
    raw = msgspec.structs.replace(raw, answers={**raw.answers, "squeue": squeue_answer(rows)})
    before = interpret(raw)
    after = interpret(redacted(raw, before))
    assert before.jobs.height == 2
    assert after.jobs.select(SHAPE).equals(before.jobs.select(SHAPE))
    assert set(after.jobs["name"]) == {"job-1", "job-2"}
    assert after.gaps == before.gaps


def test_hosts_of_any_shape_fold_as_before() -> None:
    raw = live()
    for old, new in ((b"gpu01", b"rack0-n1-ib0"), (b"gpu02", b"rack0-n2-ib0"), (b"gpu[03", b"gpu[02-03")):
        raw = msgspec.structs.replace(
            raw, answers={n: msgspec.structs.replace(a, out=a.out.replace(old, new)) for n, a in raw.answers.items()}
        )
    after = interpret(redacted(raw, interpret(raw)))
    assert {"host2x0x1x0", "host2x0x2x0"} <= set(after.nodes["name"])
    text = b"\n".join(answer.out for answer in redacted(raw, interpret(raw)).answers.values())
    assert b"rack0" not in text


def test_settings_keep_no_host_path_or_secret() -> None:
    raw = live()
    config = redacted(raw, interpret(raw)).answers["config"].out.decode()
    values = dict(re.findall(r"(?m)^(\S+)\s+= ?(.*)$", config))
    assert values["SlurmctldHost[0]"] == "redacted"
    assert not [key for key, value in values.items() if value.startswith("/")]
    assert values["SLURM_VERSION"] == interpret(raw).meta.version


def test_ended_jobs_read_as_before() -> None:
    raw = live()
    since = datetime(2020, 1, 1, tzinfo=UTC)
    before = history_table(raw.answers["sacct"], since, cluster="x")
    after = history_table(redacted(raw, interpret(raw)).answers["sacct"], since, cluster="x")
    assert before.height > 0
    assert after.select("id", "state", "gpus", "end_time").equals(before.select("id", "state", "gpus", "end_time"))
    assert not set(before["name"]) & set(after["name"])
