"""QOS and associations: limits and use from slurmctld (`show assoc_mgr`), the rest from slurmdbd (sacctmgr, sshare).

slurmctld's view is what decides, so its limits win; what only the database says (preempt lists, flags, allowed QOS) is
laid over it. Either may be missing: a site without accounting, a user who may not see it, a slurmdbd that is down.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.notation import NotationError, parse_duration, parse_limits, parse_tres
from connectors.rules import Limits, SlurmAssociation, SlurmQos
from connectors.slurm.records import header_table, listed, record

Key = tuple[str, str, str]
"""Account, user (empty for the account itself), partition (empty for all)."""

_LIMIT = re.compile(r"(N|\d+)(?:\((\d+(?:\.\d+)?)\))?")
_WITH_ID = re.compile(r"(.*)\((\d+)\)")
_BLOCK = re.compile(r"(\S+)=\{([^}]*)\}")
_PARENT_SHARES = "2147483647"  # SLURMDB_FS_USE_PARENT: "use the parent's"


@dataclass(slots=True)
class AssocMgr:
    """What slurmctld holds: the words of each association and QOS, as printed."""

    associations: dict[Key, dict[str, str]] = field(default_factory=dict)
    qos: dict[str, dict[str, str]] = field(default_factory=dict)
    per_user: dict[str, dict[str, str]] = field(default_factory=dict)
    per_account: dict[str, dict[str, str]] = field(default_factory=dict)


def read_assoc_mgr(text: str) -> AssocMgr:
    """Return the associations and QOS of `scontrol -o show assoc_mgr`."""
    found = AssocMgr()
    for line in text.splitlines():
        if line.startswith("ClusterName="):
            words = record(line)
            user = without_id(words.get("UserName", ""))
            found.associations[words.get("Account", ""), user, words.get("Partition", "")] = words
        elif line.startswith("QOS="):
            head, _mark, blocks = line.partition(" Account Limits=")
            accounts, _mark, users = blocks.partition(" User Limits=")
            words = record(head)
            name = without_id(words["QOS"])
            found.qos[name] = words
            # every block of a kind repeats the QOS's limit beside its own use: the first one says it
            for into, part in ((found.per_account, accounts), (found.per_user, users)):
                match = _BLOCK.search(part)
                into[name] = record(match[2]) if match else {}
    return found


def without_id(text: str) -> str:
    """Return the name of `vision(7)`."""
    match = _WITH_ID.fullmatch(text)
    return match[1] if match else text


def limits(text: str | None) -> Limits:
    """Return the limits that are set, of `gres/gpu=24(16),cpu=N(3)` or of `gres/gpu=24`."""
    if not text:
        return {}
    if "(" in text:
        return {name: limit for name, (limit, _use) in parse_limits(text).items() if limit != math.inf}
    return dict(parse_tres(text))


def used(text: str | None) -> dict[str, float]:
    """Return the use of `gres/gpu=24(16),cpu=N(3)`."""
    return {name: use for name, (_limit, use) in parse_limits(text).items()} if text and "(" in text else {}


def count(text: str | None) -> float:
    """Return the limit of `N(3)`, `24(3)`, `24` or nothing; infinity where none is set."""
    if not text or text.startswith("N"):
        return math.inf
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise NotationError("limit", text, "Slurm writes limit(use)")
    return float(match[1])


def _minutes(text: str | None) -> float:
    return math.inf if not text else 60.0 * count(text)


def _wall(text: str | None) -> float:
    found = parse_duration(text or "")
    return math.inf if found is None else found


def qos_rules(live: AssocMgr | None, table: str | None) -> tuple[SlurmQos, ...] | None:
    """Return all QOS, from whichever of the two views is there; None without both."""
    if live is None and table is None:
        return None
    rows = {row["Name"]: row for row in header_table(table or "")}
    names = list(dict.fromkeys([*(live.qos if live else ()), *rows]))
    return tuple(_qos(name, live, rows.get(name, {})) for name in names)


def _qos(name: str, live: AssocMgr | None, row: Mapping[str, str]) -> SlurmQos:
    words = live.qos.get(name) if live else None
    users = live.per_user.get(name, {}) if live else {}
    accounts = live.per_account.get(name, {}) if live else {}
    if words is None:
        words = {
            "GrpTRES": row.get("GrpTRES", ""), "GrpJobs": row.get("GrpJobs", ""), "MaxTRESPJ": row.get("MaxTRES", ""),
            "GrpSubmitJobs": row.get("GrpSubmit", ""), "MaxTRESPN": row.get("MaxTRESPerNode", ""),
            "MinTRESPJ": row.get("MinTRES", ""), "Priority": row.get("Priority", "0"),
        }  # fmt: skip
        max_wall = _wall(row.get("MaxWall"))
    else:
        max_wall = _minutes(words.get("MaxWallPJ"))
    exempt = row.get("PreemptExemptTime", "")
    return SlurmQos(
        name=name,
        priority=int(words.get("Priority") or 0),
        preempt=listed(row.get("Preempt")),
        preempt_mode=(row.get("PreemptMode") or words.get("PreemptMode", "cluster")).lower(),
        preempt_exempt_s=parse_duration(exempt),
        grace_s=_grace(row.get("GraceTime", "")),
        flags=listed(row.get("Flags")),
        usage_factor=float(row.get("UsageFactor") or 1.0),
        grp_tres=limits(words.get("GrpTRES")),
        grp_jobs=count(words.get("GrpJobs")),
        grp_submit_jobs=count(words.get("GrpSubmitJobs")),
        max_tres_per_user=limits(row.get("MaxTRESPU") or users.get("MaxTRESPU")),
        max_tres_per_account=limits(row.get("MaxTRESPA") or accounts.get("MaxTRESPA")),
        max_tres_per_job=limits(words.get("MaxTRESPJ")),
        max_tres_per_node=limits(words.get("MaxTRESPN")),
        min_tres_per_job=limits(words.get("MinTRESPJ")),
        max_jobs_per_user=count(row.get("MaxJobsPU") or users.get("MaxJobsPU")),
        max_jobs_per_account=count(row.get("MaxJobsPA") or accounts.get("MaxJobsPA")),
        max_submit_jobs_per_user=count(row.get("MaxSubmitPU") or users.get("MaxSubmitJobsPU")),
        max_wall_s=max_wall,
    )


def _grace(text: str) -> float:
    return parse_duration(text) or 0.0


def association_rules(
    live: AssocMgr | None, table: str | None, sshare: str | None
) -> tuple[SlurmAssociation, ...] | None:
    """Return the account tree, from whichever view is there; None without both."""
    if live is None and table is None:
        return None
    rows = {(row["Account"], row["User"], row["Partition"]): row for row in header_table(table or "")}
    shares = {(row["Account"].strip(), row["User"]): row for row in header_table(sshare or "")}
    keys: list[Key] = list(live.associations) if live is not None else list(rows)
    return tuple(
        _association(key, live.associations[key] if live else None, rows.get(key, {}), shares.get(key[:2], {}))
        for key in keys
    )


def _association(
    key: Key, words: Mapping[str, str] | None, row: Mapping[str, str], share: Mapping[str, str]
) -> SlurmAssociation:
    account, user, partition = key
    if words is None:
        words = {
            "GrpTRES": row.get("GrpTRES", ""), "GrpJobs": row.get("GrpJobs", ""), "MaxTRESPJ": row.get("MaxTRES", ""),
            "GrpSubmitJobs": row.get("GrpSubmit", ""), "MaxTRESPN": row.get("MaxTRESPerNode", ""),
            "MaxJobs": row.get("MaxJobs", ""), "MaxSubmitJobs": row.get("MaxSubmit", ""),
            "ParentAccount": row.get("ParentName", ""), "SharesRaw/Norm/Level/Factor": row.get("Share", ""),
        }  # fmt: skip
        max_wall = _wall(row.get("MaxWall"))
    else:
        max_wall = _minutes(words.get("MaxWallPJ"))
    raw_shares = words.get("SharesRaw/Norm/Level/Factor", "").partition("/")[0]
    usage = words.get("UsageRaw/Norm/Efctv", "").partition("/")[0] or share.get("RawUsage", "")
    return SlurmAssociation(
        account=account,
        user=user,
        partition=partition,
        parent=account if user else without_id(words.get("ParentAccount", "")) or None,
        shares=None if raw_shares in {"", "parent", _PARENT_SHARES} else float(raw_shares),
        usage=_figure(usage),
        level_fairshare=_figure(share.get("LevelFS", "")),
        fairshare_factor=_figure(share.get("FairShare", "")),
        grp_tres=limits(words.get("GrpTRES")),
        grp_jobs=count(words.get("GrpJobs")),
        grp_submit_jobs=count(words.get("GrpSubmitJobs")),
        max_tres_per_job=limits(words.get("MaxTRESPJ")),
        max_tres_per_node=limits(words.get("MaxTRESPN")),
        max_jobs=count(words.get("MaxJobs")),
        max_submit_jobs=count(words.get("MaxSubmitJobs")),
        max_wall_s=max_wall,
        qos=listed(row.get("QOS")),
        default_qos=row.get("Def QOS") or None,
    )


def _figure(text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise NotationError("figure", text, "it is not a number") from None
