"""The virtual table: columns, cursor and marks over changes of rows, and how little it repaints."""

import re
import time
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from textual.app import App
from ui_fake import LAYOUT_JOBS, NOW, STATUSES, FakeLink, healthy, many_jobs, tables
from ui_helpers import check_rules, console, keys, lines, text, until

from console.ui.palette import palette_of
from console.ui.widgets.table import Column, ListRows, Table, choose_columns
from themes import DARK


def column(key: str, width: int, rank: int = 0, **options) -> Column:
    """Return a column titled by its key."""
    return Column(key=key, title=lambda: key, width=width, rank=rank, **options)


COLUMNS = (column("id", 6), column("name", 10, 1), column("why", 20, flex=True), column("cost", 5, 3, align="right"))


def numbered(count: int, start: int = 0) -> ListRows:
    """Return rows whose keys are their numbers."""
    return ListRows(
        [
            (str(at), ((str(at), "base"), (f"n{at}", "base"), ("why", "dim"), ("1", "base")))
            for at in range(start, count)
        ]
    )


class Bench(App[None]):
    """One table and nothing else."""

    def compose(self):
        self.table = Table(COLUMNS, lambda: palette_of(DARK))
        self.table.styles.height = "1fr"
        yield self.table


@given(st.integers(20, 200), st.lists(st.integers(1, 30), min_size=4, max_size=4))
def test_columns_go_whole_by_rank_and_the_line_is_never_too_long(width, widths):
    columns = [replace(one, width=size) for one, size in zip(COLUMNS, widths, strict=True)]
    kept = choose_columns(columns, widths, width)
    names = [columns[at].key for at, _size in kept]
    assert "id" in names
    assert "why" in names, "rank 0 stays"
    if "cost" in names:
        assert "name" in names, "the highest rank goes first"
    used = 2 + sum(size for _at, size in kept) + len(kept) - 1
    flexible = next(size for at, size in kept if columns[at].flex)
    assert used == width or flexible == 8
    for at, size in kept:
        assert columns[at].flex or size == widths[at], "a column is never cut in half"


async def test_cursor_and_place_follow_their_key():
    async with Bench().run_test(size=(60, 11)) as pilot:
        table = pilot.app.table
        table.set_rows(numbered(100))
        table.focus()
        table.go(50)
        table.marks = {"50", "7"}
        top = table.top
        table.set_rows(numbered(100, start=10))
        assert table.cursor_key == "50"
        assert table.cursor - table.top == 50 - top, "its line on the screen is the same"
        assert table.marks == {"50"}, "what is gone is not marked"
        table.set_rows(numbered(30))
        assert table.cursor == 29
        table.set_rows(ListRows())
        assert table.cursor_key is None
        await pilot.press("down", "up", "pagedown", "home", "end", "space")
        table.set_rows(numbered(5))
        assert table.cursor_key == "0"


async def test_only_changed_lines_are_painted_again():
    async with Bench().run_test(size=(60, 11)) as pilot:
        table = pilot.app.table
        rows = [(str(at), ((str(at), "base"), ("n", "base"), ("w", "base"), ("1", "base"))) for at in range(50)]
        table.set_rows(ListRows(rows))
        await pilot.pause()
        painted = []
        original = table.render_line
        table.render_line = lambda y: painted.append(y) or original(y)
        table.set_rows(ListRows(rows))
        await pilot.pause()
        assert painted == [], "nothing changed"
        rows[3] = ("3", (("3", "base"), ("other", "base"), ("w", "base"), ("1", "base")))
        table.set_rows(ListRows(rows))
        await pilot.pause()
        assert painted == [4]


async def test_rows_do_not_move_under_the_cursor_without_a_key():
    async with console() as (app, pilot, link):
        await keys(pilot, "right_square_bracket", "3", "down")
        before = re.findall(r"884\d{3}(?= |_)", "\n".join(line[:24] for line in lines(app)[3:13]))
        assert len(before) == 10
        later = [{**row, "position": 9 - at} if row.get("position") else row for at, row in enumerate(LAYOUT_JOBS)]
        later.append({"id": "884999", "name": "brand-new", "state": "pending", "position": 1, "gpus": 1.0})
        at = NOW.replace(second=19)
        link.tell_frames("hpc-a", at, **tables(later))
        await until(pilot, lambda: app.store.frames_at["hpc-a"] == at)
        after = re.findall(r"884\d{3}(?= |_)", "\n".join(line[:24] for line in lines(app)[3:14]))
        assert after[:10] == before
        assert "884999" in lines(app)[13]
        await keys(pilot, "r")
        assert "884999" in lines(app)[3]
        assert app.view.jobs_table.cursor_key.endswith("884125"), "the cursor is on its job still"


async def test_fifty_thousand_rows_answer_a_key_in_fifty_milliseconds():
    link = FakeLink((STATUSES[0],), {"hpc-a": tables(many_jobs(50_000))})
    async with console(link, size=(160, 50)) as (app, pilot, _link):
        await keys(pilot, "3")
        await until(pilot, lambda: len(app.view.jobs_table.rows) == 50_000)
        for key in ("down", "pagedown", "end", "home"):
            costs = []
            for _round in range(3):
                begin = time.process_time()
                await pilot.press(key)
                costs.append(time.process_time() - begin)
            assert min(costs) < 0.05, f"{key}: {costs}"
        assert "n" in text(app)


async def test_a_long_queue_is_arranged_beside_the_keys():
    frames = {"lab48": tables(many_jobs(6000), "lab48")}
    async with console(FakeLink((healthy("lab48"),), frames)) as (app, pilot, _link):
        await pilot.press("3")
        assert "nothing waits, nothing runs" not in text(app), "rows that are not sorted yet are no empty queue"
        queue = app.view
        await until(pilot, lambda: len(queue.jobs_table.rows) == 6000)
        await keys(pilot, "down", "down")
        for letter in ("slash", *"user:ana"):
            await pilot.press(letter)
        await pilot.press("enter")
        queue._load(keep=True, to_top=False)  # newer figures arrive before the rows of the filter stand there
        await until(pilot, lambda: queue._due is None)
        assert queue.jobs_table.cursor == 0, "a new filter begins at the top"
        assert 0 < len(queue.jobs_table.rows) < 2000
        assert f"{len(queue.jobs_table.rows)} of 6,000 shown" in text(app)
        await keys(pilot, "slash", *" x:y", "enter")
        await until(pilot, lambda: queue._due is None)
        assert queue.sieve.error
        check_rules(app)
