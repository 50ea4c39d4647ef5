"""A link without an engine: what it sends is made here, what it is asked is kept."""

import asyncio
import io
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import polars as pl

from connectors.change import Expectation, Found, Hold, Plan, Receipt, Release, Step, StepAnswer
from connectors.connector import Capabilities, Gap
from connectors.model import SCHEMAS, conform, empty
from console.messages import (
    Answer,
    AskAudit,
    AskForecast,
    AskWhatIf,
    AuditEntry,
    AuditList,
    ClusterStatus,
    Commit,
    Committed,
    Done,
    EngineUp,
    Event,
    Explained,
    ExplainJob,
    Failed,
    Foreseen,
    Frames,
    Proposal,
    Propose,
    ProposeUndo,
    Request,
    Summary,
)
from console.scheduling.forecast import Backtest, Forecast, Group, GroupChange, JobShift, Preempted, Waits, WhatIf
from console.triage.diagnosis import Attention, Cause, Diagnosis, Evidence, Finding, Start

NOW = datetime(2026, 12, 1, 21, 7, 18, tzinfo=UTC)
HOSTILE = (
    "a|b", "line\nbreak", "[red]x[/]", "[/bold]", "run[lr=1e-3]", "训练-大模型-01", "🚀 launch 👩‍💻", "x" * 300,
    "\x1b[2Jcleared", "$(reboot)", "\u202eexe.txt", "tab\there", "\x00nul", "[@click=app.quit]go[/]", "é́́́́", "", "\x9b31m",
)  # fmt: skip


def ago(**span: float) -> datetime:
    """Return a moment before NOW."""
    return NOW - timedelta(**span)


def ahead(**span: float) -> datetime:
    """Return a moment after NOW."""
    return NOW + timedelta(**span)


def ipc(frame: pl.DataFrame) -> bytes:
    """Return the frame as the engine sends it."""
    out = io.BytesIO()
    frame.write_ipc(out, compression="uncompressed")
    return out.getvalue()


DERIVED = {
    "wait_s": pl.Float64, "run_s": pl.Float64, "gpu_h": pl.Float64, "verdict": pl.String, "why": pl.String,
    "start_p50": pl.Datetime("us", "UTC"), "start_p90": pl.Datetime("us", "UTC"), "idle_s": pl.Float64,
}  # fmt: skip


def frame_of(table: str, rows: list[dict], *, cluster: str, system: str = "slurm") -> pl.DataFrame:
    """Return rows as a table of the model, derived columns of jobs beside it."""
    if not rows:
        return empty(table).with_columns(pl.lit(cluster).alias("cluster"))
    known = {**SCHEMAS[table], **(DERIVED if table == "jobs" else {})}
    names = [name for name in known if name != "cluster" and any(name in row for row in rows)]
    data = {name: pl.Series(name, [row.get(name) for row in rows], dtype=known[name]) for name in names}
    own = {name: data.pop(name) for name in list(data) if name in DERIVED}
    frame = conform(table, pl.DataFrame(data), cluster=cluster, system=system)
    return frame.with_columns(*own.values()) if own else frame


