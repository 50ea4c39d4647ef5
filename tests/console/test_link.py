"""The two processes: the engine answers over its pipe, is started again when it dies, and ends when asked."""

import asyncio
import os
import signal

import pytest

from console.link import EngineLink
from console.messages import (
    AskAudit,
    AuditList,
    Begin,
    ClusterStatus,
    Commit,
    Committed,
    EngineDown,
    EngineUp,
    ExplainJob,
    Failed,
    Frames,
    Proposal,
    Propose,
)  # fmt: skip
from console.wire import decode_frame


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUDECK_STATE", str(tmp_path))
    return tmp_path


async def first(events, kind):
    async for event in events:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} came")


async def test_a_demo_engine_end_to_end(state):
    link = EngineLink(Begin(clusters=("demo:lab48",)))
    events = link.events()
    try:
        up = await asyncio.wait_for(first(events, EngineUp), 30)
        assert up.clusters == ("demo:lab48",)
        frames = await asyncio.wait_for(first(events, Frames), 30)
        jobs = decode_frame(frames.tables["jobs"])
        assert {"verdict", "why"} <= set(jobs.columns)
        pump = asyncio.create_task(first(events, EngineDown))
        unknown = await link.send(ExplainJob(id=1, cluster="demo:lab48", job="no such"))
        assert isinstance(unknown, Failed)
        assert unknown.exit_code == 3
        proposal = await link.send(
            Propose(
                id=2, cluster="demo:lab48", words=f"drain {decode_frame(frames.tables['nodes'])['name'][0]} reason=test"
            )
        )
        assert isinstance(proposal, Proposal), proposal
        wrong = await link.send(Commit(id=3, proposal=proposal.id, typed="something else"))
        assert isinstance(wrong, Failed)
        done = await link.send(Commit(id=4, proposal=proposal.id, typed=proposal.confirm))
        assert isinstance(done, Committed), done
        assert done.receipt.outcome == "verified"
        listed = await link.send(AskAudit(id=5))
        assert isinstance(listed, AuditList)
        assert [entry.receipt for entry in listed.entries] == [done.receipt_id]
        pump.cancel()
    finally:
        await link.close()


async def test_a_dead_engine_is_said_and_started_again(state):
    link = EngineLink(Begin(clusters=("demo:lab48",)))
    events = link.events()
    try:
        await asyncio.wait_for(first(events, EngineUp), 30)
        os.kill(link._process.pid, signal.SIGKILL)
        down = await asyncio.wait_for(first(events, EngineDown), 30)
        assert "exit -9" in down.why
        with pytest.raises(ConnectionError):
            await link.send(AskAudit(id=1))
        await asyncio.wait_for(first(events, EngineUp), 30)
        assert await asyncio.wait_for(first(events, ClusterStatus), 30)
    finally:
        await link.close()


async def test_a_config_that_is_wrong_is_told(state, tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("[clusters.a]\nsystem='nix'\n")
    link = EngineLink(Begin(config=str(path)))
    events = link.events()
    try:
        down = await asyncio.wait_for(first(events, EngineDown), 30)
        assert "no such system" in down.why
    finally:
        await link.close()
