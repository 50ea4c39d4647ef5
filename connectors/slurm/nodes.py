"""The nodes and gpus tables, and events, from `scontrol -d show node`.

The listing of several lines is read, not the one-line form: there the further lines of a reason are indented further
than any field, so that no reason can pretend to be one.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import polars as pl

from connectors.connector import Answer, Gap
from connectors.model import LABELS, NODE_STATES, TIME, WORDS
from connectors.notation import Gres, NotationError, parse_gres
from connectors.slurm.columns import Unread, decode, gather, gathered, numbers, times
from connectors.slurm.records import listed
from connectors.slurm.states import node_state

SOURCE = "scontrol show node"
_FREE_TEXT = ("   OS=", "   Reason=", "   Comment=", "   Extra=")
_BY = re.compile(r"(?P<reason>.*?) \[(?P<by>[^\[\]@]*)@(?P<time>[^\[\]@]*)\](?P<rest>(?:\n.*)*)", re.DOTALL)
_FEWER = re.compile(r"gres/gpu count reported lower than configured \((\d+) < (\d+)\)")
_REASON_INDENT = 10


def node_records(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each node; `Reason` as printed, further lines and all, `NodeName` alone where unreadable."""
    for chunk in re.split(r"^(?=NodeName=)", text, flags=re.MULTILINE)[1:]:
        fields: dict[str, str] = {}
        free = ""
        for line in chunk.split("\n"):
            if line.startswith(_FREE_TEXT):
                free, _sign, value = line.strip(" ").partition("=")
                fields.setdefault(free, value)
            elif free == "Reason" and line.startswith(" " * _REASON_INDENT):
                fields[free] += "\n" + line[_REASON_INDENT:]
            else:
                free = ""
                for word in line.split():
                    key, sign, value = word.partition("=")
                    if sign:
                        fields.setdefault(key, value)
        yield fields


def nodes_tables(answer: Answer, now: datetime) -> tuple[pl.DataFrame, pl.DataFrame, list[Gap]]:
    """Return nodes, gpus, and what could not be read."""
    unread = Unread(SOURCE, "nodes", now)
    found: dict[str, dict[str, str]] = {}
    total = 0
    for fields in node_records(decode(answer.out)):
        total += 1
        if "State" not in fields or fields["NodeName"] in found:
            unread.row(f"NodeName={fields.get('NodeName')}")
            continue
        found[fields["NodeName"]] = fields
    rows = list(found.values())
    frame = pl.DataFrame(_columns(rows, unread)).with_columns(_gpu_columns(rows, unread))
    return frame, _gpus(frame, rows, now), unread.gaps(total)


def _texts(rows: list[dict[str, str]], key: str) -> list[str]:
    return [row.get(key, "") for row in rows]


def _columns(rows: list[dict[str, str]], unread: Unread) -> list[pl.Series]:
    states = _texts(rows, "State")
    reasons = [_reason(row.get("Reason", "")) for row in rows]
    partitions = _texts(rows, "Partitions")
    open_ = [node_state(state)[1] and bool(where) for state, where in zip(states, partitions, strict=True)]
    features = [row.get("ActiveFeatures", row.get("AvailableFeatures", "")) for row in rows]
    mib = 1 << 20
    return [
        pl.Series("name", _texts(rows, "NodeName"), dtype=pl.String),
        pl.Series("state_raw", states, dtype=pl.String),
        gathered(states, lambda text: node_state(text)[0], pl.Enum(NODE_STATES), unread, "state"),
        pl.Series("schedulable", open_, dtype=pl.Boolean),
        pl.Series("reason", [reason for reason, _by, _at in reasons], dtype=pl.String),
        pl.Series("reason_by", [by for _reason, by, _at in reasons], dtype=pl.String),
        times([at for _reason, _by, at in reasons], unread, "reason_time"),
        numbers(_texts(rows, "CPUTot"), pl.Float64, unread, "cpus"),
        numbers(_texts(rows, "CPUAlloc"), pl.Float64, unread, "cpus_allocated"),
        numbers(_texts(rows, "RealMemory"), pl.Float64, unread, "memory_bytes") * mib,
        numbers(_texts(rows, "AllocMem"), pl.Float64, unread, "memory_allocated_bytes") * mib,
        gathered(partitions, listed, WORDS, unread, "partitions"),
        times(_texts(rows, "BootTime"), unread, "boot_time"),
        gathered(features, lambda text: [{"key": "feature", "value": one} for one in listed(text)], LABELS, unread,
                 "labels"),
        pl.Series("taints", [[]], dtype=WORDS).new_from_index(0, len(rows)),
        gathered(features, listed, WORDS, unread, "slurm_features"),
        numbers(_texts(rows, "Weight"), pl.Float64, unread, "slurm_weight"),
    ]  # fmt: skip


