"""Hand-made clusters where the right answer is known."""

import math

import msgspec
import pytest
from scheduling_world import HOUR, INF, NOW, at, fifo, frame, job, node, running, slurm, snapshot, start_hours

from connectors.model import JOBS
from connectors.rules import SlurmAssociation, SlurmPartition, SlurmQos
from console.scheduling.whatif import forecast


def one(found, name):
    return next(job for job in found.jobs if job.id == name)


def train_qos(limit=8.0, **more):
    return SlurmQos(name="train", grp_tres={"gres/gpu": limit}, **more)


def in_train(**more):
    return {"slurm_qos": "train", "bound_by": ["partition:train", "qos:train"], **more}


def test_a_job_held_by_a_quota_starts_when_the_holder_ends_though_nodes_are_free():
    found = forecast(
        snapshot(
            [node("n1"), node("n2")],
            [running("1", "n1", 6, 3, ran=1, **in_train()), job("2", 4, 1, **in_train()), job("3", 8, 1)],
            rules=slurm(qos=(train_qos(),)),
        )
    )
    assert start_hours(found, "2") == 2
    assert one(found, "2").binding == "quota:qos:train"
    assert one(found, "2").frees == ("1",)
    assert start_hours(found, "3") == 0
    assert one(found, "3").binding == ""


def test_qos_grp_gres_counts_other_users_jobs_a03():
    holders = [running(str(n), f"gn{n}", 8 if n < 8 else 4, 10 - n, user="other", **in_train()) for n in range(1, 9)]
    snap = snapshot(
        [node(f"gn{n}") for n in range(1, 12)],
        [*holders, job("77120", 8, 2, reason_raw="QOSGrpGRES", **in_train())],
        rules=slurm(qos=(train_qos(64.0),)),
    )
    found = one(forecast(snap), "77120")
    assert found.binding == "quota:qos:train"
    assert "60 of 64" in found.why
    assert found.frees == ("8",)
    assert found.start_p50 == at(2)


def test_the_parent_account_binds_and_the_sibling_frees_a04():
    def of(account):
        return {
            "slurm_account": account, "team": account,
            "bound_by": ["partition:train", f"assoc:{account}/ana", f"account:{account}", "account:vision"],
        }  # fmt: skip

    tree = (
        SlurmAssociation(account="root"),
        SlurmAssociation(account="vision", parent="root", grp_tres={"gres/gpu": 40.0}),
        SlurmAssociation(account="vision-det", parent="vision"),
        SlurmAssociation(account="vision-diffusion", parent="vision"),
        SlurmAssociation(account="vision-diffusion", user="ana", parent="vision-diffusion"),
    )
    rows = [running(str(n), f"gn{n}", 8, 4 + n, **of("vision-det")) for n in range(1, 5)]
    rows += [
        running("5", "gn5", 4, 9, **of("vision-det")),
        running("6", "gn6", 4, 3, **of("vision-diffusion")),
        job("7", 8, 1, reason_raw="AssocGrpGRES", **of("vision-diffusion")),
    ]
    found = one(forecast(snapshot([node(f"gn{n}") for n in range(1, 9)], rows, rules=slurm(associations=tree))), "7")
    assert found.binding == "quota:account:vision"
    assert found.frees == ("6", "1")
    assert found.start_p50 == at(5)


TREE = (
    SlurmAssociation(account="root"),
    SlurmAssociation(account="vision", parent="root", grp_tres={"gres/gpu": 20.0}, grp_jobs=2.0),
    SlurmAssociation(account="vision", user="ana", parent="vision", max_jobs=1.0),
)


RULING = {"grp_tres": {"gres/gpu": 24.0}, "grp_jobs": 9.0, "max_jobs_per_user": 9.0}


