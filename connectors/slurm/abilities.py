"""What can be read and written on Slurm, as data; it loads nothing heavy."""

from collections.abc import Collection

from connectors.connector import Capabilities
from connectors.slurm.roles import verbs

READS = ("jobs", "nodes", "gpus", "queues", "quotas", "reservations", "events")
CANNOT = (
    "utilisation, memory, temperature and health of GPUs: Slurm does not measure them",
    "borrowing and lending between queues: Slurm has limits and preemption instead",
)


def capabilities(level: str | None, coordinator_of: Collection[str] = (), *, live: bool = True) -> Capabilities:
    """Return what can be done as that role; a captured folder can't be written to."""
    return Capabilities(
        reads=READS, writes=verbs(level, coordinator_of) if live else (), history=True, logs=live, cannot=CANNOT
    )
