"""The answers of a refresh without the names of people, accounts, jobs and hosts; they read as before.

What a job is called stands in two columns of squeue's table, and is replaced there alone: a job may be called
`RUNNING` or `1`. The other names stand in many places, so each is replaced wherever it is a whole word that is no key
(`name=`); those that are words of Slurm's own (`normal`, `ALL`) or mere numbers stay. Hosts keep their digits, so that
host lists still fold. The controller's hosts, paths and credentials in slurm.conf are blanked.
"""

import re
from collections.abc import Iterable

import msgspec

from connectors.connector import Answer, Raw
from connectors.model import Snapshot
from connectors.rules import SlurmRules
from connectors.slurm.commands import HISTORY_FIELDS, US, fields_of, without
from connectors.slurm.history import delimiter
from connectors.slurm.jobs import refused_fields
from connectors.slurm.states import job_state
from connectors.slurm.table import split_table

_NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None", "NONE", "none"})
_SLURMS = _NOTHING | {
    "root", "slurm", "nobody", "normal", "default", "batch", "gpu", "gres", "cpu", "cpus", "mem", "node", "nodes",
    "billing", "energy", "vmem", "pages", "fs", "disk", "license", "all", "any", "yes", "no", "up", "down", "drain",
    "inactive", "idle", "mixed", "allocated", "planned", "reserved", "maint", "unknown", "unlimited", "infinite",
    "requeue", "cluster", "cancel", "suspend", "gang", "off", "within", "user", "account", "partition", "qos",
    "admin", "administrator", "operator", "parent", "fairshare", "sec", "min", "hour", "day", "priority", "resources",
    "dependency", "reservation", "licenses", "tree", "fair_tree", "safe",
}  # fmt: skip
_HIDDEN = "redacted"
_SECRET_KEY = re.compile(
    r"(?i)(host|addr|pass|authinfo|key|token|user|mail|machine|cluster_?name|server|script|prog|url)"
)
_SETTING = re.compile(r"(?m)^(\S+)(\s+= ?)(.*)$")
_GROUPS = re.compile(r"\b(AllowGroups|Groups)=(\S+)")
_ADDRESS = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_ETHER = re.compile(r"\b(NodeAddr|NodeHostName|Comment|Extra|InstanceId)=(.*?)(?=\s+\w+=|\s*$)", re.MULTILINE)
_DIGITS = re.compile(r"(\d+|\[[\d,-]*\])")


def redacted(raw: Raw, snapshot: Snapshot) -> Raw:
    """Return the raw answers with the names that this snapshot knows replaced, each by the same stand-in everywhere."""
    names = _Names(snapshot)
    return msgspec.structs.replace(raw, answers={name: _hide(name, one, names) for name, one in raw.answers.items()})


class _Names:
    """Stand-ins: of users, accounts, queues and reservations by name, of hosts by their shape."""

    def __init__(self, snapshot: Snapshot) -> None:
        kept = set(snapshot.rules.gpu_types) if isinstance(snapshot.rules, SlurmRules) else set[str]()
        self._stand_ins: dict[str, str] = {}
        self._called: dict[str, str] = {}
        for kind, names in _kinds(snapshot).items():
            known = sorted({name for name in names if name and not _is_slurms(name) and name not in kept})
            for number, name in enumerate(known, start=1):
                self._stand_ins.setdefault(name, f"{kind}-{number}")
        hosts = sorted({str(name) for name in snapshot.nodes["name"] if name})
        shapes = sorted({_shape(host) for host in hosts})
        self._shapes = {shape: f"host{number}x" for number, shape in enumerate(shapes, start=1)}
        for host in hosts:
            self._stand_ins[host] = self.host(host)
        words = [re.escape(name) for name in sorted(self._stand_ins, key=len, reverse=True)]
        lists = [_list_pattern(shape) for shape in shapes if "#" in shape]
        self._pattern = re.compile(r"(?<![A-Za-z0-9_])(?:" + "|".join([*words, *lists]) + r")(?![A-Za-z0-9_]|=(?!\{))")

    def host(self, text: str) -> str:
        """Return a host or a host list of one shape with its letters replaced and its digits kept."""
        parts = _DIGITS.split(text)
        letters = [self._shapes[_shape(text)], *("x" if part else "" for part in parts[2::2])]
        return "".join(a + b for a, b in zip(letters, [*parts[1::2], ""], strict=True))

    def job(self, name: str) -> str:
        """Return the stand-in of what a job is called."""
        return self._called.setdefault(name, f"job-{len(self._called) + 1}")

    def hide(self, text: str) -> str:
        """Return a text with every name in it replaced."""
        if not self._stand_ins:
            return text
        return self._pattern.sub(lambda found: self._stand_ins.get(found[0]) or self.host(found[0]), text)