@pytest.mark.parametrize(
    ("part", "own", "binding", "hours"),
    [
        ({}, {}, "quota:account:vision", 3),  # and MaxJobs of 1
        ({}, RULING, "quota:qos:train", 1),
        ({"grp_tres": {"gres/gpu": 40.0}}, RULING, "", 0),
    ],
    ids=["tree", "job-qos", "partition-qos"],
)
def test_of_one_figure_the_first_in_slurms_order_rules_but_all_count(part, own, binding, hours):
    """Seen on 22.05.8: with a QOS of 24 GPUs an account of 20 held 24, with a partition's QOS of 40 both held 32."""
    placed = {"bound_by": ["partition:train", "qos:train", "account:vision"], "slurm_account": "vision"}
    rows = [running(str(n), f"n{n}", 8, n, slurm_qos="train", **placed) for n in (1, 2, 3)]
    rows += [
        job("4", 8, 1, slurm_qos="train", **placed),
        job("5", 8, 1, slurm_qos="normal", user="bo", priority=1.0, **placed),
    ]
    rules = slurm(
        qos=(SlurmQos(name="normal"), SlurmQos(name="train", **own), SlurmQos(name="cap", **part)), associations=TREE,
        partitions=(SlurmPartition(name="train", default=True, qos="cap" if part else None),),
    )  # fmt: skip
    found = forecast(snapshot([node(f"n{n}") for n in range(1, 7)], rows, rules=rules))
    assert one(found, "4").binding == binding
    assert start_hours(found, "4") == hours
    assert one(found, "5").binding == "quota:account:vision"  # what the QOS let past the account counts in it


def test_gpus_are_free_but_kept_for_a_job_ahead_a01():
    nodes = [node(f"gn{n}") for n in range(11, 15)]
    rows = [
        running("1", ["gn11", "gn12"], 12, 2.5),
        job("884120", 32, 48, 4, priority=91544.0, reason_raw="Resources"),
        job("884131", 2, 4, 1, priority=90210.0),
        job("884132", 2, 2, 1, priority=90000.0),
    ]
    found = forecast(snapshot(nodes, rows), horizon_s=72 * HOUR)
    assert start_hours(found, "884120") == 2.5
    assert one(found, "884120").binding == "nodes"
    assert one(found, "884120").frees == ("1",)
    assert one(found, "884131").binding == "order"
    assert "2h30m" in one(found, "884131").why
    assert start_hours(found, "884131") == 50.5
    assert start_hours(found, "884132") == 0


def test_a_reservation_pushes_the_long_job_and_lets_the_short_one_run_before():
    kept = {"name": "maint", "start_time": at(2), "end_time": at(6), "nodelist": ["n1"], "users": ["root"]}
    found = forecast(
        snapshot([node("n1")], [job("1", 8, 3, priority=9.0), job("2", 8, 2, priority=1.0)], reservations=[kept])
    )
    assert start_hours(found, "1") == 6
    assert one(found, "1").binding == "reservation:maint"
    assert start_hours(found, "2") == 0


def test_a_job_of_the_reservation_runs_in_it_and_others_do_not():
    kept = {"name": "class", "start_time": at(1), "end_time": at(3), "nodelist": ["n1"], "users": ["ana"]}
    rows = [
        job("1", 8, 1, slurm_reservation="class", reason_raw="Reservation"),
        job("2", 8, 2.5, slurm_reservation="class"),
        job("3", 8, 2, priority=9999.0),
        job("4", 8, 1, slurm_reservation="gone"),
    ]
    found = forecast(snapshot([node("n1")], rows, reservations=[kept]))
    assert start_hours(found, "1") == 1
    assert one(found, "1").binding == "reservation:class"
    assert start_hours(found, "2") is None  # longer than the reservation
    assert start_hours(found, "3") == 3
    assert one(found, "4").never


