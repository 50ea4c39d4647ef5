"""The error family. Every failure that a person is told of is one of these.

    GpudeckError             exit 1  a fault of gpudeck's own, unless a subclass says otherwise
    ├── BadWords             exit 2  the words of the call: a change, a filter, a config file (text, position)
    │   └── Ambiguous        exit 2  a name that stands for several things (name, candidates)
    ├── NotFound             exit 3  no such cluster, job, queue, node or reservation (kind, name, near)
    ├── ReadOnly             exit 5  gpudeck itself may not write here (cluster)
    ├── CheckFailed          exit 7  a check that was asked for did not pass (findings)
    └── ConnectorError       exit 4  a cluster could not be read (cluster, source)
        ├── Unreachable      exit 4  no connection or no answer in time (retry_after_s)
        ├── Malformed        exit 4  an answer that can't be read (excerpt)
        ├── Unsupported      exit 5  this system, or this version of it, cannot do that (capability)
        ├── NotPermitted     exit 5  the system says that this user may not (said)
        ├── Refused          exit 5  the system says no for another reason (said)
        └── Moved            exit 5  the ground is not what the plan expected (moved)

`str(error)` is one line: what, where, and what to do. The data stand in attributes; text that came from outside is
kept raw there and made safe where it is printed.
"""

from collections.abc import Sequence
from typing import ClassVar


def _one_line(text: str) -> str:
    return " ".join(text.split())


class GpudeckError(Exception):
    """A failure that a person is told of, in one line; `hint` says what to do."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, hint: str | None = None) -> None:
        """Keep `what` happened (and where) and the `hint`; line breaks become blanks."""
        super().__init__(what)
        self.what = _one_line(what)
        self.hint = None if hint is None else _one_line(hint)

    def __str__(self) -> str:
        """Return one line: what, where, and what to do."""
        return self.what if self.hint is None else f"{self.what} ({self.hint})"


class BadWords(GpudeckError):
    """The words of a call can't be understood; `position` counts characters in `text` from 0."""

    exit_code = 2

    def __init__(self, what: str, *, text: str = "", position: int | None = None, hint: str | None = None) -> None:
        """Keep the text that was read and where reading stopped."""
        super().__init__(what, hint=hint)
        self.text = text
        self.position = position


class Ambiguous(BadWords):
    """A name that stands for several things."""

    def __init__(self, name: str, candidates: Sequence[str], *, kind: str = "name") -> None:
        """Keep the candidates, each of which would have been understood."""
        super().__init__(f"{kind} {name!r} is ambiguous: {', '.join(candidates)}", text=name, hint="name one of them")
        self.candidates = tuple(candidates)


class NotFound(GpudeckError):
    """There is no such object; `near` holds names that look like it."""

    exit_code = 3

    def __init__(
        self, kind: str, name: str, *, cluster: str | None = None, near: Sequence[str] = (), hint: str | None = None
    ) -> None:
        """Keep what was asked for and what comes near."""
        where = f" on {cluster}" if cluster else ""
        if hint is None and near:
            hint = "did you mean " + ", ".join(near) + "?"
        super().__init__(f"no such {kind}{where}: {name!r}", hint=hint)
        self.kind = kind
        self.name = name
        self.cluster = cluster
        self.near = tuple(near)


class ReadOnly(GpudeckError):
    """Writing to this cluster is switched off in gpudeck."""

    exit_code = 5

    def __init__(self, cluster: str) -> None:
        """Keep the cluster's name."""
        super().__init__(
            f"{cluster} is read-only here, nothing was changed",
            hint=f"add --write, or access = 'write' under [clusters.{cluster}]",
        )
        self.cluster = cluster


class CheckFailed(GpudeckError):
    """A check that was asked for did not pass."""

    exit_code = 7

    def __init__(self, what: str, *, findings: Sequence[str] = (), hint: str | None = None) -> None:
        """Keep each finding as a line of its own."""
        super().__init__(what, hint=hint)
        self.findings = tuple(findings)


class ConnectorError(GpudeckError):
    """A cluster, or one `source` of it (a command, a route), failed."""

    exit_code = 4

    def __init__(self, what: str, *, cluster: str, source: str, hint: str | None = None) -> None:
        """Keep where it happened; the message begins with the cluster."""
        super().__init__(f"{cluster}: {source}: {what}", hint=hint)
        self.cluster = cluster
        self.source = source
        self.detail = _one_line(what)


class Unreachable(ConnectorError):
    """No connection, or no answer in time; `retry_after_s` where the system says when to come back."""

    def __init__(
        self, what: str, *, cluster: str, source: str, retry_after_s: float | None = None, hint: str | None = None
    ) -> None:
        """Keep when to try again."""
        super().__init__(what, cluster=cluster, source=source, hint=hint)
        self.retry_after_s = retry_after_s


class Malformed(ConnectorError):
    """An answer that can't be read as what it should be; `excerpt` holds its beginning."""

    def __init__(self, what: str, *, cluster: str, source: str, excerpt: str = "", hint: str | None = None) -> None:
        """Keep the beginning of the answer."""
        super().__init__(what, cluster=cluster, source=source, hint=hint)
        self.excerpt = excerpt[:400]


class Unsupported(ConnectorError):
    """This system, or this version of it, cannot do that."""

    exit_code = 5

    def __init__(self, what: str, *, cluster: str, capability: str, hint: str | None = None) -> None:
        """Keep which capability is missing."""
        super().__init__(what, cluster=cluster, source=capability, hint=hint)
        self.capability = capability


class NotPermitted(ConnectorError):
    """The system says that this user may not; `said` holds its own words, `unchanged` what reading back showed.

    `unchanged` is True when reading back showed the old state, None when it could not be read back.
    """

    exit_code = 5

    def __init__(
        self, what: str, *, cluster: str, source: str, said: str, unchanged: bool | None = None, hint: str | None = None
    ) -> None:
        """Keep the system's own words."""
        super().__init__(what, cluster=cluster, source=source, hint=hint)
        self.said = said
        self.unchanged = unchanged


class Refused(NotPermitted):
    """The system says no for a reason other than permission; the fields are the same."""


class Moved(ConnectorError):
    """The ground is not what the plan expected; `moved` says what, expected against found."""

    exit_code = 5

    def __init__(self, moved: Sequence[str], *, cluster: str) -> None:
        """Keep each difference as words."""
        super().__init__(
            "the ground has moved since the plan: " + "; ".join(moved) + "; nothing was changed",
            cluster=cluster,
            source="plan",
            hint="look again and plan anew",
        )
        self.moved = tuple(moved)
