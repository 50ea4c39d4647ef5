"""Reading real Slurm over real SSH: job for job what squeue and sacct say, and what is left when daemons are down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
import pytest
from bed import SlurmBed

from connectors.errors import Unreachable, Unsupported
from connectors.model import Snapshot
from connectors.slurm import SlurmConnector

Read = TypeVar("Read")


def connector(slurm: SlurmBed, user: str = "opsadmin", **settings: Any) -> SlurmConnector:
    return SlurmConnector.open("bed", {"host": slurm.host(user), "ssh_config": str(slurm.ssh_config), **settings})


@pytest.fixture
async def bed(slurm: SlurmBed) -> AsyncIterator[SlurmConnector]:
    made = connector(slurm)
    yield made
    await made.close()


async def snapshot_of(made: SlurmConnector, *, everything: bool = True) -> Snapshot:
    return made.interpret(await made.read(everything=everything))


def native(slurm: SlurmBed, *argv: str) -> list[list[str]]:
    done = slurm.run("root", ["env", "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0", *argv], check=True)
    return [line.split("\x1f") for line in done.stdout.splitlines()]


async def while_nothing_moves(
    ask: Callable[[], list[list[str]]], read: Callable[[], Awaitable[Read]]
) -> tuple[list[list[str]], Read]:
    """Return what Slurm's tool says and what was read, taken while the tool said the same before and after."""
    for _ in range(8):
        before = ask()
        mine = await read()
        if ask() == before:
            return before, mine
    raise AssertionError("the cluster does not come to rest")


async def test_jobs_agree_with_squeue_job_for_job(slurm: SlurmBed, bed: SlurmConnector) -> None:
    slurm.scenario()
    asked = "%i\x1f%u\x1f%a\x1f%P\x1f%q\x1f%T\x1f%D\x1f%V\x1f%N\x1f%Q"
    rows, snapshot = await while_nothing_moves(
        lambda: native(slurm, "squeue", "-h", "-a", "-t", "all", "-S", "i", "-o", asked), lambda: snapshot_of(bed)
    )
    assert snapshot.gaps == ()
    assert len(rows) == len(snapshot.jobs) > 30
    mine = {row["id"]: row for row in snapshot.jobs.to_dicts()}
    for job, user, account, partition, qos, state, nodes, submit, nodelist, priority in rows:
        row = mine[job.partition("%")[0] + ("]" if "%" in job else "")]
        assert (row["user"], row["team"], row["slurm_partition"], row["slurm_qos"]) == (user, account, partition, qos)
        assert (row["state_raw"], row["nodes"], row["priority"]) == (state, int(nodes), float(priority))
        assert row["submit_time"] == datetime.fromtimestamp(int(submit), UTC)
        assert (row["nodelist"] == []) == (nodelist == "")


async def test_gpus_agree_with_the_nodes_and_with_slurmctlds_counters(slurm: SlurmBed, bed: SlurmConnector) -> None:
    slurm.scenario()
    snapshot = await snapshot_of(bed)
    assert snapshot.nodes["gpus"].sum() == 64
    busy = snapshot.jobs.filter(pl.col("state").cast(pl.String) == "running")
    assert snapshot.nodes["gpus_allocated"].sum() == (busy["gpus"] * busy["tasks"]).sum() == 52
    assert (snapshot.gpus["state"].cast(pl.String) == "allocated").sum() == 52
    limits = snapshot.quotas.filter(pl.col("model").is_null() & pl.col("limit").is_finite())
    by_queue = {row["queue"]: (row["limit"], row["used"]) for row in limits.to_dicts()}
    assert by_queue["qos:train"] == (24.0, 24.0)
    assert by_queue["account:vision"][0] == 20.0
    assert by_queue["assoc:vision/tomas"] == (4.0, 1.0)


async def test_any_name_comes_back_byte_for_byte(slurm: SlurmBed, bed: SlurmConnector) -> None:
    slurm.reset()
    names = slurm.hostile()
    jobs = (await snapshot_of(bed)).jobs
    mine = dict(jobs.select("slurm_job_id", "name").iter_rows())
    assert "first line\nsecond line" in names.values()
    assert {job: mine[str(job)] for job in names} == names
    slurm.reset()


@pytest.fixture
def noisy_login() -> Iterator[str]:
    """A user whose start-up file prints, and changes Slurm's formats."""
    profile = Path("~kenji/.bashrc").expanduser()
    before = profile.read_bytes() if profile.exists() else None
    noise = b"echo Welcome; echo oops >&2; export SQUEUE_FORMAT=%i SLURM_TIME_FORMAT=relative LC_ALL=C\n"
    profile.write_bytes(noise + (before or b""))
    yield "kenji"
    if before is None:
        profile.unlink()
    else:
        profile.write_bytes(before)


