"""What-if: every change and supposition does to the forecast what it should, and the verdict says so."""

from datetime import timedelta

import pytest
from scheduling_world import HOUR, NOW, at, fifo, job, node, running, slurm, snapshot, start_hours

from connectors.change import (
    AddNodes,
    Cancel,
    Drain,
    Hold,
    Release,
    RemoveNodes,
    Requeue,
    Reserve,
    Reshape,
    Resume,
    SetPriority,
    SetQuota,
    StartQueue,
    StopQueue,
    Submit,
    Unreserve,
    UsePolicy,
)  # fmt: skip
from connectors.errors import BadWords, NotFound
from connectors.notation import cells
from connectors.rules import FifoRules, SlurmAssociation, SlurmPartition, SlurmQos
from console.scheduling.effects import apply_changes, suppose
from console.scheduling.whatif import forecast, whatif

TRAIN = {
    "slurm_qos": "train",
    "slurm_account": "vision",
    "bound_by": ["partition:train", "qos:train", "account:vision"],
}
QUEUES = [
    {"id": "partition:train", "kind": "partition", "state": "open", "max_run_s": 48 * HOUR},
    {"id": "qos:train", "kind": "qos", "state": "open"},
    {"id": "account:vision", "kind": "account", "state": "open"},
]
QUOTAS = [
    {"queue": "qos:train", "resource": "gpu", "limit": 8.0, "used": 8.0, "main": "limit"},
    {"queue": "account:vision", "resource": "gpu", "limit": 16.0, "used": 8.0, "main": "limit"},
]


def lab(*jobs, nodes=3, reservations=(), limit=8.0):
    rules = slurm(
        qos=(SlurmQos(name="train", grp_tres={"gres/gpu": limit}),),
        associations=(SlurmAssociation(account="vision", grp_tres={"gres/gpu": 16.0}),),
        partitions=(SlurmPartition(name="train", default=True, max_time_s=48 * HOUR),),
    )
    rows = [node(f"n{n}") for n in range(1, nodes + 1)]
    return snapshot(rows, jobs, rules=rules, queues=QUEUES, quotas=QUOTAS, reservations=reservations)


def words(answer):
    return {one.id: one.word for one in answer.jobs}


def test_raising_the_quota_starts_the_job_that_it_held():
    answer = whatif(
        lab(running("1", "n1", 8, 5, **TRAIN), job("2", 8, 1, **TRAIN)), [SetQuota(queue="qos:train", gpus=16)]
    )
    assert answer.verdict == "better"
    assert words(answer) == {"2": "sooner"}
    assert answer.jobs[0].shift_s == -5 * HOUR
    assert answer.says == "vision waits 5h less"
    assert answer.assumed == ("quota qos:train gpus=16",)
    assert not answer.backtest.available


def test_the_account_above_then_binds():
    rows = [running("1", "n1", 8, 5, **TRAIN), running("2", "n2", 8, 4, **TRAIN), job("3", 8, 1, **TRAIN)]
    answer = whatif(lab(*rows, limit=16.0), [SetQuota(queue="qos:train", limit=float("inf"))])
    assert answer.verdict == "same"
    assert next(one for one in answer.changed.jobs if one.id == "3").binding == "quota:account:vision"
    both = whatif(
        lab(*rows, limit=16.0), [SetQuota(queue="qos:train", gpus=24), SetQuota(queue="account:vision", gpus=24)]
    )
    assert start_hours(both.changed, "3") == 0


def test_a_quota_for_one_lets_others_wait_longer_which_is_a_trade():
    rows = [
        running("1", "n1", 8, 5, **TRAIN),
        job("2", 8, 10, priority=9999.0, **TRAIN),
        running("3", "n2", 8, 1, team="nlp"),
        job("4", 8, 1, team="nlp"),
    ]
    answer = whatif(lab(*rows, nodes=2), [SetQuota(queue="qos:train", gpus=16)])
    assert answer.verdict == "trade"
    assert words(answer) == {"2": "sooner", "4": "later"}
    assert "nlp waits" in answer.says
    assert {group.name: group.word for group in answer.by_team} == {"vision": "better", "nlp": "worse"}


