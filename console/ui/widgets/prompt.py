"""The prompt: one row above the keys, for a filter, a change, a what-if, or the word that a change asks for."""

from collections.abc import Callable

from textual.events import Key
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from console.ui.lines import safe_cut, width_of
from console.ui.palette import Palette
from console.ui.widgets.focus import take_keys
from console.ui.widgets.row import Row


class Prompt(Widget):
    """Asks for one line of text. The field is made when the first question is asked."""

    class Answered(Message):
        """The line was given with Enter."""

        def __init__(self, kind: str, text: str) -> None:
            """Keep what was asked and the answer."""
            super().__init__()
            self.kind = kind
            self.text = text

    class Changed(Message):
        """The line is another one now."""

        def __init__(self, kind: str, text: str) -> None:
            """Keep what is asked and the text so far."""
            super().__init__()
            self.kind = kind
            self.text = text

    def __init__(self, palette: Callable[[], Palette]) -> None:
        """Make it hidden."""
        super().__init__(id="prompt")
        self._palette = palette
        self._label = ""
        self.kind = ""
        self._history: dict[str, list[str]] = {}
        self._back = 0

    @property
    def open(self) -> bool:
        """Return whether a question stands."""
        return bool(self.kind)

    async def ask(self, kind: str, label: str, text: str = "", at: int | None = None) -> None:
        """Show the question with `text` in the field and the cursor at its end, or at `at`."""
        self.kind = ""
        self._label = f" {safe_cut(label, max(20, self.app.size.width * 2 // 3))} "
        if not self.children:
            await self.mount(Row(lambda _width: ((self._label, "accent"),), self._palette), Input(id="prompt-input"))
        row, field = self.query_one(Row), self.query_one(Input)
        row.styles.width = width_of(self._label)
        row.forget()
        with field.prevent(Input.Changed):
            field.value = text
        field.cursor_position = len(text) if at is None else at
        self.kind = kind
        self._back = 0
        self.display = True
        take_keys(field)

    async def typed_ahead(self, event: Key) -> bool:
        """Take a key that another widget was given; False for one that means nothing here."""
        field = self.query_one(Input)
        if event.key == "enter":
            await field.action_submit()
        elif event.is_printable and event.character is not None:
            field.insert_text_at_cursor(event.character)
        else:
            return False
        return True

    def take_keys(self) -> None:
        """Let the field have the keys again."""
        take_keys(self.query_one(Input))

    def close(self) -> None:
        """Hide it."""
        self.kind = ""
        self.display = False

    def on_input_submitted(self, event: Message) -> None:
        """Hand the line on."""
        event.stop()
        kind, text = self.kind, self._text()
        if text.strip() and kind != "confirm":
            told = self._history.setdefault(kind, [])
            if not told or told[-1] != text:
                told.append(text)
        self.post_message(self.Answered(kind, text))

    def on_input_changed(self, event: Message) -> None:
        """Tell who listens to every letter."""
        event.stop()
        if self.kind:
            self.post_message(self.Changed(self.kind, self._text()))

    def on_key(self, event: Key) -> None:
        """Walk through what was typed before."""
        told = self._history.get(self.kind, [])
        if event.key not in {"up", "down"} or not told:
            return
        event.stop()
        self._back = max(0, min(len(told), self._back + (1 if event.key == "up" else -1)))
        field = self.query_one(Input)
        field.value = told[-self._back] if self._back else ""
        field.cursor_position = len(field.value)

    def _text(self) -> str:
        return self.query_one(Input).value
