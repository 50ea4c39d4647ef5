"""What keys lead to: filter, explain, what-if, apply, undo, menu, marks, leaving."""

import pytest
from msgspec.structs import replace
from textual.events import Key
from ui_fake import NOW, FakeLink, healthy, ipc, proposal, tables, whatif
from ui_helpers import check_rules, console, keys, lines, settle, text, type_in, until, verdict

from console.messages import (
    AskWhatIf,
    Commit,
    EngineDown,
    EngineUp,
    ExplainJob,
    Failed,
    Foreseen,
    Frames,
    Propose,
    ProposeUndo,
    RefreshNow,
    Summary,
)


def asked(link, kind):
    return [request for request in link.asked if isinstance(request, kind)]


async def to_queue(pilot):
    await keys(pilot, "right_square_bracket", "3")


async def test_enter_opens_the_cluster_and_escape_goes_back():
    async with console() as (app, pilot, _link):
        await keys(pilot, "enter")
        assert app.view_name == "queue"
        assert app.store.cluster == "hpc-a"
        await keys(pilot, "escape")
        assert app.view_name == "fleet"


async def test_filter_shows_what_passes_and_its_count():
    async with console() as (app, pilot, _link):
        await to_queue(pilot)
        await keys(pilot, "slash", *"user:ana")
        assert "1 of 10 shown" in text(app)
        await keys(pilot, "enter")
        assert not app.prompt.open
        assert "llm-pre" in text(app)
        assert "moe-512" not in text(app)
        check_rules(app)
        await keys(pilot, "escape")
        assert "moe-512" in text(app)


async def test_filter_that_cannot_be_read_says_so_and_hides_nothing():
    async with console() as (app, pilot, _link):
        await to_queue(pilot)
        await keys(pilot, "slash", *"colour:red", "enter")
        note = lines(app)[-2]
        assert note.startswith(" / colour:red  ! ")
        assert "moe-512" in text(app)
        check_rules(app)


async def test_filter_without_a_match_says_how_many_there_are():
    async with console() as (app, pilot, _link):
        await to_queue(pilot)
        await keys(pilot, "slash", *"user:nobody", "enter")
        assert "No job on hpc-a passes the filter (asked 4s ago; 10 without it)." in text(app)
        check_rules(app)


async def test_filter_of_nodes():
    async with console() as (app, pilot, _link):
        await keys(pilot, "2", "slash", *"state:down", "enter")
        assert "1 of 40 shown" in text(app)
        check_rules(app)


async def test_explain_opens_below_the_list():
    async with console() as (app, pilot, link):
        await to_queue(pilot)
        await keys(pilot, "down", "down", "e")
        assert asked(link, ExplainJob)[0].job == "884133"
        whole = text(app)
        assert "JOB 884133  rl-ppo  gus / robot  32 GPUs on 4 nodes, h100, 12h, all or nothing" in whole
        assert "1 quota full" in whole
        assert "moe-512" in whole, "the list stays"
        assert "running now in robot: [884093](32), [/]884111 (16) = 48 GPUs␤" in whole
        check_rules(app)
        await keys(pilot, "escape")
        assert "quota full" not in text(app)


async def test_explain_takes_the_whole_screen_where_it_is_small():
    async with console(size=(80, 24)) as (app, pilot, _link):
        await to_queue(pilot)
        await keys(pilot, "down", "down", "e")
        assert "moe-512" not in text(app)
        assert verdict(app).startswith("   WAIT  starts 02:10 (P50).")
        check_rules(app)


async def test_what_if_begins_with_the_suggestion_of_the_explanation():
    async with console() as (app, pilot, link):
        await to_queue(pilot)
        await keys(pilot, "down", "down", "e", "w")
        assert "what if on hpc-a: reshape 884133 gpus=16" in text(app)
        await keys(pilot, "enter")
        assert asked(link, AskWhatIf)[0].words == "reshape 884133 gpus=16"
        assert app.view_name == "whatif"
        assert verdict(app).startswith("   TRADE  nlp-lab waits 126 min less")
        assert "[i]vision[/i]" in text(app)
        check_rules(app)