def test_setting_tables_and_rules_keeps_them_alike():
    after = apply_changes(lab(), [SetQuota(queue="qos:train", gpus=12, max_run_s=HOUR)])
    assert after.rules.qos[0].grp_tres == {"gres/gpu": 12}
    assert after.rules.qos[0].max_wall_s == HOUR
    assert after.quotas.filter(after.quotas["queue"] == "qos:train")["limit"].to_list() == [12.0]
    assert after.queues.filter(after.queues["id"] == "qos:train")["max_run_s"].to_list() == [HOUR]
    new = apply_changes(lab(), [SetQuota(queue="qos:train", gpus=4, model="h100")])
    assert new.quotas.height == len(QUOTAS) + 1
    assert new.rules.qos[0].grp_tres["gres/gpu:h100"] == 4
    part = apply_changes(lab(), [SetQuota(queue="partition:train", max_run_s=HOUR)])
    assert part.rules.partitions[0].max_time_s == HOUR
    with pytest.raises(BadWords, match="no GPU quota"):
        apply_changes(lab(), [SetQuota(queue="partition:train", gpus=3)])
    with pytest.raises(NotFound):
        apply_changes(lab(), [SetQuota(queue="qos:nope", gpus=3)])


def test_a_longer_partition_limit_lets_a_job_start_that_never_could():
    snap = lab(job("1", 8, 72, reason_raw="PartitionTimeLimit"))
    answer = whatif(snap, [SetQuota(queue="partition:train", max_run_s=96 * HOUR)])
    assert answer.baseline.jobs[0].never
    assert words(answer) == {"1": "starts"}


def test_a_reservation_delays_what_reaches_into_it_and_unreserve_undoes_that():
    rows = [running("1", "n1", 8, 1), job("2", 8, 3), job("3", 8, 1, priority=1.0)]
    kept = Reserve(name="hot", start=at(2), end=at(5), nodes=("n1",), users=("x",))
    answer = whatif(lab(*rows, nodes=1), [kept])
    assert start_hours(answer.changed, "2") == 5
    assert start_hours(answer.changed, "3") == 1
    assert answer.verdict == "trade"
    undone = whatif(apply_changes(lab(*rows, nodes=1), [kept]), [Unreserve(name="hot")])
    assert start_hours(undone.changed, "2") == 1
    with pytest.raises(BadWords):
        apply_changes(lab(), [Reserve(name="hot", start=at(1), end=at(2), gpus=8)])
    with pytest.raises(NotFound):
        apply_changes(lab(), [Unreserve(name="hot")])


def test_cancel_frees_nodes_and_quota():
    rows = [running("1", "n1", 8, 5, **TRAIN), job("2", 8, 1, **TRAIN)]
    answer = whatif(lab(*rows, nodes=1), [Cancel(job="1")])
    assert start_hours(answer.changed, "2") == 0
    assert not answer.changed.not_modelled
    after = apply_changes(lab(*rows, nodes=1), [Cancel(job="1")])
    assert after.nodes["gpus_allocated"].to_list() == [0.0]
    assert after.quotas["used"].to_list() == [0.0, 0.0]
    assert after.jobs["id"].to_list() == ["2"]


def test_hold_release_and_priority():
    rows = [running("1", "n1", 8, 2), job("2", 8, 1, priority=9.0), job("3", 8, 1, priority=1.0)]
    held = whatif(lab(*rows, nodes=1), [Hold(job="2")])
    assert words(held) == {"2": "starts no more", "3": "sooner"}
    assert held.verdict == "trade"
    assert held.says == "job-2 no longer starts within 1d (was 14:00); job-3 starts 14:00 (was 15:00)"
    freed = whatif(apply_changes(lab(*rows, nodes=1), [Hold(job="2")]), [Release(job="2")])
    assert words(freed) == {"2": "starts", "3": "later"}
    first = whatif(lab(*rows, nodes=1), [SetPriority(job="3", value=99)])
    assert words(first) == {"2": "later", "3": "sooner"}
    assert first.verdict == "trade"


