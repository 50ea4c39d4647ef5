"""Whether a job's shape fits on nodes: how much is free, in which blocks, what strands it, and when it fits.

It reads node and job tables only, so it serves every system. Memory and CPUs count as much as GPUs: a node whose
memory is taken has no room. What a node did not say is never taken for free.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from console.triage.board import Board, Node, Reservation, Row, end_of, partitions_of

_WORD = re.compile(r"[^\s&|()\[\],*!]+")
_DEEPEST = 40


@dataclass(frozen=True, slots=True)
class Ask:
    """What one task asks: `nodes` nodes with so much on each; `spread` when only the total of GPUs matters."""

    gpus: float
    nodes: int
    per_node: float
    cpus: float
    memory: float
    model: str | None
    limit_s: float | None
    spread: bool = False

    @classmethod
    def of(cls, row: Row, largest: float) -> "Ask":
        """Read a job's row; without GPUs per node they are spread evenly over the nodes that it asks."""
        gpus = float(row.get("gpus") or 0.0)
        nodes = int(row.get("nodes") or row.get("min_nodes") or 1)
        per_node, spread = row.get("gpus_per_node"), False
        if per_node is None:
            spread = gpus > largest * nodes > 0
            per_node = math.ceil(gpus / nodes)
        elif gpus and not row.get("nodes"):
            nodes = max(nodes, math.ceil(gpus / per_node)) if per_node else nodes
        return cls(
            gpus=gpus,
            nodes=nodes,
            per_node=float(per_node),
            cpus=float(row.get("cpus") or 0.0) / nodes,
            memory=float(row.get("memory_bytes") or 0.0) / nodes,
            model=row.get("gpu_model"),
            limit_s=row.get("time_limit_s"),
            spread=spread,
        )


@dataclass(frozen=True, slots=True)
class Release:
    """The end of a running job by its limit, as far as it gives something back on the nodes in question."""

    at: datetime
    row: Row


