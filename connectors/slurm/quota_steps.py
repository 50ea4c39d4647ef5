"""Steps that set figures of a queue: GrpTRES, MaxWall and Fairshare by sacctmgr, a partition's by scontrol."""

import math

from connectors.change import Change, Expectation, SetQuota
from connectors.ground import quota_key
from connectors.model import Snapshot
from connectors.notation import format_human_duration
from connectors.rules import Limits
from connectors.slurm.ledger import Draft, Ledger
from connectors.slurm.targets import Queue, check_name, rules_of, split_queue
from connectors.text import _


def quota(change: SetQuota, ledger: Ledger) -> Draft:
    """Return the one command that sets all figures of the change."""
    queue = split_queue(change.queue)
    before = _before(change, ledger)
    says, results, notes = [], [], []
    for column, new, key in _figures(change):
        old = before[column]
        says.append(_("{figure} from {old} to {new}").format(
            figure=_figure_name(column, change.model), old=_words(column, old), new=_words(column, new)
        ))  # fmt: skip
        table = "quotas" if column == "limit" else "queues"
        gone_is_unlimited = column == "limit" and new == math.inf
        results.append(Expectation(table=table, key=key, column=column, value=new, or_gone=gone_is_unlimited))
        if old == new:
            notes.append(_("{figure} of {queue} is so already").format(
                figure=_figure_name(column, change.model), queue=change.queue
            ))  # fmt: skip
    undo, why = _undo(change, before)
    return Draft(
        says=_("set of {queue}: {figures}").format(queue=change.queue, figures=", ".join(says)),
        argv=_argv(change, queue, ledger.snapshot),
        results=tuple(results),
        undo=undo,
        why_no_undo=why,
        notes=(*notes, *_notes(change, queue, ledger)),
    )


def _figures(change: SetQuota) -> list[tuple[str, float, str]]:
    """Return the figures that are set: column, new value, and the key of its row."""
    key = quota_key(change.queue, change.resource, change.model)
    named = (("limit", change.limit, key), ("weight", change.weight, change.queue),
             ("max_run_s", change.max_run_s, change.queue))  # fmt: skip
    return [(column, value, place) for column, value, place in named if value is not None]


def _before(change: SetQuota, ledger: Ledger) -> dict[str, float | None]:
    """Return the present figures, which the plan expects to stay; None for one that is not known."""
    found: dict[str, float | None] = {}
    for column, _new, key in _figures(change):
        if column == "limit" and _is_unlimited(change, key, ledger):
            found[column] = math.inf
            continue
        value = ledger.value("quotas" if column == "limit" else "queues", key, column)
        found[column] = value if isinstance(value, float) else None
    return found


def _is_unlimited(change: SetQuota, key: str, ledger: Ledger) -> bool:
    """Return whether there is no limit now, and expect that: such a row is there only while the queue is in use."""
    if ("quotas", key, "limit") in ledger.results:
        return False
    row = ledger.row("quotas", key)
    limit = row["limit"] if row else _limit_of_rules(change, ledger.snapshot)
    if limit != math.inf:
        return False
    ledger.expect(Expectation(table="quotas", key=key, column="limit", value=math.inf, or_gone=True))
    return True


def _limit_of_rules(change: SetQuota, snapshot: Snapshot) -> float | None:
    limits = _limits(split_queue(change.queue), snapshot)
    return None if limits is None else limits.get(_tres(change), math.inf)


def _limits(queue: Queue, snapshot: Snapshot) -> Limits | None:
    """Return GrpTRES of the queue as the rules have it; None where they were not read."""
    rules = rules_of(snapshot)
    if rules is None:
        return None
    if queue.kind == "qos":
        return next((one.grp_tres for one in rules.qos or () if one.name == queue.name), None)
    place = (queue.name, queue.user, queue.partition)
    return next(
        (one.grp_tres for one in rules.associations or () if (one.account, one.user, one.partition) == place), None
    )


def _tres(change: SetQuota) -> str:
    return f"gres/gpu:{check_name(change.model, 'GPU model')}" if change.model else "gres/gpu"


