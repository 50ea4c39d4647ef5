"""Plays one cluster forward with conservative backfill, as Slurm does it.

Each tested job that can't start now is booked at its earliest place, so that nobody behind delays it. Jobs here use
all of their limits, so bookings come true as planned and a step only plans on; what changes the ground or the order
(a preemption, a quota that has room again, age) plans everything anew, how often is bounded by the size of the queue
(`pace_s`). Where history says that jobs end sooner, `shortsight` plays instead.
"""

import heapq
import math

from console.scheduling.limits import full
from console.scheduling.play import Booking, Entry, Play, Result
from console.scheduling.profile import EPSILON, Demand
from console.scheduling.shortsight import ShortSighted
from console.scheduling.world import World

_SMALL = 40  # queues up to this length are planned anew whenever something changed


def simulate(world: World, seed: int, horizon_s: float) -> Result:
    """Play the world with one seed up to the horizon (seconds from the snapshot)."""
    player = ShortSighted if world.has_history else Conservative
    return player(world, seed, horizon_s).run()


def plan_now(world: World) -> dict[str, tuple[float, ...]]:
    """Return what one pass at the snapshot's time plans: by job key the starts of its tasks, 0 for those that start.

    This is what `squeue --start` shows. Jobs beyond the depth or the window are missing.
    """
    simulation = Conservative(world, 0, 0.0)
    simulation.plan_all()
    found: dict[str, list[float]] = {}
    for entry in simulation.entries:
        found.setdefault(entry.job.key, []).extend(when for when, _nodes in entry.starts)
    for booking in simulation.bookings.values():
        found.setdefault(booking.entry.job.key, []).append(booking.start)
    return {key: tuple(sorted(starts)) for key, starts in found.items() if starts}


