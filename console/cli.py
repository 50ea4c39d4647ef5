"""The command line: every command of cli.md that this version has. It never imports Textual.

Each command takes the common options (`--cluster`, `--json`, …) after its own. A failure is one line on standard error
and the exit code of its kind.
"""

import asyncio
import inspect
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer
from typer.exceptions import TyperException

from connectors.errors import BadWords, CheckFailed, GpudeckError, Unsupported
from connectors.notation import safe_text
from connectors.text import _, language_from_environment, plural, use_language
from console import config as configuration
from console.engine import DEFAULT_TIMEOUT_S, Engine, Reading, captured_clusters, find_in_all

if TYPE_CHECKING:
    from connectors.change import Change, Supposition
    from connectors.model import Snapshot
    from console.messages import Proposal

_Item = TypeVar("_Item", bound="Change | Supposition")
_LONGEST_LINE = 2000

app = typer.Typer(
    name="gpudeck",
    help="A terminal operations console for GPU clusters. Without a command it opens the console.",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    no_args_is_help=False,
)


class Common(msgspec.Struct, frozen=True, kw_only=True):
    """The options that every command takes."""

    cluster: list[str] | None = None
    json: bool = False
    json_lines: bool = False
    csv: bool = False
    parquet: Path | None = None
    config: Path | None = None
    captured: Path | None = None
    write: bool = False
    timeout: float = DEFAULT_TIMEOUT_S
    no_color: bool = False
    verbose: bool = False


_COMMON: dict[str, Any] = {
    "cluster": Annotated[
        list[str] | None, typer.Option("--cluster", "-c", help="Only this cluster (repeatable); demo:lab48 too.")
    ],
    "json": Annotated[bool, typer.Option("--json", help="Answer as JSON.")],
    "json_lines": Annotated[bool, typer.Option("--json-lines", help="One JSON row a line.")],
    "csv": Annotated[bool, typer.Option("--csv", help="Answer as CSV.")],
    "parquet": Annotated[Path | None, typer.Option("--parquet", help="Write rows to this Parquet file.")],
    "config": Annotated[Path | None, typer.Option("--config", help="The config file.")],
    "captured": Annotated[Path | None, typer.Option("--captured", help="Read a capture instead of the clusters.")],
    "write": Annotated[bool, typer.Option("--write", help="Allow changes for this call.")],
    "timeout": Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds that a cluster may take.")],
    "no_color": Annotated[bool, typer.Option("--no-color", help="No colours (the command line has none anyway).")],
    "verbose": Annotated[bool, typer.Option("--verbose", "-v", help="Show the traceback of a fault of gpudeck.")],
}


