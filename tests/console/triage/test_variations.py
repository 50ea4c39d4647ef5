"""Causes beyond the collected cases: other limits, windows, gates, doors, running and ended jobs, hostile text."""

from datetime import timedelta

import pytest
from factory import NOW, at, hours, job, node, nodes, row_of, rules, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cases import explain, first, qos_full, texts

from connectors.notation import safe_text
from connectors.rules import SlurmAssociation, SlurmPartition, SlurmQos
from console.derived import derive
from console.scheduling.forecast import Forecast, JobForecast, Waits
from console.triage.diagnosis import Cause
from console.triage.explain import diagnose
from console.triage.slurm_reasons import WORDS


def limited(reason, *, qos=None, assoc=(), running=(), **asking):
    listed = (SlurmQos(name="normal", **qos),) if qos is not None else (SlurmQos(name="normal"),)
    return snapshot(
        [*running, job("1", reason=reason, **asking)],
        nodes("gn", 1, 8),
        rules=rules(qos=listed, associations=tuple(assoc) or None),
    )


def mine(number="9", **more):
    return job(number, state="running", nodelist=["gn01"], end_time=at("15:00"), **more)


@pytest.mark.parametrize(
    ("snap", "cause", "verdict", "words"),
    [
        (limited("QOSMaxJobsPerUserLimit", qos={"max_jobs_per_user": 2}, running=[mine("8"), mine("9")]),
         Cause.QUOTA_FULL, "wait", ["user lin", "2 of at most 2"]),
        (limited("AssocMaxJobsLimit", assoc=[SlurmAssociation(account="vision", max_jobs=1)], running=[mine()]),
         Cause.QUOTA_FULL, "wait", ["user lin in account vision", "1 of at most 1"]),
        (limited("QOSMaxCpuPerUserLimit", qos={"max_tres_per_user": {"cpu": 40.0}}, running=[mine()]),
         Cause.QUOTA_FULL, "wait", ["32 of its 40 CPUs", "8 CPUs left", "asks 32 CPUs"]),
        (limited("AssocGrpCpuLimit", assoc=[SlurmAssociation(account="vision", grp_tres={"cpu": 40.0})], running=[mine()]),
         Cause.QUOTA_FULL, "wait", ["account vision", "32 of its 40 CPUs"]),
        (limited("AssocGrpMemLimit", assoc=[SlurmAssociation(account="vision", grp_tres={"mem": 2.0**40})], running=[mine()]),
         Cause.QUOTA_FULL, "wait", ["512.0 GiB", "1.0 TiB"]),
        (limited("QOSGrpGRES", qos={"grp_tres": {"gres/gpu:h100": 8.0}}, running=[mine(gpu_model="h100")], gpu_model="h100"),
         Cause.QUOTA_FULL, "wait", ["8 of its 8 h100 GPUs", "quota qos:normal gpus=16 model=h100"]),
        (limited("QOSMinGRES", qos={"min_tres_per_job": {"gres/gpu": 4.0}}, gpus=1),
         Cause.NEVER_FITS, "never", ["asks 1 GPU", "at least 4 GPUs"]),
        (limited("QOSMaxWallDurationPerJobLimit", qos={"max_wall_s": 7200.0}),
         Cause.NEVER_FITS, "never", ["time limit 4h", "at most 2h"]),
        (limited("AssocMaxWallDurationPerJobLimit", assoc=[SlurmAssociation(account="vision", max_wall_s=3600.0)]),
         Cause.NEVER_FITS, "never", ["account vision", "at most 1h"]),
        (limited("QOSMaxGRESPerNode", qos={"max_tres_per_node": {"gres/gpu": 4.0}}),
         Cause.NEVER_FITS, "never", ["asks 8 GPUs a node", "4 GPUs a node"]),
        (limited("QOSGrpCPUMinutesLimit"), Cause.QUOTA_FULL, "wait", ["budget", "QOS normal"]),
        (limited("AssocMaxCpuMinutesPerJobLimit"), Cause.NEVER_FITS, "never", ["size times its time limit"]),
        (limited("QOSGrpGRES", qos={"grp_tres": {"gres/gpu": 64.0}}), Cause.QUOTA_FULL, "wait", ["leave room"]),
        (limited("MaxMemPerLimit"), Cause.NEVER_FITS, "never", ["memory"]),
        (limited("QOSUsageThreshold"), Cause.QUOTA_FULL, "wait", ["fair share"]),
        (limited("Cleaning"), Cause.HOLDING_AFTER_END, "wait", ["cleaned up"]),
        (limited("Prolog"), Cause.STARTED_NOT_RUNNING, "wait", ["prolog"]),
        (limited("JobHoldMaxRequeue", restarts=5), Cause.HELD, "act", ["5 restarts", "release 1"]),
        (limited("FlibbertigibbetLimit"), Cause.UNKNOWN, "unknown", ['"FlibbertigibbetLimit"']),
    ],
)  # fmt: skip
def test_limits_and_words(snap, cause, verdict, words):
    said = explain(snap, "1")
    first(said, cause, verdict)
    assert all(word in texts(said) for word in words), texts(said)


