"""A page of lines that scrolls: explanations, what-if results, descriptions, keys."""

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.strip import Strip
from textual.widget import Widget

from connectors.text import plural
from console.ui.lines import Line, text_of, to_strip
from console.ui.palette import Palette


class Page(Widget, can_focus=True):
    """Lines made for the width at hand by `lines(width)`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_by(-1)", show=False),
        Binding("down,j", "scroll_by(1)", show=False),
        Binding("pageup,ctrl+b", "scroll_page(-1)", show=False),
        Binding("pagedown,ctrl+f", "scroll_page(1)", show=False),
        Binding("home,g", "scroll_by(-1000000)", show=False),
        Binding("end,G", "scroll_by(1000000)", show=False),
    ]

    def __init__(
        self,
        lines: Callable[[int], list[Line]],
        palette: Callable[[], Palette],
        *,
        id: str | None = None,  # noqa: A002 - the name that every Textual widget gives it
    ) -> None:
        """Keep where the lines come from."""
        super().__init__(id=id)
        self._source = lines
        self._palette = palette
        self._lines: list[Line] | None = None
        self.top = 0

    def update(self, *, to_top: bool = False) -> None:
        """Make the lines anew."""
        self._lines = None
        if to_top:
            self.top = 0
        self.refresh()

    forget = update

    def lines(self) -> list[Line]:
        """Return the lines for the present width."""
        if self._lines is None:
            self._lines = self._source(max(1, self.size.width))
            self.top = max(0, min(self.top, len(self._lines) - 1))
        return self._lines

    def plain_text(self) -> str:
        """Return all lines as text."""
        return "\n".join(text_of(line).rstrip() for line in self.lines())

    def render_line(self, y: int) -> Strip:
        """Return a line; the last one on the screen says how many more there are."""
        lines, palette, width = self.lines(), self._palette(), self.size.width
        at = self.top + y
        more = len(lines) - self.top - self.size.height
        if y == self.size.height - 1 and more > 0:
            says = plural("+ {count} more line", "+ {count} more lines", more + 1).format(count=more + 1)
            return to_strip(((f"  {says}", "dim"),), width, palette)
        return to_strip(lines[at], width, palette) if at < len(lines) else Strip.blank(width, palette.base)

    def action_scroll_by(self, step: int) -> None:
        """Scroll by lines, never past the last screen."""
        most = max(0, len(self.lines()) - self.size.height)
        self.top = max(0, min(self.top + step, most))
        self.refresh()

    def action_scroll_page(self, step: int) -> None:
        """Scroll by one screen."""
        self.action_scroll_by(step * max(1, self.size.height - 2))

    def on_resize(self, _event: Resize) -> None:
        """Make the lines for the new width."""
        self.update()
