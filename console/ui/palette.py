"""What the words of a screen look like in a theme: one rich style for each tone, and the choice of a theme."""

from collections.abc import Mapping
from functools import lru_cache

from rich.style import Style
from textual.theme import Theme


class Palette:
    """Styles by tone; `style(tone, cursor=True)` is the same word in the row of the cursor."""

    def __init__(self, name: str, styles: Mapping[str, Style], cursor: Style) -> None:
        """Keep the styles; the row of the cursor has one colour, in which only bold words still differ."""
        self.name = name
        self._styles = dict(styles)
        self._cursor = {tone: cursor + Style(bold=style.bold) for tone, style in self._styles.items()}

    def style(self, tone: str, *, cursor: bool = False) -> Style:
        """Return the style of a tone; KeyError for a tone that does not exist."""
        return self._cursor[tone] if cursor else self._styles[tone]

    @property
    def base(self) -> Style:
        """Return the style of plain text, and of empty space."""
        return self._styles["base"]


@lru_cache(maxsize=8)
def _palette(name: str, ansi: bool, foreground: str, background: str, words: tuple[tuple[str, str], ...]) -> Palette:
    colour = dict(words)
    if ansi:
        base = Style(color="default", bgcolor="default")
        reverse = base + Style(reverse=True)
        has_colour = "bad" in colour
        paint = {word: base + Style(color=colour[word]) for word in ("bad", "warn", "good", "accent") if has_colour}
        styles = {
            "base": base,
            "bold": base + Style(bold=True),
            "dim": base,
            "head": base + Style(underline=True),
            "title": base + Style(bold=True),
            "bad": paint.get("bad", base) + Style(bold=True),
            "warn": paint.get("warn", base) + Style(bold=has_colour or None),
            "good": paint.get("good", base),
            "accent": paint.get("accent", base) + Style(bold=True),
        }
        return Palette(name, styles, reverse)
    base = Style(color=foreground, bgcolor=background)
    styles = {
        "base": base,
        "bold": base + Style(bold=True),
        "dim": base + Style(color=colour["dim"]),
        "head": base + Style(color=colour["dim"]),
        "title": base + Style(bold=True),
        "bad": base + Style(color=colour["bad"], bold=True),
        "warn": base + Style(color=colour["warn"]),
        "good": base + Style(color=colour["good"]),
        "accent": base + Style(color=colour["accent"]),
    }
    cursor = Style(color=colour["cursor-text"], bgcolor=colour["cursor"])
    return Palette(name, styles, cursor)


def palette_of(theme: Theme) -> Palette:
    """Return the palette of a theme; a theme without the `gpudeck-` variables gives its own nearest colours."""
    own = {
        "dim": theme.foreground or "#888888",
        "bad": theme.error or theme.primary,
        "warn": theme.warning or theme.primary,
        "good": theme.success or theme.primary,
        "accent": theme.accent or theme.primary,
        "cursor": theme.primary,
        "cursor-text": theme.background or "#000000",
    }
    named = {
        key.removeprefix("gpudeck-"): value for key, value in theme.variables.items() if key.startswith("gpudeck-")
    }
    words = named if theme.ansi else own | named
    if theme.ansi and theme.name.startswith("ansi-"):
        words = {"bad": "red", "warn": "yellow", "good": "green", "accent": "blue"}
    default = ("#d0d0d0", "#101010") if theme.dark else ("#202020", "#f8f8f8")
    return _palette(
        theme.name,
        theme.ansi,
        theme.foreground or default[0],
        theme.background or default[1],
        tuple(sorted(words.items())),
    )


def choose_theme(environ: Mapping[str, str]) -> str:
    """Return the theme that the terminal's environment asks for.

    NO_COLOR (no-color.org) gives the one without colour; a terminal that does not say that it has 256 colours or
    more gives its own 16; COLORFGBG's last field (7 or 15: a light ground) gives the light one.
    """
    if environ.get("NO_COLOR"):
        return "gpudeck-mono"
    term = environ.get("TERM", "")
    rich_colour = (
        environ.get("COLORTERM", "").lower() in {"truecolor", "24bit"} or "256color" in term or "direct" in term
    )
    if term and not rich_colour:
        return "gpudeck-ansi"
    return "gpudeck-light" if environ.get("COLORFGBG", "").rpartition(";")[2] in {"7", "15"} else "gpudeck-dark"
