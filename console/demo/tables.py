"""The simulated cluster's answers: rows of the tables of model.md as JSON, as they stand in a capture.

Times are seconds since 1970, `unlimited` stands for infinity (which JSON lacks), money is text.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from connectors.rules import SlurmAssociation, SlurmRules
from console.demo.scenarios import GPU
from console.demo.schedule import AGE_WEIGHT, FAIR_WEIGHT, HALF_LIFE_S, MAX_AGE_S, QOS_WEIGHT
from console.demo.state import GIB, Job, Node, State
from console.demo.telemetry import chance, read
from console.demo.world import World

Row = dict[str, Any]
UNLIMITED = "unlimited"
VERSION = "24.11.5-demo"
USER = "operator"
ENDED_SHOWN_S = 300  # as Slurm's MinJobAge: how long an ended job stays among the jobs
_RAW = {"succeeded": "COMPLETED"}
_ROOT = "root"


def answers(world: World, origin: int) -> dict[str, bytes]:
    """Return every answer by name; `origin` is the epoch second of the world's second 0."""
    made: dict[str, Callable[[], Any]] = {
        "cluster": lambda: {"version": VERSION, "user": USER, "now": origin + world.state.now, "rules": rules(world)},
        "jobs": lambda: _jobs(world.state, origin),
        "nodes": lambda: [_node(node, world.state, origin) for node in world.state.nodes.values()],
        "gpus": lambda: _gpus(world, origin),
        "queues": lambda: _queues(world.state),
        "quotas": lambda: _quotas(world.state),
        "reservations": lambda: _reservations(world.state, origin),
        "events": lambda: _events(world.state, origin),
        "prices": lambda: _prices(world, origin),
        "history": lambda: [_job(job, world.state, origin) for job in world.state.ended],
    }
    return {name: msgspec.json.encode(finite(make())) for name, make in made.items()}


