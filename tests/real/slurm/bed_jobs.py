"""Work for the bed: a scenario with most pending reasons, jobs with hostile names, and the way back to an empty bed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from bed_config import CLUSTER, NODES, Bed, BedError, slurm_version
from bed_process import run, wait_for

RESERVATION = "vision-eval"
DRAIN_REASON = "ECC errors on GPU 3, ticket 4711"
BUSY = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"

PARTITION_LIMITS = (
    ("interactive", "04:00:00"), ("train", "2-00:00:00"), ("key", "7-00:00:00"), ("inference", "UNLIMITED"),
    ("low", "1-00:00:00"),
)  # fmt: skip

# sacctmgr shows a limit under one name and sets it under another
QOS_FIELDS = {
    "Priority": "Priority", "GrpTRES": "GrpTRES", "GrpJobs": "GrpJobs", "GrpSubmit": "GrpSubmitJobs",
    "MaxTRES": "MaxTRESPerJob", "MaxTRESPU": "MaxTRESPerUser", "MaxJobsPU": "MaxJobsPerUser",
    "MaxSubmitPU": "MaxSubmitJobsPerUser", "MaxWall": "MaxWall",
}  # fmt: skip
ASSOC_FIELDS = {
    "Share": "Fairshare", "GrpTRES": "GrpTRES", "GrpJobs": "GrpJobs", "GrpSubmit": "GrpSubmitJobs",
    "MaxTRES": "MaxTRESPerJob", "MaxJobs": "MaxJobs", "MaxSubmit": "MaxSubmitJobs", "MaxWall": "MaxWall",
    "QOS": "QOS", "DefaultQOS": "DefaultQOS",
}  # fmt: skip


class Job(NamedTuple):
    """One job of the scenario: its id, its state, and how its reason begins (`None` is Slurm's own word)."""

    id: int
    state: str
    reason: str


Limits = dict[str, dict[str, str]]


def read_limits(bed: Bed) -> Limits:
    """All limits of QOS and associations: the words of a `where` clause to field and value, as sacctmgr shows them."""
    found: Limits = {}
    qos = ["show", "qos", f"format=Name,{','.join(QOS_FIELDS)}"]
    for line in run(bed, "root", ["sacctmgr", "-n", "-P", *qos], check=True).stdout.splitlines():
        name, *values = line.split("|")
        found[f"qos where name={name}"] = dict(zip(QOS_FIELDS, values, strict=True))
    assoc = ["show", "assoc", f"cluster={CLUSTER}", f"format=Account,User,{','.join(ASSOC_FIELDS)}"]
    for line in run(bed, "root", ["sacctmgr", "-n", "-P", *assoc], check=True).stdout.splitlines():
        account, user, *values = line.split("|")
        who = f"user where name={user} account={account}" if user else f"account where name={account}"
        found[f"{who} cluster={CLUSTER}"] = dict(zip(ASSOC_FIELDS, values, strict=True))
    return found


def save_limits(bed: Bed) -> None:
    """Remember the limits of the fresh bed: what `restore_limits` goes back to."""
    (bed.dir / "limits.json").write_text(json.dumps(read_limits(bed), indent=1))


def _assignment(field: str, setter: str, now: str, wanted: str) -> str:
    if "TRES" not in field:
        return f"{setter}={wanted or '-1'}"
    gone = [part.rpartition("=")[0] for part in now.split(",") if part]
    kept = {part.rpartition("=")[0] for part in wanted.split(",") if part}
    parts = [*(part for part in wanted.split(",") if part), *(f"{tres}=-1" for tres in gone if tres not in kept)]
    return f"{setter}={','.join(parts)}"


def restore_limits(bed: Bed) -> None:
    """Set every limit of QOS, accounts and users back to the fresh bed's; only what differs is written."""
    wanted: Limits = json.loads((bed.dir / "limits.json").read_text())
    now = read_limits(bed)
    lines = []
    for where, fields in wanted.items():
        names = QOS_FIELDS if where.startswith("qos") else ASSOC_FIELDS
        have = now.get(where)
        if have is None:
            raise BedError(f"the bed lost its {where}: take it down and remove its folder")
        changed = [_assignment(f, names[f], have[f], value) for f, value in fields.items() if have[f] != value]
        if changed:
            lines.append(f"modify {where} set {' '.join(changed)}\n")
    if lines:
        run(bed, "root", ["sacctmgr", "-i"], stdin="".join(lines), check=True)
        if read_limits(bed) != wanted:
            raise BedError("the limits could not be set back:\n" + "".join(lines))


def _rows(bed: Bed, form: str, *options: str) -> list[list[str]]:
    done = run(bed, "root", ["squeue", "-h", "-r", "-o", form, *options], check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def cancel_all(bed: Bed) -> None:
    """Cancel every job and wait until none is left in the queue, completing ones included."""

    def empty() -> bool:
        # 22.05 no longer knows the running tasks of an array by their job ids once the waiting ones were cancelled,
        # and takes them as 65_0 only
        ids = sorted({cell for row in _rows(bed, "%A\t%i") for cell in row})
        if ids:
            run(bed, "root", ["scancel", *ids])
        return not ids

    wait_for("end of all jobs", empty, 90, [bed.dir / "log" / "slurmctld.log"])


def reset(bed: Bed) -> None:
    """Empty the bed: no jobs, no reservations, nodes resumed, partitions up, limits as on the first day."""
    cancel_all(bed)
    shown = run(bed, "root", ["scontrol", "-o", "show", "reservation"], check=True).stdout
    for line in shown.splitlines():
        if line.startswith("ReservationName="):
            name = line.split()[0].partition("=")[2]
            run(bed, "root", ["scontrol", "delete", f"ReservationName={name}"], check=True)
    for partition, limit in PARTITION_LIMITS:
        run(
            bed,
            "root",
            ["scontrol", "update", f"PartitionName={partition}", "State=UP", f"MaxTime={limit}"],
            check=True,
        )
    restore_limits(bed)

    def idle() -> bool:
        rows = run(bed, "root", ["sinfo", "-h", "-N", "-o", "%N %T"], check=True).stdout.split("\n")
        states = dict(row.split() for row in rows if row)
        for node, state in states.items():
            if state.startswith(("drain", "down")) and not state.endswith("*"):
                run(bed, "root", ["scontrol", "update", f"NodeName={node}", "State=RESUME"])
        return len(states) == len(NODES) and set(states.values()) == {"idle"}

    wait_for("eight idle nodes", idle, 90, [bed.dir / "log" / "slurmctld.log"])


def submit(bed: Bed, user: str, name: str, *options: str, body: str = "exec sleep infinity") -> int:
    """Submit one batch job as a user and return its id; BedError carries sbatch's refusal."""
    argv = ["sbatch", "--parsable", "-D", "/tmp", "-o", "/dev/null", f"--job-name={name}", *options]
    done = run(bed, user, argv, stdin=f"#!/bin/sh\n{body}\n", check=True)
    return int(done.stdout.split(";")[0])


def _control(bed: Bed, user: str, *words: str) -> None:
    run(bed, user, ["scontrol", *words], check=True)


def _on(partition: str, qos: str, account: str, limit: str, gpus: str = "") -> Sequence[str]:
    wanted = [f"--gres=gpu:{gpus}"] if gpus else []
    return ["-p", partition, f"--qos={qos}", "-A", account, "-t", limit, *wanted]


def states(bed: Bed) -> dict[int, tuple[str, str]]:
    """State and reason of every job squeue knows, by id; of an array, the task that was submitted last."""
    return {int(number): (state, reason) for number, state, reason in _rows(bed, "%A\t%T\t%r", "-t", "all")}


def _await(bed: Bed, what: str, jobs: dict[str, Job], seconds: float) -> None:
    def wrong() -> list[str]:
        now = states(bed)
        seen = {name: now.get(job.id, ("absent", "")) for name, job in jobs.items()}
        return [
            f"{name} ({job.id}): {seen[name]}, expected {job.state} {job.reason}"
            for name, job in jobs.items()
            if seen[name][0] != job.state or not seen[name][1].startswith(job.reason)
        ]

    try:
        wait_for(what, lambda: not wrong(), seconds)
    except BedError as error:
        raise BedError(f"{error}\n" + "\n".join(wrong())) from None


def _running(bed: Bed) -> dict[str, Job]:
    """Jobs that fill the cluster: 52 of 64 GPUs used, 8 drained, 4 free (on gpu01)."""
    low, language = _on("low", "low", "language", "1:00:00", "h100:4"), "language"
    preempted = submit(bed, "kenji", "low-norequeue", *low, "-w", "gpu08", "--no-requeue")
    first = {"low-norequeue": Job(preempted, "RUNNING", "None")}
    plan = (
        ("mira", "vlm-pretrain", [*_on("train", "train", "vision", "1-00:00:00", "a100:8"), "-N2", "-w", "gpu[02-03]"]),
        ("anouk", "lm-sft", [*_on("train", "train", language, "5:00:00", "a100:8"), "-w", "gpu05"]),
        ("svcinfer", "serve-chat", [*_on("inference", "inference", "product", "10-00:00:00", "h100:8"), "-w", "gpu07"]),
        ("tomas", "notebook", _on("interactive", "interactive", "vision", "2:00:00", "1")),
        ("mira", "nb-a", _on("interactive", "interactive", language, "2:00:00", "1")),
        ("opsadmin", "key-a100", [*_on("key", "key", "research", "1:00:00", "a100:8"), "-w", "gpu06"]),
        ("kenji", "requeued", _on("interactive", "normal", language, "30:00")),
        ("kenji", "requeue-held", _on("interactive", "normal", language, "30:00")),
        ("kenji", "suspended", _on("interactive", "normal", language, "30:00")),
    )
    jobs = {name: Job(submit(bed, user, name, *options), "RUNNING", "None") for user, name, options in plan}
    array = [*_on("low", "low", language, "3:00:00", "a100:1"), "--array=0-9%2", "-w", "gpu01"]
    sweep = submit(bed, "kenji", "sweep", *array)
    _await(bed, "start of the running jobs", {**first, **jobs}, 75)
    wait_for("start of two array tasks", lambda: len(_rows(bed, "%A", "-j", str(sweep), "-t", "R")) == 2, 45)
    hot = [*_on("key", "key", "research", "1:00:00", "h100:8"), "-w", "gpu08"]
    jobs["key-hot"] = Job(submit(bed, "opsadmin", "key-hot", *hot), "RUNNING", "None")
    jobs["low-norequeue"] = Job(preempted, "PREEMPTED", "None")
    jobs["sweep"] = Job(sweep, "PENDING", "JobArrayTaskLimit")
    return jobs


def _finished(bed: Bed) -> dict[str, Job]:
    """Short jobs with the ends that need no waiting."""
    short = _on("interactive", "normal", "language", "5:00")
    bodies = (
        ("ok", "true", "COMPLETED", "None"),
        ("fails-fast", "exit 1", "FAILED", "NonZeroExitCode"),
        ("exit3", "exit 3", "FAILED", "NonZeroExitCode"),
        ("segv", "kill -SEGV $$", "FAILED", "RaisedSignal" if slurm_version() >= (23, 0) else "JobLaunchFailure"),
    )
    jobs = {name: Job(submit(bed, "kenji", name, *short, body=body), s, r) for name, body, s, r in bodies}
    held = submit(bed, "kenji", "cancelled-pending", *short, "--hold")
    run(bed, "kenji", ["scancel", str(held)], check=True)
    jobs["cancelled-pending"] = Job(held, "CANCELLED", "JobHeldUser")
    return jobs


def _limited(bed: Bed) -> dict[str, Job]:
    """Jobs that a limit, the queue or the nodes keep waiting."""
    big, normal = "a100:8", ("train", "normal", "language")
    plan = (
        ("mira", "vlm-eval", [*_on("train", "normal", "vision", "3:00:00", big)], "AssocGrpGRES"),
        ("anouk", "lm-dpo", _on("inference", "inference", "language", "2:00:00", "h100:4"), "QOSGrpGRES"),
        ("anouk", "lm-ablate", _on("train", "train", "language", "2:00:00", "a100:4"), "QOSGrpGRES"),
        ("mira", "over-user-max", _on("interactive", "interactive", "vision", "1:00:00", "2"), "QOSMaxGRESPerUser"),
        ("anouk", "lm-long", _on(*normal, "2:00:00", big), "Resources"),
        ("kenji", "wide-1", [*_on(*normal, "4:00:00", big), "-N2", "--nice=3000"], "Priority"),
        ("anouk", "wide-2", [*_on(*normal, "4:00:00", big), "-N2", "--nice=4000"], "Priority"),
        ("kenji", "low-requeue", _on("low", "low", "language", "1:00:00", big), BUSY),
        ("kenji", "on-drained", [*_on(*normal, "1:00:00", "4"), "-w", "gpu04"], "ReqNodeNotAvail"),
        ("kenji", "too-long", _on("interactive", "normal", "language", "9:00:00", "1"), "PartitionTimeLimit"),
        (
            "mira",
            "key-normal",
            _on("key", "normal", "vision", "1:00:00"),
            "Job's QOS not permitted to use this partition",
        ),
    )
    jobs = {name: Job(submit(bed, user, name, *options), "PENDING", r) for user, name, options, r in plan}
    if slurm_version() < (23, 0):  # later versions refuse it at once
        wide = submit(bed, "mira", "too-wide", *_on("interactive", "normal", "vision", "1:00:00"), "-N2")
        jobs["too-wide"] = Job(wide, "PENDING", "PartitionNodeLimit")
    return jobs


def _waiting(bed: Bed, evaluated: int, failed: int) -> dict[str, Job]:
    """Jobs that wait for a time, another job or a person."""
    vision, language = (_on("train", "normal", who, "1:00:00", "1") for who in ("vision", "language"))
    held = _on("train", "normal", "language", "3:00:00", "a100:8")
    plan = (
        ("mira", "in-resv", [*vision, f"--reservation={RESERVATION}"], "Reservation"),
        ("mira", "after-eval", [*vision, f"--dependency=afterok:{evaluated}"], "Dependency"),
        ("kenji", "never", [*language, f"--dependency=afterok:{failed}"], "DependencyNeverSatisfied"),
        ("mira", "tonight", [*language, "--begin=now+3hours"], "BeginTime"),
        ("anouk", "held-by-user", [*language, "--hold"], "JobHeldUser"),
        ("anouk", "held-by-admin", held, "JobHeldAdmin"),
    )
    jobs = {name: Job(submit(bed, user, name, *options), "PENDING", r) for user, name, options, r in plan}
    _control(bed, "opsadmin", "hold", str(jobs["held-by-admin"].id))
    first, second = (
        ["-p", "train", "--qos=normal", "-A", "language", f"--gres=gpu:{n}", "-t", "30:00"] for n in (1, 2)
    )
    begin = "--begin=now+1hour"
    het = submit(bed, "mira", "het", *first, begin, ":", "--job-name=het", *second, begin)
    jobs["het"] = Job(het, "PENDING", "BeginTime")
    return jobs


def scenario(bed: Bed, *, timeout_job: bool = False) -> dict[str, Job]:
    """Reset the bed and fill it with jobs in as many states and for as many reasons as possible.

    Name of a job to its id, state and reason, all seen before this returns. `requeued` starts again after two minutes
    (Slurm's own delay); the others stay as they are for an hour. `timeout_job` adds one that ends TIMEOUT, and waits
    the 60 to 90 s that takes.
    """
    reset(bed)
    _control(bed, "root", "update", "NodeName=gpu04", "State=DRAIN", f"Reason={DRAIN_REASON}")
    slot = ["StartTime=now+7200", "Duration=02:00:00", "Nodes=gpu06", "Accounts=vision"]
    _control(bed, "root", "create", "reservation", f"ReservationName={RESERVATION}", *slot)
    jobs = {**_finished(bed), **_running(bed)}
    if timeout_job:
        limited = submit(bed, "kenji", "timeout", *_on("interactive", "normal", "language", "1"))
        jobs["timeout"] = Job(limited, "TIMEOUT", "TimeLimit")
    limits = _limited(bed)
    waiting = _waiting(bed, limits["vlm-eval"].id, jobs["fails-fast"].id)
    _control(bed, "root", "requeuehold", str(jobs["requeue-held"].id))
    _control(bed, "root", "requeue", str(jobs["requeued"].id))
    _control(bed, "root", "suspend", str(jobs["suspended"].id))
    jobs["requeue-held"] = Job(jobs["requeue-held"].id, "PENDING", "job requeued in held state")
    jobs["requeued"] = Job(jobs["requeued"].id, "PENDING", "BeginTime")
    jobs["suspended"] = Job(jobs["suspended"].id, "SUSPENDED", "None")
    jobs |= limits | waiting
    _await(bed, "the scenario", jobs, 150 if timeout_job else 90)
    return jobs


HOSTILE_NAMES = (
    "a|b", "first line\nsecond line", "[red]x[/]", "[/bold]", "run[lr=1e-3]", "训练-大模型", "run 🚀 éà",
    "n" * 300, "clear\x1b[2Jscreen", "$(reboot)",
)  # fmt: skip


def hostile(bed: Bed) -> dict[int, str]:
    """Submit ten jobs whose names attack a careless reader; id to exact name. They use no GPU; every second one runs."""
    jobs = {}
    for index, name in enumerate(HOSTILE_NAMES):
        options = _on("interactive", "normal", "language", "1:00:00")
        jobs[submit(bed, "mira", name, *options, *(["--hold"] if index % 2 else []))] = name
    wanted = [number for index, number in enumerate(jobs) if index % 2 == 0]
    _await(bed, "start of the hostile jobs", {str(n): Job(n, "RUNNING", "None") for n in wanted}, 60)
    return jobs
