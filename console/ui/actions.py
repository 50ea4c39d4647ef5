"""The one table of actions: bindings, the row of keys and the page of keys are made from it."""

from collections.abc import Iterable
from dataclasses import dataclass

from textual.binding import Binding

from connectors.text import _


def N_(message: str) -> str:  # noqa: N802 - the mark that gettext's tools look for
    """Mark a word for translation where it can't be translated yet."""
    return message


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing a key does.

    `scope` is the view it works in, `all` for everywhere; `guard` names the condition under which it is offered
    (`write`: a cluster may be changed; `undo`: a receipt can be undone; `proposal`: a change waits for its word).
    `hint` orders it in the row of keys, lowest first; 0 keeps it out of there, and `hint_in` names the only views that
    show it. `handler` names the function of `console.ui.keys`, with its argument.
    """

    name: str
    key: str
    help: str
    scope: str = "all"
    guard: str = ""
    hint: int = 0
    hint_in: tuple[str, ...] = ()
    handler: str = ""
    shown: str = ""

    @property
    def key_shown(self) -> str:
        """Return the key as it is written on the screen."""
        return self.shown or self.key


VIEWS = (
    ("fleet", "1", N_("Fleet")),
    ("nodes", "2", N_("Nodes")),
    ("queue", "3", N_("Queue")),
    ("quotas", "4", N_("Quotas")),
    ("whatif", "5", N_("What-if")),
    ("changes", "6", N_("Changes")),
)

ACTIONS: tuple[Action, ...] = (
    *(Action(name=f"view-{name}", key=key, help=title, handler=f"view('{name}')") for name, key, title in VIEWS),
    Action(name="open-fleet", key="enter", help=N_("open"), scope="fleet", hint=1, handler="enter", shown="Enter"),
    Action(name="open-queue", key="enter", help=N_("explain"), scope="queue", hint=1, handler="enter", shown="Enter"),
    Action(name="open-nodes", key="enter", help=N_("describe"), scope="nodes", hint=1, handler="enter", shown="Enter"),
    Action(name="open-quotas", key="enter", help=N_("jobs"), scope="quotas", hint=1, handler="enter", shown="Enter"),
    Action(name="open-changes", key="enter", help=N_("show"), scope="changes", hint=1, handler="enter", shown="Enter"),
    Action(name="fold", key="left", help=N_("fold"), scope="quotas", hint=2, handler="fold(True)", shown="Left"),
    Action(name="unfold", key="right", help=N_("unfold"), scope="quotas", handler="fold(False)", shown="Right"),
    Action(name="explain", key="e", help=N_("explain"), scope="fleet", hint=2, handler="explain"),
    Action(name="explain-job", key="e", help=N_("explain"), scope="queue", handler="explain"),
    Action(name="filter", key="slash", help=N_("filter"), hint=3, hint_in=("fleet", "queue", "nodes"), handler="filter",
           shown="/"),
    Action(name="mark", key="space", help=N_("mark"), scope="queue", hint=4, handler="mark", shown="Space"),
    Action(name="mark-nodes", key="space", help=N_("mark"), scope="nodes", hint=4, handler="mark", shown="Space"),
    Action(name="apply", key="A", help=N_("apply (asks for the name)"), scope="whatif", guard="proposal", hint=1,
           handler="apply"),
    Action(name="menu", key="a", help=N_("actions"), hint=5, hint_in=("fleet", "queue", "nodes", "quotas"),
           handler="menu"),
    Action(name="what-if", key="w", help=N_("what-if"), hint=6, handler="whatif"),
    Action(name="undo", key="U", help=N_("undo"), scope="changes", hint=2, handler="undo"),
    Action(name="undo-last", key="U", help=N_("undo the last change"), guard="undo", hint=2, hint_in=("whatif",),
           handler="undo"),
    Action(name="command", key="colon", help=N_("command"), hint=9, handler="command", shown=":"),
    Action(name="sort", key="s", help=N_("sort"), scope="queue", hint=7, handler="sort"),
    Action(name="sort-nodes", key="s", help=N_("sort"), scope="nodes", hint=7, handler="sort"),
    Action(name="cluster-before", key="left_square_bracket", help=N_("cluster before"), handler="cluster(-1)",
           shown="["),
    Action(name="cluster-after", key="right_square_bracket", help=N_("next cluster"), hint=10, handler="cluster(1)",
           shown="]"),
    Action(name="all-clusters", key="0", help=N_("all clusters"), handler="all_clusters"),
    Action(name="describe", key="d", help=N_("describe"), handler="describe"),
    Action(name="copy", key="y", help=N_("copy"), handler="copy"),
    Action(name="refresh", key="r", help=N_("refresh"), hint=8, handler="refresh"),
    Action(name="theme", key="T", help=N_("next theme"), handler="next_theme"),
    Action(name="next-part", key="tab", help=N_("next part of the screen"), handler="next_part", shown="Tab"),
    Action(name="back", key="escape", help=N_("back"), handler="back", shown="Esc"),
    Action(name="quit", key="q", help=N_("quit"), scope="fleet", hint=20, handler="leave"),
    Action(name="quit-elsewhere", key="q", help=N_("quit (from Fleet only)"), handler="leave"),
    Action(name="keys", key="question_mark", help=N_("all keys"), handler="keys", shown="?"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One entry of the action menu: the verb of the change language and how its words are completed.

    `kind` is what it acts on; `ask` is what must still be typed after the object, None if nothing.
    """

    key: str
    verb: str
    help: str
    kind: str
    ask: str | None = None