async def test_apply_with_a_wrong_word_changes_nothing_and_with_the_right_one_it_is_done():
    async with console() as (app, pilot, link):
        await to_queue(pilot)
        await keys(pilot, "down", "down", "a", "h")
        assert asked(link, Propose)[0].words == "hold 884133"
        assert "scontrol hold 884133" in text(app)
        check_rules(app)
        await keys(pilot, "A")
        assert "type rl-ppo to apply:" in text(app)
        await type_in(pilot, "rl-pp")
        assert asked(link, Commit) == []
        assert verdict(app).startswith(" ! ACT  nothing was changed: rl-pp is not the word, rl-ppo is")
        await keys(pilot, "A")
        await type_in(pilot, "rl-ppo")
        assert [request.typed for request in asked(link, Commit)] == ["rl-ppo"]
        assert verdict(app).startswith("   OK  done and read back: hold 884133. Receipt r-0004; U undoes it")
        check_rules(app)
        await keys(pilot, "U")
        assert asked(link, ProposeUndo)[0].receipt == "r-0004"
        assert "CHANGE  release 884133" in text(app)


async def test_an_empty_word_or_escape_commits_nothing():
    async with console() as (app, pilot, link):
        await to_queue(pilot)
        await keys(pilot, "a", "x", "A", "enter")
        assert "an empty line is not the word" in verdict(app)
        await keys(pilot, "A", "escape", "enter")
        assert asked(link, Commit) == []


async def test_no_single_key_changes_anything():
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    async with console() as (app, pilot, link):
        await to_queue(pilot)
        await keys(pilot, "a", "h")
        assert app.view.proposal() is not None, "the most dangerous place: a change waits for its word"
        for letter in letters:
            await pilot.press(letter)
        await keys(pilot, "escape")
        assert asked(link, Commit) == []
        assert app.is_running


async def test_what_if_is_proposed_before_it_is_applied():
    async with console() as (app, pilot, link):
        await to_queue(pilot)
        await keys(pilot, "w")
        await type_in(pilot, "quota qos:nlp gpus=64")
        await keys(pilot, "A")
        assert asked(link, Propose)[0].words == "quota qos:nlp gpus=64"
        assert app.prompt.open
        assert "PLAN" in text(app)


async def test_read_only_offers_no_apply():
    async with console(read_only=True) as (app, pilot, link):
        await to_queue(pilot)
        await keys(pilot, "a", "h")
        assert "gpudeck is read-only" in text(app)
        assert "read-only" in lines(app)[0]
        await keys(pilot, "A")
        assert not app.prompt.open
        assert asked(link, Commit) == []


async def test_menu_acts_on_the_marked_jobs_with_their_names_quoted():
    rows = [
        {"id": "1", "name": "one", "state": "pending", "gpus": 8.0, "position": 1},
        {"id": "$(reboot); x", "name": "two", "state": "pending", "gpus": 4.0, "position": 2},
    ]
    link = FakeLink((healthy("lab48"),), {"lab48": tables(rows, "lab48")})
    async with console(link) as (app, pilot, _link):
        await keys(pilot, "3", "space", "space")
        assert "2 marked   12 GPUs" in text(app)
        await keys(pilot, "a")
        assert "2 marked, 12 GPUs  h hold" in text(app)
        check_rules(app)
        await keys(pilot, "x")
        assert asked(link, Propose)[0].words == "cancel 1; cancel '$(reboot); x'"


async def test_drain_asks_for_its_reason_and_quotes_it():
    async with console() as (app, pilot, link):
        await keys(pilot, "2", "down", "down", "down", "a", "d")
        assert "drain g000: reason=" in text(app)
        await type_in(pilot, "fan; reboot 'now'")
        import shlex

        words = asked(link, Propose)[0].words
        assert shlex.split(words) == ["drain", "g000", "reason=fan; reboot 'now'"]


async def test_marks_on_two_clusters_are_no_change():
    frames = {"lab48": tables(None, "lab48"), "mid128": tables(None, "mid128")}
    link = FakeLink((healthy("lab48"), healthy("mid128")), frames)
    async with console(link) as (app, pilot, _link):
        await keys(pilot, "3", "space", "end", "space", "a")
        assert "a change is made on one" in verdict(app)
        assert asked(link, Propose) == []


async def test_a_refused_change_speaks_in_row_two():
    link = FakeLink()
    link.answers[Propose] = Failed(
        message="hpc-a is read-only here, nothing was changed", exit_code=5, kind="ReadOnly", hint="add --write"
    )
    async with console(link) as (app, pilot, _link):
        await to_queue(pilot)
        await keys(pilot, "colon")
        await type_in(pilot, "hold 884133")
        assert verdict(app).startswith(" ! ACT  hpc-a is read-only here, nothing was changed (add --write)")
        check_rules(app)


