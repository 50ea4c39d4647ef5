"""Jobs that ended, from sacct: one row for each allocation, a requeued job's earlier runs too (`-D`)."""

from datetime import datetime

import polars as pl

from connectors.connector import Answer
from connectors.errors import ConnectorError, Malformed, Unreachable, Unsupported
from connectors.model import ACTIVE_STATES, WORDS, conform
from connectors.slurm.columns import Unread, decode, said
from connectors.slurm.commands import HISTORY_FIELDS, US
from connectors.slurm.framing import BROKEN_OFF
from connectors.slurm.jobs import jobs_frame
from connectors.slurm.table import Table, split_table

SOURCE = "sacct"
_AS_SQUEUE = {
    "JobID": "jobarrayid", "JobIDRaw": "jobid", "User": "username", "Account": "account", "Partition": "partition",
    "QOS": "qos", "State": "state", "ExitCode": "exit_code", "Priority": "prioritylong", "Submit": "submittime",
    "Eligible": "eligibletime", "Start": "starttime", "End": "endtime", "TimelimitRaw": "timelimit",
    "NNodes": "numnodes", "NCPUS": "numcpus", "NodeList": "nodelist", "Reservation": "reservation",
    "Constraints": "feature", "Reason": "reason", "JobName": "name",
}  # fmt: skip
_OFF = ("accounting storage is disabled", "Slurm accounting storage is disabled")


def history_table(answer: Answer, since: datetime, *, cluster: str) -> pl.DataFrame:
    """Return the jobs that ended since then, in the schema of `jobs`.

    Unsupported where the cluster keeps no accounting, Unreachable where slurmdbd does not answer, Malformed where rows
    can't be read: a history with holes would make every figure over it wrong.
    """
    if answer.code != 0:
        raise _failure(answer, cluster)
    fence = delimiter(answer.asked)
    table = split_table(decode(answer.out), [HISTORY_FIELDS[0]], list(HISTORY_FIELDS[1:]), fence)
    unread = Unread(SOURCE, "jobs", since)
    for text in table.unreadable:
        unread.row(text)
    frame = jobs_frame(_as_squeue(table), unread)
    gaps = unread.gaps(len(table) + len(table.unreadable))
    if gaps:
        raise Malformed("; ".join(gap.reason for gap in gaps), cluster=cluster, source=SOURCE)
    never_ran = pl.col("nodelist").list.len() == 0
    partition = pl.col("slurm_partition").str.split(",").list.first()
    frame = frame.filter(pl.col("end_time") >= since).with_columns(
        start_time=pl.when(~never_ran).then(pl.col("start_time")),
        # a run that was put back into the queue neither succeeded nor failed; its own word is kept
        state=pl.when(pl.col("state").cast(pl.String).is_in(ACTIVE_STATES))
        .then(pl.lit("unknown"))
        .otherwise(pl.col("state").cast(pl.String)),
        queue=pl.when(partition != "").then(pl.format("partition:{}", partition)),
        bound_by=pl.lit(None, dtype=WORDS),
    )
    return conform("jobs", frame, cluster=cluster, system="slurm")


def _as_squeue(table: Table) -> Table:
    columns = {mine: table.get(name) for name, mine in _AS_SQUEUE.items()}
    pairs = zip(table.get("AllocTRES"), table.get("ReqTRES"), strict=True)
    columns["tres-alloc"] = [given or asked for given, asked in pairs]
    return Table(columns=columns)


def delimiter(asked: str) -> str:
    """Return the delimiter that sacct was asked to use; it is US and the nonce."""
    return US + asked.partition(f"--delimiter={US}")[2].partition("'")[0].partition(" ")[0]


def _failure(answer: Answer, cluster: str) -> ConnectorError:
    words = "the answer broke off" if answer.code == BROKEN_OFF else said(answer)
    if any(mark in words for mark in _OFF):
        return Unsupported("this cluster keeps no accounting", cluster=cluster, capability="history")
    return Unreachable(words, cluster=cluster, source=SOURCE)