def finite(value: Any) -> Any:
    """Return a value in which infinity is written out."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return UNLIMITED if value == math.inf else value


def rules(world: World) -> Any:
    """Return the scheduling rules as plain data (`connectors.rules.SlurmRules`)."""
    state = world.state
    queues = state.queues
    total = sum(state.usage.values()) or 1.0
    shares = sum(queues.shares.values()) or 1.0
    associations = [SlurmAssociation(account=_ROOT, shares=1.0)]
    for team in world.scenario.teams:
        cap = queues.account_gpus[team.name]
        factor = 2.0 ** -((state.usage[team.name] / total) / (queues.shares[team.name] / shares))
        associations.append(
            SlurmAssociation(
                account=team.name, parent=_ROOT, shares=queues.shares[team.name], usage=state.usage[team.name],
                fairshare_factor=factor, grp_tres={} if cap == math.inf else {GPU: cap}, qos=tuple(queues.qos),
            )
        )  # fmt: skip
        associations += [
            SlurmAssociation(account=team.name, user=user, parent=team.name, shares=1.0, fairshare_factor=factor)
            for user in team.users
        ]
    return msgspec.to_builtins(
        SlurmRules(
            weight_age=AGE_WEIGHT, weight_fairshare=FAIR_WEIGHT, weight_qos=QOS_WEIGHT, max_age_s=MAX_AGE_S,
            decay_half_life_s=HALF_LIFE_S, enforce=("associations", "limits", "qos"),
            gpu_types=tuple(sorted({group.model for group in world.scenario.groups})),
            partitions=tuple(queues.partitions.values()), qos=tuple(queues.qos.values()),
            associations=tuple(associations),
        )
    )  # fmt: skip


def _jobs(state: State, origin: int) -> list[Row]:
    shown = [job for job in state.ended if job.end is not None and state.now - job.end < ENDED_SHOWN_S]
    return [_job(job, state, origin) for job in (*state.running.values(), *state.pending.values(), *shown)]


def _job(job: Job, state: State, origin: int) -> Row:
    ask = job.ask
    ran = job.start is not None

    def moment(at: int | None) -> int | None:
        return None if at is None else origin + at

    return {
        "id": job.id, "key": job.id, "name": ask.name, "user": ask.user, "team": ask.team, "project": ask.project,
        "kind": ask.kind, "kind_basis": "written in the scenario", "state": job.state,
        "state_raw": _RAW.get(job.state, job.state.upper()), "reason_raw": job.reason,
        "queue": f"partition:{ask.partition}",
        "bound_by": [f"account:{ask.team}", f"qos:{ask.qos}", f"partition:{ask.partition}"],
        "priority": job.priority, "submit_time": moment(job.submit), "eligible_time": moment(job.eligible),
        "start_time": moment(job.start), "end_time": moment(job.end), "expected_start_time": moment(job.planned),
        "time_limit_s": ask.limit_s, "gpus": job.gpus, "gpus_per_node": ask.gpus, "gpu_model": _model(job, state),
        "nodes": ask.nodes, "min_nodes": ask.nodes, "cpus": ask.cpus * ask.nodes,
        "memory_bytes": ask.memory * ask.nodes, "tasks": 1, "gang": True, "nodelist": sorted(job.on) if ran else [],
        "requested_nodes": list(ask.pinned), "preemptible": False, "restarts": job.restarts,
        "exit_code": job.exit_code, "exit_signal": job.exit_signal, "dependency": _dependency(job, state), "chain": [],
        "labels": [{"key": "project", "value": ask.project}] if ask.project else [],
        "demo_held_by": job.held_by, "demo_priority_set": job.priority_set,
    }  # fmt: skip


def _model(job: Job, state: State) -> str | None:
    """Return the model of the GPUs that it has, or asked for by name; a job that takes any has none."""
    if not job.ask.gpus:
        return None
    return job.ask.model or next((state.nodes[name].group.model for name in job.on), None)


def _dependency(job: Job, state: State) -> str | None:
    if job.ask.after is None:
        return None
    failed = any(one.id == job.ask.after and one.state != "succeeded" for one in state.ended)
    return f"afterok:{job.ask.after}({'failed' if failed else 'unfulfilled'})"


def _node(node: Node, state: State, origin: int) -> Row:
    group = node.group
    busy, unusable = len(node.jobs) > 0, len(node.lost)
    allocated = sum(len(job.on[node.name]) for job in node.jobs.values())
    reserved = any(node.name in one.nodes and one.start <= state.now < one.end for one in state.reservations.values())
    planned = any(node.name in job.planned_on for job in state.pending.values())
    full = len(node.free) == 0 or node.cpus_free == 0
    base = ("allocated" if full else "mixed") if busy else "idle"
    flags = [
        word
        for word, is_so in (("DRAIN", node.drained), ("RESERVED", reserved), ("PLANNED", planned and not full))
        if is_so
    ]
    if node.drained:
        shown = "draining" if busy else "drained"
    elif base == "idle" and (reserved or planned):
        shown = "reserved" if reserved else "planned"
    else:
        shown = base
    return {
        "name": node.name, "state": shown, "state_raw": "+".join([base.upper(), *flags]), "reason": node.reason,
        "reason_by": node.reason_by, "reason_time": None if node.reason_at is None else origin + node.reason_at,
        "gpu_model": group.model, "gpus": group.gpus, "gpus_allocated": allocated, "gpus_unusable": unusable,
        "cpus": group.cpus, "cpus_allocated": group.cpus - node.cpus_free, "memory_bytes": group.memory_gib * GIB,
        "memory_allocated_bytes": group.memory_gib * GIB - node.memory_free,
        "partitions": [one.name for one in state.queues.partitions.values() if node.name in one.nodes],
        "taints": [], "schedulable": not node.drained, "boot_time": origin - 40 * 86_400,
        "labels": [{"key": "gpu", "value": group.model}],
    }  # fmt: skip


def _gpus(world: World, origin: int) -> list[Row]:
    state = world.state
    return [_gpu(world, node, index, origin) for node in state.nodes.values() for index in range(node.group.gpus)]


def _gpu(world: World, node: Node, index: int, origin: int) -> Row:
    state, group = world.state, node.group
    job = next((one for one in node.jobs.values() if index in one.on[node.name]), None)
    seen = read(node, index, job, world.seed, state.now)
    xid, xid_at = state.xids.get((node.name, index), (None, None))
    lost = index in node.lost
    word = "faulty" if lost else "free" if job is None else "idle_allocated" if job.ask.load == "idle" else "allocated"
    processes = []
    if job is not None and job.ask.load != "idle" and not lost:
        pid = 10_000 + int(chance(job.id, node.name, index) * 400_000)
        processes = [{"pid": pid, "user": job.ask.user, "memory_bytes": seen.memory, "name": "python"}]
    return {
        "node": node.name, "index": index, "uuid": _uuid(world, node.name, index), "model": group.model,
        "memory_total_bytes": group.gpu_memory_gib * GIB, "memory_used_bytes": seen.memory,
        "utilization_ratio": seen.utilization, "sm_active_ratio": seen.sm, "tensor_active_ratio": seen.tensor,
        "power_w": seen.power, "power_limit_w": None if lost else group.power_limit_w,
        "temperature_c": seen.temperature, "throttle": None if lost else [],
        "ecc_uncorrected": None if lost else int(xid in {48, 94, 95}),
        "row_remap": None if lost else "pending" if xid in {63, 94} else "none", "xid": xid,
        "xid_time": None if xid_at is None else origin + xid_at, "nvlink_ok": None if lost else xid != 74,
        "processes": None if lost else processes, "job_ids": [job.id] if job else [], "state": word,
        "source": "demo", "as_of": origin + state.now,
    }  # fmt: skip


def _uuid(world: World, node: str, index: int) -> str:
    parts = [chance(world.scenario.name, world.seed, node, index, part) for part in range(4)]
    digits = "".join(f"{int(part * 2**32):08x}" for part in parts)
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _queues(state: State) -> list[Row]:
    running, pending = _count(state.running), _count(state.pending)
    rows: list[Row] = []

    def add(queue: str, kind: str, writable: tuple[str, ...], **more: Any) -> None:
        rows.append({
            "id": queue, "kind": kind, "state": "open", "running_jobs": running[queue], "pending_jobs": pending[queue],
            "preemption": "off", "max_run_s": math.inf, "max_gpus_per_job": math.inf, "max_gpus_per_user": math.inf,
            "writable": list(writable), "labels": [], **more,
        })  # fmt: skip

    for partition in state.queues.partitions.values():
        add(
            f"partition:{partition.name}", "partition", ("max_run_s",), priority=partition.priority_tier,
            state="open" if partition.state == "UP" else "stopped", max_run_s=partition.max_time_s,
        )  # fmt: skip
    for qos in state.queues.qos.values():
        add(
            f"qos:{qos.name}", "qos", ("gpus", "limit", "max_run_s"), priority=qos.priority, max_run_s=qos.max_wall_s,
            max_gpus_per_user=qos.max_tres_per_user.get(GPU, math.inf),
        )  # fmt: skip
    total, shares = sum(state.usage.values()) or 1.0, sum(state.queues.shares.values()) or 1.0
    for account, weight in state.queues.shares.items():
        fair = 2.0 ** -((state.usage[account] / total) / (weight / shares)) if weight else 0.0
        add(f"account:{account}", "account", ("gpus", "limit", "weight"), weight=weight, fairshare_ratio=fair)
    return rows


def _quotas(state: State) -> list[Row]:
    used, pending = _gpus_of(state.running), _gpus_of(state.pending)
    limits = {f"qos:{qos.name}": qos.grp_tres.get(GPU, math.inf) for qos in state.queues.qos.values()}
    limits |= {f"account:{account}": cap for account, cap in state.queues.account_gpus.items()}
    return [
        {
            "queue": queue, "resource": "gpu", "limit": cap, "used": used[queue], "pending": pending[queue],
            "main": "limit",
        }
        for queue, cap in limits.items()
    ]  # fmt: skip


def _bound(job: Job) -> tuple[str, ...]:
    return f"account:{job.ask.team}", f"qos:{job.ask.qos}", f"partition:{job.ask.partition}"


def _count(jobs: dict[str, Job]) -> Counter[str]:
    return Counter(queue for job in jobs.values() for queue in _bound(job))


def _gpus_of(jobs: dict[str, Job]) -> Counter[str]:
    total: Counter[str] = Counter()
    for job in jobs.values():
        for queue in _bound(job):
            total[queue] += job.gpus
    return total


def _reservations(state: State, origin: int) -> list[Row]:
    return [
        {
            "name": one.name, "start_time": origin + one.start, "end_time": origin + one.end,
            "nodelist": list(one.nodes), "gpus": sum(state.nodes[name].group.gpus for name in one.nodes),
            "gpu_model": _only({state.nodes[name].group.model for name in one.nodes}), "users": list(one.users),
            "accounts": list(one.accounts), "flags": list(one.flags),
            "state": "ACTIVE" if one.start <= state.now else "INACTIVE",
            "kind": "maintenance" if "MAINT" in one.flags else "user",
        }
        for one in state.reservations.values()
    ]  # fmt: skip


def _only(models: set[str]) -> str | None:
    return models.pop() if len(models) == 1 else None


def _events(state: State, origin: int) -> list[Row]:
    return [
        {
            "time": origin + one.at, "level": one.level, "source": one.source, "object": one.object,
            "reason": one.reason, "message": one.message, "count": 1,
        }
        for one in state.log
    ]  # fmt: skip


def _prices(world: World, origin: int) -> list[Row]:
    return [
        {
            "model": model, "commitment": "on-demand", "price_per_gpu_hour": price, "currency": "USD",
            "source": "demo (made up)", "as_of": origin,
        }
        for model, price in world.scenario.prices.items()
    ]  # fmt: skip
