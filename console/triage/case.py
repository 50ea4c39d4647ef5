"""One job under examination, and one thing found out about it."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from connectors.text import _
from console.triage.board import Board, Node, Row, own, partitions_of
from console.triage.diagnosis import Cause, Evidence, Finding, JobVerdict
from console.triage.limits import Limits
from console.triage.room import Room
from console.triage.slurm_reasons import Reason, classify
from console.triage.words import clock, name, quoted


@dataclass(frozen=True, slots=True)
class Found:
    """A finding, the verdict that it alone would give, and the same in a few words for the queue screen."""

    finding: Finding
    verdict: JobVerdict
    short: str


@dataclass
class Case:
    """A job, its cluster and its reason; `brief` leaves out evidence that only the panel shows."""

    board: Board
    limits: Limits
    row: Row
    brief: bool = False
    reason: Reason = field(init=False)

    def __post_init__(self) -> None:
        """Read the reason."""
        self.reason = classify(self.row.get("reason_raw"))

    @property
    def now(self) -> datetime:
        """Return the time of the snapshot."""
        return self.board.now

    @property
    def id(self) -> str:
        """Return the job's id, made safe."""
        return name(self.row["id"])

    @property
    def raw(self) -> str:
        """Return the system's own reason, made safe."""
        return quoted(self.row.get("reason_raw") or "None")

    @cached_property
    def room(self) -> Room:
        """Return the nodes that could take the job."""
        return Room(self.board, self.row)

    @property
    def partitions(self) -> tuple[str, ...]:
        """Return the partitions that it asked for."""
        return partitions_of(self.row)

    @property
    def partition(self) -> str:
        """Return its partitions as words."""
        return name(",".join(self.partitions))

    @property
    def account(self) -> str | None:
        """Return its account."""
        value: str | None = own(self.row, "slurm_account", "team")
        return value

    @property
    def qos(self) -> str | None:
        """Return its QOS."""
        value: str | None = self.row.get("slurm_qos")
        return value

    def when(self, moment: datetime | None) -> str:
        """Return a moment as words."""
        return clock(moment, self.now)

    def evidence(self, source: str, text: str) -> Evidence:
        """Return one fact as of the snapshot."""
        return Evidence(source=source, text=text, as_of=self.now)

    def stated(self) -> Evidence:
        """Return the system's own word as evidence."""
        source = "squeue" if self.board.snapshot.meta.system == "slurm" else self.board.snapshot.meta.system
        return self.evidence(source, f"State={quoted(self.row.get('state_raw') or '?')} Reason={self.raw}")

    def node_evidence(self, node: Node) -> Evidence:
        """Return what the node list says of one node."""
        return self.evidence("scontrol show node" if self.board.has_rules else "nodes", node_text(node, self.now))

    def found(
        self,
        cause: Cause,
        verdict: JobVerdict,
        short: str,
        says: str,
        *evidence: Evidence,
        stated: bool = True,
        clears_at: datetime | None = None,
        who: str | None = None,
        next_step: str | None = None,
        counterfactual: str | None = None,
    ) -> Found:
        """Return a finding; a stated one carries the system's own word as its first evidence."""
        facts = (self.stated(), *evidence) if stated and not self.brief else evidence
        finding = Finding(
            cause=cause,
            says=says,
            stated_by="system" if stated else "derived",
            evidence=facts,
            clears_at=clears_at,
            who_acts=who,
            next_step=next_step,
            counterfactual=counterfactual,
        )
        return Found(finding=finding, verdict=verdict, short=short)


def node_text(node: Node, now: datetime) -> str:
    """Return `gn07 is down (Not responding; by root since 02:14)`."""
    state = name((node.raw or node.state).lower())
    parts = [quoted(node.reason)] if node.reason else []
    if node.reason_by or node.reason_time:
        by = _("by {who}").format(who=name(node.reason_by)) if node.reason_by else ""
        since = _("since {when}").format(when=clock(node.reason_time, now)) if node.reason_time else ""
        parts.append(" ".join(part for part in (by, since) if part))
    text = _("{node} is {state}").format(node=name(node.name), state=state)
    return f"{text} ({'; '.join(parts)})" if parts else text
