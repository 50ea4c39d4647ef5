"""Changes on real Slurm, over SSH, as each role: carried out, read back, undone; or refused in Slurm's own words."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from bed import SlurmBed

from connectors.change import Change, Plan, Receipt
from connectors.errors import Moved, NotPermitted, Refused, Unreachable, Unsupported
from connectors.language import only_changes, read
from connectors.slurm import SlurmConnector

REASON = """bad 'fan' | "x" $(reboot); a=b, 中"""


@asynccontextmanager
async def connected(slurm: SlurmBed, user: str) -> AsyncIterator[SlurmConnector]:
    connector = SlurmConnector.open("bed", {"host": slurm.host(user), "ssh_config": str(slurm.ssh_config)})
    try:
        yield connector
    finally:
        await connector.close()


async def planned(connector: SlurmConnector, words: Sequence[str] | Sequence[Change]) -> Plan:
    snapshot = connector.interpret(await connector.read())
    changes = [
        one
        for item in words
        for change in (only_changes(read([item], now=datetime.now(UTC))) if isinstance(item, str) else [item])
        for one in connector.resolve(change, snapshot)
    ]
    return connector.plan(changes, snapshot)


def shown(slurm: SlurmBed, *argv: str) -> str:
    return slurm.run("root", argv, check=True).stdout


def limits(slurm: SlurmBed) -> str:
    return shown(slurm, "sacctmgr", "-n", "-P", "show", "qos", "format=Name,GrpTRES,MaxWall,Priority") + shown(
        slurm, "sacctmgr", "-n", "-P", "show", "assoc", "format=Account,User,Share,GrpTRES,MaxWall"
    )


def partitions(slurm: SlurmBed) -> str:
    return shown(slurm, "scontrol", "-o", "show", "partition")


def drained(slurm: SlurmBed) -> list[tuple[str, str]]:
    """Nodes out of service and why; not what is allocated, which moves by itself."""
    lines = shown(slurm, "sinfo", "-h", "-N", "-o", "%N|%T|%E").splitlines()
    return sorted({(node, why) for node, state, why in (line.split("|", 2) for line in lines) if "drain" in state})


def reservations(slurm: SlurmBed) -> str:
    return shown(slurm, "scontrol", "-o", "show", "reservation")


def priorities(slurm: SlurmBed) -> set[str]:
    """Which jobs are held."""
    lines = shown(slurm, "squeue", "-h", "-t", "pending", "-o", "%i|%Q").splitlines()
    return {line.split("|")[0] for line in lines if line.endswith("|0")}


@pytest.fixture(scope="module")
def jobs(slurm: SlurmBed) -> dict[str, int]:
    return {name: one.id for name, one in slurm.scenario().items()}


CHANGES = {
    "limits": (
        ("quota qos:train gpus=8 model=a100 max_run=90m; quota qos:normal gpus=40; quota vision gpus=16 weight=35 "
         "max_run=1d; quota vision/tomas gpus=2 weight=3; quota qos:inference gpus=unlimited"),
        limits,
        ("train|gres/gpu:a100=8,gres/gpu=24|01:30:00", "normal|gres/gpu=40", "vision||35|gres/gpu=16|1-00:00:00",
         "vision|tomas|3|gres/gpu=2|", "inference||"),
    ),
    "twice": ("quota qos:train gpus=25; drain gpu03 reason=x; quota qos:train gpus=26", limits, ("train|gres/gpu=26",)),
    "partitions": (
        "quota partition:low max_run=unlimited weight=7; stop partition:interactive", partitions,
        ("MaxTime=UNLIMITED", "PriorityJobFactor=7", "State=DOWN"),
    ),
    "drain": (
        f"drain gpu01,gpu04 reason={shlex.quote(REASON)}; drain gpu02 reason='\"a\" and \"b\"'", drained,
        (repr(("gpu01", REASON)), repr(("gpu04", REASON)), repr(("gpu02", '"a" and "b"'))),
    ),
    "resume": ("resume gpu04", drained, ("[]",)),
    "reserve": (
        ("reserve night gpus=9 model=a100 start=now+30d end=now+31d users=mira,tomas accounts=vision; "
         "reserve day nodes=gpu07 start=now+400d end=now+401d"), reservations,
        ("ReservationName=night", "Users=mira,tomas", "ReservationName=day", "Users=opsadmin"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
async def test_changes_are_carried_out_read_back_and_undone(slurm: SlurmBed, jobs: dict[str, int], name: str) -> None:
    words, look, wanted = CHANGES[name]
    before = look(slurm)
    async with connected(slurm, "opsadmin") as connector:
        receipt = await connector.apply(await planned(connector, [words]))
        between = str(look(slurm))
        assert (receipt.outcome, receipt.said) == ("verified", None)
        assert [part for part in wanted if part not in between] == []
        assert between != str(before)
        assert receipt.undo
        undone = await connector.apply(await planned(connector, receipt.undo))
    assert undone.outcome == "verified"
    assert look(slurm) == before


async def test_only_the_queue_that_was_named_changes(slurm: SlurmBed, jobs: dict[str, int]) -> None:
    """Trap 1: a command without a name changes every QOS."""
    before = limits(slurm).splitlines()
    async with connected(slurm, "opsadmin") as connector:
        receipt = await connector.apply(await planned(connector, ["quota qos:train gpus=27"]))
        after = limits(slurm).splitlines()
        assert receipt.undo is not None
        await connector.apply(await planned(connector, receipt.undo))
    assert [(old, new) for old, new in zip(before, after, strict=True) if old != new] == [
        ("train|gres/gpu=24||500", "train|gres/gpu=27||500")
    ]


async def test_holds_are_read_back_and_undone(slurm: SlurmBed, jobs: dict[str, int]) -> None:
    before = priorities(slurm)
    waiting, held, array = str(jobs["vlm-eval"]), str(jobs["held-by-admin"]), str(jobs["sweep"])
    async with connected(slurm, "opsadmin") as connector:
        made = await planned(connector, [f"hold {waiting}; release {held}; hold {array}"])
        assert made.steps[2].argv == ("scontrol", "hold", f"{array}_[2-9]")
        receipt = await connector.apply(made)
        assert receipt.outcome == "verified"
        now = priorities(slurm)
        assert {waiting} <= now
        assert held not in now
        assert any(one.startswith(f"{array}_[") for one in now)
        assert receipt.undo is not None
        assert (await connector.apply(await planned(connector, receipt.undo))).outcome == "verified"
    assert priorities(slurm) == before
    running = shown(slurm, "squeue", "-h", "-j", array, "-t", "running", "-o", "%i|%Q").splitlines()
    assert running
    assert not any(line.endswith("|0") for line in running)  # the tasks that run were left alone


async def test_het_jobs_are_held_as_a_whole(slurm: SlurmBed, jobs: dict[str, int]) -> None:
    het = str(jobs["het"])
    async with connected(slurm, "opsadmin") as connector:
        receipt = await connector.apply(await planned(connector, [f"hold {het}+1"]))
        assert receipt.outcome == "verified"
        assert {f"{het}+0", f"{het}+1"} <= priorities(slurm)
        assert receipt.undo is not None
        await connector.apply(await planned(connector, receipt.undo))
    assert not {f"{het}+0", f"{het}+1"} & priorities(slurm)


async def test_cancel_requeue_and_priority(slurm: SlurmBed, jobs: dict[str, int]) -> None:
    options = ("-A", "research", "-p", "low", "-q", "low", "-t", "30", "--requeue")
    run = [slurm.submit("opsadmin", f"run-{n}", *options) for n in range(2)]
    wait = [slurm.submit("opsadmin", f"wait-{n}", *options, "--begin=now+1hour") for n in range(2)]
    array = slurm.submit("opsadmin", "tasks", *options, "--begin=now+1hour", "--array=1-9")
    slurm.wait_for("both run", lambda: all(slurm.states()[job][0] == "RUNNING" for job in run))
    words = [f"cancel {run[0]}", f"requeue {run[1]}", f"priority {wait[0]} value=4242", f"cancel {wait[1]}",
             f"cancel {array}_[2,4-5]"]  # fmt: skip
    async with connected(slurm, "opsadmin") as connector:
        receipt = await connector.apply(await planned(connector, words))
    assert (receipt.outcome, receipt.undo) == ("verified", None)
    assert receipt.plan.why_no_inverse
    lines = shown(slurm, "squeue", "-h", "-t", "all", "-o", "%i|%T %Q %j").splitlines()
    now = dict(line.split("|", 1) for line in lines if "|" in line)  # names of other tests hold line breaks
    assert now[str(run[0])].split()[0] in {"CANCELLED", "COMPLETING"}
    assert now[str(run[1])].split()[0] in {"PENDING", "COMPLETING"}
    assert now[str(wait[0])] == "PENDING 4242 wait-0"
    assert now[str(wait[1])].split()[0] == "CANCELLED"
    assert f"{array}_[1,3,6-9]" in now
    slurm.run("root", ["scancel", *map(str, [*run, *wait, array])], check=True)


REFUSED = {
    "mira": {
        "quota qos:train gpus=99": "doesn't have privilege",
        "quota account:vision gpus=99": "doesn't have privilege",
        "quota assoc:vision/mira gpus=99": ("Nothing modified", "didn't affect anything"),  # 22.05, 24.11
        "quota partition:low max_run=1h": "Invalid user id",
        "drain gpu03 reason=x": "Invalid user id",
        "resume gpu04": "Invalid user id",
        "stop partition:low": "Invalid user id",
        "reserve mine nodes=gpu03 start=now+30d end=now+31d": "Invalid user id",
        "unreserve vision-eval": "Invalid user id",
        "cancel {never}": "Access/permission denied",
        "hold {never}": "Invalid user id",
        "requeue {lm-sft}": "Access/permission denied",
        "priority {vlm-eval} value=60000": "Access/permission denied",
    },
    "anouk": {"release {held-by-admin}": "Access/permission denied"},
    "opsoper": {
        "quota qos:train gpus=26": "doesn't have privilege",
        "drain gpu03 reason=x": "Invalid user id",
    },
    "vcoord": {
        "quota account:vision gpus=24": "doesn't have privilege",
        "quota assoc:language/anouk gpus=24": "doesn't have privilege",
    },
}


@pytest.mark.parametrize("user", REFUSED)
async def test_refusals_are_in_slurms_own_words_and_nothing_changed(
    slurm: SlurmBed, jobs: dict[str, int], user: str
) -> None:
    def everything() -> tuple[object, ...]:
        return limits(slurm), partitions(slurm), drained(slurm), reservations(slurm), priorities(slurm)

    before = everything()
    seen = {}
    async with connected(slurm, user) as connector:
        for words in REFUSED[user]:
            made = await planned(connector, [words.format(**jobs)])
            with pytest.raises(NotPermitted) as caught:
                await connector.apply(made)
            error = caught.value
            seen[words] = (type(error), error.unchanged, error.exit_code, error.said)
    assert everything() == before
    for words, said in REFUSED[user].items():
        assert (words, *seen[words][:3]) == (words, NotPermitted, True, 5)
        assert any(one in seen[words][3] for one in ([said] if isinstance(said, str) else said)), seen[words]


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("opsoper", "quota account:vision gpus=21"),
        ("opsoper", "reserve oper nodes=gpu03 start=now+30d end=now+31d users=mira"),
        ("vcoord", "quota assoc:vision/tomas gpus=3"),
        ("vcoord", "hold {vlm-eval}"),
        ("mira", "hold {vlm-eval}"),
    ],
)
async def test_what_other_roles_may_is_carried_out_and_undone(
    slurm: SlurmBed, jobs: dict[str, int], user: str, words: str
) -> None:
    before = limits(slurm), reservations(slurm), priorities(slurm)
    async with connected(slurm, user) as connector:
        receipt = await connector.apply(await planned(connector, [words.format(**jobs)]))
        assert receipt.outcome == "verified"
        assert (limits(slurm), reservations(slurm), priorities(slurm)) != before
        assert receipt.undo is not None
        back = await planned(connector, receipt.undo)
        refusal = None
        try:
            await connector.apply(back)
        except NotPermitted as refused:
            refusal = refused
    if refusal is not None:  # 24.11 lets a coordinator lower a limit, and not raise it again
        assert user == "vcoord"
        assert "Coordinators can not increase" in refusal.said
        assert refusal.unchanged
        tomas = ["sacctmgr", "-i", "modify", "user", "where", "name=tomas", "account=vision"]
        slurm.run("root", [*tomas, "set", "GrpTRES=gres/gpu=4"], check=True)
    assert (limits(slurm), reservations(slurm), priorities(slurm)) == before


async def test_a_ground_that_moved_is_refused_before_anything_is_sent(slurm: SlurmBed, jobs: dict[str, int]) -> None:
    async with connected(slurm, "opsadmin") as connector:
        made = await planned(connector, ["quota qos:train gpus=28"])
        modify = ["sacctmgr", "-i", "modify", "qos", "where", "name=train", "set"]
        slurm.run("root", [*modify, "GrpTRES=gres/gpu=26"], check=True)
        try:
            with pytest.raises(Moved) as caught:
                await connector.apply(made)
            assert caught.value.moved == ("qos:train limit: expected 24, found 26",)
            assert "train|gres/gpu=26" in limits(slurm)
        finally:
            slurm.run("root", [*modify, "GrpTRES=gres/gpu=24"], check=True)


async def test_other_limits_of_a_qos_stay(slurm: SlurmBed, jobs: dict[str, int]) -> None:
    modify = ["sacctmgr", "-i", "modify", "qos", "where", "name=train", "set"]
    slurm.run("root", [*modify, "GrpTRES=cpu=512"], check=True)
    try:
        async with connected(slurm, "opsadmin") as connector:
            made = await planned(connector, ["quota qos:train gpus=28"])
            assert "cpu=512" in " ".join(made.notes)
            receipt = await connector.apply(made)
            assert "train|cpu=512,gres/gpu=28" in limits(slurm)
            assert receipt.undo is not None
            await connector.apply(await planned(connector, receipt.undo))
        assert "train|cpu=512,gres/gpu=24" in limits(slurm)
    finally:
        slurm.run("root", [*modify, "GrpTRES=cpu=-1"], check=True)


async def test_a_reservation_over_running_jobs_is_seen_beforehand_and_refused(
    slurm: SlurmBed, jobs: dict[str, int]
) -> None:
    async with connected(slurm, "opsadmin") as connector:
        made = await planned(connector, ["reserve busy nodes=gpu02 start=now+10m end=now+20m"])
        assert f"job {jobs['vlm-pretrain']} runs" in " ".join(made.notes)
        with pytest.raises(Refused, match="Requested nodes are busy") as caught:
            await connector.apply(made)
        assert caught.value.unchanged is True
        in_use = await planned(connector, ["unreserve vision-eval"])
        assert f"so Slurm will refuse: {jobs['in-resv']}" in " ".join(in_use.notes)
        with pytest.raises(Refused, match="Requested reservation is in use"):
            await connector.apply(in_use)
        with pytest.raises(Unsupported, match="in the way"):
            await planned(connector, ["reserve busy gpus=16 model=h100 start=now+10m end=now+20m"])


async def test_a_dropped_reservation_comes_back(slurm: SlurmBed, jobs: dict[str, int]) -> None:
    # it has begun: taken back, it begins anew, for Slurm refuses a start that is long past
    create = ["scontrol", "create", "reservation", "ReservationName=old", "StartTime=now", "Duration=60"]
    slurm.run("root", [*create, "Nodes=gpu04", "Users=mira", "Flags=FLEX,IGNORE_JOBS"], check=True)
    async with connected(slurm, "opsadmin") as connector:
        receipt = await connector.apply(await planned(connector, ["unreserve old"]))
        assert receipt.outcome == "verified"
        assert "ReservationName=old" not in reservations(slurm)
        assert receipt.undo is not None
        assert (await connector.apply(await planned(connector, receipt.undo))).outcome == "verified"
        (line,) = [line for line in reservations(slurm).splitlines() if "ReservationName=old" in line]
        for words in ("Nodes=gpu04", "Users=mira", "FLEX", "IGNORE_JOBS"):
            assert words in line
        assert (await connector.apply(await planned(connector, ["unreserve old"]))).outcome == "verified"


async def test_what_is_refused_halfway_can_be_taken_back(slurm: SlurmBed, jobs: dict[str, int]) -> None:
    before = limits(slurm)
    async with connected(slurm, "opsoper") as connector:
        words = ["quota account:vision gpus=21; quota qos:train gpus=26; quota account:vision gpus=22"]
        receipt: Receipt = await connector.apply(await planned(connector, words))
        assert receipt.outcome == "partial"
        assert "doesn't have privilege" in (receipt.said or "")
        assert len(receipt.answers) == 2
        assert receipt.undo is not None
        undone = await connector.apply(await planned(connector, receipt.undo))
    assert undone.outcome == "verified"
    assert limits(slurm) == before


async def test_nothing_is_sent_to_a_cluster_that_can_t_be_read(slurm: SlurmBed, jobs: dict[str, int]) -> None:
    before = limits(slurm)
    async with connected(slurm, "opsadmin") as connector:
        made = await planned(connector, ["quota qos:train gpus=28"])
        with slurm.broken("sshd"), pytest.raises(Unreachable):
            await connector.apply(made)
        assert limits(slurm) == before
        receipt = await connector.apply(made)
        assert receipt.outcome == "verified"
        assert receipt.undo is not None
        await connector.apply(await planned(connector, receipt.undo))
    assert limits(slurm) == before
    slurm.reset()
