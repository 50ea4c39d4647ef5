"""A table of any number of rows that draws only the lines on the screen.

Textual's DataTable repaints its whole viewport for one changed cell; this one asks its `Rows` for the lines that are
visible, keeps the Strip of each, and repaints a line only when its cells differ. It keeps its own place (`top`) instead
of being a ScrollView: there is no scroll bar to feed, and a changed number of rows then costs no layout.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.events import Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from console.ui.figures import Cell
from console.ui.lines import Align, Line, fit, to_strip, width_of
from console.ui.palette import Palette

_GUTTER = 2  # cells for the cursor's `>` and the mark's `*`


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: `rank` 0 is never dropped, the highest rank goes first; `flex` takes the width that is left.

    `title` is called when it is drawn, for the language may be chosen after import. The width grows with the content
    of what is on the screen, up to `most`; a flex column's width is what it should have before others are dropped.
    """

    key: str
    title: Callable[[], str]
    width: int
    most: int = 0
    align: Align = "left"
    rank: int = 0
    flex: bool = False


class Rows(Protocol):
    """What a table shows. `row(i)` has one cell for each column; a `version` that is equal promises equal cells."""

    def __len__(self) -> int: ...

    def row(self, index: int) -> Sequence[Cell]: ...

    def key(self, index: int) -> str: ...

    def version(self, index: int) -> Hashable: ...

    def find(self, key: str) -> int | None: ...


class ListRows:
    """Rows that are at hand as (key, cells)."""

    def __init__(self, rows: Sequence[tuple[str, Sequence[Cell]]] = ()) -> None:
        """Keep the rows; keys must differ."""
        self._rows = [(key, tuple(cells)) for key, cells in rows]
        self._at = {key: at for at, (key, _cells) in enumerate(self._rows)}

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> Sequence[Cell]:
        """Return the cells."""
        return self._rows[index][1]

    def key(self, index: int) -> str:
        """Return the key."""
        return self._rows[index][0]

    def version(self, index: int) -> Hashable:
        """Return the cells themselves."""
        return self._rows[index][1]

    def find(self, key: str) -> int | None:
        """Return where the key is."""
        return self._at.get(key)


def choose_columns(
    columns: Sequence[Column], widths: Sequence[int], width: int, hidden: frozenset[str] = frozenset()
) -> list[tuple[int, int]]:
    """Return (column, width) for the columns that fit whole.

    The flex column takes what is left; it gives way only when there is nothing more to drop.
    """
    keep = [at for at, column in enumerate(columns) if column.key not in hidden]

    def needed() -> int:
        return _GUTTER + sum(widths[at] for at in keep) + max(0, len(keep) - 1)

    while needed() > width:
        droppable = [at for at in keep if columns[at].rank > 0]
        if not droppable:
            break
        keep.remove(max(droppable, key=lambda at: (columns[at].rank, at)))
    left = max(0, width - needed())
    over = max(0, needed() - width)
    return [(at, max(8, widths[at] + left - over) if columns[at].flex else widths[at]) for at in keep]


