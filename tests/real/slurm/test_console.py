"""The console on a real Slurm, driven by its keys: jobs with hostile names are jobs like any other."""

import asyncio
import json
import re

import pytest
from bed_jobs import HOSTILE_NAMES
from textual.widgets import Input

from connectors.notation import safe_text
from console.link import EngineLink
from console.messages import Begin
from console.ui.app import ConsoleApp

NAME = "opsadmin"


async def until(pilot, what, condition, seconds=60):
    for _try in range(seconds * 20):
        if condition():
            await pilot.pause()
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{what}:\n" + "\n".join(lines(pilot.app)))


def lines(app):
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]


def listed(app):
    """Return id to name of the rows that the list shows."""
    rows = app.view.jobs_table.rows
    ids = {row_id.partition("\x00")[2] for row_id in rows.keys}
    frame = app.store.table("jobs")
    return {row["id"]: row["name"] for row in frame.to_dicts() if row["key"] in ids}


async def type_filter(pilot, words):
    await pilot.press("slash")
    await until(pilot, "the prompt", lambda: pilot.app.prompt.open)
    pilot.app.query_one(Input).value = ""
    await pilot.press(*words)
    assert pilot.app.query_one(Input).value == words
    await pilot.press("enter")
    await until(pilot, "the prompt is left", lambda: not pilot.app.prompt.open)


async def stand_on(pilot, job):
    await pilot.press("home")
    for _row in listed(pilot.app):
        if pilot.app.view.target().id == job:
            return
        await pilot.press("down")
    raise AssertionError(job)


def quiet(app):
    """Whatever a name holds, the screen has its full size and nothing on it acts on the terminal."""
    assert all(line.replace("\u200d", "").isprintable() for line in lines(app))


@pytest.fixture
async def screen(slurm, deck, monkeypatch):
    slurm.reset()
    names = {str(job): name for job, name in slurm.hostile().items()}
    monkeypatch.setenv("GPUDECK_STATE", deck.environment["GPUDECK_STATE"])
    monkeypatch.setenv("TZ", "UTC")
    deck.config.write_text(deck.config.read_text().replace('access = "write"', 'access = "write"\ninterval = "2s"'))
    begin = Begin(config=str(deck.config), clusters=(NAME,))
    app = ConsoleApp(lambda: EngineLink(begin), theme="gpudeck-dark")
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, "a first reading", lambda: "jobs" in app.store.frames.get(NAME, {}))
        await pilot.press("3")
        await until(pilot, "all jobs", lambda: set(listed(app)) >= set(names))
        yield pilot, names


async def test_hostile_names_are_listed_filtered_explained_and_cancelled(slurm, screen):
    pilot, names = screen
    app = pilot.app
    assert set(names.values()) == set(HOSTILE_NAMES)
    assert {job: listed(app)[job] for job in names} == names, "byte for byte"
    for job, name in names.items():
        (row,) = [line for line in lines(app) if job in line.split()]
        assert safe_text(name)[:6] in row
    quiet(app)
    for job, name in names.items():
        part = re.split(r"[\x1b\n]", name)[0][:20]
        await type_filter(pilot, f"name:{json.dumps(part, ensure_ascii=False)}")
        assert listed(app)[job] == name
        assert set(listed(app).values()) == {name}, "and whatever an earlier test has left under that name"
        await stand_on(pilot, job)
        quiet(app)
        await pilot.press("e")
        await until(pilot, f"explanation of {job}", lambda: app.panel.display)
        assert app.panel.diagnosis.job == job
        (title,) = [line for line in lines(app) if line.strip().startswith(f"JOB {job}")]
        assert safe_text(name)[:40] in title
        quiet(app)
        await pilot.press("escape")
        await until(pilot, "the list", lambda: not app.panel.display)
    await type_filter(pilot, "user:mira !state:cancelled")
    for _name in names:
        await pilot.press("space")
    assert len(app.view.targets()) == len(names)
    await pilot.press("a")
    await until(pilot, "the menu", lambda: app.menu.display)
    await pilot.press("x")
    await until(pilot, "the proposal", lambda: app.view_name == "whatif" and app.view.proposal() is not None)
    assert {str(change.job) for change in app.view.proposal().plan.changes} == set(names)
    quiet(app)
    await pilot.press("A")
    await until(pilot, "the question", lambda: app.prompt.open)
    await pilot.press(*app.view.proposal().confirm, "enter")
    await until(pilot, "the receipt", lambda: app.view.proposal() is None)
    quiet(app)
    states = slurm.states()
    assert {job: states[int(job)][0] for job in names} == dict.fromkeys(names, "CANCELLED")
    await pilot.press("3")
    await until(pilot, "cancelled jobs", lambda: not any(
        row["state"] in {"pending", "running"} for row in app.store.table("jobs").to_dicts()))  # fmt: skip