def test_drained_nodes_take_nothing_new():
    rows = [running("1", "n1", 8, 1), job("2", 8, 1), job("3", 16, 1, 2)]
    nodes = [node("n1", state="draining", schedulable=False), node("n2", state="down", schedulable=None)]
    found = forecast(snapshot([*nodes, node("n3")], rows))
    assert start_hours(found, "2") == 0
    assert one(found, "2").nodes == ("n3",)
    assert one(found, "3").never
    assert "n1, n2" in one(found, "3").why
    assert found.utilization_ratio == pytest.approx((1 + 1) * 8 / (24 * 8 + 8))


def test_a_job_that_is_too_large_never_starts_and_says_why():
    rows = [job("1", 16, 1, 1), job("2", 8, 1, gpu_model="h100"), job("3", 24, 1, 3), job("4", 8, 1, constraint="ib&x")]
    found = forecast(snapshot([node("n1"), node("n2")], rows))
    assert all(one(found, name).never and one(found, name).start_p50 is None for name in "1234")
    assert "h100" in one(found, "2").why


def test_limits_of_partition_and_job_say_never():
    partitions = (SlurmPartition(name="train", max_time_s=4 * HOUR, max_nodes=1, allow_qos=("normal",)),)
    rows = [
        job("1", 8, 5, slurm_qos="normal"),
        job("2", 16, 1, 2, slurm_qos="normal"),
        job("3", 8, 1, slurm_qos="train"),
        job("4", 8, 1, slurm_qos="normal", reason_raw="PartitionTimeLimit"),  # stale: its limit fits by now
        job("5", 4, 1, slurm_qos="normal", reason_raw="InvalidQOS"),
    ]
    found = forecast(snapshot([node("n1"), node("n2"), node("n3")], rows, rules=slurm(partitions=partitions)))
    assert [one(found, name).never for name in "12345"] == [True, True, True, False, True]
    assert one(found, "1").binding == "limit"
    assert start_hours(found, "4") == 0


def test_an_ask_over_the_whole_quota_is_never_a05():
    qos = SlurmQos(name="train", max_tres_per_user={"gres/gpu": 16.0})
    rows = [running("1", "n1", 12, 4, **in_train()), job("2", 8, 1, **in_train()), job("3", 24, 1, **in_train())]
    found = forecast(snapshot([node(f"n{n}", gpus=32) for n in range(1, 4)], rows, rules=slurm(qos=(qos,))))
    assert start_hours(found, "2") == 4
    assert "user ana" in one(found, "2").why
    assert one(found, "3").never
    assert one(found, "3").binding == "quota:qos:train"


def test_held_closed_and_dependent_jobs():
    rows = [
        running("10", "n1", 8, 3),
        job("1", 1, 1, reason_raw="JobHeldUser", priority=0.0),
        job("2", 1, 1, reason_raw="Dependency", dependency="afterok:10(unfulfilled)"),
        job("3", 1, 1, reason_raw="DependencyNeverSatisfied", dependency="afterok:4(failed)"),
        job("4", 1, 1, reason_raw="BeginTime", eligible_time=at(5)),
        job("5", 1, 1, reason_raw="Dependency", dependency="afterany:2(unfulfilled)"),
        job("6", 1, 1, slurm_partition="shut", queue="partition:shut"),
        job("7", 1, 1, reason_raw="Dependency", dependency="expand:10"),
        job("8", 1, 1, dependency="after:2(unfulfilled)"),
    ]
    partitions = (SlurmPartition(name="train"), SlurmPartition(name="shut", state="DOWN"))
    nodes = [node("n1", partitions=["train", "shut"]), node("n2", partitions=["train", "shut"])]
    found = forecast(snapshot(nodes, rows, rules=slurm(partitions=partitions)))
    assert one(found, "1").never
    assert one(found, "1").binding == "held"
    assert start_hours(found, "2") == 3
    assert one(found, "2").frees == ("10",)
    assert one(found, "3").never
    assert start_hours(found, "4") == 5
    assert start_hours(found, "5") == 4
    assert one(found, "6").binding == "closed"
    assert start_hours(found, "7") is None
    assert not one(found, "7").never
    assert any("7" in note for note in found.not_modelled)
    assert start_hours(found, "8") == 3


