"""Amounts: Slurm's memory (`1000M`, `7.5Gn`), Kubernetes' quantities (`1500m`, `2Ki`, `1e3`) and bytes for people.

Sources: sbatch(1) `--mem` (suffixes K, M, G, T are powers of 1024 and a bare number is megabytes), sacct(1) ReqMem
(suffix `n` per node, `c` per CPU), and Kubernetes' apimachinery `resource.Quantity`.
"""

import math
import re
from decimal import Context, Decimal
from functools import lru_cache
from typing import Literal, NamedTuple

from connectors.notation.errors import NotationError

_POWERS = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_UNSET = frozenset({"", "N/A", "(null)"})
_MEMORY = re.compile(r"(?P<number>[0-9]{1,18}(?:\.[0-9]{1,18})?)(?:(?P<unit>[KMGTPE])B?)?(?P<per>[nc])?")
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,60}(?:\.[0-9]{0,60})?|\.[0-9]{1,60}))"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,2})|(?P<unit>[numkMGTPE]))?"
)
_DECIMAL_POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_EXACT = Context(prec=400)
_MAX_BYTES = 2**63
_MAX_PLACES = 40


class Memory(NamedTuple):
    """An amount of memory in bytes, and whether it is per `node`, per `cpu`, or not said (None)."""

    size_bytes: int
    per: Literal["node", "cpu"] | None = None


@lru_cache(maxsize=8192)
def parse_memory(text: str) -> Memory | None:
    """Return the memory that Slurm writes; a bare number is MiB; None for ``, `N/A` and `(null)`.

    A fraction of a byte is rounded down. Raises NotationError.
    """
    if text in _UNSET:
        return None
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise NotationError("memory size", text, "Slurm writes 1000M, 7.5Gn, 4000Mc or megabytes")
    size = _EXACT.multiply(Decimal(match["number"]), Decimal(2 ** _POWERS[match["unit"] or "M"]))
    if size >= _MAX_BYTES:
        raise NotationError("memory size", text, "more than 8 EiB")
    per: Literal["node", "cpu"] | None = None
    if match["per"]:
        per = "node" if match["per"] == "n" else "cpu"
    return Memory(int(size), per)


def format_memory(memory: Memory | None) -> str:
    """Return Slurm's spelling in the largest unit that is exact, `N/A` for None; `parse_memory` reads it back."""
    if memory is None:
        return "N/A"
    suffix = {"node": "n", "cpu": "c", None: ""}[memory.per]
    size = memory.size_bytes
    for unit in "EPTGM":
        if size and size % (1 << _POWERS[unit]) == 0:
            return f"{size >> _POWERS[unit]}{unit}{suffix}"
    return f"{_EXACT.divide(Decimal(size), Decimal(1024)):f}K{suffix}"


@lru_cache(maxsize=8192)
def parse_quantity(text: str) -> Decimal:
    """Return a Kubernetes quantity, exactly: `1500m` is 1.5, `2Ki` is 2048, `1e3` is 1000. Raises NotationError."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise NotationError("quantity", text, "Kubernetes writes 8, 1500m, 2Ki, 1G or 1e3")
    number = Decimal(match["number"])
    if not number:
        return Decimal(0)
    if match["binary"]:
        value = _EXACT.multiply(number, Decimal(2 ** _POWERS[match["binary"][0]]))
    else:
        power = int(match["exponent"]) if match["exponent"] else _DECIMAL_POWERS.get(match["unit"] or "", 0)
        value = _EXACT.scaleb(number, power)
    if value.adjusted() > _MAX_PLACES or value.adjusted() - len(value.as_tuple().digits) < -_MAX_PLACES:
        raise NotationError("quantity", text, "no quantity is so large or so fine")
    return value


def format_quantity(value: Decimal) -> str:
    """Return the quantity as a plain decimal number without suffix or exponent; `parse_quantity` reads it back.

    Raises ValueError for a value that is not finite.
    """
    if not value.is_finite():
        raise ValueError(f"not a quantity: {value}")
    written = f"{value:f}"
    return written.rstrip("0").rstrip(".") if "." in written else written


def format_bytes(size: float | None) -> str:
    """Return bytes for people: `0 B`, `512 B`, `7.5 GiB`; one decimal from KiB on, `?` for None or NaN."""
    if size is None or math.isnan(size):
        return "?"
    if math.isinf(size):
        return "inf" if size > 0 else "-inf"
    scaled, unit = float(size), ""
    for larger in _POWERS:
        # what would be rounded up to 1024 of a unit is written in the next
        if abs(scaled) < (1023.95 if unit else 1023.5):
            break
        scaled, unit = scaled / 1024, larger
    return f"{scaled:.1f} {unit}iB" if unit else f"{scaled:.0f} B"
