"""The Slurm connector: one script over one shell for each refresh."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from connectors.change import Change, Plan, Receipt
from connectors.connector import Answer, Capabilities, Raw
from connectors.errors import BadWords, Unreachable, Unsupported
from connectors.raw import load_raw
from connectors.slurm import commands, framing
from connectors.slurm.abilities import capabilities
from connectors.slurm.settings import Settings, read_settings
from connectors.transport import open_shell
from connectors.transport.shell import Shell

if TYPE_CHECKING:  # polars must not load before the first frame (design.md, "Imports are lazy")
    import polars as pl

    from connectors.model import Snapshot

_LEAST_INTERVAL_S = 1.0
_LONGEST_INTERVAL_S = 60.0
_SHARE = 5  # a refresh may take this part of the interval before the interval is stretched


class SlurmConnector:
    """Speaks to one Slurm cluster; see `connectors.connector.Connector`."""

    system: ClassVar[str] = "slurm"

    def __init__(self, cluster: str, shell: Shell | None, settings: Settings, captured: Raw | None = None) -> None:
        """Keep the way to the cluster, or the captured answers that stand for it."""
        self.cluster = cluster
        self._shell = shell
        self._settings = settings
        self._captured = captured
        self._slow: dict[str, tuple[Answer, datetime]] = {}
        self._slow_at: float | None = None
        self._failed: dict[str, str] = {}
        self._reading = asyncio.Lock()
        self._capabilities: Capabilities | None = None
        self._pause_s = settings.interval_s

    @classmethod
    def open(cls, cluster: str, settings: Mapping[str, Any], *, captured: Path | None = None) -> Self:
        """Make a connector from its table of the config; BadWords names a wrong key. Connects to nothing yet."""
        if captured is not None:
            raw = load_raw(captured)
            if raw.system != cls.system:
                raise BadWords(f"capture {captured} is of {raw.system}, not of {cls.system}", text=str(captured))
            return cls(cluster, None, Settings(), msgspec.structs.replace(raw, cluster=cluster))
        return cls(cluster, open_shell(cluster, settings), read_settings(cluster, settings))

    @property
    def capabilities(self) -> Capabilities:
        """Return what can be done here; what may be written is known after the first snapshot."""
        return self._capabilities or capabilities(None, live=self._captured is None)

    @property
    def interval_s(self) -> float:
        """Return the seconds between two refreshes as it is now."""
        return self._pause_s

    @property
    def slowed(self) -> bool:
        """Return whether refreshes take so long that they are further apart than the config says."""
        return self._pause_s > self._settings.interval_s

    async def read(self, *, everything: bool = False) -> Raw:
        """Ask Slurm once, in one script; what changes slowly is asked at most once a minute and reused between."""
        if self._captured is not None:
            return self._captured
        async with self._reading:
            now = time.monotonic()
            slow = everything or self._slow_at is None or now - self._slow_at >= commands.SLOW_S
            nonce = framing.new_nonce()
            asked = {"squeue": commands.squeue(nonce), **commands.FAST, **(commands.SLOW if slow else {})}
            asked["date"] = asked.pop("date")  # last, so that it can be held against the time of the answer
            started = datetime.now(UTC)
            answers = await self._ask(asked, nonce)
            took_ms = 1000 * (time.monotonic() - now)
            notes = {"ended_at": datetime.now(UTC).isoformat()}
            if slow:
                self._keep(answers, started)
                self._slow_at = now
            for name, (answer, as_of) in self._slow.items():
                notes[f"as_of:{name}"] = as_of.isoformat()
                if answers.get(name) is not answer:
                    notes[f"reused:{name}"] = "yes"
                if name in self._failed:
                    notes[f"stale:{name}"] = self._failed[name]
                answers[name] = answer
            return Raw(
                system=self.system, cluster=self.cluster, taken_at=started, took_ms=took_ms, answers=answers,
                notes=notes,
            )  # fmt: skip

    def _keep(self, answers: dict[str, Answer], now: datetime) -> None:
        """Keep the slow answers; one that failed now leaves the last good one in place, and why it is old."""
        from connectors.slurm.interpret import failure

        for name in commands.SLOW:
            answer = answers.get(name)
            if answer is None:
                continue
            good = self._slow.get(name)
            if answer.code != 0 and good is not None and good[0].code == 0:
                self._failed[name] = failure(name, answer)
                continue
            self._failed.pop(name, None)
            self._slow[name] = (answer, now)

    async def _ask(self, asked: Mapping[str, Sequence[str]], nonce: str) -> dict[str, Answer]:
        shell = self._live("reading")
        limit = self._settings.timeout_s
        body = framing.script(
            asked,
            nonce,
            timeout_s=round(limit),
            slurm_path=self._settings.slurm_path,
            cluster_name=self._settings.cluster_name,
            vital="squeue",
        )
        answer = await shell.run(body, timeout_s=2 * limit)
        found = framing.frames(answer.out, answer.err, nonce, asked)
        if not found:
            said = (answer.err.strip() or answer.out.strip()).decode(errors="backslashreplace").splitlines()
            raise Unreachable(
                f"{shell.where}: the shell ran no command: {said[-1] if said else f'exit code {answer.code}'}",
                cluster=self.cluster,
                source="shell",
                hint="may this user run commands there? start-up files must not end or read input",
            )
        return found

    def interpret(self, raw: Raw) -> "Snapshot":
        """Return what the answers mean; see `connectors.slurm.interpret`."""
        from connectors.slurm.interpret import interpret

        snapshot = interpret(raw)
        if self._captured is None:
            self._capabilities = snapshot.meta.capabilities
            return snapshot
        meta = msgspec.structs.replace(snapshot.meta, capabilities=self.capabilities)
        return dataclasses.replace(snapshot, meta=meta)

    def redacted(self, raw: Raw, snapshot: "Snapshot") -> Raw:
        """Return the answers without names of people, accounts, jobs and hosts; see `connectors.slurm.redact`."""
        from connectors.slurm.redact import redacted

        return redacted(raw, snapshot)

    async def observe(self) -> AsyncIterator["Snapshot"]:
        """Yield snapshots, one refresh at a time; the pause grows to 60 s where refreshes take long."""
        while True:
            began = time.monotonic()
            raw = await self.read()
            yield await asyncio.to_thread(self.interpret, raw)
            took = (raw.took_ms or 0.0) / 1000
            asked = self._settings.interval_s
            self._pause_s = min(max(asked, _SHARE * took), max(_LONGEST_INTERVAL_S, asked))
            await asyncio.sleep(max(_LEAST_INTERVAL_S, began + self._pause_s - time.monotonic()))

    def _live(self, what: str) -> Shell:
        if self._shell is None:
            raise Unsupported(
                "this is a captured folder, there is no cluster behind it", cluster=self.cluster, capability=what
            )
        return self._shell

    async def history(self, since: datetime) -> "pl.DataFrame":
        """Return the jobs that ended since then, from sacct, in the schema of `jobs`."""
        from connectors.slurm.history import history_table

        if self._captured is not None and "sacct" in self._captured.answers:
            return history_table(self._captured.answers["sacct"], since, cluster=self.cluster)
        nonce = framing.new_nonce()
        answers = await self._ask({"sacct": commands.sacct(nonce, since)}, nonce)
        return history_table(answers["sacct"], since, cluster=self.cluster)

    def resolve(self, change: Change, snapshot: "Snapshot") -> tuple[Change, ...]:
        """Return what the change means here; see `connectors.slurm.resolve`."""
        from connectors.slurm.resolve import resolve

        return resolve(change, snapshot)

    def plan(self, changes: Sequence[Change], snapshot: "Snapshot") -> Plan:
        """Return the native steps; see `connectors.slurm.plan`."""
        from connectors.slurm.plan import plan

        return plan(changes, snapshot)

    async def apply(self, plan: Plan) -> Receipt:
        """Carry a plan out; see `connectors.slurm.apply`. Every reading of the ground asks for everything anew."""
        from connectors.slurm.apply import apply

        return await apply(
            plan,
            shell=self._live("writing"),
            reread=self._reread,
            slurm_path=self._settings.slurm_path,
            cluster_name=self._settings.cluster_name,
        )

    async def _reread(self) -> "Snapshot":
        raw = await self.read(everything=True)
        return await asyncio.to_thread(self.interpret, raw)

    async def logs(self, job: str) -> AsyncIterator[str]:
        """Yield the end of the job's output file, line by line, and what is added while it runs."""
        from connectors.slurm.logs import follow

        async for line in follow(self._live("logs"), self.cluster, job, self._settings.slurm_path):
            yield line

    async def close(self) -> None:
        """Drop the connection."""
        if self._shell is not None:
            await self._shell.close()
