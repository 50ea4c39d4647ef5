"""Trackable resources: `cpu=1,mem=1000M,gres/gpu=8,gres/gpu:h100=8`, and limits with their use, `gres/gpu=24(16)`.

Sources: Slurm's tres.html; `scontrol show assoc_mgr` for limits. Memory without a unit is MiB there.
"""

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from connectors.notation.errors import NotationError

_WHAT = "TRES list"
_UNSET = frozenset({"", "(null)", "N/A"})
_COUNT = re.compile(r"(?P<number>-?[0-9]{1,20}(?:\.[0-9]{1,9})?)(?P<unit>[KMGTPE])?")
_LIMIT = re.compile(r"(?P<limit>[^()]+)\((?P<usage>[^()]+)\)")
_POWERS = {"K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50, "E": 2.0**60}
# INFINITE64 and NO_VAL64 of slurm.h, as unsigned and as signed numbers: the first is "no limit", the second "not said".
_INFINITE = frozenset({"18446744073709551615", "-1"})
_NOT_SAID = frozenset({"18446744073709551614", "-2"})
_GPU = "gres/gpu"
_MAX_WRITTEN = 10**18


@lru_cache(maxsize=8192)
def parse_tres(text: str) -> Mapping[str, float]:
    """Return the counts by TRES name, `mem` in bytes; empty for ``, `(null)` and `N/A`.

    A name given twice keeps the later count. `-1` is no limit, infinity; `-2`, which Slurm leaks for a count that it
    does not know, leaves the name out. Units are powers of 1024. Raises NotationError.
    """
    counts: dict[str, float] = {}
    for name, value in _pairs(text):
        count = _count(text, name, value)
        if count is None:
            counts.pop(name, None)
        else:
            counts[name] = count
    return MappingProxyType(counts)


def gpus_of_tres(tres: Mapping[str, float]) -> tuple[float | None, str | None]:
    """Return how many GPUs, counted once, and of which model; (None, None) where the list says nothing of GPUs.

    `gres/gpu` is the count and `gres/gpu:model` says again of which kind; only the kinds are summed where the plain
    name is missing. The model is None where there are several, or where the kinds do not cover the count.
    """
    models = {name[len(_GPU) + 1 :]: count for name, count in tres.items() if name.startswith(_GPU + ":")}
    if _GPU not in tres and not models:
        return None, None
    typed = sum(models.values())
    count = tres.get(_GPU, typed)
    held = [model for model, of_it in models.items() if of_it > 0]
    return count, held[0] if len(held) == 1 and typed == count else None


@lru_cache(maxsize=2048)
def parse_limits(text: str) -> Mapping[str, tuple[float, float]]:
    """Return (limit, usage) by TRES name from assoc_mgr's `name=limit(usage)`; `N` is no limit, infinity.

    `mem` is in bytes. Raises NotationError.
    """
    limits: dict[str, tuple[float, float]] = {}
    for name, value in _pairs(text):
        match = _LIMIT.fullmatch(value)
        if match is None:
            raise NotationError(_WHAT, text, f"'{name}' is not limit(usage)")
        limit = math.inf if match["limit"] == "N" else _count(text, name, match["limit"])
        usage = _count(text, name, match["usage"])
        if limit is None or usage is None:
            raise NotationError(_WHAT, text, f"'{name}' has no known limit or usage")
        limits[name] = (limit, usage)
    return MappingProxyType(limits)


def format_tres(tres: Mapping[str, float]) -> str:
    """Return the list as Slurm reads it: whole numbers, `mem` in M or K, `-1` for no limit; `parse_tres` reads it back.

    Raises NotationError for a name or a count that cannot be written so.
    """
    return ",".join(f"{name}={_written(name, count)}" for name, count in tres.items())


def _pairs(text: str) -> list[tuple[str, str]]:
    if text in _UNSET:
        return []
    pairs: list[tuple[str, str]] = []
    for part in text.split(","):
        name, sign, value = part.partition("=")
        if not sign or not name:
            raise NotationError(_WHAT, text, f"'{part}' is not name=count")
        pairs.append((name, value))
    return pairs


def _count(text: str, name: str, value: str) -> float | None:
    if value in _INFINITE:
        return math.inf
    if value in _NOT_SAID:
        return None
    match = _COUNT.fullmatch(value)
    if match is None or value.startswith("-"):
        raise NotationError(_WHAT, text, f"'{name}' has no count")
    unit = match["unit"] or ("M" if name == "mem" else None)
    return float(match["number"]) * (_POWERS[unit] if unit else 1.0)


def _written(name: str, count: float) -> str:
    if not name or "," in name or "=" in name:
        raise NotationError("TRES name", name, "it cannot stand in a list")
    if count == math.inf:
        return "-1"
    size, unit = count, ""
    if name == "mem":
        size, unit = (count / _POWERS["M"], "M") if count % _POWERS["M"] == 0 else (count / _POWERS["K"], "K")
    if not (0 <= size < _MAX_WRITTEN and size == int(size)):
        raise NotationError("TRES count", f"{name}={count}", "Slurm takes whole numbers, memory in K")
    return f"{int(size)}{unit}"