class Room:
    """The nodes that could take a job, and what stands in the way on them."""

    def __init__(self, board: Board, row: Row) -> None:
        """Take the nodes of the job's partition, GPU model, pins and features as candidates."""
        self.board, self.row = board, row
        parts = partitions_of(row)
        self.in_partition = board.in_partitions(parts)
        pins = frozenset(row.get("requested_nodes") or ())
        model, constraint = row.get("gpu_model"), row.get("constraint")
        self.pins = tuple(sorted(pins))
        self.candidates = [
            node
            for node in self.in_partition
            if (not model or not node.model or node.model.lower() == model.lower())
            and (not constraint or matches(constraint, node.features))
            and (not pins or node.name in pins or len(pins) < int(row.get("nodes") or 1))
        ]
        known = [board.partitions[part] for part in parts if part in board.partitions]
        self.exclusive = row.get("slurm_exclusive") is True or any(part.exclusive for part in known)
        largest = max((node.gpus or 0.0 for node in self.candidates), default=0.0)
        self.ask = Ask.of(row, largest)

    @cached_property
    def kept(self) -> dict[str, Reservation]:
        """Return candidates that an active reservation keeps from this job, by name."""
        mine = self.row.get("slurm_reservation")
        now = self.board.now
        return {
            host: one for one in self.board.reservations if one.name != mine and one.active(now) for host in one.nodes
        }

    @cached_property
    def out(self) -> list[Node]:
        """Return candidates that take nothing new."""
        return [node for node in self.candidates if node.out]

    @cached_property
    def usable(self) -> list[Node]:
        """Return candidates in service and not kept by somebody's reservation."""
        return [node for node in self.candidates if not node.out and node.name not in self.kept]

    def window(self, host: str, start: datetime) -> Reservation | None:
        """Return the reservation that a start at that time on that node would run into, by the job's limit."""
        mine, limit = self.row.get("slurm_reservation"), self.ask.limit_s
        for one in self._coming.get(host, ()):
            ends_after = (
                limit is None or math.isinf(limit) or start.timestamp() + limit > (one.start or start).timestamp()
            )
            over = one.end is not None and one.end <= start
            if one.name != mine and ends_after and not over:
                return one
        return None

    @cached_property
    def _coming(self) -> dict[str, list[Reservation]]:
        found: dict[str, list[Reservation]] = {}
        for one in self.board.reservations:
            if one.start is not None and one.start > self.board.now:
                for host in one.nodes:
                    found.setdefault(host, []).append(one)
        return found

    @cached_property
    def windowed(self) -> list[Node]:
        """Return nodes with room now that a coming reservation takes before the job's limit."""
        return [node for node in self.usable if self.holds(node) and self.window(node.name, self.board.now)]

    @cached_property
    def shut(self) -> list[Node]:
        """Return nodes that a coming reservation takes before the job's limit, where the others are too few for it.

        It can't start on them before that reservation ends, whenever what runs there ends.
        """
        capable = [node for node in self.usable if self.could_hold(node)]
        windowed = [node for node in capable if self.window(node.name, self.board.now)]
        enough = self.ask.spread or len(capable) - len(windowed) >= self.ask.nodes
        return [] if enough or len(capable) < self.ask.nodes else windowed

    @property
    def free(self) -> float:
        """Return the free GPUs of usable candidates."""
        return sum(node.gpus_free or 0.0 for node in self.usable)

    @cached_property
    def largest(self) -> Node | None:
        """Return the usable candidate with the most free GPUs."""
        return max(self.usable, key=lambda node: node.gpus_free or 0.0, default=None)

    def holds(self, node: Node, *, gpus_only: bool = False) -> bool:
        """Return whether one node's share of the job is free there now."""
        if node.gpus_free is None and self.ask.per_node > 0:
            return False
        if self.exclusive and (node.cpus_free != node.cpus or node.gpus_free != node.gpus):
            return False
        fits = (node.gpus_free or 0.0) >= self.ask.per_node
        if gpus_only or not fits:
            return fits
        return _enough(node.cpus_free, self.ask.cpus) and _enough(node.memory_free, self.ask.memory)

    def could_hold(self, node: Node) -> bool:
        """Return whether one node's share fits on that node when it is empty."""
        gpus = node.gpus if node.gpus is not None else 0.0
        return gpus >= self.ask.per_node and _enough(node.cpus, self.ask.cpus) and _enough(node.memory, self.ask.memory)

    @cached_property
    def fit(self) -> list[Node]:
        """Return usable candidates where one node's share is free now."""
        now = self.board.now
        return [node for node in self.usable if self.holds(node) and not self.window(node.name, now)]

    @cached_property
    def fit_gpus(self) -> list[Node]:
        """Return usable candidates with enough free GPUs, whatever their CPUs and memory."""
        return [node for node in self.usable if self.holds(node, gpus_only=True)]

    def enough(self, nodes: Sequence[Node]) -> bool:
        """Return whether these nodes are enough for the job."""
        if self.ask.spread:
            return sum(node.gpus_free or 0.0 for node in nodes) >= self.ask.gpus and len(nodes) >= self.ask.nodes
        return len(nodes) >= self.ask.nodes

    @property
    def fits_now(self) -> bool:
        """Return whether the figures seen now would let it start."""
        return self.enough([n for n in self.usable if (n.gpus_free or 0) > 0] if self.ask.spread else self.fit)

    @cached_property
    def capable(self) -> list[Node]:
        """Return candidates, those out of service too, that could hold a share when empty."""
        return [node for node in self.candidates if self.could_hold(node)]

    @property
    def never(self) -> bool:
        """Return whether it could not start on all candidates, empty and in service."""
        if not self.candidates and not self.in_partition:
            return False  # no node table to judge by
        if self.ask.spread:
            return sum(node.gpus or 0.0 for node in self.candidates) < self.ask.gpus
        return len(self.capable) < self.ask.nodes

    @property
    def short_nodes(self) -> int:
        """Return how many nodes are missing now."""
        return max(0, self.ask.nodes - len(self.fit))

    @property
    def out_would_do(self) -> bool:
        """Return whether it would start now if the candidates that are out were back and empty."""
        back = [node for node in self.out if self.could_hold(node)]
        return bool(back) and not self.fits_now and self.enough([*self.fit, *back])

    @cached_property
    def on_candidates(self) -> list[Row]:
        """Return the jobs that hold something on usable candidates."""
        names = {node.name for node in self.usable}
        return [row for row in self.board.holding if not names.isdisjoint(row["nodelist"] or ())]

    @cached_property
    def release(self) -> tuple[datetime | None, list[Row]]:
        """Return when it fits as running jobs end by their limits, and the jobs whose end makes the room.

        (None, []) where their limits do not say, or where it fits now.
        """
        if self.fits_now or self.never:
            return None, []
        free = {
            node.name: [node.gpus_free or 0.0, _known(node.cpus_free), _known(node.memory_free)] for node in self.usable
        }
        total = {node.name: node.gpus or 0.0 for node in self.usable}
        # a job that shares no node needs all that a node has
        needs = {
            node.name: ((node.gpus or 0.0, node.cpus or 0.0) if self.exclusive else (self.ask.per_node, self.ask.cpus))
            for node in self.usable
        }
        fitting = dict.fromkeys(node.name for node in self.fit)  # in the order in which they come to fit
        givers: dict[str, list[Row]] = {}
        ends = [(end, row) for row in self.on_candidates if (end := end_of(row, self.board.now)) is not None]
        for end, row in sorted(ends, key=lambda one: one[0]):
            hosts = [host for host in row["nodelist"] or () if host in free]
            share = len(row["nodelist"] or ()) or 1
            for host in hosts:
                room = free[host]
                room[0] = min(total[host], room[0] + _share_of(row, share))
                room[1] += (row["cpus"] or 0.0) / share
                room[2] += (row["memory_bytes"] or 0.0) / share
                givers.setdefault(host, []).append(row)
                gpus, cpus = needs[host]
                if room[0] >= gpus and room[1] >= cpus - 1e-6 and room[2] >= self.ask.memory * 0.999:
                    fitting[host] = None
            open_hosts = [host for host in fitting if not self.window(host, end)]
            if self._enough_at(open_hosts, free):
                taken = list(givers) if self.ask.spread else open_hosts[: self.ask.nodes]
                seen = {id(row): row for host in taken for row in givers.get(host, ())}
                return end, list(seen.values())
        return None, []

    def _enough_at(self, fitting: Sequence[str], free: dict[str, list[float]]) -> bool:
        if self.ask.spread:
            return sum(room[0] for room in free.values()) >= self.ask.gpus
        return len(fitting) >= self.ask.nodes


