"""One set of node profiles with the plan on it, and the search for the earliest place.

The arena outside of reservations holds all nodes, with reservations blocked; each reservation that jobs ask for has an
arena of its own. `base` knows running jobs and reservations, `plan` the bookings of pending jobs as well; they share a
node's steps until something is booked on it.

The search is exact for the earliest time: nodes are asked in the order of a lower bound of their own earliest time, so
that few profiles are walked. Bounds stay true while resources are only taken: after a `release`, `reset` before the
next `find`. Among the nodes that fit at that time the lightest and then the fullest are taken (best fit).
"""

import heapq
import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

from console.scheduling.cluster import Cluster
from console.scheduling.placement import Where
from console.scheduling.profile import Demand, Steps

_TIES = 64  # nodes looked at beyond what is needed before the best fit among them is taken

Key = tuple[int, Demand, float]
Bound = tuple[float, float, int]  # earliest time, tightness, node


class Arena:
    """Profiles of some nodes, and what is booked on them."""

    def __init__(self, cluster: Cluster, base: dict[int, Steps]) -> None:
        """Begin without bookings."""
        self.cluster = cluster
        self.base = base
        self.plan = dict(base)
        self.weight = cluster.weight.tolist()
        self._whole = [
            Demand(float(g), float(c) if math.isfinite(c) else 0.0, float(m) if math.isfinite(m) else 0.0)
            for g, c, m in zip(cluster.gpus, cluster.cpus, cluster.memory, strict=True)
        ]
        self._touched: set[int] = set()
        self._heaps: dict[Key, list[Bound]] = {}
        self._bounds: dict[Key, tuple[dict[int, tuple[float, float]], int]] = {}
        self._ordered: dict[Key, list[Bound]] = {}
        self._changed: list[int] = []

    def copy(self) -> "Arena":
        """Return an independent arena without bookings."""
        return Arena(self.cluster, {node: steps.copy() for node, steps in self.base.items()})

    def needs(self, node: int, demand: Demand) -> Demand:
        """Return what the demand takes of this node: all of it where it asks for whole nodes."""
        return self._whole[node] if demand.whole else demand

    def book(self, nodes: Sequence[int], start: float, end: float, demand: Demand) -> None:
        """Keep room in the plan."""
        for node in nodes:
            self._own(node).add(start, end, self.needs(node, demand), -1.0)

    def occupy(self, nodes: Sequence[int], start: float, end: float, demand: Demand, *, booked: bool) -> None:
        """Take room for a job that starts; `booked` says that the plan holds exactly this already."""
        for node in nodes:
            if node not in self.base:
                continue
            needed = self.needs(node, demand)
            self.base[node].forget_before(start)
            self.base[node].add(start, end, needed, -1.0)
            if node in self._touched and not booked:
                self.plan[node].add(start, end, needed, -1.0)
            self._changed.append(node)

    def release(self, nodes: Sequence[int], now: float, end: float, demand: Demand) -> None:
        """Give room back that was taken until `end`."""
        for node in nodes:
            if node not in self.base:
                continue
            needed = self.needs(node, demand)
            self.base[node].add(now, end, needed, 1.0)
            if node in self._touched:
                self.plan[node].add(now, end, needed, 1.0)
            self._changed.append(node)

    def reset(self, now: float) -> None:
        """Drop all bookings."""
        for node in self._touched:
            self.base[node].forget_before(now)
            self.plan[node] = self.base[node]
        self._touched.clear()
        self._heaps.clear()

    def earliest(self, node: int, demand: Demand, length: float, start: float) -> float:
        """Return from when on the node has room for so long."""
        return self.plan[node].earliest(self.needs(node, demand), length, start)

    def find(
        self, where: Where, demand: Demand, count: int, length: float, now: float, latest: float
    ) -> tuple[float, list[int]]:
        """Return the earliest time with room on `count` nodes at once, and the nodes.

        No nodes come with a time beyond `latest`, which then is a lower bound (inf: never).
        """
        bucket = _bucket(length)
        key = (where.key, demand, bucket)
        heap = self._heap(key, where, now)
        walk = _Walk(self, heap, demand, length, now)
        when, ready = walk.run(count, latest)
        for bound, tight, node in walk.popped:
            found, asked = walk.first[node]
            if bound <= now and found <= now:
                renewed = now
            elif bucket == length and asked <= now:
                renewed = found
            else:
                renewed = self.earliest(node, demand, bucket, now)
            heapq.heappush(heap, (renewed, tight, node))
        if len(ready) < count:
            return when, []
        plan = self.plan
        ready.sort(key=lambda node: (self.weight[node], *plan[node].free_at(when)[:2], node))
        return when, ready[:count]

    def find_again(
        self, where: Where, demand: Demand, count: int, length: float, now: float, latest: float
    ) -> tuple[float, list[int]]:
        """Return the same as `find`, by bounds of the base only: cheaper where bookings are few and short-lived."""
        key = (where.key, demand, _bucket(length))
        walk = _Stroll(self, self._in_order(key, where, now), demand, length, now)
        when, ready = walk.run(count, latest)
        if len(ready) < count:
            return when, []
        plan = self.plan
        ready.sort(key=lambda node: (self.weight[node], *plan[node].free_at(when)[:2], node))
        return when, ready[:count]

    def _in_order(self, key: Key, where: Where, now: float) -> list[Bound]:
        known = self._bounds.get(key)
        ordered = self._ordered.get(key)
        if known is None or ordered is None:
            bounds = self._bounds_of(key, where, now)
            ordered = sorted((bound, tight, node) for node, (bound, tight) in bounds.items())
            self._ordered[key] = ordered
            return ordered
        bounds, since = known
        moved = [node for node in set(self._changed[since:]) if node in bounds]
        for node in moved:
            del ordered[bisect_left(ordered, (*bounds[node], node))]
        fresh = self._bounds_of(key, where, now)
        for node in moved:
            insort(ordered, (*fresh[node], node))
        return ordered

    def _own(self, node: int) -> Steps:
        if node not in self._touched:
            self._touched.add(node)
            self.plan[node] = self.base[node].copy()
        return self.plan[node]

    def _heap(self, key: Key, where: Where, now: float) -> list[Bound]:
        heap = self._heaps.get(key)
        if heap is None:
            ordered = self._in_order(key, where, now)  # what holds for the base holds for the plan, which has less room
            ready = bisect_right(ordered, now, key=lambda one: one[0])
            ever = bisect_left(ordered, math.inf, key=lambda one: one[0])
            heap = self._heaps[key] = [
                *sorted((now, tight, node) for _bound, tight, node in ordered[:ready]), *ordered[ready:ever]
            ]  # fmt: skip
        return heap

    def _bounds_of(self, key: Key, where: Where, now: float) -> dict[int, tuple[float, float]]:
        known = self._bounds.get(key)
        if known is None:
            bounds: dict[int, tuple[float, float]] = {}
            todo = [node for node in where.nodes if node in self.base]
        else:
            bounds, since = known
            todo = [node for node in set(self._changed[since:]) if node in bounds]
        _number, demand, bucket = key
        for node in todo:
            steps = self.base[node]
            when = steps.earliest(self.needs(node, demand), bucket, now)
            bounds[node] = (when, self.weight[node] * 1e6 + (steps.free_at(when)[0] if math.isfinite(when) else 0.0))
        self._bounds[key] = (bounds, len(self._changed))
        return bounds


