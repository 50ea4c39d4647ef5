"""What each action of the table does: one handler a name, for the keys and for the words typed at the prompt."""

import shlex
from typing import TYPE_CHECKING

from connectors.text import _, plural
from console.messages import Proposal
from console.triage.diagnosis import Attention
from console.ui.actions import ACTIONS, DEEDS, VIEWS, actions_for
from console.ui.figures import gpu_words, plain
from console.ui.flows import words_of
from console.ui.lines import safe
from console.ui.screens.fleet import Fleet
from console.ui.state import ALL, Verdict
from console.ui.widgets.focus import take_keys

if TYPE_CHECKING:
    from console.ui.app import ConsoleApp
    from console.ui.screens.nodes import Nodes
    from console.ui.screens.queue import Queue


async def press(app: "ConsoleApp", key: str) -> None:
    """Do the action that this key has in the present view, if its guard is met."""
    for action in actions_for(app.view_name):
        if action.key == key:
            met = app.view.conditions() | ({"undo"} if app.store.undoable else set())
            if action.guard and action.guard not in met:
                return
            name, _open, argument = action.handler.partition("(")
            await HANDLERS[name](app, argument.rstrip(")").strip("'"))
            return


async def view(app: "ConsoleApp", name: str) -> None:
    """Show a view."""
    await app.go(name)


async def enter(app: "ConsoleApp", _argument: str) -> None:
    """Open what stands under the cursor."""
    shown = app.view
    if app.panel.display:
        return
    if isinstance(shown, Fleet):
        need = shown.need()
        if need is not None and await _take_step(app, need):
            return
        name = shown.cluster()
        if name:
            app.store.cluster = name if len(app.store.clusters) > 1 else ALL
            await app.go("queue")
        return
    match app.view_name:
        case "queue":
            await explain(app, "")
        case "nodes":
            await describe(app, "")
        case "quotas":
            await _jobs_of_queue(app)
        case "changes":
            await describe(app, "")
        case _:
            return


async def _take_step(app: "ConsoleApp", need: Attention) -> bool:
    """Take the next step of a thing that needs a person: explain, show, or begin the change at the prompt."""
    from connectors.language import VERBS

    try:
        words = shlex.split(need.next_step.removeprefix("gpudeck "))
    except ValueError:  # a quote that is not closed: words of somebody else's, which lead nowhere
        return False
    match words:
        case ["explain", job, *_rest]:
            app.do(app.flows.explain(need.cluster, job))
        case ["get", "jobs" | "nodes" | "gpus" as table, "--where", where, *_rest]:
            app.store.cluster = need.cluster if len(app.store.clusters) > 1 else ALL
            await app.go("queue" if table == "jobs" else "nodes")
            sifted = _sifted(app)
            if sifted is not None:
                sifted.set_filter(where.replace("node:", "name:") if table == "gpus" else where)
        case [verb, _object, *_rest] if verb in VERBS:
            app.prompt_cluster = need.cluster
            await app.prompt.ask("command", _("change on {cluster}:").format(cluster=safe(need.cluster)),
                                 need.next_step.removeprefix("gpudeck "))  # fmt: skip
        case _:
            return False
    app.refresh_view()
    return True


async def _jobs_of_queue(app: "ConsoleApp") -> None:
    from console.ui.screens.queue import Queue

    target = app.view.target()
    if target is None:
        return
    kind, _colon, name = target.id.partition(":")
    field = {"account": "team", "qos": "slurm_qos"}.get(kind, "queue")
    await app.go("queue")
    if isinstance(app.view, Queue):
        app.view.set_filter(f"{field}:{name if field != 'queue' else target.id}")
        app.hush()


async def explain(app: "ConsoleApp", _argument: str) -> None:
    """Explain the job under the cursor."""
    target = app.view.target()
    if target is None or target.kind != "job":
        app.say(Verdict(word="WAIT", says=_("no job stands under the cursor; 3 shows the queue")))
        return
    app.do(app.flows.explain(target.cluster, target.id))


