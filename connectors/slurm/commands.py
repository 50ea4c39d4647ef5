"""What is asked of Slurm, and how often.

A refresh asks for jobs, nodes, partitions and reservations; what changes slowly (configuration, limits, shares,
accounting, licences, topology) is asked with it, in the same script, at most once in SLOW_S seconds.

`squeue -O` is used because only it has the TRES, the eligible time, the exit code and the array fields. Fields end with
US (0x1f); those that hold free text end with a fence instead, which stands between RS (0x1e) and holds the refresh's
nonce, so a name may hold any byte. `scontrol show node` is used rather than sinfo, which repeats a node for each of
its partitions and leaves out nodes that are in none. Excluded nodes are known to `squeue -o` only.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

SLOW_S = 60.0
US = "\x1f"

PLAIN_FIELDS = (
    "jobarrayid", "jobid", "arrayjobid", "hetjobid", "username", "account", "partition", "qos", "state",
    "prioritylong", "numnodes", "numcpus", "numtasks", "tres-alloc", "tres-per-node", "tres-per-job", "tres-per-task",
    "tres-per-socket", "timelimit", "submittime", "eligibletime", "starttime", "endtime", "preempttime", "nodelist",
    "schednodes", "reqnodes", "restartcnt", "exit_code", "requeue", "batchflag", "oversubscribe",
)  # fmt: skip
FREE_FIELDS = ("dependency", "reservation", "licenses", "feature", "reason", "comment", "name")

HISTORY_FIELDS = (
    "JobID", "JobIDRaw", "User", "Account", "Partition", "QOS", "State", "ExitCode", "Priority", "Submit", "Eligible",
    "Start", "End", "TimelimitRaw", "NNodes", "NCPUS", "ReqTRES", "AllocTRES", "NodeList", "Reservation", "Constraints",
    "Reason", "JobName",
)  # fmt: skip

ASSOCIATION_FIELDS = (
    "Cluster", "Account", "User", "Partition", "ParentName", "Fairshare", "GrpTRES", "GrpJobs", "GrpSubmit", "MaxTRES",
    "MaxTRESPerNode", "MaxJobs", "MaxSubmit", "MaxWall", "QOS", "DefaultQOS",
)  # fmt: skip
USER_FIELDS = ("User", "AdminLevel", "Account", "Coord")

FAST: dict[str, tuple[str, ...]] = {
    "date": ("date", "+%s.%N"),
    "node": ("scontrol", "-a", "-d", "show", "node"),
    "partition": ("scontrol", "-a", "-o", "show", "partition"),
    "reservation": ("scontrol", "-o", "show", "reservation"),
}
SLOW: dict[str, tuple[str, ...]] = {
    "user": ("id", "-un"),
    "config": ("scontrol", "show", "config"),
    "assoc_mgr": ("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos"),
    "qos": ("sacctmgr", "-P", "-r", "show", "qos"),
    "assoc": (
        "sacctmgr", "-P", "-r", "show", "assoc",
        f"format={','.join(ASSOCIATION_FIELDS)}",
    ),
    "admin": (
        "sh", "-c",
        f'exec sacctmgr -P -n -r show user where "name=$(id -un)" withassoc withcoord format={",".join(USER_FIELDS)}',
    ),
    "sshare": ("sshare", "-a", "-P", "-l"),
    "sdiag": ("sdiag",),
    "sprio": ("sprio", "-h", "-o", "%i|%r|%Y|%A|%F|%J|%P|%Q|%T"),
    "excluded": ("squeue", "-h", "-a", "--local", "-t", "PD", "-o", "%A %x"),
    "licenses": ("scontrol", "-o", "show", "licenses"),
    "topology": ("scontrol", "-o", "show", "topology"),
}  # fmt: skip
NOT_SLURM = frozenset({"date", "user"})

_SPEC = re.compile(r"([A-Za-z_-]+):(?:\.?[0-9]*)([^,]*)(?:,|$)")


def squeue(nonce: str) -> tuple[str, ...]:
    """Return the command that lists all jobs which slurmctld knows, ended ones too, arrays folded."""
    fence = f"\x1e{nonce}\x1e"
    plain = [f"{field}:{US}" for field in PLAIN_FIELDS[:-1]]
    fields = [*plain, *(f"{field}:{fence}" for field in (PLAIN_FIELDS[-1], *FREE_FIELDS))]
    return ("squeue", "-h", "-a", "--local", "--noconvert", "-t", "all", "-S", "i", "-O", ",".join(fields))


def sacct(nonce: str, since: datetime) -> tuple[str, ...]:
    """Return the command that lists the allocations of jobs alive since then; the delimiter holds the nonce.

    sacct reads times in the zone of its environment only, so that is set to UTC.
    """
    start = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return (
        "env", "TZ=UTC0", "sacct", "-a", "-D", "-X", "-p", "-n", "--noconvert", "-S", start,
        f"--delimiter={US}{nonce}{US}", "-o", ",".join(HISTORY_FIELDS),
    )  # fmt: skip


def fields_of(asked: str) -> list[tuple[str, str]]:
    """Return the fields, in lower case, with their endings, that a squeue command asked for with -O."""
    spec = asked.rpartition("-O ")[2].strip("'\"\n")
    return [(match[1].lower(), match[2]) for match in _SPEC.finditer(spec)]


def without(fields: Sequence[tuple[str, str]], refused: Sequence[str]) -> list[tuple[str, str]]:
    """Return the fields that squeue printed: it leaves out those that its version does not know, and goes on."""
    gone = {name.lower() for name in refused}
    return [field for field in fields if field[0] not in gone]
