"""Generic resources: `gpu:a100:8(S:0-1)`, `gpu:a100:5(IDX:0-4)`, `gres/gpu:h100:8`, `shard:h100:4(4/8,-/8)`.

Sources: gres.html and gres.conf(5) of Slurm, and the spellings of sinfo, squeue and scontrol from 22.05 to 26.05.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from connectors.notation.errors import NotationError
from connectors.notation.numbers import format_ranges, runs, whole

_WHAT = "GRES list"
_UNSET = frozenset({"", "N/A", "(null)"})
_PREFIX = re.compile(r"gres[:/]")
_ITEM = re.compile(r"(?P<head>[^()]+(?:\(null\)[^()]*)?)(?P<notes>(?:\([^()]*\))*)")
_NOTE = re.compile(r"\(([^()]*)\)")
_COUNT = re.compile(r"(?P<number>[0-9]{1,18})(?P<unit>[KMGTP])?")
_SHARE = re.compile(r"(?P<used>[0-9]{1,18}|-)/(?P<size>[0-9]{1,18})")
_POWERS = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
_MAX_INDEXES = 10_000
_MAX_COUNT = 10**18
_NO_CONSUME = "no_consume"


@dataclass(frozen=True, slots=True)
class Gres:
    """One generic resource.

    `indexes` are the devices in use: empty where none is, None where the system does not say. `sockets` are those the
    devices hang on, None where not said. `shares` is, for shared kinds (shard, mps), (used, size) by device; used is
    None where the device is taken whole. `no_consume` marks a resource that is not counted down.
    """

    name: str
    type: str | None
    count: int
    indexes: tuple[int, ...] | None = None
    sockets: tuple[int, ...] | None = None
    shares: tuple[tuple[int | None, int], ...] | None = None
    no_consume: bool = False


@lru_cache(maxsize=8192)
def parse_gres(text: str) -> tuple[Gres, ...]:
    """Return the resources in the order written; none for ``, `N/A` and `(null)`. Raises NotationError.

    A missing count is one, a type `(null)` is no type, and a number after the name is a count (`gpu:8`).
    """
    if text in _UNSET:
        return ()
    return tuple(_gres(text, part, start) for start, part in _split(text))


def format_gres(resources: Iterable[Gres]) -> str:
    """Return the list as sinfo writes it, `(null)` for none; `parse_gres` reads back what it has parsed."""
    return ",".join(_written(one) for one in resources) or "(null)"


def _written(one: Gres) -> str:
    parts = [one.name, *([] if one.type is None else [one.type]), *([_NO_CONSUME] if one.no_consume else [])]
    written = f"{':'.join(parts)}:{one.count}"
    if one.shares is not None:
        written += "(" + ",".join(f"{'-' if used is None else used}/{size}" for used, size in one.shares) + ")"
    if one.sockets is not None:
        written += f"(S:{_numbers(one.sockets)})"
    if one.indexes is not None:
        written += f"(IDX:{_numbers(one.indexes) or 'N/A'})"
    return written


def _numbers(numbers: tuple[int, ...]) -> str:
    return format_ranges(runs(numbers))


def _split(text: str) -> list[tuple[int, str]]:
    """Return the items with where they start: commas inside parentheses belong to the item."""
    items: list[tuple[int, str]] = []
    depth = start = 0
    for at, sign in enumerate(text):
        if sign == "," and depth == 0:
            items.append((start, text[start:at]))
            start = at + 1
        elif sign in "()":
            depth += 1 if sign == "(" else -1
            if depth not in {0, 1}:
                raise NotationError(_WHAT, text, "a parenthesis that does not pair", at)
    if depth:
        raise NotationError(_WHAT, text, "a parenthesis is not closed", len(text))
    return [*items, (start, text[start:])]


def _gres(text: str, part: str, start: int) -> Gres:
    item = part.strip()
    prefix = _PREFIX.match(item)
    match = _ITEM.fullmatch(item[prefix.end() :] if prefix else item)
    if match is None or not item.isprintable() or " " in item:
        raise NotationError(_WHAT, text, f"'{part}' is not name:type:count", start)
    # `gres/gpu:a100=8` is how a job's TRES requests spell it
    fields = re.sub(r"=([^:=]*)$", r":\1", match["head"]).split(":")
    no_consume = _NO_CONSUME in fields[1:]
    if no_consume:
        fields.remove(_NO_CONSUME)
    count = _COUNT.fullmatch(fields[-1]) if len(fields) > 1 else None
    if count is not None:
        fields.pop()
    if len(fields) > 2 or "" in fields or fields[0] == "gres" or fields[0].startswith("gres/"):
        raise NotationError(_WHAT, text, f"'{part}' is not name:type:count", start)
    kind = fields[1] if len(fields) == 2 and fields[1] != "(null)" else None
    number = 1 if count is None else int(count["number"]) << _POWERS.get(count["unit"] or "", 0)
    if number >= _MAX_COUNT:
        raise NotationError(_WHAT, text, f"more than {_MAX_COUNT} of '{fields[0]}'", start)
    found = Gres(fields[0], kind, number, no_consume=no_consume)
    for note in _NOTE.findall(match["notes"]):
        found = _noted(text, found, note, start)
    return found


def _noted(text: str, one: Gres, note: str, start: int) -> Gres:
    """Return the resource with what stands in one pair of parentheses."""
    indexes, sockets, shares = one.indexes, one.sockets, one.shares
    word, _sign, rest = note.partition(":")
    if word == "IDX" and rest == "N/A":
        indexes = () if one.count == 0 else None
    elif word == "IDX":
        indexes = _indexes(text, rest, start)
    elif word == "S":
        sockets = _indexes(text, rest, start)
    elif word == "CNT" and whole(rest) == one.count:
        pass  # scontrol -d repeats the count of a resource without device files
    else:
        shares = tuple(_share(text, share, start) for share in note.split(","))
    return Gres(one.name, one.type, one.count, indexes, sockets, shares, one.no_consume)


def _share(text: str, share: str, start: int) -> tuple[int | None, int]:
    match = _SHARE.fullmatch(share)
    if match is None:
        raise NotationError(_WHAT, text, f"'({share})' is not IDX:, S: or used/size", start)
    return (None if match["used"] == "-" else int(match["used"])), int(match["size"])


def _indexes(text: str, listed: str, start: int) -> tuple[int, ...]:
    found: set[int] = set()
    for part in listed.split(","):
        low, dash, high = part.partition("-")
        first = whole(low)
        last = whole(high) if dash else first
        if first is None or last is None or last < first or last - first + len(found) >= _MAX_INDEXES:
            raise NotationError(_WHAT, text, f"'{part}' is not a range of device numbers", start)
        found.update(range(first, last + 1))
    return tuple(sorted(found))