def test_a_limit_that_nobody_could_read_has_no_figures():
    snap = snapshot([job("1", reason="QOSGrpGRES")], nodes("gn", 1, 8), rules=rules(qos=None))
    cause = first(explain(snap, "1"), Cause.QUOTA_FULL, "wait")
    assert cause.counterfactual is None
    assert "could not be read" in texts(explain(snap, "1"))


def test_the_quota_table_serves_where_rules_do_not():
    quota = {"queue": "qos:normal", "resource": "gpu", "limit": 16.0, "used": 14.0}
    snap = snapshot([job("1", reason="QOSGrpGRES")], nodes("gn", 1, 8), rules=rules(qos=None), quotas=[quota])
    cause = first(explain(snap, "1"), Cause.QUOTA_FULL, "wait")
    assert "14 of its 16" in cause.says


def test_the_systems_own_usage_wins_over_our_sum():
    quota = {"queue": "qos:teamnlp", "resource": "gpu", "limit": 64.0, "used": 63.0}
    snap = qos_full().with_tables()
    snap = snapshot(snap.jobs.drop("cluster").to_dicts(), nodes("gn", 1, 12), rules=snap.rules, quotas=[quota])
    assert "63 of its 64" in explain(snap, "77120").causes[0].says


def test_the_partitions_qos_counts_for_every_job_in_it():
    part = SlurmPartition(name="train", qos="cap")
    running = job("9", state="running", user="bo", qos="other", nodelist=["gn01"])
    snap = snapshot(
        [running, job("1", reason="QOSGrpGRES")], nodes("gn", 1, 4),
        rules=rules(partitions=(part,), qos=(SlurmQos(name="cap", grp_tres={"gres/gpu": 12.0}), SlurmQos(name="normal"))),
    )  # fmt: skip
    assert "QOS cap uses 8 of its 12" in explain(snap, "1").causes[0].says


@pytest.mark.parametrize(
    ("flags", "qos", "reason", "says"),
    [
        ((), {}, "AssocGrpGRES", "account vision uses 16 of its 8"),
        ((), {"grp_tres": {"gres/gpu": 16.0}}, "QOSGrpGRES", "QOS normal uses 16 of its 16"),
        ((), {"grp_tres": {"gres/gpu": 16.0}}, "Resources", "QOS normal uses 16 of its 16"),
        (("OverPartQOS",), {"grp_tres": {"gres/gpu": 20.0}}, "QOSGrpGRES", "QOS normal uses 16 of its 20"),
    ],
)
def test_a_qos_lets_its_jobs_past_the_same_limit_of_accounts(flags, qos, reason, says):
    part = SlurmPartition(name="train", qos="cap" if flags else None)
    tree = (SlurmAssociation(account="vision", grp_tres={"gres/gpu": 8.0}),)
    snap = snapshot(
        [mine("8"), mine("9"), job("1", reason=reason)], nodes("gn", 1, 8),
        rules=rules(partitions=(part,), associations=tree, qos=(
            SlurmQos(name="normal", flags=flags, **qos), SlurmQos(name="cap", grp_tres={"gres/gpu": 17.0}),
        )),
    )  # fmt: skip
    full = [cause.says for cause in explain(snap, "1").causes if cause.cause == Cause.QUOTA_FULL]
    assert len(full) == 1
    assert full[0].startswith(says)