@pytest.mark.parametrize("stated", [2, None])
def test_an_array_runs_as_many_tasks_as_its_throttle_lets(stated):
    rows = [
        running("6_0", "n1", 1, 2, parent_id="6"),
        running("6_1", "n1", 1, 3, parent_id="6"),
        job(
            "6_[2-5%2]", 1, 2, key="6", parent_id="6", tasks=4, slurm_array_throttle=stated,
            reason_raw="JobArrayTaskLimit",
        ),
    ]  # fmt: skip
    found = forecast(snapshot([node("n1")], rows))
    task = one(found, "6_[2-5%2]")
    assert task.binding == "throttle"
    assert task.frees == ("6_0",)
    assert task.start_p50 == at(2)
    assert found.waits.jobs == 4
    assert found.waits.p95_s == pytest.approx(6 * HOUR)  # starts at 2, 3, 4, 5, submitted an hour ago


@pytest.mark.parametrize(
    ("dependency", "hours"), [("afterany:1?afterany:2", 1), ("afterany:1,afterany:2", 3), ("afterany:1:2", 3)]
)
def test_a_dependency_on_any_or_on_all(dependency, hours):
    rows = [
        running("1", "n1", 8, 1), running("2", "n2", 8, 3),
        job("3", 8, 1, reason_raw="Dependency", dependency=dependency),
    ]  # fmt: skip
    assert start_hours(forecast(snapshot([node("n1"), node("n2"), node("n3")], rows)), "3") == hours


def test_nodes_that_a_job_excludes_are_not_its_own():
    rows = [job("1", 8, 1, slurm_excluded_nodes=["n1"]), job("2", 8, 1, slurm_excluded_nodes=["n1", "n2"])]
    found = forecast(snapshot([node("n1"), node("n2")], rows))
    assert one(found, "1").nodes == ("n2",)
    assert one(found, "2").never


def test_preemption_by_qos_stops_the_cheapest_victim_and_requeues_it():
    qos = (
        SlurmQos(name="low", preempt_mode="requeue"),
        SlurmQos(name="key", priority=9, preempt=("low",)),
        SlurmQos(name="normal"),
    )
    rows = [
        running("1", "n1", 8, 5, ran=1, slurm_qos="low"),
        running("2", "n2", 4, 5, ran=2, slurm_qos="low", slurm_requeue=True),
        running("3", "n2", 4, 9, slurm_qos="normal"),
        job("4", 4, 1, slurm_qos="key"),
    ]
    rules = slurm(qos=qos, preempt_type="preempt/qos", preempt_mode=("REQUEUE",))
    found = forecast(snapshot([node("n1"), node("n2")], rows, rules=rules))
    assert start_hours(found, "4") == 0
    assert [(stopped.id, stopped.by) for stopped in found.preempted] == [("2", "4")]
    assert found.preempted[0].lost_gpu_s == 4 * 2 * HOUR
    assert found.waits.jobs == 1
    off = forecast(snapshot([node("n1"), node("n2")], rows, rules=slurm(qos=qos)))
    assert start_hours(off, "4") == 4 - 1  # job 2 ran 2 of its 5 h; it has 3 left
    assert not off.preempted


def test_a_booked_job_waits_on_if_the_quota_went_to_a_job_that_could_start_before():
    rows = [
        running("1", "n1", 8, 1),
        job("2", 8, 1, priority=9.0, gpu_model="h100", **in_train()),
        job("3", 8, 3, priority=1.0, gpu_model="a100", **in_train()),
    ]
    snap = snapshot([node("n1", model="h100"), node("n2")], rows, rules=slurm(qos=(train_qos(),)))
    found = forecast(snap)
    assert start_hours(found, "3") == 0
    assert start_hours(found, "2") == 3


