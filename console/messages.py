"""What the screen and the engine say to each other, over a pipe or in one process.

Only msgspec and the standard library: the first frame is drawn from these before anything heavy is imported.
"""

from datetime import datetime
from functools import cache
from typing import Any, Literal

import msgspec

from connectors.change import Plan, Receipt
from connectors.connector import Capabilities, Gap
from console.scheduling.forecast import Forecast, WhatIf
from console.triage.diagnosis import Attention, Diagnosis

ClusterState = Literal["connecting", "ok", "act", "stale", "failed"]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one cluster for the fleet view; None is unknown.

    lost: GPUs on nodes that are down or drained, or unusable. free: in service and not allocated. place8: jobs of one
    whole 8-GPU node (or the largest node's GPUs, if smaller) that fit now. oldest_wait_s: of the oldest pending job
    that is not held. never: pending jobs that cannot start as they stand. start_p50_s: forecast wait of a new such job.
    """

    nodes: int | None = None
    nodes_lost: int | None = None
    gpus: float | None = None
    gpus_allocated: float | None = None
    gpus_free: float | None = None
    gpus_lost: float | None = None
    place8: int | None = None
    busy_ratio: float | None = None
    running: int | None = None
    pending: int | None = None
    pending_gpus: float | None = None
    never: int | None = None
    oldest_wait_s: float | None = None
    start_p50_s: float | None = None


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True, tag="status"):
    """One cluster as the engine sees it now. `since` is when `state` began; `error` is one line, made safe.

    `interval_s` says how often it is asked now, `slowed` whether that was stretched because the system is slow.
    """

    cluster: str
    system: str
    state: ClusterState
    since: datetime
    access: Literal["read", "write"] = "read"
    version: str | None = None
    user: str | None = None
    error: str | None = None
    hint: str | None = None
    taken_at: datetime | None = None
    took_ms: float | None = None
    calls: int | None = None
    interval_s: float | None = None
    slowed: bool = False
    clock_skew_s: float | None = None
    gaps: tuple[Gap, ...] = ()
    capabilities: Capabilities | None = None
    summary: Summary = Summary()
    attention: tuple[Attention, ...] = ()


class Frames(msgspec.Struct, frozen=True, kw_only=True, tag="frames"):
    """The tables of one snapshot, each as Arrow IPC bytes (uncompressed); `jobs` carries the derived columns too."""

    cluster: str
    taken_at: datetime
    tables: dict[str, bytes]


class Proposal(msgspec.Struct, frozen=True, kw_only=True, tag="proposal"):
    """A change that waits for its word: what would be done, what would come of it, and the word to type.

    `whatif` is None where no forecast can be made, `whatif_error` then says why.
    """

    id: str
    cluster: str
    words: str
    plan: Plan
    confirm: str
    whatif: WhatIf | None = None
    whatif_error: str | None = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, tag="audit"):
    """One intent of the audit log with its outcome; `effects` are values before and after, `24 -> 28`."""

    receipt: str
    at: datetime
    cluster: str
    who: str
    words: str
    outcome: str
    effects: tuple[str, ...] = ()
    undone_by: str | None = None
    undoable: bool = False


# Requests: screen to engine. `Begin` comes first; every other carries an id that its answer repeats.
class Begin(msgspec.Struct, frozen=True, kw_only=True, tag="begin"):
    """How the engine is to begin: which clusters, from which config or capture, and whether it may write."""

    config: str | None = None
    clusters: tuple[str, ...] = ()
    captured: str | None = None
    write: bool = False
    timeout_s: float = 60.0
    language: str | None = None
    settings: dict[str, Any] = {}


class Watch(msgspec.Struct, frozen=True, kw_only=True, tag="watch"):
    """Send status and frames from now on; `tables` None means all."""

    id: int
    tables: tuple[str, ...] | None = None


class RefreshNow(msgspec.Struct, frozen=True, kw_only=True, tag="refresh"):
    """Read one cluster (or all) without waiting for its interval."""

    id: int
    cluster: str | None = None


class ExplainJob(msgspec.Struct, frozen=True, kw_only=True, tag="explain"):
    """Answer with a Diagnosis."""

    id: int
    cluster: str
    job: str


class AskWhatIf(msgspec.Struct, frozen=True, kw_only=True, tag="whatif"):
    """Answer with a WhatIf for changes and suppositions in the change language."""

    id: int
    cluster: str
    words: str


class AskForecast(msgspec.Struct, frozen=True, kw_only=True, tag="forecast"):
    """Answer with the baseline Forecast."""

    id: int
    cluster: str


class Propose(msgspec.Struct, frozen=True, kw_only=True, tag="propose"):
    """Answer with a Proposal; nothing is changed."""

    id: int
    cluster: str
    words: str


class ProposeUndo(msgspec.Struct, frozen=True, kw_only=True, tag="undo"):
    """Answer with a Proposal for the inverse of a receipt."""

    id: int
    receipt: str


class Commit(msgspec.Struct, frozen=True, kw_only=True, tag="commit"):
    """Carry a proposal out; `typed` must be its word. Answer with a Committed."""

    id: int
    proposal: str
    typed: str


class AskAudit(msgspec.Struct, frozen=True, kw_only=True, tag="ask-audit"):
    """Answer with the newest entries of the audit log."""

    id: int
    limit: int = 200


class Quit(msgspec.Struct, frozen=True, kw_only=True, tag="quit"):
    """End the engine."""

    id: int = 0


Request = Watch | RefreshNow | ExplainJob | AskWhatIf | AskForecast | Propose | ProposeUndo | Commit | AskAudit | Quit


# Answers and events: engine to screen.
class Committed(msgspec.Struct, frozen=True, kw_only=True, tag="committed"):
    """What came of a proposal: the receipt's name in the audit log and the receipt."""

    receipt_id: str
    receipt: Receipt


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """A request without an answer of its own was carried out."""


class AuditList(msgspec.Struct, frozen=True, kw_only=True, tag="audit-list"):
    """Newest first."""

    entries: tuple[AuditEntry, ...]


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """A request failed: one line, the exit code that the command line would give, and the kind of error."""

    message: str
    exit_code: int
    kind: str
    hint: str | None = None


class Explained(msgspec.Struct, frozen=True, kw_only=True, tag="explained"):
    """Answer to ExplainJob."""

    diagnosis: Diagnosis


class Foreseen(msgspec.Struct, frozen=True, kw_only=True, tag="foreseen"):
    """Answer to AskWhatIf."""

    whatif: WhatIf


class ForecastMade(msgspec.Struct, frozen=True, kw_only=True, tag="forecast-made"):
    """Answer to AskForecast."""

    forecast: Forecast


Answer = Explained | Foreseen | ForecastMade | Proposal | Committed | AuditList | Done | Failed


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag="reply"):
    """The answer to the request of that id."""

    id: int
    answer: Answer


class EngineDown(msgspec.Struct, frozen=True, kw_only=True, tag="engine-down"):
    """Made by the screen's side of the pipe: the engine ended; it is started again after `restart_in_s`."""

    why: str
    restart_in_s: float


class EngineUp(msgspec.Struct, frozen=True, kw_only=True, tag="engine-up"):
    """The engine runs and has read its config: these clusters, in this order."""

    clusters: tuple[str, ...]
    config: str


Event = ClusterStatus | Frames | Reply | EngineDown | EngineUp


def encode(message: Any) -> bytes:
    """Return the message as MessagePack."""
    return msgspec.msgpack.encode(message)


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return the decoder of a kind of message; made when first needed, since making one costs milliseconds."""
    return msgspec.msgpack.Decoder(kind)


def decode_request(data: bytes) -> Request:
    """Return the request; msgspec's own errors for anything else."""
    request: Request = _decoder(Request).decode(data)
    return request


def decode_event(data: bytes) -> Event:
    """Return the event; msgspec's own errors for anything else."""
    event: Event = _decoder(Event).decode(data)
    return event