def test_a_limit_that_was_handed_down_is_told_where_it_was_set():
    own = {"max_wall_s": 3600.0}
    tree = [
        SlurmAssociation(account="root"),
        SlurmAssociation(account="research", parent="root", **own),
        SlurmAssociation(account="vision", parent="research", **own),
        SlurmAssociation(account="vision", user="lin", parent="vision", **own),
    ]
    said = first(explain(limited("AssocMaxWallDurationPerJobLimit", assoc=tree), "1"), Cause.NEVER_FITS, "never")
    assert said.says == "time limit 4h; account research allows at most 1h"
    tree[1] = SlurmAssociation(account="research", parent="root", max_wall_s=7200.0)
    said = first(explain(limited("AssocMaxWallDurationPerJobLimit", assoc=tree), "1"), Cause.NEVER_FITS, "never")
    assert said.says == "time limit 4h; account vision allows at most 1h"


def test_a_quota_without_an_end_clears_at_no_time():
    endless = job("9", state="running", time_limit_s=float("inf"), nodelist=["gn01"])
    cause = first(
        explain(limited("QOSGrpGRES", qos={"grp_tres": {"gres/gpu": 8.0}}, running=[endless]), "1"),
        Cause.QUOTA_FULL,
        "wait",
    )
    assert cause.clears_at is None


def test_quota_and_nodes_hold_at_once():
    snap = limited("QOSGrpGRES", qos={"grp_tres": {"gres/gpu": 8.0}}, running=[mine()])
    dead = [one | {"state": "drained", "reason": "fan"} for one in nodes("gn", 1, 8)]
    snap = snapshot(snap.jobs.drop("cluster").to_dicts(), dead, rules=snap.rules)
    causes = [c.cause for c in explain(snap, "1").causes]
    assert causes[0] == Cause.QUOTA_FULL
    assert Cause.NODE_OUT in causes


@pytest.mark.parametrize(
    "reason", ["ReqNodeNotAvail, Reserved for maintenance", "ReqNodeNotAvail,_Reserved_for_maintenance", "Resources"]
)
def test_maintenance_ahead(reason):
    maint = {
        "name": "maint-0612",
        "kind": "maintenance",
        "start_time": at("13:00"),
        "end_time": at("18:00"),
        "nodelist": ["gn01", "gn02"],
    }
    snap = snapshot([job("1", reason=reason)], nodes("gn", 1, 2), reservations=[maint])
    cause = first(explain(snap, "1"), Cause.WINDOW, "wait")
    assert "at most 1h30m" in cause.counterfactual
    assert cause.clears_at == at("18:00")


def test_a_reservation_of_others_holds_the_nodes_now():
    other = {
        "name": "class",
        "start_time": at("09:00"),
        "end_time": at("12:00"),
        "nodelist": ["gn01"],
        "users": ["ana"],
        "kind": "user",
    }
    snap = snapshot([job("1", reason="Resources")], [node("gn01"), node("gn02", used=8)], reservations=[other])
    cause = first(explain(snap, "1"), Cause.WINDOW, "wait")
    assert "ana" in cause.says
    assert cause.clears_at == at("12:00")


def test_the_own_reservation_is_gone_or_its_node_is_down():
    snap = snapshot([job("1", reason="Reservation", slurm_reservation="ws")], nodes("gn", 1, 2))
    first(explain(snap, "1"), Cause.BAD_REQUEST, "act")
    ws = {"name": "ws", "start_time": at("09:00"), "end_time": at("18:00"), "nodelist": ["gn01"]}
    down = [node("gn01", state="down", reason="Not responding"), node("gn02")]
    for reason in ("Reservation", "ReqNodeNotAvail, UnavailableNodes:gn01"):
        snap = snapshot([job("1", reason=reason, slurm_reservation="ws")], down, reservations=[ws])
        cause = first(explain(snap, "1"), Cause.NODE_OUT, "act")
        assert "it names" not in cause.says  # the job asked for no node: its reservation did


