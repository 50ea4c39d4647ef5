"""Slurm's reasons as data: word to class, verdict, who acts, and what is limited.

Source: Slurm's job_reason_codes page and the reason strings of slurm_protocol_defs.c and job_state_reason.c, 22.05 to
26.05. `squeue %r` prints a long text in the word's place, with blanks; scontrol prints underscores. An exact word wins
over a rule; a word that nobody knows stays UNKNOWN with the raw text.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from console.triage.diagnosis import Cause, JobVerdict


def _(message: str) -> str:
    """Mark a message for the catalogue: a table is made once, so it is translated where it is shown."""
    return message


class Reason(NamedTuple):
    """What a reason means.

    `topic` picks the explainer; `over` and `per` say whose limit of which resource; `tail` is what follows the word;
    `says` is the sentence where no explainer knows better.
    """

    topic: str
    cause: Cause
    verdict: JobVerdict
    who: str
    says: str = ""
    over: str = ""
    per: str = ""
    resource: str = ""
    tail: str = ""


_C = Cause
OWNER, ADMIN, NOBODY, EITHER = _("owner"), _("admin"), _("nobody"), _("owner or admin")

_PLAIN: dict[str, Reason] = {
    "None": Reason("none", _C.UNKNOWN, "unknown", NOBODY),
    "Resources": Reason("resources", _C.ALL_BUSY, "wait", NOBODY),
    "Priority": Reason("priority", _C.BEHIND_IN_LINE, "wait", NOBODY),
    "SchedDefer": Reason(
        "plain", _C.BEHIND_IN_LINE, "wait", NOBODY, _("the scheduler puts off looking at it (SchedDefer)")
    ),
    "ReqNodeNotAvail": Reason("nodes", _C.NODE_OUT, "act", ADMIN),
    "NodeDown": Reason("nodes", _C.NODE_OUT, "act", ADMIN),
    "FrontEndDown": Reason("plain", _C.CONTROL_PLANE, "act", ADMIN, _("no front-end node is up to start it")),
    "MaxPoweredUpNodes": Reason(
        "plain", _C.ALL_BUSY, "wait", NOBODY, _("as many nodes are powered up as the site allows")
    ),
    "MpiPortsBusy": Reason("plain", _C.ALL_BUSY, "wait", NOBODY, _("all reserved MPI ports are in use")),
    "Dependency": Reason("dependency", _C.GATED, "wait", NOBODY),
    "DependencyNeverSatisfied": Reason("dependency", _C.GATED, "never", OWNER, tail="never"),
    "BeginTime": Reason("begin", _C.GATED, "wait", NOBODY),
    "JobArrayTaskLimit": Reason("array", _C.GATED, "act", OWNER),
    "Licenses": Reason("licenses", _C.GATED, "wait", NOBODY),
    "BurstBufferResources": Reason(
        "plain", _C.GATED, "wait", NOBODY, _("the burst buffer has too little room for it now")
    ),
    "BurstBufferStageIn": Reason(
        "plain", _C.STARTED_NOT_RUNNING, "wait", NOBODY, _("its data are being copied into the burst buffer")
    ),
    "BurstBufferOperation": Reason(
        "plain", _C.STARTED_NOT_RUNNING, "act", EITHER, _("an operation of the burst buffer failed")
    ),
    "Prolog": Reason(
        "plain", _C.STARTED_NOT_RUNNING, "wait", ADMIN, _("its nodes are allocated and the prolog still runs on them")
    ),
    "Cleaning": Reason(
        "plain", _C.HOLDING_AFTER_END, "wait", ADMIN, _("its earlier run is still being cleaned up on its nodes")
    ),
    "FedJobLock": Reason(
        "plain", _C.CONTROL_PLANE, "wait", ADMIN, _("it waits for the clusters of the federation to agree")
    ),
    "JobHeldUser": Reason("held", _C.HELD, "act", OWNER, tail="user"),
    "JobHeldAdmin": Reason("held", _C.HELD, "act", ADMIN, tail="admin"),
    "JobHoldMaxRequeue": Reason("held", _C.HELD, "act", EITHER, tail="max requeue"),
    "Reservation": Reason("reservation", _C.WINDOW, "wait", NOBODY),
    "ReservationDeleted": Reason("reservation", _C.BAD_REQUEST, "act", OWNER, tail="deleted"),
    "ReservationInvalid": Reason("reservation", _C.BAD_REQUEST, "act", OWNER, tail="invalid"),
    "PartitionDown": Reason(
        "partition",
        _C.CLOSED_BY_ADMIN,
        "act",
        ADMIN,
        _("partition {partition} is down: it starts nothing until an admin sets it up"),
    ),
    "PartitionInactive": Reason(
        "partition",
        _C.CLOSED_BY_ADMIN,
        "act",
        ADMIN,
        _("partition {partition} is inactive: it starts nothing until an admin sets it up"),
    ),
    "PartitionTimeLimit": Reason("part_time", _C.NEVER_FITS, "never", OWNER),
    "PartitionNodeLimit": Reason("part_nodes", _C.NEVER_FITS, "never", OWNER),
    "PartitionConfig": Reason(
        "access", _C.BAD_REQUEST, "act", OWNER, _("partition {partition} no longer allows this request")
    ),
    "QOSNotAllowed": Reason("access", _C.BAD_REQUEST, "act", OWNER, over="qos"),
    "AccountNotAllowed": Reason("access", _C.BAD_REQUEST, "act", OWNER, over="account"),
    "InvalidQOS": Reason("invalid", _C.BAD_REQUEST, "act", OWNER, over="qos"),
    "InvalidAccount": Reason("invalid", _C.BAD_REQUEST, "act", OWNER, over="account"),
    "AccountingPolicy": Reason(
        "plain",
        _C.BAD_REQUEST,
        "act",
        EITHER,
        _("it breaks a rule of accounting (AccountingPolicy), and Slurm does not say which"),
    ),
    "BadConstraints": Reason("constraints", _C.NEVER_FITS, "never", OWNER),
    "Constraints": Reason("constraints", _C.NEVER_FITS, "never", OWNER),
    "MaxMemPerLimit": Reason(
        "plain",
        _C.NEVER_FITS,
        "never",
        OWNER,
        _("it asks more memory per CPU or per node than the site or partition {partition} allows"),
    ),
    "DeadLine": Reason("plain", _C.NEVER_FITS, "never", OWNER, _("its deadline can no longer be met")),
    "QOSUsageThreshold": Reason(
        "plain",
        _C.QUOTA_FULL,
        "wait",
        ADMIN,
        _("the fair share of its account is below the threshold of QOS {qos}; past usage has to fade first"),
    ),
    "SystemFailure": Reason(
        "plain", _C.CONTROL_PLANE, "act", ADMIN, _("Slurm itself failed with it (SystemFailure): its own log says why")
    ),
    "JobLaunchFailure": Reason(
        "plain",
        _C.STARTED_NOT_RUNNING,
        "act",
        EITHER,
        _("it could not be launched: a wrong directory, a missing program, a prolog or a file system may be the cause"),
    ),
    "InactiveLimit": Reason(
        "plain", _C.GATED, "act", OWNER, _("it was inactive for longer than the site's InactiveLimit")
    ),
    "NonZeroExitCode": Reason(
        "plain", _C.CRASH_LOOP, "act", OWNER, _("its last run ended with an exit code other than 0")
    ),
    "RaisedSignal": Reason("plain", _C.CRASH_LOOP, "act", OWNER, _("its last run was ended by a signal")),
    "OutOfMemory": Reason("plain", _C.CRASH_LOOP, "act", OWNER, _("its last run needed more memory than it asked")),
    "TimeLimit": Reason("plain", _C.CRASH_LOOP, "act", OWNER, _("its last run reached its time limit")),
    "AssociationJobLimit": Reason("limit", _C.QUOTA_FULL, "wait", NOBODY, over="assoc", per="group", resource="jobs"),
    "AssociationResourceLimit": Reason("limit", _C.QUOTA_FULL, "wait", NOBODY, over="assoc", per="group"),
    "AssociationTimeLimit": Reason("limit", _C.NEVER_FITS, "never", OWNER, over="assoc", per="wall", resource="wall"),
    "QOSJobLimit": Reason("limit", _C.QUOTA_FULL, "wait", NOBODY, over="qos", per="group", resource="jobs"),
    "QOSResourceLimit": Reason("limit", _C.QUOTA_FULL, "wait", NOBODY, over="qos", per="group"),
    "QOSTimeLimit": Reason("limit", _C.NEVER_FITS, "never", OWNER, over="qos", per="wall", resource="wall"),
}

# How a limit's word is built: over whom, which resource, per what; the spellings are Slurm's.
_RESOURCES = {
    "GRES": "gpu",
    "Cpu": "cpu",
    "CPU": "cpu",
    "Mem": "memory",
    "Memory": "memory",
    "Node": "node",
    "Billing": "billing",
    "BB": "bb",
    "License": "license",
    "Energy": "energy",
    "Unknown": "",
    "Jobs": "jobs",
    "Job": "jobs",
    "SubmitJobs": "submit",
    "SubmitJob": "submit",
    "Wall": "wall minutes",
    "WallDuration": "wall",
}
_LIMIT = re.compile(
    r"(?P<over>Assoc|QOS|)(?P<kind>Grp|Max|Min)"
    r"(?P<resource>GRES|Cpu|CPU|Memory|Mem|Node|Billing|BB|License|Energy|Unknown|SubmitJobs?|Jobs?|WallDuration|Wall)"
    r"(?P<run>Run)?(?P<minutes>Minutes)?(?P<per>PerJob|PerNode|PerUser|PerAccount|)(?:NotSatisfied)?(?:Limit)?",
    re.IGNORECASE,
)
_FOLDED = {word.lower(): resource for word, resource in _RESOURCES.items()}


def _limit(match: re.Match[str]) -> Reason:
    over = {"assoc": "assoc", "qos": "qos", "": "qos"}[match["over"].lower()]
    kind, per, resource = match["kind"].lower(), match["per"].lower(), _FOLDED[match["resource"].lower()]
    if kind == "min":
        return Reason("limit", _C.NEVER_FITS, "never", OWNER, over=over, per="minimum", resource=resource)
    if resource == "wall":
        return Reason("limit", _C.NEVER_FITS, "never", OWNER, over=over, per="wall", resource="wall")
    if match["minutes"] or resource == "wall minutes":
        if per == "perjob":
            return Reason("limit", _C.NEVER_FITS, "never", OWNER, over=over, per="minutes per job", resource=resource)
        kind = "run minutes" if match["run"] else "minutes"
        return Reason("limit", _C.QUOTA_FULL, "wait", ADMIN, over=over, per=kind, resource=resource)
    if kind == "grp":
        return Reason("limit", _C.QUOTA_FULL, "wait", NOBODY, over=over, per="group", resource=resource)
    if per in {"perjob", "pernode"}:
        return Reason("limit", _C.NEVER_FITS, "never", OWNER, over=over, per=per[3:], resource=resource)
    share = "account" if per == "peraccount" else "user"
    return Reason("limit", _C.QUOTA_FULL, "wait", NOBODY, over=over, per=share, resource=resource)


# What squeue prints in the word's place (its first words, blanks for underscores), and the word that it stands for.
_TEXTS: tuple[tuple[str, Reason], ...] = (
    ("nodes required for job are down", Reason("down_text", _C.ALL_BUSY, "wait", NOBODY)),
    ("job requeued in held state", Reason("held", _C.HELD, "act", EITHER, tail="requeued")),
    ("launch failed requeued held", Reason("held", _C.HELD, "act", ADMIN, tail="launch failed")),
    ("user env retrieval failed requeued held", Reason("held", _C.HELD, "act", ADMIN, tail="environment")),
    ("job's qos not permitted", Reason("access", _C.BAD_REQUEST, "act", OWNER, over="qos")),
    ("job's account not permitted", Reason("access", _C.BAD_REQUEST, "act", OWNER, over="account")),
    ("partition is down", _PLAIN["PartitionDown"]),
    ("partition is inactive", _PLAIN["PartitionInactive"]),
    ("reqnodenotavail", _PLAIN["ReqNodeNotAvail"]),
    ("raisedsignal", _PLAIN["RaisedSignal"]),
    ("badconstraints", _PLAIN["BadConstraints"]),
    ("job violates accounting/qos policy", _PLAIN["AccountingPolicy"]),
)
_EXACT = {word.lower(): reason for word, reason in _PLAIN.items()}
_EMPTY = frozenset({"", "none", "(null)", "null", "n/a", "waitingforscheduling", "noreason"})


def plain(raw: str) -> str:
    """Return the reason without squeue's brackets and scontrol's underscores."""
    text = raw.strip()
    while text.startswith("(") and text.endswith(")") and _closes_at_end(text):
        text = text[1:-1].strip()
    return " ".join(text.replace("_", " ").split())


def _closes_at_end(text: str) -> bool:
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


@lru_cache(maxsize=4096)
def classify(raw: str | None) -> Reason:
    """Return what Slurm's reason means; for a word that is not known, UNKNOWN with the text as it came in `tail`."""
    text = plain((raw or "")[:2000])
    word = text.replace(" ", "").lower()
    if word in _EMPTY:
        return _PLAIN["None"]
    if word in _EXACT:
        return _EXACT[word]
    if match := _LIMIT.fullmatch(word):
        return _limit(match)
    folded = text.lower()
    for start, reason in _TEXTS:
        if folded.startswith(start):
            return reason._replace(tail=reason.tail or text[len(start) :].lstrip(" ,:"))
    # `Resources,Priority`, `AssocGrpGRES:...`: a known word with something behind it
    head = re.split(r"[\s,:(]", text, maxsplit=1)[0]
    if head and len(head) < len(text) and classify(head).topic not in {"unknown", "none"}:
        found = classify(head)
        return found._replace(tail=found.tail or text[len(head) :].lstrip(" ,:"))
    return Reason("unknown", _C.UNKNOWN, "unknown", NOBODY, tail=text)


WORDS = tuple(_PLAIN)