def test_a_shorter_job_is_tried_though_a_longer_one_of_that_shape_found_no_room():
    kept = {"name": "maint", "start_time": at(2), "end_time": at(90), "nodelist": ["n2"], "users": ["root"]}
    rows = [
        running("1", "n1", 8, 1),
        job("2", 8, 4, priority=9.0, **in_train()),
        job("3", 8, 3, priority=8.0, **in_train()),
        job("4", 8, 1, priority=7.0, **in_train()),
    ]
    found = forecast(snapshot([node("n1"), node("n2")], rows, rules=slurm(qos=(train_qos(),)), reservations=[kept]))
    assert start_hours(found, "4") == 0
    assert start_hours(found, "2") == 1
    assert start_hours(found, "3") == 5


def test_preemption_does_not_reach_into_a_reservation():
    qos = (SlurmQos(name="low", preempt_mode="requeue"), SlurmQos(name="key", preempt=("low",)))
    rules = slurm(qos=qos, preempt_type="preempt/qos", preempt_mode=("REQUEUE",))
    kept = {"name": "m", "start_time": at(2), "end_time": at(3), "nodelist": ["n1"]}
    rows = [running("1", "n1", 8, 2, slurm_qos="low"), job("2", 8, 4, slurm_qos="key")]
    found = forecast(snapshot([node("n1")], rows, rules=rules, reservations=[kept]))
    assert not found.preempted
    assert start_hours(found, "2") == 3


def test_order_is_tier_then_priority_then_submission():
    partitions = (SlurmPartition(name="train"), SlurmPartition(name="key", priority_tier=9))
    rows = [
        running("9", "n1", 8, 1),
        job("1", 8, 1, priority=5.0),
        job("2", 8, 1, priority=9.0),
        job("3", 8, 1, priority=5.0, submit_time=at(-2)),
        job("4", 8, 1, priority=1.0, queue="partition:key", slurm_partition="key"),
    ]
    found = forecast(snapshot([node("n1", partitions=["train", "key"])], rows, rules=slurm(partitions=partitions)))
    assert [start_hours(found, name) for name in "4231"] == [1, 2, 3, 4]


def test_fifo_without_backfill_blocks_what_is_behind():
    rows = [running("1", "n1", 8, 2), job("2", 16, 1, 2, submit_time=at(-3)), job("3", 8, 1, submit_time=at(-2))]
    nodes = [node("n1"), node("n2")]
    assert start_hours(forecast(snapshot(nodes, rows, rules=fifo())), "3") == 0
    assert start_hours(forecast(snapshot(nodes, rows, rules=fifo(backfill=False))), "3") == 3


def test_a_running_job_without_a_limit_frees_nothing_and_that_is_said():
    found = forecast(snapshot([node("n1")], [running("1", "n1", 8, INF), job("2", 8, 1)]))
    assert start_hours(found, "2") is None
    assert not one(found, "2").never
    assert "no known end" in found.basis


def test_a_job_past_its_limit_is_taken_to_end_within_a_minute():
    found = forecast(snapshot([node("n1")], [running("1", "n1", 8, 1, ran=2), job("2", 8, 1)]))
    assert one(found, "2").start_p50 is not None
    assert 0 < (one(found, "2").start_p50 - NOW).total_seconds() <= 60
    assert "1 running job is past its limit" in found.basis


def test_gpus_that_no_job_explains_stay_allocated():
    snap = snapshot([node("n1", gpus_allocated=5)], [job("1", 4, 1), job("2", 3, 1)])
    found = forecast(snap)
    assert start_hours(found, "1") is None
    assert start_hours(found, "2") == 0
    assert any("5 GPUs" in note for note in found.not_modelled)


def test_memory_that_a_job_took_comes_back_with_it_a17():
    hog = running("1", "n1", 2, 3, memory_bytes=None)
    snap = snapshot([node("n1", memory_allocated_bytes=512e9)], [hog, job("2", 4, 1, memory_bytes=64e9)])
    found = forecast(snap)
    assert start_hours(found, "2") == 3
    assert one(found, "2").frees == ("1",)


