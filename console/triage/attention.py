"""What needs a person on one cluster, worst first: what, since when, who, and the next step as words to type.

act    somebody must change something: jobs that never start, held ones, closed doors, ended jobs that hold on
fault  hardware is lost: nodes and devices out of service
stale  something could not be read, so the picture is old there
idle   devices that nobody can use for want of something else
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from connectors.model import Snapshot
from connectors.text import _, plural
from console.triage.board import Board, Node
from console.triage.diagnosis import Attention, Cause, Severity
from console.triage.room_findings import device_cause
from console.triage.slurm_reasons import classify
from console.triage.words import amount, hosts, name, quoted, some, span

_ORDER: dict[Severity, int] = {"act": 0, "fault": 1, "stale": 2, "idle": 3}
_MOST_OBJECTS = 200
_COMPLETING_S = 600
_SKEW_S = 60
_EXHAUSTED = 0.01
_SYSTEM_HELD = frozenset({"launch failed", "environment", "max requeue", "requeued"})


def attention(snapshot: Snapshot, derived: pl.DataFrame | None = None) -> tuple[Attention, ...]:
    """Return what needs a person, by severity, then oldest first.

    `derived` is what `console.derived.derive` made of this snapshot; it is made here where it is not given.
    """
    if derived is None:
        from console.derived import derive

        derived = derive(snapshot)
    board = Board(snapshot)
    items: list[Attention] = [
        *_waiting(board, derived),
        *_completing(board),
        *_partitions(board, derived),
        *_reservations(board),
        *_nodes(board),
        *_devices(board),
        *_stale(board),
        *_stranded(board),
    ]
    far = datetime.max.replace(tzinfo=board.now.tzinfo)
    return tuple(sorted(items, key=lambda one: (_ORDER[one.severity], one.since or far)))


def _item(board: Board, severity: Severity, what: str, **more: Any) -> Attention:
    return Attention(severity=severity, cluster=board.snapshot.meta.cluster, what=what, **more)


def _waiting(board: Board, derived: pl.DataFrame) -> list[Attention]:
    """Return pending jobs that wait in vain, grouped by why."""
    waiting = derived.filter((pl.col("state") == "pending") & pl.col("verdict").is_in(["NEVER", "ACT"]))
    if waiting.is_empty():
        return []
    groups = waiting.group_by("verdict", "reason_raw", "why", maintain_order=True).agg(
        pl.col("id"), pl.col("user").unique().sort(), pl.col("submit_time").min(), pl.col("tasks").fill_null(1).sum()
    )
    merged: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for group in groups.to_dicts():
        if (kind := _kind(group)) is not None:
            merged.setdefault(kind, []).append(group)
    return [_group_item(board, kind, members) for kind, members in merged.items()]


def _kind(group: dict[str, Any]) -> tuple[str, str] | None:
    """Return what a group is told as, or None where no one but its owner need know (a user's hold, a throttle)."""
    reason = classify(group["reason_raw"])
    if group["verdict"] == "NEVER":
        return ("dependency", "") if reason.topic == "dependency" else ("never", group["why"])
    if reason.topic == "held" and reason.tail in _SYSTEM_HELD:
        return "held", group["why"]
    if reason.topic in {"access", "invalid", "nodes"} or (reason.topic == "reservation"):
        return "act", group["why"]
    if reason.topic == "plain" and reason.verdict == "act":
        return "act", group["why"]
    return None


def _group_item(board: Board, kind: tuple[str, str], members: list[dict[str, Any]]) -> Attention:
    count = sum(group["tasks"] for group in members)
    ids = tuple(job for group in members for job in group["id"] if job)
    users = sorted({user for group in members for user in group["user"] if user})
    forms: dict[str, Callable[[], str]] = {
        "dependency": lambda: plural(
            "{count} job waits for a job that failed or is gone (DependencyNeverSatisfied)",
            "{count} jobs wait for a job that failed or is gone (DependencyNeverSatisfied)",
            count,
        ),
        "never": lambda: plural("{count} job can never start: {why}", "{count} jobs can never start: {why}", count),
        "held": lambda: plural("{count} job does not retry: {why}", "{count} jobs do not retry: {why}", count),
        "act": lambda: plural("{count} job waits in vain: {why}", "{count} jobs wait in vain: {why}", count),
    }
    since = [group["submit_time"] for group in members if group["submit_time"]]
    return _item(
        board,
        "act",
        forms[kind[0]]().format(count=f"{count:,}", why=kind[1]),
        since=min(since, default=None),
        who=some([name(user) for user in users], 2) if users else _("owner"),
        next_step=f"explain {name(ids[0])}" if ids else "",
        objects=ids[:_MOST_OBJECTS],
    )


def _completing(board: Board) -> list[Attention]:
    found = []
    for row in board.holding if board.completing else ():
        if row["state"] != "completing":
            continue
        lasts = (board.now - row["end_time"]).total_seconds() if row["end_time"] else None
        if lasts is not None and lasts < _COMPLETING_S:
            continue
        what = _("{job} has ended and still holds {gpus} on {nodes}, for {age}").format(
            job=name(row["id"]), gpus=amount(row["gpus"], "gpu"), nodes=hosts(row["nodelist"] or ()), age=span(lasts)
        )
        found.append(
            _item(
                board,
                "act",
                what,
                since=row["end_time"],
                who=_("ops"),
                next_step=f"explain {name(row['id'])}",
                objects=(row["id"],),
            )
        )
    return found


def _partitions(board: Board, derived: pl.DataFrame) -> list[Attention]:
    stopped = {
        row["id"]: row["state"] for row in board.snapshot.queues.to_dicts() if row["state"] in {"stopped", "draining"}
    }
    for part in board.rules.partitions:
        if part.state.upper() != "UP":
            stopped.setdefault(f"partition:{part.name}", part.state.lower())
    if not stopped:
        return []
    waiting = derived.filter(pl.col("state") == "pending").group_by("queue").agg(pl.col("tasks").fill_null(1).sum())
    counts = dict(waiting.iter_rows())
    found = []
    for queue, state in stopped.items():
        count = int(counts.get(queue) or counts.get(queue.partition(":")[2]) or 0)
        what = plural(
            "{queue} is {state}: it starts nothing, {count} job waits in it",
            "{queue} is {state}: it starts nothing, {count} jobs wait in it",
            count,
        ).format(queue=name(queue), state=name(state), count=f"{count:,}")
        found.append(_item(board, "act", what, who=_("ops"), next_step=f"start {name(queue)}", objects=(queue,)))
    return found


def _reservations(board: Board) -> list[Attention]:
    found = []
    for one in board.reservations:
        if one.kind == "maintenance" or (one.end is not None and one.end <= board.now):
            continue
        dead = sorted(host for host in one.nodes if host in board.by_name and board.by_name[host].out)
        if not dead and one.nodes:
            continue
        if not one.active(board.now) and not dead:
            continue
        if dead:
            what = _("reservation {name} is without {nodes}, which are out of service").format(
                name=name(one.name), nodes=hosts(dead)
            )
        else:
            what = _("reservation {name} has begun and holds no nodes").format(name=name(one.name))
        found.append(
            _item(
                board,
                "act",
                what,
                since=one.start if one.active(board.now) else None,
                who=_("ops"),
                next_step=f"get reservations --where name:{name(one.name)}",
                objects=(one.name, *dead),
            )
        )
    return found


def _nodes(board: Board) -> list[Attention]:
    """Return nodes that are out, or do not answer, grouped by state, reason and who wrote it."""
    groups: dict[tuple[str, str, str], list[Node]] = {}
    for node in board.nodes:
        silent = "NOT_RESPONDING" in node.raw or node.raw.endswith("*")
        if node.out or silent:
            state = node.state if node.out else "not responding"
            groups.setdefault((state, node.reason or "", node.reason_by or ""), []).append(node)
    return [_node_item(board, kind, members) for kind, members in groups.items()]


def _node_item(board: Board, kind: tuple[str, str, str], members: Sequence[Node]) -> Attention:
    state, reason, by = kind
    listed = hosts(node.name for node in members)
    gpus = None if any(node.gpus is None for node in members) else sum(node.gpus or 0.0 for node in members)
    lost = _("{gpus} lost").format(gpus=amount(gpus, "gpu")) if state in {"down", "drained"} else amount(gpus, "gpu")
    if reason:
        what = _("{nodes} {state}: {reason}, {lost}").format(
            nodes=listed, state=state, reason=quoted(reason), lost=lost
        )
    else:
        what = _("{nodes} {state} without a reason, {lost}").format(nodes=listed, state=state, lost=lost)
    if by:
        what += _(" (by {who})").format(who=name(by))
    if (device := device_cause(reason)) is not None and device[0] != Cause.NODE_OUT:
        what += f"; {device[1]}"
    times = [node.reason_time for node in members if node.reason_time]
    return _item(
        board,
        "fault",
        what,
        since=min(times, default=None),
        who=_("ops"),
        next_step=f"resume {listed}",
        objects=tuple(node.name for node in members),
    )


def _devices(board: Board) -> list[Attention]:
    gpus = board.snapshot.gpus
    remap = pl.col("row_remap").cast(pl.String)
    bad = gpus.filter((pl.col("state") == "faulty") | remap.is_in(["pending", "failed"]))
    found = []
    for node, rows in bad.group_by("node", maintain_order=True):
        host = str(node[0])
        parts = []
        for row in rows.to_dicts():
            xid = _(", Xid {xid}").format(xid=row["xid"]) if row["xid"] else ""
            fault = (
                _("row remap {state}").format(state=row["row_remap"])
                if row["row_remap"] in {"pending", "failed"}
                else _("faulty")
            )
            parts.append(_("GPU {index} {fault}{xid}").format(index=row["index"], fault=fault, xid=xid))
        since = rows["xid_time"].min()
        found.append(
            _item(
                board,
                "fault",
                f"{name(host)}: {some(parts)}",
                since=since if isinstance(since, datetime) else None,
                who=_("ops"),
                next_step=f"get gpus --where node:{name(host)}",
                objects=(host,),
            )
        )
    seen = {item.objects[0] for item in found}
    for one in board.snapshot.nodes.filter(pl.col("gpus_unusable") > 0).to_dicts():
        if one["name"] in seen or one["state"] in {"down", "drained"}:
            continue
        what = _("{node}: {gpus} of {total} unusable").format(
            node=name(one["name"]), gpus=amount(one["gpus_unusable"], "gpu"), total=amount(one["gpus"], "gpu")
        )
        found.append(
            _item(
                board,
                "fault",
                what,
                who=_("ops"),
                next_step=f"get gpus --where node:{name(one['name'])}",
                objects=(one["name"],),
            )
        )
    return found


def _stale(board: Board) -> list[Attention]:
    found = []
    for gap in board.snapshot.gaps:
        affects = some([name(what) for what in gap.affects]) or _("something")
        what = _("{source} could not be read ({reason}): {affects} unknown since then, not zero").format(
            source=name(gap.source), reason=quoted(gap.reason), affects=affects
        )
        found.append(
            _item(board, "stale", what, since=gap.since, who=_("ops"), next_step="doctor", objects=gap.affects)
        )
    skew = board.snapshot.meta.clock_skew_s
    if skew is not None and abs(skew) > _SKEW_S:
        what = _("its clock is {skew} off from this machine's: ages are off by as much").format(skew=span(abs(skew)))
        found.append(_item(board, "stale", what, who=_("ops"), next_step="doctor"))
    return found


def _stranded(board: Board) -> list[Attention]:
    """Return nodes whose free GPUs nobody can use, because one job took the memory or the CPUs beside them."""
    found = []
    for node in board.nodes:
        if node.out or not node.gpus_free or node.gpus_free < 1:
            continue
        by_memory = node.memory and node.memory_free is not None and node.memory_free / node.memory < _EXHAUSTED
        by_cpu = node.cpus and node.cpus_free is not None and node.cpus_free / node.cpus < _EXHAUSTED
        if not by_memory and not by_cpu:
            continue
        column = "memory_bytes" if by_memory else "cpus"
        here = [row for row in board.holding if node.name in (row["nodelist"] or ())]
        holder = max(here, key=lambda row: (row[column] or 0.0) / (len(row["nodelist"]) or 1), default=None)
        word = _("memory") if by_memory else _("CPUs")
        what = _("{node}: {gpus} free but unusable, all {word} is taken").format(
            node=name(node.name), gpus=amount(node.gpus_free, "gpu"), word=word
        )
        if holder is not None:
            what += _(" ({job} of {user} with {gpus})").format(
                job=name(holder["id"]), user=name(holder["user"]), gpus=amount(holder["gpus"], "gpu")
            )
        found.append(
            _item(
                board,
                "idle",
                what,
                since=holder["start_time"] if holder else None,
                who=name(holder["user"]) if holder else _("owner"),
                next_step=f"explain {name(holder['id'])}" if holder else f"get nodes --where name:{name(node.name)}",
                objects=(node.name, holder["id"]) if holder else (node.name,),
            )
        )
    return found
