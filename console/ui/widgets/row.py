"""Single rows: a widget of one line whose words are computed when it is drawn."""

from collections.abc import Callable

from textual.strip import Strip
from textual.widget import Widget

from console.ui.lines import Line, to_strip
from console.ui.palette import Palette


class Row(Widget):
    """One line of the screen; `line(width)` says what stands there."""

    def __init__(
        self,
        line: Callable[[int], Line],
        palette: Callable[[], Palette],
        *,
        id: str | None = None,  # noqa: A002 - the name that every Textual widget gives it
    ) -> None:
        """Keep where the words come from."""
        super().__init__(id=id, classes="row")
        self._line = line
        self._palette = palette
        self._shown: Line | None = None

    def update(self) -> None:
        """Repaint if the words changed."""
        if self._shown is None or self._line(self.size.width) != self._shown:
            self.refresh()

    def forget(self) -> None:
        """Draw anew: the theme or the language changed."""
        self._shown = None
        self.refresh()

    def render_line(self, _y: int) -> Strip:
        """Return the line."""
        self._shown = self._line(self.size.width)
        return to_strip(self._shown, self.size.width, self._palette())
