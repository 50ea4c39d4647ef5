"""A live session while things break: the engine keeps running, says what is stale since when, and recovers by itself."""

import asyncio
import os
from datetime import UTC, datetime, timedelta

import pytest

from console.link import EngineLink
from console.messages import Begin, ClusterStatus

pytestmark = pytest.mark.slurm
NAME = "opsadmin"


class Session:
    """A screen's side of a live engine: the newest status of the one cluster."""

    def __init__(self, link):
        self.link = link
        self.status = None
        self.downs = 0
        self._pump = asyncio.create_task(self._follow())

    async def _follow(self):
        async for event in self.link.events():
            if isinstance(event, ClusterStatus):
                self.status = event
            elif type(event).__name__ == "EngineDown":
                self.downs += 1

    async def until(self, what, condition, seconds=60):
        for _ in range(seconds * 10):
            if self.status is not None and condition(self.status):
                return self.status
            await asyncio.sleep(0.1)
        raise AssertionError(f"{what}: {self.status}")

    async def fresh(self, seconds=60):
        """Wait for a reading that was taken after now."""
        now = datetime.now(UTC)
        return await self.until(
            "a fresh reading", lambda s: s.state in {"ok", "act"} and s.taken_at and s.taken_at > now, seconds
        )

    async def close(self):
        await self.link.close()
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)


@pytest.fixture
async def session(deck, monkeypatch):
    monkeypatch.setenv("GPUDECK_STATE", deck.environment["GPUDECK_STATE"])
    config = deck.config.read_text().replace('access = "write"', 'access = "write"\ninterval = "2s"')
    deck.config.write_text(config)
    session = Session(EngineLink(Begin(config=str(deck.config), clusters=(NAME,))))
    await session.until("a first reading", lambda s: s.taken_at is not None)
    yield session
    assert session.downs == 0, "the engine must never end"
    await session.close()


async def broken(slurm, name, *, hard=False):
    await asyncio.to_thread(slurm.stop, name, hard=hard)


async def healed(slurm, name):
    await asyncio.to_thread(slurm.start, name)


@pytest.mark.parametrize(
    ("daemon", "says"),
    [("slurmctld", "Unable to contact slurm controller"), ("munged", "uthentication"), ("sshd", "")],
)
async def test_a_dead_service_is_said_and_recovered_from(slurm, session, daemon, says):
    before = await session.fresh()
    await broken(slurm, daemon)
    if daemon == "sshd":
        await asyncio.to_thread(slurm.kill_ssh_sessions)
    try:
        stale = await session.until(f"{daemon} is missed", lambda s: s.state == "stale")
        assert says in (stale.error or "")
        assert stale.error
        assert stale.hint
        assert stale.taken_at >= before.taken_at, "the last picture stays"
        assert stale.summary.gpus == 64
        assert datetime.now(UTC) - stale.since < timedelta(seconds=60)
    finally:
        await healed(slurm, daemon)
    back = await session.fresh(90)
    assert back.error is None


async def test_a_dropped_connection_is_taken_up_again(slurm, session):
    await session.fresh()
    await asyncio.to_thread(slurm.kill_ssh_sessions)
    await session.fresh(60)


async def test_slurmdbd_down_is_a_gap_and_the_queue_stays_live(slurm, session):
    await session.fresh()
    await broken(slurm, "slurmdbd")
    try:
        status = await session.until(
            "the gap",
            lambda s: any("sacctmgr" in g.source or "sshare" in g.source or "slurmdbd" in g.reason for g in s.gaps),
            240,
        )
        assert status.state in {"ok", "act"}
        assert all(gap.since for gap in status.gaps)
        await session.fresh(120)
    finally:
        await healed(slurm, "slurmdbd")
    await session.until("no gap", lambda s: not s.gaps, 240)


async def test_a_lost_node_is_seen_and_comes_back(slurm, session):
    await session.fresh()
    await broken(slurm, "gpu05", hard=True)
    try:
        status = await session.until("the lost node", lambda s: (s.summary.nodes_lost or 0) >= 1, 240)
        assert any("gpu05" in item.what or "gpu05" in item.objects for item in status.attention), status.attention
    finally:
        await healed(slurm, "gpu05")
    await session.until("the node is back", lambda s: s.summary.nodes_lost == 0, 240)


async def test_nothing_is_left_running(slurm, session):
    process = session.link._process
    await session.fresh()
    await session.close()
    assert process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
