"""Steps on reservations: `scontrol create reservation` and `scontrol delete`."""

from datetime import UTC, datetime
from typing import Any

import polars as pl

from connectors.change import Change, Expectation, Reserve, Unreserve
from connectors.model import ACTIVE_STATES
from connectors.notation import format_hostlist, format_when
from connectors.slurm.ledger import Draft, Ledger
from connectors.slurm.placing import OUT_OF_SERVICE, blockers
from connectors.slurm.targets import check_name, few
from connectors.text import _, plural

_SET_BY_SLURM = frozenset({"SPEC_NODES", "ALL_NODES"})


def reserve(change: Reserve, ledger: Ledger) -> Draft:
    """Return `scontrol create reservation`, with every node named and the times in UTC whatever the cluster's zone."""
    argv = _create(change)
    ledger.expect(Expectation(table="reservations", key=change.name, column="", exists=False))
    for node in change.nodes:
        if ledger.row("nodes", node).get("state") not in OUT_OF_SERVICE:
            ledger.expect(
                Expectation(table="nodes", key=node, column="state", value=("draining", "drained", "down"), is_not=True)
            )
    gpus = sum(float(ledger.row("nodes", node).get("gpus") or 0) for node in change.nodes)
    return Draft(
        says=_("reserve {nodes} ({gpus}) for {whom} from {start} to {end}").format(
            nodes=format_hostlist(change.nodes),
            gpus=plural("{count} GPU", "{count} GPUs", round(gpus)).format(count=f"{gpus:g}"),
            whom=", ".join((*change.users, *change.accounts)),
            start=format_when(change.start),
            end=format_when(change.end),
        ),
        argv=argv,
        results=_reserved(change),
        undo=(Unreserve(name=change.name),),
        notes=_notes(change, ledger),
    )


def unreserve(change: Unreserve, ledger: Ledger) -> Draft:
    """Return `scontrol delete reservationname=...`."""
    row = ledger.row("reservations", change.name)
    for column in ("start_time", "end_time", "nodelist", "users", "accounts"):
        ledger.value("reservations", change.name, column)
    undo, why = _again(row, ledger)
    return Draft(
        says=_("drop reservation {name} ({nodes}, until {end})").format(
            name=change.name,
            nodes=format_hostlist(row.get("nodelist") or ()),
            end=_("unknown") if row.get("end_time") is None else format_when(row["end_time"]),
        ),
        argv=("scontrol", "delete", f"reservationname={check_name(change.name, 'reservation')}"),
        results=(Expectation(table="reservations", key=change.name, column="", exists=False),),
        undo=undo,
        why_no_undo=why,
        notes=_jobs_inside(change.name, ledger),
    )


def _create(change: Reserve) -> tuple[str, ...]:
    nodes = format_hostlist(check_name(node, "node name") for node in change.nodes)
    if not nodes or not (change.users or change.accounts):
        raise ValueError("a reservation without nodes, or for nobody, is not resolved")
    words = [f"ReservationName={check_name(change.name, 'reservation')}"]
    words += [f"StartTime={_moment(change.start)}", f"EndTime={_moment(change.end)}", f"Nodes={nodes}"]
    if change.users:
        words.append("Users=" + ",".join(check_name(name, "user name") for name in change.users))
    if change.accounts:
        words.append("Accounts=" + ",".join(check_name(name, "account name") for name in change.accounts))
    if change.flags:
        words.append("Flags=" + ",".join(change.flags))
    # scontrol reads times in its own zone; that of the login node may be anything
    return ("env", "TZ=UTC0", "scontrol", "create", "reservation", *words)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _reserved(change: Reserve) -> tuple[Expectation, ...]:
    values: dict[str, str | tuple[str, ...]] = {
        "start_time": format_when(change.start),
        "end_time": format_when(change.end),
        "nodelist": change.nodes,
    }
    values |= {name: some for name, some in (("users", change.users), ("accounts", change.accounts)) if some}
    return tuple(
        Expectation(table="reservations", key=change.name, column=column, value=value)
        for column, value in values.items()
    )


def _notes(change: Reserve, ledger: Ledger) -> tuple[str, ...]:
    found = blockers(change, ledger.snapshot)
    ways = [str(one) for node in change.nodes for one in found.get(node, ())]
    notes: list[str] = []
    ignores = "IGNORE_JOBS" in {flag.upper() for flag in change.flags}
    if ways and ignores:
        notes.append(_("in the way, and left alone (IGNORE_JOBS): {ways}").format(ways=few(ways)))
    elif ways:
        notes.append(
            _("in the way: {ways}; IGNORE_JOBS is not used, so Slurm will refuse (26.05 takes it nevertheless)").format(
                ways=few(ways)
            )
        )
    if change.users and change.accounts:
        notes.append(_("with users and accounts given, a job must match both"))
    return tuple(notes)


def _again(row: dict[str, Any], ledger: Ledger) -> tuple[tuple[Change, ...] | None, str]:
    """Return the reservation as a change, if the change language can say all of it."""
    nodes = tuple(row.get("nodelist") or ())
    users, accounts = tuple(row.get("users") or ()), tuple(row.get("accounts") or ())
    whole = sum(float(ledger.row("nodes", node).get("gpus") or 0) for node in nodes)
    if row.get("start_time") is None or row.get("end_time") is None or not nodes:
        return None, _("the reservation's times or nodes are not known")
    if (not users and not accounts) or row.get("slurm_partition"):
        return None, _("the reservation is for groups or partitions, which gpudeck does not set")
    if row.get("gpus") is not None and row["gpus"] < whole:
        return None, _("the reservation holds part of its nodes, and gpudeck reserves whole ones")
    if any(name.startswith("-") for name in (*users, *accounts)):
        return None, _("the reservation excludes users or accounts, which gpudeck does not set")
    flags = tuple(flag for flag in row.get("flags") or () if flag not in _SET_BY_SLURM)
    again = Reserve(
        name=row["name"],
        start=row["start_time"],
        end=row["end_time"],
        nodes=nodes,
        users=users,
        accounts=accounts,
        flags=flags,
    )
    return (again,), ""


def _jobs_inside(name: str, ledger: Ledger) -> tuple[str, ...]:
    jobs = ledger.snapshot.jobs
    if "slurm_reservation" not in jobs.columns:
        return ()
    inside = jobs.filter((pl.col("slurm_reservation") == name) & pl.col("state").cast(pl.String).is_in(ACTIVE_STATES))
    if inside.is_empty():
        return ()
    return (_("jobs run in it or wait for it, so Slurm will refuse: {jobs}").format(jobs=few(inside["id"])),)
