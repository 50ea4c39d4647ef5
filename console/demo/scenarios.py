"""What the simulated clusters consist of: nodes, teams, limits, the work that comes in, and the faults worth seeing.

Data only. Times are seconds; those of residents and of the cast count from the moment at which a demo is opened
(negative: before it). Figures are made up for plausibility and measure nothing.
"""

import math

import msgspec

from connectors.rules import SlurmPartition, SlurmQos

HOUR = 3600
DAY = 24 * HOUR
GPU = "gres/gpu"


class NodeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Equal nodes `prefix01…`; memory in GiB, power in watts a GPU."""

    prefix: str
    count: int
    model: str
    gpus: int = 8
    cpus: int = 128
    memory_gib: int = 1024
    gpu_memory_gib: int = 80
    idle_w: float = 60.0
    power_limit_w: float = 400.0

    def names(self) -> tuple[str, ...]:
        """Return the names of the nodes."""
        return tuple(f"{self.prefix}{number:02d}" for number in range(1, self.count + 1))


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """One account: its users, its projects, its shares and the limit on its GPUs."""

    name: str
    users: tuple[str, ...]
    projects: tuple[str, ...]
    shares: float = 1.0
    gpu_limit: float = math.inf


class Template(msgspec.Struct, frozen=True):
    """A kind of job that a team submits. `gpus` and `cpus` are per node; `weight` is how often it comes.

    `load` names how the GPUs are used: steady, wave (follows requests), bursty, starved (waits for its input), idle.
    """

    team: str
    name: str
    kind: str
    partition: str
    gpus: int
    limit_s: int
    nodes: int = 1
    qos: str = "normal"
    cpus: int | None = None
    model: str | None = None
    weight: float = 1.0
    load: str = "steady"
    project: bool = True


class Scripted(msgspec.Struct, frozen=True):
    """One job that is always there: submitted at `at`, by a named user, ending as written; `run_s` None is its limit.

    `started` makes it run since `at` on `nodes`; `after` names another scripted job that must succeed first.
    """

    template: Template
    user: str
    at: int
    run_s: int | None = None
    outcome: str = "succeeded"
    started: bool = False
    on: tuple[str, ...] = ()
    held: bool = False
    pinned: tuple[str, ...] = ()
    after: str | None = None
    restarts: int = 0


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A node or a GPU that breaks at `at`: drained with a reason, an Xid, or a GPU that is lost (Xid 79)."""

    at: int
    node: str
    drain: str | None = None
    gpu: int | None = None
    xid: int | None = None
    lost: bool = False


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated cluster; `per_hour` jobs come in an hour, `prices` are US dollars for a GPU-hour by model."""

    name: str
    groups: tuple[NodeGroup, ...]
    partitions: tuple[SlurmPartition, ...]
    qos: tuple[SlurmQos, ...]
    teams: tuple[Team, ...]
    templates: tuple[Template, ...]
    per_hour: float
    scripted: tuple[Scripted, ...]
    faults: tuple[Fault, ...]
    prices: dict[str, str]

    def team(self, name: str) -> Team:
        """Return a team by name."""
        return next(team for team in self.teams if team.name == name)


_LAB_GROUP = NodeGroup(prefix="gpu", count=6, model="a100")
_LAB_NODES = _LAB_GROUP.names()
_GANG = Template("vision", "vit-h-pretrain", "training", "train", 8, 36 * HOUR, nodes=5, qos="large")
_SERVE = Template("infra", "llm-serve", "inference", "train", 4, 2 * DAY, load="wave")
_LAB48 = Scenario(
    name="lab48",
    groups=(_LAB_GROUP,),
    partitions=(
        SlurmPartition(name="train", nodes=_LAB_NODES, default=True, max_time_s=2 * DAY, default_time_s=HOUR),
        SlurmPartition(
            name="dev", nodes=_LAB_NODES[4:], priority_tier=2, max_time_s=8 * HOUR, default_time_s=HOUR, max_nodes=1
        ),
    ),
    qos=(
        SlurmQos(name="normal"),
        SlurmQos(name="nlp", grp_tres={GPU: 8.0}),
        SlurmQos(name="interactive", priority=200, max_tres_per_user={GPU: 4.0}),
        SlurmQos(name="large", priority=1000),
    ),
    teams=(
        Team(name="vision", users=("ana", "tomas", "mei"), projects=("vit-h", "segment"), shares=3),
        Team(name="nlp", users=("lin", "priya", "oskar"), projects=("dpo", "tokens"), shares=3),
        Team(name="speech", users=("yuki", "carlos"), projects=("asr",), shares=2),
        Team(name="robotics", users=("ingrid", "wei"), projects=("grasp", "sim2real"), shares=2, gpu_limit=12),
        Team(name="biology", users=("fatima", "noah"), projects=("fold",), shares=1),
        Team(name="infra", users=("sam",), projects=("platform",), shares=1),
    ),
    templates=(
        Template("vision", "vit-finetune", "training", "train", 4, 8 * HOUR, weight=3),
        Template("vision", "seg-eval", "batch", "train", 1, 2 * HOUR, weight=2),
        Template("nlp", "lm-dpo", "training", "train", 4, 10 * HOUR, qos="nlp", weight=4),
        Template("nlp", "tokenize", "pipeline", "train", 0, 3 * HOUR, cpus=16, qos="nlp", weight=1),
        Template("speech", "asr-train", "training", "train", 2, 6 * HOUR, weight=2, load="starved"),
        Template("robotics", "grasp-rl", "training", "train", 4, 5 * HOUR, weight=2),
        Template("biology", "fold-batch", "batch", "train", 2, 4 * HOUR, weight=2),
        Template("biology", "scratch", "batch", "train", 1, 3 * HOUR, project=False),
        Template("robotics", "notebook", "interactive", "dev", 1, 4 * HOUR, qos="interactive", weight=2, load="bursty"),
        Template("speech", "debug", "interactive", "dev", 1, 2 * HOUR, qos="interactive", load="bursty"),
    ),
    per_hour=5.5,
    scripted=(
        Scripted(_SERVE, "sam", at=-30 * HOUR, started=True, on=("gpu01",)),
        Scripted(
            Template("speech", "asr-demo", "inference", "train", 2, 2 * DAY, load="wave"),
            "yuki",
            at=-20 * HOUR,
            started=True,
            on=("gpu02",),
        ),
        Scripted(
            Template("vision", "salloc", "interactive", "train", 4, 2 * DAY, load="idle", project=False),
            "tomas",
            at=-13 * HOUR,
            started=True,
            on=("gpu03",),
        ),
        Scripted(
            Template("infra", "tensorboard", "other", "train", 0, 2 * DAY, cpus=4),
            "sam",
            at=-14 * HOUR,
            started=True,
            on=("gpu02",),
        ),
        Scripted(_GANG, "ana", at=-5 * HOUR - 700),
        Scripted(Template("robotics", "sim2real-sweep", "training", "dev", 2, DAY), "wei", at=-4 * HOUR - 90),
        Scripted(
            Template("biology", "fold-prepare", "pipeline", "train", 1, HOUR),
            "fatima",
            at=-12 * HOUR - 500,
            run_s=1100,
            outcome="failed",
            started=True,
            on=("gpu04",),
        ),
        Scripted(
            Template("biology", "fold-relax", "training", "train", 2, 4 * HOUR),
            "fatima",
            at=-12 * HOUR - 440,
            after="fold-prepare",
        ),
        Scripted(
            Template("nlp", "dpo-final", "training", "train", 8, DAY, qos="nlp"), "priya", at=-3 * HOUR, held=True
        ),
        Scripted(Template("speech", "asr-bench", "batch", "train", 1, HOUR), "carlos", at=-2 * HOUR, pinned=("gpu06",)),
    ),
    faults=(
        Fault(
            at=-11 * HOUR,
            node="gpu06",
            gpu=5,
            xid=79,
            lost=True,
            drain="gres/gpu count reported lower than configured (7 < 8)",
        ),
        Fault(at=-40 * 60, node="gpu03", gpu=2, xid=94),
    ),
    prices={"a100": "1.80"},
)

_MID_GROUP = NodeGroup(
    prefix="hgx", count=16, model="h100", cpus=192, memory_gib=2048, idle_w=75.0, power_limit_w=700.0
)
_MID_NODES = _MID_GROUP.names()
_CHAT = Template("inference", "chat-serve", "inference", "serve", 4, 30 * DAY, qos="online", load="wave")
_MID128 = Scenario(
    name="mid128",
    groups=(_MID_GROUP,),
    partitions=(
        SlurmPartition(name="batch", nodes=_MID_NODES[2:], default=True, max_time_s=5 * DAY, default_time_s=HOUR),
        SlurmPartition(
            name="short", nodes=_MID_NODES[12:], priority_tier=2, max_time_s=4 * HOUR, default_time_s=HOUR, max_nodes=2
        ),
        SlurmPartition(name="serve", nodes=_MID_NODES[:6], priority_tier=3, max_time_s=30 * DAY, default_time_s=DAY),
    ),
    qos=(
        SlurmQos(name="normal"),
        SlurmQos(name="research", grp_tres={GPU: 24.0}),
        SlurmQos(name="online", priority=1000),
        SlurmQos(name="large", priority=800),
        SlurmQos(name="short", priority=100, max_tres_per_user={GPU: 8.0}),
    ),
    teams=(
        Team(name="research", users=("elena", "hugo", "ravi", "zhou"), projects=("moe", "rlhf", "vlm"), shares=3),
        Team(name="training", users=("jonas", "mira", "deng"), projects=("base-30b", "base-7b"), shares=5),
        Team(name="inference", users=("olu", "kate"), projects=("chat", "search"), shares=3),
        Team(name="data", users=("pavel", "aiko"), projects=("crawl",), shares=1, gpu_limit=16),
    ),
    templates=(
        Template("research", "moe-ablation", "training", "batch", 8, 12 * HOUR, qos="research", weight=3),
        Template("research", "vlm-probe", "training", "batch", 8, 10 * HOUR, nodes=2, qos="research", weight=1.5),
        Template("research", "eval", "batch", "short", 2, 2 * HOUR, qos="short", weight=4),
        Template("training", "base-7b", "training", "batch", 8, 20 * HOUR, nodes=2, weight=1),
        Template("training", "ckpt-eval", "batch", "short", 4, HOUR, qos="short", weight=3),
        Template("training", "resume-test", "training", "batch", 8, 3 * HOUR, weight=2),
        Template("inference", "search-canary", "inference", "serve", 2, 12 * HOUR, qos="online", weight=1, load="wave"),
        Template("data", "dedup", "pipeline", "batch", 0, 4 * HOUR, cpus=32, weight=2),
        Template("data", "embed-crawl", "batch", "batch", 4, 6 * HOUR, weight=3, load="starved"),
        Template("data", "adhoc", "other", "short", 1, 3 * HOUR, qos="short", weight=1, project=False, load="bursty"),
    ),
    per_hour=8.0,
    scripted=(
        Scripted(_CHAT, "olu", at=-9 * DAY, started=True, on=("hgx01",)),
        Scripted(_CHAT, "olu", at=-9 * DAY + 60, started=True, on=("hgx01",)),
        Scripted(
            msgspec.structs.replace(_CHAT, name="search-serve", gpus=2),
            "kate",
            at=-4 * DAY,
            started=True,
            on=("hgx02",),
        ),
        Scripted(
            msgspec.structs.replace(_CHAT, name="rerank-serve", gpus=2),
            "kate",
            at=-4 * DAY + 60,
            started=True,
            on=("hgx02",),
        ),
        Scripted(
            Template("training", "base-30b", "training", "batch", 8, 5 * DAY, nodes=4),
            "jonas",
            at=-2 * DAY,
            started=True,
            on=("hgx07", "hgx08", "hgx09", "hgx10"),
            restarts=1,
        ),
        Scripted(
            Template(
                "research", "jupyter", "interactive", "batch", 8, 2 * DAY, qos="research", load="idle", project=False
            ),
            "hugo",
            at=-13 * HOUR,
            started=True,
            on=("hgx04",),
        ),
        Scripted(
            Template("data", "crawl-index", "other", "batch", 0, 5 * DAY, cpus=16),
            "aiko",
            at=-14 * HOUR,
            started=True,
            on=("hgx11",),
        ),
        Scripted(
            Template("training", "base-30b-ext", "training", "batch", 8, 3 * DAY, nodes=8, qos="large"),
            "mira",
            at=-7 * HOUR,
        ),
        Scripted(
            Template("research", "rlhf-long", "training", "short", 8, 8 * HOUR, qos="short"), "ravi", at=-3 * HOUR - 400
        ),
        Scripted(
            Template("data", "crawl-shard", "pipeline", "batch", 1, 2 * HOUR),
            "pavel",
            at=-12 * HOUR - 300,
            run_s=900,
            outcome="failed",
            started=True,
            on=("hgx11",),
        ),
        Scripted(
            Template("data", "crawl-merge", "pipeline", "batch", 2, 2 * HOUR),
            "pavel",
            at=-12 * HOUR - 270,
            after="crawl-shard",
        ),
        Scripted(Template("training", "lr-sweep", "training", "batch", 4, 6 * HOUR), "deng", at=-2 * HOUR, held=True),
    ),
    faults=(
        Fault(at=-10 * HOUR, node="hgx12", drain="Kill task failed"),
        Fault(
            at=-3 * HOUR,
            node="hgx15",
            gpu=3,
            xid=79,
            lost=True,
            drain="gres/gpu count reported lower than configured (7 < 8)",
        ),
        Fault(at=-50 * 60, node="hgx08", gpu=6, xid=63),
    ),
    prices={"h100": "3.20"},
)

_HOPPER = NodeGroup(prefix="h", count=4, model="h100", cpus=192, memory_gib=2048, idle_w=75.0, power_limit_w=700.0)
_AMPERE = NodeGroup(prefix="a", count=4, model="a100")
_QUAD = Scenario(
    name="quad",
    groups=(_HOPPER, _AMPERE),
    partitions=(
        SlurmPartition(name="h100", nodes=_HOPPER.names(), default=True, max_time_s=3 * DAY, default_time_s=HOUR),
        SlurmPartition(name="a100", nodes=_AMPERE.names(), max_time_s=3 * DAY, default_time_s=HOUR),
        SlurmPartition(
            name="dev",
            nodes=_AMPERE.names()[2:],
            priority_tier=2,
            max_time_s=6 * HOUR,
            default_time_s=HOUR,
            max_nodes=1,
        ),
    ),
    qos=(
        SlurmQos(name="normal"),
        SlurmQos(name="interactive", priority=200, max_tres_per_user={GPU: 2.0}),
        SlurmQos(name="weekly", priority=500, grp_tres={GPU: 24.0}),
    ),
    teams=(
        Team(name="agents", users=("bruno", "saanvi"), projects=("planner",), shares=2),
        Team(name="media", users=("chloe", "jin"), projects=("upscale", "tts"), shares=2, gpu_limit=12),
        Team(name="risk", users=("amir", "greta"), projects=("fraud",), shares=1),
        Team(name="platform", users=("dana",), projects=("serving",), shares=1),
    ),
    templates=(
        Template("agents", "sft", "training", "h100", 8, 8 * HOUR, weight=1),
        Template("agents", "rollout", "batch", "h100", 2, 3 * HOUR, weight=2),
        Template("media", "tts-train", "training", "a100", 4, 8 * HOUR, weight=3),
        Template("media", "upscale", "batch", "a100", 2, 2 * HOUR, weight=2, load="starved"),
        Template("risk", "fraud-retrain", "training", "a100", 4, 4 * HOUR, weight=1),
        Template("risk", "features", "pipeline", "a100", 0, 2 * HOUR, cpus=24, weight=1),
        Template("agents", "notebook", "interactive", "dev", 1, 6 * HOUR, qos="interactive", weight=3, load="bursty"),
        Template(
            "risk",
            "untitled",
            "interactive",
            "dev",
            1,
            3 * HOUR,
            qos="interactive",
            weight=1,
            load="bursty",
            project=False,
        ),
    ),
    per_hour=4.5,
    scripted=(
        Scripted(
            Template("platform", "vllm-serve", "inference", "h100", 2, 3 * DAY, load="wave"),
            "dana",
            at=-2 * DAY,
            started=True,
            on=("h01",),
        ),
        Scripted(
            Template("platform", "tts-serve", "inference", "a100", 1, 3 * DAY, load="wave"),
            "dana",
            at=-30 * HOUR,
            started=True,
            on=("a01",),
        ),
        Scripted(
            Template("agents", "jupyter", "interactive", "h100", 4, 2 * DAY, load="idle", project=False),
            "bruno",
            at=-13 * HOUR,
            started=True,
            on=("h02",),
        ),
        Scripted(
            Template("platform", "gateway", "other", "a100", 0, 3 * DAY, cpus=4),
            "dana",
            at=-14 * HOUR,
            started=True,
            on=("a01",),
        ),
        Scripted(
            Template("agents", "weekly-sft", "training", "h100", 8, 16 * HOUR, nodes=3, qos="weekly"),
            "saanvi",
            at=-4 * HOUR - 800,
        ),
        Scripted(Template("risk", "backfill-year", "batch", "dev", 1, 2 * DAY), "greta", at=-5 * HOUR),
        Scripted(
            Template("risk", "fraud-extract", "pipeline", "a100", 1, HOUR),
            "amir",
            at=-12 * HOUR - 200,
            run_s=700,
            outcome="failed",
            started=True,
            on=("a02",),
        ),
        Scripted(
            Template("risk", "fraud-score", "batch", "a100", 2, 2 * HOUR),
            "amir",
            at=-12 * HOUR - 160,
            after="fraud-extract",
        ),
        Scripted(
            Template("media", "tts-multilingual", "training", "a100", 8, 12 * HOUR), "chloe", at=-3 * HOUR, held=True
        ),
        Scripted(Template("media", "tts-voices", "training", "a100", 8, 12 * HOUR, nodes=2), "jin", at=-2 * HOUR - 200),
    ),
    faults=(
        Fault(at=-8 * HOUR, node="a04", drain="NVLink errors, vendor case open"),
        Fault(at=-8 * HOUR - 120, node="a04", gpu=1, xid=74),
        Fault(at=-25 * 60, node="h02", gpu=6, xid=94),
    ),
    prices={"h100": "3.20", "a100": "1.80"},
)

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in (_LAB48, _MID128, _QUAD)}
