"""What must hold of every simulation, whatever the cluster: nobody is given what isn't there."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_world import at, fifo, job, node, running, slurm, snapshot

from connectors.change import SetPriority, SetQuota
from connectors.rules import SlurmPartition, SlurmQos
from console.scheduling.estimates import Estimates
from console.scheduling.simulator import simulate
from console.scheduling.whatif import forecast, whatif
from console.scheduling.world import make_world

HORIZON = 86400.0


@st.composite
def clusters(draw, *, policy=None):
    sizes = draw(st.lists(st.sampled_from([4, 8]), min_size=1, max_size=4))
    nodes = [node(f"n{i}", gpus=size) for i, size in enumerate(sizes)]
    free = list(sizes)
    rows = []
    for n in range(draw(st.integers(0, 5))):
        where = draw(st.integers(0, len(sizes) - 1))
        gpus = draw(st.integers(1, 8))
        if gpus > free[where]:
            continue
        free[where] -= gpus
        limit = draw(st.sampled_from([1, 2, 3, 6, math.inf]))
        rows.append(
            running(str(n + 1), f"n{where}", gpus, limit, ran=draw(st.sampled_from([0.0, 0.5, 2.0])), **_who(draw))
        )
    for n in range(draw(st.integers(1, 9))):
        count = draw(st.integers(1, len(sizes)))
        gpus = draw(st.integers(0, 8)) * count
        more = {"priority": float(draw(st.integers(1, 5))), "tasks": draw(st.sampled_from([1, 1, 1, 3]))}
        rows.append(job(str(100 + n), gpus, draw(st.sampled_from([0.5, 1, 2, 5])), count, **more, **_who(draw)))
    reservations = []
    if draw(st.booleans()):
        begin = draw(st.sampled_from([-1, 1, 3]))
        names = draw(st.lists(st.sampled_from([one["name"] for one in nodes]), min_size=1, unique=True))
        reservations = [
            {"name": "kept", "start_time": at(begin), "end_time": at(begin + 2), "nodelist": names, "users": ["x"]}
        ]
    if draw(st.booleans()):
        nodes[0] = {**nodes[0], "schedulable": False, "state": "drained"}
    rules = draw(st.sampled_from(["slurm", "builtin", "fifo", "fifo-strict"])) if policy is None else policy
    return snapshot(nodes, rows, rules=_rules(draw, rules), reservations=reservations)


def _who(draw):
    qos = draw(st.sampled_from(["normal", "train", "key"]))
    return {
        "slurm_qos": qos,
        "user": draw(st.sampled_from(["ana", "bo"])),
        "bound_by": ["partition:train", f"qos:{qos}"],
    }


def _rules(draw, name):
    if name.startswith("fifo"):
        return fifo(backfill=name == "fifo")
    preempt = draw(st.booleans())
    qos = (
        SlurmQos(name="normal"),
        SlurmQos(
            name="train",
            grp_tres={"gres/gpu": float(draw(st.integers(4, 16)))},
            max_jobs_per_user=draw(st.sampled_from([1.0, 2.0, math.inf])),
        ),
        SlurmQos(name="key", priority=10, preempt=("train",) if preempt else (), preempt_mode="requeue"),
    )
    return slurm(
        qos=qos, scheduler="sched/builtin" if name == "builtin" else "sched/backfill",
        preempt_type="preempt/qos" if preempt else "preempt/none", preempt_mode=("REQUEUE",),
        weight_age=draw(st.sampled_from([0.0, 100.0])),
        partitions=(SlurmPartition(name="train", default=True, exclusive=draw(st.booleans())),),
        bf_max_job_test=draw(st.sampled_from([2, 500])), bf_job_part_count_reserve=draw(st.sampled_from([0, 1])),
    )  # fmt: skip


def early_ends():
    """History under which jobs use a fifth to all of their limits."""
    found = Estimates()
    for user in ("ana", "bo"):
        found.fractions["user", user, "partition:train"] = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0]
    return found


def most_at_once(runs, amount_of):
    """The highest sum of amounts over all times, ends before starts at the same time."""
    edges = []
    for run in runs:
        amount = amount_of(run)
        if amount and run.end > run.start + 1e-6:
            edges += [(run.start, 1, amount), (run.end, 0, -amount)]
    level = top = 0.0
    for _when, _kind, amount in sorted(edges, key=lambda one: (round(one[0], 4), one[1])):
        level += amount
        top = max(top, level)
    return top


@pytest.mark.parametrize("estimates", [Estimates(), early_ends()], ids=["limits", "history"])
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_no_node_and_no_quota_is_ever_overfilled(estimates, data):
    snap = data.draw(clusters())
    world = make_world(snap, estimates)
    result = simulate(world, 0, HORIZON)
    for number, total in enumerate(world.cluster.gpus):
        top = most_at_once(result.runs, lambda run, n=number: sum(d.gpus for node, d in run.placed if node == n))
        assert top <= total + 1e-6
    for number, counter in enumerate(world.policy.counters.all):
        held = world.used[number]
        top = most_at_once(result.runs, lambda run, n=number: sum(c.amount for c in run.claims if c.counter == n))
        assert top <= max(counter.limit, held) + 1e-6
    begin = len(world.cluster.running)
    for run in result.runs[begin:]:
        for one in world.cluster.reserved:
            if {node for node, _demand in run.placed} & set(one.nodes):
                assert run.expected <= one.start + 1e-6 or run.start >= one.end - 1e-6


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_every_job_that_can_start_does_once_the_cluster_is_empty(snap):
    if any(math.isinf(one) for one in snap.jobs["time_limit_s"]):
        return
    world = make_world(snap, Estimates())
    result = simulate(world, 0, 30 * 86400.0)
    for one in world.cluster.pending:
        gate = world.gates[one.key]
        assert (len(result.starts.get(one.key, [])) >= one.tasks) != gate.never


@settings(max_examples=40, deadline=None)
@given(clusters())
def test_same_input_same_output_and_no_effect_says_same(snap):
    first, second = forecast(snap), forecast(snap)
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
    one = snap.jobs.filter(snap.jobs["state"] == "pending").row(0, named=True)
    nothing = whatif(snap, [SetPriority(job=one["id"], value=one["priority"])])
    assert nothing.verdict == "same"
    assert nothing.jobs == ()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(1, 20), st.integers(0, 12), st.lists(st.integers(1, 8), max_size=3))
def test_a_raised_quota_never_makes_the_only_waiting_job_later(gpus, limit, more, holders):
    nodes = [node(f"n{i}") for i in range(4)]
    bound = {"slurm_qos": "train", "bound_by": ["partition:train", "qos:train"]}
    rows = [running(str(i + 1), f"n{i}", held, 1 + i, **bound) for i, held in enumerate(holders)]
    rows.append(job("9", gpus, 1, **bound))
    rules = slurm(qos=(SlurmQos(name="train", grp_tres={"gres/gpu": float(limit)}),))
    snap = snapshot(nodes, rows, rules=rules, queues=[{"id": "qos:train", "kind": "qos", "state": "open"}])
    answer = whatif(snap, [SetQuota(queue="qos:train", gpus=float(limit + more))])
    assert answer.verdict in {"same", "better"}
