"""The one exception that every parser of this package raises."""

_SHOWN = 80


class NotationError(ValueError):
    """A text that is not written in the notation asked for.

    `what` names the notation ("host list"), `text` is the whole text as given, `why` says what is wrong with it and
    `position` is the offset in `text` where reading stopped, or None. The message quotes at most 80 characters and
    escapes what is not printable: it is one line whatever the text holds.
    """

    def __init__(self, what: str, text: str, why: str, position: int | None = None) -> None:
        """Keep all four as arguments: the exception then survives copying and pickling."""
        super().__init__(what, text, why, position)
        self.what = what
        self.text = text
        self.why = why
        self.position = position

    def __str__(self) -> str:
        """Return one line: what could not be read, where, and why."""
        at = "" if self.position is None else f" at character {self.position + 1}"
        return f"not a {self.what}: {_clip(self.text)!r}{at}: {_one_line(_clip(self.why, 2 * _SHOWN))}"


def _clip(text: str, size: int = _SHOWN) -> str:
    return text if len(text) <= size else text[:size] + "..."


def _one_line(text: str) -> str:
    """Escape what is not printable: a reason quotes pieces of the text."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
