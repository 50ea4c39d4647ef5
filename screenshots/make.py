# ruff: noqa: INP001 - a script beside its pictures, not a package
"""Draw the screens of the demo as SVG beside this file: `python screenshots/make.py [NAME...]`.

A real engine runs on the simulated clusters, the console is driven by the keys below, and what stands on its screen
is written down. Seeds are fixed; clocks and ages are those of the moment. Nothing is left in the state folder.
"""

import asyncio
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import Input

HERE = Path(__file__).parent
CLUSTERS = ("demo:mid128", "demo:quad", "demo:lab48")
WIDE, NARROW, LARGE = (120, 40), (80, 24), (200, 60)
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
    Shot("fleet-80x24", size=NARROW),
    Shot("fleet-light", theme="gpudeck-light"),
    Shot("fleet-200x60", size=LARGE),
    Shot("queue", FIRST),
    Shot("queue-80x24", FIRST, NARROW),
    Shot("queue-all", ("3",)),
    Shot("queue-no-colour", FIRST, theme="gpudeck-mono"),
    Shot("queue-filter", (*FIRST, "slash", "text:state:pending gpus>8")),
    Shot("explain", EXPLAIN),
    Shot("explain-80x24", EXPLAIN, NARROW),
    Shot("explain-light", EXPLAIN, theme="gpudeck-light"),
    Shot("nodes", (*FIRST, "2")),
    Shot("quotas", (*FIRST, "4", "down")),
    Shot("quotas-80x24", (*FIRST, "4", "down"), NARROW),
    Shot("whatif", WHATIF),
    Shot("whatif-80x24", WHATIF, NARROW),
    Shot("change", PROPOSAL),
    Shot("receipt", (*PROPOSAL, "A", "confirm", "wait")),
    Shot("changes", (*PROPOSAL, "A", "confirm", "wait", "6", "wait")),
    Shot("keys", ("question_mark",)),
)


async def draw(shot: Shot) -> str:
    """Return the picture as SVG."""
    from console.link import EngineLink
    from console.messages import Begin
    from console.ui.app import ConsoleApp

    link = EngineLink(Begin(clusters=CLUSTERS, write=True, settings={"seed": 7}))
    app = ConsoleApp(lambda: link, theme=shot.theme)
    async with app.run_test(size=shot.size) as pilot:
        await until(pilot, lambda: len(app.store.frames) == len(CLUSTERS))
        await pilot.pause(4)  # the forecasts follow the first picture
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
            (HERE / f"{shot.name}.svg").write_text(asyncio.run(draw(shot)), encoding="utf-8")
        sys.stdout.write(f"{shot.name}.svg\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
