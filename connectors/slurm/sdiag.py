"""What `sdiag` says of the scheduler's own health, as events: only what changes how far the tables can be trusted."""

import re
from datetime import datetime
from typing import Any

import polars as pl

from connectors.model import EVENTS
from connectors.rules import SlurmRules

SOURCE = "sdiag"
_DBD_QUEUE = 1000  # messages that wait for slurmdbd; a healthy cluster has a handful
_FIGURES = {
    "dbd_queue": re.compile(r"^DBD Agent queue size:\s*(\d+)", re.MULTILINE),
    "depth": re.compile(r"^\tLast depth cycle:\s*(\d+)", re.MULTILINE),
}


def scheduler_events(text: str, rules: SlurmRules, now: datetime) -> pl.DataFrame:
    """Return a warning if accounting lags, and a note if backfill stopped before the end of the queue."""
    figures = {name: _figure(pattern, text) for name, pattern in _FIGURES.items()}
    rows: list[dict[str, Any]] = []
    waiting = figures["dbd_queue"]
    if waiting is not None and waiting >= _DBD_QUEUE:
        rows.append({
            "level": "warning", "object": "slurmdbd", "reason": "DBDAgentQueue", "count": waiting,
            "message": f"{waiting:,} messages wait for slurmdbd: accounting and history lag behind",
        })  # fmt: skip
    depth = figures["depth"]
    if depth is not None and depth >= rules.bf_max_job_test > 0:
        rows.append({
            "level": "info", "object": "slurmctld", "reason": "BackfillDepth", "count": depth,
            "message": f"backfill looked at bf_max_job_test={rules.bf_max_job_test} jobs and no further: "
            "jobs behind them have no estimated start and cannot be backfilled",
        })  # fmt: skip
    frame = pl.DataFrame(
        rows, schema={name: EVENTS[name] for name in ("level", "object", "reason", "count", "message")}
    )
    return frame.with_columns(time=pl.lit(now, dtype=EVENTS["time"]), source=pl.lit(SOURCE))


def _figure(pattern: re.Pattern[str], text: str) -> int | None:
    """Return the last figure of that name: the backfill block stands behind the main scheduler's."""
    found = pattern.findall(text)
    return int(found[-1]) if found else None
