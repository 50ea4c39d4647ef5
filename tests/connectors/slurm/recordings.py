"""Recorded answers of three versions of Slurm, in the form in which the connector asks.

`22.05-live` is a capture and needs nothing. The others were recorded with `squeue -O FIELD:|,...` and local times: here
the separators become those of the connector (no name in them holds `|`) and the times epoch seconds, so that the very
same parser reads all of them. Fields that were not recorded are missing, as on a version that does not know them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from connectors.connector import Answer, Raw
from connectors.raw import load_raw
from connectors.slurm.commands import FREE_FIELDS, HISTORY_FIELDS, PLAIN_FIELDS, US

FOLDER = Path(__file__).resolve().parents[2] / "recorded" / "slurm"
VERSIONS = ("22.05", "24.11", "26.05")
NONCE = "00112233445566778899aabb"
FENCE = f"\x1e{NONCE}"
NOW = datetime(2026, 11, 30, 20, 20, tzinfo=UTC)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_TOKENS = {
    "JobID": "jobid", "JobArrayID": "jobarrayid", "ArrayJobID": "arrayjobid", "UserName": "username",
    "Account": "account", "Partition": "partition", "QOS": "qos", "State": "state", "Reason": "reason",
    "PriorityLong": "prioritylong", "NumNodes": "numnodes", "NumCPUs": "numcpus", "tres-alloc": "tres-alloc",
    "tres-per-node": "tres-per-node", "TimeLimit": "timelimit", "SubmitTime": "submittime", "StartTime": "starttime",
    "EndTime": "endtime", "NodeList": "nodelist", "SchedNodes": "schednodes", "Dependency": "dependency",
    "Reservation": "reservation", "Restartcnt": "restartcnt", "Comment": "comment", "Name": "name",
}  # fmt: skip
_RECORDED = [
    "JobID",
    "JobArrayID",
    "ArrayJobID",
    "ArrayTaskID",
    "Name",
    "UserName",
    "Account",
    "Partition",
    "QOS",
    "State",
    "Reason",
    "PriorityLong",
    "NumNodes",
    "NumCPUs",
    "tres-alloc",
    "tres-per-node",
    "TimeLimit",
    "TimeUsed",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "NodeList",
    "SchedNodes",
    "Dependency",
    "Reservation",
    "Restartcnt",
    "Comment",
    "HetJobID",
    "HetJobOffset",
]
_FILES = {
    "node": "scontrol-show-node", "partition": "scontrol-show-partition-o", "sprio": "sprio", "sshare": "sshare",
    "reservation": "scontrol-show-reservation-o", "config": "scontrol-show-config", "qos": "sacctmgr-qos",
    "assoc_mgr": "scontrol-show-assoc_mgr", "assoc": "sacctmgr-assoc", "sdiag": "sdiag",
    "licenses": "scontrol-show-licenses",
}  # fmt: skip


def epoch(text: str) -> str:
    return _TIME.sub(lambda at: str(int(datetime.fromisoformat(at[0]).replace(tzinfo=UTC).timestamp())), text)


def recorded_text(version: str, name: str) -> str:
    return epoch((FOLDER / version / "cli" / f"{name}.txt").read_text())


def squeue_answer(rows: list[dict[str, str]], *, err: bytes = b"") -> Answer:
    """What squeue prints for rows of texts by field; the fields are those of the first row."""
    plain = [name for name in PLAIN_FIELDS if name in rows[0]]
    free = [name for name in FREE_FIELDS if name in rows[0]]
    spec = ",".join([*(f"{name}:{US}" for name in plain[:-1]), *(f"{name}:{FENCE}" for name in (plain[-1], *free))])
    out = "".join(
        US.join(row[name] for name in plain) + FENCE + "".join(row[name] + FENCE for name in free) + "\n"
        for row in rows
    )
    return Answer(asked=f"squeue -h -a -t all -O '{spec}'", code=0, out=out.encode(), err=err)


def recorded_rows(version: str) -> list[dict[str, str]]:
    """The recorded rows of squeue; an array's pending tasks, recorded one by one (-r), folded as squeue folds them."""
    lines = recorded_text(version, "squeue-O").splitlines()[1:]
    rows = [dict(zip(_RECORDED, line.split("|"), strict=True)) for line in lines]
    folded = [line.split("|")[0] for line in recorded_text(version, "squeue-arrays-folded").splitlines()[1:]]
    lists = {name.partition("_")[0]: name for name in folded if "[" in name}
    done: set[str] = set()
    kept = []
    for row in rows:
        array = row["JobArrayID"].partition("_")[0]
        if array in lists and row["State"] == "PENDING":
            if array in done:
                continue
            done.add(array)
            row["JobArrayID"] = lists[array]
        kept.append({mine: row[name] for name, mine in _TOKENS.items()})
    return kept


def recorded_raw(version: str) -> Raw:
    """One refresh of that version."""
    answers = {
        name: Answer(asked=f"recorded {name}", code=0, out=recorded_text(version, file).encode())
        for name, file in _FILES.items()
    }
    answers["squeue"] = squeue_answer(recorded_rows(version))
    return Raw(system="slurm", cluster="halcyon", taken_at=NOW, answers=answers)


def live() -> Raw:
    """A whole refresh of 22.05, captured by the connector itself."""
    return load_raw(FOLDER / "22.05-live")


def sacct_answer(rows: list[dict[str, str]]) -> Answer:
    """What sacct prints for rows of texts by field."""
    fence = US + NONCE
    out = "".join("".join(row.get(name, "") + fence for name in HISTORY_FIELDS) + "\n" for row in rows)
    return Answer(asked=f"env TZ=UTC0 sacct -p '--delimiter={fence}' -o x", code=0, out=out.encode())


JOB = {
    "jobarrayid": "7", "jobid": "7", "arrayjobid": "7", "hetjobid": "N/A", "username": "mira", "account": "vision",
    "partition": "train", "qos": "train", "state": "RUNNING", "prioritylong": "100", "numnodes": "2", "numcpus": "4",
    "numtasks": "2", "tres-alloc": "cpu=4,mem=2000M,node=2,billing=4,gres/gpu=16,gres/gpu:a100=16",
    "tres-per-node": "gres:gpu:a100:8", "tres-per-job": "N/A", "tres-per-task": "N/A", "tres-per-socket": "N/A",
    "timelimit": "1-00:00:00", "submittime": "1796000000", "eligibletime": "1796000001", "starttime": "1796000002",
    "endtime": "1796086402", "preempttime": "N/A", "nodelist": "gpu[02-03]", "schednodes": "(null)", "reqnodes": "",
    "restartcnt": "0", "exit_code": "0", "requeue": "1", "batchflag": "1", "oversubscribe": "OK",
    "dependency": "(null)", "reservation": "(null)", "licenses": "(null)", "feature": "(null)", "reason": "None",
    "comment": "(null)", "name": "vlm-pretrain",
}  # fmt: skip


def job(**changed: str) -> dict[str, str]:
    return {**JOB, **{name.replace("__", "-"): value for name, value in changed.items()}}
