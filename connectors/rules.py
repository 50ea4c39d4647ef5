"""The scheduling rules of each system, typed; read only by that system's policy.

Figures are the system's own. A limit that the system does not set is +inf; a value that it did not say is None.
TRES names are Slurm's (`cpu`, `mem` in bytes, `node`, `gres/gpu`, `gres/gpu:h100`).
"""

import math

import msgspec

Limits = dict[str, float]  # TRES name to limit; a name that is absent is unlimited


class SlurmPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition (scontrol show partition); None for an allow-list means that everybody may."""

    name: str
    nodes: tuple[str, ...] = ()
    state: str = "UP"
    default: bool = False
    priority_tier: int = 1
    priority_job_factor: int = 1
    max_time_s: float = math.inf
    default_time_s: float | None = None
    min_nodes: int = 0
    max_nodes: float = math.inf
    allow_qos: tuple[str, ...] | None = None
    deny_qos: tuple[str, ...] = ()
    allow_accounts: tuple[str, ...] | None = None
    deny_accounts: tuple[str, ...] = ()
    allow_groups: tuple[str, ...] | None = None
    qos: str | None = None
    preempt_mode: str = "OFF"
    exclusive: bool = False
    root_only: bool = False


class SlurmQos(msgspec.Struct, frozen=True, kw_only=True):
    """One quality of service: its limits and whom it preempts."""

    name: str
    priority: int = 0
    preempt: tuple[str, ...] = ()
    preempt_mode: str = "cluster"
    preempt_exempt_s: float | None = None
    grace_s: float = 0.0
    flags: tuple[str, ...] = ()
    usage_factor: float = 1.0
    grp_tres: Limits = {}
    grp_jobs: float = math.inf
    grp_submit_jobs: float = math.inf
    max_tres_per_user: Limits = {}
    max_tres_per_account: Limits = {}
    max_tres_per_job: Limits = {}
    max_tres_per_node: Limits = {}
    min_tres_per_job: Limits = {}
    max_jobs_per_user: float = math.inf
    max_jobs_per_account: float = math.inf
    max_submit_jobs_per_user: float = math.inf
    max_wall_s: float = math.inf


class SlurmAssociation(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the account tree: an account (`user` is empty) or a user in it."""

    account: str
    user: str = ""
    partition: str = ""
    parent: str | None = None
    shares: float | None = None
    usage: float | None = None
    level_fairshare: float | None = None
    fairshare_factor: float | None = None
    grp_tres: Limits = {}
    grp_jobs: float = math.inf
    grp_submit_jobs: float = math.inf
    max_tres_per_job: Limits = {}
    max_tres_per_node: Limits = {}
    max_jobs: float = math.inf
    max_submit_jobs: float = math.inf
    max_wall_s: float = math.inf
    qos: tuple[str, ...] = ()
    default_qos: str | None = None


class SlurmRules(msgspec.Struct, frozen=True, kw_only=True, tag="slurm"):
    """What decides order, limits and backfill on one Slurm cluster (scontrol show config, partitions, assoc_mgr).

    `associations` is None where slurmctld runs without accounting or did not say. `cluster_name` is ClusterName, which
    sacctmgr knows the cluster by; the name in gpudeck's config may be another.
    """

    cluster_name: str | None = None
    scheduler: str = "sched/backfill"
    priority_type: str = "priority/multifactor"
    weight_age: float = 0
    weight_assoc: float = 0
    weight_fairshare: float = 0
    weight_job_size: float = 0
    weight_partition: float = 0
    weight_qos: float = 0
    weight_tres: dict[str, float] = {}
    priority_flags: tuple[str, ...] = ()
    favor_small: bool = False
    max_age_s: float = 7 * 86400.0
    decay_half_life_s: float = 7 * 86400.0
    enforce: tuple[str, ...] = ()
    preempt_type: str = "preempt/none"
    preempt_mode: tuple[str, ...] = ("OFF",)
    preempt_exempt_s: float = 0.0
    preempt_youngest_first: bool = False
    parameters: dict[str, str] = {}
    bf_interval_s: float = 30.0
    bf_window_s: float = 86400.0
    bf_resolution_s: float = 60.0
    bf_max_job_test: int = 500
    bf_max_job_user: int = 0
    bf_max_job_part: int = 0
    bf_job_part_count_reserve: int = 0
    bf_continue: bool = False
    default_queue_depth: int = 100
    max_array_size: int | None = None
    gpu_types: tuple[str, ...] = ()
    partitions: tuple[SlurmPartition, ...] = ()
    qos: tuple[SlurmQos, ...] | None = None
    associations: tuple[SlurmAssociation, ...] | None = None
    licenses: dict[str, tuple[float, float]] = {}


class FifoRules(msgspec.Struct, frozen=True, kw_only=True, tag="fifo"):
    """First come, first served on nodes; `backfill` lets a later job start if it delays nobody ahead of it."""

    backfill: bool = True


Rules = SlurmRules | FifoRules
