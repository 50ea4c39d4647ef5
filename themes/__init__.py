"""The palettes of the console, and a starting point for one's own.

A palette is a Textual `Theme`; the console reads its words' colours from the `gpudeck-` variables below. Contrast
against the background is at least 7:1 for `foreground`, `bad`, `warn` and `good` and 4.5:1 for `dim` and `accent`
(a test measures it). `console.tcss` holds the layout and no colours.
"""

from textual.theme import Theme

DARK = Theme(
    name="gpudeck-dark",
    primary="#6cb2e6",
    accent="#6cb2e6",
    warning="#e2b340",
    error="#ff8077",
    success="#63c878",
    foreground="#d2d8dd",
    background="#101418",
    surface="#101418",
    panel="#101418",
    boost="#101418",
    dark=True,
    variables={
        "gpudeck-dim": "#8b959e",
        "gpudeck-bad": "#ff8077",
        "gpudeck-warn": "#e2b340",
        "gpudeck-good": "#63c878",
        "gpudeck-accent": "#6cb2e6",
        "gpudeck-cursor": "#1d3f59",
        "gpudeck-cursor-text": "#f2f6f9",
    },
)
LIGHT = Theme(
    name="gpudeck-light",
    primary="#0a58a5",
    accent="#0a58a5",
    warning="#6a4700",
    error="#a30d16",
    success="#0d5a26",
    foreground="#1a1f24",
    background="#fafaf7",
    surface="#fafaf7",
    panel="#fafaf7",
    boost="#fafaf7",
    dark=False,
    variables={
        "gpudeck-dim": "#59626b",
        "gpudeck-bad": "#a30d16",
        "gpudeck-warn": "#6a4700",
        "gpudeck-good": "#0d5a26",
        "gpudeck-accent": "#0a58a5",
        "gpudeck-cursor": "#0a58a5",
        "gpudeck-cursor-text": "#ffffff",
    },
)
_TERMINAL = {
    "foreground": "ansi_default",
    "background": "ansi_default",
    "surface": "ansi_default",
    "panel": "ansi_default",
    "boost": "ansi_default",
}
# Textual's own rules for its native ansi mode ask for these.
_ASKED = {
    "ansi-background": "ansi_default",
    "ansi-foreground": "ansi_default",
    "border-blurred": "ansi_default",
    "input-cursor-background": "ansi_default",
    "input-cursor-foreground": "ansi_default",
    "input-cursor-text-style": "reverse",
}
# The terminal's own 16 colours: what is dim elsewhere is plain here, for nobody knows how dim the terminal's dim is.
ANSI = Theme(
    name="gpudeck-ansi",
    primary="ansi_cyan",
    accent="ansi_cyan",
    warning="ansi_yellow",
    error="ansi_red",
    success="ansi_green",
    dark=True,
    ansi=True,
    variables={
        **_ASKED,
        "gpudeck-bad": "red",
        "gpudeck-warn": "yellow",
        "gpudeck-good": "green",
        "gpudeck-accent": "cyan",
    },
    **_TERMINAL,
)
# No colour at all: bold, underline and reverse carry what the words and glyphs already say.
MONO = Theme(name="gpudeck-mono", primary="ansi_default", dark=True, ansi=True, variables=_ASKED, **_TERMINAL)

THEMES = (DARK, LIGHT, ANSI, MONO)
