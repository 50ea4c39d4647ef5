"""Plays a cluster whose jobs end before their limits: only the first waiting jobs are booked, in every pass anew.

A booking far ahead means little when the next end comes sooner than any limit says; what counts is that the jobs first
in line are not delayed. So a pass books `BOOKED` jobs and starts of the rest whoever fits beside them, which is what
EASY backfill does for one job and Slurm for all.
"""

import heapq

from console.scheduling.limits import full
from console.scheduling.play import Entry, Play
from console.scheduling.profile import EPSILON, Demand
from console.scheduling.world import World

BOOKED = 16
_SMALL = 40  # queues up to this length are planned whenever something changed
_Failed = dict[tuple[int, int, Demand], list[tuple[int, float]]]


class ShortSighted(Play):
    """Bookings for the first few jobs only."""

    def __init__(self, world: World, seed: int, horizon_s: float) -> None:
        """Begin with nothing parked."""
        self.parked: dict[int, list[tuple[int, int, Entry]]] = {}
        self.next_pass = 0.0
        self.booked = self.tested = 0
        super().__init__(world, seed, horizon_s)
        for one in world.cluster.reserved:
            for edge in (one.start, one.end):
                if edge > 0:
                    self._wake(edge)

    def begin(self) -> None:
        """Plan for the first time."""
        self.look_at_order()
        self._pass()

    def step(self, early: list[int], freed: set[int], woken: list[Entry]) -> None:  # noqa: ARG002 - every pass looks at all nodes
        """Plan, or put it off until the next pass is due."""
        if woken:
            self.queue = self._sorted()
        for counter in freed:
            self._unpark(counter)
        if self.now + EPSILON < self.next_pass:
            self._wake(self.next_pass)
        else:
            self._pass()

    def look_at_order(self) -> None:
        """Sort the queue, and again later if time changes it."""
        self.queue = self._sorted()
        self._watch_order()

    def _pass(self) -> None:
        for _again in range(200):
            self.must_replan = False
            self._plan()
            if not self.must_replan:
                break
            self.queue = self._sorted()  # who was stopped waits again
        self.queue = [entry for entry in self.queue if entry.left]
        self.next_pass = self.now + self.pace_s

    @property
    def pace_s(self) -> float:
        """How long to wait between passes: nothing for short queues, bf_interval for 160 jobs, ten of them for 500."""
        size = min(len(self.queue), self.planning.depth)
        return 0.0 if size <= _SMALL else self.planning.interval_s * max(1.0, (size / 160) ** 2)

    def _plan(self) -> None:
        for arena in self.arenas.values():
            arena.reset(self.now)
        self.per_user.clear()
        self.per_part.clear()
        self.pledged = [0.0] * len(self.used)
        self.booked = self.tested = 0
        failed: _Failed = {}
        for entry in self.queue:
            if self.tested >= self.planning.depth:
                self._wake(self.now + self.planning.interval_s)
                break
            if not entry.parked and entry.left:
                self._plan_entry(entry, failed)
            if self.must_replan:
                break

    def _plan_entry(self, entry: Entry, failed: _Failed) -> None:
        """Start as many tasks as fit now; book the next one if it is among the first in line."""
        job, arena, planning = entry.job, entry.arena, self.planning
        known = failed.setdefault((id(arena), entry.where.key, job.demand), [])
        while entry.left and not self._is_passed_over(entry):
            blocked = full(entry.claims, self.used, self.limit)
            if blocked is not None:
                self._park(entry, blocked)
                return
            may_book = self.booked < BOOKED
            if not may_book and any(nodes <= job.nodes and limit <= job.limit_s for nodes, limit in known):
                break
            latest = self.now + planning.window_s if may_book else self.now
            when, nodes = arena.find_again(entry.where, job.demand, job.nodes, job.limit_s, self.now, latest)
            if nodes and when <= self.now + EPSILON:
                self._start(entry, nodes, booked=False)
                self.tested += 1
                continue
            known.append((job.nodes, job.limit_s))
            if self.policy.preempts(job) and job.reservation is None and self._preempt(entry):
                return
            if nodes and full(entry.claims, self.used, self.limit, self.pledged) is None:
                self._book(entry, when, nodes)
            break
        self.tested += 1
        if entry.left:
            self._count_tested(entry, 1)

    def _book(self, entry: Entry, when: float, nodes: list[int]) -> None:
        reserve = self.planning.reserve
        if reserve and self.per_part.get(entry.job.partitions, 0) >= reserve:
            return
        entry.arena.book(nodes, when, when + entry.job.limit_s, entry.job.demand)
        self.booked += 1
        for counter, amount, _binds in entry.claims:
            self.pledged[counter] += amount

    def _park(self, entry: Entry, counter: int) -> None:
        entry.parked = True
        self.count += 1
        heapq.heappush(self.parked.setdefault(counter, []), (entry.rank, self.count, entry))

    def _unpark(self, counter: int) -> None:
        """Look again at those first in line, for four times the room there is: not all of them will find nodes."""
        heap = self.parked.get(counter)
        room = 4 * (self.limit[counter] - self.used[counter])
        while heap and room > EPSILON:
            entry = heapq.heappop(heap)[2]
            entry.parked = False
            room -= next(claim.amount for claim in entry.claims if claim.counter == counter)
