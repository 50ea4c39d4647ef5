"""The embedded demo: a simulated cluster that answers, lives and can be changed like any other. No network.

Settings: `scenario` (lab48, mid128 or quad), and optionally `seed`, `speed` (simulated seconds in a real one) and
`fresh` (begin anew). The clock is that of model.md: simulated time is the start plus speed times the real time passed.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import msgspec
import polars as pl

from connectors import ground
from connectors.change import CHANGE_TYPES, Change, Plan, Receipt, StepAnswer, verb
from connectors.connector import Answer, Capabilities, Raw
from connectors.errors import BadWords, Moved, Unreachable, Unsupported
from connectors.language import read_one, write
from connectors.model import Snapshot
from connectors.text import _
from console.demo import planning, reading, resolve
from console.demo.carry import carry_out
from console.demo.output import lines
from console.demo.scenarios import SCENARIOS
from console.demo.store import Diary, Made, Store, begin
from console.demo.tables import USER, answers
from console.demo.world import World

INTERVAL_S = 2.0
_VERBS = (*(str(one.__struct_config__.tag) for one in CHANGE_TYPES),)
_MAX_SPEED = 10_000.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one simulated cluster; `speed` None is that of the last call, at first 1."""

    scenario: str
    seed: int = 0
    speed: float | None = None
    fresh: bool = False


