"""Text from outside made fit for one line of a terminal, and measured and cut by cells.

A job name may hold anything: an escape sequence that repaints the screen, a newline that adds a row, a direction
override that turns `exe.txt` round. What could act is shown as a sign instead, so that nothing is hidden.
Widths follow Unicode's East Asian Width (UAX #11; ambiguous is one cell) and emoji presentation sequences (UTS #51).
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_ZWJ = "\u200d"
_EMOJI_STYLE = "\ufe0f"
_TEXT_STYLE = "\ufe0e"
_TONES = range(0x1F3FB, 0x1F400)
_JAMO_TAIL = range(0x1160, 0x1200)
_MARKS_KEPT = 3
# A newline has a picture of its own that reads better than "line feed"; DEL is not beside the other controls.
_PICTURES = {"\n": "\u2424", "\x7f": "\u2421"}
_LOW_EMOJI = "\u00a9\u00ae\u2122"
# Control pictures and numbers in circles, box drawing and blocks, braille: symbols that never join or widen.
_DRAWN = (range(0x2400, 0x24C2), range(0x2500, 0x25A0), range(0x2800, 0x2900))
# Blank or nothing on the screen though Unicode calls them letters, symbols or marks.
_HIDDEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_NARROW_EMOJI = frozenset("#*0123456789\u203c\u2049\u2139")


@lru_cache(maxsize=16384)
def safe_text(text: str, width: int | None = None) -> str:
    """Return what may be shown: one line without anything that acts on a terminal; cut to `width` cells where given.

    C0 controls and DEL become their pictures (`␛`, `␤`), every other control, format, direction, separator and
    invisible character and every unpaired surrogate becomes an escape as `\\x9b` or `\\u202e`. A zero-width joiner
    stays inside an emoji. More than three combining marks on a character are escaped. Applying it twice changes
    nothing.
    """
    shown = text if text.isascii() and text.isprintable() else "".join(_shown(text))
    return shown if width is None else cut(shown, width)


@lru_cache(maxsize=16384)
def cells(text: str) -> int:
    """Return how many terminal cells a safe text takes."""
    return len(text) if text.isascii() else sum(width for _cluster, width in _clusters(text))


@lru_cache(maxsize=16384)
def cut(text: str, width: int) -> str:
    """Return the text, or its beginning and `>` where it takes more than `width` cells; never cuts a character."""
    if width <= 0:
        return ""
    if text.isascii():
        return text if len(text) <= width else text[: width - 1] + ">"
    if cells(text) <= width:
        return text
    kept: list[str] = []
    room = width - 1
    for cluster, size in _clusters(text):
        if size > room:
            break
        kept.append(cluster)
        room -= size
    return "".join(kept) + ">"


def _shown(text: str) -> Iterator[str]:
    before = ""
    marks = 0
    joined = False
    for at, sign in enumerate(text):
        code = ord(sign)
        if sign.isascii():
            kept, marks = True, 0
        elif _is_mark(sign):
            marks += 1
            kept = bool(before) and marks <= _MARKS_KEPT and sign not in _HIDDEN
            kept = kept and (sign not in {_EMOJI_STYLE, _TEXT_STYLE} or _may_style(before))
        elif sign == _ZWJ:
            kept = not joined and _is_emoji(before) and at + 1 < len(text) and _is_emoji(text[at + 1])
        else:
            kept, marks = sign not in _HIDDEN and unicodedata.category(sign) not in _ACTING, 0
            kept = kept and code & 0xFFFE != 0xFFFE
        joined = kept and sign == _ZWJ
        if not kept:
            yield f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
            before = "\\"
            continue
        if sign.isascii() and not sign.isprintable():
            sign = _PICTURES.get(sign) or chr(0x2400 + code)  # noqa: PLW2901 - the picture stands for the sign
        yield sign
        if not _is_mark(sign) and sign != _ZWJ:
            before = sign


# Cc controls, Cf formats, Cs surrogates, Zl and Zp separators: none has a shape, and each may act.
_ACTING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def _clusters(text: str) -> Iterator[tuple[str, int]]:
    """Yield what must not be torn apart, with its cells: a character, its marks, and what a joiner ties to it."""
    cluster, width, base, joined = "", 0, "", False
    for sign in text:
        if cluster and (joined or sign == _ZWJ or _is_mark(sign) or _tones(base, sign) or ord(sign) in _JAMO_TAIL):
            cluster += sign
            if sign == _EMOJI_STYLE and width == 1 and _may_style(base):
                width = 2
            joined = sign == _ZWJ
            continue
        if cluster:
            yield cluster, width
        cluster, width, base, joined = sign, _width(sign), sign, False
    if cluster:
        yield cluster, width


def _width(sign: str) -> int:
    if sign.isascii():
        return 1
    if _is_mark(sign) or unicodedata.category(sign) in _ACTING or ord(sign) in _JAMO_TAIL:
        return 0
    return 2 if unicodedata.east_asian_width(sign) in {"W", "F"} else 1


def _is_mark(sign: str) -> bool:
    return not sign.isascii() and unicodedata.category(sign) in {"Mn", "Me"}


def _is_emoji(sign: str) -> bool:
    if sign in _LOW_EMOJI:
        return bool(sign)
    code = ord(sign)
    drawn = any(code in block for block in _DRAWN)
    return code >= 0x2190 and not drawn and unicodedata.category(sign) in {"So", "Sk", "Sm"}


def _may_style(base: str) -> bool:
    return base in _NARROW_EMOJI or _is_emoji(base)


def _tones(base: str, sign: str) -> bool:
    return ord(sign) in _TONES and _is_emoji(base) and ord(base) not in _TONES
