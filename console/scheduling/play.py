"""The state of one simulation and what happens in it: jobs end, start, are stopped and wait again.

Who starts when is decided by the two planners on top of it: `simulator.Conservative`, and `shortsight.ShortSighted`
for run times that plans can't know.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from console.scheduling.arena import Arena
from console.scheduling.cluster import Job
from console.scheduling.limits import Claim
from console.scheduling.placement import Where
from console.scheduling.policy import Planning, Policy
from console.scheduling.profile import EPSILON, Demand
from console.scheduling.world import World

MAX_TASKS = 2000  # tasks of one array row that are played
MAX_EVENTS = 200_000
REQUEUE_S = 120.0  # a requeued job becomes eligible so much later (slurm.md, section 6)
REORDER_S = 300.0  # PriorityCalcPeriod's default


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
    its nodes, demand, number of nodes) could run from the beginning on without delaying anybody that is booked;
    `pace_s` how far apart full plans were at first.
    """

    starts: dict[str, list[tuple[float, tuple[int, ...]]]]
    runs: list[Run]
    evictions: list[Eviction]
    cut_short: bool
    ends: dict[int, list[tuple[float, str, Demand]]]
    rooms: dict[tuple[int, Demand, int], float]
    pace_s: float


class Play:
    """One cluster with one seed, played up to the horizon."""

    def __init__(self, world: World, seed: int, horizon_s: float) -> None:
        """Put in place what runs and what waits at the beginning."""
        self.world = world
        self.seed = seed
        self.horizon = horizon_s
        self.policy: Policy = world.policy
        self.planning: Planning = world.policy.planning
        self.arenas = {name: arena.copy() for name, arena in world.arenas.items()}
        self.used = list(world.used)
        self.pledged = [0.0] * len(world.used)
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
        self.wakes: set[float] = set()
        self.started = 0
        self.per_user: dict[str | None, int] = {}
        self.per_part: dict[tuple[str, ...], int] = {}
        self.evictions: list[Eviction] = []
        self.must_replan = False
        self._enter_running()
        self._enter_pending()

    def begin(self) -> None:
        """Plan for the first time."""
        raise NotImplementedError

    def step(self, early: list[int], freed: set[int], woken: list[Entry]) -> None:
        """Plan after something happened: nodes given back before time, counters with more room, jobs newly eligible."""
        raise NotImplementedError

    @property
    def pace_s(self) -> float:
        """How long to wait between full plans: that bounds the work on long queues."""
        raise NotImplementedError

    def look_at_order(self) -> None:
        """See whether time has changed the order."""
        raise NotImplementedError

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

    def run(self) -> Result:
        """Play to the end and return what happened."""
        self.begin()
        rooms, pace_s = self._rooms(), self.pace_s
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
                    self.look_at_order()
            self.step(early, freed, woken)
        starts = {entry.job.key: entry.starts for entry in self.entries}
        ends: dict[int, list[tuple[float, str, Demand]]] = {}
        for run in self.runs[: len(self.world.cluster.running)]:
            for node, demand in run.placed:
                ends.setdefault(node, []).append((run.end, run.job.id, demand))
        for at_node in ends.values():
            at_node.sort()
        return Result(starts, self.runs, self.evictions, bool(self.events), ends, rooms, pace_s)

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

    def _give_back(self, run: Run, early: list[int], freed: set[int]) -> None:
        if run.expected > self.now + EPSILON:
            for node, demand in run.placed:
                for arena in self.arenas.values():
                    arena.release((node,), self.now, run.expected, demand)
                early.append(node)
        for counter, amount, _binds in run.claims:
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

    def _sorted(self) -> list[Entry]:
        waiting = {entry.job.key: entry for entry in self.entries if entry.ready and (entry.left or entry.booked)}
        ordered = self.policy.order([entry.job for entry in waiting.values()], self.now)
        queue = [waiting[job.key] for job in ordered]
        for rank, entry in enumerate(queue):
            entry.rank = rank
        return queue

    def _watch_order(self) -> None:
        """Ask to look at the order again when time can have changed it."""
        when = self.policy.next_reorder([entry.job for entry in self.queue], self.now)
        self._at(max(when, self.now + REORDER_S), "order")

    def _is_passed_over(self, entry: Entry) -> bool:
        planning, part = self.planning, entry.job.partitions
        if not planning.backfill and self.per_part.get(part, 0):
            return True
        if planning.per_user and self.per_user.get(entry.job.user, 0) >= planning.per_user:
            return True
        return bool(planning.per_partition) and self.per_part.get(part, 0) >= planning.per_partition

    def _count_tested(self, entry: Entry, by: int) -> None:
        user, part = entry.job.user, entry.job.partitions
        self.per_user[user] = self.per_user.get(user, 0) + by
        self.per_part[part] = self.per_part.get(part, 0) + by

    def _start(self, entry: Entry, nodes: Sequence[int], *, booked: bool) -> None:
        job = entry.job
        task = len(entry.starts)
        expected = self.now + job.limit_s
        end = min(expected, self.now + self.world.estimates.run_s(job, task, self.seed))
        for arena in self.arenas.values():
            arena.occupy(nodes, self.now, expected, job.demand, booked=booked and arena is entry.arena)
        for counter, amount, _binds in entry.claims:
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
