"""Who takes the keys."""

from textual.widget import Widget


def take_keys(widget: Widget) -> None:
    """Give a widget the keys at once.

    Textual's `focus()` waits behind the keys that are already queued: of `/user:ana`, typed in one go, the first
    letters would still be given to the list.
    """
    widget.screen.set_focus(widget)