def _argv(change: SetQuota, queue: Queue, snapshot: Snapshot) -> tuple[str, ...]:
    name = check_name(queue.name, queue.kind)
    if queue.kind == "partition":
        return ("scontrol", "update", f"partitionname={name}", *_partition_settings(change))
    settings: list[str] = []
    if change.limit is not None:
        settings.append(f"GrpTRES={_tres(change)}={_whole(change.limit)}")
    if change.weight is not None:
        settings.append(f"Fairshare={_whole(change.weight)}")
    if change.max_run_s is not None:
        settings.append(f"MaxWall={_minutes(change.max_run_s, '-1')}")
    return ("sacctmgr", "-i", "modify", *_where(queue, name, snapshot), "set", *settings)


def _partition_settings(change: SetQuota) -> list[str]:
    settings: list[str] = []
    if change.max_run_s is not None:
        settings.append(f"maxtime={_minutes(change.max_run_s, 'UNLIMITED')}")
    if change.weight is not None:
        settings.append(f"priorityjobfactor={_whole(change.weight)}")
    if not settings or change.limit is not None:
        raise ValueError("a partition has no figure but max_run and weight")
    return settings


def _where(queue: Queue, name: str, snapshot: Snapshot) -> tuple[str, ...]:
    """Return what is changed, by name in every case: without one sacctmgr changes everything there is."""
    if queue.kind == "qos":
        return ("qos", "where", f"name={name}")
    rules = rules_of(snapshot)
    cluster = f"cluster={check_name((rules.cluster_name if rules else None) or '', 'cluster name')}"
    if queue.kind == "account":
        return ("account", "where", f"name={name}", cluster)
    partition = (f"partition={check_name(queue.partition, 'partition')}",) if queue.partition else ()
    return ("user", "where", f"name={check_name(queue.user, 'user name')}", f"account={name}", cluster, *partition)


def _whole(value: float) -> str:
    # anything but a whole number sacctmgr reads as 0, says so on stderr only, and answers exit code 0
    if value == math.inf:
        return "-1"
    if value != int(value) or value < 0:
        raise ValueError(f"not a whole number: {value}")
    return str(int(value))


def _minutes(seconds: float, unlimited: str) -> str:
    return unlimited if seconds == math.inf else _whole(seconds / 60)


def _undo(change: SetQuota, before: dict[str, float | None]) -> tuple[tuple[Change, ...] | None, str]:
    unknown = [column for column, old in before.items() if old is None]
    if unknown:
        return None, _("the present {figures} of {queue} is not known").format(
            figures=", ".join(_figure_name(column, change.model) for column in unknown), queue=change.queue
        )
    return (
        SetQuota(
            queue=change.queue,
            limit=before.get("limit"),
            weight=before.get("weight"),
            max_run_s=before.get("max_run_s"),
            model=change.model,
            resource=change.resource,
        ),
    ), ""


def _notes(change: SetQuota, queue: Queue, ledger: Ledger) -> list[str]:
    notes: list[str] = []
    row = ledger.row("quotas", quota_key(change.queue, change.resource, change.model))
    used = row.get("used")
    if change.limit is not None and used is not None and change.limit < used:
        notes.append(
            _("the limit of {limit} is below the present use of {used}: nothing that runs is stopped, but nothing more "
              "starts until enough has ended").format(limit=_words("limit", change.limit), used=_words("limit", used))
        )  # fmt: skip
    others = {
        name: value
        for name, value in (_limits(queue, ledger.snapshot) or {}).items()
        if name != _tres(change) and value != math.inf
    }
    if change.limit is not None and others:
        listed = ", ".join(f"{name}={_words('limit', value)}" for name, value in sorted(others.items()))
        notes.append(_("the other limits of {queue} stay as they are: {limits}").format(
            queue=change.queue, limits=listed
        ))  # fmt: skip
    if change.model is not None:
        notes.append(_("a limit of one model counts only jobs that name the model"))
    if change.max_run_s is not None and queue.kind in {"account", "assoc"}:
        notes.append(_("the present longest run may come from an account above; undo then sets it here as well"))
    if change.max_run_s is not None:
        notes.append(_("jobs that run keep the time limit they have"))
    return notes


def _figure_name(column: str, model: str | None) -> str:
    if column == "limit":
        return _("GPU limit ({model})").format(model=model) if model else _("GPU limit")
    return _("share") if column == "weight" else _("longest run")


def _words(column: str, value: float | None) -> str:
    if value is None:
        return _("unknown")
    if value == math.inf:
        return _("unlimited")
    return format_human_duration(value) if column == "max_run_s" else f"{value:.15g}"