async def filter_(app: "ConsoleApp", _argument: str) -> None:
    """Ask for a filter of the jobs."""
    if app.view_name not in {"queue", "nodes"}:
        await app.go("queue")
    sifted = _sifted(app)
    if sifted is not None:
        await app.prompt.ask("filter", "/", sifted.sieve.text)


def _sifted(app: "ConsoleApp") -> "Queue | Nodes | None":
    from console.ui.screens.nodes import Nodes
    from console.ui.screens.queue import Queue

    return app.view if isinstance(app.view, Queue | Nodes) else None


def typed(app: "ConsoleApp", kind: str, text: str) -> None:
    """Filter while the filter is typed, as soon as it can be read."""
    sifted = _sifted(app)
    if kind == "filter" and sifted is not None:
        sifted.set_filter(text)
        app.hush()


async def answered(app: "ConsoleApp", kind: str, text: str) -> None:
    """Do what was typed at the prompt."""
    match kind:
        case "filter":
            typed(app, kind, text)
        case "whatif":
            await _ask(app, text, whatif=True)
        case "command":
            await command_line(app, text.strip())
        case "deed" if app.deed is not None:
            deed, targets = app.deed
            app.deed = None
            if text.strip():
                app.do(app.flows.propose(targets[0].cluster, words_of(deed, targets, text.strip())))
        case "confirm":
            proposal = _proposal(app)
            if proposal is not None:
                app.do(app.flows.commit(proposal, text))
            else:
                says = _("nothing was changed: the engine that made this plan is gone; A makes it anew")
                app.say(Verdict(word="ACT", glyph="!", says=says))
        case _:
            return


async def _ask(app: "ConsoleApp", words: str, *, whatif: bool) -> None:
    words = words.strip()
    if not words:
        return
    name = app.cluster_in_question() if app.prompt_cluster is None else app.prompt_cluster
    if name is None:
        return
    app.do(app.flows.whatif(name, words) if whatif else app.flows.propose(name, words))


# What other tools call these views: `:jobs` is typed by whoever comes from k9s or from Slurm.
_OTHER_NAMES = {
    "jobs": "queue", "squeue": "queue", "gpus": "nodes", "sinfo": "nodes", "queues": "quotas", "clusters": "fleet",
    "audit": "changes", "what-if": "whatif",
}  # fmt: skip


async def command_line(app: "ConsoleApp", text: str) -> None:
    """Read the `:` prompt: a view, explain, whatif, undo, quit, or a change."""
    head, _blank, rest = text.partition(" ")
    rest = rest.strip()
    names = {name: name for name, _key, _title in VIEWS} | _OTHER_NAMES
    if not text:
        return
    if text in names:
        await app.go(names[text])
    elif head in {"quit", "q"}:
        app.exit(0)
    elif head == "explain" and rest:
        name = app.prompt_cluster or app.cluster_in_question()
        if name:
            app.do(app.flows.explain(name, rest))
    elif head == "whatif":
        await _ask(app, rest, whatif=True)
    elif head == "undo" and rest:
        app.do(app.flows.undo(rest))
    else:
        await _ask(app, text, whatif=False)


async def mark(app: "ConsoleApp", _argument: str) -> None:
    """Mark the row under the cursor."""
    table = app.view.table()
    if table is not None and app.view_name in {"queue", "nodes"}:
        table.toggle_mark()
        app.refresh_view()


async def menu(app: "ConsoleApp", _argument: str) -> None:
    """Offer what can be done to the marked objects, or to the one under the cursor."""
    targets = app.view.targets()
    if not targets:
        app.say(Verdict(word="WAIT", says=_("nothing to act on stands under the cursor")))
        return
    if len({target.cluster for target in targets}) > 1:
        says = _("the marks stand on several clusters; a change is made on one")
        app.say(Verdict(word="ACT", glyph="!", says=says))
        return
    app.deed = (DEEDS[0], targets)
    gpus = [target.gpus for target in targets if target.gpus is not None]
    if len(targets) == 1:
        about = f"{safe(targets[0].id)} {safe(targets[0].name)}".strip()
    else:
        about = _("{count} marked").format(count=len(targets))
    if gpus:
        about += ", " + gpu_words(sum(gpus))
    app.menu.offer(about, [deed for deed in DEEDS if deed.kind == targets[0].kind])


