"""A simulated cluster that lives: jobs come, start and end, things break, and changes take hold.

Its state is a function of scenario, seed, the changes with their seconds, and the second that is asked for: something
happens at events only, whatever steps `advance` is called in.
"""

import heapq
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec

from console.demo.scenarios import HOUR, SCENARIOS, Fault, Scripted
from console.demo.schedule import HALF_LIFE_S, decide, set_priorities
from console.demo.state import Ask, Happened, Job, Node, Queues, State
from console.demo.workload import arrivals, scripted

PAST_S = 12 * HOUR
_KEEP_EVENTS = 300
_KEEP_ENDED = 4000
_EXITS: dict[str, tuple[int, int | None]] = {
    "succeeded": (0, None), "failed": (1, None), "cancelled": (0, 15), "timeout": (0, 15), "out_of_memory": (0, 125),
}  # fmt: skip
_FIRST_ID = 4100
_PATIENCE = 12  # people stop submitting while this many jobs of their team wait


class World:
    """One cluster from the beginning of its simulated past on; a demo is opened `PAST_S` seconds later."""

    def __init__(self, scenario: str, seed: int) -> None:
        """Set the cluster up, empty but for the jobs that are older than its past; KeyError for an unknown scenario."""
        self.scenario = SCENARIOS[scenario]
        self.seed = seed
        groups = {name: group for group in self.scenario.groups for name in group.names()}
        self.state = State(
            nodes={name: Node.of(name, group) for name, group in groups.items()},
            queues=Queues(
                partitions={one.name: one for one in self.scenario.partitions},
                qos={one.name: one for one in self.scenario.qos},
                account_gpus={team.name: team.gpu_limit for team in self.scenario.teams},
                shares={team.name: team.shares for team in self.scenario.teams},
            ),
            usage={team.name: team.shares * 86_400.0 * 4 for team in self.scenario.teams},
        )
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._next_id = _FIRST_ID
        self._names: dict[str, str] = {}
        residents = []
        for at, job, ask in scripted(self.scenario, seed, PAST_S):
            if at < 0:
                residents.append((at, job, ask))
            else:
                self._at(at, partial(self._submit_scripted, at, job, ask))
        for at, job, ask in sorted(residents, key=lambda one: one[0]):
            self._submit_scripted(at, job, ask)
        for fault in self.scenario.faults:
            self._at(PAST_S + fault.at, partial(self._break, fault))
        self._at(0, partial(self._open_hour, 0))

    def advance(self, to: int) -> None:
        """Let time pass up to a second, which is never before the present one."""
        while self._agenda and self._agenda[0][0] <= to:
            now = self._agenda[0][0]
            self.state.now = now
            while self._agenda and self._agenda[0][0] <= now:
                heapq.heappop(self._agenda)[2]()
            self.reschedule()
        self.state.now = max(self.state.now, to)

    def reschedule(self) -> None:
        """Start what can start now, and write down why the rest cannot."""
        self._account()
        for job, nodes in decide(self.state):
            self._start(job, nodes, self.state.now)

    def end(self, job: Job, outcome: str, *, by: str | None = None) -> None:
        """End an active job; `by` is who cancelled it."""
        state = self.state
        if state.pending.pop(job.id, None) is None:
            self._free(job)
        job.state, job.end, job.reason = outcome, state.now, "None"
        job.exit_code, job.exit_signal = _EXITS[outcome]
        job.priority, job.planned, job.planned_on = 0.0, None, ()
        state.ended.append(job)
        del state.ended[:-_KEEP_ENDED]
        if by is not None:
            self.note("info", "slurmctld", f"job {job.id}", "Cancelled", f"{job.ask.name} was cancelled by {by}")
        elif outcome not in {"succeeded", "cancelled"}:
            told = f"{job.ask.name} of {job.ask.user} ended: {outcome}"
            self.note("warning", "slurmctld", f"job {job.id}", outcome, told)

    def requeue(self, job: Job, *, delay_s: int) -> None:
        """Stop a running job and put it back into its queue, from where it may start after a delay."""
        self._free(job)
        job.state, job.start, job.end, job.on = "pending", None, None, {}
        job.restarts += 1
        job.eligible, job.reason = self.state.now + delay_s, "BeginTime"
        self.state.pending[job.id] = job
        self._at(job.eligible, lambda: None)

    def wake(self, at: int, then: Callable[[], None] = lambda: None) -> None:
        """Have something done, and jobs looked at again, at a second to come."""
        self._at(at, then)

    def note(self, level: str, source: str, what: str, reason: str, message: str) -> None:
        """Write an event down."""
        self.state.log.append(Happened(self.state.now, level, source, what, reason, message))
        del self.state.log[:-_KEEP_EVENTS]

    def set_partition(self, name: str, **fields: object) -> None:
        """Replace fields of a partition."""
        partitions = self.state.queues.partitions
        partitions[name] = msgspec.structs.replace(partitions[name], **fields)

    def _at(self, at: int, then: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._agenda, (max(at, self.state.now), self._count, then))

    def _open_hour(self, hour: int) -> None:
        for at, ask in arrivals(self.scenario, self.seed, hour):
            self._at(at, partial(self._arrive, at, ask))
        self._at((hour + 1) * HOUR, partial(self._open_hour, hour + 1))

    def _arrive(self, at: int, ask: Ask) -> None:
        if sum(job.ask.team == ask.team for job in self.state.pending.values()) < _PATIENCE:
            self._submit(at, ask)
        else:
            self._next_id += 1  # so that a change never renames the jobs that come later

    def _submit(self, at: int, ask: Ask) -> Job:
        job = Job(id=str(self._next_id), ask=ask, submit=at, eligible=at)
        self._next_id += 1
        self.state.pending[job.id] = job
        return job

    def _submit_scripted(self, at: int, script: Scripted, ask: Ask) -> None:
        after = self._names[script.after] if script.after else None
        job = self._submit(at, replace(ask, after=after))
        self._names[script.template.name] = job.id
        job.restarts = script.restarts
        if script.held:
            job.held_by = ask.user
        if script.started:
            nodes = [self.state.nodes[name] for name in script.on]
            if all(node.fits(ask) and not node.drained for node in nodes):
                set_priorities(self.state)
                self._start(job, nodes, at)

    def _start(self, job: Job, nodes: list[Node], at: int) -> None:
        del self.state.pending[job.id]
        job.on = {}
        for node in nodes:
            node.take(job)
        job.state, job.reason, job.start, job.planned, job.planned_on = "running", "None", at, None, ()
        job.starts += 1
        self.state.running[job.id] = job
        timed_out = job.ask.run_s >= job.ask.limit_s
        ends, outcome = at + min(job.ask.run_s, job.ask.limit_s), "timeout" if timed_out else job.ask.outcome
        start = job.starts

        def finish() -> None:
            if job.state == "running" and job.starts == start:
                self.end(job, outcome)

        self._at(ends, finish)

    def _free(self, job: Job) -> None:
        for name in job.on:
            self.state.nodes[name].give_back(job)
        del self.state.running[job.id]

    def _break(self, fault: Fault) -> None:
        node = self.state.nodes[fault.node]
        if fault.gpu is not None and fault.xid is not None:
            self.state.xids[fault.node, fault.gpu] = (fault.xid, self.state.now)
            self.note("error", "kernel", fault.node, f"Xid {fault.xid}", f"NVRM: Xid (GPU {fault.gpu}): {fault.xid}")
        if fault.lost and fault.gpu is not None:
            node.lost.add(fault.gpu)
            node.free.discard(fault.gpu)
        if fault.drain:
            if fault.lost:
                for job in list(node.jobs.values()):
                    self.requeue(job, delay_s=120)
            node.reason, node.reason_by, node.reason_at = fault.drain, "slurm", self.state.now
            self.note("warning", "slurmctld", fault.node, "Drained", fault.drain)

    def _account(self) -> None:
        """Let the accounts' usage decay and grow (Slurm's PriorityDecayHalfLife, GPU-seconds)."""
        state = self.state
        passed = state.now - state.usage_at
        if passed <= 0:
            return
        fade = 2.0 ** (-passed / HALF_LIFE_S)
        for team in state.usage:
            state.usage[team] *= fade
        for job in state.running.values():
            state.usage[job.ask.team] += job.gpus * passed
        state.usage_at = state.now