def _kinds(snapshot: Snapshot) -> dict[str, Iterable[str | None]]:
    jobs, held = snapshot.jobs, snapshot.reservations
    queues = [str(one).partition(":") for one in snapshot.queues["id"]]
    associations = [name.split("/") for kind, _mark, name in queues if kind == "assoc"]
    listed = [name for column in ("users", "accounts") for names in held[column].to_list() for name in names or ()]
    return {
        "user": [*jobs["user"], *(parts[1] for parts in associations if len(parts) > 1), snapshot.meta.user,
                 *snapshot.nodes["reason_by"]],
        "account": [*jobs["team"], *(parts[0] for parts in associations),
                    *(name for kind, _mark, name in queues if kind == "account"), *listed],
        "queue": [name for kind, _mark, name in queues if kind in {"partition", "qos"}],
        "reservation": list(held["name"]),
    }  # fmt: skip


def _is_slurms(name: str) -> bool:
    return name.lower() in _SLURMS or name.isdecimal() or job_state(name.upper()) != "unknown"


def _shape(host: str) -> str:
    return _DIGITS.sub("#", host)


def _list_pattern(shape: str) -> str:
    """Return the pattern of host lists (`gpu[01-03,07]-ib0`) of hosts of that shape."""
    return r"(?:\d+|\[[\d,-]+\])".join(map(re.escape, shape.split("#")))


def _hide(name: str, answer: Answer, names: _Names) -> Answer:
    text = answer.out.decode("utf-8", "surrogateescape")
    if name == "squeue":
        out = _jobs(text, answer, names)
    elif name == "sacct":
        out = _ended(text, answer, names)
    elif name == "config":
        out = _SETTING.sub(_setting, text)
    else:
        out = names.hide(_GROUPS.sub(_group, _ETHER.sub(_field, text)))
    err = names.hide(answer.err.decode("utf-8", "surrogateescape"))
    return msgspec.structs.replace(
        answer,
        out=_ADDRESS.sub("192.0.2.1", out).encode("utf-8", "surrogateescape"),
        err=err.encode("utf-8", "surrogateescape"),
    )


def _setting(found: re.Match[str]) -> str:
    key, sign, value = found.groups()
    secret = _SECRET_KEY.search(key) or value.startswith("/") or "@" in value
    return found[0] if value in _NOTHING or not secret else f"{key}{sign}{_HIDDEN}"


def _group(found: re.Match[str]) -> str:
    return found[0] if found[2] in {"ALL", "(null)"} else f"{found[1]}={_HIDDEN}"


def _field(found: re.Match[str]) -> str:
    return found[0] if found[2] in _NOTHING else f"{found[1]}={_HIDDEN}"


def _jobs(text: str, answer: Answer, names: _Names) -> str:
    """Return squeue's table with names, comments and places replaced; what is no record of it is left out."""
    fields = without(fields_of(answer.asked), refused_fields(answer))
    fence = fields[-1][1]
    free = [name for name, ending in fields if ending == fence]
    plain = [name for name, ending in fields if ending != fence] + free[:1]
    table = split_table(text, plain, free[1:], fence)
    columns: dict[str, list[str]] = {}
    for name, cells in table.columns.items():
        if name == "name":
            columns[name] = [names.job(cell) for cell in cells]
        elif name == "comment":
            columns[name] = [cell if cell in _NOTHING else _HIDDEN for cell in cells]
        elif name in {"state", "jobarrayid", "jobid", "dependency"}:
            columns[name] = cells
        else:
            columns[name] = [names.hide(cell) for cell in cells]
    rows = zip(*(columns[name] for name in (*plain, *free[1:])), strict=True)
    records = [US.join(row[: len(plain)]) + fence + fence.join(row[len(plain) :]) + fence + "\n" for row in rows]
    left_out = f"{len(table.unreadable)} rows that could not be read were left out" if table.unreadable else ""
    return "".join(records) + left_out


def _ended(text: str, answer: Answer, names: _Names) -> str:
    """Return sacct's table likewise; the name of a job is the last of its fields."""
    fence = delimiter(answer.asked)
    cells = text.split(fence)
    width = len(HISTORY_FIELDS)
    state = HISTORY_FIELDS.index("State")
    hidden = [
        names.job(cell) if at % width == width - 1 else cell if at % width == state else names.hide(cell)
        for at, cell in enumerate(cells)
    ]
    return fence.join(hidden)
