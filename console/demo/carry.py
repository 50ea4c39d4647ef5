"""Resolved changes carried out on a simulated cluster."""

import math
from collections.abc import Callable
from typing import Any

import msgspec

from connectors.change import (
    Cancel,
    Change,
    Drain,
    Hold,
    Release,
    Requeue,
    Reserve,
    Resume,
    SetPriority,
    SetQuota,
    StartQueue,
    StopQueue,
    Unreserve,
)
from console.demo.scenarios import GPU
from console.demo.state import Reserved
from console.demo.world import World

_REQUEUE_DELAY_S = 120  # Slurm's own pause before a requeued job is looked at again


def carry_out(world: World, change: Change, origin: int, user: str) -> None:
    """Change the world at its present second; the caller has made sure that the change makes sense there."""
    _CARRIERS[type(change)](world, change, origin, user)
    world.reschedule()


def _quota(world: World, change: SetQuota, _origin: int, _user: str) -> None:
    queues = world.state.queues
    kind, _mark, name = change.queue.partition(":")
    if change.limit is not None and kind == "qos":
        others = {tres: cap for tres, cap in queues.qos[name].grp_tres.items() if tres != GPU}
        limits = others if change.limit == math.inf else others | {GPU: change.limit}
        queues.qos[name] = msgspec.structs.replace(queues.qos[name], grp_tres=limits)
    elif change.limit is not None:
        queues.account_gpus[name] = change.limit
    if change.weight is not None:
        queues.shares[name] = change.weight
    if change.max_run_s is not None and kind == "partition":
        world.set_partition(name, max_time_s=change.max_run_s)
    elif change.max_run_s is not None:
        queues.qos[name] = msgspec.structs.replace(queues.qos[name], max_wall_s=change.max_run_s)


def _reserve(world: World, change: Reserve, origin: int, _user: str) -> None:
    start, end = (int(moment.timestamp()) - origin for moment in (change.start, change.end))
    reserved = Reserved(
        name=change.name, start=start, end=end, nodes=change.nodes, users=change.users, accounts=change.accounts,
        flags=change.flags,
    )  # fmt: skip
    world.state.reservations[change.name] = reserved

    def over() -> None:
        if world.state.reservations.get(change.name) is reserved:
            del world.state.reservations[change.name]

    world.wake(end, over)


def _unreserve(world: World, change: Unreserve, _origin: int, _user: str) -> None:
    del world.state.reservations[change.name]


def _hold(world: World, change: Hold, _origin: int, user: str) -> None:
    world.state.pending[change.job].held_by = user


def _release(world: World, change: Release, _origin: int, _user: str) -> None:
    world.state.pending[change.job].held_by = None


def _cancel(world: World, change: Cancel, _origin: int, user: str) -> None:
    job = world.state.job(change.job)
    if job is not None:
        world.end(job, "cancelled", by=user)


def _requeue(world: World, change: Requeue, _origin: int, _user: str) -> None:
    world.requeue(world.state.running[change.job], delay_s=_REQUEUE_DELAY_S)


def _priority(world: World, change: SetPriority, _origin: int, _user: str) -> None:
    world.state.pending[change.job].priority_set = change.value


def _drain(world: World, change: Drain, _origin: int, user: str) -> None:
    for name in change.nodes:
        node = world.state.nodes[name]
        node.reason, node.reason_by, node.reason_at = change.reason, user, world.state.now
        world.note("warning", "slurmctld", name, "Drained", f"{change.reason} (by {user})")


def _resume(world: World, change: Resume, _origin: int, user: str) -> None:
    for name in change.nodes:
        node = world.state.nodes[name]
        node.reason = node.reason_by = node.reason_at = None
        world.note("info", "slurmctld", name, "Resumed", f"put back into service by {user}")


def _stop(world: World, change: StopQueue, _origin: int, _user: str) -> None:
    world.set_partition(change.queue.partition(":")[2], state="DOWN")


def _start(world: World, change: StartQueue, _origin: int, _user: str) -> None:
    world.set_partition(change.queue.partition(":")[2], state="UP")


_CARRIERS: dict[type, Callable[[World, Any, int, str], None]] = {
    SetQuota: _quota, Reserve: _reserve, Unreserve: _unreserve, Hold: _hold, Release: _release, Cancel: _cancel,
    Requeue: _requeue, SetPriority: _priority, Drain: _drain, Resume: _resume, StopQueue: _stop, StartQueue: _start,
}  # fmt: skip