LAYOUT_JOBS = [
    {"id": "884102", "name": "llm-pre", "user": "ana", "team": "nlp", "gpus": 64, "nodes": 8, "state": "running",
     "nodelist": [f"g{n:03d}" for n in range(24, 32)], "run_s": 9 * 3600 * 1.0, "verdict": "RUNNING"},
    {"id": "884090_[0-39]", "name": "bert-sweep", "user": "bo", "team": "vision", "gpus": 40, "nodes": 5,
     "state": "running", "nodelist": [f"g{n:03d}" for n in range(1, 6)], "run_s": 7200.0, "verdict": "RUNNING"},
    {"id": "884131", "name": "nb-jupyter", "user": "chen", "team": "nlp", "gpus": 2, "nodes": 1, "state": "running",
     "nodelist": ["g009"], "run_s": 18000.0, "idle_s": 7200.0, "verdict": "RUNNING"},
    {"id": "884120", "name": "moe-512", "user": "dara", "team": "nlp", "gpus": 256, "nodes": 32, "state": "pending",
     "position": 1, "why": "needs 32 whole nodes; 1 is free", "wait_s": 2400.0, "verdict": "WAIT",
     "start_p50": ahead(minutes=18), "start_p90": ahead(minutes=93), "gang": True, "gpu_model": "h100",
     "time_limit_s": 43200.0, "reason_raw": "Resources"},
    {"id": "884125", "name": "eval-suite", "user": "eve", "team": "vision", "gpus": 8, "nodes": 1, "state": "pending",
     "position": 2, "why": "behind 884120 (backfill at 21:31)", "wait_s": 720.0, "verdict": "WAIT",
     "start_p50": ahead(minutes=24), "start_p90": ahead(minutes=43), "reason_raw": "Priority"},
    {"id": "884126", "name": "finetune-7b", "user": "fay", "team": "nlp", "gpus": 16, "nodes": 2, "state": "pending",
     "position": 3, "why": "held by its owner", "wait_s": 172800.0, "verdict": "WAIT", "reason_raw": "JobHeldUser"},
    {"id": "884133", "name": "rl-ppo", "user": "gus", "team": "robot", "gpus": 32, "nodes": 4, "state": "pending",
     "position": 4, "why": "quota: robot has 16 of 64 left", "wait_s": 10800.0, "verdict": "WAIT",
     "start_p50": ahead(hours=5), "start_p90": ahead(hours=10), "gang": True, "gpu_model": "h100",
     "time_limit_s": 43200.0, "reason_raw": "AssocGrpGRES"},
    {"id": "884121", "name": "wide-node", "user": "hal", "team": "vision", "gpus": 16, "nodes": 1, "state": "pending",
     "why": "16 GPUs a node; largest node has 8", "wait_s": 3 * 86400.0, "verdict": "NEVER", "reason_raw": "Resources"},
    {"id": "884377", "name": "post-eval", "user": "ivy", "team": "nlp", "gpus": 8, "nodes": 1, "state": "pending",
     "why": "after 884370, which failed", "wait_s": 47 * 3600.0, "verdict": "NEVER",
     "reason_raw": "DependencyNeverSatisfied"},
    {"id": "884140", "name": "mystery", "user": "jo", "team": "robot", "gpus": 8, "nodes": 1, "state": "pending",
     "why": None, "reason_raw": "BadConstraints", "wait_s": 400.0, "verdict": "UNKNOWN"},
]  # fmt: skip


def hostile_jobs() -> list[dict]:
    """Return one pending job for each hostile name; the names stand in every text column."""
    return [
        {"id": f"9{at:02d}", "name": name, "user": name[:40], "team": name[:40], "gpus": 1.0, "nodes": 1,
         "state": "pending", "why": name, "wait_s": 60.0, "verdict": "WAIT", "reason_raw": name, "priority": 1.0}
        for at, name in enumerate(HOSTILE)
    ]  # fmt: skip


