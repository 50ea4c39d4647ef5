"""One scheduling pass: which pending jobs start now, where, and why the others do not.

Slurm's order: held and gated jobs aside, limits of QOS and account first, then nodes in order of priority. The first
job of a partition that finds no room is given the nodes on which it fits first by time limits, and later ones start
only where they do not push it back (EASY backfill on nodes). Reasons are Slurm's words for what binds.

It is a second implementation on purpose. The core's `plan_now` starts from a Snapshot, which would have to be laid out
for every pass of the weeks that a demo has behind it; and a forecast that is tested against what the demo then does
would agree with itself if both were one.
"""

import math
from collections import Counter
from dataclasses import dataclass, field

from console.demo.scenarios import GPU
from console.demo.state import Ask, Job, Node, State

AGE_WEIGHT, FAIR_WEIGHT, QOS_WEIGHT, MAX_AGE_S = 1000.0, 10_000.0, 5_000.0, 7 * 86_400.0
HALF_LIFE_S = 7 * 86_400.0
_NODES_OUT = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


@dataclass(slots=True)
class Ledger:
    """GPUs and jobs in use, by what limits them."""

    qos: Counter[str] = field(default_factory=Counter)
    account: Counter[str] = field(default_factory=Counter)
    user: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, job: Job) -> None:
        """Count a running job."""
        self.qos[job.ask.qos] += job.gpus
        self.account[job.ask.team] += job.gpus
        self.user[job.ask.qos, job.ask.user] += job.gpus


@dataclass(slots=True)
class _Kept:
    """Nodes planned for a blocked job: from `at` on, `spare` is what it leaves on each of them (GPUs, CPUs, bytes)."""

    at: float
    spare: dict[str, list[float]]


def decide(state: State) -> list[tuple[Job, list[Node]]]:
    """Return the jobs that start now with their nodes, and write reasons, priorities and plans into the others.

    Only fields of pending jobs are changed; the caller starts the jobs. The result depends on the state alone.
    """
    ledger = Ledger()
    for job in state.running.values():
        ledger.add(job)
    set_priorities(state)
    starts: list[tuple[Job, list[Node]]] = []
    taken: dict[str, list[float]] = {}
    kept: dict[str, _Kept] = {}
    for job in in_order(state):
        job.planned, job.planned_on = None, ()
        reason = gate(job, state) or limit(job, state, ledger)
        if reason:
            job.reason = reason
            continue
        able = [node for node in candidates(job, state) if not node.drained]
        clear = [node for node in able if not _reserved(state, node.name, state.now, state.now + job.ask.limit_s)]
        chosen = _place(job, clear, state.now, taken, kept)
        if chosen:
            starts.append((job, chosen))
            ledger.add(job)
            for node in chosen:
                used = taken.setdefault(node.name, [0.0, 0.0, 0.0])
                for index, amount in enumerate(_share(job.ask)):
                    used[index] += amount
            continue
        job.reason = _why_no_room(job, able, state, behind=job.ask.partition in kept)
        if job.ask.partition not in kept:
            plan = _plan(job, able, state, starts)
            if plan:  # a job that no node can ever take holds nobody up
                kept[job.ask.partition] = plan
                job.planned, job.planned_on = int(plan.at), tuple(sorted(plan.spare))
    return starts


def set_priorities(state: State) -> None:
    """Give pending jobs their multifactor priority (Slurm's age, fair share and QOS); held ones have none."""
    total_usage = sum(state.usage.values()) or 1.0
    total_shares = sum(state.queues.shares.values()) or 1.0
    fair = {
        team: 2.0 ** -((state.usage.get(team, 0.0) / total_usage) / (shares / total_shares)) if shares else 0.0
        for team, shares in state.queues.shares.items()
    }
    top = max((qos.priority for qos in state.queues.qos.values()), default=0) or 1
    for job in state.pending.values():
        if job.held_by:
            job.priority = 0.0
        elif job.priority_set is not None:
            job.priority = job.priority_set
        else:
            age = min(1.0, max(0, state.now - job.eligible) / MAX_AGE_S)
            qos = state.queues.qos[job.ask.qos].priority / top
            job.priority = float(int(1 + AGE_WEIGHT * age + FAIR_WEIGHT * fair[job.ask.team] + QOS_WEIGHT * qos))


