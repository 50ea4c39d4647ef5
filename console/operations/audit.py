"""The audit log: what was changed, by whom, from what to what. Append-only, hash-chained, readable by its owner only.

One JSON object a line. `hash` is SHA-256 over the line without it (keys sorted, no blanks), and `previous` is the hash
of the line before, so that an edited, removed or reordered line breaks the chain. The newest hash and the number of
lines also stand in `head`, so that a log whose end was cut off is found out.

An intent is written before anything is sent, its result after: a crash in between leaves an intent without a result,
which is said wherever the log is shown.
"""

import asyncio
import fcntl
import getpass
import hashlib
import json
import math
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from connectors.change import Receipt
from connectors.errors import BadWords, CheckFailed, GpudeckError, NotFound
from console.messages import AuditEntry
from console.paths import write_private

_GENESIS = "0" * 64
_UNLIMITED = {"$": "unlimited"}
_TURN_PAUSE_S = 0.1
Kind = Literal["intent", "result", "refused"]


class AuditUnusable(GpudeckError):
    """The log can't be read or written: permissions, a full disk, a folder in its place."""

    def __init__(self, what: str, file: Path, error: OSError) -> None:
        """Say what could not be done with which file, and why."""
        super().__init__(f"{what}: {error.filename or file}: {error.strerror or error}")