@pytest.mark.parametrize(
    ("dependency", "parent", "verdict", "words"),
    [
        ("afterok:5(unfulfilled)", {"state": "failed", "end_time": at("10:00")}, "never", ["5, which failed at 10:00"]),
        ("afternotok:5(unfulfilled)", {"state": "succeeded"}, "never", ["5, which succeeded"]),
        ("afterany:5(unfulfilled)", {"state": "running", "end_time": at("12:00"), "nodelist": ["gn01"]}, "wait", ["to end", "12:00"]),
        ("after:5+10(unfulfilled)", {"state": "pending"}, "wait", ["to start", "still pending"]),
        ("afterok:77(unfulfilled)", {"state": "running"}, "wait", ["77", "not in the job list"]),
        ("afterok:77(failed)", {"state": "running"}, "never", ["77, which failed"]),
        ("afterok:77(failed)?afterok:5(unfulfilled)", {"state": "running", "end_time": at("12:00")}, "wait", ["5"]),
    ],
)  # fmt: skip
def test_dependencies(dependency, parent, verdict, words):
    snap = snapshot([job("5", **parent), job("1", reason="Dependency", dependency=dependency)], nodes("gn", 1, 2))
    said = explain(snap, "1")
    first(said, Cause.GATED, verdict)
    assert all(word in texts(said) for word in words), texts(said)


def test_a_singleton_waits_for_its_namesake():
    twin = job("5", state="running", name="daily", end_time=at("12:00"), nodelist=["gn01"])
    snap = snapshot(
        [twin, job("1", reason="Dependency", dependency="singleton(unfulfilled)", name="daily")], nodes("gn", 1, 2)
    )
    cause = first(explain(snap, "1"), Cause.GATED, "wait")
    assert "daily" in cause.says
    assert cause.clears_at == at("12:00")


def test_a_singleton_behind_a_pending_namesake_says_that_it_is_pending():
    jobs = [
        job("4", name="nightly"),
        job("1", reason="Dependency", dependency="singleton(unfulfilled)", name="nightly"),
    ]
    cause = first(explain(snapshot(jobs, nodes("gn", 1, 2)), "1"), Cause.GATED, "wait")
    assert "4 is still pending" in cause.says
    assert cause.clears_at is None


def test_busy_nodes_that_a_reservation_takes_before_the_limit_wait_for_its_end():
    """22.05.8 says `May be reserved for other job`: when the running job ends, the reservation already keeps it out."""
    kept = {"name": "keep", "start_time": at("13:00"), "end_time": at("15:00"), "nodelist": ["gn01"], "users": ["ana"]}
    busy = [job("8", state="running", nodelist=["gn01"], time_limit_s=7200.0)]  # until 12:30
    for limit, cause, clears in ((3600.0, Cause.WINDOW, at("15:00")), (600.0, Cause.ALL_BUSY, at("12:30"))):
        asking = job("1", reason="ReqNodeNotAvail, May be reserved for other job", time_limit_s=limit * 2)
        said = explain(snapshot([*busy, asking], [node("gn01", used=8)], reservations=[kept]), "1")
        assert any((one.cause, one.clears_at) == (cause, clears) for one in said.causes), said.causes
    assert said.causes[0].counterfactual is None


def test_begin_time_is_a_wish_or_a_requeue():
    wish = explain(snapshot([job("1", reason="BeginTime", eligible_time=at("20:00"))]), "1").causes[0]
    requeued = explain(snapshot([job("1", reason="BeginTime", eligible_time=at("20:00"), restarts=1)]), "1").causes[0]
    assert wish.clears_at == requeued.clears_at == at("20:00")
    assert "asked not to start" in wish.says
    assert "put back into the queue" in requeued.says


def test_a_stopped_partition_and_the_way_to_start_it():
    snap = snapshot(
        [job("1", reason="PartitionDown")],
        nodes("gn", 1, 2),
        rules=rules(partitions=(SlurmPartition(name="train", state="DOWN"),)),
    )
    cause = first(explain(snap, "1"), Cause.CLOSED_BY_ADMIN, "act")
    assert "start partition:train" in cause.next_step


def test_doors_name_what_is_allowed():
    text = "Job's account not permitted to use this partition (train allows research not vision)"
    part = SlurmPartition(name="train", allow_accounts=("research",), allow_qos=("key",))
    for reason, allowed in ((text, "research"), ("AccountNotAllowed", "research"), ("QOSNotAllowed", "key")):
        snap = snapshot([job("1", reason=reason)], nodes("gn", 1, 2), rules=rules(partitions=(part,)))
        assert allowed in first(explain(snap, "1"), Cause.BAD_REQUEST, "act").says
    assert "research" in explain(snapshot([job("1", reason=text)], rules=rules(partitions=())), "1").causes[0].says


