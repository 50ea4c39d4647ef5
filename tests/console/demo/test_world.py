"""Simulated clusters: what happens is a function of scenario, seed, changes and time, and breaks no rule."""

import math
from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from connectors.language import read_one
from connectors.rules import SlurmQos
from console.demo.carry import carry_out
from console.demo.scenarios import GPU, HOUR, SCENARIOS
from console.demo.schedule import Ledger
from console.demo.schedule import limit as schedule_limit
from console.demo.store import Diary
from console.demo.tables import answers
from console.demo.telemetry import read
from console.demo.world import PAST_S, World

ORIGIN = 1_790_000_000
CASES = [(name, seed) for name in SCENARIOS for seed in (0, 1, 2)]


def lived(name, seed, to=PAST_S):
    world = World(name, seed)
    world.advance(to)
    return world


def check(world):
    """Fail if anything holds more than there is, or is counted twice."""
    state = world.state
    for node in state.nodes.values():
        held = [index for job in node.jobs.values() for index in job.on[node.name]]
        assert len(held) == len(set(held))
        assert not set(held) & node.free
        assert set(held) | node.free | node.lost == set(range(node.group.gpus))
        assert node.cpus_free == node.group.cpus - sum(job.ask.cpus for job in node.jobs.values()) >= 0
        assert node.memory_free >= 0
        assert all(job.id in state.running for job in node.jobs.values())
    used_qos, used_team, used_user = Counter(), Counter(), Counter()
    for job in state.running.values():
        assert job.state == "running"
        assert len(job.on) == job.ask.nodes
        assert all(len(gpus) == job.ask.gpus for gpus in job.on.values())
        assert set(job.on) <= set(state.queues.partitions[job.ask.partition].nodes)
        assert job.start <= state.now <= job.ends_by
        used_qos[job.ask.qos] += job.gpus
        used_team[job.ask.team] += job.gpus
        used_user[job.ask.qos, job.ask.user] += job.gpus
    for name, qos in state.queues.qos.items():
        assert used_qos[name] <= qos.grp_tres.get(GPU, math.inf)
    past_the_account = {job.ask.team for job in state.running.values() if GPU in state.queues.qos[job.ask.qos].grp_tres}
    for team, cap in state.queues.account_gpus.items():
        assert used_team[team] <= cap or team in past_the_account
    for (name, _user), used in used_user.items():
        assert used <= state.queues.qos[name].max_tres_per_user.get(GPU, math.inf)
    assert not state.pending.keys() & state.running.keys()


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_no_rule_is_broken_at_any_time(name, seed):
    world = World(name, seed)
    for at in range(0, PAST_S + 6 * HOUR, 1700):
        world.advance(at)
        check(world)


@pytest.mark.parametrize("name", SCENARIOS)
def test_time_may_pass_in_any_steps(name):
    at_once = lived(name, 5, PAST_S + 4321)
    in_steps = World(name, 5)
    for at in (0, 1, 17, 5000, 5001, PAST_S - 1, PAST_S, PAST_S + 4000, PAST_S + 4321):
        in_steps.advance(at)
    assert answers(at_once, ORIGIN) == answers(in_steps, ORIGIN)