async def test_the_prompt_knows_views_and_explain():
    async with console() as (app, pilot, link):
        await keys(pilot, "right_square_bracket", "colon")
        await type_in(pilot, "quotas")
        assert app.view_name == "quotas"
        await keys(pilot, "colon")
        await type_in(pilot, "explain 884120")
        assert asked(link, ExplainJob)[0].job == "884120"


async def test_a_change_needs_to_know_its_cluster():
    async with console() as (app, pilot, link):
        await keys(pilot, "5", "colon")
        await type_in(pilot, "hold 1")
        assert "which cluster?" in verdict(app)
        assert asked(link, Propose) == []


async def test_the_death_of_the_engine_is_said_and_the_picture_stays():
    async with console() as (app, pilot, link):
        await to_queue(pilot)
        link.tell(EngineDown(why="killed (exit -9)", restart_in_s=2.0))
        await until(pilot, lambda: app.store.engine == "down")
        assert verdict(app).startswith(" x UNKNOWN  the engine ended: killed (exit -9); it starts again in 2 s")
        assert "moe-512" in text(app)
        check_rules(app)
        link.tell(EngineUp(clusters=tuple(status.cluster for status in link.statuses), config=""))
        await until(pilot, lambda: app.store.engine == "up")
        assert "342 pending" in verdict(app)


async def test_a_broken_link_is_an_answer_too():
    class Broken(FakeLink):
        async def send(self, request):
            if isinstance(request, ExplainJob):
                raise ConnectionError("the engine ended")
            return await super().send(request)

    async with console(Broken()) as (app, pilot, _link):
        await to_queue(pilot)
        await keys(pilot, "e")
        assert verdict(app).startswith(" x UNKNOWN  the engine ended before it answered")


async def test_q_leaves_from_fleet_only():
    async with console() as (app, pilot, link):
        await keys(pilot, "3", "q")
        assert app.is_running
        assert "q leaves from Fleet only" in verdict(app)
        await keys(pilot, "1")
        await pilot.press("q")
        await pilot.pause()
        assert app._exit
    assert link.closed


async def test_all_keys_come_from_the_table():
    from console.ui.actions import ACTIONS

    async with console(size=(120, 50)) as (app, pilot, _link):
        await keys(pilot, "question_mark")
        whole = text(app)
        for action in ACTIONS:
            if action.scope in {"all", "fleet"}:
                assert action.help in whole, action.name
        check_rules(app)
        await keys(pilot, "escape")
        assert "KEYS" not in text(app)


async def test_quotas_fold_and_lead_to_their_jobs():
    async with console() as (app, pilot, _link):
        await keys(pilot, "right_square_bracket", "4")
        assert "[red]vision[/]" in text(app)
        app.view.quota_table.go_to_key("hpc-a\x00account:research\x00research")
        await keys(pilot, "left")
        assert "[red]vision[/]" not in text(app)
        await keys(pilot, "right")
        assert "[red]vision[/]" in text(app)
        app.view.quota_table.go_to_key("hpc-a\x00account:nlp\x00nlp")
        await keys(pilot, "enter")
        assert app.view_name == "queue"
        assert "5 of 10 shown" in text(app), "the jobs of the team nlp"


async def test_changes_show_the_audit_log_and_undo():
    async with console() as (app, pilot, link):
        await keys(pilot, "6")
        assert "drain g012 reason='fan␤'" in text(app)
        check_rules(app)
        await keys(pilot, "end", "U")
        assert "has no undo" in verdict(app)
        await keys(pilot, "home", "U")
        assert asked(link, ProposeUndo)[0].receipt == "r-0003"


async def test_refresh_asks_for_the_cluster_under_the_cursor():
    async with console() as (_app, pilot, link):
        await keys(pilot, "r")
        assert asked(link, RefreshNow)[0].cluster == "hpc-a"


async def test_proposal_without_forecast_says_why():
    link = FakeLink()
    link.answers[Propose] = proposal(whatif=None, whatif_error="the policy of pai is not known")
    async with console(link) as (app, pilot, _link):
        await to_queue(pilot)
        await keys(pilot, "a", "h")
        assert "NO FORECAST  the policy of pai is not known" in text(app)
        check_rules(app)


async def test_copy_takes_safe_text(monkeypatch):
    copied = []
    async with console() as (app, pilot, _link):
        monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
        await to_queue(pilot)
        await keys(pilot, "down", "down", "e", "y")
        assert copied[0].startswith("hpc-a 884133: WAIT  starts 02:10")
        assert all(line.isprintable() for line in copied[0].split("\n"))
        await settle(pilot)


