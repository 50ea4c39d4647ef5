"""The jobs table from `squeue -O`.

One row for what a user would call one job: an array's pending tasks are one row whose `tasks` counts them, a started
task is a row of its own, a component of a heterogeneous job is a row whose parent is the job. Figures are those of one
task. GPUs come from the TRES, counted once; where the cluster does not track GPUs as TRES, from what was asked per
node, job or task.
"""

from datetime import datetime
from typing import Any

import polars as pl

from connectors.connector import Answer, Gap
from connectors.model import ACTIVE_STATES, LABELS
from connectors.model import JOB_STATES as STATES
from connectors.notation import (
    JobId,
    NotationError,
    parse_duration,
    parse_hostlist,
    parse_job_id,
)
from connectors.slurm.columns import Unread, decode, gather, gathered, lists, numbers, times, words
from connectors.slurm.commands import fields_of, without
from connectors.slurm.kinds import kind_of, kind_of_place
from connectors.slurm.sizes import size_columns
from connectors.slurm.states import job_state
from connectors.slurm.table import Table, split_table

_REFUSED = "Invalid job format specification: "
_STARTED = ("running", "suspended", "completing")
SOURCE = "squeue"


def refused_fields(answer: Answer) -> list[str]:
    """Return the fields that this version of squeue does not know: it says so, leaves them out and exits with 0."""
    lines = decode(answer.err).splitlines()
    return [line.partition(_REFUSED)[2].strip() for line in lines if _REFUSED in line]


def read_table(answer: Answer) -> Table:
    """Return the texts of all jobs, by field."""
    fields = without(fields_of(answer.asked), refused_fields(answer))
    fence = fields[-1][1]
    free = [name for name, ending in fields if ending == fence]
    plain = [name for name, ending in fields if ending != fence] + free[:1]
    return split_table(decode(answer.out), plain, free[1:], fence)


def jobs_table(answer: Answer, now: datetime) -> tuple[pl.DataFrame, list[Gap]]:
    """Return the jobs and what could not be read of them; columns that need the rules are added by `with_rules`."""
    table = read_table(answer)
    unread = Unread(SOURCE, "jobs", now)
    for text in table.unreadable:
        unread.row(text)
    total = len(table) + len(table.unreadable)
    frame = _ordered_times(jobs_frame(table, unread))
    gaps = unread.gaps(total)
    missing = refused_fields(answer)
    if missing:
        reason = f"this version has no field {', '.join(missing)}"
        gaps.append(Gap(source=SOURCE, reason=reason, since=now, affects=("jobs",)))
    return frame, gaps


def jobs_frame(table: Table, unread: Unread) -> pl.DataFrame:
    """Return the rows of a table with squeue's field names; its times are still as Slurm gives them."""
    ids, table = _ids(table, unread)
    columns: list[pl.Series] = [
        *_identity(ids, table.get("jobarrayid")),
        *_who(table),
        *_states(table, unread),
        *_times(table, unread),
    ]
    frame = pl.DataFrame(columns).with_columns(size_columns(table, unread))
    return frame.with_columns(_places(table, unread)).with_columns(_kinds(frame, table))


def _ids(table: Table, unread: Unread) -> tuple[list[JobId | None], Table]:
    """Return the ids (None for a plain number), and the table without the rows whose id can't be read."""
    ids: list[JobId | None] = []
    bad: set[int] = set()
    for at, text in enumerate(table.get("jobarrayid")):
        try:
            ids.append(None if text.isdecimal() and text.isascii() else parse_job_id(text))
        except NotationError:
            bad.add(at)
            unread.row(text)
    if bad:
        kept = {name: [cell for at, cell in enumerate(cells) if at not in bad] for name, cells in table.columns.items()}
        table = Table(columns=kept)
    return ids, table


def _identity(ids: list[JobId | None], texts: list[str]) -> list[pl.Series]:
    names, keys = list(texts), list(texts)
    parents: list[str | None] = [None] * len(ids)
    throttles: list[int | None] = [None] * len(ids)
    tasks = [1] * len(ids)
    remainders: set[str] = set()
    for at, job in enumerate(ids):
        if job is None:
            continue
        base = str(job.base)
        parents[at] = base if job.tasks is not None or job.het_offset is not None else None
        throttles[at] = job.throttle
        if job.bracketed and job.tasks is not None:
            # %4 is no part of what scontrol and scancel take as an id
            ranges = ",".join(_span(one) for one in job.tasks) + ("..." if job.truncated else "")
            names[at], tasks[at] = f"{base}_[{ranges}]", job.count
            # ended tasks that were never split off are such a row, too, beside the one that waits
            keys[at] = names[at] if base in remainders else base
            remainders.add(base)
    return [
        pl.Series("id", names, dtype=pl.String),
        pl.Series("key", keys, dtype=pl.String),
        pl.Series("parent_id", parents, dtype=pl.String),
        pl.Series("tasks", tasks, dtype=pl.Int32),
        pl.Series("slurm_array_throttle", throttles, dtype=pl.Int32),
    ]


def _span(one: range) -> str:
    if len(one) == 1:
        return str(one[0])
    return f"{one[0]}-{one[-1]}" + (f":{one.step}" if one.step > 1 else "")


