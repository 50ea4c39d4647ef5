"""Everything that is the same for all seeds: the cluster, its policy, gates, claims, and the profiles to begin with."""

import math
from dataclasses import dataclass, field

from connectors.model import Snapshot
from connectors.rules import SlurmRules
from connectors.text import _, plural
from console.scheduling.arena import Arena
from console.scheduling.cluster import Cluster, Job, Reserved, read_cluster
from console.scheduling.estimates import Estimates
from console.scheduling.gates import Gate, alive_by_id, gate_of
from console.scheduling.limits import Claim
from console.scheduling.placement import Places
from console.scheduling.policies import policy_for
from console.scheduling.policy import Policy
from console.scheduling.profile import BLOCK, EPSILON, Demand, full_profile


@dataclass(slots=True)
class World:
    """One cluster ready to be played; nothing in it is changed by a simulation."""

    name: str
    cluster: Cluster
    policy: Policy
    estimates: Estimates
    places: Places
    gates: dict[str, Gate]
    claims: dict[str, tuple[Claim, ...]]
    used: list[float]
    arenas: dict[str | None, Arena]
    notes: list[str]
    _holders: dict[int, list[tuple[float, tuple[int, int], str, float]]] | None = None
    spans: dict[tuple[int, Demand], list[float]] = field(default_factory=dict)

    def holders(self, counter: int) -> list[tuple[float, tuple[int, int], str, float]]:
        """Return end, number, id and amount of the running jobs that a counter holds, soonest end first."""
        if self._holders is None:
            self._holders = {}
            for job in self.cluster.running:
                for number, amount, _binds in self.claims[job.key] if math.isfinite(job.end) else ():
                    self._holders.setdefault(number, []).append((job.end, job.number, job.id, amount))
            for found in self._holders.values():
                found.sort()
        return self._holders.get(counter, [])

    @property
    def has_history(self) -> bool:
        """Whether any run time rests on history, so that ends come before limits and seeds differ."""
        jobs = (*self.cluster.running, *self.cluster.pending)
        return self.estimates.known and any(self.estimates.has(job) for job in jobs)

    def limits(self) -> list[float]:
        """Return the limit of each counter."""
        return [counter.limit for counter in self.policy.counters.all]


def make_world(snapshot: Snapshot, estimates: Estimates) -> World:
    """Read a snapshot into what a simulation starts from."""
    rules = snapshot.rules
    defaults: dict[str, float] = {}
    partition_nodes: dict[str, frozenset[str]] = {}
    if isinstance(rules, SlurmRules):
        for part in rules.partitions:
            partition_nodes[part.name] = frozenset(part.nodes)
            stated = part.default_time_s if part.default_time_s is not None else part.max_time_s
            defaults[part.name] = stated
    cluster = read_cluster(snapshot, defaults)
    if isinstance(rules, SlurmRules):
        _take_whole_nodes(cluster, frozenset(part.name for part in rules.partitions if part.exclusive))
    policy, notes = policy_for(snapshot)
    places = Places(cluster, partition_nodes)
    alive = alive_by_id(cluster)
    gates = {job.key: gate_of(job, cluster, policy, places, alive) for job in cluster.pending}
    throttles = _throttles(cluster)
    claims = {
        job.key: policy.claims(job) + _throttle(job, policy, throttles) for job in (*cluster.running, *cluster.pending)
    }
    world = World(snapshot.meta.cluster, cluster, policy, estimates, places, gates, claims, [], _arenas(cluster), notes)
    world.used = _used(snapshot, world)
    _forbid_what_never_fits(world)
    world.notes += policy.notes(cluster) + cluster.notes + _unknown_gates(world)
    return world


def _take_whole_nodes(cluster: Cluster, exclusive: frozenset[str]) -> None:
    for job in cluster.pending:
        if exclusive & set(job.partitions):
            job.demand = job.demand._replace(whole=True)


def _base(job: Job) -> str:
    return job.parent or job.id.partition("_")[0]


def _throttles(cluster: Cluster) -> dict[str, float]:
    """Return how many tasks of each array may run at once.

    Only the pending rest states its `%k`; where it does not, but the system says that it binds, as many run as may.
    """
    found: dict[str, float] = {}
    for job in cluster.pending:
        if job.throttle:
            found[_base(job)] = job.throttle
        elif job.reason.startswith("JobArrayTaskLimit"):
            found[_base(job)] = max(1.0, float(sum(_base(one) == _base(job) for one in cluster.running)))
    return found