def test_a_job_that_is_held_cancelled_or_stopped_counts_as_a_loss():
    alone = lab(running("1", "n1", 8, 5, ran=3), job("2", 8, 1), nodes=1)
    held = whatif(alone, [Hold(job="2")])
    assert (held.verdict, held.says) == ("worse", "job-2 no longer starts within 1d (was 14:00)")
    assert whatif(alone, [Cancel(job="2")]).verdict == "worse"
    stopped = whatif(alone, [Cancel(job="1")])
    assert stopped.verdict == "trade"
    assert stopped.says == "job-1 is stopped, 24 GPU-hours of work are lost; vision waits 2h less"
    assert whatif(lab(running("1", "n1", 8, 5, ran=3), nodes=1), [Cancel(job="1")]).verdict == "worse"


def test_no_difference_is_told_with_the_figure_it_rests_on():
    answer = whatif(lab(running("1", "n1", 8, 5), job("2", 8, 1), job("3", 99, 1)), [Hold(job="1")])
    assert answer.verdict == "same"
    assert answer.says == "no start moves by a minute or more: 1 of 2 waiting jobs start within 1d, as before"


def test_jobs_that_come_or_go_make_no_team_better_or_worse():
    snap = lab(running("1", "n1", 8, 2), job("2", 8, 1), job("3", 8, 1), nodes=1)
    new = whatif(snap, [Submit(gpus=8, run_s=HOUR, count=5)])
    assert "waits" not in new.says
    assert "would start" in new.says
    assert cells(new.says) <= 110


def test_requeue_gives_the_node_to_the_next_and_the_job_waits_again():
    rows = [running("1", "n1", 8, 4, ran=1, priority=1.0), job("2", 8, 1, priority=9.0)]
    answer = whatif(lab(*rows, nodes=1), [Requeue(job="1")])
    assert start_hours(answer.changed, "2") == 0
    assert start_hours(answer.changed, "1") == 1
    assert words(answer) == {"1": "new", "2": "sooner"}


def test_drain_and_resume():
    rows = [running("1", "n1", 8, 2), job("2", 8, 1)]
    away = whatif(lab(*rows, nodes=2), [Drain(nodes=("n2",), reason="fan")])
    assert start_hours(away.changed, "2") == 2
    assert away.verdict == "worse"
    drained = apply_changes(lab(*rows, nodes=2), [Drain(nodes=("n1", "n2"), reason="fan")])
    assert dict(zip(drained.nodes["name"], drained.nodes["state"], strict=True)) == {"n1": "draining", "n2": "drained"}
    back = whatif(drained, [Resume(nodes=("n2",))])
    assert words(back) == {"2": "starts"}
    with pytest.raises(NotFound):
        apply_changes(lab(), [Drain(nodes=("n9",), reason="fan")])


def test_stop_and_start_a_queue():
    stopped = whatif(lab(job("1", 8, 1)), [StopQueue(queue="partition:train")])
    assert words(stopped) == {"1": "starts no more"}
    assert stopped.changed.jobs[0].binding == "closed"
    again = apply_changes(
        lab(job("1", 8, 1)), [StopQueue(queue="partition:train"), StartQueue(queue="partition:train")]
    )
    assert start_hours(forecast(again), "1") == 0


def test_submit_says_when_such_a_job_would_start_and_whom_it_delays():
    rows = [running("1", "n1", 8, 2, **TRAIN), job("2", 8, 1, priority=9999.0, **TRAIN)]
    answer = whatif(lab(*rows, nodes=1), [Submit(gpus=8, run_s=HOUR, queue="qos:train", count=2)])
    assert words(answer) == {"supposed-1": "new", "supposed-2": "new"}
    assert [start_hours(answer.changed, f"supposed-{n}") for n in (1, 2)] == [3, 4]
    assert answer.verdict == "same"
    like = whatif(lab(*rows, nodes=1), [Submit(like="1", gpus=16)])
    supposed = next(one for one in like.changed.jobs if one.id == "supposed-1")
    assert supposed.gpus == 16
    assert supposed.never  # two nodes, there is one
    with pytest.raises(BadWords):
        whatif(lab(), [Submit(gpus=8)])
    with pytest.raises(NotFound):
        whatif(lab(), [Submit(like="77")])