def in_order(state: State) -> list[Job]:
    """Return the pending jobs in the order in which Slurm looks at them."""
    tiers = {name: partition.priority_tier for name, partition in state.queues.partitions.items()}
    return sorted(
        state.pending.values(), key=lambda job: (-tiers[job.ask.partition], -job.priority, job.submit, int(job.id))
    )


def gate(job: Job, state: State) -> str | None:
    """Return what keeps a job from being looked at, or what makes that pointless."""
    partition = state.queues.partitions[job.ask.partition]
    if job.held_by:
        return "JobHeldUser" if job.held_by == job.ask.user else "JobHeldAdmin"
    if job.eligible > state.now:
        return "BeginTime"
    if job.ask.after is not None:
        parent = _parent(job.ask.after, state)
        if parent is None or parent.state in {"pending", "running"}:
            return "Dependency"
        if parent.state != "succeeded":
            return "DependencyNeverSatisfied"
    if partition.state != "UP":
        return "PartitionDown"
    if job.ask.limit_s > partition.max_time_s:
        return "PartitionTimeLimit"
    if job.ask.nodes > min(partition.max_nodes, len(partition.nodes)):
        return "PartitionNodeLimit"
    return None


def limit(job: Job, state: State, ledger: Ledger) -> str | None:
    """Return the limit that a job does not fit under now."""
    qos = state.queues.qos[job.ask.qos]
    if job.ask.limit_s > qos.max_wall_s:
        return "QOSMaxWallDurationPerJobLimit"
    if job.gpus:
        if ledger.qos[qos.name] + job.gpus > qos.grp_tres.get(GPU, math.inf):
            return "QOSGrpGRES"
        if ledger.user[qos.name, job.ask.user] + job.gpus > qos.max_tres_per_user.get(GPU, math.inf):
            return "QOSMaxGRESPerUser"
        # where a QOS caps GPUs its jobs pass the account's cap, though they count there (Slurm's resource_limits)
        cap = math.inf if GPU in qos.grp_tres else state.queues.account_gpus[job.ask.team]
        if ledger.account[job.ask.team] + job.gpus > cap:
            return "AssocGrpGRES"
    return None


def candidates(job: Job, state: State) -> list[Node]:
    """Return the nodes that a job may run on, whatever is free there now."""
    names = job.ask.pinned or state.queues.partitions[job.ask.partition].nodes
    nodes = (state.nodes[name] for name in names)
    return [node for node in nodes if job.ask.model in {None, node.group.model} and node.group.gpus >= job.ask.gpus]


def _parent(key: str, state: State) -> Job | None:
    return state.job(key) or next((job for job in reversed(state.ended) if job.id == key), None)


def _share(ask: Ask) -> tuple[float, float, float]:
    return float(ask.gpus), float(ask.cpus), ask.memory


def _reserved(state: State, node: str, start: float, end: float) -> float | None:
    """Return the end of the reservation that such a run would meet on a node, or None."""
    ends = [one.end for one in state.reservations.values() if node in one.nodes and one.start < end and start < one.end]
    return max(ends, default=None)