async def test_the_login_environment_of_a_user_changes_nothing(slurm: SlurmBed, noisy_login: str) -> None:
    made = connector(slurm, noisy_login)
    snapshot = await snapshot_of(made)
    await made.close()
    assert snapshot.gaps == ()
    assert snapshot.meta.user == "kenji"
    assert snapshot.meta.capabilities.writes == ("hold", "release", "cancel", "requeue")


@pytest.mark.parametrize(
    ("user", "queue", "may"),
    [
        ("opsadmin", "qos:train", True), ("opsoper", "qos:train", False), ("opsoper", "account:vision", True),
        ("vcoord", "assoc:vision/tomas", True), ("vcoord", "account:vision", False), ("mira", "assoc:vision/mira", False),
    ],
)  # fmt: skip
async def test_writable_follows_the_role(slurm: SlurmBed, user: str, queue: str, may: bool) -> None:
    made = connector(slurm, user)
    queues = (await snapshot_of(made)).queues
    await made.close()
    assert bool(queues.filter(pl.col("id") == queue)["writable"][0].len()) is may


async def test_history_agrees_with_sacct(slurm: SlurmBed, bed: SlurmConnector) -> None:
    slurm.scenario()
    since = datetime.now(UTC) - timedelta(hours=6)
    start = since.strftime("%Y-%m-%dT%H:%M:%S")
    asked = "JobID,State,End,NNodes"
    argv = ("env", "TZ=UTC0", "sacct", "-a", "-D", "-X", "-P", "-n", "-S", start, "--delimiter=\x1f", "-o", asked)
    rows, frame = await while_nothing_moves(lambda: native(slurm, *argv), lambda: bed.history(since))
    ended = [row for row in rows if row[2] not in {"Unknown", "None"} and int(row[2]) >= since.timestamp()]
    mine = sorted((row["id"], row["state_raw"], str(int(row["end_time"].timestamp()))) for row in frame.to_dicts())
    assert mine == sorted((job, state, end) for job, state, end, _nodes in ended)
    assert len(mine) >= 4


async def test_slurmctld_down_is_unreachable_and_heals(slurm: SlurmBed, bed: SlurmConnector) -> None:
    assert len((await snapshot_of(bed)).nodes) == 8
    with slurm.broken("slurmctld"), pytest.raises(Unreachable, match="Unable to contact slurm controller"):
        await snapshot_of(bed)
    assert len((await snapshot_of(bed)).nodes) == 8


async def test_slurmdbd_down_is_a_gap_and_the_rest_stays(slurm: SlurmBed) -> None:
    made = connector(slurm)
    with slurm.broken("slurmdbd"):
        snapshot = await snapshot_of(made)
        assert {"sacctmgr show qos", "sacctmgr show assoc"} <= {gap.source for gap in snapshot.gaps}
        assert len(snapshot.nodes) == 8
        limits = snapshot.quotas.filter((pl.col("queue") == "qos:train") & pl.col("model").is_null())
        assert limits["limit"].to_list() == [24.0]
        with pytest.raises(Unreachable):
            await made.history(datetime.now(UTC) - timedelta(hours=1))
    assert (await snapshot_of(made)).gaps == ()
    await made.close()


async def test_a_refresh_is_light(slurm: SlurmBed, bed: SlurmConnector) -> None:
    slurm.scenario()
    await bed.read()
    raw = await bed.read()
    assert bed.interpret(raw).meta.calls == 4
    assert raw.took_ms is not None
    assert raw.took_ms < 2000
    assert abs(bed.interpret(raw).meta.clock_skew_s or 0.0) < 2


async def test_logs_follow_the_output_until_the_job_ends(slurm: SlurmBed, bed: SlurmConnector, tmp_path: Path) -> None:
    slurm.reset()
    output = f"/tmp/gpudeck log {tmp_path.name} $(id) %j.out"
    body = "echo first; printf 'two\\377\\n'; sleep 4; echo last"
    job = slurm.submit("kenji", "talks", "-t", "2", "-o", output, body=body)
    for _try in range(40):
        if slurm.states()[job][0] == "RUNNING":
            break
        await asyncio.sleep(0.25)
    await asyncio.sleep(1)
    lines = [line async for line in bed.logs(str(job))]
    slurm.run("root", ["rm", output.replace("%j", str(job))], check=True)
    assert lines == ["first", "two\\xff", "last"]


async def test_logs_that_are_not_there(slurm: SlurmBed, bed: SlurmConnector) -> None:
    slurm.scenario()
    job = next(iter((await snapshot_of(bed)).jobs.filter(pl.col("name") == "notebook")["id"]))
    with pytest.raises(Unsupported, match="no output file"):
        await anext(bed.logs(job))


async def test_a_local_shell_reads_the_same(
    slurm: SlurmBed, monkeypatch: pytest.MonkeyPatch, bed: SlurmConnector
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.slurm_conf))
    here = SlurmConnector.open("bed", {"transport": "local"})
    mine, theirs = await snapshot_of(here), await snapshot_of(bed)
    assert mine.jobs["key"].to_list() == theirs.jobs["key"].to_list()
    assert mine.meta.user == "root"