@pytest.mark.parametrize("key", ["escape", "tab"])
async def test_the_list_can_be_reached_again_beside_the_panel(key):
    async with console() as (app, pilot, _link):
        await to_queue(pilot)
        await keys(pilot, "e", key)
        assert app.view.jobs_table.has_focus


async def test_enter_takes_the_next_step_of_what_needs_a_person():
    from console.triage.diagnosis import Attention

    steps = ("explain 7", "resume gpu06", "get gpus --where node:g007", "an unclosed 'quote", "call the vendor")
    items = tuple(
        Attention(severity="act", cluster="lab48", what=f"thing {at}", next_step=step) for at, step in enumerate(steps)
    )
    link = FakeLink((healthy("lab48", attention=items),), {"lab48": tables(None, "lab48")})
    async with console(link) as (app, pilot, _link):
        await keys(pilot, "tab")
        assert "e explain 7" in text(app)
        await keys(pilot, "enter")
        assert asked(link, ExplainJob)[0].job == "7"
        await keys(pilot, "escape", "tab", "down", "enter")
        assert "change on lab48: resume gpu06" in text(app)
        await keys(pilot, "escape", "tab", "down", "enter")
        assert app.view_name == "nodes"
        assert "1 of 40 shown" in text(app)
        await keys(pilot, "1", "tab", "down", "enter")
        assert app.view_name == "queue"


def test_suggestions_are_found_at_the_end_of_a_next_step():
    from ui_fake import diagnosis

    from console.ui.explain import suggestion

    def of(step):
        one = diagnosis()
        return suggestion(replace(one, causes=(replace(one.causes[0], next_step=step),)))

    assert of("wait, or raise the cap: quota qos:research gpus=40") == "quota qos:research gpus=40"
    assert of("gpudeck whatif reshape 17 gpus=4") == "reshape 17 gpus=4"
    assert of("release 17") == "release 17"
    assert of("wait, or ask for a smaller shape") == ""
    assert of(None) == ""


async def test_a_long_or_hostile_word_leaves_room_to_type_it():
    link = FakeLink()
    link.answers[Propose] = proposal(confirm="[red]" + "长" * 200)
    async with console(link, size=(80, 24)) as (app, pilot, _link):
        await to_queue(pilot)
        await keys(pilot, "a", "h")
        check_rules(app)
        await keys(pilot, "A")
        from textual.widgets import Input

        assert app.query_one(Input).size.width >= 20
        await type_in(pilot, "[red]" + "长" * 200)
        assert len(asked(link, Commit)) == 1


async def test_keys_typed_ahead_go_where_they_are_meant():
    async with console() as (app, pilot, link):
        await to_queue(pilot)
        names = {"/": "slash", ":": "colon"}
        for letter in "/user:ana":  # all of them are queued before the first is handled, as in a paste
            app.post_message(Key(names.get(letter, letter), letter))
        await until(pilot, lambda: app.prompt.open)
        await keys(pilot)
        assert app.view.sieve.text == "user:ana"
        assert asked(link, Propose) == []


async def test_describe_shows_in_full_what_the_lists_cut():
    async with console(size=(80, 24)) as (app, pilot, _link):
        await keys(pilot, "tab", "down", "d")
        assert "3 jobs wait for a job that failed (DependencyNeverSatisfied)" in " ".join(text(app).split())
        check_rules(app)
        await keys(pilot, "escape", "1", "d")
        assert "no GPU telemetry: nvidia-smi is not on the nodes" in text(app)
        check_rules(app)


async def test_tables_that_cannot_be_read_are_said_and_the_picture_stays():
    link = FakeLink()
    async with console(link) as (app, pilot, _link):
        await to_queue(pilot)
        good = Frames(
            cluster="hpc-a", taken_at=NOW, tables={name: ipc(one) for name, one in link.frames["hpc-a"].items()}
        )
        for junk in (b"", b"junk" * 100, good.tables["jobs"][:200]):
            link.tell(replace(good, tables={**good.tables, "jobs": junk}))
            await until(pilot, lambda: "hpc-a" in app.store.broken)
            assert verdict(app).startswith(" x UNKNOWN  the tables of hpc-a can't be read: ")
            assert "moe-512" in text(app)
            check_rules(app)
            link.tell(good)
            await until(pilot, lambda: not app.store.broken)
        assert "342 pending" in verdict(app)


