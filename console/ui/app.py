"""The screen process: three rows of chrome, one view at a time, and a link to the engine."""

import os
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, tzinfo
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import Key, Resize

import themes
from connectors.text import _, use_language
from console.messages import AuditEntry, ClusterStatus, Committed, Proposal
from console.scheduling.forecast import WhatIf
from console.triage.diagnosis import Diagnosis
from console.ui import actions, chrome
from console.ui.feed import Feed, LinkFactory
from console.ui.flows import Flows, words_of
from console.ui.lines import Line, safe, use_ascii
from console.ui.palette import Palette, choose_theme, palette_of
from console.ui.panels import Panel
from console.ui.screens.fleet import Fleet
from console.ui.screens.view import Target, View
from console.ui.state import Store, Verdict
from console.ui.widgets.focus import take_keys
from console.ui.widgets.menu import Menu
from console.ui.widgets.prompt import Prompt
from console.ui.widgets.row import Row

# Views but the first are imported when they are first opened: the first frame pays for one view only.
_VIEWS = {
    "nodes": ("console.ui.screens.nodes", "Nodes"),
    "queue": ("console.ui.screens.queue", "Queue"),
    "quotas": ("console.ui.screens.quotas", "Quotas"),
    "whatif": ("console.ui.screens.whatif", "WhatIfView"),
    "changes": ("console.ui.screens.changes", "Changes"),
}


