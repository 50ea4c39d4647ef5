"""What triage says of a job, and of a cluster: values only.

The classes are those of the taxonomy of on-call cases: ALL_BUSY, BEHIND_IN_LINE, QUOTA_FULL, NEVER_FITS, SHAPE_NO_FIT,
WINDOW, NODE_OUT, BAD_REQUEST, HELD, GATED, CLOSED_BY_ADMIN and so on; they are words of the interface (JSON `class`).
"""

from datetime import datetime
from enum import StrEnum
from typing import Literal

import msgspec

JobVerdict = Literal["wait", "act", "never", "unknown", "running", "ok"]


class Cause(StrEnum):
    """The classes of causes."""

    ALL_BUSY = "ALL_BUSY"
    BEHIND_IN_LINE = "BEHIND_IN_LINE"
    QUOTA_FULL = "QUOTA_FULL"
    BORROW_BLOCKED = "BORROW_BLOCKED"
    NEVER_FITS = "NEVER_FITS"
    SHAPE_NO_FIT = "SHAPE_NO_FIT"
    GANG_PARTIAL = "GANG_PARTIAL"
    GANG_DEADLOCK = "GANG_DEADLOCK"
    PLACEMENT_RULE = "PLACEMENT_RULE"
    WINDOW = "WINDOW"
    NODE_OUT = "NODE_OUT"
    DEVICE_FAULT = "DEVICE_FAULT"
    DEVICE_NOT_OFFERED = "DEVICE_NOT_OFFERED"
    BAD_REQUEST = "BAD_REQUEST"
    CLOSED_BY_ADMIN = "CLOSED_BY_ADMIN"
    HELD = "HELD"
    GATED = "GATED"
    STARTED_NOT_RUNNING = "STARTED_NOT_RUNNING"
    EVICTED = "EVICTED"
    CRASH_LOOP = "CRASH_LOOP"
    HOLDING_AFTER_END = "HOLDING_AFTER_END"
    ACCOUNT = "ACCOUNT"
    VENDOR_CAPACITY = "VENDOR_CAPACITY"
    CONTROL_PLANE = "CONTROL_PLANE"
    UNKNOWN = "UNKNOWN"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One fact: which tool or derivation it comes from, in words, and from when."""

    source: str
    text: str
    as_of: datetime


class Finding(msgspec.Struct, frozen=True, kw_only=True, rename={"cause": "class"}):
    """One cause. `says` is one sentence with the figures; `clears_at` None means: not known, or not by itself.

    `counterfactual` says what figure would change it ("with 4 GPUs instead of 8 it would fit the quota").
    """

    cause: Cause
    says: str
    stated_by: Literal["system", "derived"]
    evidence: tuple[Evidence, ...]
    clears_at: datetime | None = None
    who_acts: str | None = None
    next_step: str | None = None
    counterfactual: str | None = None


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """When it would start and what that rests on."""

    p50: datetime | None
    p90: datetime | None
    basis: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job does not run: causes in the order in which they bind."""

    job: str
    cluster: str
    verdict: JobVerdict
    says: str
    causes: tuple[Finding, ...]
    start: Start | None = None


Severity = Literal["act", "fault", "stale", "idle"]


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that needs a person: what, since when, who, and the next step as words of the command line."""

    severity: Severity
    cluster: str
    what: str
    since: datetime | None = None
    who: str = ""
    next_step: str = ""
    objects: tuple[str, ...] = ()