async def whatif(app: "ConsoleApp", _argument: str) -> None:
    """Ask for the words of a what-if, begun with what the explanation suggests or with the object at hand."""
    name = app.cluster_in_question()
    if name is None:
        return
    app.prompt_cluster = name
    text = ""
    if app.panel.display and app.panel.diagnosis is not None:
        from console.ui.explain import suggestion

        text = suggestion(app.panel.diagnosis)
    elif app.view_name == "quotas" and (target := app.view.target()):
        text = f"quota {target.id} gpus="
    await app.prompt.ask("whatif", _("what if on {cluster}:").format(cluster=safe(name)), text)


async def command(app: "ConsoleApp", _argument: str) -> None:
    """Ask for a change or a command."""
    app.prompt_cluster = None
    await app.prompt.ask("command", ":")


def _proposal(app: "ConsoleApp") -> Proposal | None:
    from console.ui.screens.whatif import WhatIfView

    shown = app.views.get("whatif")
    return shown.proposal() if isinstance(shown, WhatIfView) else None


async def apply(app: "ConsoleApp", _argument: str) -> None:
    """Ask for the word of the change that is shown; a what-if is proposed first."""
    from console.ui.screens.whatif import WhatIfView

    shown = app.view
    proposal = _proposal(app)
    if proposal is not None:
        app.do(app.flows.ask_word(proposal))
    elif isinstance(shown, WhatIfView) and shown.words:
        app.do(app.flows.propose(shown.cluster, shown.words, then_ask=True))


async def undo(app: "ConsoleApp", _argument: str) -> None:
    """Propose the undo of the receipt under the cursor, else of the newest one of this session."""
    from console.ui.screens.changes import Changes

    receipt = app.view.undoable() if isinstance(app.view, Changes) else app.store.undoable
    if receipt:
        app.do(app.flows.undo(receipt))
    else:
        app.say(Verdict(word="WAIT", says=_("that change has no undo, or was undone")))


async def sort(app: "ConsoleApp", _argument: str) -> None:
    """Sort in the next order."""
    sifted = _sifted(app)
    if sifted is not None:
        sifted.next_order()
        app.hush()


async def cluster(app: "ConsoleApp", step: str) -> None:
    """Look at the next cluster, or at all of them."""
    names = [*app.store.clusters, ALL] if len(app.store.clusters) > 1 else [ALL]
    at = names.index(app.store.cluster) if app.store.cluster in names else 0
    app.store.cluster = names[(at + int(step)) % len(names)]
    app.close_panel()
    app.hush()
    app.refresh_view()


async def all_clusters(app: "ConsoleApp", _argument: str) -> None:
    """Look at all clusters."""
    app.store.cluster = ALL
    app.close_panel()
    app.hush()
    app.refresh_view()


async def describe(app: "ConsoleApp", _argument: str) -> None:
    """Show everything that is known of what stands under the cursor."""
    shown = app.view
    found = shown.row()
    if isinstance(shown, Fleet) and found is None:
        name = shown.cluster()
        if name in app.store.statuses:
            status = app.store.statuses[name]
            await app.open_panel(lambda: app.panel.cluster(status))
        return
    if found is not None:
        title, row = found
        await app.open_panel(lambda: app.panel.describe(title, row))


async def copy(app: "ConsoleApp", _argument: str) -> None:
    """Copy the answer that is shown, or the object under the cursor, by OSC 52."""
    shown = app.view.page()
    if app.panel.display:
        text = app.panel.text()
    elif shown is not None:
        text = shown.plain_text()
    else:
        target = app.view.target()
        text = "" if target is None else safe(target.id)
    if not text:
        return
    app.copy_to_clipboard(text)
    says = plural(
        "copied {count} character, if the terminal takes OSC 52",
        "copied {count} characters, if the terminal takes OSC 52",
        len(text),
    ).format(count=plain(len(text)))
    app.say(Verdict(word="OK", says=says))


