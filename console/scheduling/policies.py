"""Which policy plays a cluster: the one of its rules, or first come first served where none are known."""

from connectors.errors import NotFound
from connectors.model import Snapshot
from connectors.rules import FifoRules, Rules, SlurmRules
from connectors.text import _
from console.scheduling.policy import Policy
from console.scheduling.policy_fifo import FifoPolicy
from console.scheduling.policy_slurm import SlurmPolicy

NAMES = ("slurm", "fifo", "fifo-strict")


def policy_for(snapshot: Snapshot) -> tuple[Policy, list[str]]:
    """Return the policy of the snapshot's rules, and what has to be said about the choice."""
    rules = snapshot.rules
    if isinstance(rules, SlurmRules):
        return SlurmPolicy(snapshot, rules), []
    if isinstance(rules, FifoRules):
        return FifoPolicy(snapshot, rules), []
    return FifoPolicy(snapshot, FifoRules()), [
        _("the scheduling rules of {cluster} are not known: first come, first served with backfill instead").format(
            cluster=snapshot.meta.cluster
        )
    ]


def rules_named(name: str, snapshot: Snapshot) -> Rules:
    """Return the rules that a policy's name stands for on this cluster; NotFound for one that can't be played here."""
    if name == "fifo":
        return FifoRules()
    if name == "fifo-strict":
        return FifoRules(backfill=False)
    if name == "slurm" and isinstance(snapshot.rules, SlurmRules):
        return snapshot.rules
    raise NotFound("policy", name, cluster=snapshot.meta.cluster, near=NAMES)