def _reason(text: str) -> tuple[str | None, str | None, str]:
    """Return the reason, who gave it and when; Slurm puts `[user@time]` behind the first line of a reason."""
    if not text:
        return None, None, ""
    match = _BY.fullmatch(text)
    if match is None:
        return text, None, ""
    return match["reason"] + match["rest"], match["by"] or None, match["time"]


def _gpu_columns(rows: list[dict[str, str]], unread: Unread) -> list[pl.Series]:
    values = []
    for row in rows:
        held = _devices(row.get("Gres", ""), unread, "gpus")
        used = _devices(row.get("GresUsed", ""), unread, "gpus_allocated")
        drained = _devices(row.get("GresDrain", ""), unread, "gpus_unusable")
        models = {one.type for one in held or ()}
        fewer = _FEWER.search(row.get("Reason", ""))
        lost = float(sum(one.count for one in drained or ()))
        if fewer:
            lost = max(lost, float(int(fewer[2]) - int(fewer[1])))
        values.append((
            None if held is None else float(sum(one.count for one in held)),
            None if used is None or "GresUsed" not in row else float(sum(one.count for one in used)),
            models.pop() if len(models) == 1 else None,
            lost,
        ))
    names = (
        ("gpus", pl.Float64), ("gpus_allocated", pl.Float64), ("gpu_model", pl.String), ("gpus_unusable", pl.Float64)
    )  # fmt: skip
    return [pl.Series(name, [value[at] for value in values], dtype=dtype) for at, (name, dtype) in enumerate(names)]


def _devices(text: str, unread: Unread, column: str) -> tuple[Gres, ...] | None:
    try:
        return tuple(one for one in parse_gres(text) if one.name == "gpu")
    except NotationError:
        unread.cell(column, text)
        return None


def _gpus(nodes: pl.DataFrame, rows: list[dict[str, str]], now: datetime) -> pl.DataFrame:
    """Return one row for each device; which of them are in use is known where GresUsed names their numbers."""
    codes: list[int] = []
    known: dict[tuple[str, str, bool], int] = {}
    values: list[tuple[list[int], list[str | None], list[str]]] = []
    answers = (nodes["state"].cast(pl.String).is_in(["down", "unknown"]).not_()).to_list()
    for row, answers_now in zip(rows, answers, strict=True):
        key = (row.get("Gres", ""), row.get("GresUsed", ""), answers_now)
        if key not in known:
            known[key] = len(values)
            values.append(_device_rows(*key))
        codes.append(known[key])
    lists: tuple[tuple[str, Any], ...] = (
        ("index", pl.List(pl.Int32)), ("model", pl.List(pl.String)), ("state", pl.List(pl.String))
    )  # fmt: skip
    columns = [gather([value[at] for value in values], dtype, codes, name) for at, (name, dtype) in enumerate(lists)]
    exploded = pl.DataFrame([nodes["name"].alias("node"), *columns]).explode("index", "model", "state")
    return exploded.filter(pl.col("index").is_not_null()).with_columns(
        source=pl.lit("slurm"), as_of=pl.lit(now, dtype=TIME)
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
        if numbered and used and (number in busy):
            states.append("allocated")
        elif count == len(models) and used:
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
