"""Plays one cluster forward: jobs end, pending ones are planned, start, wait, preempt.

Conservative backfill as Slurm does it: each tested job that can't start now is booked at its earliest place, so that
nobody behind delays it. As long as jobs end when they were expected to, bookings come true as planned; an earlier end
pulls bookings forward in order (compression), and what else changes the order plans everything anew. How often that
may be is bounded by the size of the queue (`_Simulation.replan_s`).
"""

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from console.scheduling.arena import Arena
from console.scheduling.cluster import Job
from console.scheduling.limits import Claim, full
from console.scheduling.placement import Where
from console.scheduling.policy import Planning, Policy
from console.scheduling.profile import EPSILON, Demand
from console.scheduling.world import World

MAX_TASKS = 2000  # tasks of one array row that are played
MAX_EVENTS = 200_000
REQUEUE_S = 120.0  # a requeued job becomes eligible so much later (slurm.md, section 6)
_REORDER_S = 300.0  # PriorityCalcPeriod's default
_SMALL = 40  # queues up to this length are planned anew whenever something changed


@dataclass(slots=True)
class Entry:
    """One pending row: tasks left to plan, those booked, and when tasks started and where."""

    job: Job
    where: Where
    claims: tuple[Claim, ...]
    arena: Arena
    left: int
    booked: int = 0
    rank: int = 0
    ready: bool = True
    parked: bool = False
    loose: bool = False
    waits_for: set[str] = field(default_factory=set)
    starts: list[tuple[float, tuple[int, ...]]] = field(default_factory=list)


@dataclass(slots=True)
class Booking:
    """Room kept for one task."""

    entry: Entry
    start: float
    nodes: list[int]
    alive: bool = True


@dataclass(slots=True)
class Run:
    """One running task: `expected` is its end by limit, which plans rest on, `end` the true one."""

    job: Job
    start: float
    expected: float
    end: float
    placed: tuple[tuple[int, Demand], ...]
    claims: tuple[Claim, ...]
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Eviction:
    """One task that was stopped for another job."""

    job: Job
    at: float
    by: Job
    lost_gpu_s: float


@dataclass(slots=True)
class Result:
    """What one seed gave.

    `ends` are by node the ends of jobs that ran at the beginning, in order; `rooms` how long jobs of a shape (key of
    its nodes, demand, number of nodes) could run from the beginning on without delaying anybody that is booked.
    """

    starts: dict[str, list[tuple[float, tuple[int, ...]]]]
    runs: list[Run]
    evictions: list[Eviction]
    cut_short: bool
    ends: dict[int, list[tuple[float, str, Demand]]]
    rooms: dict[tuple[int, Demand, int], float]


def simulate(world: World, seed: int, horizon_s: float) -> Result:
    """Play the world with one seed up to the horizon (seconds from the snapshot)."""
    return _Simulation(world, seed, horizon_s).run()


def plan_now(world: World) -> dict[str, tuple[float, ...]]:
    """Return what one pass at the snapshot's time plans: by job key the starts of its tasks, 0 for those that start.

    This is what `squeue --start` shows. Jobs beyond the depth or the window are missing.
    """
    simulation = _Simulation(world, 0, 0.0)
    simulation.plan_all()
    found: dict[str, list[float]] = {}
    for entry in simulation.entries:
        found.setdefault(entry.job.key, []).extend(when for when, _nodes in entry.starts)
    for booking in simulation.bookings.values():
        found.setdefault(booking.entry.job.key, []).append(booking.start)
    return {key: tuple(sorted(starts)) for key, starts in found.items() if starts}