def test_submit_on_an_idle_cluster_without_any_job():
    answer = whatif(lab(), [Submit(gpus=16, run_s=HOUR)])
    assert start_hours(answer.changed, "supposed-1") == 0
    assert answer.changed.jobs[0].nodes == ("n1", "n2")


def test_reshape_to_fewer_gpus_or_a_shorter_limit_starts_sooner():
    rows = [running("1", "n1", 6, 5), job("2", 8, 3)]
    assert start_hours(whatif(lab(*rows, nodes=1), [Reshape(job="2", gpus=2)]).changed, "2") == 0
    kept = [{"name": "m", "start_time": at(1), "end_time": at(9), "nodelist": ["n1"]}]
    shorter = whatif(lab(job("2", 8, 3), nodes=1, reservations=kept), [Reshape(job="2", limit_s=HOUR)])
    assert words(shorter) == {"2": "sooner"}
    with pytest.raises(BadWords):
        suppose(lab(*rows, nodes=1), Reshape(job="1", gpus=2))


def test_more_nodes_and_fewer():
    rows = [running("1", "n1", 8, 5, team="nlp"), job("2", 16, 1, 2, team="nlp")]
    more = whatif(lab(*rows, nodes=2), [AddNodes(nodes=1, gpus=8, model="a100")])
    assert words(more) == {"2": "sooner"}
    assert set(more.changed.jobs[0].nodes) == {"added-1", "n2"}
    fewer = suppose(lab(*rows, nodes=2), RemoveNodes(nodes=("n1",)))
    assert fewer.nodes["name"].to_list() == ["n2"]
    assert fewer.jobs["id"].to_list() == ["2"]
    assert forecast(fewer).jobs[0].never


def test_another_policy():
    rows = [running("1", "n1", 8, 2), job("2", 8, 1, priority=1.0, submit_time=at(-5)), job("3", 8, 1, priority=9.0)]
    answer = whatif(lab(*rows, nodes=1), [UsePolicy(name="fifo")])
    assert answer.changed.policy == "fifo"
    assert words(answer) == {"2": "sooner", "3": "later"}
    with pytest.raises(NotFound):
        whatif(lab(), [UsePolicy(name="lottery")])
    assert isinstance(suppose(lab(), UsePolicy(name="fifo-strict")).rules, FifoRules)


def test_a_weight_alone_is_not_played_and_that_is_said():
    rows = [running("1", "n1", 8, 2), job("2", 8, 1)]
    assert whatif(lab(*rows), [SetQuota(queue="account:vision", weight=9)]).verdict == "unknown"


def test_a_what_if_leaves_its_snapshot_as_it_was():
    snap = lab(running("1", "n1", 8, 2, **TRAIN), job("2", 8, 1, **TRAIN))
    before = {name: frame.clone() for name, frame in snap.tables().items()}
    whatif(snap, [SetQuota(queue="qos:train", gpus=99), Cancel(job="1"), AddNodes(nodes=1, gpus=8)])
    assert all(snap.table(name).equals(frame) for name, frame in before.items())


def test_quotas_of_tables_hold_where_no_typed_rules_do():
    bound = {"bound_by": ["cq:a"], "queue": "cq:a"}
    quota = [{"queue": "cq:a", "resource": "gpu", "limit": 8.0, "used": 8.0, "main": "limit"}]
    rows = [running("1", "n1", 8, 3, **bound), job("2", 8, 1, **bound)]
    queues = [{"id": "cq:a", "kind": "cq", "state": "open"}]
    snap = snapshot(
        [node("n1", partitions=[]), node("n2", partitions=[])], rows, rules=fifo(), queues=queues, quotas=quota
    )
    assert start_hours(forecast(snap), "2") == 3
    assert start_hours(whatif(snap, [SetQuota(queue="cq:a", gpus=16)]).changed, "2") == 0


def test_times_are_those_of_the_snapshot():
    answer = whatif(lab(running("1", "n1", 8, 2), job("2", 8, 1), nodes=1), [Cancel(job="1")])
    assert answer.baseline.made_at == NOW
    assert answer.jobs[0].start_before == NOW + timedelta(hours=2)
