"""The action menu: one row that lists what can be done to the chosen objects, and waits for a letter."""

from collections.abc import Callable, Sequence

from textual.events import Key
from textual.message import Message

from console.ui.actions import Deed
from console.ui.lines import Line, Span, width_of
from console.ui.palette import Palette
from console.ui.widgets.focus import take_keys
from console.ui.widgets.row import Row


class Menu(Row, can_focus=True):
    """Shown above the keys while it waits; every key but its own closes it."""

    class Chosen(Message):
        """A letter was pressed; None: the menu was left."""

        def __init__(self, deed: Deed | None) -> None:
            """Keep what was chosen."""
            super().__init__()
            self.deed = deed

    def __init__(self, palette: Callable[[], Palette], words: Callable[[Deed], str]) -> None:
        """Make it hidden."""
        super().__init__(self._words, palette, id="menu")
        self._deeds: Sequence[Deed] = ()
        self._about = ""
        self._help = words
        self.display = False

    def offer(self, about: str, deeds: Sequence[Deed]) -> None:
        """Show the menu for what `about` says in safe text."""
        self._about, self._deeds = about, tuple(deeds)
        self.display = True
        self.forget()
        take_keys(self)

    def _words(self, width: int) -> Line:
        letters: list[Span] = []
        for deed in self._deeds:
            letters += [("  " + deed.key, "accent"), (" " + self._help(deed), "base")]
        letters += [("  Esc ", "accent")]
        room = width - sum(width_of(text) for text, _tone in letters) - 1
        about = self._about if width_of(self._about) <= room else ""
        return ((f" {about}", "bold"), *letters)

    def on_key(self, event: Key) -> None:
        """Take the letter."""
        event.stop()
        event.prevent_default()
        self.display = False
        self.post_message(self.Chosen(next((deed for deed in self._deeds if deed.key == event.character), None)))
