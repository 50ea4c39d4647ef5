# ruff: noqa: INP001 - a script beside its pictures, not a package
"""Draw the screens of the demo as SVG beside this file: `python screenshots/make.py [NAME...]`.

A real engine runs on the simulated clusters, the console is driven by the keys below, and what stands on its screen
is written down. Seeds are fixed, the clocks stand still and every forecast is said to have taken one second, so that a
picture changes only when the program does. Nothing is left in the state folder.
"""

import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Input

if TYPE_CHECKING:  # the program's own modules are imported after the state folder is another one
    from console.messages import Answer, Event, Request
    from console.ui.link import Link

HERE = Path(__file__).parent
NOW = datetime(2026, 12, 1, 3, 12, 40, tzinfo=UTC)
SEED = 7
CLUSTERS = ("demo:mid128", "demo:quad", "demo:lab48")
WIDE, NARROW = (120, 40), (80, 24)
FONTS = '"DejaVu Sans Mono", "Noto Sans Mono CJK SC", monospace'


@dataclass(frozen=True)
class Shot:
    """One picture: the keys that lead to it, `text:` typed at the prompt, `wait` until the engine has answered."""

    name: str
    keys: tuple[str, ...] = ()
    size: tuple[int, int] = WIDE
    theme: str = "gpudeck-dark"


FIRST = ("enter",)
EXPLAIN = (*FIRST, "down", "e", "wait")
WHATIF = (*FIRST, "w", "text:quota qos:research gpus=48", "wait")
PROPOSAL = (*FIRST, "down", "a", "h", "wait")
SHOTS = (
    Shot("fleet"),
    Shot("fleet-light", theme="gpudeck-light"),
    Shot("queue", FIRST),
    Shot("queue-80x24", FIRST, NARROW),
    Shot("queue-no-colour", FIRST, theme="gpudeck-mono"),
    Shot("explain", EXPLAIN),
    Shot("explain-80x24", EXPLAIN, NARROW),
    Shot("nodes", (*FIRST, "2")),
    Shot("quotas", (*FIRST, "4", "down")),
    Shot("whatif", WHATIF),
    Shot("change", PROPOSAL),
    Shot("receipt", (*PROPOSAL, "A", "confirm", "wait")),
    Shot("keys", ("question_mark",)),
)


def stop_the_clocks() -> None:
    """Let every simulated cluster begin at NOW and stay there, as far as a speed above zero allows."""
    from console.demo.store import Diary, Store
    from console.demo.world import PAST_S

    for cluster in CLUSTERS:
        scenario = cluster.removeprefix("demo:")
        diary = Diary(
            scenario=scenario, seed=SEED, origin=int(NOW.timestamp()) - PAST_S, real=time.time(), second=PAST_S,
            speed=1e-9,
        )  # fmt: skip
        Store(cluster, scenario, SEED).save(diary)


class StillLink:
    """A link on which nothing depends on this machine: not how long a forecast took, nor how far its clock is off."""

    def __init__(self, link: "Link") -> None:
        """Keep the real one."""
        self._link = link

    async def send(self, request: "Request") -> "Answer":
        """Return the answer, its forecast one second long."""
        answer = await self._link.send(request)
        whatif = getattr(answer, "whatif", None)
        return answer if whatif is None else replace(answer, whatif=replace(whatif, elapsed_ms=1000.0))

    async def events(self) -> AsyncIterator["Event"]:
        """Yield the events, without what is said of the clocks that were stopped."""
        from console.messages import ClusterStatus

        async for event in self._link.events():
            if isinstance(event, ClusterStatus):
                kept = tuple(one for one in event.attention if one.next_step != "doctor")
                yield replace(event, clock_skew_s=0.0, attention=kept)
            else:
                yield event

    async def close(self) -> None:
        """End the engine."""
        await self._link.close()


async def draw(shot: Shot) -> str:
    """Return the picture as SVG."""
    from console.link import EngineLink
    from console.messages import Begin
    from console.ui.app import ConsoleApp

    link = StillLink(EngineLink(Begin(clusters=CLUSTERS, write=True, settings={"seed": SEED})))
    app = ConsoleApp(lambda: link, theme=shot.theme, now=lambda: NOW, zone=UTC)

    def foreseen() -> bool:  # the forecasts follow the first tables
        tables = [app.store.frames.get(name, {}).get("jobs") for name in CLUSTERS]
        return all(jobs is not None and jobs["start_p50"].count() > 0 for jobs in tables)

    async with app.run_test(size=shot.size) as pilot:
        await until(pilot, foreseen)
        for key in shot.keys:
            await take(pilot, app, key)
        await pilot.pause(0.5)
        return own_fonts(app.export_screenshot(title="gpudeck"))


async def take(pilot: Pilot[int], app: object, key: str) -> None:
    """Press a key, or type, or wait."""
    from console.ui.app import ConsoleApp
    from console.ui.screens.whatif import WhatIfView

    if not isinstance(app, ConsoleApp):
        raise TypeError(app)
    kind, _colon, words = key.partition(":")
    if key == "wait":
        await until(pilot, lambda: not any(worker.group == "conversation" for worker in app.workers))
    elif key == "confirm":
        shown = app.views["whatif"]
        proposal = shown.proposal() if isinstance(shown, WhatIfView) else None
        if proposal is None:
            raise RuntimeError("there is no proposal to confirm")
        await until(pilot, lambda: app.prompt.open)
        app.query_one(Input).value = proposal.confirm
        await pilot.press("enter")
    elif kind == "text":
        await until(pilot, lambda: app.prompt.open)
        app.query_one(Input).value = words
        await pilot.press("enter")
    else:
        await pilot.press(key)
    await pilot.pause(0.3)


async def until(pilot: Pilot[int], met: object, seconds: float = 60.0) -> None:
    """Wait until something is true; TimeoutError after so many seconds."""
    if not callable(met):
        raise TypeError(met)
    async with asyncio.timeout(seconds):
        while not met():
            await pilot.pause(0.05)


def own_fonts(svg: str) -> str:
    """Return the picture without fonts from elsewhere: it names fonts that a reader has, and asks no server."""
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return re.sub(r"font-family: ?[^;]*;", f"font-family: {FONTS};", svg)


def main(names: list[str]) -> int:
    """Draw the named pictures, or all."""
    unknown = set(names) - {shot.name for shot in SHOTS}
    if unknown:
        sys.stderr.write(f"no such picture: {', '.join(sorted(unknown))}\n")
        return 2
    for shot in SHOTS:
        if names and shot.name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_STATE_HOME"] = folder
            stop_the_clocks()
            (HERE / f"{shot.name}.svg").write_text(asyncio.run(draw(shot)), encoding="utf-8")
        sys.stdout.write(f"{shot.name}.svg\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
