"""The nodes and gpus tables, and events, from `scontrol -d show node`.

The listing of several lines is read, not the one-line form: there the further lines of a reason are indented further
than any field, so that no reason can pretend to be one.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any

import polars as pl

from connectors.connector import Answer, Gap
from connectors.model import LABELS, NODE_STATES, TIME, WORDS
from connectors.notation import Gres, NotationError, parse_gres
from connectors.slurm.columns import Unread, decode, gather, gathered, lists, numbers, times
from connectors.slurm.records import listed
from connectors.slurm.sizes import mig_share
from connectors.slurm.states import node_state

SOURCE = "scontrol show node"
_FIELDS = (
    "NodeName", "State", "CPUTot", "CPUAlloc", "RealMemory", "AllocMem", "Partitions", "BootTime", "ActiveFeatures",
    "Weight", "Gres", "GresUsed", "GresDrain",
)  # fmt: skip
_FREE_TEXT = r"(?m)^   (?:OS|Reason|Comment|Extra)=.*(?:\n {10}.*)*$"
_REASON = r"(?m)^   Reason=(.*(?:\n {10}.*)*)$"
_BY = re.compile(r"(?P<reason>.*?) \[(?P<by>[^\[\]@]*)@(?P<time>[^\[\]@]*)\](?P<rest>(?:\n.*)*)", re.DOTALL)
_INDENT = "\n" + " " * 10
_FEWER = re.compile(r"gres/gpu count reported lower than configured \((\d+) < (\d+)\)")


def node_fields(text: str) -> pl.DataFrame:
    """Return the texts of each node's fields, null where one is missing; a column for each of _FIELDS and `Reason`.

    A reason's further lines are kept; free text is cut away before the other fields are looked for.
    """
    chunks = ("\n" + text).split("\nNodeName=")[1:]
    whole = pl.Series("chunk", ["NodeName=" + chunk for chunk in chunks], dtype=pl.String)
    frame = pl.DataFrame({"chunk": whole, "fields": whole.str.replace_all(_FREE_TEXT, "")})
    return frame.select(
        *(pl.col("fields").str.extract(rf"(?:^|[ \n]){name}=(\S*)").alias(name) for name in _FIELDS),
        pl.col("chunk").str.extract(_REASON).str.replace_all(_INDENT, "\n", literal=True).alias("Reason"),
    )


def nodes_tables(answer: Answer, now: datetime) -> tuple[pl.DataFrame, pl.DataFrame, list[Gap]]:
    """Return nodes, gpus, and what could not be read."""
    unread = Unread(SOURCE, "nodes", now)
    every = node_fields(decode(answer.out))
    good = pl.col("State").is_not_null() & pl.col("NodeName").is_first_distinct()
    for name in every.filter(~good)["NodeName"]:
        unread.row(f"NodeName={name}")
    fields = every.filter(good)
    texts = {name: fields[name].fill_null("").to_list() for name in fields.columns}
    frame = pl.DataFrame(_columns(texts, unread)).with_columns(_gpu_columns(texts, unread))
    return frame, _gpus(frame, texts, now), unread.gaps(len(every))


def _columns(texts: dict[str, list[str]], unread: Unread) -> list[pl.Series]:
    states, partitions, features = texts["State"], texts["Partitions"], texts["ActiveFeatures"]
    reasons = [_reason(reason) for reason in texts["Reason"]]
    open_ = [node_state(state)[1] and bool(where) for state, where in zip(states, partitions, strict=True)]
    mib = 1 << 20
    return [
        pl.Series("name", texts["NodeName"], dtype=pl.String),
        pl.Series("state_raw", states, dtype=pl.String),
        gathered(states, lambda text: node_state(text)[0], pl.Enum(NODE_STATES), unread, "state"),
        pl.Series("schedulable", open_, dtype=pl.Boolean),
        pl.Series("reason", [reason for reason, _by, _at in reasons], dtype=pl.String),
        pl.Series("reason_by", [by for _reason, by, _at in reasons], dtype=pl.String),
        times([at for _reason, _by, at in reasons], unread, "reason_time"),
        numbers(texts["CPUTot"], pl.Float64, unread, "cpus"),
        numbers(texts["CPUAlloc"], pl.Float64, unread, "cpus_allocated"),
        numbers(texts["RealMemory"], pl.Float64, unread, "memory_bytes") * mib,
        numbers(texts["AllocMem"], pl.Float64, unread, "memory_allocated_bytes") * mib,
        lists(partitions, listed, unread, "partitions"),
        times(texts["BootTime"], unread, "boot_time"),
        gathered(features, _labels, LABELS, unread, "labels"),
        pl.Series("taints", [[]], dtype=WORDS).new_from_index(0, len(states)),
        lists(features, listed, unread, "slurm_features"),
        numbers(texts["Weight"], pl.Float64, unread, "slurm_weight"),
    ]


def _labels(features: str) -> list[dict[str, str]]:
    return [{"key": "feature", "value": one} for one in listed(features)]


@lru_cache(maxsize=8192)
def _reason(text: str) -> tuple[str | None, str | None, str]:
    """Return the reason, who gave it and when; Slurm puts `[user@time]` behind the first line of a reason."""
    if not text:
        return None, None, ""
    match = _BY.fullmatch(text)
    if match is None:
        return text, None, ""
    return match["reason"] + match["rest"], match["by"] or None, match["time"]


def _gpu_columns(texts: dict[str, list[str]], unread: Unread) -> list[pl.Series]:
    known: dict[tuple[str, ...], int] = {}
    rows = zip(texts["Gres"], texts["GresUsed"], texts["GresDrain"], map(_fewer, texts["Reason"]), strict=True)
    codes = [known.setdefault(row, len(known)) for row in rows]
    values = [_gpu_figures(row, unread) for row in known]
    kinds = (
        ("gpus", pl.Float64), ("gpus_allocated", pl.Float64), ("gpu_model", pl.String), ("gpus_unusable", pl.Float64)
    )  # fmt: skip
    return [gather([value[at] for value in values], dtype, codes, name) for at, (name, dtype) in enumerate(kinds)]


def _fewer(reason: str) -> str:
    """Return how many GPUs Slurm says are missing from a node that came up with fewer than configured."""
    match = _FEWER.search(reason) if reason else None
    return str(int(match[2]) - int(match[1])) if match else "0"


def _gpu_figures(row: tuple[str, ...], unread: Unread) -> tuple[float | None, float | None, str | None, float | None]:
    held = _devices(row[0], unread, "gpus")
    used = _devices(row[1], unread, "gpus_allocated")
    drained = _devices(row[2], unread, "gpus_unusable")
    models = {one.type for one in held or ()}
    return (
        None if held is None else _physical(held),
        None if used is None or not row[1] else _physical(used),
        models.pop() if len(models) == 1 else None,
        None if drained is None else max(_physical(drained), float(row[3])),
    )


def _physical(devices: Iterable[Gres]) -> float:
    return float(sum(one.count * mig_share(one.type) for one in devices))


def _devices(text: str, unread: Unread, column: str) -> tuple[Gres, ...] | None:
    try:
        return tuple(one for one in parse_gres(text) if one.name == "gpu")
    except NotationError:
        unread.cell(column, text)
        return None


def _gpus(nodes: pl.DataFrame, texts: dict[str, list[str]], now: datetime) -> pl.DataFrame:
    """Return one row for each device; which of them are in use is known where GresUsed names their numbers."""
    known: dict[tuple[str, str, bool], int] = {}
    answers = nodes["state"].cast(pl.String).is_in(["down", "unknown"]).not_()
    rows = zip(texts["Gres"], texts["GresUsed"], answers, strict=True)
    codes = [known.setdefault(row, len(known)) for row in rows]
    values = [_device_rows(*row) for row in known]
    kinds: tuple[tuple[str, Any], ...] = (
        ("index", pl.List(pl.Int32)), ("model", pl.List(pl.String)), ("state", pl.List(pl.String))
    )  # fmt: skip
    columns = [gather([value[at] for value in values], dtype, codes, name) for at, (name, dtype) in enumerate(kinds)]
    exploded = pl.DataFrame([nodes["name"].alias("node"), *columns]).explode("index", "model", "state")
    return exploded.filter(pl.col("index").is_not_null()).with_columns(
        mig_profile=pl.col("model").str.extract(r"([1-7]g\.[0-9]+gb\S*)$"),
        source=pl.lit("slurm"),
        as_of=pl.lit(now, dtype=TIME),
    )


def _device_rows(gres: str, gres_used: str, answers: bool) -> tuple[list[int], list[str | None], list[str]]:
    """Return index, model and state of each device; device numbers run through all kinds of GPU of a node."""
    try:
        held = [one for one in parse_gres(gres) if one.name == "gpu"]
        used = [one for one in parse_gres(gres_used) if one.name == "gpu"]
    except NotationError:
        return [], [], []
    models = [one.type for one in held for _number in range(one.count)]
    count = sum(one.count for one in used)
    numbered = all(one.indexes is not None for one in used)
    busy = {number for one in used for number in one.indexes or ()}
    states = []
    for number in range(len(models)):
        if (numbered and used and (number in busy)) or (count == len(models) and used):
            states.append("allocated")
        elif not answers or not used or not (numbered or count == 0):
            states.append("unknown")
        else:
            states.append("free")
    return list(range(len(models))), models, states


def events_table(nodes: pl.DataFrame) -> pl.DataFrame:
    """Return an event for each node that somebody, or Slurm, gave a reason."""
    bad = pl.col("state").cast(pl.String)
    return nodes.filter(pl.col("reason").is_not_null()).select(
        time=pl.col("reason_time"),
        level=pl.when(bad.is_in(["down", "unknown"])).then(pl.lit("error")).otherwise(pl.lit("warning")),
        source=pl.lit(SOURCE),
        object=pl.format("node:{}", pl.col("name")),
        reason=pl.col("state_raw"),
        message=pl.col("reason"),
        count=pl.lit(1, dtype=pl.Int32),
    )