async def refresh(app: "ConsoleApp", _argument: str) -> None:
    """Read now, and sort anew."""
    from console.ui.screens.queue import Queue

    shown = app.view
    name = shown.cluster() if isinstance(shown, Fleet) else app.store.cluster or None
    if isinstance(shown, Queue):
        shown.sort_again()
    if app.view_name == "changes":
        app.do(app.flows.audit())
    else:
        app.do(app.flows.refresh(name))


async def fold(app: "ConsoleApp", closed: str) -> None:
    """Fold or unfold a branch."""
    from console.ui.screens.quotas import Quotas

    if isinstance(app.view, Quotas):
        app.view.fold(closed=closed == "True")


async def next_theme(app: "ConsoleApp", _argument: str) -> None:
    """Show the next of the console's own themes."""
    from themes import THEMES

    if app.no_color:
        app.say(Verdict(word="WAIT", says=_("NO_COLOR is set: there is one theme, without colour")))
        return
    names = [theme.name for theme in THEMES]
    at = names.index(app.theme) if app.theme in names else -1
    app.theme = names[(at + 1) % len(names)]
    app.say(Verdict(word="OK", says=_("theme {name}").format(name=app.theme)))


async def next_part(app: "ConsoleApp", _argument: str) -> None:
    """Give the keys to the other part of the screen: the lower table, or the panel and back."""
    shown = app.view
    if app.panel.display and not app.panel.covers:
        if app.panel.page.has_focus:
            shown.focus_first()
        else:
            take_keys(app.panel.page)
    elif isinstance(shown, Fleet):
        take_keys(shown.needs_table if shown.clusters_table.has_focus else shown.clusters_table)
        app.refresh_view()


async def back(app: "ConsoleApp", _argument: str) -> None:
    """Close the prompt, the panel, the filter or the view: the newest first."""
    app.deed = None
    sifted = _sifted(app)
    if app.prompt.open:
        app.prompt.close()
        if app.panel.display:
            take_keys(app.panel.page)
        else:
            app.view.focus_first()
    elif app.close_panel() or app.notice is not None:
        pass
    elif sifted is not None and (table := sifted.table()).marks:
        table.clear_marks()
        sifted.show()
    elif sifted is not None and sifted.sieve.text:
        sifted.set_filter("")
    elif app.came_from:
        await app.go(app.came_from.pop(), remember=False)
    elif app.view_name != "fleet":
        await app.go("fleet", remember=False)
    app.hush()


async def leave(app: "ConsoleApp", _argument: str) -> None:
    """Leave the console from its top view only."""
    if app.view_name == "fleet" and not app.panel.display:
        app.exit(0)
    else:
        app.say(Verdict(word="WAIT", says=_("q leaves from Fleet only: 1, then q")))


async def keys(app: "ConsoleApp", _argument: str) -> None:
    """Show all keys."""
    if app.panel.display and app.panel.showing_keys:
        app.close_panel()
    else:
        await app.open_panel(lambda: app.panel.keys(app.view_name))


HANDLERS = {
    "view": view, "enter": enter, "explain": explain, "filter": filter_, "mark": mark, "menu": menu, "whatif": whatif,
    "command": command, "apply": apply, "undo": undo, "sort": sort, "cluster": cluster, "describe": describe,
    "copy": copy, "refresh": refresh, "fold": fold, "next_theme": next_theme, "next_part": next_part, "back": back,
    "leave": leave, "keys": keys, "all_clusters": all_clusters,
}  # fmt: skip

_missing = {action.handler.partition("(")[0] for action in ACTIONS} - set(HANDLERS)
if _missing:  # an action without a handler would be a key that does nothing
    raise RuntimeError(f"actions without a handler: {sorted(_missing)}")