class Conservative(Play):
    """Bookings for every tested job, which hold as long as jobs use all of their limits."""

    def __init__(self, world: World, seed: int, horizon_s: float) -> None:
        """Begin without bookings."""
        self.frontier = 0
        self.bookings: dict[int, Booking] = {}
        self.due: list[tuple[float, int, Booking]] = []
        self.parked: dict[int, dict[float, list[tuple[int, int, Entry]]]] = {}
        self.loose: list[tuple[float, int, Entry]] = []
        self.loose_count = 0
        self.stale = False
        self.next_replan = 0.0
        self.no_room: dict[tuple[int, int, Demand], list[tuple[int, float]]] = {}  # asks that don't fit at this time
        super().__init__(world, seed, horizon_s)

    def begin(self) -> None:
        """Plan for the first time."""
        self._replan()
        self._watch_order()

    def step(self, early: list[int], freed: set[int], woken: list[Entry]) -> None:
        """Start what is due and plan on."""
        self.started = 0
        self.no_room.clear()
        changed = bool(early or woken)
        if not changed and not self.pace_s:  # a short queue: cheap enough to get the order exactly right
            changed = any(self.parked.get(counter) for counter in freed)
        if (self.stale or changed) and self.now >= self.next_replan:
            self._replan()
            return
        self._start_due()
        self.stale = self.stale or bool(early)
        if woken:
            self.queue = self._sorted()
            self.frontier = 0
            self.stale = True
        self._unpark(freed)
        self._loosen()
        self._extend()
        if self.must_replan or (self.stale and self.now >= self.next_replan):
            self._replan()
        elif self.stale:
            self._wake(self.next_replan)

    def look_at_order(self) -> None:
        """Plan anew if time has changed the order."""
        before = [entry.job.key for entry in self.queue if entry.left or entry.booked]
        self.queue = self._sorted()
        self.frontier = 0
        if before != [entry.job.key for entry in self.queue]:
            self.stale = True
        self._watch_order()

    def _replan(self) -> None:
        """Drop all bookings and plan in order; again after a preemption, which changes the ground."""
        for _again in range(200):
            self.must_replan = False
            self.plan_all()
            if not self.must_replan:
                break
        self.stale = self.must_replan
        self.must_replan = False
        self.next_replan = self.now + self.pace_s

    @property
    def pace_s(self) -> float:
        """How long to wait between full plans: nothing for short queues, 12 min for 500 waiting jobs, 2 h for 5,000."""
        size = len(self.queue)
        if size <= _SMALL:
            return 0.0
        tested = min(size, self.planning.depth)
        return self.planning.interval_s * max(1.0, (tested / 100) ** 2) * max(1.0, size / self.planning.depth)

    def plan_all(self) -> None:
        """Drop all bookings and plan every job up to the depth."""
        for arena in self.arenas.values():
            arena.reset(self.now)
        for booking in self.bookings.values():
            booking.alive = False
            booking.entry.left += 1
            booking.entry.booked = 0
        for entry in self.queue:
            entry.parked = entry.loose = False
        self.bookings.clear()
        self.due.clear()
        self.parked.clear()
        self.loose.clear()
        self.no_room.clear()
        self.loose_count = 0
        self.per_user.clear()
        self.per_part.clear()
        self.pledged = [0.0] * len(self.used)
        self.queue = self._sorted()
        self.frontier = 0
        self._extend()

    def _extend(self) -> None:
        """Plan on from where the last pass stopped, until the depth is reached."""
        queue, depth = self.queue, self.planning.depth
        index = self.frontier
        skipped = None
        full_pass = self.tested >= depth
        while index < len(queue) and not full_pass and not self.must_replan:
            entry = queue[index]
            if entry.left and not entry.parked and not entry.loose:
                if not self._plan_entry(entry) and skipped is None:
                    skipped = index
                full_pass = self.tested >= depth
            index += 1
        self.frontier = index if skipped is None else skipped
        if self.started and self.tested >= depth and index < len(queue):
            self._wake(self.now + self.planning.interval_s)  # the next pass looks further

    @property
    def tested(self) -> int:
        """How many jobs this pass has looked at: started, booked, or out of reach."""
        return self.started + len(self.bookings) + self.loose_count

    def _plan_entry(self, entry: Entry) -> bool:
        """Plan the entry's tasks; False where it was passed over and has to be looked at again."""
        while entry.left and not entry.parked and not entry.loose:
            if self.tested >= self.planning.depth:
                return False
            if self._is_passed_over(entry):
                return False
            if entry.booked >= self.planning.array_bookings:
                return True  # looked at again when one of them starts
            self._try(entry)
            if self.must_replan:
                return False
        return True

    def _try(self, entry: Entry) -> None:
        """Start one task now, or book it, or park it where a limit holds it, or leave it loose until later."""
        blocked = full(entry.claims, self.used, self.limit)
        if blocked is not None:
            self._park(entry, blocked)
            return
        job = entry.job
        pledged = full(entry.claims, self.used, self.limit, self.pledged)
        when, nodes = self._find(entry, only_now=pledged is not None)
        if nodes and when <= self.now + EPSILON:
            self._start(entry, nodes, booked=False)
            return
        if self.policy.preempts(job) and job.reservation is None and self._preempt(entry):
            return
        if pledged is not None:
            self._park(entry, pledged)
            return
        reserve = self.planning.reserve
        if not nodes or (reserve and self.per_part.get(job.partitions, 0) >= reserve):
            self._leave_loose(entry, when if nodes else when - self.planning.window_s)
            return
        self._book(entry, when, nodes)

    def _find(self, entry: Entry, *, only_now: bool) -> tuple[float, list[int]]:
        """Return the earliest place; where only a start now would count, an ask that has failed is not tried again."""
        job, arena = entry.job, entry.arena
        failed = self.no_room.setdefault((id(arena), entry.where.key, job.demand), [])
        if only_now and any(nodes <= job.nodes and limit <= job.limit_s for nodes, limit in failed):
            return math.inf, []
        latest = self.now if only_now else self.now + self.planning.window_s
        when, nodes = arena.find(entry.where, job.demand, job.nodes, job.limit_s, self.now, latest)
        if not nodes or when > self.now + EPSILON:
            failed.append((job.nodes, job.limit_s))
        return when, nodes

    def _park(self, entry: Entry, counter: int) -> None:
        entry.parked = True
        amount = next(claim.amount for claim in entry.claims if claim.counter == counter)
        self.count += 1
        heap = self.parked.setdefault(counter, {}).setdefault(amount, [])
        heapq.heappush(heap, (entry.rank, self.count, entry))

    def _leave_loose(self, entry: Entry, look_again: float) -> None:
        entry.loose = True
        self.loose_count += 1
        self._count_tested(entry, 1)
        if math.isfinite(look_again):
            again = max(look_again, self.now + 1.0)
            self.count += 1
            heapq.heappush(self.loose, (again, self.count, entry))
            self._wake(again)

    def _book(self, entry: Entry, when: float, nodes: list[int]) -> None:
        entry.arena.book(nodes, when, when + entry.job.limit_s, entry.job.demand)
        entry.left -= 1
        entry.booked += 1
        booking = Booking(entry, when, nodes)
        self.bookings[id(booking)] = booking
        self._count_tested(entry, 1)
        for counter, amount, _binds in entry.claims:
            self.pledged[counter] += amount
        self.count += 1
        heapq.heappush(self.due, (when, self.count, booking))
        self._wake(when)

    def _unbook(self, booking: Booking) -> None:
        booking.alive = False
        del self.bookings[id(booking)]
        entry = booking.entry
        entry.booked -= 1
        entry.left += 1
        self._count_tested(entry, -1)
        for counter, amount, _binds in entry.claims:
            self.pledged[counter] -= amount

    def _start_due(self) -> None:
        ready = []
        while self.due and self.due[0][0] <= self.now + EPSILON:
            booking = heapq.heappop(self.due)[2]
            if booking.alive:
                ready.append(booking)
        for booking in sorted(ready, key=lambda one: one.entry.rank):
            entry = booking.entry
            self._unbook(booking)
            blocked = full(entry.claims, self.used, self.limit)
            if blocked is None:
                self._start(entry, booking.nodes, booked=True)
                self._look_again_at(entry)
                continue
            self._park(entry, blocked)
            self.stale = True  # its room is given back when everything is planned anew

    def _look_again_at(self, entry: Entry) -> None:
        if entry.left:
            self.frontier = min(self.frontier, entry.rank)

    def _unpark(self, freed: set[int]) -> None:
        for counter in freed:
            groups = self.parked.get(counter)
            while groups:
                room = self.limit[counter] - self.used[counter] + EPSILON
                fitting = [(heap[0][0], amount) for amount, heap in groups.items() if heap and amount <= room]
                if not fitting:
                    break
                entry = heapq.heappop(groups[min(fitting)[1]])[2]
                if not entry.parked:
                    continue
                entry.parked = False
                if not self._plan_entry(entry):
                    self._look_again_at(entry)
                self.stale = self.stale or bool(entry.booked or entry.loose)
                if self.must_replan or (entry.parked and full(entry.claims, self.used, self.limit) is None):
                    break  # what is free is pledged to others: nobody behind gets further

    def _loosen(self) -> None:
        while self.loose and self.loose[0][0] <= self.now + EPSILON:
            entry = heapq.heappop(self.loose)[2]
            if entry.loose:
                entry.loose = False
                self.loose_count -= 1
                self._count_tested(entry, -1)
                self._look_again_at(entry)
