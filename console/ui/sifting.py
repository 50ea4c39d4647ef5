"""The filter of a view: its words, and what is wrong with them."""

from typing import TYPE_CHECKING

from connectors.errors import GpudeckError
from connectors.text import _
from console.ui.figures import plain
from console.ui.lines import Line, safe

if TYPE_CHECKING:  # polars is imported after the first frame only
    import polars as pl


class Sieve:
    """The grammar is that of `console.filters`; a filter that can't be read lets everything through and says so."""

    def __init__(self) -> None:
        """Begin without a filter."""
        self.text = ""
        self.error = ""

    def apply(self, frame: "pl.DataFrame") -> "pl.DataFrame":
        """Return the rows that pass."""
        self.error = ""
        if not self.text:
            return frame
        from console.filters import parse_filter

        try:
            return parse_filter(self.text).apply(frame)
        except GpudeckError as error:
            self.error = safe(str(error))
            return frame

    def line(self) -> Line:
        """Return the words, and the error, as the left part of a row."""
        if not self.text:
            return ((" ", "base"),)
        said: Line = ((" / ", "accent"), (safe(self.text), "base"))
        return (*said, ("  ! ", "bad"), (self.error, "bad")) if self.error else said

    def count(self, shown: int, total: int) -> list[str]:
        """Return `12 of 342 shown` where a filter is on."""
        return [_("{some} of {total} shown").format(some=plain(shown), total=plain(total))] if self.text else []
