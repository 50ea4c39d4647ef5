"""The protocol that every connector speaks, what it says of itself, and how connectors are found.

A connector is a class with the methods of `Connector`, named in the entry-point group `gpudeck.connectors` under its
system's name. Third parties add one by shipping such an entry point; `tests/contract.py` is the suite it must pass.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import msgspec

from connectors.change import Change, Plan, Receipt
from connectors.errors import NotFound

if TYPE_CHECKING:  # polars must not load before the first frame (design.md, "Imports are lazy")
    import polars as pl

    from connectors.model import Snapshot

ENTRY_POINTS = "gpudeck.connectors"


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """What could not be read: which source, why, since when, and which tables or `table.column`s it leaves null."""

    source: str
    reason: str
    since: datetime
    affects: tuple[str, ...] = ()


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a connector can do here: tables it reads, verbs of the change language it writes, and what it cannot."""

    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()
    history: bool = False
    logs: bool = False
    watches: bool = False
    cannot: tuple[str, ...] = ()


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """Where a snapshot comes from; `took_ms` and `calls` are the load that one refresh put on the system.

    `clock_skew_s` is the cluster's clock minus ours; `user` is whom the system takes us for.
    """

    cluster: str
    system: str
    version: str | None
    taken_at: datetime
    took_ms: float | None = None
    calls: int | None = None
    clock_skew_s: float | None = None
    user: str | None = None
    capabilities: Capabilities


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One raw answer: what was asked, the exit code or HTTP status, and the bytes that came back."""

    asked: str
    code: int
    out: bytes
    err: bytes = b""
    took_ms: float | None = None


class Raw(msgspec.Struct, frozen=True, kw_only=True):
    """The raw answers of one refresh, by name: what `capture` writes and `--captured` reads."""

    system: str
    cluster: str
    taken_at: datetime
    took_ms: float | None = None
    answers: dict[str, Answer] = {}
    notes: dict[str, str] = {}


@runtime_checkable
class Connector(Protocol):
    """Speaks to one system. All coroutines raise the family of `connectors.errors` and nothing else.

    `observe` ends by raising; whoever consumes it decides when to begin again. Snapshots come at most one a second.
    """

    system: ClassVar[str]
    cluster: str

    @classmethod
    def open(cls, cluster: str, settings: Mapping[str, Any], *, captured: Path | None = None) -> Self:
        """Make a connector from its table of the config; BadWords names a key that is wrong. Connects to nothing yet.

        With `captured`, the answers come from that folder and nothing can be written.
        """
        ...

    @property
    def capabilities(self) -> Capabilities:
        """Return what can be done here, as far as it is known by now."""
        ...

    @property
    def interval_s(self) -> float | None:
        """Return the seconds between two readings of `observe` as it is now; None where the system is watched."""
        ...

    @property
    def slowed(self) -> bool:
        """Return whether that is longer than was asked for, because the system is slow."""
        ...

    async def read(self, *, everything: bool = False) -> Raw:
        """Ask the system once and return its raw answers.

        A connector may reuse, for a minute at most, answers that change slowly; not with `everything`, which is how
        the ground of a plan is read.
        """
        ...

    def interpret(self, raw: Raw) -> "Snapshot":
        """Return what the raw answers mean; what can't be read becomes a gap. Pure. Malformed if nothing is left."""
        ...

    def observe(self) -> AsyncIterator["Snapshot"]:
        """Yield snapshots, politely, until it fails."""
        ...

    async def history(self, since: datetime) -> "pl.DataFrame":
        """Return the jobs that ended since then, in the schema of `jobs`; Unsupported where the system keeps none."""
        ...

    def resolve(self, change: Change, snapshot: "Snapshot") -> tuple[Change, ...]:
        """Return what the change means here: full ids, chosen nodes, the figure that this system calls the quota.

        Pure. NotFound, Ambiguous, Unsupported, or BadWords when it makes no sense here.
        """
        ...

    def plan(self, changes: Sequence[Change], snapshot: "Snapshot") -> Plan:
        """Return the native steps of resolved changes, what they expect of the ground, and their inverse. Pure."""
        ...

    async def apply(self, plan: Plan) -> Receipt:
        """Check the ground, carry the steps out, read back.

        Raises Moved before anything was sent, NotPermitted or Refused when nothing was changed; anything that was
        carried out, wholly or in part, is a Receipt.
        """
        ...

    def logs(self, job: str) -> AsyncIterator[str]:
        """Yield the job's output, line by line; Unsupported where the system has none to give."""
        ...

    async def close(self) -> None:
        """Drop the connection; closing twice is fine."""
        ...


def connector_class(system: str) -> type[Connector]:
    """Return the connector of that system from its entry point; NotFound names the systems that are installed."""
    found = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if system not in found:
        raise NotFound("system", system, near=sorted(found), hint=f"installed: {', '.join(sorted(found)) or 'none'}")
    loaded: type[Connector] = found[system].load()
    return loaded


def installed_systems() -> tuple[str, ...]:
    """Return the names of all systems that a connector is installed for."""
    return tuple(sorted({entry.name for entry in entry_points(group=ENTRY_POINTS)}))
