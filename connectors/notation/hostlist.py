"""Host lists: `gpu[01-03,07]-ib0`, `rack[0-1]_blade[0-1]`, `gpu-dy-h100-[1-4],login1`.

Source of the format: Slurm's `scontrol show hostnames` and `show hostlist`. Several brackets are a product, the width
of a range's first number is its zero padding, and what stands after a bracket is kept.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from connectors.notation.errors import NotationError
from connectors.notation.numbers import MAX_DIGITS, whole

MAX_HOSTS = 100_000

_WHAT = "host list"
_NOTHING = frozenset({"", "(null)", "None assigned", "N/A"})
_MARK = re.compile(r"[\[\],]")
_NUMBER = re.compile(rf"(?<![0-9])[0-9]{{1,{MAX_DIGITS}}}(?![0-9])")
_FEW = 1_000


class _Span(NamedTuple):
    """Numbers of one bracket item: `01-03` is first 1, last 3, width 2."""

    first: int
    last: int
    width: int


class _Item(NamedTuple):
    """One comma-separated item: n+1 texts around n brackets."""

    texts: tuple[str, ...]
    brackets: tuple[tuple[_Span, ...], ...]


def parse_hostlist(text: str) -> tuple[str, ...]:
    """Return the host names in the order written, duplicates kept; nothing for ``, `(null)`, `None assigned`, `N/A`.

    Raises NotationError for a text that is not a host list, one that names more than 100,000 hosts, and a range that
    is reversed or whose ends are padded differently (`[1-010]`).
    """
    return _expand_few(text) if _count(text) <= _FEW else _expand_many(text)


def format_hostlist(names: Iterable[str]) -> str:
    """Return the shortest list that Slurm's tools accept: distinct names, in natural order, folded in every number.

    The names that `parse_hostlist` reads back are those given, each once. Raises NotationError for a name that cannot
    stand in a list (empty, or with a comma, bracket, blank or control character).
    """
    templates: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for name in dict.fromkeys(names):
        if name in _NOTHING or not _plain(name) or _MARK.search(name):
            raise NotationError("host name", name, "it cannot stand in a host list")
        templates.setdefault(tuple(_NUMBER.split(name)), set()).add(tuple(_NUMBER.findall(name)))
    items: list[tuple[list[tuple[str, int, str]], str]] = []
    for texts, numbers in templates.items():
        for folded in _fold(numbers, len(texts) - 1):
            first = [_order(digits) for digits in _firsts(folded)]
            key = [(text, *order) for text, order in zip(texts, [*first, (0, "")], strict=True)]
            items.append((key, _write(texts, folded)))
    return ",".join(written for _key, written in sorted(items))


def _plain(name: str) -> bool:
    return bool(name) and name.isprintable() and " " not in name


@lru_cache(maxsize=2048)
def _count(text: str) -> int:
    return sum(prod(_bracket_size(spans) for spans in item.brackets) for item in _items(text))


# A few lists of many hosts are real (a partition's); thousands of them in memory would be an attack.
@lru_cache(maxsize=2048)
def _expand_few(text: str) -> tuple[str, ...]:
    return _expand(text)


@lru_cache(maxsize=16)
def _expand_many(text: str) -> tuple[str, ...]:
    return _expand(text)


def _expand(text: str) -> tuple[str, ...]:
    names: list[str] = []
    for item in _items(text):
        choices = [[f"{n:0{s.width}d}" for s in spans for n in range(s.first, s.last + 1)] for spans in item.brackets]
        names += [
            "".join(a + b for a, b in zip(item.texts, (*chosen, ""), strict=True)) for chosen in product(*choices)
        ]
    return tuple(names)


def _bracket_size(spans: tuple[_Span, ...]) -> int:
    return sum(span.last - span.first + 1 for span in spans)


@lru_cache(maxsize=2048)
def _items(text: str) -> tuple[_Item, ...]:
    if text.strip() in _NOTHING:
        return ()
    items: list[_Item] = []
    total = 0
    for start, end in _split(text):
        item = _item(text, start, end)
        total += prod(_bracket_size(spans) for spans in item.brackets)
        if total > MAX_HOSTS:
            raise NotationError(_WHAT, text, f"it names more than {MAX_HOSTS:,} hosts", start)
        items.append(item)
    return tuple(items)


def _split(text: str) -> list[tuple[int, int]]:
    """Return where the items stand: commas outside brackets separate."""
    found: list[tuple[int, int]] = []
    start, inside = 0, False
    for mark in _MARK.finditer(text):
        sign, at = mark.group(), mark.start()
        if sign == ",":
            if not inside:
                found.append((start, at))
                start = at + 1
        elif inside == (sign == "["):
            raise NotationError(_WHAT, text, f"a bracket '{sign}' that does not pair", at)
        else:
            inside = not inside
    if inside:
        raise NotationError(_WHAT, text, "a bracket is not closed", len(text))
    return [*found, (start, len(text))]


def _item(text: str, start: int, end: int) -> _Item:
    whole_item = text[start:end].strip()
    pieces = re.split(r"[\[\]]", whole_item)
    texts = tuple(pieces[::2])
    if not _plain("".join(texts) or ("x" if len(pieces) > 1 else "")):
        raise NotationError(_WHAT, text, "a name is empty, or holds a blank or a control character", start)
    return _Item(texts, tuple(_bracket(text, inner, start) for inner in pieces[1::2]))


def _bracket(text: str, inner: str, at: int) -> tuple[_Span, ...]:
    spans: list[_Span] = []
    for part in inner.split(","):
        low, dash, high = part.partition("-")
        first = whole(low)
        last = whole(high) if dash else first
        if first is None or last is None:
            raise NotationError(_WHAT, text, f"'{part}' in brackets is not a number or a range", at)
        if last < first:
            raise NotationError(_WHAT, text, f"the range '{part}' runs backwards", at)
        if dash and (len(high) < len(low) or (high[0] == "0" and len(high) != len(low))):
            raise NotationError(_WHAT, text, f"the ends of '{part}' are padded differently", at)
        spans.append(_Span(first, last, len(low)))
    return tuple(spans)


_Folded = tuple[tuple[str, ...], ...]


def _order(digits: str) -> tuple[int, str]:
    return (len(digits), digits)


def _firsts(folded: _Folded) -> list[str]:
    return [numbers[0] for numbers in folded]


def _fold(numbers: Iterable[tuple[str, ...]], dimensions: int) -> Iterable[_Folded]:
    """Merge the number tuples into products, the last number first: that is the one Slurm itself folds."""
    folded: set[_Folded] = {tuple((digits,) for digits in one) for one in numbers}
    for axis in reversed(range(dimensions)):
        merged: dict[tuple[_Folded, _Folded], set[str]] = {}
        for one in folded:
            merged.setdefault((one[:axis], one[axis + 1 :]), set()).update(one[axis])
        folded = {_join(rest, axis_numbers) for rest, axis_numbers in _pairs(merged)}
    return folded


def _pairs(
    merged: Mapping[tuple[_Folded, _Folded], set[str]],
) -> Iterable[tuple[tuple[_Folded, _Folded], tuple[str, ...]]]:
    return ((rest, tuple(sorted(digits, key=_order))) for rest, digits in merged.items())


def _join(rest: tuple[_Folded, _Folded], digits: tuple[str, ...]) -> _Folded:
    before, after = rest
    return (*before, digits, *after)


def _write(texts: tuple[str, ...], folded: _Folded) -> str:
    pieces = [texts[0]]
    for numbers, text in zip(folded, texts[1:], strict=True):
        pieces += [numbers[0] if len(numbers) == 1 else f"[{_spans(numbers)}]", text]
    return "".join(pieces)


def _spans(numbers: tuple[str, ...]) -> str:
    spans: list[list[str]] = []
    for digits in numbers:
        # The next name of a range is the next number written at the range's first width, so 09 is followed by 10.
        if spans and digits == f"{int(spans[-1][1]) + 1:0{len(spans[-1][0])}d}":
            spans[-1][1] = digits
        else:
            spans.append([digits, digits])
    return ",".join(low if low == high else f"{low}-{high}" for low, high in spans)
