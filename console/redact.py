"""Captures without the names of people, jobs, hosts and accounts.

Each name that the snapshot knows is replaced in every answer, as a whole word, by a stand-in of the same kind
(`user-3`, `job-17`); the same name gets the same stand-in everywhere, so that the capture still fits together. Host
names keep their digits, so that host lists still fold. Free texts that hold none of these names (reasons) stay.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from connectors.connector import Raw

if TYPE_CHECKING:
    from connectors.model import Snapshot

_MEANT_BY_THE_SYSTEM = {"root", "slurm", "normal", "gpu", "cpu", "node", "mem", "batch", "N/A", "None", "none", "UP"}


def redacted(raw: Raw, snapshot: "Snapshot") -> Raw:
    """Return the raw answers with the names of this snapshot replaced."""
    stand_ins = _stand_ins(snapshot)
    hosts = {name.rstrip("0123456789") for name in snapshot.nodes["name"] if name}
    for number, prefix in enumerate(sorted(hosts, key=len, reverse=True), start=1):
        if prefix and prefix not in _MEANT_BY_THE_SYSTEM:
            stand_ins.setdefault(prefix, f"host{number}x")
    pattern = _pattern(stand_ins, hosts)

    def replace(data: bytes) -> bytes:
        text = data.decode("utf-8", "surrogateescape")
        text = pattern.sub(lambda found: stand_ins[found.group(0)], text) if pattern else text
        return text.encode("utf-8", "surrogateescape")

    answers = {
        name: msgspec.structs.replace(answer, out=replace(answer.out), err=replace(answer.err))
        for name, answer in raw.answers.items()
    }
    return msgspec.structs.replace(raw, answers=answers)


def _stand_ins(snapshot: "Snapshot") -> dict[str, str]:
    jobs = snapshot.jobs
    kinds: dict[str, Iterable[str | None]] = {
        "user": jobs["user"],
        "team": jobs["team"],
        "project": jobs["project"],
        "job": jobs["name"],
        "queue": [str(queue).partition(":")[2].partition("/")[0] for queue in snapshot.queues["id"]],
        "person": [str(queue).partition("/")[2] for queue in snapshot.queues["id"]],
        "reservation": snapshot.reservations["name"],
    }
    found: dict[str, str] = {}
    for kind, names in kinds.items():
        for number, name in enumerate(sorted({n for n in names if n and n not in _MEANT_BY_THE_SYSTEM}), start=1):
            found.setdefault(name, f"{kind}-{number}")
    if snapshot.meta.user and snapshot.meta.user not in _MEANT_BY_THE_SYSTEM:
        found.setdefault(snapshot.meta.user, "caller")
    return found


def _pattern(stand_ins: dict[str, str], hosts: set[str]) -> re.Pattern[str] | None:
    """Match whole names, longest first; a host's prefix may be followed by its digits or a bracket."""
    if not stand_ins:
        return None
    parts = []
    for name in sorted(stand_ins, key=len, reverse=True):
        before = r"(?<![A-Za-z0-9_])" if name[0].isalnum() else ""
        after = r"(?=[\[0-9])" if name in hosts else r"(?![A-Za-z0-9_])" if name[-1].isalnum() else ""
        parts.append(before + re.escape(name) + after)
    return re.compile("|".join(parts))