DEEDS: tuple[Deed, ...] = (
    Deed(key="h", verb="hold", help=N_("hold"), kind="job"),
    Deed(key="u", verb="release", help=N_("release"), kind="job"),
    Deed(key="x", verb="cancel", help=N_("cancel"), kind="job"),
    Deed(key="q", verb="requeue", help=N_("requeue"), kind="job"),
    Deed(key="p", verb="priority", help=N_("priority"), kind="job", ask="value"),
    Deed(key="d", verb="drain", help=N_("drain"), kind="node", ask="reason"),
    Deed(key="u", verb="resume", help=N_("resume"), kind="node"),
    Deed(key="n", verb="quota", help=N_("quota"), kind="queue", ask="gpus"),
    Deed(key="s", verb="stop", help=N_("stop"), kind="queue"),
    Deed(key="u", verb="start", help=N_("start"), kind="queue"),
)


def actions_for(scope: str) -> list[Action]:
    """Return the actions of a view: its own, and those that work everywhere and whose key it has not taken."""
    own = [action for action in ACTIONS if action.scope == scope]
    taken = {action.key for action in own}
    return own + [action for action in ACTIONS if action.scope == "all" and action.key not in taken]


def bindings() -> list[Binding]:
    """Return the app's bindings, one a key; which action of that key is meant, the app decides by its view."""
    return [
        Binding(key, f"press('{key}')", show=False, id=f"key-{key}")
        for key in dict.fromkeys(action.key for action in ACTIONS)
    ]


def hints(scope: str, conditions: Iterable[str], most: int) -> list[Action]:
    """Return what the row of keys offers, without `?`, which always stands at its end."""
    met = set(conditions)
    offered = [
        action for action in actions_for(scope)
        if action.hint and (not action.guard or action.guard in met) and (not action.hint_in or scope in action.hint_in)
    ]  # fmt: skip
    return sorted(offered, key=lambda action: action.hint)[:most]


def named(*names: str) -> list[Action]:
    """Return actions by name, in that order."""
    found = {action.name: action for action in ACTIONS}
    return [found[name] for name in names]


def words(action: Action) -> str:
    """Return the action's help in the chosen language."""
    return _(action.help)
