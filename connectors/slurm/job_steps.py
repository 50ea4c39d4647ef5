"""Steps on jobs: hold, release, requeue and priority by scontrol, cancel by scancel."""

from typing import Any

from connectors.change import Cancel, Expectation, Hold, Release, Requeue, SetPriority
from connectors.notation import parse_job_id
from connectors.slurm.ledger import Draft, Ledger
from connectors.slurm.targets import job_key, native_job
from connectors.text import _

_AT_WORK = ("pending", "running", "suspended")


def hold(change: Hold, ledger: Ledger) -> Draft:
    """Return `scontrol hold ID`."""
    key, row, notes = _ground(change.job, ledger)
    ledger.expect(Expectation(table="jobs", key=key, column="priority", value=0.0, is_not=True))
    user = ledger.snapshot.meta.user
    if user != row.get("user"):
        notes.append(_("an administrator's hold: the owner can't release it"))
    # a job that started just before is "held" too: it runs on, with priority 0
    waits = Expectation(table="jobs", key=key, column="state", value="pending")
    results, more = _read_back(
        change.job, key, row, Expectation(table="jobs", key=key, column="priority", value=0.0), waits
    )
    return Draft(
        says=_("hold job {job}").format(job=_named(change.job, row)),
        argv=("scontrol", "hold", native_job(change.job)),
        results=results,
        undo=(Release(job=change.job),),
        notes=(*notes, *more),
    )


def release(change: Release, ledger: Ledger) -> Draft:
    """Return `scontrol release ID`."""
    key, row, notes = _ground(change.job, ledger)
    if row.get("priority") == 0:
        ledger.expect(Expectation(table="jobs", key=key, column="priority", value=0.0))
    if row.get("reason_raw") == "JobHeldUser" and ledger.snapshot.meta.user != row.get("user"):
        notes.append(_("its owner held it; taking the release back makes it an administrator's hold"))
    wanted = Expectation(table="jobs", key=key, column="priority", value=0.0, is_not=True, or_gone=True)
    results, more = _read_back(change.job, key, row, wanted)
    return Draft(
        says=_("release job {job}").format(job=_named(change.job, row)),
        argv=("scontrol", "release", native_job(change.job)),
        results=results,
        undo=(Hold(job=change.job),),
        notes=(*notes, *more),
    )


def cancel(change: Cancel, ledger: Ledger) -> Draft:
    """Return `scancel ID`; scancel is silent and content with an id that does not exist, so the job is expected."""
    key, row, notes = _ground(change.job, ledger)
    gone = Expectation(table="jobs", key=key, column="state", value=_AT_WORK, is_not=True, or_gone=True)
    return Draft(
        says=_("cancel job {job}, which is {state}").format(job=_named(change.job, row), state=row.get("state")),
        argv=("scancel", native_job(change.job)),
        results=(gone,),
        undo=None,
        why_no_undo=_("a cancelled job can only be submitted again, by its owner"),
        notes=tuple(notes),
    )


def requeue(change: Requeue, ledger: Ledger) -> Draft:
    """Return `scontrol requeue ID`."""
    key, row, notes = _ground(change.job, ledger)
    notes.append(_("what job {job} did since its last checkpoint is lost").format(job=change.job))
    waits = Expectation(table="jobs", key=key, column="state", value=("pending", "completing"))
    return Draft(
        says=_("stop job {job} and put it back into its queue").format(job=_named(change.job, row)),
        argv=("scontrol", "requeue", native_job(change.job)),
        results=(waits,),
        undo=None,
        why_no_undo=_("the run that was stopped can't be gone on with; the job waits again"),
        notes=tuple(notes),
    )


def priority(change: SetPriority, ledger: Ledger) -> Draft:
    """Return `scontrol update jobid=ID priority=N`."""
    key, row, notes = _ground(change.job, ledger)
    notes.append(_("Slurm no longer works out the priority of {job} itself; hold and release hand it back").format(
        job=change.job
    ))  # fmt: skip
    wanted = Expectation(table="jobs", key=key, column="priority", value=change.value)
    results, more = _read_back(change.job, key, row, wanted)
    return Draft(
        says=_("set the priority of job {job} from {old} to {new}").format(
            job=_named(change.job, row),
            old=_("unknown") if row.get("priority") is None else f"{row['priority']:.15g}",
            new=f"{change.value:.15g}",
        ),
        argv=("scontrol", "update", f"jobid={native_job(change.job)}", f"priority={int(change.value)}"),
        results=results,
        undo=None,
        why_no_undo=_("the old priority was Slurm's own and moved with time; hold and release hand it back to Slurm"),
        notes=(*notes, *more),
    )


def _ground(job: str, ledger: Ledger) -> tuple[str, dict[str, Any], list[str]]:
    """Return the job's key, its row and what to know first; expects it to be the same job in the same state."""
    key = job_key(job, ledger.snapshot)
    row = ledger.row("jobs", key)
    notes: list[str] = []
    columns = ["user", "name", "state"]
    if parse_job_id(job).bracketed:
        columns.append("id")  # the tasks that wait: one that has started since is no longer meant
        notes.append(_("{job} stands for its waiting tasks only; those that run are left alone").format(job=job))
    elif "+" in str(row.get("id", "")) or row.get("chain"):
        notes.append(_("job {job} is heterogeneous: all its components are meant").format(job=native_job(job)))
    for column in columns:
        ledger.value("jobs", key, column)
    return key, row, notes


def _read_back(
    job: str, key: str, row: dict[str, Any], *wanted: Expectation
) -> tuple[tuple[Expectation, ...], tuple[str, ...]]:
    """Return what must be read back; nothing, and a note, for one task of a row that stands for several."""
    if row.get("id") in {job, key} or parse_job_id(job).bracketed:
        return wanted, ()
    return (), (
        _("squeue folds the waiting tasks of an array, so this can't be read back for {job} alone").format(job=job),
    )


def _named(job: str, row: dict[str, Any]) -> str:
    name, user = row.get("name"), row.get("user")
    return f"{job} ({name}, {user})" if name else job
