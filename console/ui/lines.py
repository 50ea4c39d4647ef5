"""Lines of a screen: spans of safe text with a tone each, cut and padded by cells into a Strip.

Nothing here knows markup. Text from outside enters a line through `safe` only.
"""

from collections.abc import Iterable
from typing import Literal

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.strip import Strip

from connectors.notation import cut, safe_text
from console.ui.palette import Palette

Span = tuple[str, str]  # text, tone
Line = tuple[Span, ...]
Align = Literal["left", "right"]

_ascii_only = False


def use_ascii(only: bool) -> None:
    """Show text from outside in ASCII alone, for terminals whose font or widths can't be trusted."""
    global _ascii_only  # noqa: PLW0603 - a property of the one terminal that this process draws on
    _ascii_only = only


def safe(text: str) -> str:
    """Return text from outside as one line that acts on nothing."""
    shown = safe_text(text)
    if _ascii_only and not shown.isascii():
        shown = shown.encode("ascii", "backslashreplace").decode("ascii")
    return shown


def safe_cut(text: str, width: int) -> str:
    """Return text from outside as at most `width` cells of a line, cut with `>`."""
    return cut(safe(text), width)


def width_of(text: str) -> int:
    """Return the cells of a safe text as the compositor counts them."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, align: Align = "left") -> str:
    """Return a safe text in exactly `width` cells, cut at its end with `>` where it is longer."""
    if text.isascii():
        shown = text if len(text) <= width else cut(text, width)
        return shown.rjust(width) if align == "right" else shown.ljust(width)
    shown = cut(text, width)
    size = cell_len(shown)
    if size > width:  # the compositor counts some joined emoji wider than Unicode does: its count places the columns
        shown = set_cell_size(shown, width)
        size = width
    pad = " " * (width - size)
    return pad + shown if align == "right" else shown + pad


def cut_line(line: Line, width: int) -> list[Span]:
    """Return the spans that fit into `width` cells, the last one cut with `>`, padded to the full width."""
    shown: list[Span] = []
    left = width
    for at, (text, tone) in enumerate(line):
        size = width_of(text)
        if size > left or (size == left and any(rest for rest, _tone in line[at + 1 :])):
            if left > 0:
                shown.append((_cut_more(text, left), tone))
            return shown
        shown.append((text, tone))
        left -= size
    if left > 0:
        shown.append((" " * left, "base"))
    return shown


def _cut_more(text: str, width: int) -> str:
    """Return exactly `width` cells that end in `>`, for more would follow."""
    return fit(fit(text, width - 1).rstrip(" ") + ">", width) if width_of(text) <= width else fit(text, width)


def to_strip(line: Line, width: int, palette: Palette, *, cursor: bool = False) -> Strip:
    """Return the line as a Strip of exactly `width` cells."""
    return Strip(
        [Segment(text, palette.style(tone, cursor=cursor)) for text, tone in cut_line(line, width) if text], width
    )


def two_ends(left: Line, right: Line, width: int, gap: int = 2) -> Line:
    """Return one line with the right part at the right end; the left part is cut before the right one is."""
    right_size = sum(width_of(text) for text, _tone in right)
    if right_size == 0 or right_size + gap >= width:
        return left
    spans = cut_line(left, width - right_size - gap)
    return (*spans, (" " * gap, "base"), *right)


def text_of(line: Iterable[Span]) -> str:
    """Return the line's plain text."""
    return "".join(text for text, _tone in line)


def wrap(text: str, width: int) -> list[str]:
    """Return a safe text as lines of at most `width` cells, broken at blanks and beside wide characters.

    Chinese has no blanks: it breaks anywhere, but for its punctuation, which neither begins a line nor is left at the
    end of one where it opens something. A longer word of narrow letters is broken anywhere.
    """
    lines: list[str] = []
    line = ""
    for at, word in enumerate(text.split(" ")):
        glue = " " if at else ""
        for piece in [word] if word.isascii() else _pieces(word):
            while width_of(piece) > width:
                if line:
                    lines.append(line)
                    line = ""
                head = _head(piece, width)
                lines.append(head)
                piece = piece[len(head) :]  # noqa: PLW2901 - the rest of it is what is left to place
            joined = f"{line}{glue}{piece}" if line else piece
            if width_of(joined) <= width:
                line = joined
            else:
                lines.append(line)
                line = piece
            glue = ""
    return [*lines, line]


_CLOSING = frozenset("，。、；：！？）」』】》〉”’…%％")
_OPENING = frozenset("（「『【《〈“‘")


def _pieces(word: str) -> list[str]:
    """Return the word cut wherever a line may end: beside a wide character, but not before closing punctuation."""
    pieces: list[str] = []
    start = 0
    for at in range(1, len(word)):
        before, after = word[at - 1], word[at]
        if after in _CLOSING or before in _OPENING or cell_len(after) == 0 or before == "\u200d":
            continue
        if cell_len(before) == 2 or cell_len(after) == 2:
            pieces.append(word[start:at])
            start = at
    return [*pieces, word[start:]]


def _head(word: str, width: int) -> str:
    end = min(len(word), width)
    while end > 1 and width_of(word[:end]) > width:
        end -= 1
    return word[:end]
