"""SlurmRules from the answers, and what they say of a job: which queues bind it, and whether it is preemptible."""

from collections.abc import Mapping

from connectors.connector import Answer
from connectors.notation import parse_duration
from connectors.rules import SlurmAssociation, SlurmQos, SlurmRules
from connectors.slurm.accounting import AssocMgr, association_rules, qos_rules
from connectors.slurm.columns import decode
from connectors.slurm.config import number, parameters, partitions, seconds, weights
from connectors.slurm.records import listed, records

_PREFIX = "gres/gpu:"


def slurm_rules(
    config: Mapping[str, str],
    partition_text: str,
    live: AssocMgr | None,
    *,
    qos: str | None,
    assoc: str | None,
    sshare: str | None,
    licenses: Mapping[str, tuple[float, float]],
    gpu_types: tuple[str, ...],
) -> SlurmRules:
    """Return the rules; `config` may be empty (Slurm's defaults then). NotationError for a figure that is none."""
    words = parameters(config.get("SchedulerParameters", ""))
    preempting = {*listed(config.get("PreemptParameters")), *words}
    tracked = [name[len(_PREFIX) :] for name in listed(config.get("AccountingStorageTRES")) if name.startswith(_PREFIX)]
    array_size = number(config, "MaxArraySize", 0)
    return SlurmRules(
        cluster_name=config.get("ClusterName"),
        scheduler=config.get("SchedulerType", "sched/backfill"),
        priority_type=config.get("PriorityType", "priority/multifactor"),
        weight_age=number(config, "PriorityWeightAge", 0),
        weight_assoc=number(config, "PriorityWeightAssoc", 0),
        weight_fairshare=number(config, "PriorityWeightFairShare", 0),
        weight_job_size=number(config, "PriorityWeightJobSize", 0),
        weight_partition=number(config, "PriorityWeightPartition", 0),
        weight_qos=number(config, "PriorityWeightQOS", 0),
        weight_tres=weights(config.get("PriorityWeightTRES", "")),
        priority_flags=listed(config.get("PriorityFlags")),
        favor_small=config.get("PriorityFavorSmall", "no").lower() in {"yes", "1"},
        max_age_s=seconds(config, "PriorityMaxAge", 7 * 86400.0),
        decay_half_life_s=seconds(config, "PriorityDecayHalfLife", 7 * 86400.0),
        enforce=listed(config.get("AccountingStorageEnforce")),
        preempt_type=_plugin(config.get("PreemptType"), "preempt/none"),
        preempt_mode=listed(config.get("PreemptMode")) or ("OFF",),
        preempt_exempt_s=parse_duration(config.get("PreemptExemptTime", "")) or 0.0,
        preempt_youngest_first=bool(preempting & {"preempt_youngest_first", "youngest_first"}),
        parameters=words,
        bf_interval_s=number(words, "bf_interval", 30),
        bf_window_s=60 * number(words, "bf_window", 1440),
        bf_resolution_s=number(words, "bf_resolution", 60),
        bf_max_job_test=int(number(words, "bf_max_job_test", 500)),
        bf_max_job_user=int(number(words, "bf_max_job_user", 0)),
        bf_max_job_part=int(number(words, "bf_max_job_part", 0)),
        bf_job_part_count_reserve=int(number(words, "bf_job_part_count_reserve", 0)),
        bf_continue="bf_continue" in words,
        default_queue_depth=int(number(words, "default_queue_depth", 100)),
        max_array_size=int(array_size) if array_size else None,
        gpu_types=tuple(dict.fromkeys([*tracked, *gpu_types])),
        partitions=partitions(partition_text),
        qos=qos_rules(live, qos),
        associations=association_rules(live, assoc, sshare),
        licenses=dict(licenses),
    )


def _plugin(text: str | None, default: str) -> str:
    return default if text is None or text in {"", "(null)"} else text


def read_licenses(answer: Answer | None) -> dict[str, tuple[float, float]]:
    """Return (total, used) by licence."""
    if answer is None or answer.code != 0:
        return {}
    return {
        fields["LicenseName"]: (number(fields, "Total", 0), number(fields, "Used", 0))
        for fields in records(decode(answer.out), "LicenseName")
    }


class Scopes:
    """Which queues bind a job, by partition, account, user and QOS."""

    def __init__(self, rules: SlurmRules) -> None:
        """Index the tree once."""
        self._partition_qos = {partition.name: partition.qos for partition in rules.partitions}
        tree: dict[tuple[str, str, str], SlurmAssociation] = {
            (one.account, one.user, one.partition): one for one in rules.associations or ()
        }
        self._tree = tree
        self._known = rules.associations is not None

    def bound_by(self, partition_list: str, account: str, user: str, qos: str) -> list[str]:
        """Return the ids: partitions, their QOS, own QOS, association, and each account up the tree."""
        found: list[str] = []
        for partition in partition_list.split(","):
            found.append(f"partition:{partition}")
            partition_qos = self._partition_qos.get(partition)
            if partition_qos is not None:
                found.append(f"qos:{partition_qos}")
        if qos not in {"", "(null)", "N/A"}:
            found.append(f"qos:{qos}")
        if account in {"", "(null)", "N/A"}:
            return list(dict.fromkeys(found))
        if (account, user, partition_list) in self._tree:
            found.append(f"assoc:{account}/{user}/{partition_list}")
        elif not self._known or (account, user, "") in self._tree:
            found.append(f"assoc:{account}/{user}")
        return list(dict.fromkeys([*found, *self.accounts(account)]))

    def accounts(self, account: str) -> list[str]:
        """Return the ids of the account and of all above it."""
        found: list[str] = []
        at: str | None = account
        while at and f"account:{at}" not in found:
            found.append(f"account:{at}")
            row = self._tree.get((at, "", ""))
            at = row.parent if row else None
        return found


def preemptible_qos(rules: SlurmRules) -> frozenset[str] | None:
    """Return the QOS whose jobs another QOS may preempt; None where the lists could not be read."""
    if rules.qos is None:
        return None
    modes = {one.name: one.preempt_mode for one in rules.qos}
    victims = {name for one in rules.qos for name in one.preempt}
    return frozenset(name for name in victims if _mode_allows(modes.get(name, "cluster"), rules))


def _mode_allows(mode: str, rules: SlurmRules) -> bool:
    return mode != "off" if mode != "cluster" else rules.preempt_mode != ("OFF",)


def preemptible_partitions(rules: SlurmRules) -> frozenset[str]:
    """Return the partitions whose jobs one of a higher tier on a common node may preempt (preempt/partition_prio)."""
    found = set()
    for low in rules.partitions:
        nodes = frozenset(low.nodes)
        above = (high for high in rules.partitions if high.priority_tier > low.priority_tier)
        if low.preempt_mode != "OFF" and any(not nodes.isdisjoint(high.nodes) for high in above):
            found.add(low.name)
    return frozenset(found)


def qos_by_name(rules: SlurmRules) -> dict[str, SlurmQos]:
    """Return the QOS by name."""
    return {one.name: one for one in rules.qos or ()}