class ConsoleApp(App[int]):
    """The console. It knows the engine only through a link that it opens after the first frame."""

    CSS_PATH = str(Path(themes.__file__).with_name("console.tcss"))
    TITLE = "gpudeck"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *actions.bindings(),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
        Binding("tab", "press('tab')", show=False, priority=True),
    ]

    def __init__(
        self,
        link_factory: LinkFactory,
        *,
        last: tuple[ClusterStatus, ...] = (),
        read_only: bool = False,
        theme: str | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        zone: tzinfo | None = None,
    ) -> None:
        """Make the app; `theme` None is chosen by the terminal's environment, `zone` None is the user's own."""
        chosen = choose_theme(os.environ)
        if theme and chosen != "gpudeck-mono":
            chosen = theme if "-" in theme else f"gpudeck-{theme}"
        # Textual's own answer to NO_COLOR turns the terminal's default colours into black on black; ours is a theme.
        quiet = os.environ.pop("NO_COLOR", None) is not None
        super().__init__()
        self.no_color = quiet
        for own in themes.THEMES:
            self.register_theme(own)
        self.theme = chosen if chosen in self.available_themes else "gpudeck-dark"
        self.animation_level = "none"
        self.store = Store(last, now, zone)
        self.read_only = read_only
        self.feed = Feed(link_factory, self.store, self.refresh_view)
        self.flows = Flows(self)
        self.view_name = "fleet"
        self.views: dict[str, View] = {}
        self.came_from: list[str] = []
        self.notice: Verdict | None = None
        self._drawn = False
        self.prompt_cluster: str | None = None
        self.deed: tuple[actions.Deed, list[Target]] | None = None

    # making -------------------------------------------------------------------------------------------------------
    def palette(self) -> Palette:
        """Return the colours of the theme that is on."""
        return palette_of(self.current_theme)

    def compose(self) -> ComposeResult:
        """Rows, the body with the fleet in it, the prompt and the menu (both hidden), and the keys."""
        self.top_row = Row(self._top, self.palette, id="top")
        self.verdict_row = Row(self._verdict, self.palette, id="verdict")
        self.keys_row = Row(self._keys, self.palette, id="keys")
        self.prompt = Prompt(self.palette)
        self.menu = Menu(self.palette, lambda deed: _(deed.help))
        self.panel = Panel(self.store, self.palette)
        self.panel.display = False
        self.views["fleet"] = Fleet(self.store, self.palette)
        yield Row(self._too_small, self.palette, id="small")
        yield self.top_row
        yield self.verdict_row
        with Container(id="body"):
            yield self.views["fleet"]
            yield self.panel
        yield self.prompt
        yield self.menu
        yield self.keys_row

    def on_mount(self) -> None:
        """Draw the last picture; the engine starts after that frame."""
        self._drawn = True
        self.theme_changed_signal.subscribe(self, self._repaint)
        self.app_resume_signal.subscribe(self, self._resumed)
        self.view.focus_first()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.set_interval(1.0, self._tick)
        self.run_worker(self.feed.run(), group="feed", exclusive=True)

    async def on_unmount(self) -> None:
        """End the engine with the screen."""
        await self.feed.close()

    # rows ---------------------------------------------------------------------------------------------------------
    @property
    def view(self) -> View:
        """Return the view that is shown."""
        return self.views[self.view_name]

    def _top(self, width: int) -> Line:
        return chrome.identity(self.store, self.view_name, self.view.context(), width, read_only=self.read_only)

    def _verdict(self, width: int) -> Line:
        verdict = self.notice or self.store.engine_verdict()
        context = self.view.context()
        if verdict is None and self.panel.display and self.panel.covers:
            verdict = self.panel.verdict()
        return chrome.verdict_line(verdict or self.view.verdict(), context, width)

    def _keys(self, width: int) -> Line:
        if self.prompt.open:
            return chrome.prompt_keys_line(width)
        if self.panel.display and self.panel.page.has_focus:
            explains = self.panel.diagnosis is not None
            return chrome.panel_keys_line(width, explains=explains, shares=not self.panel.covers)
        return chrome.keys_line(self.view, self.view_name, width, self._conditions())

    def _conditions(self) -> set[str]:
        return {"undo"} if self.store.undoable else set()

    def _rows(self) -> None:
        for row in (self.top_row, self.verdict_row, self.keys_row):
            row.update()

    def _tick(self) -> None:
        self.view.tick()
        self._rows()

    def refresh_view(self) -> None:
        """Show what the store took over."""
        if self._drawn and self.view.is_mounted:
            self.view.show()
            self._rows()

    def say(self, verdict: Verdict) -> None:
        """Say something in row 2 until the next thing is done."""
        self.notice = verdict
        self.verdict_row.update()

    def hush(self) -> None:
        """Give row 2 back to the view."""
        self.notice = None
        self._rows()

    def _repaint(self, _theme: object) -> None:
        for view in self.views.values():
            view.forget()
        for row in self.query(Row):
            row.forget()
        self.panel.forget()

    def _too_small(self, _width: int) -> Line:
        width, height = self.size
        says = _("{width}x{height} is too small; gpudeck needs {least}")
        least = f"{chrome.LEAST[0]}x{chrome.LEAST[1]}"
        return ((" " + says.format(width=width, height=height, least=least), "bold"),)

    def _resumed(self, _app: object) -> None:
        """Draw the whole screen: while the console was suspended the terminal showed something else."""
        self.screen.refresh(layout=True)
        self.call_after_refresh(self.screen.refresh)

    def on_resize(self, event: Resize) -> None:
        """Lay the views out anew for the new width; below the least size one line says so instead."""
        small = event.size.width < chrome.LEAST[0] or event.size.height < chrome.LEAST[1]
        if self._drawn and small != self.screen.has_class("-small"):
            self.screen.set_class(small, "-small")
            if not small:
                self.call_after_refresh(self._take_keys)
        self._place_panel()
        self.call_after_refresh(self.refresh_view)

    # views and panels ---------------------------------------------------------------------------------------------
    async def go(self, name: str, *, remember: bool = True) -> None:
        """Show a view; it is made when it is first opened."""
        self.close_panel()
        if remember and name != self.view_name:
            self.came_from.append(self.view_name)
        self.view.display = False
        self.view_name = name
        self.notice = None
        if name not in self.views:
            module, kind = _VIEWS[name]
            self.views[name] = getattr(import_module(module), kind)(self.store, self.palette)
            await self.query_one("#body").mount(self.views[name], before=self.panel)
        self.view.display = True
        self.view.show()
        self.view.focus_first()
        self._rows()
        if name == "changes":
            self.do(self.flows.audit())

    def _place_panel(self) -> None:
        if not self._drawn or not self.panel.display:
            return
        half = self.panel.may_share and self.size.width >= chrome.WIDE and self.size.height >= 34
        self.panel.covers = not half
        self.view.display = half
        self.panel.styles.height = max(16, (self.size.height - 3) * 3 // 5) if half else "1fr"

    def _take_keys(self) -> None:
        """Give the keys to what had them before the screen was too small to show it."""
        if self.prompt.open:
            self.prompt.take_keys()
        elif self.panel.display:
            take_keys(self.panel.page)
        else:
            self.view.focus_first()

    async def open_panel(self, panel: Callable[[], None]) -> None:
        """Show the panel after `panel` has filled it: below the list where there is room, else instead of it."""
        panel()
        self.panel.display = True
        self._place_panel()
        take_keys(self.panel.page)
        self._rows()

    def close_panel(self) -> bool:
        """Close the panel; False if none is open."""
        if not self.panel.display:
            return False
        self.panel.display = False
        self.view.display = True
        self.view.focus_first()
        self._rows()
        return True

    async def open_explanation(self, diagnosis: Diagnosis) -> None:
        """Show why a job does not run."""
        await self.open_panel(lambda: self.panel.explain(diagnosis))

    async def show_result(self, cluster: str, words: str, result: WhatIf | Proposal | Committed) -> None:
        """Show a what-if, a proposal or a receipt in its view."""
        await self.go("whatif")
        from console.ui.screens.whatif import WhatIfView

        view = self.view
        if isinstance(view, WhatIfView):
            view.take(cluster, words, result, writable=self.may_write(cluster))
        self._rows()

    def on_descendant_focus(self) -> None:
        """Show the keys of what has the focus now."""
        if self._drawn:
            self.call_after_refresh(self._rows)

    def take_audit(self, entries: tuple[AuditEntry, ...]) -> None:
        """Hand the audit log to its view."""
        from console.ui.screens.changes import Changes

        view = self.views.get("changes")
        if isinstance(view, Changes):
            view.take(entries)
        self._rows()

    def may_write(self, cluster: str) -> bool:
        """Return whether a change may be carried out there from this console."""
        status = self.store.statuses.get(cluster)
        return not self.read_only and status is not None and status.access == "write"

    def do(self, conversation: Coroutine[Any, Any, None]) -> None:
        """Hold a conversation with the engine while keys go on working; a newer one ends an older one."""
        self.run_worker(conversation, group="conversation", exclusive=True)

    # keys ---------------------------------------------------------------------------------------------------------
    async def action_press(self, key: str) -> None:
        """Do what the action table says for this key in this view."""
        if self.prompt.open and key != "escape":
            return
        from console.ui.keys import press

        await press(self, key)

    async def on_key(self, event: Key) -> None:
        """Hand a key to the prompt that was typed before the prompt had opened: it went to the list and came up."""
        if self.prompt.open and await self.prompt.typed_ahead(event):
            event.prevent_default()

    def action_interrupt(self) -> None:
        """Explain how to leave: Ctrl-C is also what stops a command in the shell next door."""
        self.say(Verdict(word="WAIT", says=_("q in Fleet (1) leaves; ctrl+q leaves at once")))

    def cluster_in_question(self) -> str | None:
        """Return the cluster that a question or a change is meant for; says so where it can't be known."""
        target = self.view.target()
        view = self.view
        name = target.cluster if target else view.cluster() if isinstance(view, Fleet) else None
        name = name or self.store.one_cluster
        if name is None:
            says = _("which cluster? choose one with [ and ], or stand on a row of it")
            self.say(Verdict(word="ACT", glyph="!", says=says))
        return name

    async def on_prompt_answered(self, event: Prompt.Answered) -> None:
        """Do what was typed."""
        from console.ui.keys import answered

        self.prompt.close()
        if self.panel.display:
            take_keys(self.panel.page)
        else:
            self.view.focus_first()
        await answered(self, event.kind, event.text)

    def on_prompt_changed(self, event: Prompt.Changed) -> None:
        """Filter while the filter is typed."""
        from console.ui.keys import typed

        typed(self, event.kind, event.text)

    async def on_menu_chosen(self, event: Menu.Chosen) -> None:
        """Propose what was chosen in the menu for the objects that it was opened on."""
        self.view.focus_first()
        chosen, targets = event.deed, self.deed[1] if self.deed else []
        self.deed = None
        if chosen is None or not targets:
            return
        if chosen.ask is not None:
            self.deed = (chosen, targets)
            await self.prompt.ask("deed", f"{_(chosen.help)} {_named(targets)}: {chosen.ask}=")
            return
        self.do(self.flows.propose(targets[0].cluster, words_of(chosen, targets)))

    def on_table_moved(self) -> None:
        """Take a notice back as soon as the cursor moves on, and refresh what follows it."""
        if self.notice is not None and self.notice.word in {"OK", "WAIT"}:
            self.notice = None
        self._rows()


def _named(targets: list[Target]) -> str:
    one = targets[0]
    return safe(one.id) if len(targets) == 1 else _("{count} marked").format(count=len(targets))


def run(
    link_factory: LinkFactory,
    *,
    last: tuple[ClusterStatus, ...] = (),
    read_only: bool = False,
    language: str | None = None,
    theme: str | None = None,
    ascii_only: bool = False,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    zone: tzinfo | None = None,
) -> int:
    """Run the console until it is left and return its exit code; `last` is what the first frame shows."""
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    use_language(language)
    use_ascii(ascii_only)
    app = ConsoleApp(link_factory, last=last, read_only=read_only, theme=theme, now=now, zone=zone)
    code = app.run(mouse=False)
    return app.return_code or 0 if code is None else code