def _command(name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a command whose first parameter is `common`; the common options are added to its signature."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        own = list(inspect.signature(function).parameters.values())[1:]
        defaults = Common()
        shared = [
            inspect.Parameter(
                key, inspect.Parameter.KEYWORD_ONLY, default=getattr(defaults, key), annotation=annotation
            )
            for key, annotation in _COMMON.items()
        ]

        def run(**values: Any) -> None:
            common = Common(**{key: values.pop(key) for key in _COMMON})
            _one_form(common)
            function(common, **values)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + shared
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it from here
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        run.__doc__ = function.__doc__
        app.command(name=name or function.__name__.removesuffix("_"))(run)
        return function

    return register


def _one_form(common: Common) -> None:
    chosen = {
        "--json": common.json, "--json-lines": common.json_lines, "--csv": common.csv,
        "--parquet": common.parquet is not None,
    }  # fmt: skip
    named = [name for name, given in chosen.items() if given]
    if len(named) > 1:
        raise BadWords(f"{' and '.join(named)} can't be had at once", hint="choose one")


def engine_for(common: Common) -> Engine:
    """Return an engine for the clusters that a call names: captured, configured, or demo ones."""
    config = configuration.load(common.config)
    if config.language and not language_from_environment():
        use_language(config.language)
    if common.captured is not None:
        clusters = captured_clusters(common.captured)
        if common.cluster:
            clusters = tuple(c for c in clusters if c.name in common.cluster) or config.selected(common.cluster)
    else:
        clusters = config.selected(common.cluster or [])
    return Engine(config, clusters, write=common.write, captured=common.captured, timeout_s=common.timeout)


def _run(common: Common, answer: Callable[[Engine], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine with an engine that is closed afterwards."""

    async def run() -> None:
        engine = engine_for(common)
        try:
            await answer(engine)
        finally:
            await engine.close()

    asyncio.run(run())


def emit(text: str) -> None:
    """Write an answer to standard output, byte for byte."""
    sys.stdout.buffer.write((text if text.endswith("\n") else text + "\n").encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def warn(text: str) -> None:
    """Write one line to standard error, safe for a terminal and no longer than a screen."""
    sys.stderr.write(f"gpudeck: {safe_text(text, _LONGEST_LINE)}\n")


def readable(readings: Sequence[Reading]) -> list["Snapshot"]:
    """Return the snapshots; what failed is said on standard error, and if nothing is left the first error is raised."""
    snapshots = [reading.snapshot for reading in readings if reading.snapshot is not None]
    failures = [reading.error for reading in readings if reading.error is not None]
    if failures and not snapshots:
        raise _all_failed(failures)
    for error in failures:
        warn(str(error))
    for snapshot in snapshots:
        warn_gaps(snapshot)
    return snapshots


def _all_failed(failures: Sequence[GpudeckError]) -> GpudeckError:
    """Return the first failure, to be raised; the others are said."""
    for error in failures[1:]:
        warn(str(error))
    return failures[0]


def warn_gaps(snapshot: "Snapshot") -> None:
    """Say in one line what could not be read of a cluster."""
    if snapshot.gaps:
        reasons = "; ".join(f"{gap.source}: {gap.reason}" for gap in snapshot.gaps)
        warn(
            _("{cluster}: not everything could be read: {reasons}").format(
                cluster=snapshot.meta.cluster, reasons=reasons
            )
        )


@_command()
def clusters(common: Common) -> None:
    """Each cluster: system, version, reachable, access, capabilities."""
    from console import output

    async def answer(engine: Engine) -> None:
        readings = await engine.read_all()
        rows = [_cluster_row(engine, reading) for reading in readings]
        if common.json:
            emit(output.to_json(rows))
        elif common.json_lines:
            emit("\n".join(msgspec.json.encode(output.plain(row)).decode() for row in rows))
        else:
            import polars as pl

            shown = [
                {
                    key: row[key]
                    for key in ("cluster", "system", "version", "state", "access", "user", "took_ms", "calls")
                }
                for row in rows
            ]
            emit(output.table(pl.DataFrame(shown, infer_schema_length=None)))
            for row in rows:
                for sentence in row["cannot"]:
                    emit(f"  {row['cluster']}: {safe_text(sentence)}")
        failures = [reading.error for reading in readings if reading.error is not None]
        if failures and len(failures) == len(readings):
            raise _all_failed(failures)
        for error in failures:
            warn(str(error))

    _run(common, answer)


def _cluster_row(engine: Engine, reading: Reading) -> dict[str, Any]:
    member = engine.member(reading.cluster)
    able = engine.capabilities(reading.cluster)
    meta = reading.snapshot.meta if reading.snapshot else None
    return {
        "cluster": reading.cluster,
        "system": member.config.system,
        "version": meta.version if meta else None,
        "state": "ok" if meta else "failed",
        "reachable": meta is not None,
        "access": member.access,
        "user": meta.user if meta else None,
        "taken_at": meta.taken_at if meta else None,
        "took_ms": meta.took_ms if meta else None,
        "calls": meta.calls if meta else None,
        "clock_skew_s": meta.clock_skew_s if meta else None,
        "reads": able.reads,
        "writes": able.writes if member.access == "write" else (),
        "could_write": able.writes,
        "history": able.history,
        "logs": able.logs,
        "cannot": able.cannot,
        "gaps": reading.snapshot.gaps if reading.snapshot else (),
        "error": str(reading.error) if reading.error else None,
    }


@_command()
def get(
    common: Common,
    table: Annotated[str, typer.Argument(help="nodes, gpus, jobs, queues, quotas, reservations, events or prices.")],
    where: Annotated[
        str, typer.Option("--where", help="A filter: 'state:pending team:vision gpus>8 !name:test'.")
    ] = "",
    sort: Annotated[str, typer.Option("--sort", help="Columns to sort by; -column for descending.")] = "",
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="At most so many rows.")] = None,
    columns: Annotated[str, typer.Option("--columns", help="Only these columns, in this order.")] = "",
    last: Annotated[str, typer.Option("--last", help="jobs: those that ended in this window too, such as 1d.")] = "",
) -> None:
    """Rows of a table, from every cluster."""
    from console import rows

    async def answer(engine: Engine) -> None:
        request = rows.Request(table=table, where=where, sort=sort, limit=limit, columns=columns, last=last)
        request.check()
        readings = await engine.read_all()
        readable(readings)
        as_text = not (common.json or common.json_lines or common.csv or common.parquet)
        found = await rows.collect(engine, readings, request, derived=as_text and not columns)
        rows.show(common, found, request)

    _run(common, answer)


@_command()
def explain(common: Common, job: Annotated[str, typer.Argument(help="A job's id, as its system names it.")]) -> None:
    """Why a job is not running, or what is wrong with it while it runs."""
    from console import output, say

    async def answer(engine: Engine) -> None:
        readings = await engine.read_all()
        cluster, row = find_in_all(readings, job)
        for reading in readings:  # it may have a job of that id, too
            if reading.error is not None:
                warn(str(reading.error))
        snapshot = engine.member(cluster).snapshot
        if snapshot is not None:
            warn_gaps(snapshot)
        diagnosis = await engine.explain(cluster, job)
        emit(output.to_json(diagnosis) if common.json else say.diagnosis(diagnosis, row, now=engine.now(cluster)))

    _run(common, answer)


@_command()
def whatif(
    common: Common,
    change: Annotated[list[str], typer.Argument(help="Changes and suppositions in the change language.")],
) -> None:
    """Forecast without and with changes and suppositions, side by side."""
    from connectors.language import read
    from console import output, say

    async def answer(engine: Engine) -> None:
        cluster, items = await _meant(engine, lambda now: read(change, now=now))
        foreseen = await engine.whatif(cluster, items)
        emit(output.to_json(rearranged(foreseen)) if common.json else say.whatif(foreseen))

    _run(common, answer)


async def _meant(engine: Engine, words: Callable[[datetime], Sequence[_Item]]) -> tuple[str, Sequence[_Item]]:
    """Return the cluster on which the words make sense, and what they say by its clock; what failed is said."""
    from connectors import zone
    from console.operations.choose import choose_cluster

    words(zone.now())  # words that can't be understood need no cluster
    readings = await engine.read_all()
    if all(reading.snapshot is None for reading in readings):
        readable(readings)
    cluster, items = await choose_cluster(engine, readings, words)
    readable(readings)
    return cluster, items


def rearranged(foreseen: Any) -> dict[str, Any]:
    """Return a WhatIf in the shape of cli.md: the groups and jobs under `difference`."""
    plain: dict[str, Any] = msgspec.to_builtins(foreseen, builtin_types=(datetime,))
    difference = {key: plain.pop(key) for key in ("by_team", "by_queue", "jobs")}
    head = {key: plain.pop(key) for key in ("cluster", "assumed", "baseline", "changed")}
    return {"schema": "gpudeck/whatif/1", **head, "difference": difference, **plain}


@_command()
def do(
    common: Common,
    change: Annotated[list[str], typer.Argument(help="Changes in the change language.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Stop after plan and forecast.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask for the word.")] = False,
) -> None:
    """Resolve, plan, forecast, confirm, apply, verify, audit."""
    from connectors.errors import ReadOnly
    from console.operations.process import Operations, read_words

    async def answer(engine: Engine) -> None:
        cluster, changes = await _meant(engine, lambda now: read_words(change, now))
        if not dry_run and common.captured is not None:
            raise Unsupported("a capture can't be changed: no cluster is behind it", cluster=cluster, capability="do")
        if not dry_run and engine.member(cluster).access != "write":
            raise ReadOnly(cluster)
        operations = Operations(engine, audit_log())
        await _carry_out(
            common, operations, await operations.propose(cluster, changes, reread=False), dry_run=dry_run, yes=yes
        )

    _run(common, answer)


@_command()
def undo(
    common: Common,
    receipt: Annotated[str, typer.Argument(help="A receipt's name, such as r12 (see `gpudeck audit`).")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Stop after plan and forecast.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask for the word.")] = False,
) -> None:
    """Apply the inverse of a change, through the same path."""
    from console.operations.process import Operations

    entry, _done = audit_log().receipt(receipt)
    narrowed = msgspec.structs.replace(common, cluster=[entry.cluster])

    async def answer(engine: Engine) -> None:
        operations = Operations(engine, audit_log())
        await _carry_out(common, operations, await operations.propose_undo(receipt), dry_run=dry_run, yes=yes)

    _run(narrowed, answer)


async def _carry_out(common: Common, operations: Any, proposal: "Proposal", *, dry_run: bool, yes: bool) -> None:
    from console import output, say

    if not common.json:
        emit(say.proposal(proposal))
    if dry_run:
        if common.json:
            emit(output.to_json({"schema": "gpudeck/do/1", "proposal": proposal, "receipt": None}))
        return
    typed = proposal.confirm if yes else ask_word(proposal.confirm)
    name, receipt = await operations.commit(proposal.id, typed)
    if common.json:
        emit(output.to_json({"schema": "gpudeck/do/1", "proposal": proposal, "receipt": name, "result": receipt}))
    else:
        emit(say.receipt(name, receipt))
    if receipt.outcome != "verified":
        raise typer.Exit(6)


def ask_word(word: str) -> str:
    """Ask for the word on the terminal; BadWords where there is nobody to ask."""
    sys.stderr.write(_("Type {word} to carry it out: ").format(word=safe_text(word)))
    sys.stderr.flush()
    typed = sys.stdin.readline()
    if not typed:
        sys.stderr.write("\n")
        raise BadWords("nobody typed the word, so nothing was changed", hint="--yes carries it out without asking")
    return typed


@_command()
def audit(
    common: Common,
    verify: Annotated[bool, typer.Option("--verify", help="Check that no line was altered.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="At most so many entries.")] = None,
) -> None:
    """What was changed, by whom, from what to what, verified or not."""
    from console import output, say

    log = audit_log()
    if verify:
        count = log.verify()
        emit(
            output.to_json({"lines": count, "ok": True})
            if common.json
            else plural("{count} line, not altered", "{count} lines, none altered", count).format(count=count)
        )
        return
    entries = [entry for entry in log.entries() if not common.cluster or entry.cluster in common.cluster][:limit]
    emit(output.to_json(entries) if common.json else say.audit(entries))


def audit_log() -> Any:
    """Return this user's audit log."""
    from console.operations.audit import AuditLog, NotRecorded
    from console.paths import state_folder

    try:
        return AuditLog(state_folder("audit"))
    except OSError as error:
        raise NotRecorded("there is no place for the audit log", Path(error.filename or "."), error) from error


@_command()
def capture(
    common: Common,
    folder: Annotated[Path, typer.Argument(help="A folder that is made; one folder a cluster in it.")],
    redact: Annotated[
        bool, typer.Option("--redact", help="Replace names of people, jobs, hosts and accounts.")
    ] = False,
) -> None:
    """Save the raw answers of one refresh; `--captured FOLDER` then opens any command on them."""
    from console.capture import save

    async def answer(engine: Engine) -> None:
        lines, failures = await save(engine, folder, redact=redact)
        for line in lines:
            emit(line)
        for failure in failures:
            warn(str(failure))

    _run(common, answer)


@_command()
def doctor(common: Common) -> None:
    """Check config, credentials, reachability and permissions of each cluster, and say what to fix."""
    from console import output
    from console.doctor import examine

    async def answer(engine: Engine) -> None:
        findings = await examine(engine)
        if common.json:
            emit(output.to_json(findings))
        else:
            for finding in findings:
                emit(finding.line())
        bad = [finding for finding in findings if finding.level == "fault"]
        if bad:
            raise CheckFailed(plural("{count} check failed", "{count} checks failed", len(bad)).format(count=len(bad)))

    _run(common, answer)


@_command()
def demo(
    common: Common,
    scenario: Annotated[list[str] | None, typer.Argument(help="lab48, mid128, quad; all three by default.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Another seed, another course of events.")] = None,
    speed: Annotated[float | None, typer.Option("--speed", min=0, help="Simulated seconds in a second.")] = None,
    headless: Annotated[bool, typer.Option("--headless", help="Without a screen, for scripts.")] = False,
    for_: Annotated[str, typer.Option("--for", help="How long a headless demo runs.")] = "5s",
) -> None:
    """Open the console on embedded simulated clusters; with --headless say what they look like after a while."""
    from console import output
    from console.headless import run_for

    if not headless:
        raise BadWords("the console takes no --json", hint="add --headless")
    names = scenario or configuration.DEMO_SCENARIOS
    settings = {key: value for key, value in (("seed", seed), ("speed", speed)) if value is not None}
    clusters = [configuration.demo_cluster(name, **settings) for name in names]
    engine = Engine(configuration.Config(), clusters, timeout_s=common.timeout)
    statuses = asyncio.run(run_for(engine, for_))
    if common.json:
        emit(output.to_json(statuses))
    else:
        emit("\n".join(f"{s.cluster}  {s.state}  {output.plain(s.summary)}" for s in statuses))


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    """A terminal operations console for GPU clusters. Without a command it opens the console."""
    if version:
        from importlib.metadata import version as installed

        emit(f"gpudeck {installed('gpudeck')}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    use_language(language_from_environment())
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, who wants none of it
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open as long as we are
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(args=words, prog_name="gpudeck", standalone_mode=False)
    except GpudeckError as error:
        warn(str(error))
        for finding in getattr(error, "findings", ()):
            warn(finding)
        return error.exit_code
    except TyperException as error:
        says = getattr(error, "format_message", error.__str__)  # names the option, where there is one
        warn(f"{says()} (gpudeck --help)")
        return 2
    except (typer.Abort, KeyboardInterrupt):
        sys.stderr.write("\n")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        warn(f"{error.filename or 'standard output'}: {error.strerror or error}")
        return 1
    except Exception as error:  # noqa: BLE001 - the last line of defence: a fault of ours is one line, exit 1
        if "-v" in words or "--verbose" in words:
            import traceback

            traceback.print_exc()
        says = (str(error).splitlines() or [""])[0]
        warn(f"a fault of gpudeck: {type(error).__name__}: {says} (-v shows where; please report it)")
        return 1
    return code if isinstance(code, int) else 0
