"""Whole numbers as the field's tools write them: ASCII digits only, and never so many that `int` refuses."""

import re
from collections.abc import Iterable, Sequence

MAX_DIGITS = 18

_DIGITS = re.compile(r"[0-9]{1,18}")


def whole(text: str) -> int | None:
    """Return the number, or None where the text is not 1 to 18 ASCII digits (`int` alone would take `١` and `1_0`)."""
    return int(text) if _DIGITS.fullmatch(text) else None


def runs(numbers: Iterable[int]) -> tuple[range, ...]:
    """Return the distinct numbers as ascending ranges of step 1."""
    found: list[range] = []
    for number in sorted(set(numbers)):
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return tuple(found)


def format_ranges(ranges: Sequence[range]) -> str:
    """Return `1,5-7,10-20:2`."""
    return ",".join(_format_range(one) for one in ranges)


def _format_range(one: range) -> str:
    if len(one) == 1:
        return str(one[0])
    step = "" if one.step == 1 else f":{one.step}"
    return f"{one[0]}-{one[-1]}{step}"