async def test_a_terminal_that_is_too_small_gets_one_line():
    async with console() as (app, pilot, _link):
        await to_queue(pilot)
        await keys(pilot, "down", "e")
        await pilot.resize_terminal(40, 10)
        await keys(pilot, "x", "down", "T", "T", "T", "T")
        assert lines(app)[0] == " 40x10 is too small; gpudeck needs 64x12"
        assert not "".join(lines(app)[1:]).strip()
        await pilot.resize_terminal(120, 40)
        await keys(pilot)
        assert app.panel.page.has_focus
        check_rules(app)


async def test_a_question_outlives_a_terminal_that_is_too_small():
    async with console() as (_app, pilot, link):
        await to_queue(pilot)
        await keys(pilot, "colon", "h")
        await pilot.resize_terminal(30, 8)
        await pilot.resize_terminal(80, 24)
        await keys(pilot, *"old", "space", "1", "enter")
        assert asked(link, Propose)[0].words == "hold 1"


@pytest.mark.parametrize("size", [(64, 12), (80, 24), (120, 40)], ids=str)
async def test_resizing_in_every_view_keeps_the_rules(size):
    async with console() as (app, pilot, _link):
        await keys(pilot, "right_square_bracket")
        for view in "123456":
            await pilot.resize_terminal(50, 9)
            await keys(pilot, view)
            await pilot.resize_terminal(*size)
            await keys(pilot)
            check_rules(app)


async def test_a_plan_of_an_engine_that_is_gone_is_made_anew():
    link = FakeLink()
    async with console(link) as (app, pilot, _link):
        await to_queue(pilot)
        await keys(pilot, "a", "h", "A")
        link.tell(EngineDown(why="killed (exit -9)", restart_in_s=0.1))
        link.tell(EngineUp(clusters=tuple(status.cluster for status in link.statuses), config=""))
        await until(pilot, lambda: app.store.engine_runs == 2)
        await type_in(pilot, proposal().confirm)
        assert asked(link, Commit) == []
        assert "nothing was changed: the engine that made this plan is gone; A makes it anew" in verdict(app)
        check_rules(app)
        await keys(pilot, "A")
        assert len(asked(link, Propose)) == 2
        assert app.prompt.open
        await type_in(pilot, proposal().confirm)
        assert len(asked(link, Commit)) == 1


async def test_views_answer_to_the_names_of_other_tools():
    async with console() as (app, pilot, _link):
        for words, name in (("jobs", "queue"), ("gpus", "nodes"), ("audit", "changes"), ("clusters", "fleet")):
            await keys(pilot, "colon")
            await type_in(pilot, words)
            assert app.view_name == name
        await keys(pilot, "right_square_bracket", "0")
        assert app.store.cluster == ""


async def test_g_goes_to_the_ends():
    async with console() as (app, pilot, _link):
        await to_queue(pilot)
        await keys(pilot, "G")
        assert app.view.jobs_table.cursor == 9
        await keys(pilot, "g")
        assert app.view.jobs_table.cursor == 0


async def test_a_priority_is_given_to_every_marked_job_under_one_word():
    async with console() as (app, pilot, link):
        await to_queue(pilot)
        await keys(pilot, "space", "space", "a", "p")
        assert "priority 2 marked: value=" in text(app)
        await type_in(pilot, "500")
        first, second = asked(link, Propose)[0].words.split("; ")
        assert first.endswith(" value=500")
        assert second.endswith(" value=500")
        assert first != second


async def test_a_sentence_that_row_two_cuts_stands_in_full_below():
    says = "; ".join(f"team-{at} waits {at} min more" for at in range(10))
    for size in ((80, 24), (120, 40)):
        link = FakeLink()
        link.answers[AskWhatIf] = Foreseen(whatif=replace(whatif(), says=says))
        async with console(link, size=size) as (app, pilot, _link):
            await to_queue(pilot)
            await keys(pilot, "w")
            await type_in(pilot, "hold 1")
            assert verdict(app).rstrip().endswith(">")
            assert says in " ".join(text(app).split())
            check_rules(app)


async def test_the_fleet_says_the_sum_where_each_has_no_room():
    statuses = tuple(
        healthy(f"cluster-{at}", state="act", summary=Summary(never=1, gpus_lost=at, gpus=64)) for at in range(9)
    )
    for size in ((80, 24), (120, 40)):
        async with console(FakeLink(statuses, {}), size=size, frames=False) as (app, _pilot, _link):
            assert verdict(app) == " ! ACT  9 of 9 clusters: 9 jobs can never start, 36 GPUs lost"