def _bucket(length: float) -> float:
    """Return the largest 900 s x 2^n or 1350 s x 2^n up to length: bounds for it hold for longer jobs.

    1, 2, 3, 4, 6, 8, 12, 24 and 48 h are of that form, so for most limits bounds are exact.
    """
    if length <= 1 or math.isinf(length):
        return 0.0 if length <= 1 else length
    mantissa, exponent = math.frexp(length / 900.0)
    return math.ldexp(1350.0 if mantissa >= 0.75 else 900.0, exponent - 1)


class _Walk:
    """One search: nodes with room at `when` are ready, the others wait with their own earliest time."""

    def __init__(self, arena: Arena, heap: list[Bound], demand: Demand, length: float, now: float) -> None:
        self.arena = arena
        self.heap = heap
        self.plan = arena.plan
        self.demand = demand
        self.whole = demand.whole
        self.length = length
        self.when = now
        self.popped: list[Bound] = []
        self.first: dict[int, tuple[float, float]] = {}  # earliest time found, and from when on it was asked for
        self.ready: list[int] = []
        self.waiting: list[tuple[float, int]] = []

    def run(self, count: int, latest: float) -> tuple[float, list[int]]:
        """Return the earliest time up to `latest` with `count` nodes ready, and all that are."""
        heap, waiting = self.heap, self.waiting
        while True:
            while heap and heap[0][0] <= self.when and len(self.ready) < count + _TIES:
                self._pop()
            missing = count - len(self.ready)
            if missing <= 0:
                return self.when, self.ready
            if latest <= self.when:
                return math.inf, []
            while heap and (len(waiting) < missing or heap[0][0] < waiting[missing - 1][0]):
                self._pop()
            after = waiting[missing - 1][0] if len(waiting) >= missing else math.inf
            if after > latest or math.isinf(after):
                return after, []
            self._go_on_to(after)

    def _go_on_to(self, after: float) -> None:
        """Go to a later time: those that were ready may not be any more."""
        self.when = after
        again, self.ready = self.ready, []
        while self.waiting and self.waiting[0][0] <= after:
            again.append(self.waiting.pop(0)[1])
        for node in again:
            self._sort_in(node)

    def _pop(self) -> None:
        bound, tight, node = heapq.heappop(self.heap)
        if node in self.first:
            return
        self.popped.append((bound, tight, node))
        self.first[node] = self._sort_in(node), self.when

    def _sort_in(self, node: int) -> float:
        needed = self.arena.needs(node, self.demand) if self.whole else self.demand
        earliest = self.plan[node].earliest(needed, self.length, self.when)
        if earliest <= self.when:
            self.ready.append(node)
        else:
            insort(self.waiting, (earliest, node))
        return earliest


class _Stroll(_Walk):
    """A search that reads bounds in order and leaves them as they are."""

    def __init__(self, arena: Arena, ordered: list[Bound], demand: Demand, length: float, now: float) -> None:
        super().__init__(arena, [], demand, length, now)
        self.ordered = ordered
        self.next = 0

    def run(self, count: int, latest: float) -> tuple[float, list[int]]:
        """Return the earliest time up to `latest` with `count` nodes ready, and all that are."""
        ordered, waiting, most = self.ordered, self.waiting, len(self.ordered)
        while True:
            while self.next < most and ordered[self.next][0] <= self.when and len(self.ready) < count + _TIES:
                self._take()
            missing = count - len(self.ready)
            if missing <= 0:
                return self.when, self.ready
            if latest <= self.when:
                return math.inf, []
            while self.next < most and (len(waiting) < missing or ordered[self.next][0] < waiting[missing - 1][0]):
                self._take()
            after = waiting[missing - 1][0] if len(waiting) >= missing else math.inf
            if after > latest or math.isinf(after):
                return after, []
            self._go_on_to(after)

    def _take(self) -> None:
        self._sort_in(self.ordered[self.next][2])
        self.next += 1