def test_fragments_do_not_add_up_a18():
    rows = [running("1", "n1", 5, 2), running("2", "n2", 4, 3), running("3", "n3", 3, 1.5), job("4", 8, 1)]
    found = forecast(snapshot([node("n1"), node("n2"), node("n3")], rows))
    assert start_hours(found, "4") == 1.5
    assert one(found, "4").frees == ("3",)


def test_rules_without_enforcement_limit_nothing_and_say_so():
    rows = [running("1", "n1", 8, 3, **in_train()), job("2", 4, 1, **in_train())]
    rules = slurm(qos=(train_qos(),))
    loose = msgspec.structs.replace(rules, enforce=())
    found = forecast(snapshot([node("n1"), node("n2")], rows, rules=loose))
    assert start_hours(found, "2") == 0
    assert any("AccountingStorageEnforce" in note for note in found.not_modelled)


def past(count, fraction, **more):
    return [
        job(
            f"p{n}", 8, 4, **{
                "state": "succeeded", "start_time": at(-50 - n), "end_time": at(-50 - n + 4 * fraction),
                "user": "ana", "name": f"sft_{n}", **more,
            }
        )
        for n in range(count)
    ]  # fmt: skip


def test_history_of_alike_jobs_shortens_the_wait_and_is_named():
    snap = snapshot([node("n1")], [running("1", "n1", 8, 4, name="sft_99"), job("2", 8, 1, user="bo")])
    found = forecast(snap, history=frame(past(6, 0.5), JOBS), seeds=20)
    assert found.seeds == 20
    assert start_hours(found, "2") == 2
    assert "1 of 2 jobs" in found.basis
    assert forecast(snap, seeds=20).seeds == 1
    assert start_hours(forecast(snap), "2") == 4


def test_history_spreads_the_start_over_seeds_given_what_has_run():
    done = [*past(5, 0.25), *past(5, 0.75), *past(5, 1.0)]
    snap = snapshot([node("n1")], [running("1", "n1", 8, 4, ran=2, name="sft_7"), job("2", 8, 1, user="bo")])
    found = one(forecast(snap, history=frame(done, JOBS), seeds=20), "2")
    starts = {(found.start_p50 - NOW).total_seconds() / HOUR, (found.start_p90 - NOW).total_seconds() / HOUR}
    assert starts == {1.0, 2.0}  # those that ended after a quarter can no longer be it


def test_fewer_draws_and_a_slower_pace_for_many_jobs_are_told():
    rows = [running("0", "n1", 8, 4, ran=1), *(job(str(n), 8, 4) for n in range(1, 900))]
    snap = snapshot([node("n1")], rows)
    found = forecast(snap, history=frame(past(40, 0.5), JOBS), seeds=20, horizon_s=4 * HOUR)
    assert found.seeds == 2
    assert "2 draws of run times instead of 20" in found.basis
    plain = forecast(snap, horizon_s=4 * HOUR)
    assert "planned anew every 22m, where the scheduler does every 30s" in " ".join(plain.not_modelled)
    assert not any("planned anew" in note for note in forecast(snapshot([node("n1")], rows[:30])).not_modelled)


def test_waits_and_groups_add_up():
    rows = [running("1", "n1", 8, 2, team="nlp"), job("2", 8, 1, team="nlp"), job("3", 8, 1, team="vision")]
    found = forecast(snapshot([node("n1")], rows))
    assert found.waits.jobs == found.waits.started == 2
    assert {group.name: group.gpu_hours for group in found.by_team} == {"nlp": 24.0, "vision": 8.0}
    assert found.gpu_hours == 32.0
    assert found.utilization_ratio == pytest.approx(32 / (24 * 8))
    assert math.isclose(found.waits.p50_s or 0, 3 * HOUR)


def test_an_empty_cluster_is_no_error():
    found = forecast(snapshot([], []))
    assert found.jobs == ()
    assert found.utilization_ratio is None