def test_constraints_that_the_node_list_contradicts_stay_open():
    first(explain(snapshot([job("1", reason="BadConstraints")], nodes("gn", 1, 2)), "1"), Cause.NEVER_FITS, "unknown")
    first(
        explain(snapshot([job("1", reason="BadConstraints", gpu_model="v100")], nodes("gn", 1, 2)), "1"),
        Cause.NEVER_FITS,
        "never",
    )


def test_a_shape_that_no_node_can_ever_hold_is_never():
    snap = snapshot([job("1", reason="BadConstraints", cpus=200.0)], nodes("gn", 1, 2))
    assert "0 nodes of train could ever hold that" in first(explain(snap, "1"), Cause.NEVER_FITS, "never").says


def test_a_limit_that_shrank_under_a_waiting_job_is_found_whatever_slurm_says():
    snap = snapshot(
        [job("1", reason="Priority", gpus=16, gpus_per_node=16.0), job("2", reason="None", time_limit_s=9 * 86400.0)],
        nodes("gn", 1, 4),
    )
    wide, late = explain(snap, "1"), explain(snap, "2")
    assert (wide.verdict, late.verdict) == ("never", "never")
    assert "largest node of train has 8" in wide.causes[0].says
    assert derive(snap)["verdict"].to_list() == ["NEVER", "NEVER"]


def test_a_partition_limit_that_was_raised_meanwhile():
    said = explain(snapshot([job("1", reason="PartitionTimeLimit")], nodes("gn", 1, 2)), "1")
    assert said.verdict == "wait"
    assert "now allows 2d" in said.causes[0].says


def test_resources_with_room_for_it_is_no_shortage():
    said = explain(snapshot([job("1", reason="Resources")], nodes("gn", 1, 2)), "1")
    assert "have room" in said.causes[0].says


def test_a_job_that_shares_no_node_needs_an_empty_one():
    part = SlurmPartition(name="train", exclusive=True)
    small = job("2", state="running", gpus=1, nodelist=["gn01"], end_time=at("13:00"))
    snap = snapshot(
        [job("1", reason="Resources", gpus=4), small],
        [node("gn01", used=1, cpus_allocated=4.0)],
        rules=rules(partitions=(part,)),
    )
    said = explain(snap, "1")
    assert "no other job there" in said.causes[0].says
    assert said.causes[0].clears_at == at("13:00")


def test_many_nodes_are_told_as_nodes():
    snap = snapshot([job("1", reason="Resources", gpus=256, nodes=32)], [node("gn00"), *nodes("gn", 1, 40, used=8)])
    assert derive(snap)["why"].to_list() == ["needs 32 whole nodes; 1 is free"]


def test_what_a_node_did_not_say_is_not_free():
    dark = node("gn01") | {"gpus_allocated": None}
    said = explain(snapshot([job("1", reason="Resources")], [dark]), "1")
    assert said.causes[0].cause == Cause.ALL_BUSY
    assert "8 in service are free" not in texts(said)


def test_a_forecast_gives_the_start_and_its_basis():
    def foreseen(**more):
        base = {"key": "1", "id": "1", "name": "n", "user": "lin", "team": None, "queue": None, "gpus": 8.0, "tasks": 1,
                "submit_time": NOW, "start_p50": at("16:20"), "start_p90": at("18:00"), "wait_p50_s": 1.0, "wait_p90_s": 2.0}  # fmt: skip
        return JobForecast(**(base | more))

    def forecast(*jobs):
        waits = Waits(jobs=1, started=1, p50_s=1.0, p90_s=1.0, p95_s=None)
        return Forecast(cluster="hpc-a", policy="slurm", made_at=NOW, horizon_s=86400.0, seeds=1, basis="time limits", jobs=jobs, waits=waits,
                        by_team=(), by_queue=(), preempted=(), utilization_ratio=None, gpu_hours=0.0)  # fmt: skip

    snap = snapshot([job("1", reason="Resources")], nodes("gn", 1, 2, used=8))
    start = explain(snap, "1", forecast=forecast(foreseen())).start
    assert (start.p50, start.p90) == (at("16:20"), at("18:00"))
    assert "time limits" in start.basis
    frame = derive(snap, forecast(foreseen()))
    assert frame["start_p50"].to_list() == [at("16:20")]
    assert derive(snap, forecast(foreseen(never=True)))["start_p50"].to_list() == [None]
    assert derive(snap, forecast(foreseen(key="other")))["start_p50"].to_list() == [None]


