"""`gpudeck get`: rows of one table from every cluster, filtered, sorted and cut, in the form that was asked for."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from connectors.errors import BadWords, GpudeckError, NotFound
from connectors.notation import NotationError, parse_human_duration
from console.engine import Engine, Reading

if TYPE_CHECKING:
    import polars as pl

    from connectors.model import Snapshot

TABLES = ("jobs", "nodes", "gpus", "queues", "quotas", "reservations", "events", "prices")
_SHOWN = {
    "jobs": ("id", "name", "user", "team", "queue", "state", "gpus", "nodes", "wait_s", "run_s", "why"),
    "nodes": ("name", "state", "gpu_model", "gpus", "gpus_allocated", "cpus", "cpus_allocated", "reason"),
    "gpus": ("node", "index", "model", "state", "utilization_ratio", "power_w", "temperature_c", "xid", "job_ids"),
    "queues": ("id", "parent", "state", "priority", "running_jobs", "pending_jobs", "max_run_s", "max_gpus_per_user"),
    "quotas": ("queue", "resource", "model", "nominal", "limit", "used", "borrowed", "pending"),
    "reservations": ("name", "state", "start_time", "end_time", "gpus", "nodelist", "users", "accounts"),
    "events": ("time", "level", "source", "object", "reason", "message"),
    "prices": ("model", "commitment", "region", "price_per_gpu_hour", "currency", "source"),
}  # fmt: skip
_FORECAST_COLUMNS = ("start_p50", "start_p90")
_DERIVED = ("wait_s", "run_s", "gpu_h", "cost_per_hour", "verdict", "why", "start_p50", "start_p90", "idle_s")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; all texts as typed."""

    table: str
    where: str = ""
    sort: str = ""
    limit: int | None = None
    columns: str = ""
    last: str = ""

    def check(self) -> None:
        """Raise for words that can't be understood, before any cluster is asked."""
        from console.filters import parse_filter

        if self.table not in TABLES:
            raise NotFound("table", self.table, near=TABLES, hint=f"tables: {', '.join(TABLES)}")
        parse_filter(self.where)
        if self.last and self.table != "jobs":
            raise BadWords("--last goes with jobs only", text=self.last)
        self.window()

    def window(self) -> timedelta | None:
        """Return how far back ended jobs are wanted, None for those that the snapshot still has."""
        if not self.last:
            return None
        try:
            return timedelta(seconds=parse_human_duration(self.last))
        except (NotationError, OverflowError) as error:
            raise BadWords(f"--last {self.last!r} is not a duration: {error}", text=self.last) from error

    def mentions(self, names: Sequence[str]) -> bool:
        """Return whether a filter, a sort or the columns speak of one of these columns."""
        text = f"{self.where} {self.sort} {self.columns}"
        return any(name in text for name in names)


class ClusterRows(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one cluster, or the error in their place."""

    cluster: str
    snapshot: Any = None
    frame: Any = None
    error: GpudeckError | None = None


async def collect(engine: Engine, readings: Sequence[Reading], request: Request, *, derived: bool) -> list[ClusterRows]:
    """Return the rows of each cluster, with derived columns if they are asked for or named in the request.

    A failing history is raised: `--last` without it would be a wrong answer.
    """
    from console.filters import parse_filter, sort

    wanted = parse_filter(request.where)
    found = []
    for reading in readings:
        if reading.snapshot is None:
            found.append(ClusterRows(cluster=reading.cluster, error=reading.error))
            continue
        frame = await _frame(engine, reading.snapshot, request, derived=derived)
        frame = wanted.apply(frame)
        if request.sort:
            frame = sort(frame, request.sort)
        if request.limit is not None:
            frame = frame.head(request.limit)
        found.append(ClusterRows(cluster=reading.cluster, snapshot=reading.snapshot, frame=frame))
    return found


async def _frame(engine: Engine, snapshot: "Snapshot", request: Request, *, derived: bool) -> "pl.DataFrame":
    import polars as pl

    if request.table != "jobs":
        return snapshot.table(request.table)
    cluster = snapshot.meta.cluster
    window = request.window()
    if window is not None:
        member = engine.member(cluster)
        ended = await member.connector.history(snapshot.meta.taken_at - window)
        known = snapshot.jobs.select("key")
        fresh = ended.join(known, on="key", how="anti")
        snapshot = snapshot.with_tables(jobs=pl.concat([snapshot.jobs, fresh], how="diagonal"))
    if not (derived or request.mentions(_DERIVED)):
        return snapshot.jobs
    from console.derived import derive

    forecast = await engine.forecast(cluster) if request.mentions(_FORECAST_COLUMNS) else None
    return derive(snapshot, forecast)


def show(common: Any, found: Sequence[ClusterRows], request: Request) -> None:
    """Write the rows in the form that the common options ask for."""
    import polars as pl

    from console import output
    from console.cli import emit
    from console.filters import pick_columns

    def picked(frame: "pl.DataFrame", default: Sequence[str] | None) -> "pl.DataFrame":
        if request.columns:
            return pick_columns(frame, request.columns)
        if default is None:
            return frame.drop([name for name in _DERIVED if name in frame.columns])
        return frame.select(default)

    good = [item for item in found if item.frame is not None]
    if common.json:
        now = datetime.now(UTC)
        envelopes = [
            output.failed_envelope(request.table, item.cluster, item.error or GpudeckError("not read"), now)
            if item.frame is None
            else output.envelope(request.table, item.snapshot, picked(item.frame, None))
            for item in found
        ]
        emit(msgspec.json.encode(envelopes).decode())
        return
    everything = pl.concat([picked(item.frame, None) for item in good], how="diagonal")
    if common.json_lines:
        emit("".join(msgspec.json.encode(row).decode() + "\n" for row in output.json_rows(everything)))
    elif common.csv:
        emit(output.csv_text(everything).removesuffix("\n"))
    elif common.parquet is not None:
        output.write_parquet(everything, common.parquet)
    else:
        shown = pl.concat([picked(item.frame, ("cluster", *_SHOWN[request.table])) for item in good], how="diagonal")
        if len(good) == 1 and not request.columns:
            shown = shown.drop("cluster")
        emit(output.table(shown))
