"""The engine over scripted connectors: one that fails spoils nothing, and recovers by itself."""

import asyncio
from datetime import UTC, datetime

import polars as pl
import pytest

from connectors.connector import Capabilities, Meta, Raw
from connectors.errors import Ambiguous, BadWords, NotFound, Unreachable, Unsupported
from connectors.model import Snapshot
from connectors.rules import FifoRules
from console import engine as engine_module
from console.config import ClusterConfig, Config
from console.engine import Engine, Reading, find_in_all
from console.messages import ClusterStatus, Frames
from console.observatory import Observatory

NOW = datetime(2026, 11, 30, 21, 0, tzinfo=UTC)
ABLE = Capabilities(reads=("jobs",), writes=("hold",))


class Scripted:
    """A connector that answers what it was told to."""

    system = "scripted"
    interval_s = 0.05
    slowed = False

    def __init__(self, cluster, settings):
        self.cluster = cluster
        self.fails = settings.get("fails", False)
        self.jobs = settings.get("jobs", ["1"])
        self.slow_s = settings.get("slow_s", 0)
        self.capabilities = ABLE
        self.closed = 0

    @classmethod
    def open(cls, cluster, settings, *, captured=None):
        if "nonsense" in settings:
            raise BadWords("nonsense is not a setting", text="nonsense")
        return cls(cluster, settings)

    async def read(self, *, everything=False):
        await asyncio.sleep(self.slow_s)
        if self.fails:
            raise Unreachable("connection refused", cluster=self.cluster, source="ssh")
        return Raw(system="scripted", cluster=self.cluster, taken_at=NOW)

    def interpret(self, raw):
        meta = Meta(cluster=self.cluster, system="scripted", version="1", taken_at=raw.taken_at, capabilities=ABLE)
        jobs = pl.DataFrame(
            {"id": self.jobs, "key": self.jobs, "state": ["pending"] * len(self.jobs), "gpus": [1.0] * len(self.jobs)}
        )
        return Snapshot.of(meta, rules=FifoRules(), jobs=jobs)

    async def observe(self):
        while True:
            yield self.interpret(await self.read())
            await asyncio.sleep(0.05)

    async def history(self, since):
        raise Unsupported("no history", cluster=self.cluster, capability="history")

    async def close(self):
        self.closed += 1


@pytest.fixture
def make(monkeypatch):
    monkeypatch.setattr(engine_module, "connector_class", lambda system: Scripted)

    def make(**clusters):
        configs = tuple(
            ClusterConfig(name=name, system="scripted", settings=settings) for name, settings in clusters.items()
        )
        return Engine(Config(), configs, timeout_s=0.5)

    return make


async def test_one_failing_cluster_spoils_nothing(make):
    engine = make(a={}, b={"fails": True}, c={"slow_s": 5})
    readings = {reading.cluster: reading for reading in await engine.read_all()}
    assert readings["a"].snapshot is not None
    assert isinstance(readings["b"].error, Unreachable)
    assert "no answer within 0.5 s" in str(readings["c"].error)


async def test_a_job_is_found_where_it_is(make):
    engine = make(a={"jobs": ["1", "2"]}, b={"jobs": ["2", "3"]}, c={"fails": True})
    readings = await engine.read_all()
    assert find_in_all(readings, "3")[0] == "b"
    with pytest.raises(Ambiguous, match=r"2 on a.*2 on b"):
        find_in_all(readings, "2")
    with pytest.raises(Unreachable):
        find_in_all(readings, "9")
    with pytest.raises(NotFound):
        find_in_all([reading for reading in readings if reading.cluster != "c"], "9")
    assert find_in_all([Reading("a", readings[0].snapshot, None)], "1")[1]["id"] == "1"


def test_settings_are_complained_of_with_their_line(monkeypatch, tmp_path):
    from console.config import parse

    monkeypatch.setattr(engine_module, "connector_class", lambda system: Scripted)
    config = parse("[clusters.a]\nsystem='scripted'\n\nnonsense=1", tmp_path / "c.toml")
    with pytest.raises(BadWords, match="line 4"):
        Engine(config, config.clusters)


async def test_history_that_does_not_exist_is_no_gap(make):
    engine = make(a={})
    assert await engine.history("a") is None
    assert engine.member("a").history_gap is None


async def until(condition, seconds=10):
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come to that")


async def test_the_observatory_keeps_the_picture_and_recovers(make, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUDECK_STATE", str(tmp_path))
    engine = make(a={}, b={"fails": True})
    events = []
    observatory = Observatory(engine, events.append)
    observatory.start()

    def status(name):
        return next(s for s in observatory.statuses if s.cluster == name)

    await until(lambda: status("a").taken_at is not None and status("b").state == "failed")
    assert "connection refused" in status("b").error
    engine.member("a").connector.fails = True
    await until(lambda: status("a").state == "stale")
    stale = status("a")
    assert stale.taken_at == NOW
    assert stale.summary.pending == 1
    engine.member("a").connector.fails = False
    engine.member("b").connector.fails = False
    await observatory.refresh(None)
    await until(lambda: {s.state for s in observatory.statuses} <= {"ok", "act"})
    assert status("a").error is None
    await observatory.close()
    assert any(isinstance(event, Frames) for event in events)
    assert all(isinstance(event, ClusterStatus | Frames) for event in events)
    from console.wire import load_last

    assert {s.cluster for s in load_last()} == {"a", "b"}