def _throttle(job: Job, policy: Policy, throttles: dict[str, float]) -> tuple[Claim, ...]:
    """Return the claim on the array's own `%k`, shared by its running tasks and its pending rest."""
    base = _base(job)
    if base not in throttles:
        return ()
    claim = policy.counters.claim(("throttle", base), f"throttle:{base}", _("tasks at once"), throttles[base], 1.0)
    return (claim,) if claim else ()


def _arenas(cluster: Cluster) -> dict[str | None, Arena]:
    serving = [node for node in range(len(cluster.names)) if cluster.serving[node]]
    asked = {job.reservation for job in cluster.pending if job.reservation is not None}
    arenas: dict[str | None, Arena] = {None: _arena(cluster, serving, cluster.reserved)}
    for name in sorted(asked):
        own = [one for one in cluster.reserved if one.name == name]
        inside = {node for one in own for node in one.nodes}
        others = [one for one in cluster.reserved if one.name != name]
        arena = _arena(cluster, [node for node in serving if node in inside], others)
        for node, steps in arena.base.items():
            edge = 0.0
            for one in sorted((one for one in own if node in one.nodes), key=lambda one: one.start):
                steps.add(edge, one.start, BLOCK, -1.0)
                edge = max(edge, one.end)
            steps.add(edge, math.inf, BLOCK, -1.0)
        arenas[name] = arena
    return arenas


def _arena(cluster: Cluster, nodes: list[int], blocks: list[Reserved]) -> Arena:
    profiles = full_profile(cluster.gpus, cluster.cpus, cluster.memory, nodes)
    for node, steps in profiles.items():
        steps.add(-math.inf, math.inf, cluster.other[node], -1.0)
    for job in cluster.running:
        for node, demand in job.placed:
            if node in profiles:
                profiles[node].add(-math.inf, job.end, demand, -1.0)
    for one in blocks:
        for node in one.nodes:
            if node in profiles:
                profiles[node].add(one.start, one.end, one.demand or BLOCK, -1.0)
    for steps in profiles.values():
        steps.forget_before(0.0)
    return Arena(cluster, profiles)


def _used(snapshot: Snapshot, world: World) -> list[float]:
    """Return how full each counter is: by the jobs we see, or as the system says where that is more."""
    counters = world.policy.counters
    used = [0.0] * len(counters.all)
    for job in world.cluster.running:
        for number, amount, _binds in world.claims[job.key]:
            used[number] += amount
    hidden = []
    for row in snapshot.quotas.select("queue", "resource", "model", "used").to_dicts():
        tres = "gres/gpu" if row["model"] is None else f"gres/gpu:{row['model']}"
        for key in ((row["queue"], "tres", tres), (row["queue"], row["resource"], row["model"])):
            which = counters.number(key)
            plain = row["resource"] in {None, "gpu"} or key[1] != "tres"
            if which is not None and plain and row["used"] is not None and row["used"] > used[which] + EPSILON:
                hidden.append(row["queue"])
                used[which] = row["used"]
    if hidden:
        world.notes.append(
            _("{queues} are fuller than the jobs we see explain; that part is taken to stay").format(
                queues=", ".join(sorted(set(hidden)))
            )
        )
    return used


def _forbid_what_never_fits(world: World) -> None:
    """Close the gate of jobs that ask more than a counter can ever hold."""
    counters = world.policy.counters.all
    for job in world.cluster.pending:
        gate = world.gates[job.key]
        if gate.never or gate.unknown:
            continue
        claims = (claim for claim in world.claims[job.key] if claim.binds)
        over = next((claim for claim in claims if claim.amount > counters[claim.counter].limit + EPSILON), None)
        if over is not None:
            counter = counters[over.counter]
            world.gates[job.key] = Gate(
                f"quota:{counter.queue}",
                _("asks {amount} of {label}, {queue} holds at most {limit}").format(
                    amount=f"{over.amount:g}", label=counter.label, queue=counter.queue, limit=f"{counter.limit:g}"
                ),
                never=True,
            )


def _unknown_gates(world: World) -> list[str]:
    unknown = [job.id for job in world.cluster.pending if world.gates[job.key].unknown]
    if not unknown:
        return []
    text = plural(
        "{count} job is left out because what it asks can't be read ({ids})",
        "{count} jobs are left out because what they ask can't be read ({ids})",
        len(unknown),
    )
    return [text.format(count=len(unknown), ids=", ".join(unknown[:5]))]
