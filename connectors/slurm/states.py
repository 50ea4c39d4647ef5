"""Slurm's words for the states of jobs and nodes, and what they mean in the tables.

Source: squeue(1) "JOB STATE CODES", sinfo(1) "NODE STATE CODES", and the flags of scontrol show node.
"""

from functools import lru_cache

from connectors.notation import split_states

JOB_STATES = {
    "PENDING": "pending", "REQUEUED": "pending", "REQUEUE_HOLD": "pending", "REQUEUE_FED": "pending",
    "SPECIAL_EXIT": "pending", "RESV_DEL_HOLD": "pending", "EXPEDITING": "pending",
    "RUNNING": "running", "CONFIGURING": "running", "RESIZING": "running", "SIGNALING": "running",
    "POWER_UP_NODE": "running", "UPDATE_DB": "running",
    "SUSPENDED": "suspended", "STOPPED": "suspended",
    "COMPLETING": "completing", "STAGE_OUT": "completing",
    "COMPLETED": "succeeded",
    "FAILED": "failed", "BOOT_FAIL": "failed", "LAUNCH_FAILED": "failed", "RECONFIG_FAIL": "failed",
    "CANCELLED": "cancelled", "REVOKED": "cancelled",
    "TIMEOUT": "timeout", "DEADLINE": "timeout",
    "OUT_OF_MEMORY": "out_of_memory", "NODE_FAIL": "node_failed", "PREEMPTED": "preempted",
}  # fmt: skip
_FIRST = ("COMPLETING", "STAGE_OUT", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "CONFIGURING", "STOPPED")
_NODE_BASE = (("DOWN", "down"), ("ERROR", "down"), ("ALLOCATED", "allocated"), ("MIXED", "mixed"), ("IDLE", "idle"))
_LEAVING = frozenset({"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING"})
_CLOSED = _LEAVING | {
    "NOT_RESPONDING", "POWERING_DOWN", "POWER_DOWN_PENDING", "REBOOT_ISSUED", "INVALID_REG", "INVALID", "BLOCKED",
    "FUTURE", "UNKNOWN",
}  # fmt: skip


@lru_cache(maxsize=512)
def job_state(raw: str) -> str:
    """Return the state of the jobs table; `CANCELLED by 1007` is cancelled, a word that nobody knows is `unknown`."""
    words = split_states(raw).words
    for word in _FIRST:  # a flag beside a base state says more: RUNNING+COMPLETING
        if word in words:
            return JOB_STATES[word]
    found = {JOB_STATES[word] for word in words if word in JOB_STATES}
    return found.pop() if len(found) == 1 else "unknown"


@lru_cache(maxsize=4096)
def node_state(raw: str) -> tuple[str, bool]:
    """Return the state of the nodes table, and whether new work can be placed there as far as the state says.

    A node that does not answer but is not yet DOWN is `unknown`.
    """
    states = split_states(raw)
    flags = states.words | states.marks
    state = next((mine for word, mine in _NODE_BASE if word in flags), "unknown")
    if state in {"down", "unknown"}:
        if flags & {"DRAINED", "DRAINING"}:  # sinfo's compound words say no base
            return ("drained" if "DRAINED" in flags else "draining"), False
        return state, False
    if flags & _LEAVING:
        return ("drained" if state == "idle" and "COMPLETING" not in flags else "draining"), False
    if "NOT_RESPONDING" in flags:
        return "unknown", False
    schedulable = not flags & _CLOSED
    if state == "idle" and flags & {"RESERVED", "MAINTENANCE", "MAINT"}:
        return "reserved", schedulable
    if state == "idle" and "PLANNED" in flags:
        return "planned", schedulable
    return state, schedulable
