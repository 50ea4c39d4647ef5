"""What the words of a change name on a simulated cluster, found in a snapshot. Pure."""

import difflib
from collections.abc import Iterable
from typing import Any

import polars as pl

from connectors.change import Change, verb
from connectors.errors import Ambiguous, BadWords, NotFound, Unsupported
from connectors.ground import find
from connectors.model import Snapshot

Row = dict[str, Any]


def find_queue(text: str, snapshot: Snapshot) -> Row:
    """Return the row of a queue by its id, or by its bare name while only one has it. NotFound, Ambiguous."""
    row = find(snapshot, "queues", text)
    if row is not None:
        return row
    ids = [str(one) for one in snapshot.queues["id"]]
    same = [one for one in ids if one.partition(":")[2] == text]
    if len(same) > 1:
        raise Ambiguous(text, same, kind="queue")
    if not same:
        raise _absent("queue", text, snapshot, [*ids, *(one.partition(":")[2] for one in ids)])
    found = find(snapshot, "queues", same[0])
    return found or {}


def find_job(text: str, snapshot: Snapshot) -> Row:
    """Return the row of a job by its id. NotFound."""
    found = snapshot.jobs.filter((pl.col("id") == text) | (pl.col("key") == text))
    if found.is_empty():
        raise _absent("job", text, snapshot, snapshot.jobs["id"])
    return found.row(0, named=True)


def find_nodes(names: Iterable[str], snapshot: Snapshot) -> list[Row]:
    """Return the rows of nodes, each once and in the order named. NotFound, BadWords where none is named."""
    rows: list[Row] = []
    for name in dict.fromkeys(names):
        row = find(snapshot, "nodes", name)
        if row is None:
            raise _absent("node", name, snapshot, snapshot.nodes["name"])
        rows.append(row)
    if not rows:
        raise BadWords("no node was named")
    return rows


def find_reservation(name: str, snapshot: Snapshot) -> Row:
    """Return the row of a reservation. NotFound."""
    row = find(snapshot, "reservations", name)
    if row is None:
        raise _absent("reservation", name, snapshot, snapshot.reservations["name"])
    return row


def unsupported(what: str, change: Change, snapshot: Snapshot, *, hint: str | None = None) -> Unsupported:
    """Return the error for what a simulated cluster has no word for."""
    return Unsupported(what, cluster=snapshot.meta.cluster, capability=verb(change), hint=hint)


def _absent(kind: str, name: str, snapshot: Snapshot, known: Iterable[Any]) -> NotFound:
    near = difflib.get_close_matches(name, [str(one) for one in known], n=4)
    return NotFound(kind, name, cluster=snapshot.meta.cluster, near=near)