def _share_of(row: Row, nodes: int) -> float:
    if row["gpus_per_node"] is not None:
        return float(row["gpus_per_node"])
    return float(row["gpus"] or 0.0) / nodes


def _enough(have: float | None, want: float) -> bool:
    # a figure that was not given does not forbid; GPUs are checked apart, where unknown is not free
    return have is None or have >= want - 1e-6


def _known(value: float | None) -> float:
    return math.inf if value is None else value


def matches(constraint: str, features: frozenset[str]) -> bool:
    """Return whether a node's features satisfy Slurm's `--constraint`: `&`, `|`, brackets; counts are left aside.

    `[a|b]` means that all nodes agree on one: for a single node it is `a|b`. Source: sbatch(1), --constraint.
    """
    if constraint.count("(") + constraint.count("[") > _DEEPEST:
        return True  # hostile: nobody nests like that, and a wrong "never" is worse than none
    position = 0
    text = re.sub(r"\*[0-9]+", "", constraint).replace("[", "(").replace("]", ")").replace(",", "&")

    def alternatives() -> bool:
        nonlocal position
        found = both()
        while position < len(text) and text[position] == "|":
            position += 1
            found = both() or found
        return found

    def both() -> bool:
        nonlocal position
        found = single()
        while position < len(text) and text[position] == "&":
            position += 1
            found = single() and found
        return found

    def single() -> bool:
        nonlocal position
        if position < len(text) and text[position] == "(":
            position += 1
            found = alternatives()
            position += position < len(text) and text[position] == ")"
            return found
        word = _WORD.match(text, position)
        if word is None:
            position += position < len(text) and text[position] not in "&|)"
            return True
        position = word.end()
        return word.group() in features

    return alternatives()


def feature_words(constraint: str) -> tuple[str, ...]:
    """Return the features that an expression names."""
    return tuple(dict.fromkeys(_WORD.findall(re.sub(r"\*[0-9]+", "", constraint))))
