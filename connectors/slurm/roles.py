"""What a user may change on a Slurm cluster, by role. Pure.

Source: the table in sacctmgr(1) and scontrol(1), measured on 22.05, 24.11 and 26.05. This only says what is worth
trying; Slurm itself decides, and its refusal is shown in its own words.
"""

from collections.abc import Collection

_ADMINISTRATOR = "administrator"
_OPERATOR = "operator"
_KINDS = ("qos", "account", "assoc", "partition")
_FIGURES = {
    "partition": ("weight", "max_run_s", "state"),
    "qos": ("limit", "max_run_s"),
    "account": ("limit", "weight", "max_run_s"),
    "assoc": ("limit", "weight", "max_run_s"),
}
_OWN_JOBS = ("hold", "release", "cancel", "requeue")
_ALL = ("quota", "reserve", "unreserve", *_OWN_JOBS, "priority", "drain", "resume", "stop", "start")
_OPERATORS = ("quota", "reserve", "unreserve", *_OWN_JOBS, "priority")


def writable(queue: str, admin_level: str | None, coordinator_of: Collection[str] = ()) -> tuple[str, ...]:
    """Return the figures of a queue (by its id) that this user may set: `limit`, `max_run_s`, `weight`, `state`.

    `admin_level` is sacctmgr's word (`None`, `Operator`, `Administrator`), or None where it is not known: then nobody
    is told no beforehand. `coordinator_of` holds the accounts whose users the user coordinates, subaccounts too.
    """
    kind, _mark, name = queue.partition(":")
    if kind not in _KINDS:
        return ()
    level = _level(admin_level)
    if level in {_ADMINISTRATOR, ""}:
        return _FIGURES[kind]
    if level == _OPERATOR:
        return _FIGURES[kind] if kind in {"account", "assoc"} else ()
    if kind == "assoc" and name.partition("/")[0] in coordinator_of:
        return _FIGURES[kind]
    return ()


def verbs(admin_level: str | None, coordinator_of: Collection[str] = ()) -> tuple[str, ...]:
    """Return the verbs of the change language that are worth trying, on any object, for `Capabilities.writes`."""
    level = _level(admin_level)
    if level in {_ADMINISTRATOR, ""}:
        return _ALL
    if level == _OPERATOR:
        return _OPERATORS
    return ("quota", *_OWN_JOBS) if coordinator_of else _OWN_JOBS


def _level(admin_level: str | None) -> str:
    """Return the role in small letters; "" where it is not known. SlurmUser and root count as administrators."""
    return "" if admin_level is None else admin_level.strip().lower()
