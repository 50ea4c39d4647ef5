"""What a job asks or holds: GPUs, nodes, CPUs and memory, from its TRES and its requests.

`gpus` are physical devices: a MIG slice counts its compute slices over those of the whole GPU. `slurm_gpus` is the
number that Slurm counts, slices and all; limits are held against it.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import polars as pl

from connectors.notation import NotationError, gpus_of_tres, parse_gres, parse_tres
from connectors.slurm.columns import Unread, gather, numbers
from connectors.slurm.table import Table

_MIG = re.compile(r"(?:^|[_.-])(?P<slices>[1-7])g\.(?P<memory>[0-9]{1,3})gb")
_GPU = "gres/gpu:"
_PARTS = ("gres/shard", "gres/mps")
_UNSET = frozenset({"", "N/A", "(null)"})


@lru_cache(maxsize=1024)
def mig_share(model: str | None) -> float:
    """Return how much of a physical GPU one device of this type is: `1g.10gb` is a seventh, a whole GPU is one.

    Source: NVIDIA's MIG user guide. All GPUs with MIG have seven compute slices but the A30, which has four of 6 GB.
    """
    match = _MIG.search(model) if model else None
    if match is None:
        return 1.0
    slices, memory = int(match["slices"]), int(match["memory"])
    return slices / (4 if memory == 6 * slices else 7)


class Size(NamedTuple):
    """GPUs in physical devices, as Slurm counts them, and on each node; their model; memory in bytes."""

    gpus: float | None = None
    counted: float | None = None
    per_node: float | None = None
    model: str | None = None
    memory: float | None = None


def size_columns(table: Table, unread: Unread) -> list[pl.Series]:
    """Return the columns of sizes; each combination of texts is read once."""
    nodes = numbers(table.get("numnodes"), pl.Int32, unread, "nodes")
    cpus = numbers(table.get("numcpus"), pl.Float64, unread, "cpus")
    names = ("tres-alloc", "tres-per-node", "tres-per-job", "tres-per-task", "tres-per-socket", "numnodes", "numtasks")
    known: dict[tuple[str, ...], int] = {}
    codes = [known.setdefault(row, len(known)) for row in zip(*(table.get(name) for name in names), strict=True)]
    sizes = [_size(row, unread) for row in known]
    pending = pl.Series("pending", table.get("state"), dtype=pl.String) == "PENDING"
    return [
        nodes,
        cpus,
        gather([size.gpus for size in sizes], pl.Float64, codes, "gpus"),
        gather([size.counted for size in sizes], pl.Float64, codes, "slurm_gpus"),
        gather([size.per_node for size in sizes], pl.Float64, codes, "gpus_per_node"),
        gather([size.model for size in sizes], pl.String, codes, "gpu_model"),
        gather([size.memory for size in sizes], pl.Float64, codes, "memory_bytes"),
        # Slurm prints the least number of nodes of a job that waits
        nodes.to_frame().select(pl.when(pending).then(pl.col("nodes")).alias("min_nodes")).to_series(),
    ]


def _size(row: tuple[str, ...], unread: Unread) -> Size:
    try:
        tres: Mapping[str, float] = parse_tres(row[0])
    except NotationError:
        unread.cell("gpus", row[0])
        return Size()
    counted, model = gpus_of_tres(tres)
    requests = [_asked(text, unread) for text in row[1:5]]
    nodes, tasks = _count(row[5]), _count(row[6])
    model = model or next((of for _count, of in requests if of is not None), None)
    per_node = requests[0][0]
    if counted is None and row[0] not in _UNSET:
        counted = _stated(tres, [count for count, _model in requests], nodes, tasks)
    if per_node is None and nodes == 1:
        per_node = counted
    if counted == 0:
        per_node = 0.0
    share = mig_share(model)
    typed = [(name[len(_GPU) :], count) for name, count in tres.items() if name.startswith(_GPU)]
    gpus = counted
    if counted is not None:
        gpus = sum(count * mig_share(of) for of, count in typed) if typed else counted * share
        gpus += max(0.0, counted - sum(count for _of, count in typed)) if typed else 0.0
    return Size(gpus, counted, None if per_node is None else per_node * share, model, tres.get("mem"))


def _stated(
    tres: Mapping[str, float], requests: list[float | None], nodes: float | None, tasks: float | None
) -> float | None:
    """Return the GPUs of a job whose TRES don't name any: none, unless it asked for some or for a part of one.

    A cluster that does not track GPUs (AccountingStorageTRES) says only what was asked.
    """
    per_node, per_job, per_task, per_socket = requests
    for count, times in ((per_job, 1.0), (per_node, nodes), (per_task, tasks)):
        if count is not None:
            return None if times is None else count * times
    if per_socket is not None or any(name.startswith(_PARTS) for name in tres):
        return None
    return 0.0


def _asked(text: str, unread: Unread) -> tuple[float | None, str | None]:
    """Return how many GPUs a request like `gres:gpu:a100:8,gres:nvme:1` asks for, and of which model."""
    if text in _UNSET:
        return None, None
    try:
        found = [one for one in parse_gres(text) if one.name == "gpu"]
    except NotationError:
        unread.cell("gpus_per_node", text)
        return None, None
    models = {one.type for one in found}
    return (float(sum(one.count for one in found)) if found else None), models.pop() if len(models) == 1 else None


def _count(text: str) -> float | None:
    return float(text) if text.isdecimal() else None