class _Simulation:
    def __init__(self, world: World, seed: int, horizon_s: float) -> None:
        self.world = world
        self.seed = seed
        self.horizon = horizon_s
        self.policy: Policy = world.policy
        self.planning: Planning = world.policy.planning
        self.arenas = {name: arena.copy() for name, arena in world.arenas.items()}
        self.used = list(world.used)
        self.pledged = [0.0] * len(self.used)
        self.limit = world.limits()
        self.now = 0.0
        self.events: list[tuple[float, int, str, object]] = []
        self.count = 0
        self.runs: list[Run] = []
        self.active: dict[int, Run] = {}
        self.alive: dict[str, int] = {}
        self.children: dict[str, list[Entry]] = {}
        self.entries: list[Entry] = []
        self.queue: list[Entry] = []
        self.frontier = 0
        self.bookings: dict[int, Booking] = {}
        self.due: list[tuple[float, int, Booking]] = []
        self.wakes: set[float] = set()
        self.parked: dict[int, dict[float, list[tuple[int, int, Entry]]]] = {}
        self.loose: list[tuple[float, int, Entry]] = []
        self.loose_count = 0
        self.started = 0
        self.per_user: dict[str | None, int] = {}
        self.per_part: dict[tuple[str, ...], int] = {}
        self.evictions: list[Eviction] = []
        self.stale = False
        self.must_replan = False
        self.next_replan = 0.0
        self._enter_running()
        self._enter_pending()

    # -- setting up ----------------------------------------------------------------------------------------------

    def _enter_running(self) -> None:
        for job in self.world.cluster.running:
            end = self.world.estimates.remaining_s(job, self.seed)
            run = Run(job, job.start if job.start is not None else 0.0, job.end, end, job.placed,
                      self.world.claims[job.key])  # fmt: skip
            self._add_run(run)
            self.alive[job.key] = self.alive.get(job.key, 0) + 1

    def _enter_pending(self) -> None:
        for job in self.world.cluster.pending:
            gate = self.world.gates[job.key]
            left = min(job.tasks, MAX_TASKS)
            self.alive[job.key] = self.alive.get(job.key, 0) + left
            if gate.never or gate.unknown:
                continue
            entry = Entry(
                job, self.world.places.of(job), self.world.claims[job.key], self.arenas[job.reservation], left
            )
            self.entries.append(entry)
            if gate.parents:
                entry.ready = False
                entry.waits_for = set(gate.parents)
                for parent in gate.parents:
                    self.children.setdefault(parent, []).append(entry)
            if gate.begin > 0:
                entry.ready = False
                self._at(gate.begin, "begin", entry)

    def _add_run(self, run: Run) -> None:
        self.count += 1
        self.active[self.count] = run
        self.runs.append(run)
        if run.end <= self.horizon:
            heapq.heappush(self.events, (run.end, self.count, "end", self.count))

    def _at(self, when: float, kind: str, what: object = None) -> None:
        if when <= self.horizon:
            self.count += 1
            heapq.heappush(self.events, (when, self.count, kind, what))

    def _wake(self, when: float) -> None:
        if when not in self.wakes:
            self.wakes.add(when)
            self._at(when, "wake")

    # -- the loop ------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        self._replan()
        rooms = self._rooms()
        seen = 0
        while self.events and seen < MAX_EVENTS:
            self.now = self.events[0][0]
            early: list[int] = []
            freed: set[int] = set()
            woken: list[Entry] = []
            while self.events and self.events[0][0] <= self.now + EPSILON:
                _when, _order, kind, what = heapq.heappop(self.events)
                seen += 1
                if kind == "end":
                    self._end(int(what), early, freed, woken)  # type: ignore[call-overload]  # "end" carries a run's number
                elif kind == "begin":
                    self._begin(what, woken)  # type: ignore[arg-type]  # "begin" carries an entry
                elif kind == "order":
                    self._look_at_order()
            self._step(early, freed, woken)
        starts = {entry.job.key: entry.starts for entry in self.entries}
        ends: dict[int, list[tuple[float, str, Demand]]] = {}
        for run in self.runs[: len(self.world.cluster.running)]:
            for node, demand in run.placed:
                ends.setdefault(node, []).append((run.end, run.job.id, demand))
        for at_node in ends.values():
            at_node.sort()
        return Result(starts, self.runs, self.evictions, bool(self.events), ends, rooms)

    def _rooms(self) -> dict[tuple[int, Demand, int], float]:
        found: dict[tuple[int, Demand, int], float] = {}
        for entry in self.queue if self.seed == 0 else ():
            job, arena = entry.job, entry.arena
            key = (entry.where.key, job.demand, job.nodes)
            if key not in found and (entry.left or entry.booked):
                nodes = [node for node in entry.where.nodes if node in arena.plan]
                spans = sorted((arena.plan[n].free_until(arena.needs(n, job.demand), 0.0) for n in nodes), reverse=True)
                found[key] = spans[job.nodes - 1] if len(spans) >= job.nodes else 0.0
        return found

    def _step(self, early: list[int], freed: set[int], woken: list[Entry]) -> None:
        self.started = 0
        changed = bool(early or woken) or any(self.parked.get(counter) for counter in freed)
        if (self.stale or changed) and self.now >= self.next_replan:
            self._replan()
            return
        self._start_due()
        if early:
            self.stale = True
            self._compress(early)
        if woken:
            self.queue = self._sorted()
            self.frontier = 0
            self.stale = True
        self._unpark(freed)
        self._loosen()
        self._extend()
        if self.must_replan:
            self._replan()
        elif self.stale:
            self._wake(self.next_replan)

    def _end(self, number: int, early: list[int], freed: set[int], woken: list[Entry]) -> None:
        run = self.active.pop(number, None)
        if run is None:
            return
        run.ended = True
        self._give_back(run, early, freed)
        key = run.job.key
        self.alive[key] -= 1
        if self.alive[key] <= 0:
            self._let_children_go(key, woken)

    def _look_at_order(self) -> None:
        before = [entry.job.key for entry in self.queue if entry.left or entry.booked]
        self.queue = self._sorted()
        self.frontier = 0
        if before != [entry.job.key for entry in self.queue]:
            self.stale = True
        else:
            self._at(self.now + max(_REORDER_S, self.replan_s), "order")

    def _give_back(self, run: Run, early: list[int], freed: set[int]) -> None:
        if run.expected > self.now + EPSILON:
            for node, demand in run.placed:
                for arena in self.arenas.values():
                    arena.release((node,), self.now, run.expected, demand)
                early.append(node)
        for counter, amount in run.claims:
            self.used[counter] -= amount
            freed.add(counter)

    def _let_children_go(self, key: str, woken: list[Entry]) -> None:
        for child in self.children.pop(key, ()):
            child.waits_for.discard(key)
            if self.world.gates[child.job.key].any_parent:
                child.waits_for.clear()
            if self.world.gates[child.job.key].begin <= self.now + EPSILON:
                self._begin(child, woken)

    def _begin(self, entry: Entry, woken: list[Entry]) -> None:
        if not entry.waits_for and not entry.ready:
            entry.ready = True
            woken.append(entry)

    # -- planning ------------------------------------------------------------------------------------------------

    def _sorted(self) -> list[Entry]:
        waiting = {entry.job.key: entry for entry in self.entries if entry.ready and (entry.left or entry.booked)}
        ordered = self.policy.order([entry.job for entry in waiting.values()], self.now)
        queue = [waiting[job.key] for job in ordered]
        for rank, entry in enumerate(queue):
            entry.rank = rank
        return queue

    def _replan(self) -> None:
        """Drop all bookings and plan in order; again after a preemption, which changes the ground."""
        for _again in range(200):
            self.must_replan = False
            self.plan_all()
            if not self.must_replan:
                break
        self.stale = self.must_replan
        self.must_replan = False
        self.next_replan = self.now + self.replan_s
        if self.policy.order_changes() and len(self.queue) > 1:
            self._at(self.now + max(_REORDER_S, self.replan_s), "order")

    @property
    def replan_s(self) -> float:
        """How long to wait between full plans: nothing for short queues, 12 min for 500 waiting jobs."""
        size = min(len(self.queue), self.planning.depth)
        return 0.0 if size <= _SMALL else self.planning.interval_s * max(1.0, (size / 100) ** 2)

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
        while index < len(queue) and self.tested < depth and not self.must_replan:
            entry = queue[index]
            if entry.left and not entry.parked and not entry.loose and not self._plan_entry(entry) and skipped is None:
                skipped = index
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

    def _is_passed_over(self, entry: Entry) -> bool:
        planning, part = self.planning, entry.job.partitions
        if not planning.backfill and self.per_part.get(part, 0):
            return True
        if planning.per_user and self.per_user.get(entry.job.user, 0) >= planning.per_user:
            return True
        return bool(planning.per_partition) and self.per_part.get(part, 0) >= planning.per_partition

    def _try(self, entry: Entry) -> None:
        """Start one task now, or book it, or park it where a limit holds it, or leave it loose until later."""
        blocked = full(entry.claims, self.used, self.limit)
        if blocked is not None:
            self._park(entry, blocked)
            return
        job = entry.job
        latest = self.now + self.planning.window_s
        when, nodes = entry.arena.find(entry.where, job.demand, job.nodes, job.limit_s, self.now, latest)
        if nodes and when <= self.now + EPSILON:
            self._start(entry, nodes, booked=False)
            return
        if self.policy.preempts(job) and job.reservation is None and self._preempt(entry):
            return
        pledged = full(entry.claims, [u + p for u, p in zip(self.used, self.pledged, strict=True)], self.limit)
        if pledged is not None:
            self._park(entry, pledged)
            return
        reserve = self.planning.reserve
        if not nodes or (reserve and self.per_part.get(job.partitions, 0) >= reserve):
            self._leave_loose(entry, when if nodes else when - self.planning.window_s)
            return
        self._book(entry, when, nodes)

    def _park(self, entry: Entry, counter: int) -> None:
        entry.parked = True
        amount = next(amount for number, amount in entry.claims if number == counter)
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
        for counter, amount in entry.claims:
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
        for counter, amount in entry.claims:
            self.pledged[counter] -= amount

    def _count_tested(self, entry: Entry, by: int) -> None:
        user, part = entry.job.user, entry.job.partitions
        self.per_user[user] = self.per_user.get(user, 0) + by
        self.per_part[part] = self.per_part.get(part, 0) + by

    # -- what a step changes -------------------------------------------------------------------------------------

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
            end = booking.start + entry.job.limit_s
            entry.arena.unbook(booking.nodes, booking.start, end, entry.job.demand, self.now)
            self._park(entry, blocked)
            self.stale = True

    def _look_again_at(self, entry: Entry) -> None:
        if entry.left:
            self.frontier = min(self.frontier, entry.rank)

    def _compress(self, early: Sequence[int]) -> None:
        """Pull bookings forward that can use what was given back, in order."""
        nodes = dict.fromkeys(early)
        for booking in sorted(self.bookings.values(), key=lambda one: (one.entry.rank, one.start)):
            if not booking.alive or not self._may_gain(booking, nodes):
                continue
            entry, job = booking.entry, booking.entry.job
            end = booking.start + job.limit_s
            entry.arena.unbook(booking.nodes, booking.start, end, job.demand, self.now)
            self._unbook(booking)
            when, found = entry.arena.find(entry.where, job.demand, job.nodes, job.limit_s, self.now, booking.start)
            if found and when <= self.now + EPSILON and full(entry.claims, self.used, self.limit) is None:
                self._start(entry, found, booked=False)
                self._look_again_at(entry)
            elif found and self.now + EPSILON < when < booking.start - EPSILON:
                self._book(entry, when, found)
            else:
                self._book(entry, booking.start, booking.nodes)

    def _may_gain(self, booking: Booking, nodes: Iterable[int]) -> bool:
        entry, job = booking.entry, booking.entry.job
        mask, arena = entry.where.mask, entry.arena
        for node in nodes:
            if node in booking.nodes:
                return True
            usable = mask[node] and node in arena.plan
            if usable and arena.earliest(node, job.demand, job.limit_s, self.now) < booking.start - EPSILON:
                return True
        return False

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
                self._plan_entry(entry)
                self.stale = self.stale or bool(entry.booked or entry.loose)
                self._look_again_at(entry)
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

    def _start(self, entry: Entry, nodes: Sequence[int], *, booked: bool) -> None:
        job = entry.job
        task = len(entry.starts)
        expected = self.now + job.limit_s
        end = min(expected, self.now + self.world.estimates.run_s(job, task, self.seed))
        for arena in self.arenas.values():
            arena.occupy(nodes, self.now, expected, job.demand, booked=booked and arena is entry.arena)
        for counter, amount in entry.claims:
            self.used[counter] += amount
        entry.left -= 1
        self.started += 1
        entry.starts.append((self.now, tuple(nodes)))
        placed = tuple((node, entry.arena.needs(node, job.demand)) for node in nodes)
        self._add_run(Run(job, self.now, expected, end, placed, entry.claims))
        self._let_after_go(job.key)

    def _let_after_go(self, key: str) -> None:
        """Let go what waits for the start, not the end, of this job (`after:`)."""
        for child in [c for c in self.children.get(key, ()) if self.world.gates[c.job.key].on_start]:
            child.waits_for.discard(key)
            if not child.waits_for:
                self._at(self.now, "begin", child)

    # -- preemption ----------------------------------------------------------------------------------------------

    def _preempt(self, entry: Entry) -> bool:
        """Make room by stopping others, if that suffices; the plan must then be made anew."""
        job = entry.job
        victims: dict[int, list[Run]] = {}
        for run in self.active.values():
            if self.policy.fate(job, run.job, self.now - run.start) is not None:
                for node, _demand in run.placed:
                    victims.setdefault(node, []).append(run)
        if not victims:
            return False
        costs = []
        for node in entry.where.nodes:
            cost = self._cost(entry, node, victims.get(node, []))
            if cost is not None:
                costs.append((len(cost), sum(run.job.gpus for run in cost), node, cost))
        if len(costs) < job.nodes:
            return False
        costs.sort(key=lambda one: one[:3])
        chosen = costs[: job.nodes]
        doomed = {id(run): run for one in chosen for run in one[3]}
        if not doomed:
            return False
        for number in [number for number, run in self.active.items() if id(run) in doomed]:
            self._evict(number, job)
        self._start(entry, [one[2] for one in chosen], booked=False)
        self.must_replan = True
        return True

    def _cost(self, entry: Entry, node: int, victims: list[Run]) -> list[Run] | None:
        """Return the fewest victims that make room on this node for the whole limit; None where that can't be."""
        arena, job = entry.arena, entry.job
        if node not in arena.base:
            return None
        needed = arena.needs(node, job.demand)
        steps = arena.base[node].copy()
        taken: list[Run] = []
        for run in [None, *sorted(victims, key=lambda one: self.policy.victim_key(one.job, self.now - one.start))]:
            if run is not None:
                taken.append(run)
                for where, demand in run.placed:
                    if where == node:
                        steps.add(self.now, run.expected, demand, 1.0)
            if steps.earliest(needed, job.limit_s, self.now) <= self.now + EPSILON:
                return taken
        return None

    def _evict(self, number: int, by: Job) -> None:
        run = self.active.pop(number)
        fate = self.policy.fate(by, run.job, self.now - run.start)
        run.end = self.now
        run.ended = True
        early: list[int] = []
        freed: set[int] = set()
        self._give_back(run, early, freed)
        self.evictions.append(Eviction(run.job, self.now, by, (self.now - run.start) * run.job.gpus))
        if fate == "requeue":
            self._requeue(run)
        else:
            self.alive[run.job.key] -= 1

    def _requeue(self, run: Run) -> None:
        for entry in self.entries:
            if entry.job.key == run.job.key:
                entry.left += 1
                return
        job = run.job
        again = Entry(job, self.world.places.of(job), run.claims, self.arenas[None], 1, ready=False)
        self.entries.append(again)
        self._at(self.now + REQUEUE_S, "begin", again)