def test_seeds_and_seconds_make_a_difference():
    assert answers(lived("lab48", 0), ORIGIN)["jobs"] != answers(lived("lab48", 1), ORIGIN)["jobs"]
    world = lived("lab48", 0)
    before = answers(world, ORIGIN)["gpus"]
    world.advance(PAST_S + 1)
    assert answers(world, ORIGIN)["gpus"] != before


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_what_is_worth_seeing_is_there_when_a_demo_opens(name, seed):
    state = lived(name, seed).state
    reasons = Counter(job.reason.partition(",")[0] for job in state.pending.values())
    for reason in ("Resources", "PartitionTimeLimit", "DependencyNeverSatisfied", "JobHeldUser"):
        assert reasons[reason] >= 1, reason
    assert reasons["QOSGrpGRES"] + reasons["AssocGrpGRES"] >= 1
    largest = max((job for job in state.pending.values() if job.reason == "Resources"), key=lambda job: job.gpus)
    assert largest.gpus >= 24
    assert sum(len(node.free) >= 8 and not node.drained for node in state.nodes.values()) < largest.ask.nodes
    assert any(job.ask.load == "idle" for job in state.running.values())
    assert any(node.drained for node in state.nodes.values())
    assert state.xids
    jobs = [*state.running.values(), *state.pending.values(), *state.ended]
    assert any(job.ask.project is None for job in jobs)
    assert any(job.ask.gpus == 0 for job in jobs)
    assert {"succeeded", "failed"} <= {job.state for job in state.ended}
    waited = [job.start - job.submit for job in jobs if job.start is not None]
    assert max(waited) > 600 > min(waited)


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_life_goes_on(name, seed):
    world = lived(name, seed)
    ended, next_id = len(world.state.ended), world._next_id
    world.advance(PAST_S + 3 * HOUR)
    assert len(world.state.ended) > ended
    assert world._next_id > next_id
    world.advance(PAST_S + 24 * HOUR)
    assert len(world.state.pending) < 80


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_reasons_are_true(name, seed):
    """What a reason says can be found again in the state, worked out here in another way."""
    state = lived(name, seed).state
    running = list(state.running.values())
    first = {}
    for job in sorted(state.pending.values(), key=lambda job: -job.priority):
        ask, qos = job.ask, state.queues.qos[job.ask.qos]
        in_qos = sum(other.gpus for other in running if other.ask.qos == ask.qos)
        in_team = sum(other.gpus for other in running if other.ask.team == ask.team)
        of_user = sum(other.gpus for other in running if (other.ask.qos, other.ask.user) == (ask.qos, ask.user))
        match job.reason.partition(",")[0]:
            case "QOSGrpGRES":
                assert in_qos + job.gpus > qos.grp_tres[GPU]
            case "AssocGrpGRES":
                assert in_team + job.gpus > state.queues.account_gpus[ask.team]
            case "QOSMaxGRESPerUser":
                assert of_user + job.gpus > qos.max_tres_per_user[GPU]
            case "PartitionTimeLimit":
                assert ask.limit_s > state.queues.partitions[ask.partition].max_time_s
            case "DependencyNeverSatisfied":
                assert next(one for one in state.ended if one.id == ask.after).state != "succeeded"
            case "JobHeldUser":
                assert (job.held_by, job.priority) == (ask.user, 0)
            case "ReqNodeNotAvail":
                assert all(state.nodes[node].drained for node in ask.pinned)
            case "Resources":
                partition = state.queues.partitions[ask.partition]
                fitting = [node for node in partition.nodes if state.nodes[node].fits(ask)]
                clear = [node for node in fitting if not state.nodes[node].drained]
                assert len(clear) < ask.nodes or any(
                    node in other.planned_on for other in state.pending.values() for node in clear
                )
                first.setdefault(ask.partition, job)
            case "Priority":
                assert first[ask.partition].priority >= job.priority
            case other:
                pytest.fail(f"{other} is not expected here")


def do(world, text):
    now = datetime.fromtimestamp(ORIGIN + world.state.now, UTC)
    carry_out(world, read_one(text, now=now), ORIGIN, "operator")


def test_a_raised_quota_lets_jobs_start():
    world = lived("quad", 0)
    waiting = [job for job in world.state.pending.values() if job.reason == "AssocGrpGRES" and job.ask.nodes == 1]
    assert waiting
    do(world, "quota account:media limit=unlimited")
    assert any(job.state == "running" for job in waiting)
    assert all(job.reason != "AssocGrpGRES" for job in waiting)
    check(world)


def test_a_reservation_keeps_its_nodes_clear_and_then_ends():
    world = lived("lab48", 1)
    now = world.state.now
    start, end = now + 2 * HOUR, now + 6 * HOUR
    when = [datetime.fromtimestamp(ORIGIN + at, UTC).isoformat().replace("+00:00", "Z") for at in (start, end)]
    do(world, f"reserve r nodes=gpu04,gpu05 start={when[0]} end={when[1]} users=ana flags=IGNORE_JOBS")
    before = {job.id for name in ("gpu04", "gpu05") for job in world.state.nodes[name].jobs.values()}
    for at in range(now, end, 600):
        world.advance(at)
        for name in ("gpu04", "gpu05"):
            for job in world.state.nodes[name].jobs.values():
                assert job.id in before or job.ends_by <= start
    world.advance(end)
    assert not world.state.reservations


