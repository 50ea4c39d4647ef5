"""`scontrol show config` and `show partition`, read strictly: a figure that is not one raises NotationError.

Source: slurm.conf(5). Times of SchedulerParameters are seconds, but bf_window, which is minutes.
"""

import math
import re
from collections.abc import Mapping

from connectors.notation import NotationError, parse_duration, parse_hostlist
from connectors.rules import SlurmPartition
from connectors.slurm.records import listed, records

_LINE = re.compile(r"(\S+)\s+= ?(.*)")
_UNLIMITED = frozenset({"UNLIMITED", "INFINITE"})


def config_values(text: str) -> dict[str, str]:
    """Return the values of the first block (slurm.conf), by key as printed; the version is SLURM_VERSION."""
    values: dict[str, str] = {}
    for line in text.splitlines()[1:]:
        if not line.strip():
            break
        match = _LINE.fullmatch(line)
        if match:
            values[match[1]] = match[2].strip()
    return values


def parameters(text: str) -> dict[str, str]:
    """Return SchedulerParameters by name; a name without a value has the empty text."""
    found: dict[str, str] = {}
    for item in listed(text):
        name, _sign, value = item.partition("=")
        found[name.strip()] = value.strip()
    return found


def number(values: Mapping[str, str], key: str, default: float) -> float:
    """Return a figure; the default where it is not set. NotationError if it is not a figure."""
    text = values.get(key, "")
    if text in {"", "(null)", "N/A", "NONE"}:
        return default
    if text in _UNLIMITED:
        return math.inf
    try:
        return float(text.split()[0])
    except ValueError:
        raise NotationError(key, text, "it is not a number") from None


def seconds(values: Mapping[str, str], key: str, default: float) -> float:
    """Return a duration in seconds (`7-00:00:00`, `30 sec`, `10 min`); the default where it is not set."""
    text = values.get(key, "")
    if text in {"", "(null)", "N/A"}:
        return default
    figure, _blank, unit = text.partition(" ")
    if unit in {"sec", "min"} and figure.isdecimal():
        return float(figure) * (60.0 if unit == "min" else 1.0)
    found = parse_duration(text)
    return default if found is None else found


def weights(text: str) -> dict[str, float]:
    """Return `gres/gpu=500,cpu=1` by TRES name."""
    found = {}
    for item in listed(text):
        name, _sign, value = item.partition("=")
        found[name] = number({name: value}, name, 0.0)
    return found


def partitions(text: str) -> tuple[SlurmPartition, ...]:
    """Return the partitions of `scontrol -o show partition`."""
    return tuple(_partition(fields) for fields in records(text, "PartitionName"))


def _allowed(fields: Mapping[str, str], key: str) -> tuple[str, ...] | None:
    text = fields.get(key, "ALL")
    return None if text in {"ALL", "(null)"} else listed(text)


def _partition(fields: dict[str, str]) -> SlurmPartition:
    qos = fields.get("QoS", "N/A")
    return SlurmPartition(
        name=fields["PartitionName"],
        nodes=parse_hostlist(fields.get("Nodes", "")),
        state=fields.get("State", "UNKNOWN").upper(),
        default=fields.get("Default") == "YES",
        priority_tier=int(number(fields, "PriorityTier", 1)),
        priority_job_factor=int(number(fields, "PriorityJobFactor", 1)),
        max_time_s=seconds(fields, "MaxTime", math.inf),
        default_time_s=parse_duration(fields.get("DefaultTime", "")),
        min_nodes=int(number(fields, "MinNodes", 0)),
        max_nodes=number(fields, "MaxNodes", math.inf),
        allow_qos=_allowed(fields, "AllowQos"),
        deny_qos=listed(fields.get("DenyQos")),
        allow_accounts=_allowed(fields, "AllowAccounts"),
        deny_accounts=listed(fields.get("DenyAccounts")),
        allow_groups=_allowed(fields, "AllowGroups"),
        qos=None if qos in {"N/A", "(null)", ""} else qos,
        preempt_mode=fields.get("PreemptMode", "OFF"),
        exclusive="EXCLUSIVE" in fields.get("OverSubscribe", "") or fields.get("Exclusive") == "NODE",
        root_only=fields.get("RootOnly") == "YES",
    )
