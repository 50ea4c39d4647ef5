"""Facts of Slurm's own tests and documentation (tests/conformance/slurm/facts.json)."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from scheduling_world import job, node, slurm, snapshot, start_hours

from console.scheduling.estimates import Estimates
from console.scheduling.simulator import plan_now
from console.scheduling.whatif import forecast
from console.scheduling.world import make_world

FACTS = {
    case["id"]: case
    for case in json.loads((Path(__file__).parents[2] / "conformance/slurm/facts.json").read_text())["cases"]
}


def case_snapshot(case):
    jobs = case.get("jobs")
    if jobs is None:
        repeat = case["jobs_repeat"]
        jobs = [{**repeat, "id": n + 1} for n in range(repeat["count"])]
    rows = [
        job(
            str(one["id"]),
            0,
            one["limit_min"] / 60,
            one["nodes"],
            priority=float(one["priority"]),
            cpus=64.0 * one["nodes"],
            slurm_licenses=",".join(f"{name}:1" for name in one.get("licenses", ())) or None,
        )
        for one in jobs
    ]
    licences = {name: (float(count), 0.0) for name, count in case.get("licenses", {}).items()}
    return snapshot([node(f"n{i:02}", gpus=0) for i in range(case["nodes"])], rows, rules=slurm(licenses=licences))


@pytest.mark.parametrize("name", ["backfill/1", "backfill/lic_1"])
def test_one_pass_starts_these_and_no_others(name):
    case = FACTS[name]
    plan = plan_now(make_world(case_snapshot(case), Estimates()))
    now = {int(key) for key, starts in plan.items() if starts[0] == 0}
    assert now == set(case["expect"]["running"])
    whole = forecast(case_snapshot(case))
    assert all(start_hours(whole, str(one)) > 0 for one in case["expect"]["pending"])


def test_no_larger_job_of_lower_priority_is_planned_before_a_smaller_of_higher():
    case = FACTS["backfill/2"]
    plan = plan_now(make_world(case_snapshot(case), Estimates()))
    assert set(plan) == {str(one["id"]) for one in case["jobs"]}
    for one in case["jobs"]:
        for other in case["jobs"]:
            if other["priority"] < one["priority"] and other["nodes"] > one["nodes"]:
                assert plan[str(other["id"])] >= plan[str(one["id"])]


def test_bf_max_job_test_jobs_are_planned_and_the_next_is_not():
    case = FACTS["backfill/3"]
    plan = plan_now(make_world(case_snapshot(case), Estimates()))
    assert len(plan) == case["expect"]["jobs_with_planned_start"]
    assert str(case["expect"]["first_without"]) not in plan
    starts = [plan[str(n + 1)][0] for n in range(500)]
    assert all(a <= b for a, b in pairwise(starts))