def test_drained_nodes_take_nothing_and_resumed_ones_do():
    world = lived("quad", 0)
    do(world, "drain h[01-04] reason=test")
    held = {job.id for job in world.state.running.values()}
    world.advance(PAST_S + 2 * HOUR)
    on_hopper = [job for job in world.state.running.values() if any(name.startswith("h") for name in job.on)]
    assert {job.id for job in on_hopper} <= held
    assert any(job.reason.startswith("Nodes required") for job in world.state.pending.values())
    do(world, "resume h[01-04]")
    assert any(job.id not in held and job.start == world.state.now for job in world.state.running.values())


def test_a_stopped_partition_starts_nothing():
    world = lived("quad", 0)
    do(world, "stop partition:h100")
    world.advance(PAST_S + 2 * HOUR)
    waiting = [job for job in world.state.pending.values() if job.ask.partition == "h100"]
    assert {job.reason for job in waiting} == {"PartitionDown"}
    assert not [job for job in world.state.running.values() if job.ask.partition == "h100" and job.start > PAST_S]


def test_a_requeued_job_waits_and_comes_back():
    world = lived("lab48", 0)
    job = next(job for job in world.state.running.values() if job.ask.name == "llm-serve")
    do(world, f"requeue {job.id}")
    assert (job.state, job.reason, job.restarts) == ("pending", "BeginTime", 1)
    check(world)
    world.advance(PAST_S + 200)
    assert job.reason != "BeginTime"
    world.advance(PAST_S + 20 * HOUR)
    assert job.starts == 2 or job.state == "pending"
    check(world)


def test_a_priority_that_was_set_is_kept_and_orders():
    world = lived("lab48", 0)
    job = next(job for job in world.state.pending.values() if job.reason == "Priority")
    do(world, f"priority {job.id} value=99999")
    assert job.priority == 99_999
    assert job.state == "running" or job.reason == "Resources"


def test_a_changed_weight_shows_in_the_order():
    world = lived("lab48", 0)
    job = next(job for job in world.state.pending.values() if job.ask.team == "nlp" and not job.held_by)
    before = job.priority
    do(world, "quota account:nlp weight=30")
    assert job.priority > before


def test_telemetry_stays_within_what_a_gpu_can_show():
    for name in SCENARIOS:
        world = World(name, 3)
        for at in range(0, PAST_S, 5000):
            world.advance(at)
            for node in world.state.nodes.values():
                for index in range(node.group.gpus):
                    job = next((one for one in node.jobs.values() if index in one.on[node.name]), None)
                    seen = read(node, index, job, 3, at)
                    if index in node.lost:
                        assert seen.utilization is seen.power is seen.memory is None
                        continue
                    assert 0 <= seen.tensor <= seen.sm <= seen.utilization <= 1
                    assert 0 < seen.memory <= node.group.gpu_memory_gib * 2**30
                    assert 0.9 * node.group.idle_w <= seen.power <= node.group.power_limit_w
                    assert 25 <= seen.temperature <= 85
                    assert job is not None or seen.utilization == 0


def test_the_clock_is_start_plus_speed_times_real_time():
    diary = Diary(scenario="lab48", seed=0, origin=1000, real=500.0, second=float(PAST_S), speed=60.0)
    assert diary.second_at(500.0) == PAST_S
    assert diary.second_at(510.0) == PAST_S + 600
    assert diary.second_at(400.0) == PAST_S, "a clock that was set back"
    slower = diary.at_speed(1.0, 510.0)
    assert slower.second_at(510.0) == PAST_S + 600
    assert slower.second_at(520.0) == PAST_S + 610


@pytest.mark.parametrize(
    ("qos_cap", "reason"), [({}, "AssocGrpGRES"), ({GPU: 24.0}, None), ({GPU: 20.0}, "QOSGrpGRES")]
)
def test_a_qos_that_caps_gpus_rules_instead_of_the_account(qos_cap, reason):
    ledger = Ledger()
    ledger.qos["nlp"] = ledger.account["lab"] = 16
    asking = SimpleNamespace(gpus=8, ask=SimpleNamespace(qos="nlp", team="lab", user="ana", limit_s=3600))
    queues = SimpleNamespace(qos={"nlp": SlurmQos(name="nlp", grp_tres=qos_cap)}, account_gpus={"lab": 20.0})
    assert schedule_limit(asking, SimpleNamespace(queues=queues), ledger) == reason