class NotRecorded(AuditUnusable):
    """What is about to be done can't be recorded, so it is not done."""

    exit_code = 5


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `body` of an intent: words, plan, verdict of the forecast, undoes; of a result: the receipt."""

    number: int
    kind: Kind
    receipt: str
    at: datetime
    who: str
    host: str
    cluster: str
    body: dict[str, Any]
    previous: str
    hash: str = ""


class AuditLog:
    """The log in one folder; writing takes a lock that other processes see."""

    def __init__(self, folder: Path) -> None:
        """Use `audit.jsonl` and `head` in the folder, which is made if it is absent."""
        self._folder = folder
        self._file = folder / "audit.jsonl"
        self._head = folder / "head"

    def intent(self, cluster: str, body: dict[str, Any], *, who: str | None = None) -> str:
        """Write that something is about to be done; returns the receipt's name (`r12`), unique in this log.

        NotRecorded if it can't be written.
        """
        try:
            with self._locked():
                head = self._checked_head()
                receipt = f"r{1 + sum(line.kind == 'intent' for line in self.lines())}"
                self._append(head, "intent", receipt, cluster, body, who)
        except OSError as error:
            raise NotRecorded("nothing was changed, as it could not be recorded", self._file, error) from error
        return receipt

    def result(self, receipt: str, cluster: str, body: dict[str, Any], *, refused: bool = False) -> None:
        """Write what came of an intent. AuditUnusable if it can't be written: the log then shows an open intent."""
        try:
            with self._locked():
                self._append(self._checked_head(), "refused" if refused else "result", receipt, cluster, body, None)
        except OSError as error:
            what = "it was refused" if refused else f"{receipt} was sent to {cluster}"
            raise AuditUnusable(f"{what}, but that could not be recorded", self._file, error) from error

    @asynccontextmanager
    async def turn(self, cluster: str) -> AsyncIterator[None]:
        """Wait until no other change of this log's owner is under way on a cluster, in any process, and hold that.

        Slurm and its like compare nothing before they set a value: two plans on the same ground would both pass.
        """
        name = hashlib.sha256(cluster.encode()).hexdigest()[:16]  # a cluster may be called anything, a file may not
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self._folder / f"turn-{name}", os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError as error:
            raise NotRecorded("nothing was changed, as it could not be recorded", self._file, error) from error
        try:
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                await asyncio.sleep(_TURN_PAUSE_S)
            yield
        finally:
            os.close(handle)

    def lines(self) -> list[Line]:
        """Return all lines, oldest first; CheckFailed names the first that can't be read."""
        try:
            data = self._file.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise AuditUnusable("the audit log can't be read", self._file, error) from error
        found = []
        for number, line in enumerate(data.splitlines(), start=1):
            try:
                found.append(msgspec.convert(_unpack(json.loads(line)), Line))
            except (ValueError, msgspec.ValidationError) as error:
                raise CheckFailed(f"{self._file}, line {number} is not a line of the audit log: {error}") from error
        return found

    def verify(self) -> int:
        """Check hashes, chain and head; returns the number of lines. CheckFailed names the first bad line."""
        previous = _GENESIS
        try:
            raw = self._file.read_bytes().splitlines()
        except FileNotFoundError:
            raw = []
        for number, (text, line) in enumerate(zip(raw, self.lines(), strict=True), start=1):
            wrong = None
            if _hash(_without_hash(text)) != line.hash:
                wrong = "was altered (its hash does not fit)"
            elif line.previous != previous or line.number != number:
                wrong = "does not follow the line before (a line was removed, inserted or moved)"
            if wrong:
                raise CheckFailed(
                    f"{self._file}, line {number} {wrong}", hint="keep the file as it is and find out who wrote it"
                )
            previous = line.hash
        self._checked_head()
        return len(raw)

    def entries(self, limit: int | None = None) -> list[AuditEntry]:
        """Return one entry per intent, newest first, with what came of it."""
        lines = self.lines()
        results = {line.receipt: line for line in lines if line.kind != "intent"}
        undone = {
            line.body["undoes"]: line.receipt
            for line in lines
            if line.kind == "intent" and line.body.get("undoes") and _happened(results.get(line.receipt))
        }
        intents = [line for line in reversed(lines) if line.kind == "intent"]
        return [_entry(line, results.get(line.receipt), undone) for line in intents[:limit]]

    def receipt(self, name: str) -> tuple[AuditEntry, Receipt]:
        """Return an entry and its receipt; NotFound if there is none, BadWords if nothing is known to be done."""
        entries = {entry.receipt: entry for entry in self.entries()}
        if name not in entries:
            raise NotFound("receipt", name, near=list(entries)[:3], hint="`gpudeck audit` lists them")
        for line in self.lines():
            if line.receipt == name and line.kind == "result":
                return entries[name], msgspec.convert(line.body["receipt"], Receipt, strict=False)
        if entries[name].outcome == "refused":
            raise BadWords(f"{name} was refused and changed nothing: there is nothing to undo", text=name)
        raise BadWords(
            f"no result of {name} was recorded, so it is not known what to undo", text=name,
            hint=f"look at {entries[name].cluster} and set it by a change of its own",
        )  # fmt: skip

    def _append(
        self, head: tuple[int, str], kind: Kind, receipt: str, cluster: str, body: dict[str, Any], who: str | None
    ) -> None:
        count, previous = head
        line = Line(
            number=count + 1,
            kind=kind,
            receipt=receipt,
            at=datetime.now(UTC),
            who=who or getpass.getuser(),
            host=socket.gethostname(),
            cluster=cluster,
            body=body,
            previous=previous,
        )
        plain: dict[str, Any] = _pack(msgspec.to_builtins(line))
        del plain["hash"]
        digest = _hash(plain)
        text = _canonical({**plain, "hash": digest})
        handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "ab") as file:
            file.write(text + b"\n")
            file.flush()
            os.fsync(file.fileno())
        write_private(self._head, f"{count + 1} {digest}\n".encode())

    def _checked_head(self) -> tuple[int, str]:
        """Return number and hash of the last line; CheckFailed if the head tells of other lines."""
        lines = self.lines()
        last = (len(lines), lines[-1].hash if lines else _GENESIS)
        before = (len(lines) - 1, lines[-1].previous if lines else _GENESIS)
        head = self._read_head()
        if head not in {last, before}:  # `before`: a crash between the line and its head, nothing is lost
            raise CheckFailed(
                f"{self._file} has {last[0]} lines, its head tells of {head[0]}: lines are missing or were replaced",
                hint="keep both files as they are and find out who wrote them",
            )
        return last

    def _read_head(self) -> tuple[int, str]:
        try:
            count, digest = self._head.read_text().split()
            return int(count), digest
        except FileNotFoundError:
            return 0, _GENESIS
        except ValueError:
            raise CheckFailed(f"{self._head} can't be read") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._folder / "lock", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _pack(value: Any) -> Any:
    """Return the value with infinity, which JSON can't hold, as an object that nothing else looks like."""
    if isinstance(value, float) and math.isinf(value):
        return dict(_UNLIMITED)
    if isinstance(value, dict):
        return {key: _pack(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_pack(item) for item in value]
    return value


def _unpack(value: Any) -> Any:
    if isinstance(value, dict):
        return math.inf if value == _UNLIMITED else {key: _unpack(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unpack(item) for item in value]
    return value


def _canonical(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def _hash(value: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(value)).hexdigest()


def _without_hash(text: bytes) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    value.pop("hash", None)
    return value


def _happened(line: Line | None) -> bool:
    return line is not None and line.kind == "result" and line.body["receipt"]["outcome"] != "differs"


def _entry(intent: Line, result: Line | None, undone: dict[str, str]) -> AuditEntry:
    if result is None:
        outcome = "no result was recorded: it may have been carried out"
    elif result.kind == "refused":
        outcome = "refused"
    else:
        outcome = str(result.body["receipt"]["outcome"])
    undo = result.body["receipt"].get("undo") if result is not None and result.kind == "result" else None
    return AuditEntry(
        receipt=intent.receipt,
        at=intent.at,
        cluster=intent.cluster,
        who=intent.who,
        words=str(intent.body.get("words", "")),
        outcome=outcome,
        effects=_effects(result),
        undone_by=undone.get(intent.receipt),
        undoable=bool(undo) and intent.receipt not in undone,
    )


def _effects(result: Line | None) -> tuple[str, ...]:
    """Return what was read back as `qos:train limit 24 -> 28`: the value that the plan expected, then what is there."""
    if result is None or result.kind != "result":
        return ()
    from connectors.ground import subject

    receipt = msgspec.convert(result.body["receipt"], Receipt, strict=False)
    before = {(e.table, e.key, e.column): e.value for e in receipt.plan.expects}
    effects = []
    for found in receipt.found:
        place = found.expected.table, found.expected.key, found.expected.column
        if place in before and before[place] != found.value:
            effects.append(f"{subject(found.expected)} {_shown(before[place])} -> {_shown(found.value)}")
    return tuple(effects)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return "unlimited" if math.isinf(value) else f"{value:g}"
    return "?" if value is None else ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
