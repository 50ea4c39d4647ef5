"""The three rows around every view: who and where, the verdict, and the keys."""

from connectors.text import _
from console.ui import actions
from console.ui.figures import clock
from console.ui.lines import Line, Span, fit, safe, two_ends, width_of
from console.ui.screens.view import View
from console.ui.state import Store, Verdict, verdict_words

WIDE = 110
LEAST = (64, 12)  # the fleet's last column is cut below this width; below this height a panel shows next to nothing


def identity(store: Store, view: str, context: str, width: int, *, read_only: bool) -> Line:
    """Return row 1: the views at the left (where it is narrow this one and its context), who and when at the right."""
    left: list[Span] = [(" gpudeck ", "title")]
    if width >= WIDE:
        for name, key, title in actions.VIEWS:
            here = name == view
            left.append((" " + key + " ", "accent"))
            left.append((_(title) + " ", "title" if here else "dim"))
    else:
        titles = {name: title for name, _key, title in actions.VIEWS}
        left.append((" " + _(titles[view]), "title"))
        if view != "fleet":
            left.append(("  " + context, "dim"))
    users = sorted({safe(status.user) for status in store.statuses.values() if status.user})
    right: list[Span] = []
    if users and width >= WIDE:
        right.append((users[0] if len(users) == 1 else _("{count} users").format(count=len(users)), "dim"))
        right.append(("  ", "base"))
    writable = not read_only and any(status.access == "write" for status in store.statuses.values())
    right.append((_("write"), "warn") if writable else (_("read-only"), "dim"))
    right.append(
        ("  " + clock(store.now_of(store.one_cluster or next(iter(store.clusters), None)), store.zone) + " ", "base")
    )
    return two_ends(tuple(left), tuple(right), width)


def verdict_line(verdict: Verdict, context: str, width: int) -> Line:
    """Return row 2: glyph, word, sentence; what it is about at the right where there is room."""
    lead = f" {verdict.glyph} {verdict_words()[verdict.word]}  "
    room = width - width_of(lead)
    says = verdict.says if width_of(verdict.says) <= room or not verdict.brief else verdict.brief
    left: Line = ((lead, verdict.tone), (says, "base"))
    if width < WIDE or not context or width_of(says) + width_of(context) + 3 > room:
        return left
    return two_ends(left, ((context + " ", "dim"),), width)


def prompt_keys_line(width: int) -> Line:
    """Return the last row while a question stands."""
    keys = [("Enter", _("go on")), ("Esc", _("drop it")), ("Up", _("what was typed before"))]
    return _keys_line(keys, "", width)


def panel_keys_line(width: int, *, explains: bool, shares: bool) -> Line:
    """Return the last row while a panel has the keys."""
    names = ["back", *(["what-if"] if explains else []), "copy", *(["next-part"] if shares else [])]
    return _keys_line([(one.key_shown, actions.words(one)) for one in actions.named(*names)], _("all keys"), width)


def keys_line(view: View, scope: str, width: int, conditions: set[str]) -> Line:
    """Return the last row: what works here, at most 8 (5 where it is narrow), and `?` always last."""
    shown = actions.hints(scope, view.conditions() | conditions, 8 if width >= WIDE else 5)
    return _keys_line([(one.key_shown, actions.words(one)) for one in shown], _("all keys"), width)


def _keys_line(keys: list[tuple[str, str]], last: str, width: int) -> Line:
    tail: Line = (("?", "accent"), (f" {last} ", "dim")) if last else ()
    room = width - sum(width_of(text) for text, _tone in tail) - 2
    spans: list[Span] = [(" ", "base")]
    used = 1
    for key, says in keys:
        words = f" {says}  "
        size = width_of(key) + width_of(words)
        if used + size > room:
            break
        spans += [(key, "accent"), (words, "dim")]
        used += size
    return two_ends(tuple(spans), tail, width)


def help_lines(scope: str, width: int) -> list[Line]:
    """Return the page of all keys: those of the view first, then those that work everywhere, then the menu's."""
    titles = {name: _(title) for name, _key, title in actions.VIEWS}
    own = [action for action in actions.ACTIONS if action.scope == scope]
    everywhere = [action for action in actions.ACTIONS if action.scope == "all"]
    lines: list[Line] = [((" " + _("KEYS IN {view}").format(view=titles[scope]), "title"),)]
    lines += _columns([(action.key_shown, actions.words(action)) for action in own], width)
    lines += [(), ((" " + _("KEYS EVERYWHERE"), "title"),)]
    lines += _columns([(action.key_shown, actions.words(action)) for action in everywhere], width)
    moves = [
        ("Up Down", _("move")), ("PgUp PgDn", _("move by a screen")), ("g G", _("first, last")),
        ("Ctrl-Z", _("suspend; fg comes back")), ("Ctrl-Q", _("quit from anywhere")),
    ]  # fmt: skip
    lines += _columns(moves, width)
    lines += [(), ((" " + _("ACTIONS (a, then the letter; the change asks for a word before it is made)"), "title"),)]
    kinds = {"job": _("job"), "node": _("node"), "queue": _("queue")}
    lines += _columns([(f"a {deed.key}", f"{_(deed.help)} ({kinds[deed.kind]})") for deed in actions.DEEDS], width)
    lines += [(), ((" " + _("SIGNS"), "title"),)]
    signs = [
        ("!", _("a person must act, or it never starts")), ("x", _("fault, failed")), ("_", _("held but idle")),
        ("~", _("stale: not the present state")), ("?", _("unknown: the system did not say")), ("-", _("none, zero")),
        (">", _("cursor; at the end of a word: cut here")), ("*", _("marked")),
    ]  # fmt: skip
    return lines + _columns(signs, width, 2)


def _columns(pairs: list[tuple[str, str]], width: int, most: int = 3) -> list[Line]:
    count = min(most, 3 if width >= WIDE else 2)
    size = (width - 3) // count
    lines: list[Line] = []
    for at in range(0, len(pairs), count):
        spans: list[Span] = [("   ", "base")]
        for key, says in pairs[at : at + count]:
            spans += [(fit(key, 10), "accent"), (fit(says, size - 10), "base")]
        lines.append(tuple(spans))
    return lines