def _who(table: Table) -> list[pl.Series]:
    names = (
        ("name", "name"), ("user", "username"), ("team", "account"), ("slurm_account", "account"),
        ("slurm_partition", "partition"), ("slurm_qos", "qos"), ("slurm_reservation", "reservation"),
        ("dependency", "dependency"), ("constraint", "feature"), ("slurm_licenses", "licenses"),
        ("slurm_comment", "comment"), ("slurm_job_id", "jobid"),
    )  # fmt: skip
    # a job's name is what its user gave it, even if that is "N/A"
    as_given = {"name", "username"}
    return [
        pl.Series(column, table.get(field), dtype=pl.String) if field in as_given else words(table.get(field), column)
        for column, field in names
    ]


def _states(table: Table, unread: Unread) -> list[pl.Series]:
    raw, reason, code = table.get("state"), table.get("reason"), table.get("exit_code")
    return [
        pl.Series("state_raw", raw, dtype=pl.String),
        gathered(raw, job_state, pl.Enum(STATES), unread, "state"),
        pl.Series("reason_raw", [None if text in {"", "None"} else text for text in reason], dtype=pl.String),
        gathered(code, lambda text: exit_of(text)[0], pl.Int32, unread, "exit_code"),
        gathered(code, lambda text: exit_of(text)[1], pl.Int32, unread, "exit_signal"),
        numbers(table.get("prioritylong"), pl.Float64, unread, "priority"),
        numbers(table.get("restartcnt"), pl.Int32, unread, "restarts"),
        _flag(table.get("requeue"), "slurm_requeue"),
        _flag(table.get("batchflag"), "slurm_batch"),
        pl.Series("slurm_exclusive", [_EXCLUSIVE.get(text) for text in table.get("oversubscribe")], dtype=pl.Boolean),
    ]


_EXCLUSIVE = {"NO": True, "OK": False, "YES": False, "USER": False, "MCS": False, "TOPO": False}
_FLAGS = {"1": True, "0": False}


def _flag(texts: list[str], column: str) -> pl.Series:
    return pl.Series(column, [_FLAGS.get(text) for text in texts], dtype=pl.Boolean)


def exit_of(text: str) -> tuple[int | None, int | None]:
    """Return exit code and signal of `1:0` (sacct, and squeue of some versions) or of a raw wait status."""
    if text in {"", "N/A", "(null)"}:
        return None, None
    code, colon, signal = text.partition(":")
    if not code.isdecimal() or (colon and not signal.isdecimal()):
        raise NotationError("exit code", text, "Slurm writes code:signal or a wait status")
    if colon:
        return int(code), int(signal)
    return int(code) >> 8 & 0xFF, int(code) & 0x7F


def _times(table: Table, unread: Unread) -> list[pl.Series]:
    return [
        times(table.get("submittime"), unread, "submit_time"),
        times(table.get("eligibletime"), unread, "eligible_time"),
        times(table.get("starttime"), unread, "start_time"),
        times(table.get("endtime"), unread, "end_time"),
        gathered(table.get("timelimit"), parse_duration, pl.Float64, unread, "time_limit_s"),
    ]


def _ordered_times(frame: pl.DataFrame) -> pl.DataFrame:
    """Give each time its meaning by state: the start of a pending job is a plan, the end of a running one a limit."""
    state = pl.col("state").cast(pl.String)
    never_ran = ~state.is_in(["pending", *_STARTED]) & (pl.col("nodelist").list.len() == 0)
    return frame.with_columns(
        expected_start_time=pl.when(state == "pending").then(pl.col("start_time")),
        start_time=pl.when((state != "pending") & ~never_ran).then(pl.col("start_time")),
        end_time=pl.when(~state.is_in(["pending", "running", "suspended"])).then(pl.col("end_time")),
        exit_code=pl.when(~state.is_in(ACTIVE_STATES)).then(pl.col("exit_code")),
        exit_signal=pl.when(~state.is_in(ACTIVE_STATES)).then(pl.col("exit_signal")),
    )


def _hosts(text: str) -> tuple[str, ...]:
    # most jobs run on one node, and its name alone is no list
    return (text,) if text.isalnum() else parse_hostlist(text)


def _places(table: Table, unread: Unread) -> list[pl.Series]:
    return [
        lists(table.get("nodelist"), _hosts, unread, "nodelist"),
        lists(table.get("reqnodes"), _hosts, unread, "requested_nodes"),
        lists(table.get("schednodes"), _hosts, unread, "slurm_scheduled_nodes"),
        pl.Series("labels", [[]], dtype=LABELS).new_from_index(0, len(table)),
        pl.Series("gang", [True], dtype=pl.Boolean).new_from_index(0, len(table)),
    ]


def _kinds(frame: pl.DataFrame, table: Table) -> list[pl.Series]:
    columns = [table.get(name) for name in ("partition", "qos", "name", "batchflag")]
    without_gpus = (frame["gpus"] == 0).to_list()
    known: dict[tuple[Any, ...], int] = {}
    codes = []
    for partition, qos, name, batch, no_gpus in zip(*columns, without_gpus, strict=True):
        key = (partition, qos, "" if kind_of_place(partition, qos) else name, batch, no_gpus)
        codes.append(known.setdefault(key, len(known)))
    kinds = [
        kind_of(partition, qos, name, batch=batch == "1", no_gpus=no_gpus is True)
        for partition, qos, name, batch, no_gpus in known
    ]
    return [
        gather([kind for kind, _basis in kinds], pl.String, codes, "kind"),
        gather([basis for _kind, basis in kinds], pl.String, codes, "kind_basis"),
    ]
