"""The one suite that every connector must pass, a third party's too.

To hold a connector against it, subclass `ConnectorContract` in a test module and give it a `bed`:

    import pytest
    from contract import Bed, ConnectorContract        # `tests/` must be on the path (pytest: pythonpath = tests)

    class TestMine(ConnectorContract):
        @pytest.fixture
        def bed(self, tmp_path):
            return Bed(system="mine", cluster="lab", settings={"host": "…"})

The connector is found by its entry point (group `gpudeck.connectors`, named `system`), as gpudeck finds it. The bed is
asked, observed for a few seconds and, where its capabilities name verbs, changed: every change is one that the suite
takes back, apart from a cancelled, a requeued and a released job, so give it a cluster that may be touched, or
`writes=False`. For a folder that `gpudeck capture` made, subclass `ReadingContract` and name it as `captured`.
`changes` adds changes to those that the suite finds for itself in a snapshot (see `candidates`).
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from connectors import ground
from connectors.change import (
    CHANGE_TYPES,
    Cancel,
    Change,
    Drain,
    Hold,
    Plan,
    Receipt,
    Release,
    Requeue,
    Reserve,
    Resume,
    SetPriority,
    SetQuota,
    StartQueue,
    StopQueue,
    Unreserve,
    verb,
)
from connectors.connector import Answer, Capabilities, Connector, Raw, connector_class
from connectors.errors import Ambiguous, BadWords, ConnectorError, GpudeckError, Moved, NotFound, ReadOnly, Unsupported
from connectors.language import read_one, write
from connectors.model import ACTIVE_STATES, SCHEMAS, Snapshot
from connectors.raw import load_raw, save_raw

VERBS = tuple(str(one.__struct_config__.tag) for one in CHANGE_TYPES)
NO_WAY_BACK = ("cancel", "requeue")
PREPARED = {"unreserve": "reserve", "start": "stop"}
KEYS = {
    "jobs": ["key"],
    "nodes": ["name"],
    "gpus": ["node", "index", "mig_profile", "uuid"],
    "queues": ["id"],
    "quotas": ["queue", "resource", "model"],
    "reservations": ["name"],
}
STATES = {"jobs": "state", "nodes": "state", "gpus": "state", "queues": "state"}
NOWHERE = "no-such-thing-49f1"
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Bed:
    """One cluster to hold a connector against; `patience_s` is how long two snapshots may take.

    `drifting` names verbs whose value moves by itself (an ageing priority), so that no plan can expect the old one, and
    taking it back may be impossible.
    `optional` names answers that not every site gives: one that is absent needs no gap, one that is nonsense does.
    """

    system: str
    cluster: str
    settings: Mapping[str, Any]
    captured: Path | None = None
    writes: bool = True
    patience_s: float = 60.0
    optional: frozenset[str] = frozenset()
    drifting: frozenset[str] = frozenset()
    changes: Callable[[Snapshot], Iterable[Change]] = field(default=lambda _snapshot: ())

    def open(self, *, captured: Path | None = None) -> Connector:
        """Return a new connector to the same cluster, or to a captured folder."""
        return connector_class(self.system).open(self.cluster, self.settings, captured=captured or self.captured)


def candidates(snapshot: Snapshot) -> Iterator[Change]:
    """Yield changes that may make sense on this snapshot, of every verb for which it has an object."""
    for row in snapshot.queues.to_dicts():
        writable = row["writable"] or ()
        if {"gpus", "limit"} & set(writable):
            yield SetQuota(queue=row["id"], gpus=_other_limit(snapshot, row["id"]))
        if "weight" in writable and row["weight"] is not None:
            yield SetQuota(queue=row["id"], weight=row["weight"] + 1)
        if "max_run_s" in writable:
            longest = row["max_run_s"]
            yield SetQuota(queue=row["id"], max_run_s=7200.0 if longest in {None, math.inf} else longest + 3600)
        yield StopQueue(queue=row["id"])
        yield StartQueue(queue=row["id"])
    jobs = snapshot.jobs.to_dicts()
    for job in [row["id"] for row in jobs if row["state"] == "pending"]:
        yield from (Hold(job=job), Release(job=job), SetPriority(job=job, value=4321.0), Cancel(job=job))
    for job in [row["id"] for row in jobs if row["state"] == "running"]:
        yield from (Requeue(job=job), Cancel(job=job))
    for row in snapshot.nodes.to_dicts():
        yield Drain(nodes=(row["name"],), reason="contract suite; to be undone")
        yield Resume(nodes=(row["name"],))
    yield from _reservations(snapshot)


def _other_limit(snapshot: Snapshot, queue: str) -> float:
    rows = [row for row in snapshot.quotas.to_dicts() if row["queue"] == queue and row["resource"] == "gpu"]
    limit = next((row["limit"] for row in rows if row["limit"] is not None), math.inf)
    return 4096.0 if limit == math.inf else limit + 4


def _reservations(snapshot: Snapshot) -> Iterator[Change]:
    start = (snapshot.meta.taken_at + timedelta(days=60)).replace(microsecond=0)
    for row in snapshot.nodes.filter(pl.col("gpus") > 0).to_dicts():
        yield Reserve(
            name="contract", start=start, end=start + timedelta(hours=1), gpus=row["gpus"], model=row["gpu_model"]
        )
        yield Reserve(name="contract", start=start, end=start + timedelta(hours=1), nodes=(row["name"],))
    for name in snapshot.reservations["name"]:
        yield Unreserve(name=name)


def unknown(snapshot: Snapshot) -> Iterator[Change]:
    """Yield one change of every verb, each of something that is not there."""
    start = snapshot.meta.taken_at + timedelta(days=60)
    yield SetQuota(queue=NOWHERE, gpus=8.0)
    yield Reserve(name="contract", start=start, end=start + timedelta(hours=1), nodes=(NOWHERE,))
    yield Unreserve(name=NOWHERE)
    for job in (Hold, Release, Cancel, Requeue):
        yield job(job=NOWHERE)
    yield SetPriority(job=NOWHERE, value=1000.0)
    yield from (Drain(nodes=(NOWHERE,), reason="none"), Resume(nodes=(NOWHERE,)))
    yield from (StopQueue(queue=NOWHERE), StartQueue(queue=NOWHERE))


def resolved(connector: Connector, bed: Bed, snapshot: Snapshot) -> list[tuple[Change, ...]]:
    """Return what every candidate that makes sense here means; any error outside the family fails the test."""
    found: list[tuple[Change, ...]] = []
    refused: list[GpudeckError] = []
    for change in (*bed.changes(snapshot), *candidates(snapshot)):
        try:
            found.append(connector.resolve(change, snapshot))
        except GpudeckError as error:
            refused.append(error)
    for error in refused:
        assert str(error).strip()
        assert "\n" not in str(error)
    return found


def same(first: Snapshot, second: Snapshot) -> None:
    """Fail unless two snapshots hold the same."""
    assert msgspec.structs.replace(first.meta, capabilities=second.meta.capabilities) == second.meta
    assert first.rules == second.rules
    assert first.gaps == second.gaps
    for name, frame in first.tables().items():
        assert frame.equals(second.table(name)), name


def with_answer(raw: Raw, name: str, answer: Answer | None) -> Raw:
    """Return the answers with one of them replaced, or left out."""
    answers = {key: value for key, value in raw.answers.items() if key != name}
    return msgspec.structs.replace(raw, answers=answers if answer is None else answers | {name: answer})


class ReadingContract:
    """What also a captured folder must keep: everything but observing and changing. Needs the fixture `bed`."""

    @pytest.fixture
    def connector(self, bed):
        return bed.open()

    @pytest.fixture(autouse=True)
    async def closed(self, connector):
        yield
        await connector.close()
        await connector.close()  # closing twice is fine

    @pytest.fixture
    async def raw(self, connector):
        return await connector.read()

    @pytest.fixture
    def snapshot(self, connector, raw):
        return connector.interpret(raw)

    # What it says of itself

    def test_it_is_a_connector(self, bed, connector):
        assert isinstance(connector, Connector)
        assert type(connector).system == connector.system == bed.system
        assert connector.cluster == bed.cluster
        assert isinstance(connector.capabilities, Capabilities)

    def test_an_unknown_setting_is_named(self, bed):
        with pytest.raises(BadWords) as caught:
            connector_class(bed.system).open(bed.cluster, {**bed.settings, NOWHERE: 1})
        assert NOWHERE in str(caught.value)
        assert caught.value.text == NOWHERE

    def test_capabilities_name_tables_and_verbs(self, snapshot):
        able = snapshot.meta.capabilities
        assert set(able.reads) <= set(SCHEMAS)
        assert {"jobs", "nodes"} & set(able.reads)
        assert set(able.writes) <= set(VERBS)
        for name, frame in snapshot.tables().items():
            assert name in able.reads or frame.is_empty(), f"{name} has rows but is not among the tables that are read"

    # What it reads

    def test_raw_answers_say_where_they_are_from(self, bed, raw):
        assert (raw.system, raw.cluster) == (bed.system, bed.cluster)
        assert raw.taken_at.utcoffset() == timedelta(0)
        assert raw.answers
        assert all(isinstance(answer.out, bytes) for answer in raw.answers.values())

    def test_tables_have_their_schemas(self, bed, snapshot):
        assert snapshot.jobs.height + snapshot.nodes.height > 0
        for name, frame in snapshot.tables().items():
            schema = dict(SCHEMAS[name])
            assert list(frame.columns)[: len(schema)] == list(schema)
            assert {column: frame.schema[column] for column in schema} == {
                column: dtype() if isinstance(dtype, type) else dtype for column, dtype in schema.items()
            }
            assert all(column.startswith(f"{bed.system}_") for column in frame.columns[len(schema) :])
            assert (frame["cluster"] == bed.cluster).all()

    def test_meta_is_of_this_cluster(self, bed, raw, snapshot):
        assert (snapshot.meta.cluster, snapshot.meta.system) == (bed.cluster, bed.system)
        assert snapshot.meta.taken_at.utcoffset() == timedelta(0)
        assert EARLIEST < snapshot.meta.taken_at < LATEST
        for gap in snapshot.gaps:
            assert gap.source
            assert gap.reason
            assert gap.since.utcoffset() == timedelta(0)

    @pytest.mark.parametrize("table", KEYS)
    def test_keys_are_unique(self, snapshot, table):
        keys = snapshot.table(table).select(KEYS[table])
        assert keys.is_duplicated().sum() == 0
        assert keys[KEYS[table][0]].null_count() == 0

    def test_rows_name_rows_that_are_there(self, snapshot):
        reads = snapshot.meta.capabilities.reads
        nodes, queues = set(snapshot.nodes["name"]), set(snapshot.queues["id"])
        active = snapshot.jobs.filter(pl.col("state").cast(pl.String).is_in(ACTIVE_STATES))
        if "nodes" in reads:
            assert set(active.filter(pl.col("state") != "pending")["nodelist"].explode().drop_nulls()) <= nodes
            assert set(snapshot.gpus["node"]) <= nodes
            assert set(snapshot.reservations["nodelist"].explode().drop_nulls()) <= nodes
        if "queues" in reads:
            assert set(active["bound_by"].explode().drop_nulls()) <= queues
            assert set(snapshot.quotas["queue"]) <= queues
            assert all(":" in queue for queue in queues)

    def test_states_are_said(self, snapshot):
        for table, column in STATES.items():
            assert snapshot.table(table)[column].null_count() == 0
        for table in ("jobs", "nodes"):
            frame = snapshot.table(table)
            assert frame["state_raw"].null_count() == 0, "the system's own word stands beside each state"
        assert snapshot.quotas.filter(pl.col("main").is_not_null())["main"].is_in(["nominal", "limit"]).all()

    def test_figures_are_figures(self, snapshot):
        for name, frame in snapshot.tables().items():
            for column, dtype in SCHEMAS[name].items():
                if dtype == pl.Float64:
                    values = frame[column].drop_nulls()
                    assert not values.is_nan().any(), f"{name}.{column} is NaN"
                    signed = column == "priority"
                    assert signed or (values >= 0).all(), f"{name}.{column} is negative"
                    if column.endswith("_ratio"):
                        assert (values <= 1).all(), f"{name}.{column} is above 1"

    def test_zero_is_not_said_for_what_is_not_known(self, snapshot):
        jobs = snapshot.jobs
        assert jobs.filter((pl.col("gpus") == 0) & pl.col("gpu_model").is_not_null()).is_empty()
        assert jobs.filter((pl.col("gpus") == 0) & (pl.col("gpus_per_node") > 0)).is_empty()
        assert jobs.filter(pl.col("time_limit_s") == 0).is_empty()
        assert jobs.filter(pl.col("tasks") < 1).is_empty()
        assert jobs.filter((pl.col("state") == "running") & (pl.col("nodes") == 0)).is_empty()
        for column in ("time_limit_s", "gpus", "cpus"):
            huge = jobs.filter((pl.col(column) > 2**31) & pl.col(column).is_finite())
            assert huge.is_empty(), f"{column} holds a sentinel"
        nodes = snapshot.nodes
        assert nodes.filter(pl.col("gpus_allocated") > pl.col("gpus")).is_empty()
        assert nodes.filter((pl.col("cpus") == 0) | (pl.col("memory_bytes") == 0)).is_empty()
        silent = snapshot.gpus.filter(pl.col("memory_total_bytes") == 0)
        assert silent.is_empty()

    def test_times_are_times(self, snapshot):
        for name, frame in snapshot.tables().items():
            for column, dtype in SCHEMAS[name].items():
                if isinstance(dtype, pl.Datetime):
                    values = frame[column].drop_nulls()
                    assert values.is_between(EARLIEST, LATEST).all(), f"{name}.{column} is no time"
        jobs = snapshot.jobs
        assert jobs.filter(pl.col("submit_time") > pl.col("start_time")).is_empty()
        assert jobs.filter(pl.col("start_time") > pl.col("end_time")).is_empty()
        assert jobs.filter((pl.col("state") == "running") & pl.col("start_time").is_null()).is_empty()
        assert jobs.filter((pl.col("state") == "pending") & pl.col("start_time").is_not_null()).is_empty()

    def test_interpreting_is_pure(self, bed, connector, raw):
        before = msgspec.msgpack.encode(raw)
        first = connector.interpret(raw)
        same(first, connector.interpret(raw))
        assert msgspec.msgpack.encode(raw) == before
        same(first, bed.open().interpret(raw))

    def test_an_answer_that_cannot_be_read_is_never_swallowed(self, bed, connector, raw, snapshot):
        for name, answer in raw.answers.items():
            garbled = with_answer(raw, name, msgspec.structs.replace(answer, out=b"\x00\xff{]|=nonsense\n", code=0))
            lost = with_answer(raw, name, None)
            cut = with_answer(raw, name, msgspec.structs.replace(answer, out=answer.out[: len(answer.out) // 2]))
            for wrong in (garbled, lost, cut):
                try:
                    told = connector.interpret(wrong)
                except ConnectorError:
                    continue
                assert told.meta.cluster == snapshot.meta.cluster
                may_differ = wrong is cut or (wrong is lost and name in bed.optional)
                if not may_differ and set(told.gaps) <= set(snapshot.gaps):
                    differing = [
                        table for table, frame in told.tables().items() if not frame.equals(snapshot.table(table))
                    ]
                    assert not differing, f"{name}: no gap says that {differing} can't be known"
                    assert told.rules == snapshot.rules, f"{name}: no gap says that the rules can't be known"

    async def test_history_holds_jobs_that_ended(self, connector, raw, snapshot):
        since = snapshot.meta.taken_at - timedelta(hours=6)
        if not snapshot.meta.capabilities.history:
            with pytest.raises(Unsupported):
                await connector.history(since)
            return
        try:
            frame = await connector.history(since)
        except Unsupported:
            pytest.skip("this capture holds no history")
        schema = dict(SCHEMAS["jobs"])
        assert list(frame.columns)[: len(schema)] == list(schema)
        assert (frame["cluster"] == connector.cluster).all()
        assert not frame["state"].cast(pl.String).is_in(ACTIVE_STATES).any()
        assert frame["end_time"].null_count() == 0
        assert (frame["end_time"] >= since).all()

    async def test_logs_of_no_job_are_not_found(self, connector, snapshot):
        expected = (NotFound, Unsupported) if snapshot.meta.capabilities.logs else Unsupported
        with pytest.raises(expected):
            await anext(aiter(connector.logs(NOWHERE)))

    # Captures

    async def test_a_capture_says_the_same(self, bed, connector, raw, snapshot, tmp_path):
        written = save_raw(raw, tmp_path / "capture")
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in written)
        assert load_raw(tmp_path / "capture") == raw
        opened = bed.open(captured=tmp_path / "capture")
        again = opened.interpret(await opened.read())
        same(snapshot, again)
        await opened.close()

    async def test_a_capture_cannot_be_changed(self, bed, connector, raw, snapshot, tmp_path):
        save_raw(raw, tmp_path / "capture")
        opened = bed.open(captured=tmp_path / "capture")
        again = opened.interpret(await opened.read())
        assert again.meta.capabilities.writes == ()
        assert opened.capabilities.writes == ()
        changes = next(iter(resolved(connector, bed, snapshot)), None)
        if changes is not None:
            with pytest.raises((ReadOnly, Unsupported)):
                await opened.apply(opened.plan(changes, again))
        await opened.close()

    # What changes mean

    def test_what_is_not_there_is_not_found(self, connector, snapshot):
        for change in unknown(snapshot):
            with pytest.raises((NotFound, Unsupported)) as caught:
                connector.resolve(change, snapshot)
            if verb(change) in snapshot.meta.capabilities.writes:
                assert isinstance(caught.value, NotFound), change

    def test_resolving_is_pure_and_settles(self, bed, connector, raw, snapshot):
        for changes in resolved(connector, bed, snapshot):
            assert changes
            for change in changes:
                assert connector.resolve(change, snapshot) == (change,)
        same(snapshot, connector.interpret(raw))

    def test_resolved_changes_can_be_written_and_read(self, bed, connector, snapshot):
        for changes in resolved(connector, bed, snapshot):
            for change in changes:
                assert read_one(write(change), now=snapshot.meta.taken_at) == change

    def test_a_bare_queue_name_will_do(self, bed, connector, snapshot):
        names = [queue.partition(":")[2] for queue in snapshot.queues["id"]]
        for changes in resolved(connector, bed, snapshot):
            for change in changes:
                queue = getattr(change, "queue", None)
                if queue and names.count(queue.partition(":")[2]) == 1:
                    bare = msgspec.structs.replace(change, queue=queue.partition(":")[2])
                    try:
                        found = connector.resolve(bare, snapshot)
                    except Ambiguous as error:  # a system may know more names: Slurm's associations, by their user
                        assert change.queue in error.candidates  # noqa: PT017 - it need not be raised
                        continue
                    assert found == (change,)

    def test_plans_can_be_read_and_stand_on_the_ground(self, bed, connector, raw, snapshot):
        for changes in resolved(connector, bed, snapshot):
            plan = connector.plan(changes, snapshot)
            assert (plan.cluster, plan.system, plan.changes) == (bed.cluster, bed.system, changes)
            assert plan.steps
            for step in plan.steps:
                assert step.says.strip()
                assert step.native.strip()
            assert plan.expects
            assert ground.moved(plan.expects, snapshot) == []
            assert plan.results
            assert ground.moved(plan.results, snapshot), f"{write(changes[0])} changes nothing that is read back"
            assert (plan.inverse is None) == bool(plan.why_no_inverse)
            assert msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=Plan) == plan
            assert connector.plan(changes, snapshot) == plan
        same(snapshot, connector.interpret(raw))


class ConnectorContract(ReadingContract):
    """The whole suite, for a cluster that answers now. A subclass gives the fixture `bed`."""

    async def test_observing_yields_snapshots_politely(self, bed, connector):
        times, taken = [], []

        async def two():
            stream = connector.observe()
            try:
                async for one in stream:
                    times.append(asyncio.get_running_loop().time())
                    taken.append(one.meta.taken_at)
                    if len(taken) == 2:
                        return
            finally:
                await stream.aclose()

        await asyncio.wait_for(two(), bed.patience_s)
        assert all(b - a >= 0.95 for a, b in pairwise(times))
        assert taken == sorted(set(taken))

    @pytest.mark.parametrize("word", VERBS)
    async def test_a_change_is_carried_out_and_taken_back(self, bed, connector, snapshot, word):
        if not bed.writes or word not in snapshot.meta.capabilities.writes:
            pytest.skip("not written here")
        changes, before = self._first(bed, connector, snapshot, word), None
        if changes is None and word in PREPARED:
            prepare = self._first(bed, connector, snapshot, PREPARED[word])
            if prepare is not None:
                before = await connector.apply(connector.plan(prepare, snapshot))
                snapshot = connector.interpret(await connector.read())
                changes = self._first(bed, connector, snapshot, word)
        if changes is None:
            pytest.skip(f"nothing here that {word} makes sense for")
        plan = connector.plan(changes, snapshot)
        receipt = await connector.apply(plan)
        assert receipt.outcome == "verified", [one for one in receipt.found if not one.ok]
        assert receipt.plan == plan
        assert len(receipt.answers) == len(plan.steps)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(receipt), type=Receipt) == receipt
        other = bed.open()
        try:
            await self._seen_and_taken_back(bed, other, receipt, word)
            if before is not None:
                await self._undo(other, before, other.interpret(await other.read()))
        finally:
            await other.close()

    async def _seen_and_taken_back(self, bed, other, receipt, word):
        plan = receipt.plan
        changed = other.interpret(await other.read())
        assert ground.moved(plan.results, changed) == [], "another connector does not see it"
        if word not in bed.drifting:
            with pytest.raises(Moved) as caught:
                await other.apply(plan)
            assert caught.value.moved
        if word in NO_WAY_BACK:
            assert receipt.undo is None
        elif word in bed.drifting and receipt.undo is None:
            assert plan.why_no_inverse
        elif word == "release":  # the system may start it at any moment, and a running job can't be held again
            with suppress(Moved, BadWords):
                await self._undo(other, receipt, changed)
        else:
            assert receipt.undo is not None
            await self._undo(other, receipt, changed)
            again = other.interpret(await other.read())
            assert ground.moved(_stable(plan), again) == []

    def _first(self, bed, connector, snapshot, word):
        return next((some for some in resolved(connector, bed, snapshot) if verb(some[0]) == word), None)

    async def _undo(self, connector, receipt, snapshot):
        back = tuple(one for change in receipt.undo for one in connector.resolve(change, snapshot))
        undone = await connector.apply(connector.plan(back, snapshot))
        assert undone.outcome == "verified", [one for one in undone.found if not one.ok]


def _stable(plan: Plan) -> list[Any]:
    """Return what a plan expected of that which it changes: the values that undoing it must bring back."""
    touched = {(one.table, one.key, one.column) for one in plan.results}
    return [one for one in plan.expects if (one.table, one.key, one.column) in touched]