def _place(
    job: Job, nodes: list[Node], now: int, taken: dict[str, list[float]], kept: dict[str, _Kept]
) -> list[Node] | None:
    """Return the fullest nodes that fit (best fit) and delay no planned job; None if there are too few."""
    share, ends = _share(job.ask), now + job.ask.limit_s
    fitting: list[tuple[float, str, Node]] = []
    for node in nodes:
        if not node.fits(job.ask):
            continue
        used = taken.get(node.name, (0.0, 0.0, 0.0))
        left = (len(node.free) - used[0], node.cpus_free - used[1], node.memory_free - used[2])
        if any(have < want for have, want in zip(left, share, strict=True)):
            continue
        plans = [plan for plan in kept.values() if node.name in plan.spare and ends > plan.at]
        if any(have < want for plan in plans for have, want in zip(plan.spare[node.name], share, strict=True)):
            continue
        fitting.append((left[0], node.name, node))
    if len(fitting) < job.ask.nodes:
        return None
    chosen = [node for _left, _name, node in sorted(fitting, key=lambda one: one[:2])[: job.ask.nodes]]
    for plan in kept.values():
        if ends > plan.at:
            for node in chosen:
                if node.name in plan.spare:
                    plan.spare[node.name] = [a - b for a, b in zip(plan.spare[node.name], share, strict=True)]
    return chosen


def _plan(job: Job, nodes: list[Node], state: State, starts: list[tuple[Job, list[Node]]]) -> _Kept | None:
    """Return the nodes on which a job fits first, by the limits of what runs there; None if it never does.

    On each node what is free only grows, so the earliest start is the time at which the n-th node has room.
    """
    coming: dict[str, list[Job]] = {}
    for started, places in starts:
        for node in places:
            coming.setdefault(node.name, []).append(started)
    rooms = sorted((_room_at(job, node, state, coming.get(node.name, [])), node.name, node) for node in nodes)
    chosen = rooms[: job.ask.nodes]
    if len(chosen) < job.ask.nodes or chosen[-1][0] == math.inf:
        return None
    at = chosen[-1][0]
    spare: dict[str, list[float]] = {}
    for _at, name, node in chosen:
        free = _free_at(node, at, state.now, coming.get(name, []))
        spare[name] = [have - want for have, want in zip(free, _share(job.ask), strict=True)]
    return _Kept(at, spare)


def _ends(node: Node, now: int, coming: list[Job]) -> list[tuple[float, Job]]:
    ends = [(float(max(other.ends_by, now + 1)), other) for other in node.jobs.values()]
    ends += [(float(now + other.ask.limit_s), other) for other in coming]
    return sorted(ends, key=lambda one: one[0])


def _free_at(node: Node, at: float, now: int, coming: list[Job]) -> list[float]:
    free = [float(len(node.free)), float(node.cpus_free), node.memory_free]
    for other in coming:
        free = [a - b for a, b in zip(free, _share(other.ask), strict=True)]
    for end, other in _ends(node, now, coming):
        if end <= at:
            gives = _share(other.ask)
            lost = sum(index in node.lost for index in other.on.get(node.name, ()))
            free = [free[0] + gives[0] - lost, free[1] + gives[1], free[2] + gives[2]]
    return free


def _room_at(job: Job, node: Node, state: State, coming: list[Job]) -> float:
    """Return the first time at which a node has room for one share, +inf if it never does."""
    now, share = state.now, _share(job.ask)
    for at in (float(now), *(end for end, _other in _ends(node, now, coming))):
        free = _free_at(node, at, now, coming)
        if all(have >= want for have, want in zip(free, share, strict=True)):
            while (until := _reserved(state, node.name, at, at + job.ask.limit_s)) is not None:
                at = float(until)  # noqa: PLW2901 - what is free only grows, so the room is still there then
            return at
    return math.inf


def _why_no_room(job: Job, able: list[Node], state: State, *, behind: bool) -> str:
    if job.ask.pinned and (out := [name for name in job.ask.pinned if state.nodes[name].drained]):
        return f"ReqNodeNotAvail, UnavailableNodes:{','.join(out)}"
    usable = [node for node in able if node.group.gpus - len(node.lost) >= job.ask.gpus]
    if len(usable) < job.ask.nodes:
        return _NODES_OUT
    return "Priority" if behind else "Resources"