class Table(Widget, can_focus=True):
    """The table. Its first line is the header; the cursor is a row, kept by its key over every change of rows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("home,g", "edge(0)", show=False),
        Binding("end,G", "edge(1)", show=False),
    ]

    class Moved(Message):
        """The cursor stands on another row."""

    class Left(Message):
        """The cursor was moved beyond the first (-1) or last (+1) row."""

        def __init__(self, table: "Table", step: int) -> None:
            """Keep which table and which way."""
            super().__init__()
            self.table = table
            self.step = step

    def __init__(
        self,
        columns: Sequence[Column],
        palette: Callable[[], Palette],
        *,
        empty: Callable[[int], list[Line]] = lambda _width: [],
        footer: bool = False,
        keep_cursor: bool = True,
        id: str | None = None,  # noqa: A002 - the name that every Textual widget gives it
    ) -> None:
        """Make an empty table; `empty` says why there is no row; with `footer` the last row takes no cursor.

        With `keep_cursor` the cursor's `>` stays while another widget has the keys.
        """
        super().__init__(id=id)
        self._columns = tuple(columns)
        self._palette = palette
        self._empty = empty
        self._footer = footer
        self._keep_cursor = keep_cursor
        self._hidden: frozenset[str] = frozenset()
        self._widths = [column.width for column in columns]
        self._layout: list[tuple[int, int]] = []
        self._layout_of: tuple[int, str] = (0, "")
        self._strips: LRUCache[Hashable, Strip] = LRUCache(1024)
        self._painted: dict[int, Hashable] = {}
        self.rows: Rows = ListRows()
        self.cursor = 0
        self.top = 0
        self.marks: set[str] = set()
        self._touched = False

    # rows ---------------------------------------------------------------------------------------------------------
    @property
    def last(self) -> int:
        """Return the last row that the cursor can stand on; -1 if there is none."""
        return len(self.rows) - 1 - (1 if self._footer and len(self.rows) else 0)

    @property
    def cursor_key(self) -> str | None:
        """Return the key of the cursor's row."""
        return self.rows.key(self.cursor) if 0 <= self.cursor <= self.last else None

    def set_hidden(self, hidden: frozenset[str]) -> None:
        """Leave out the columns with these keys."""
        if hidden != self._hidden:
            self._hidden = hidden
            self._forget()

    def set_footer(self, footer: bool) -> None:
        """Say whether the last row is a total, which takes no cursor."""
        self._footer = footer

    def set_rows(self, rows: Rows, *, to_top: bool = False) -> None:
        """Show other rows; cursor and marks follow their keys, the cursor's line stays where it is on the screen."""
        # Nobody has chosen the first row by merely opening the view: until a key moves it, the cursor stays at the top.
        key = self.cursor_key if self._touched or self.cursor else None
        line = self.cursor - self.top
        old_len = len(self.rows)
        self.rows = rows
        found = None if key is None or to_top else rows.find(key)
        self.cursor = found if found is not None else (0 if to_top else max(0, min(self.cursor, self.last)))
        if self.marks:
            self.marks = {mark for mark in self.marks if rows.find(mark) is not None}
        self._scroll_rows(0 if to_top else self.cursor - line if found is not None else self.top)
        if old_len == 0 or len(rows) == 0:
            self.refresh()
        self._measure()
        self._repaint_changed()

    def _measure(self) -> None:
        widths = list(self._widths)
        for index in range(self.top, min(len(self.rows), self.top + max(1, self._body_height()))):
            for at, (column, (text, _tone)) in enumerate(zip(self._columns, self.rows.row(index), strict=True)):
                if column.most > widths[at]:
                    widths[at] = min(column.most, max(widths[at], width_of(text)))
        if widths != self._widths:
            self._widths = widths
            self._forget()

    def _forget(self) -> None:
        self._layout_of = (0, "")
        self._strips.clear()
        self._painted.clear()
        self.refresh()

    def forget(self) -> None:
        """Draw everything anew: the theme or the language changed."""
        self._forget()

    def _line_key(self, index: int) -> Hashable:
        key = self.rows.key(index)
        here = index == self.cursor and index <= self.last
        return (key, self.rows.version(index), here, here and self.has_focus, key in self.marks)

    def _repaint_changed(self) -> None:
        for y, painted in list(self._painted.items()):
            index = self.top + y - 1
            now = self._line_key(index) if index < len(self.rows) else None
            if painted != now:
                self.refresh(Region(0, y, self.size.width, 1))
        for y in range(1, self.size.height):
            if y not in self._painted and self.top + y - 1 < len(self.rows):
                self.refresh(Region(0, y, self.size.width, 1))

    # drawing ------------------------------------------------------------------------------------------------------
    def _body_height(self) -> int:
        return max(0, self.size.height - 1)

    def _columns_now(self, width: int, palette: Palette) -> list[tuple[int, int]]:
        if self._layout_of != (width, palette.name):
            self._strips.clear()
            self._layout = choose_columns(self._columns, self._widths, width, self._hidden)
            self._layout_of = (width, palette.name)
        return self._layout

    def render_line(self, y: int) -> Strip:
        """Return the header, a row, or the empty state's words."""
        width, palette = self.size.width, self._palette()
        columns = self._columns_now(width, palette)
        if len(self.rows) == 0:
            lines = self._empty(width)
            return to_strip(lines[y], width, palette) if y < len(lines) else Strip.blank(width, palette.base)
        if y == 0:
            return self._header(columns, width, palette)
        index = self.top + y - 1
        if index >= len(self.rows):
            self._painted[y] = None
            return Strip.blank(width, palette.base)
        key = self._line_key(index)
        self._painted[y] = key
        strip = self._strips.get(key)
        if strip is None:
            strip = self._row(index, columns, width, palette)
            self._strips[key] = strip
        return strip

    def _header(self, columns: list[tuple[int, int]], width: int, palette: Palette) -> Strip:
        words = [fit(self._columns[at].title(), size, self._columns[at].align) for at, size in columns]
        return to_strip(((fit(" " * _GUTTER + " ".join(words), width), "head"),), width, palette)

    def _row(self, index: int, columns: list[tuple[int, int]], width: int, palette: Palette) -> Strip:
        at_cursor = index == self.cursor and self.has_focus and index <= self.last
        marked = self.rows.key(index) in self.marks
        cells = self.rows.row(index)
        here = at_cursor or (self._keep_cursor and index == self.cursor and index <= self.last)
        gutter = (">" if here else " ") + ("*" if marked else " ")
        segments = [Segment(gutter, palette.style("accent", cursor=at_cursor))]
        gap = Segment(" ", palette.style("base", cursor=at_cursor))
        used = _GUTTER
        for place, (at, size) in enumerate(columns):
            text, tone = cells[at]
            if place:
                segments.append(gap)
                used += 1
            segments.append(Segment(fit(text, size, self._columns[at].align), palette.style(tone, cursor=at_cursor)))
            used += size
        if used < width:
            segments.append(Segment(" " * (width - used), palette.style("base", cursor=at_cursor)))
        strip = Strip(segments, max(used, width))
        return strip if used <= width else strip.crop(0, width)

    # moving -------------------------------------------------------------------------------------------------------
    def _scroll_rows(self, top: int) -> None:
        most = max(0, len(self.rows) - self._body_height())
        top = max(0, min(top, most))
        if top != self.top:
            self.top = top
            self._painted.clear()
            self.refresh()

    def go(self, index: int) -> None:
        """Put the cursor on a row and bring it into sight."""
        self._touched = True
        index = max(0, min(index, self.last))
        old, self.cursor = self.cursor, index
        self._into_sight()
        for changed in {old, index}:
            self.refresh(Region(0, changed - self.top + 1, self.size.width, 1))
        if old != index:
            self.post_message(self.Moved())

    def _into_sight(self) -> None:
        height = self._body_height()
        if self.cursor < self.top:
            self._scroll_rows(self.cursor)
        elif height and self.cursor >= self.top + height:
            self._scroll_rows(self.cursor - height + 1)

    def go_to_key(self, key: str) -> bool:
        """Put the cursor on the row of that key; False if there is none."""
        index = self.rows.find(key)
        if index is not None:
            self.go(index)
        return index is not None

    def toggle_mark(self) -> None:
        """Mark the cursor's row, or take its mark, and go one down."""
        key = self.cursor_key
        if key is None:
            return
        self.marks ^= {key}
        self.go(self.cursor + 1)
        self._repaint_changed()

    def clear_marks(self) -> None:
        """Take all marks."""
        self.marks = set()
        self._repaint_changed()

    def action_move(self, step: int) -> None:
        """Move by one row; beyond an end the view decides."""
        if not 0 <= self.cursor + step <= self.last:
            self.post_message(self.Left(self, step))
        else:
            self.go(self.cursor + step)

    def action_page(self, step: int) -> None:
        """Move by one screen."""
        self.go(self.cursor + step * max(1, self._body_height() - 1))

    def action_edge(self, end: int) -> None:
        """Go to the first (0) or last (1) row."""
        self.go(self.last if end else 0)

    def on_focus(self) -> None:
        """Show the cursor."""
        self._repaint_changed()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self._repaint_changed()

    def on_resize(self, _event: Resize) -> None:
        """Keep the cursor in sight."""
        self._painted.clear()
        self._measure()
        self._into_sight()
        self.refresh()