class DemoConnector:
    """A simulated cluster; see the module."""

    system: ClassVar[str] = "demo"

    def __init__(
        self,
        cluster: str,
        settings: Settings,
        *,
        captured: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open nothing yet; `clock` gives the real time in seconds since 1970."""
        self.cluster = cluster
        self._settings = settings
        self._captured = captured
        self._clock = clock
        self._store = Store(cluster, settings.scenario, settings.seed)
        self._fresh, self._speed = settings.fresh, settings.speed  # both count for the first reading only
        self._world: World | None = None
        self._lived: tuple[int, tuple[Made, ...]] = (0, ())
        self._guard = threading.Lock()

    @classmethod
    def open(cls, cluster: str, settings: Mapping[str, Any], *, captured: Path | None = None) -> Self:
        """Make a connector from its table of the config; BadWords names a key that is wrong."""
        unsaid = {"scenario": min(SCENARIOS)} if captured is not None else {}  # a capture answers for itself
        return cls(cluster, _checked({**unsaid, **settings}), captured=captured)

    @property
    def capabilities(self) -> Capabilities:
        """Return what can be done here; a capture can only be read."""
        return Capabilities(
            reads=reading.TABLES, writes=() if self._captured else _VERBS, history=True, logs=not self._captured,
            cannot=(
                _("quotas of one GPU model, or of anything but GPUs"),
                _("guaranteeing, lending or borrowing GPUs"),
                _("stopping a queue that is not a partition"),
            ),
        )  # fmt: skip

    @property
    def interval_s(self) -> float:
        """Return the seconds between two readings."""
        return INTERVAL_S

    @property
    def slowed(self) -> bool:
        """Return False: a simulated cluster is never slow."""
        return False

    async def read(self, *, everything: bool = False) -> Raw:  # noqa: ARG002 - nothing is reused here
        """Return the simulated cluster's answers of now. Unreachable where the state folder can't be used."""
        return await asyncio.to_thread(self._read)

    def interpret(self, raw: Raw) -> Snapshot:
        """Return what the answers mean. Pure. Malformed if nothing can be read."""
        return reading.interpret(raw, self.capabilities)

    async def observe(self) -> AsyncIterator[Snapshot]:
        """Yield a snapshot every two seconds; of a capture the one that there is."""
        while True:
            began = time.monotonic()
            yield self.interpret(await self.read())
            if self._captured:
                await asyncio.Event().wait()
            await asyncio.sleep(max(1.0, INTERVAL_S - (time.monotonic() - began)))

    async def history(self, since: datetime) -> pl.DataFrame:
        """Return the jobs that ended since then, in the schema of `jobs`."""
        return reading.history(await self.read(), since)

    def resolve(self, change: Change, snapshot: Snapshot) -> tuple[Change, ...]:
        """Return what the change means here. NotFound, Ambiguous, Unsupported, BadWords."""
        return resolve.resolve(change, snapshot)

    def plan(self, changes: Sequence[Change], snapshot: Snapshot) -> Plan:
        """Return the steps of resolved changes, what they expect of the ground, and their inverse."""
        return planning.plan(changes, snapshot)

    async def apply(self, plan: Plan) -> Receipt:
        """Check the ground, carry the steps out, read back. Moved; Unsupported on a capture."""
        if self._captured:
            raise Unsupported(
                "a capture can't be changed", cluster=self.cluster, capability=verb(plan.changes[0]),
                hint="open the cluster itself",
            )  # fmt: skip
        return await asyncio.to_thread(self._apply, plan)

    async def logs(self, job: str) -> AsyncIterator[str]:
        """Yield the last lines that a job has written. NotFound; Unsupported on a capture."""
        if self._captured:
            raise Unsupported("a capture holds no logs", cluster=self.cluster, capability="logs")
        for line in await asyncio.to_thread(self._logs, job):
            yield line

    async def close(self) -> None:
        """Forget the simulated cluster; the state folder keeps what was changed."""
        self._world = None

    def _read(self) -> Raw:
        if self._captured:
            from connectors.raw import load_raw

            return msgspec.structs.replace(load_raw(self._captured), cluster=self.cluster)
        with self._guard, self._told():
            return self._raw(*self._now())

    def _now(self, *, locked: bool = False) -> tuple[Diary, World]:
        """Return the diary and the world at this second; the file is written where it is missing or wrong."""
        real = self._clock()
        diary = self._current(real)
        if diary is None or self._speed not in {None, diary.speed}:
            if not locked:
                with self._store.locked():
                    return self._now(locked=True)
            diary = diary.at_speed(self._speed or diary.speed, real) if diary else self._begin(real)
            self._store.save(diary)
        self._fresh, self._speed = False, None
        return diary, self._live(diary, diary.second_at(real))

    def _current(self, real: float) -> Diary | None:
        diary = None if self._fresh else self._store.load()
        return None if diary is None or diary.is_over(real) else diary

    def _begin(self, real: float) -> Diary:
        """Return a new diary; simulated time goes on from where an old one ended, and is the real one without."""
        old = None if self._fresh else self._store.load()
        speed = self._speed or (old.speed if old else 1.0)
        at = old.origin + old.second_at(real) if old else int(real)
        return begin(self._settings.scenario, self._settings.seed, speed, real, at)

    def _live(self, diary: Diary, to: int) -> World:
        """Bring the world to a second; what others changed meanwhile is lived through, from the start if need be."""
        origin, lived = self._lived
        new = diary.made[len(lived) :]
        world = self._world
        behind = world is None or origin != diary.origin or diary.made[: len(lived)] != lived
        if world is None or behind or (new and new[0].at < world.state.now) or to < world.state.now:
            world, new = World(diary.scenario, diary.seed), diary.made
        for made in new:
            world.advance(made.at)
            now = datetime.fromtimestamp(diary.origin + made.at, UTC)
            carry_out(world, cast("Change", read_one(made.change, now=now)), diary.origin, made.user)
        world.advance(to)
        self._world, self._lived = world, (diary.origin, diary.made)
        return world

    def _raw(self, diary: Diary, world: World) -> Raw:
        began = time.perf_counter()
        taken = diary.origin + world.state.now
        said = answers(world, diary.origin)
        return Raw(
            system=self.system, cluster=self.cluster, taken_at=datetime.fromtimestamp(taken, UTC),
            took_ms=round(1000 * (time.perf_counter() - began), 3),
            answers={name: Answer(asked=f"demo: {name}", code=0, out=out) for name, out in said.items()},
            notes={"scenario": diary.scenario, "clock_skew_s": f"{taken - self._clock():.0f}"},
        )  # fmt: skip

    def _apply(self, plan: Plan) -> Receipt:
        began = time.perf_counter()
        with self._guard, self._told(), self._store.locked():
            diary, world = self._now(locked=True)
            differences = ground.moved(plan.expects, self.interpret(self._raw(diary, world)))
            if differences:
                raise Moved(differences, cluster=self.cluster)
            second = world.state.now
            made = tuple(Made(at=second, user=USER, change=write(change)) for change in plan.changes)
            diary = msgspec.structs.replace(diary, made=(*diary.made, *made))
            self._live(diary, second)
            self._store.save(diary)
            found = ground.check(plan.results, self.interpret(self._raw(diary, self._live(diary, second))))
        return Receipt(
            plan=plan, outcome="verified" if all(one.ok for one in found) else "differs",
            applied_at=datetime.fromtimestamp(diary.origin + second, UTC),
            took_ms=round(1000 * (time.perf_counter() - began), 3),
            answers=tuple(StepAnswer(native=step.native, code=0, out="", err="") for step in plan.steps),
            found=found, undo=plan.inverse,
        )  # fmt: skip

    def _logs(self, job: str) -> list[str]:
        with self._guard, self._told():
            _diary, world = self._now()
            return lines(world.state, job, self.cluster)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn a failure of the state folder into one of the error family."""
        try:
            yield
        except OSError as error:
            raise Unreachable(
                f"the demo's state can't be kept: {error.strerror or error}", cluster=self.cluster,
                source="state folder", hint="GPUDECK_STATE names another folder",
            ) from error  # fmt: skip


def _checked(settings: Mapping[str, Any]) -> Settings:
    known = tuple(one.name for one in msgspec.structs.fields(Settings))
    for key, value in {"scenario": "", **settings}.items():
        if key not in known:
            raise BadWords(f"{key} is not a setting of a demo cluster", text=key, hint=f"known: {', '.join(known)}")
        try:
            msgspec.convert({"scenario": "", key: value}, Settings)
        except msgspec.ValidationError as error:
            raise BadWords(f"{key} = {value!r}: {error}", text=key) from error
    made = msgspec.convert({"scenario": "", **settings}, Settings)
    if made.scenario not in SCENARIOS:
        raise BadWords(f"there is no demo scenario {made.scenario!r}", text="scenario", hint=", ".join(SCENARIOS))
    if made.speed is not None and not 0 < made.speed <= _MAX_SPEED:
        raise BadWords(f"speed must be above 0 and at most {_MAX_SPEED:g}", text="speed")
    return made
