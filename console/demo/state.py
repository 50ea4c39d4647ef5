"""What a simulated cluster holds at one second: nodes, jobs, reservations and limits. Times are whole seconds.

Second 0 is the beginning of the simulated past; jobs that are older than it have negative times.
"""

import math
from dataclasses import dataclass, field

from connectors.rules import SlurmPartition, SlurmQos
from console.demo.scenarios import NodeGroup

GIB = 2.0**30


@dataclass(frozen=True, slots=True)
class Ask:
    """What a job asks of each of its nodes, and what else it says of itself; fixed at its submission."""

    name: str
    user: str
    team: str
    project: str | None
    kind: str
    partition: str
    qos: str
    nodes: int
    gpus: int
    cpus: int
    memory: float
    model: str | None
    limit_s: int
    run_s: int
    outcome: str
    load: str
    pinned: tuple[str, ...] = ()
    after: str | None = None


@dataclass(slots=True)
class Job:
    """One job. `on` maps its nodes to the indexes of its GPUs there; `starts` counts how often it was started."""

    id: str
    ask: Ask
    submit: int
    eligible: int
    state: str = "pending"
    reason: str = "None"
    start: int | None = None
    end: int | None = None
    on: dict[str, tuple[int, ...]] = field(default_factory=dict)
    held_by: str | None = None
    restarts: int = 0
    starts: int = 0
    priority: float = 0.0
    priority_set: float | None = None
    planned: int | None = None
    planned_on: tuple[str, ...] = ()
    exit_code: int | None = None
    exit_signal: int | None = None

    @property
    def gpus(self) -> int:
        """Return its GPUs on all nodes."""
        return self.ask.gpus * self.ask.nodes

    @property
    def ends_by(self) -> int:
        """Return when a running job ends at the latest, by its limit."""
        return (self.start or 0) + self.ask.limit_s


@dataclass(slots=True)
class Node:
    """One node and what is free on it; a GPU that is lost is never free."""

    name: str
    group: NodeGroup
    free: set[int]
    cpus_free: int
    memory_free: float
    jobs: dict[str, Job] = field(default_factory=dict)
    reason: str | None = None
    reason_by: str | None = None
    reason_at: int | None = None
    lost: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, name: str, group: NodeGroup) -> "Node":
        """Return an empty node."""
        return cls(name, group, set(range(group.gpus)), group.cpus, group.memory_gib * GIB)

    @property
    def drained(self) -> bool:
        """Return whether it takes nothing new."""
        return self.reason is not None

    def fits(self, ask: Ask) -> bool:
        """Return whether one node's share of a job is free here."""
        return len(self.free) >= ask.gpus and self.cpus_free >= ask.cpus and self.memory_free >= ask.memory

    def take(self, job: Job) -> None:
        """Give a job its share: the lowest free GPUs."""
        ask = job.ask
        chosen = tuple(sorted(self.free)[: ask.gpus])
        self.free.difference_update(chosen)
        self.cpus_free -= ask.cpus
        self.memory_free -= ask.memory
        self.jobs[job.id] = job
        job.on[self.name] = chosen

    def give_back(self, job: Job) -> None:
        """Free a job's share, apart from GPUs that were lost meanwhile."""
        self.free.update(index for index in job.on[self.name] if index not in self.lost)
        self.cpus_free += job.ask.cpus
        self.memory_free += job.ask.memory
        del self.jobs[job.id]


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reservation of whole nodes."""

    name: str
    start: int
    end: int
    nodes: tuple[str, ...]
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Happened:
    """One line of the event log."""

    at: int
    level: str
    source: str
    object: str
    reason: str
    message: str


@dataclass(slots=True)
class Queues:
    """The limits and states that changes may set; GPUs and seconds, +inf is unlimited."""

    partitions: dict[str, SlurmPartition]
    qos: dict[str, SlurmQos]
    account_gpus: dict[str, float]
    shares: dict[str, float]


@dataclass(slots=True)
class State:
    """The whole cluster."""

    nodes: dict[str, Node]
    queues: Queues
    now: int = 0
    pending: dict[str, Job] = field(default_factory=dict)
    running: dict[str, Job] = field(default_factory=dict)
    ended: list[Job] = field(default_factory=list)
    reservations: dict[str, Reserved] = field(default_factory=dict)
    xids: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=dict)
    usage_at: int = 0
    log: list[Happened] = field(default_factory=list)

    def job(self, key: str) -> Job | None:
        """Return an active job."""
        return self.pending.get(key) or self.running.get(key)


def unlimited(limits: dict[str, float], name: str) -> float:
    """Return a limit by name; +inf where there is none."""
    return limits.get(name, math.inf)
