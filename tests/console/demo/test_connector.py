"""The demo's connector: what it remembers between calls, its clock, its settings and its failures."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import polars as pl
import pytest

from connectors import ground
from connectors.change import Drain, Hold, Release, Reserve, SetPriority, SetQuota, Unreserve
from connectors.errors import Ambiguous, BadWords, Malformed, Moved, NotFound, Unreachable, Unsupported
from connectors.model import rows
from connectors.raw import save_raw
from console.demo import DemoConnector
from console.demo.connector import Settings
from console.demo.store import KEPT_S
from console.demo.world import PAST_S
from console.scheduling.whatif import forecast

START = 1_790_000_000.25


class Clock:
    """A real time that tests move."""

    def __init__(self):
        self.now = START

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUDECK_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def demo(clock):
    def made(name="demo:lab48", scenario="lab48", **settings):
        return DemoConnector(name, Settings(scenario=scenario, **settings), clock=clock)

    return made


async def look(connector):
    return connector.interpret(await connector.read())


async def do(connector, change):
    snapshot = await look(connector)
    return await connector.apply(connector.plan(connector.resolve(change, snapshot), snapshot))


def limit(snapshot, queue):
    return snapshot.quotas.filter(pl.col("queue") == queue)["limit"].item()


def waiting(snapshot, reason):
    return snapshot.jobs.filter((pl.col("state") == "pending") & (pl.col("reason_raw") == reason))["id"].to_list()


async def test_the_clock_is_the_real_one_at_first_and_runs_at_the_speed(demo, clock):
    first = await look(demo())
    assert first.meta.taken_at == datetime.fromtimestamp(int(START), UTC)
    assert first.meta.clock_skew_s == 0
    clock.now += 90.5
    assert (await look(demo())).meta.taken_at == first.meta.taken_at + timedelta(seconds=90)
    fast = demo(speed=60.0)
    assert (await look(fast)).meta.taken_at == first.meta.taken_at + timedelta(seconds=90)
    clock.now += 10
    seen = await look(fast)
    assert seen.meta.taken_at == first.meta.taken_at + timedelta(seconds=690)
    assert seen.meta.clock_skew_s == pytest.approx(590, abs=1)
    assert (await look(demo())).meta.taken_at == seen.meta.taken_at, "a call that names no speed follows"


async def test_two_openings_see_the_same_cluster(demo, clock):
    one, other = demo(), demo()
    first, second = await look(one), await look(other)
    assert all(frame.equals(second.table(name)) for name, frame in first.tables().items())
    clock.now += 4000
    first, second = await look(one), await look(demo())
    assert all(frame.equals(second.table(name)) for name, frame in first.tables().items())


async def test_changes_are_seen_by_later_calls_and_stay_until_undone(demo, clock, state):
    receipt = await do(demo(), SetQuota(queue="qos:nlp", gpus=16.0))
    assert receipt.outcome == "verified"
    clock.now += 1234
    assert limit(await look(demo()), "qos:nlp") == 16
    kept = list((state / "demo").glob("*.json"))
    assert len(kept) == 1
    assert kept[0].stat().st_mode & 0o777 == 0o600
    assert receipt.undo == (SetQuota(queue="qos:nlp", limit=8.0),)
    await do(demo(), receipt.undo[0])
    assert limit(await look(demo()), "qos:nlp") == 8


async def test_an_open_connector_lives_through_what_another_did(demo, clock):
    watching, acting = demo(), demo()
    before = await look(watching)
    clock.now += 5
    await look(watching)  # ahead of the change below only in real time, never in simulated
    job = waiting(before, "Priority")[0]
    await do(acting, Hold(job=job))
    seen = await look(watching)
    assert job in waiting(seen, "JobHeldAdmin")
    clock.now += 500
    fresh = await look(demo())
    assert (await look(watching)).jobs.equals(fresh.jobs)


async def test_unlimited_survives_the_state_file(demo):
    await do(demo(), SetQuota(queue="qos:nlp", gpus=float("inf")))
    assert limit(await look(demo()), "qos:nlp") == float("inf")


async def test_a_plan_whose_ground_has_moved_changes_nothing(demo):
    mine, theirs = demo(), demo()
    snapshot = await look(mine)
    plan = mine.plan(mine.resolve(SetQuota(queue="qos:nlp", gpus=24.0), snapshot), snapshot)
    await do(theirs, SetQuota(queue="qos:nlp", gpus=12.0))
    with pytest.raises(Moved) as caught:
        await mine.apply(plan)
    assert "qos:nlp" in caught.value.moved[0]
    assert limit(await look(mine), "qos:nlp") == 12


async def test_several_changes_in_one_plan(demo):
    connector = demo()
    snapshot = await look(connector)
    job = waiting(snapshot, "Priority")[0]
    changes = (SetQuota(queue="qos:nlp", limit=16.0), Hold(job=job), SetQuota(queue="qos:nlp", limit=20.0))
    receipt = await connector.apply(connector.plan(changes, snapshot))
    assert receipt.outcome == "verified"
    for change in receipt.undo:
        await do(connector, change)
    after = await look(connector)
    assert limit(after, "qos:nlp") == 8
    assert job not in waiting(after, "JobHeldAdmin")


async def test_fresh_and_old_demos_begin_anew(demo, clock):
    await do(demo(), SetQuota(queue="qos:nlp", gpus=16.0))
    assert limit(await look(demo(fresh=True)), "qos:nlp") == 8
    connector = demo(speed=1000.0)
    await do(connector, SetQuota(queue="qos:nlp", gpus=16.0))
    before = (await look(connector)).meta.taken_at
    clock.now += KEPT_S / 1000 + 1
    anew = await look(connector)
    assert limit(anew, "qos:nlp") == 8
    assert anew.meta.taken_at > before, "simulated time never goes back"
    clock.now += 1
    assert (await look(connector)).meta.taken_at == anew.meta.taken_at + timedelta(seconds=1000)


async def test_clusters_and_seeds_are_apart(demo):
    await do(demo("one"), SetQuota(queue="qos:nlp", gpus=16.0))
    assert limit(await look(demo("two")), "qos:nlp") == 8
    assert limit(await look(demo("one", seed=4)), "qos:nlp") == 8
    assert limit(await look(demo("one")), "qos:nlp") == 16
    name = "集群" * 100 + "/../[red]\n"
    assert (await look(demo(name))).meta.cluster == name


async def test_a_damaged_state_file_begins_anew(demo, state):
    await look(demo())
    for path in (state / "demo").glob("*.json"):
        path.write_bytes(b'{"scenario":')
    assert (await look(demo())).jobs.height > 10


async def test_a_state_folder_that_cannot_be_used_is_said(demo, state):
    state.mkdir()
    (state / "demo").write_text("a file where the folder should be")
    with pytest.raises(Unreachable) as caught:
        await demo().read()
    assert "GPUDECK_STATE" in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({}, "scenario"),
        ({"scenario": "lab49"}, "scenario"),
        ({"scenario": "lab48", "seed": "x"}, "seed"),
        ({"scenario": "lab48", "speed": 0}, "speed"),
        ({"scenario": "lab48", "speed": float("inf")}, "speed"),
        ({"scenario": "lab48", "sped": 2}, "sped"),
    ],
)
def test_a_wrong_setting_is_named(settings, key):
    with pytest.raises(BadWords) as caught:
        DemoConnector.open("demo", settings)
    assert caught.value.text == key


async def test_figures_agree_with_each_other(demo):
    for scenario in ("lab48", "mid128", "quad"):
        snapshot = await look(demo(f"demo:{scenario}", scenario))
        running = snapshot.jobs.filter(pl.col("state") == "running")
        assert running["gpus"].sum() == snapshot.nodes["gpus_allocated"].sum()
        assert snapshot.gpus.filter(pl.col("job_ids").list.len() > 0).height == running["gpus"].sum()
        assert snapshot.gpus.height == snapshot.nodes["gpus"].sum()
        for quota in rows(snapshot.quotas):
            bound = running.filter(pl.col("bound_by").list.contains(quota["queue"]))
            assert bound["gpus"].sum() == quota["used"]
        lost = snapshot.gpus.filter(pl.col("state") == "faulty")
        assert lost.height == snapshot.nodes["gpus_unusable"].sum()
        assert lost["utilization_ratio"].null_count() == lost.height, "a lost GPU says nothing, not zero"
        assert snapshot.rules is not None
        assert {one.name for one in snapshot.rules.partitions} == {
            queue.partition(":")[2] for queue in snapshot.queues["id"] if queue.startswith("partition:")
        }


async def test_reserving_by_gpus_chooses_nodes_that_will_be_free(demo):
    connector = demo("demo:quad", "quad")
    snapshot = await look(connector)
    start = snapshot.meta.taken_at + timedelta(days=4)
    end = start + timedelta(hours=8)
    (made,) = connector.resolve(Reserve(name="tonight", start=start, end=end, gpus=16.0, model="h100"), snapshot)
    assert len(made.nodes) == 2
    assert made.users == (snapshot.meta.user,)
    with pytest.raises(BadWords, match="model"):
        connector.resolve(Reserve(name="tonight", start=start, end=end, gpus=16.0), snapshot)
    with pytest.raises(NotFound):
        connector.resolve(Reserve(name="tonight", start=start, end=end, gpus=16.0, model="b200"), snapshot)
    with pytest.raises(Unsupported, match="in the way"):
        connector.resolve(Reserve(name="tonight", start=start, end=end, gpus=160.0, model="h100"), snapshot)
    soon = snapshot.meta.taken_at + timedelta(minutes=1)
    with pytest.raises(BadWords, match="runs job"):
        connector.resolve(Reserve(name="now", start=soon, end=end, nodes=("h01",)), snapshot)
    receipt = await connector.apply(connector.plan((made,), snapshot))
    assert receipt.outcome == "verified"
    with pytest.raises(BadWords, match="already"):
        connector.resolve(Reserve(name="tonight", start=start, end=end, gpus=8.0, model="h100"), await look(connector))
    receipt = await do(connector, Unreserve(name="tonight"))
    assert receipt.undo == (made,)


async def test_what_makes_no_sense_is_said(demo):
    connector = demo()
    snapshot = await look(connector)
    held, free = waiting(snapshot, "JobHeldUser")[0], waiting(snapshot, "Priority")[0]
    runs = snapshot.jobs.filter(pl.col("state") == "running")["id"][0]
    for change, error in (
        (Hold(job=held), BadWords),
        (Hold(job=runs), BadWords),
        (Release(job=free), BadWords),
        (SetPriority(job=held, value=10.0), BadWords),
        (SetPriority(job=free, value=0.0), BadWords),
        (SetQuota(queue="partition:train", gpus=8.0), Unsupported),
        (SetQuota(queue="qos:nlp", weight=8.0), Unsupported),
        (SetQuota(queue="qos:nlp", nominal=8.0), Unsupported),
        (SetQuota(queue="qos:nlp", gpus=7.5), BadWords),
        (SetQuota(queue="nlp", gpus=8.0), Ambiguous),
        (SetQuota(queue="partition:train", max_run_s=90.0), BadWords),
    ):
        with pytest.raises(error):
            connector.resolve(change, snapshot)


async def test_a_limit_below_what_is_used_is_a_note(demo):
    connector = demo()
    snapshot = await look(connector)
    plan = connector.plan((SetQuota(queue="qos:nlp", limit=0.0),), snapshot)
    assert any("qos:nlp" in note for note in plan.notes)


async def test_undoing_a_drain_brings_the_old_reason_back(demo):
    connector = demo()
    snapshot = await look(connector)
    (change,) = connector.resolve(Drain(nodes=("gpu01", "gpu06"), reason="both"), snapshot)
    receipt = await connector.apply(connector.plan((change,), snapshot))
    for back in receipt.undo:
        await do(connector, back)
    after = await look(connector)
    before = {row["name"]: (row["reason"], row["schedulable"]) for row in rows(snapshot.nodes)}
    assert {row["name"]: (row["reason"], row["schedulable"]) for row in rows(after.nodes)} == before


async def test_history_and_jobs_meet_without_a_gap(demo, clock):
    connector = demo()
    first = await look(connector)
    clock.now += 3600
    seen = {*(await connector.history(first.meta.taken_at))["id"], *(await look(connector)).jobs["id"]}
    assert set(first.jobs["id"]) <= seen
    assert (await connector.history(first.meta.taken_at - timedelta(hours=12))).height > 30


async def test_logs(demo):
    connector = demo()
    snapshot = await look(connector)
    job = snapshot.jobs.filter((pl.col("state") == "running") & (pl.col("kind") == "training"))["id"][0]
    lines = [line async for line in connector.logs(job)]
    assert len(lines) > 1
    assert all("\n" not in line for line in lines)
    assert [line async for line in connector.logs(waiting(snapshot, "JobHeldUser")[0])] == []


async def test_answers_that_cannot_be_read(demo):
    connector = demo()
    raw = await connector.read()

    def garbled(*names, out=b'[{"id": 7}]'):
        answers = {
            name: msgspec.structs.replace(answer, out=out) if name in names else answer
            for name, answer in raw.answers.items()
        }
        return connector.interpret(msgspec.structs.replace(raw, answers=answers))

    for wrong in (
        b'[{"id": 7}]', b'[{"state": "flying"}]', b'[{"nodes": 3000000000}]', b'[{"gpus": "many"}]', b"[7]", b"{}", b"",
        b'[{"submit_time": 1e30}]', b'[{"labels": [["a", "b"]]}]', b'[{"nodelist": "gpu01"}]',
    ):  # fmt: skip
        assert [gap.source for gap in garbled("jobs", out=wrong).gaps] == ["jobs"], wrong
    snapshot = garbled("jobs", "cluster")
    assert [gap.source for gap in snapshot.gaps] == ["jobs", "cluster"]
    assert snapshot.rules is None
    assert snapshot.jobs.is_empty()
    assert snapshot.nodes.height == 6
    with pytest.raises(Malformed):
        connector.interpret(msgspec.structs.replace(raw, answers={}))


async def test_a_capture_writes_no_state(demo, state, tmp_path):
    raw = await demo().read()
    save_raw(raw, tmp_path / "capture")
    for path in (state / "demo").iterdir():
        path.unlink()
    opened = DemoConnector.open("x", {"scenario": "lab48"}, captured=tmp_path / "capture")
    assert (await look(opened)).meta.taken_at == raw.taken_at
    assert not list((state / "demo").iterdir())
    stream = opened.observe()
    await anext(stream)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(stream), 0.05)


@pytest.mark.parametrize(("scenario", "seed"), [("lab48", 0), ("lab48", 3), ("mid128", 1), ("quad", 0)])
async def test_the_scheduling_core_agrees(demo, scenario, seed):
    """The core, which knows nothing of the demo, finds nothing that should have started, and plans the same starts."""
    snapshot = await look(demo(scenario=scenario, seed=seed))
    told = forecast(snapshot, horizon_s=30 * 86400.0)
    planned = {row["id"]: row["expected_start_time"] for row in rows(snapshot.jobs)}
    assert any(planned.values())
    for job in told.jobs:
        assert job.start_p50 is None or job.start_p50 > snapshot.meta.taken_at + timedelta(seconds=30), job
        if planned[job.id] is not None:
            assert job.start_p50 == planned[job.id]


async def test_the_past_is_long_enough_for_the_first_picture(demo):
    snapshot = await look(demo())
    assert PAST_S >= 8 * 3600
    assert ground.find(snapshot, "queues", "partition:train")["running_jobs"] > 5
