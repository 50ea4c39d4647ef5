"""The reservations table from `scontrol -o show reservation`."""

from datetime import datetime

import polars as pl

from connectors.connector import Answer, Gap
from connectors.model import RESERVATION_KINDS, TIME, WORDS, Schema
from connectors.notation import NotationError, gpus_of_tres, parse_hostlist, parse_slurm_time, parse_tres
from connectors.slurm.columns import Unread, decode
from connectors.slurm.records import listed, records

SOURCE = "scontrol show reservation"
_WHOLE = frozenset({"SPEC_NODES", "ALL_NODES", "PART_NODES", "MAINT"})


def reservations_table(answer: Answer, nodes: pl.DataFrame, now: datetime) -> tuple[pl.DataFrame, list[Gap]]:
    """Return the reservations; GPUs of one that holds whole nodes are those of its nodes."""
    unread = Unread(SOURCE, "reservations", now)
    gpus = dict(zip(nodes["name"], nodes["gpus"], strict=True))
    models = dict(zip(nodes["name"], nodes["gpu_model"], strict=True))
    rows = []
    total = 0
    for fields in records(decode(answer.out), "ReservationName"):
        total += 1
        try:
            rows.append(_row(fields, gpus, models))
        except NotationError as error:
            unread.row(f"{fields['ReservationName']}: {error}")
    schema: Schema = {
        "name": pl.String, "start_time": TIME, "end_time": TIME, "nodelist": WORDS, "gpus": pl.Float64,
        "gpu_model": pl.String, "users": WORDS, "accounts": WORDS, "flags": WORDS, "state": pl.String,
        "kind": pl.Enum(RESERVATION_KINDS), "slurm_partition": pl.String,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=dict(schema)), unread.gaps(total)


def _row(fields: dict[str, str], gpus: dict[str, float | None], models: dict[str, str | None]) -> dict[str, object]:
    nodelist = parse_hostlist(fields.get("Nodes", ""))
    flags = listed(fields.get("Flags"))
    count, model = gpus_of_tres(parse_tres(fields.get("TRES", "")))
    if count is None and _WHOLE & set(flags):
        held = [gpus.get(name) for name in nodelist]
        count = None if None in held else sum(each for each in held if each is not None)
        kinds = {models.get(name) for name in nodelist if gpus.get(name)}
        model = kinds.pop() if len(kinds) == 1 else None
    partition = fields.get("PartitionName", "(null)")
    return {
        "name": fields["ReservationName"],
        "start_time": parse_slurm_time(fields.get("StartTime", "")),
        "end_time": parse_slurm_time(fields.get("EndTime", "")),
        "nodelist": nodelist,
        "gpus": count,
        "gpu_model": model,
        "users": listed(fields.get("Users")),
        "accounts": listed(fields.get("Accounts")),
        "flags": flags,
        "state": fields.get("State"),
        "kind": "maintenance" if "MAINT" in flags else "user",
        "slurm_partition": None if partition == "(null)" else partition,
    }
