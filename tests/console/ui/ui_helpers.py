"""Starts the app on a fake link and reads what stands on its screen."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Any

import textual.app
import textual.pilot
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.strip import Strip
from ui_fake import NOW, FakeLink

from console.ui.app import ConsoleApp


async def _go_on(_min_sleep: float = 0, _max_sleep: float = 0) -> None:
    """Give way for a moment: a pilot waits for all message queues anyway, and would sleep 20 ms and more at every key."""
    await asyncio.sleep(0.002)


textual.pilot.wait_for_idle = _go_on
textual.app.wait_for_idle = _go_on


@asynccontextmanager
async def console(
    link: FakeLink | None = None,
    size: tuple[int, int] = (120, 40),
    *,
    frames: bool = True,
    speaks: bool = True,
    **options: Any,
) -> AsyncIterator[tuple[ConsoleApp, Pilot[int], FakeLink]]:
    """Run the console until its first statuses, and the tables if the link has any, are there."""
    link = link or FakeLink()
    options = {"theme": "gpudeck-dark", "now": lambda: NOW, "zone": UTC, **options}
    app = ConsoleApp(lambda: link, **options)
    async with app.run_test(size=size) as pilot:
        if speaks:
            await until(pilot, lambda: app.store.engine == "up")
        await until(pilot, lambda: app.store.live >= {status.cluster for status in link.statuses})
        if frames:
            await until(pilot, lambda: set(app.store.frames) >= set(link.frames))
        yield app, pilot, link


async def until(pilot: Pilot[int], met: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for something to become true."""
    end = asyncio.get_running_loop().time() + seconds
    while not met():
        assert asyncio.get_running_loop().time() < end, "this did not come true in time"
        await pilot.pause(0.01)
    await pilot.pause()


async def keys(pilot: Pilot[int], *names: str) -> None:
    """Press keys and let the conversations that they begin come to their end."""
    for name in names:
        await pilot.press(name)
        if _talks(pilot):
            await settle(pilot)
    for _turn in range(3):  # a message, what it mounts, and the layout of that
        await pilot.pause()


def _talks(pilot: Pilot[int]) -> bool:
    return any(worker.group == "conversation" for worker in pilot.app.workers)


async def settle(pilot: Pilot[int]) -> None:
    """Wait for every conversation with the engine."""
    await until(pilot, lambda: not _talks(pilot))


async def type_in(pilot: Pilot[int], text: str) -> None:
    """Type a text into the prompt and press Enter."""
    from textual.widgets import Input

    field = pilot.app.query_one(Input)
    field.value = text
    await keys(pilot, "enter")


def strips(app: ConsoleApp) -> list[Strip]:
    """Return the screen's lines as they go to the terminal."""
    return list(app.screen._compositor.render_strips())


def lines(app: ConsoleApp) -> list[str]:
    """Return the screen's text, line by line."""
    return [strip.text.rstrip() for strip in strips(app)]


def text(app: ConsoleApp) -> str:
    """Return the screen's text."""
    return "\n".join(lines(app))


def verdict(app: ConsoleApp) -> str:
    """Return row 2."""
    return lines(app)[1]


def check_rules(app: ConsoleApp) -> None:
    """Hold the screen against the rules of screens.md that can be checked on its text."""
    shown = strips(app)
    width, height = app.size
    assert len(shown) == height
    for strip in shown:
        assert cell_len(strip.text) == width, repr(strip.text)
        shown_signs = strip.text.replace("\u200d", "")  # ties an emoji together, and acts on nothing
        assert shown_signs.isprintable(), repr(strip.text)
    whole = text(app)
    for word in ("None", "null", "nan", "00:00:00"):
        assert word not in whole.split(), word
    frames = sum(sign in "─│┌┐└┘├┤┬┴┼━┃╭╮╰╯▏▎▍▌▋▊▉█▁▂▃▄▅▆▇" for sign in whole)
    assert frames <= 60
    hint = lines(app)[-1].rstrip()
    assert hint.endswith(("? all keys", "? 全部按键")), hint
    assert lines(app)[0].startswith(" gpudeck")
    words = ("OK", "WAIT", "ACT", "NEVER", "RUNNING", "UNKNOWN", "BETTER", "WORSE", "TRADE", "SAME")
    assert verdict(app)[3:].split()[0] in words, verdict(app)
    check_colours(app)


def check_colours(app: ConsoleApp) -> None:
    """At most four hues; contrast of 7:1, or 4.5:1 for the words that the theme calls dim and accent."""
    palette = app.palette()
    quiet = {palette.style(tone).color for tone in ("dim", "head", "accent")}
    hues = set()
    for strip in strips(app):
        for segment in strip:
            style = segment.style
            if style is None or style.color is None or style.bgcolor is None or not segment.text.strip():
                continue
            if style.color.triplet is None or style.bgcolor.triplet is None:
                continue  # the terminal's own colours: it alone knows them
            for colour in (style.color.triplet, style.bgcolor.triplet):
                hue = hue_of(colour)
                if hue is not None:
                    hues.add(hue)
            least = 4.5 if style.color in quiet else 7.0
            found = contrast(style.color.triplet, style.bgcolor.triplet)
            assert found >= least, f"{segment.text!r}: {found:.1f}:1"
    assert len(hues) <= 4, hues


def contrast(one: tuple[int, int, int], two: tuple[int, int, int]) -> float:
    """Return the contrast ratio of WCAG 2.1."""

    def light(rgb: tuple[int, int, int]) -> float:
        parts = [value / 255 for value in rgb]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def hue_of(rgb: tuple[int, int, int]) -> int | None:
    """Return the 30-degree sector of a colour, None for a grey."""
    import colorsys

    hue, _light, saturation = colorsys.rgb_to_hls(*(value / 255 for value in rgb))
    return round(hue * 12) % 12 if saturation > 0.18 else None
