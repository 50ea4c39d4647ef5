"""Derived columns: waits and costs with their units, and that the queue's words agree with the explanation."""

import random
import sys
from decimal import Decimal
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "triage"))
from factory import NOW, TRAIN, at, hours, job, node, nodes, row_of, rules, snapshot

from connectors.rules import SlurmAssociation, SlurmPartition, SlurmQos
from console.derived import derive
from console.filters import DERIVED_COLUMNS
from console.triage import slurm
from console.triage.explain import diagnose

_REASONS = (
    "Resources", "Priority", "QOSGrpGRES", "QOSMaxGRESPerUser", "AssocGrpGRES", "Dependency", "JobHeldUser", "BeginTime", "None",
    "ReqNodeNotAvail, UnavailableNodes:gn0001", "JobArrayTaskLimit", "PartitionTimeLimit", "QOSMaxJobsPerUserLimit", "Weird",
    "BadConstraints", "InvalidQOS", "Licenses", "Nodes required for job are DOWN, DRAINED or reserved", None,
)  # fmt: skip


def crowd(jobs, node_count, seed, users=20):
    """A cluster with everything in it: reasons, sizes, partitions, limits, broken nodes."""
    draw = random.Random(seed)
    listed = []
    for number in range(node_count):
        bad = {"state": "drained", "reason": "fan"} if draw.random() < 0.05 else {}
        parts = ["train"] + (["dbg"] if number % 10 == 0 else [])
        listed.append(node(f"gn{number:04d}", used=draw.choice([0, 4, 8, 8, 8]), partitions=parts) | bad)
    rows = []
    for number in range(jobs):
        gpus, who = draw.choice([0, 1, 1, 2, 4, 8, 8, 16, 32]), draw.randrange(users)
        shape = {
            "gpus": gpus, "nodes": max(1, gpus // 8), "user": f"u{who}", "team": f"a{who % 5}", "qos": draw.choice(["normal", "low"]),
            "partition": draw.choice(["train", "train", "dbg"]), "priority": float(draw.randrange(10**6)),
            "time_limit_s": draw.choice([3600.0, 14400.0, 3 * 86400.0]),
        }  # fmt: skip
        if number % 3 == 0:
            where = [f"gn{draw.randrange(node_count):04d}" for _ in range(shape["nodes"])]
            rows.append(job(str(number), state="running", nodelist=where, **shape))
        else:
            shape["dependency"] = f"afterok:{draw.randrange(jobs)}(unfulfilled)"
            rows.append(
                job(str(number), reason=draw.choice(_REASONS), eligible_time=NOW + hours(draw.randrange(20)), **shape)
            )
    qos = tuple(
        SlurmQos(name=name, grp_tres={"gres/gpu": 400.0}, max_tres_per_user={"gres/gpu": 24.0}, max_jobs_per_user=3)
        for name in ("normal", "low")
    )
    accounts = tuple(SlurmAssociation(account=f"a{number}", grp_tres={"gres/gpu": 60.0}) for number in range(5))
    parts = (TRAIN, SlurmPartition(name="dbg", max_time_s=86400.0, priority_tier=5))
    return snapshot(rows, listed, rules=rules(partitions=parts, qos=qos, associations=accounts))


@pytest.mark.parametrize("seed", range(3))
def test_the_queues_verdict_is_the_explanations(seed):
    snap = crowd(150, 12, seed)
    frame = derive(snap)
    assert frame["id"].to_list() == snap.jobs["id"].to_list()
    for row in frame.to_dicts():
        said = diagnose(snap, row_of(snap, row["id"]))
        assert row["verdict"] == said.verdict.upper(), (row["reason_raw"], row["why"], said)
        assert row["why"]


def test_columns_are_complete():
    frame = derive(crowd(30, 4, 1))
    assert set(DERIVED_COLUMNS) <= set(frame.columns)
    assert derive(snapshot()).is_empty()
    assert set(DERIVED_COLUMNS) <= set(derive(snapshot()).columns)


def test_times_and_gpu_hours():
    rows = [
        job("1", reason="Resources", submit_time=at("10:00")),
        job("2", state="running", submit_time=at("09:00"), start_time=at("09:30"), gpus=4, nodelist=["gn01"]),
        job("3", state="succeeded", submit_time=at("08:00"), start_time=at("08:10"), end_time=at("10:10"), gpus=2),
        job("4", reason="Resources", submit_time=NOW + hours(1)),
        job("5", reason="Resources") | {"submit_time": None, "gpus": None},
        job("6", state="cancelled", submit_time=at("08:00"), start_time=None, end_time=at("09:00")),
    ]
    frame = derive(snapshot(rows, nodes("gn", 1, 1, used=8)))
    assert frame["wait_s"].to_list() == [5400.0, 1800.0, 600.0, 0.0, None, None]
    assert frame["run_s"].to_list() == [None, 7200.0, 7200.0, None, None, None]
    assert frame["gpu_h"].to_list() == [None, 8.0, 4.0, None, None, None]
    assert frame["idle_s"].null_count() == len(rows)
    assert frame["cost_per_hour"].null_count() == len(rows)


def test_cost_is_of_held_gpus_at_the_models_newest_price():
    rows = [
        job("1", state="running", gpus=4, gpu_model="H100", nodelist=["gn01"]),
        job("2", state="running", gpus=4, gpu_model="a100", nodelist=["gn01"]),
        job("3", reason="Resources", gpu_model="h100"),
    ]
    old, new = (
        {"model": "h100", "price_per_gpu_hour": Decimal(price), "as_of": when}
        for price, when in (("9", at("01:00")), ("2.5", at("02:00")))
    )
    frame = derive(snapshot(rows, nodes("gn", 1, 1), prices=[new, old]))
    assert frame["cost_per_hour"].to_list() == [10.0, None, None]


def test_words_of_the_queue_screen():
    running = [job("5", state="running", nodelist=["gn03", "gn01", "gn02"], nodes=3, gpus=24)]
    head = job("6", reason="Resources", gpus=16, nodes=2, priority=9e5)
    behind = job("7", reason="Priority", priority=10.0)
    held = job("8", reason="JobHeldUser")
    never = job("9", reason="DependencyNeverSatisfied", dependency="afterok:10(failed)")
    failed = job("10", state="failed", exit_code=1)
    snap = snapshot([*running, head, behind, held, never, failed], [*nodes("gn", 1, 3, used=8), node("gn04")])
    assert dict(derive(snap).select("id", "why").iter_rows()) == {
        "5": "gn[01-03]", "6": "needs 2 whole nodes; 1 is free", "7": "behind 6", "8": "held by its owner",
        "9": "after 10, which failed", "10": "failed, exit code 1",
    }  # fmt: skip


def test_rows_of_a_kind_are_explained_once(monkeypatch):
    calls = []
    explain = slurm.explain
    monkeypatch.setattr(slurm, "explain", lambda case: calls.append(case) or explain(case))
    rows = [job(str(n), reason=_REASONS[n % 6], gpus=1 + n % 2, priority=float(n)) for n in range(3000)]
    frame = derive(snapshot(rows, nodes("gn", 1, 4, used=8)))
    assert frame["why"].null_count() == 0
    assert len(calls) < 40