def test_slurms_plan_is_told_as_such_where_it_is_one():
    snap = snapshot([job("1", reason="Resources", expected_start_time=at("16:00"))], nodes("gn", 1, 2, used=8))
    said = explain(snap, "1")
    assert said.start.p50 == at("16:00")
    assert said.start.p90 is None
    assert "no later than" in said.start.basis


@pytest.mark.parametrize(
    ("row", "bad", "cause", "verdict", "words"),
    [
        ({"state": "suspended"}, {}, Cause.CLOSED_BY_ADMIN, "act", ["8 GPUs", "scontrol resume 1"]),
        ({"reason": "JobHeldAdmin", "priority": 0.0}, {}, Cause.HELD, "running", ["runs on", "release 1"]),
        ({"end_time": NOW + timedelta(minutes=4)}, {}, Cause.WINDOW, "running", ["in 4m"]),
        ({}, {"state": "down", "state_raw": "DOWN+NOT_RESPONDING", "reason": "Not responding"}, Cause.NODE_OUT, "act", ["gn01"]),
        ({}, {"state": "draining", "reason": "fan"}, Cause.NODE_OUT, "running", ["drained", "fan"]),
    ],
)  # fmt: skip
def test_running_jobs(row, bad, cause, verdict, words):
    snap = snapshot([job("1", **({"state": "running", "nodelist": ["gn01"]} | row))], [node("gn01", used=8) | bad])
    said = explain(snap, "1")
    first(said, cause, verdict)
    assert all(word in texts(said) for word in words), texts(said)
    assert derive(snap)["verdict"].to_list() == [verdict.upper()]


def test_a_healthy_running_job_has_nothing_to_say():
    said = explain(snapshot([job("1", state="running", nodelist=["gn01"])], [node("gn01", used=8)]), "1")
    assert (said.verdict, said.causes) == ("running", ())
    assert "gn01" in said.says


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"state": "failed", "exit_code": 3}, "failed, exit code 3"),
        ({"state": "failed", "exit_signal": 11, "exit_code": 0}, "failed, signal 11"),
        ({"state": "out_of_memory"}, "ran out of memory"),
        ({"state": "succeeded"}, "ended well"),
        ({"state": "node_failed", "nodelist": ["gn01"]}, "lost its node, on gn01"),
    ],
)
def test_ended_jobs(row, words):
    said = explain(snapshot([job("1", **row)], nodes("gn", 1, 1)), "1")
    assert said.verdict == "ok"
    assert said.says.startswith(words)


def test_a_state_that_nobody_knows_is_unknown():
    said = explain(snapshot([job("1", state="unknown", state_raw="WOBBLY")]), "1")
    assert said.verdict == "unknown"
    assert "WOBBLY" in said.says


HOSTILE = st.text(st.characters(blacklist_categories=["Cs"]), max_size=30)


@settings(max_examples=60, deadline=None)
@given(
    reason=st.one_of(st.sampled_from(WORDS), HOSTILE), text=HOSTILE,
    gpus=st.sampled_from([0.0, 0.5, 1.0, 8.0, 64.0]), count=st.sampled_from([None, 1, 8]),
)  # fmt: skip
def test_any_job_is_explained_and_told_in_one_line(reason, text, gpus, count):
    row = job("1", reason=reason, gpus=gpus, name=text, user=text, dependency=text, constraint=text, slurm_licenses=text,
              slurm_reservation=text, requested_nodes=[text]) | {"nodes": count}  # fmt: skip
    row |= {"gpus_per_node": None, "cpus": None, "memory_bytes": None, "time_limit_s": None}
    snap = snapshot(
        [row, job("2", state="running", nodelist=["gn01"], end_time=NOW + hours(1))], nodes("gn", 1, 2, used=4)
    )
    said = diagnose(snap, row_of(snap, "1"))
    assert said.causes
    assert safe_text(texts(said)) == texts(said)
    told = derive(snap).row(0, named=True)
    assert told["verdict"] == said.verdict.upper()
    assert safe_text(told["why"]) == told["why"]
