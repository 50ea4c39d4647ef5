"""Every view in every state keeps the rules of the screens."""

import pytest
from msgspec.structs import replace
from ui_fake import (
    AUDIT,
    NOW,
    STATUSES,
    FakeLink,
    ago,
    ahead,
    healthy,
    hostile_jobs,
    many_jobs,
    plan,
    proposal,
    receipt,
    tables,
    whatif,
)
from ui_helpers import check_rules, console, keys, lines, settle, text, type_in, verdict

from connectors.text import use_language
from console.messages import AskAudit, AuditList, ClusterStatus, Commit, Committed, Propose, Summary

SIZES = [(80, 24), (120, 40), (200, 60)]
VIEWS = ["1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_every_view_full(size):
    async with console(size=size) as (app, pilot, _link):
        check_rules(app)
        await keys(pilot, "right_square_bracket")
        for view in VIEWS:
            await keys(pilot, view)
            check_rules(app)


@pytest.mark.parametrize("theme", ["gpudeck-light", "gpudeck-ansi", "gpudeck-mono"])
async def test_every_theme_says_the_same(theme):
    async with console() as (app, pilot, _link):
        await keys(pilot, "right_square_bracket", "3")
        dark = text(app)
    async with console(theme=theme) as (app, pilot, _link):
        await keys(pilot, "right_square_bracket", "3")
        check_rules(app)
        assert text(app) == dark


async def test_no_colour_has_no_colour(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with console(theme="gpudeck-light") as (app, pilot, _link):
        await keys(pilot, "3")
        assert app.theme == "gpudeck-mono"
        styles = {
            segment.style for strip in app.screen._compositor.render_strips() for segment in strip if segment.style
        }
        assert all(style.color is None or style.color.is_default for style in styles)
        assert all(style.bgcolor is None or style.bgcolor.is_default for style in styles)
        assert any(style.reverse for style in styles), "the cursor can be seen"


async def test_nothing_known_at_all():
    async with console(FakeLink((), {}), frames=False) as (app, pilot, _link):
        check_rules(app)
        assert "The config names no cluster." in text(app)
        for view in VIEWS:
            await keys(pilot, view)
            check_rules(app)


async def test_empty_queue_says_whom_it_asked_and_when():
    link = FakeLink((healthy("lab48"),), {"lab48": tables([], "lab48")})
    async with console(link) as (app, pilot, _link):
        await keys(pilot, "3")
        check_rules(app)
        assert "No job on lab48: nothing waits, nothing runs (asked 3s ago)." in text(app)
        assert verdict(app).startswith("   OK  nothing waits; 8 GPUs free")


async def test_last_picture_is_marked_until_the_engine_speaks():
    class Silent(FakeLink):
        async def events(self):
            await self.queue.get()
            return
            yield

    link = Silent((), {})
    async with console(link, frames=False, speaks=False, last=(healthy(taken_at=ago(hours=2)),)) as (
        app,
        _pilot,
        _link,
    ):
        check_rules(app)
        row = next(line for line in lines(app) if "lab48" in line)
        assert "~ last" in row
        assert "48" in row
        assert row.endswith("2h")
        assert verdict(app).startswith(" ~ WAIT  connecting to 1 cluster")


async def test_stale_figures_are_not_shown_as_now():
    async with console() as (app, _pilot, _link):
        row = next(line for line in lines(app) if line.startswith("  edge-7"))
        assert "~ stale" in row
        assert row.endswith("14m")
        figures = row.split("stale")[1].split()
        assert figures == ["8", "?", "64", "?", "?", "?", "?", "?", "?", "?", "?", "~" * 12, "14m"]
        total = next(line for line in lines(app) if "all (1 fresh)" in line)
        assert "1,024" in total, "stale clusters have left the totals"


async def test_an_old_status_is_stale_though_nobody_said_so():
    link = FakeLink((healthy("lab48", taken_at=ago(minutes=5)),), {})
    async with console(link, frames=False) as (app, _pilot, _link):
        assert not verdict(app)[3:].startswith("OK")
        row = next(line for line in lines(app) if line.startswith("> lab48"))
        assert "?" in row


async def test_failed_cluster_names_its_error_and_the_next_step():
    async with console() as (app, _pilot, _link):
        whole = text(app)
        assert "x fail" in whole
        assert "login01: permission denied (publickey)" in whole


async def test_failed_without_a_last_picture_in_the_queue():
    link = FakeLink((STATUSES[2],), {})
    async with console(link, frames=False) as (app, pilot, _link):
        await keys(pilot, "3")
        check_rules(app)
        assert verdict(app).startswith(" x UNKNOWN  [b]west[/b] failed: login01: permission denied")


async def test_connecting_keeps_the_last_figures():
    old = healthy("lab48", taken_at=ago(minutes=9))
    new = ClusterStatus(cluster="lab48", system="slurm", state="connecting", since=NOW)
    async with console(FakeLink((new,), {}), frames=False, last=(old,)) as (app, _pilot, _link):
        check_rules(app)
        row = next(line for line in lines(app) if line.startswith("> lab48"))
        assert "~ conn" in row
        assert "48" in row
        assert row.endswith("9m")


async def test_all_quiet_is_ok():
    link = FakeLink((healthy("lab48"), healthy("mid128")), {})
    async with console(link, frames=False) as (app, _pilot, _link):
        check_rules(app)
        assert verdict(app).startswith("   OK  2 clusters; 80 of 96 GPUs in use; 0 jobs wait")
        assert "Nothing. 2 clusters asked, of 2; Enter opens the jobs." in text(app)


async def test_unknown_figures_are_question_marks_never_zero():
    link = FakeLink((healthy("lab48", summary=Summary()),), {})
    async with console(link, frames=False) as (app, _pilot, _link):
        row = next(line for line in lines(app) if line.startswith("> lab48"))
        figures = row.split(" ok ")[1].split()
        assert figures == ["?"] * 11 + ["?" * 12, "3s"]


@pytest.mark.parametrize("size", SIZES[:2], ids=str)
async def test_hostile_names_are_exact_and_harmless(size):
    link = FakeLink((STATUSES[0],), {"hpc-a": tables(hostile_jobs())})
    async with console(link, size=size) as (app, pilot, _link):
        await keys(pilot, "3")
        check_rules(app)
        whole = text(app)
        for name in ("a|b", "line␤break", "[red]x[/]", "[/bold]", "run[lr=1e-3]", "训练-大模型-01", "␛[2Jcl"):
            assert name in whole, name
        assert "$(reboot)" in whole
        assert "\\u202eexe.t" in whole
        for place in (1, 3, 6, 8):
            app.view.jobs_table.go(place)
            await keys(pilot, "d")
            check_rules(app)
            await keys(pilot, "escape", "e")
            check_rules(app)
            await keys(pilot, "escape")


@pytest.mark.parametrize(
    "bad", ["a\nb\x1b[2J[red]x[/]\u202e\x9b31m", "训练🚀👩‍💻" * 30, "x" * 300], ids=["acts", "wide", "long"]
)
async def test_hostile_words_in_everything_that_is_told(bad):
    link = FakeLink((replace(STATUSES[0], cluster=bad, user=bad),), {bad: tables(hostile_jobs(), bad)})
    step = replace(plan().steps[0], says=bad, native=bad)
    ill = replace(plan(), steps=(step, step), notes=(bad,), system=bad)
    shift = replace(whatif().jobs[0], id=bad, name=bad)
    lost = replace(whatif().preempted[0], id=bad, name=bad, user=bad, by=bad)
    told = replace(
        whatif(bad), says=bad, assumed=(bad,), jobs=(shift,), preempted=(lost,),
        by_team=tuple(replace(group, name=bad) for group in whatif().by_team),
    )  # fmt: skip
    done = replace(receipt("differs"), said=bad, answers=(replace(receipt().answers[0], native=bad, out=bad, err=bad),))
    link.answers[Propose] = proposal(bad, cluster=bad, confirm=bad, plan=ill, whatif=told)
    link.answers[Commit] = Committed(receipt_id=bad, receipt=done)
    link.answers[AskAudit] = AuditList(
        entries=(replace(AUDIT[0], receipt=bad, cluster=bad, who=bad, words=bad, effects=(bad,)),)
    )
    size = (80, 24) if len(bad) > 100 else (120, 40)
    async with console(link, size=size) as (app, pilot, _link):
        for way in (("3", "a"), ("h",), ("end",), ("home", "A")):
            await keys(pilot, *way)
            if not app.prompt.open and not app.menu.display:
                check_rules(app)
            else:
                assert all(line.isprintable() for line in lines(app) if "\u200d" not in line)
        await keys(pilot, "escape", "A")
        await type_in(pilot, "wrong")
        check_rules(app)
        app.do(app.flows.commit(app.view.proposal(), bad.strip()))  # a word that no keyboard types
        await settle(pilot)
        check_rules(app)
        for way in (("6",), ("d",), ("escape", "escape", "1"), ("d",), ("escape", "2"), ("4",)):
            await keys(pilot, *way)
            check_rules(app)


async def test_ten_thousand_rows():
    link = FakeLink((STATUSES[0],), {"hpc-a": tables(many_jobs(10_000))})
    async with console(link) as (app, pilot, _link):
        await keys(pilot, "3")
        check_rules(app)
        assert len(lines(app)) == 40
        assert sum("wait" in line for line in lines(app)[3:-1]) == 36, "36 rows of data at 120x40"
        await keys(pilot, "end", "pageup", "home", "pagedown")
        check_rules(app)


async def test_narrow_is_a_layout_of_its_own():
    async with console(size=(80, 24)) as (app, pilot, _link):
        await keys(pilot, "right_square_bracket", "3")
        head = lines(app)[2].split()
        assert head == ["JOB", "NAME", "GPUS", "STATE", "WHY", "WAIT", "START"]
        assert lines(app)[0].startswith(" gpudeck  Queue  hpc-a  as of 4s")


async def test_receipt_that_differs_is_a_call_for_a_person():
    link = FakeLink()
    async with console(link) as (app, pilot, _link):
        await keys(pilot, "right_square_bracket", "3")
        await app.show_result("hpc-a", "hold 1", Committed(receipt_id="r-9", receipt=receipt("differs")))
        await pilot.pause()
        check_rules(app)
        assert verdict(app).startswith(" ! ACT  carried out, but reading back shows something else")


async def test_chinese_words_keep_the_columns(tmp_path, monkeypatch):
    import connectors.text as words

    class Wide(words.gettext.NullTranslations):
        def gettext(self, message):
            return {"WHY": "原因是什么", "wait": "等待", "all keys": "全部按键", "Fleet": "集群"}.get(message, message)

    monkeypatch.setattr(words, "_current", Wide())
    try:
        async with console() as (app, pilot, _link):
            check_rules(app)
            await keys(pilot, "right_square_bracket", "3")
            check_rules(app)
            assert "原因是什么" in lines(app)[2]
            assert "  等待" in text(app)
    finally:
        use_language(None)


async def test_a_smaller_terminal_gets_the_smaller_layout():
    async with console() as (app, pilot, _link):
        await keys(pilot, "right_square_bracket", "3", "down", "down", "e")
        assert "moe-512" in text(app)
        await pilot.resize_terminal(80, 24)
        await keys(pilot)
        assert "moe-512" not in text(app), "the panel is the whole screen now"
        check_rules(app)
        await keys(pilot, "escape")
        assert lines(app)[2].split() == ["JOB", "NAME", "GPUS", "STATE", "WHY", "WAIT", "START"]
        await pilot.resize_terminal(120, 40)
        await keys(pilot)
        assert "START P50/90" in lines(app)[2]
        check_rules(app)


async def test_ascii_alone():
    from console.ui.lines import use_ascii

    use_ascii(True)
    try:
        link = FakeLink((STATUSES[0],), {"hpc-a": tables(hostile_jobs())})
        async with console(link) as (app, pilot, _link):
            await keys(pilot, "3")
            check_rules(app)
            assert text(app).isascii()
    finally:
        use_ascii(False)


async def test_a_simulated_clock_runs_ahead_and_ages_are_told_by_it():
    fast = healthy("fast", taken_at=ahead(hours=5), clock_skew_s=5 * 3600.0)
    slow = healthy("slow", taken_at=ago(seconds=7), clock_skew_s=40.0)
    async with console(FakeLink((fast, slow), {}), frames=False) as (app, _pilot, _link):
        assert next(line for line in lines(app) if line.startswith("> fast")).endswith(" 0s")
        assert next(line for line in lines(app) if line.startswith("  slow")).endswith(" 7s")


def test_every_cause_has_words_that_fit_its_column():
    from console.triage.diagnosis import Cause
    from console.ui.explain import cause_word

    assert all(0 < len(cause_word(cause)) <= 15 for cause in Cause)


def test_headers_of_a_comparison_stand_over_their_figures_in_wide_scripts(monkeypatch):
    import connectors.text as words
    from console.ui.lines import text_of, width_of
    from console.ui.outcome import whatif_lines

    class Wide(words.gettext.NullTranslations):
        def gettext(self, message):
            return {"BEFORE": "之前", "AFTER": "之后", "CHANGE": "变化"}.get(message, message)

    plain = [text_of(line) for line in whatif_lines(whatif(), 120, NOW, None)]
    monkeypatch.setattr(words, "_current", Wide())
    wide = [text_of(line) for line in whatif_lines(whatif(), 120, NOW, None)]
    for one, other in zip(plain, wide, strict=True):
        if "BEFORE" in one:
            assert width_of(other[: other.index("之后") + 2]) == width_of(one[: one.index("AFTER") + 5])
