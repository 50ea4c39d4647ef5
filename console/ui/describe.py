"""One job, node or cluster in full: what the tables cut or leave out."""

import math
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any

from connectors.text import _, plural
from console.messages import ClusterStatus
from console.ui.figures import age, clock, figure, gpu_words, moment, span
from console.ui.lines import Line, fit, safe, width_of, wrap


def job_words(row: Mapping[str, Any]) -> str:
    """Return `rl-ppo  gus / robot  32 GPUs on 4 nodes, h100, 12h` in safe text, leaving out what is not known."""
    parts = [safe(row["name"]) if row.get("name") is not None else "?"]
    owner = " / ".join(safe(row[name]) for name in ("user", "team") if row.get(name))
    if owner:
        parts.append(owner)
    size = gpu_words(row.get("gpus"))
    if row.get("nodes"):
        nodes = plural("{count} node", "{count} nodes", row["nodes"]).format(count=figure(row["nodes"])[0])
        size = _("{gpus} on {nodes}").format(gpus=size, nodes=nodes)
    if row.get("gpu_model"):
        size += f", {safe(row['gpu_model'])}"
    if row.get("time_limit_s") is not None:
        size += f", {span(row['time_limit_s'])}"
    if row.get("gang"):
        size += ", " + _("all or nothing")
    return "  ".join([*parts, size])


def _value(name: str, value: Any, now: datetime, zone: tzinfo | None) -> str:
    if value is None:
        return "?"
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, datetime):
        old = (now - value).total_seconds()
        ago = _("{age} ago").format(age=age(old)[0]) if old >= 0 else _("in {age}").format(age=age(-old)[0])
        return f"{moment(value, now, zone)} {clock(value, zone)[-3:]}".replace(" :", ":") + f"  ({ago})"
    if isinstance(value, float | int):
        return _number(name, value)
    if isinstance(value, list):
        if all(isinstance(item, Mapping) for item in value):
            return ", ".join(f"{safe(str(i.get('key')))}={safe(str(i.get('value')))}" for i in value) or "-"
        return ", ".join(safe(str(item)) for item in value) or "-"
    return safe(str(value)) or "-"


def _number(name: str, value: float) -> str:
    if math.isinf(value):
        return _("unlimited")
    if name.endswith("_s"):
        return span(value)
    if name.endswith("_bytes"):
        return f"{value / 1024**3:,.1f} GiB"
    if name.endswith("_ratio"):
        return f"{value * 100:.1f} %"
    return figure(float(value), zero_is_none=False)[0]


def field_lines(title: str, row: Mapping[str, Any], width: int, now: datetime, zone: tzinfo | None) -> list[Line]:
    """Return every field under the name that filters know it by; two columns where there is room."""
    lines: list[Line] = [((f" {title}", "title"),), ()]
    unknown = [name for name, value in row.items() if value is None]
    known = [(name, _value(name, value, now, zone)) for name, value in row.items() if value is not None]
    half = width // 2 if width >= 110 else width
    short = [(name, text) for name, text in known if width_of(text) <= half - 24]
    long = [(name, text) for name, text in known if width_of(text) > half - 24]
    count = max(1, width // half)
    per = -(-len(short) // count)
    for at in range(per):
        spans: list[tuple[str, str]] = []
        for name, text in short[at::per][:count]:
            spans += [(fit(f"  {name}", 22), "dim"), (fit(text, half - 22), "base")]
        lines.append(tuple(spans))
    for name, text in long:
        parts = wrap(text, max(20, width - 23))
        lines.append(((fit(f"  {name}", 22), "dim"), (parts[0], "base")))
        lines += [((" " * 22 + part, "base"),) for part in parts[1:]]
    if unknown:
        lines.append(())
        parts = wrap(", ".join(unknown), max(20, width - 23))
        lines.append(((fit("  " + _("not said"), 22), "dim"), (parts[0], "dim")))
        lines += [((" " * 22 + part, "dim"),) for part in parts[1:]]
    return lines


def status_lines(status: ClusterStatus, width: int, now: datetime, zone: tzinfo | None) -> list[Line]:
    """Return the state of one cluster's connection: the load that it is put under, the gaps, what can be done there."""
    lines: list[Line] = [((" " + _("CLUSTER {name}").format(name=safe(status.cluster)), "title"),), ()]

    def add(label: str, text: str, tone: str = "base") -> None:
        parts = wrap(text, max(20, width - 19))
        lines.append(((fit(f"  {label}", 18), "dim"), (parts[0], tone)))
        lines.extend(((" " * 18 + part, tone),) for part in parts[1:])

    add(_("system"), f"{safe(status.system)} {safe(status.version or '?')}")
    add(_("state"), _("{state} since {time}").format(state=status.state, time=_value("since", status.since, now, zone)))
    if status.error:
        add(_("error"), safe(status.error), "bad")
    if status.hint:
        add(_("hint"), safe(status.hint), "bold")
    add(_("taken for"), safe(status.user) if status.user else "?")
    add(_("access"), _("read and write") if status.access == "write" else _("read-only"))
    add(_("last read"), _value("taken_at", status.taken_at, now, zone))
    load = _("{calls} calls, {ms} ms, every {seconds} s").format(
        calls=figure(status.calls, zero_is_none=False)[0], ms=figure(status.took_ms)[0],
        seconds=figure(status.interval_s)[0],
    )  # fmt: skip
    add(_("load"), load + (" " + _("(slowed: the system is slow)") if status.slowed else ""))
    skew = status.clock_skew_s
    add(_("clock skew"), "?" if skew is None else f"{skew:+.1f} s", "warn" if skew and abs(skew) > 5 else "base")
    if status.capabilities is not None:
        add(_("reads"), ", ".join(status.capabilities.reads) or "-")
        add(_("writes"), ", ".join(status.capabilities.writes) or "-")
        add(_("cannot"), ", ".join(safe(text) for text in status.capabilities.cannot) or "-")
    lines += [(), ((" " + _("GAPS  {count}").format(count=len(status.gaps)), "title"),)]
    for gap in status.gaps:
        missing = ", ".join(gap.affects) or _("nothing named")
        add(safe(gap.source), _("{reason}; since {time}; missing: {missing}").format(
            reason=safe(gap.reason), time=moment(gap.since, now, zone), missing=missing), "warn")  # fmt: skip
    if not status.gaps:
        lines.append(((f"  {_('everything that was asked for was answered')}", "base"),))
    return lines
