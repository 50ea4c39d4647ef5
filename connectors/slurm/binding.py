"""What the rules and the nodes add to jobs and GPUs: the queues that bind a job, its GPU model, who holds a device."""

import polars as pl

from connectors.model import WORDS
from connectors.notation import NotationError, parse_hostlist
from connectors.rules import SlurmRules
from connectors.slurm.columns import Unread, gather, gather_lists
from connectors.slurm.scheduling import Scopes, preemptible_partitions, preemptible_qos

_HOLDS = ("running", "suspended", "completing")


def with_rules(jobs: pl.DataFrame, rules: SlurmRules, nodes: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs with `queue`, `bound_by`, `preemptible`, `chain` and a model where only the nodes tell it."""
    jobs = _with_model(jobs, nodes)
    return jobs.with_columns(*_bound(jobs, rules), _preemptible(rules), _chain(jobs))


def _bound(jobs: pl.DataFrame, rules: SlurmRules) -> list[pl.Series]:
    scopes = Scopes(rules)
    columns = [jobs[name].fill_null("").to_list() for name in ("slurm_partition", "slurm_account", "user", "slurm_qos")]
    known: dict[tuple[str, ...], int] = {}
    codes = [known.setdefault(row, len(known)) for row in zip(*columns, strict=True)]
    bound = [scopes.bound_by(*row) for row in known]
    # a pending job may name several partitions; the first stands for where it was submitted
    queues = [f"partition:{row[0].partition(',')[0]}" if row[0] else None for row in known]
    return [gather_lists(bound, codes, "bound_by"), gather(queues, pl.String, codes, "queue")]


def excluded_column(text: str | None, job_ids: list[str], unread: Unread) -> pl.Series:
    """Return the nodes that a pending job must not get, from `squeue -o '%A %x'`; null where that was not answered."""
    if text is None:
        return pl.Series("slurm_excluded_nodes", [None], dtype=WORDS).new_from_index(0, len(job_ids))
    excluded: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        job, _blank, nodes = line.partition(" ")
        try:
            excluded[job] = parse_hostlist(nodes.strip())
        except NotationError:
            unread.cell("slurm_excluded_nodes", line)
    known: dict[tuple[str, ...], int] = {}
    codes = [known.setdefault(excluded.get(job, ()), len(known)) for job in job_ids]
    return gather_lists(list(known), codes, "slurm_excluded_nodes")


def _preemptible(rules: SlurmRules) -> pl.Expr:
    if rules.preempt_type == "preempt/qos":
        victims = preemptible_qos(rules)
        if victims is None:
            return pl.lit(None, dtype=pl.Boolean).alias("preemptible")
        return pl.col("slurm_qos").is_in(sorted(victims)).fill_null(value=False).alias("preemptible")
    if rules.preempt_type == "preempt/partition_prio":
        lower = sorted(preemptible_partitions(rules))
        return pl.col("slurm_partition").is_in(lower).fill_null(value=False).alias("preemptible")
    return pl.lit(value=False).alias("preemptible")


def _chain(jobs: pl.DataFrame) -> pl.Series:
    """Return, for the components of a heterogeneous job, the ids of all of them; nothing for other jobs."""
    components: dict[str, list[str]] = {}
    for name, parent in zip(jobs["id"], jobs["parent_id"], strict=True):
        if parent is not None and "+" in name:
            components.setdefault(parent, []).append(name)
    if not components:
        return pl.Series("chain", [[]], dtype=WORDS).new_from_index(0, len(jobs))
    nothing: list[str] = []
    known: dict[str, int] = {"": 0}
    codes = [
        known.setdefault(parent, len(known)) if parent is not None and "+" in name else 0
        for name, parent in zip(jobs["id"], jobs["parent_id"], strict=True)
    ]
    return gather_lists([components.get(parent, nothing) for parent in known], codes, "chain")


def _with_model(jobs: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Fill in the model of a job that holds GPUs and did not name one, where all of its nodes have the same."""
    unknown = pl.col("gpu_model").is_null() & (pl.col("gpus") > 0) & pl.col("state").cast(pl.String).is_in(_HOLDS)
    asked = jobs.filter(unknown).select("key", name="nodelist").explode("name")
    if asked.is_empty():
        return jobs
    models = (
        asked.join(nodes.select("name", "gpu_model"), on="name", how="left")
        .group_by("key")
        .agg(found=pl.col("gpu_model").unique())
        .filter(pl.col("found").list.len() == 1)
        .select("key", found=pl.col("found").list.first())
    )
    joined = jobs.join(models, on="key", how="left", maintain_order="left")
    return joined.with_columns(gpu_model=pl.coalesce("gpu_model", "found")).drop("found")


def held_by(gpus: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the GPUs with `job_ids`: known where one job alone holds GPUs of the node, none on a free device."""
    holders = (
        jobs.filter(pl.col("state").cast(pl.String).is_in(_HOLDS) & (pl.col("gpus") > 0))
        .select("id", node="nodelist")
        .explode("node")
        .group_by("node")
        .agg(holders=pl.col("id"))
    )
    alone = pl.col("holders").list.len() == 1
    return (
        gpus.join(holders, on="node", how="left", maintain_order="left")
        .with_columns(
            job_ids=pl.when((pl.col("state") == "allocated") & alone)
            .then("holders")
            .when(pl.col("state") == "free")
            .then(pl.lit([], dtype=WORDS))
        )
        .drop("holders")
    )