def many_jobs(count: int, seed: int = 1) -> list[dict]:
    """Return that many jobs of a believable mix."""
    dice = random.Random(seed)
    teams = ["nlp", "vision", "robot", "speech", "ads-ranking"]
    users = ["ana", "bo", "chen", "dara", "eve", "fay", "gus", "hal", "ivy", "jo", "zhang.wei"]
    names = ["llm-pre", "bert-sweep", "eval-suite", "finetune-7b", "rl-ppo", "nb-jupyter", "vit-l", "rm-train"]
    rows: list[dict] = []
    for at in range(count):
        running = dice.random() < 0.3
        gpus = dice.choice([1, 2, 4, 8, 8, 8, 16, 32, 64])
        row = {
            "id": str(900000 + at), "name": f"{dice.choice(names)}-{at % 97}", "user": dice.choice(users),
            "team": dice.choice(teams), "gpus": float(gpus), "nodes": max(1, gpus // 8), "priority": dice.random() * 1e4,
        }  # fmt: skip
        if running:
            first = dice.randrange(100)
            row |= {"state": "running", "run_s": dice.random() * 2e5, "verdict": "RUNNING",
                    "nodelist": [f"g{first + n:03d}" for n in range(row["nodes"])]}  # fmt: skip
        else:
            wait = dice.random() * 9e4
            row |= {"state": "pending", "wait_s": wait, "verdict": "WAIT", "position": at + 1,
                    "why": f"behind {900000 + dice.randrange(count)}; needs {row['nodes']} whole nodes",
                    "start_p50": NOW + timedelta(seconds=wait), "reason_raw": "Priority",
                    "start_p90": NOW + timedelta(seconds=wait * 1.5)}  # fmt: skip
        rows.append(row)
    return rows


def jobs_frame(rows: list[dict], cluster: str = "hpc-a") -> pl.DataFrame:
    """Return the jobs table; a job's key is its id without the task part."""
    return frame_of("jobs", [{"key": row["id"].partition("_")[0], "tasks": 1, **row} for row in rows], cluster=cluster)


def nodes_frame(cluster: str = "hpc-a", count: int = 40) -> pl.DataFrame:
    """Return nodes, some of them drained or down."""
    rows = []
    for at in range(count):
        down, drained = at == 7, at in {12, 13}
        rows.append({
            "name": f"g{at:03d}", "gpus": 8.0, "gpus_allocated": 0.0 if down or drained else float((at * 3) % 9),
            "gpus_unusable": 8.0 if down else 0.0, "gpu_model": "h100", "cpus": 128.0, "cpus_allocated": float(at % 129),
            "memory_bytes": 2.0 * 2**40, "memory_allocated_bytes": at * 5e10, "partitions": ["train", "eval"],
            "state": "down" if down else "drained" if drained else "mixed" if (at * 3) % 9 else "idle",
            "state_raw": "DOWN*" if down else "IDLE+DRAIN" if drained else "MIXED",
            "reason": "Xid 79 on GPU 4" if down else "[bold]fan[/] broken\n2nd line" if drained else None,
            "reason_by": "root" if down or drained else None, "reason_time": ago(hours=at) if down or drained else None,
            "schedulable": not (down or drained),
        })  # fmt: skip
    return frame_of("nodes", rows, cluster=cluster)


def queues_frame(cluster: str = "hpc-a") -> pl.DataFrame:
    """Return queues of Slurm's kinds."""
    rows = [
        {"id": "partition:train", "kind": "partition", "state": "open", "running_jobs": 20, "pending_jobs": 300},
        {"id": "partition:debug", "kind": "partition", "state": "stopped", "running_jobs": 0, "pending_jobs": 2},
        {"id": "qos:nlp", "kind": "qos", "state": "open", "running_jobs": 9, "pending_jobs": 12, "writable": ["gpus"]},
        {"id": "account:root", "kind": "account", "state": "open"},
        {"id": "account:research", "kind": "account", "parent": "account:root", "state": "open", "weight": 4.0},
        {
            "id": "account:nlp",
            "kind": "account",
            "parent": "account:research",
            "state": "open",
            "fairshare_ratio": 0.18,
        },
        {"id": "account:[red]vision[/]", "kind": "account", "parent": "account:research", "state": "open"},
        {"id": "account:robot", "kind": "account", "parent": "account:root", "state": "open", "weight": 1.0},
    ]
    return frame_of("queues", rows, cluster=cluster)


def quotas_frame(cluster: str = "hpc-a") -> pl.DataFrame:
    """Return the quotas of those queues."""
    inf = float("inf")
    rows = [
        {"queue": "partition:train", "resource": "gpu", "limit": inf, "used": 996.0, "pending": 5120.0},
        {"queue": "qos:nlp", "resource": "gpu", "limit": 128.0, "used": 96.0, "pending": 48.0, "main": "limit"},
        {"queue": "account:research", "resource": "gpu", "nominal": 224.0, "limit": 256.0, "used": 216.0, "pending": 90.0},
        {"queue": "account:nlp", "resource": "gpu", "nominal": 96.0, "limit": 160.0, "used": 120.0, "borrowed": 24.0,
         "pending": 48.0, "main": "limit"},
        {"queue": "account:[red]vision[/]", "resource": "gpu", "nominal": 96.0, "limit": 128.0, "used": 72.0,
         "lent": 24.0, "pending": 40.0, "main": "limit"},
        {"queue": "account:robot", "resource": "gpu", "limit": 64.0, "used": 48.0, "pending": 42.0, "main": "limit"},
        {"queue": "account:robot", "resource": "gpu", "model": "h100", "limit": 32.0, "used": 32.0, "pending": 8.0},
    ]  # fmt: skip
    return frame_of("quotas", rows, cluster=cluster)


CAPABILITIES = Capabilities(
    reads=("jobs", "nodes", "queues", "quotas"), writes=("hold", "release", "cancel", "drain", "resume", "quota"),
    cannot=("no GPU telemetry: nvidia-smi is not on the nodes",),
)  # fmt: skip
STATUSES = (
    ClusterStatus(
        cluster="hpc-a", system="slurm", state="act", since=ago(hours=3), access="write", version="24.11.5", user="ana",
        taken_at=ago(seconds=4), took_ms=212.0, calls=5, interval_s=10.0, clock_skew_s=0.1, capabilities=CAPABILITIES,
        summary=Summary(
            nodes=128, nodes_lost=2, gpus=1024, gpus_allocated=996, gpus_free=28, gpus_lost=16, place8=1, busy_ratio=0.914,
            running=120, pending=342, pending_gpus=5120, never=14, oldest_wait_s=3 * 86400.0, start_p50_s=2400.0,
        ),
        attention=(
            Attention(severity="act", cluster="hpc-a", what="11 jobs ask 16 GPUs a node; no node has more than 8",
                      since=ago(days=3), who="owner", next_step="gpudeck explain 884121", objects=("884121",)),
            Attention(severity="act", cluster="hpc-a", who="owner", objects=("884377",), since=ago(hours=47),
                      what="3 jobs wait for a job that failed (DependencyNeverSatisfied)",
                      next_step="gpudeck explain 884377"),
            Attention(severity="idle", cluster="hpc-a", what="22 GPUs held by 5 notebooks at 0 % for over 2 h",
                      since=ago(hours=2), who="team", next_step="gpudeck get jobs --where idle_s>7200"),
        ),
        gaps=(Gap(source="sacctmgr", reason="accounting is off", since=ago(hours=3), affects=("queues.weight",)),),
    ),
    ClusterStatus(
        cluster="edge-7", system="slurm", state="stale", since=ago(minutes=14), taken_at=ago(minutes=14), interval_s=10.0,
        error="no answer since 20:53:02 (ssh: connection timed out)", version="23.02.7", user="ana",
        summary=Summary(nodes=8, gpus=64, gpus_allocated=60, gpus_free=4, place8=0, pending=9, running=4, busy_ratio=0.7),
    ),
    ClusterStatus(
        cluster="[b]west[/b]", system="slurm", state="failed", since=ago(minutes=2), interval_s=10.0,
        error="login01: permission denied (publickey)", hint="gpudeck doctor -c west",
    ),
)  # fmt: skip


def healthy(name: str = "lab48", **changes: object) -> ClusterStatus:
    """Return a quiet cluster."""
    fields: dict = {
        "cluster": name, "system": "slurm", "state": "ok", "since": ago(hours=9), "access": "write", "user": "ana",
        "taken_at": ago(seconds=3), "took_ms": 90.0, "calls": 5, "interval_s": 10.0,
        "summary": Summary(nodes=6, nodes_lost=0, gpus=48, gpus_allocated=40, gpus_free=8, gpus_lost=0, place8=1,
                           busy_ratio=0.83, running=9, pending=0, pending_gpus=0, never=0, start_p50_s=0.0),
    }  # fmt: skip
    return ClusterStatus(**(fields | changes))


def waits(jobs: int, p50_min: float, p90_min: float) -> Waits:
    """Return waits from minutes."""
    return Waits(jobs=jobs, started=jobs - 3, p50_s=p50_min * 60, p90_s=p90_min * 60, p95_s=None)


def forecast(p50: float, p90: float, busy: float) -> Forecast:
    """Return a forecast with these figures."""
    return Forecast(
        cluster="hpc-a", policy="slurm", made_at=ago(seconds=9), horizon_s=86400.0, seeds=20, jobs=(), preempted=(),
        basis="history of 132 jobs of ana, else limits", waits=waits(57, p50, p90), utilization_ratio=busy, gpu_hours=900.0,
        by_team=(Group(name="nlp", waits=waits(20, p50, p90), gpu_hours=1010.0),), by_queue=(),
        not_modelled=("licenses", "heterogeneous jobs"),
    )  # fmt: skip


def whatif(words: str = "quota qos:nlp gpus=64") -> WhatIf:
    """Return a comparison in which one team wins and one loses."""
    groups = (
        GroupChange(name="nlp-lab", before=waits(9, 186, 300), after=waits(9, 60, 200), wait_p50_change_s=-126 * 60.0,
                    gpu_hours_before=1010.0, gpu_hours_after=1322.0, word="better"),
        GroupChange(name="[i]vision[/i]", before=waits(9, 40, 90), after=waits(9, 75, 120), wait_p50_change_s=35 * 60.0,
                    gpu_hours_before=1720.0, gpu_hours_after=1604.0, word="worse"),
        GroupChange(name="robot", before=waits(9, 22, 90), after=waits(9, 22, 90), wait_p50_change_s=0.0,
                    gpu_hours_before=560.0, gpu_hours_after=560.0, word="same"),
    )  # fmt: skip
    return WhatIf(
        cluster="hpc-a", assumed=(words,), baseline=forecast(48, 412, 0.812), changed=forecast(41, 398, 0.849),
        by_team=groups, by_queue=(), verdict="trade", elapsed_ms=312.0,
        jobs=(
            JobShift(id="884133", name="rl-ppo", user="gus", team="robot", queue="partition:train", gpus=32.0,
                     start_before=ahead(hours=5), start_after=ahead(minutes=18), shift_s=-16920.0, word="sooner"),
            JobShift(id="884125", name="[/bold]", user="eve", team="vision", queue=None, gpus=8.0,
                     start_before=ahead(minutes=24), start_after=ahead(minutes=59), shift_s=2100.0, word="later"),
        ),
        preempted=(Preempted(id="884090", name="bert-sweep", user="bo", team="vision", queue=None, gpus=40.0,
                             at=ahead(minutes=2), by="884133", lost_gpu_s=312000.0),),
        says="nlp-lab waits 126 min less; vision waits 35 min more; 1 job is preempted. Reversible.",
        backtest=Backtest(available=False, why="no history was recorded"),
    )  # fmt: skip


def diagnosis(job: str = "884133", cluster: str = "hpc-a") -> Diagnosis:
    """Return a diagnosis with three causes and evidence that tries to be markup."""
    return Diagnosis(
        job=job, cluster=cluster, verdict="wait",
        says="starts 02:10 (P50). A smaller ask starts sooner: 16 GPUs would start at 21:25.",
        start=Start(p50=ahead(hours=5), p90=ahead(hours=10), basis="forecast from time limits"),
        causes=(
            Finding(cause=Cause.QUOTA_FULL, says="account robot has 16 of its 64 GPUs left; this asks 32",
                    stated_by="system", clears_at=ahead(hours=5), who_acts="admin of robot, or wait",
                    next_step="gpudeck whatif reshape 884133 gpus=16",
                    counterfactual="with 16 GPUs instead of 32 it would fit the quota and start at 21:25",
                    evidence=(
                        Evidence(source="squeue", text="Reason=AssocGrpGRES", as_of=ago(seconds=4)),
                        Evidence(source="sacctmgr", text="account=robot GrpTRES=gres/gpu=64", as_of=ago(minutes=5)),
                        Evidence(source="derived", text="running now in robot: [884093](32), [/]884111 (16) = 48 GPUs\n",
                                 as_of=ago(seconds=4)),
                    )),
            Finding(cause=Cause.SHAPE_NO_FIT, says="needs 4 whole nodes; 1 whole node and 20 odd GPUs are free",
                    stated_by="derived", clears_at=ahead(hours=2), who_acts="owner (ask for less)", evidence=()),
            Finding(cause=Cause.BEHIND_IN_LINE, says="3 jobs ahead: 884120 (256), 884125 (8), 884126 (held)",
                    stated_by="derived", evidence=()),
        ),
    )  # fmt: skip


def plan(words: str = "hold 884133") -> Plan:
    """Return the plan of a hold."""
    step = Step(says="hold job 884133", native="scontrol hold 884133", argv=("scontrol", "hold", "884133"))
    return Plan(
        cluster="hpc-a", system="slurm", made_at=NOW, changes=(Hold(job="884133"),), steps=(step,),
        expects=(Expectation(table="jobs", key="884133", column="state", value="pending"),),
        results=(Expectation(table="jobs", key="884133", column="reason_raw", value="JobHeldUser"),),
        inverse=(Release(job="884133"),), notes=("the job loses its age priority while it is held",),
    )  # fmt: skip


def proposal(words: str = "hold 884133", **changes: object) -> Proposal:
    """Return a proposal whose word is the job's name."""
    fields: dict = {
        "id": "p1", "cluster": "hpc-a", "words": words, "plan": plan(), "confirm": "rl-ppo", "whatif": whatif(words),
    }  # fmt: skip
    return Proposal(**(fields | changes))


def receipt(outcome: str = "verified") -> Receipt:
    """Return what came of the hold."""
    expected = plan().results[0]
    return Receipt(
        plan=plan(), outcome=outcome, applied_at=NOW, took_ms=120.0, undo=(Release(job="884133"),),
        answers=(StepAnswer(native="scontrol hold 884133", code=0, out="", err=""),),
        found=(Found(expected=expected, value="JobHeldUser", ok=outcome == "verified"),),
    )  # fmt: skip


AUDIT = (
    AuditEntry(receipt="r-0003", at=ago(minutes=3), cluster="hpc-a", who="ana", words="hold 884133", outcome="verified",
               undoable=True),
    AuditEntry(receipt="r-0002", at=ago(hours=5), cluster="hpc-a", who="bo", words="quota qos:nlp gpus=64",
               outcome="differs", undoable=True),
    AuditEntry(receipt="r-0001", at=ago(days=2), cluster="hpc-a", who="[red]bo[/]", words="drain g012 reason='fan\n'",
               outcome="verified", undone_by="r-0002"),
)  # fmt: skip


class FakeLink:
    """Sends what it was given, answers from the makers above; `asked` keeps every request."""

    def __init__(
        self, statuses: tuple[ClusterStatus, ...] = STATUSES, frames: dict[str, dict[str, pl.DataFrame]] | None = None
    ) -> None:
        self.statuses = statuses
        self.frames = frames if frames is not None else {"hpc-a": tables()}
        self.asked: list[Request] = []
        self.answers: dict[type, Answer] = {}
        self.queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self.closed = False

    async def send(self, request: Request) -> Answer:
        self.asked.append(request)
        given = self.answers.get(type(request))
        if given is not None:
            return given
        match request:
            case ExplainJob():
                return Explained(diagnosis=diagnosis(request.job, request.cluster))
            case AskWhatIf():
                return Foreseen(whatif=whatif(request.words))
            case Propose():
                return proposal(request.words)
            case ProposeUndo():
                return proposal("release 884133", id="p2")
            case Commit():
                return Committed(receipt_id="r-0004", receipt=receipt())
            case AskAudit():
                return AuditList(entries=AUDIT)
            case AskForecast():
                return Failed(message="not here", exit_code=5, kind="Unsupported")
            case _:
                return Done()

    def tell(self, event: Event) -> None:
        """Send an event to the screen."""
        self.queue.put_nowait(event)

    def tell_frames(self, cluster: str, taken_at: datetime, **frames: pl.DataFrame) -> None:
        """Send tables to the screen."""
        self.tell(Frames(cluster=cluster, taken_at=taken_at, tables={name: ipc(one) for name, one in frames.items()}))

    async def events(self) -> AsyncIterator[Event]:
        yield EngineUp(clusters=tuple(status.cluster for status in self.statuses), config="/etc/gpudeck.toml")
        for status in self.statuses:
            yield status
        for cluster, frames in self.frames.items():
            taken = next((s.taken_at for s in self.statuses if s.cluster == cluster and s.taken_at), NOW)
            yield Frames(cluster=cluster, taken_at=taken, tables={name: ipc(one) for name, one in frames.items()})
        while (event := await self.queue.get()) is not None:
            yield event

    async def close(self) -> None:
        self.closed = True
        self.queue.put_nowait(None)


def tables(jobs: list[dict] | None = None, cluster: str = "hpc-a") -> dict[str, pl.DataFrame]:
    """Return the tables of one cluster."""
    rows = LAYOUT_JOBS if jobs is None else jobs
    return {
        "jobs": jobs_frame(rows, cluster), "nodes": nodes_frame(cluster), "queues": queues_frame(cluster),
        "quotas": quotas_frame(cluster),
    }  # fmt: skip
