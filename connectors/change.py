"""What somebody intends, what it means natively, and what came of it.

    Change       one intended modification; can be planned and applied
    Supposition  one thing assumed in a what-if; a type of its own, so that it can never reach `plan()`
    Plan         resolved changes as native steps, with what they expect of the ground and their inverse
    Receipt      the system's answers and what reading back showed

All are frozen msgspec structs: they cross the pipe to the screen and go into the audit log as they are. Their written
form is the change language of cli.md (`connectors.language`). Figures: None is "not named", +inf is `unlimited`.
Times are UTC, durations seconds.
"""

from datetime import datetime
from typing import Literal

import msgspec

Scalar = str | float | bool | None


class SetQuota(msgspec.Struct, frozen=True, kw_only=True, tag="quota"):
    """Set figures of a queue's quota; `gpus` is the figure that the system itself calls the quota (`quotas.main`)."""

    queue: str
    gpus: float | None = None
    nominal: float | None = None
    limit: float | None = None
    borrow: float | None = None
    lend: float | None = None
    weight: float | None = None
    max_run_s: float | None = None
    model: str | None = None
    resource: str = "gpu"


class Reserve(msgspec.Struct, frozen=True, kw_only=True, tag="reserve"):
    """Keep GPUs or named nodes free for some users or accounts from start to end.

    Before `resolve`, `gpus` and `model` may stand in place of `nodes`, and `users` and `accounts` may be empty.
    """

    name: str
    start: datetime
    end: datetime
    gpus: float | None = None
    model: str | None = None
    nodes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


class Unreserve(msgspec.Struct, frozen=True, kw_only=True, tag="unreserve"):
    """Drop a reservation."""

    name: str


class Hold(msgspec.Struct, frozen=True, kw_only=True, tag="hold"):
    """Keep a pending job from starting."""

    job: str


class Release(msgspec.Struct, frozen=True, kw_only=True, tag="release"):
    """Let a held job start again."""

    job: str


class Cancel(msgspec.Struct, frozen=True, kw_only=True, tag="cancel"):
    """End a job, running or not."""

    job: str


class Requeue(msgspec.Struct, frozen=True, kw_only=True, tag="requeue"):
    """Stop a running job and put it back into its queue."""

    job: str


class SetPriority(msgspec.Struct, frozen=True, kw_only=True, tag="priority"):
    """Set a job's priority to the system's own figure."""

    job: str
    value: float


class Drain(msgspec.Struct, frozen=True, kw_only=True, tag="drain"):
    """Let nodes finish what they run and take nothing new; the reason is kept by the system."""

    nodes: tuple[str, ...]
    reason: str


class Resume(msgspec.Struct, frozen=True, kw_only=True, tag="resume"):
    """Put drained or down nodes back into service."""

    nodes: tuple[str, ...]


class StopQueue(msgspec.Struct, frozen=True, kw_only=True, tag="stop"):
    """Start no more jobs from a queue; running ones go on."""

    queue: str


class StartQueue(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """Let a stopped queue start jobs again."""

    queue: str


Change = (
    SetQuota
    | Reserve
    | Unreserve
    | Hold
    | Release
    | Cancel
    | Requeue
    | SetPriority
    | Drain
    | Resume
    | StopQueue
    | StartQueue
)


class Submit(msgspec.Struct, frozen=True, kw_only=True, tag="submit"):
    """Suppose that `count` jobs like this were submitted now; `like` copies a job's shape, named figures win."""

    like: str | None = None
    gpus: float | None = None
    nodes: int | None = None
    model: str | None = None
    run_s: float | None = None
    queue: str | None = None
    user: str | None = None
    count: int = 1


class Reshape(msgspec.Struct, frozen=True, kw_only=True, tag="reshape"):
    """Suppose that a pending job asked for something else."""

    job: str
    gpus: float | None = None
    nodes: int | None = None
    model: str | None = None
    limit_s: float | None = None
    queue: str | None = None


class AddNodes(msgspec.Struct, frozen=True, kw_only=True, tag="add"):
    """Suppose that `nodes` more nodes of `gpus` GPUs each were there."""

    nodes: int
    gpus: float
    model: str | None = None


class RemoveNodes(msgspec.Struct, frozen=True, kw_only=True, tag="remove"):
    """Suppose that these nodes were gone at once, with what runs on them."""

    nodes: tuple[str, ...]


class UsePolicy(msgspec.Struct, frozen=True, kw_only=True, tag="policy"):
    """Suppose that another scheduling policy ruled."""

    name: str


Supposition = Submit | Reshape | AddNodes | RemoveNodes | UsePolicy
CHANGE_TYPES: tuple[type[msgspec.Struct], ...] = Change.__args__
SUPPOSITION_TYPES: tuple[type[msgspec.Struct], ...] = Supposition.__args__


def verb(item: Change | Supposition) -> str:
    """Return the word of the change language that this is written with."""
    return str(item.__struct_config__.tag)


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """One value that the plan stands on, or that must be read back after it.

    `table` and `column` are those of model.md; `key` finds the row: a job's key, a node's or a reservation's name, a
    queue's id, for quotas `queue|resource|model` (an empty model for null). `exists=False` expects that there is no
    such row, `column=""` that there is one, whatever it holds. Of a list column a tuple is compared as a set, of any
    other column it names the values that will do. A figure is compared within a millionth, None with null, a time by
    its text (`2026-12-01T20:00:00Z`). `is_not` turns the comparison round; `or_gone` accepts that the row is gone.
    """

    table: str
    key: str
    column: str
    value: Scalar | tuple[str, ...] = None
    exists: bool = True
    is_not: bool = False
    or_gone: bool = False


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One native step: `says` for people, `native` as one would type or read it, `argv` where a command is run.

    `argv` never passes a shell unquoted; `body` is the request body of a system that is spoken to over HTTP. `results`
    and `undo` are this step's alone, so that a plan that was carried out in part can be read back and taken back.
    """

    says: str
    native: str
    argv: tuple[str, ...] = ()
    body: str | None = None
    results: tuple[Expectation, ...] = ()
    undo: tuple[Change, ...] | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Resolved changes as native steps of one cluster.

    `expects` is checked against a fresh reading before anything is sent, `results` against one after. `inverse` is
    None where there is none (`why_no_inverse` says why). `notes` are things a person should know first.
    """

    cluster: str
    system: str
    made_at: datetime
    changes: tuple[Change, ...]
    steps: tuple[Step, ...]
    expects: tuple[Expectation, ...]
    results: tuple[Expectation, ...]
    inverse: tuple[Change, ...] | None = None
    why_no_inverse: str | None = None
    notes: tuple[str, ...] = ()


class StepAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the system said to one step; `code` is an exit code or an HTTP status."""

    native: str
    code: int
    out: str
    err: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One value read back; `value` is what stands there now."""

    expected: Expectation
    value: Scalar | tuple[str, ...]
    ok: bool


Outcome = Literal["verified", "differs", "partial", "unread"]


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a plan.

    verified: carried out, and reading back shows it. differs: carried out, but something else is there. partial: a
    later step was refused. unread: carried out, but the system could not be read back.
    `undo` is the inverse of what was really carried out.
    """

    plan: Plan
    outcome: Outcome
    applied_at: datetime
    took_ms: float
    answers: tuple[StepAnswer, ...]
    found: tuple[Found, ...]
    undo: tuple[Change, ...] | None = None
    said: str | None = None
