"""The fenced table that `squeue -O` and `sacct` print, split in bulk.

A record is: plain fields, each ended by US, and fields of free text, each ended by the fence. The plain fields come
first and the last of them is ended by the fence, too. So a split at the fence gives, for each record, one block of
plain fields and the free texts, and every block but the first begins with the line break of the record before it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from connectors.slurm.commands import US


@dataclass(slots=True)
class Table:
    """Columns of texts by field, of equal length; `unreadable` holds the beginnings of what is no record."""

    columns: dict[str, list[str]]
    unreadable: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of records."""
        return len(next(iter(self.columns.values()), []))

    def get(self, name: str) -> list[str]:
        """Return a column; one that this version of Slurm does not have is empty text in every row."""
        return self.columns.get(name) or [""] * len(self)


def split_table(text: str, plain: list[str], free: list[str], fence: str) -> Table:
    """Return the table; `plain` are the fields of the block, `free` those after it."""
    stride = 1 + len(free)
    parts = text.split(fence)
    tail = parts.pop()
    blocks = parts[0::stride]
    unreadable = [tail[:200]] if tail.strip("\n") else []
    separators = len(plain) - 1
    whole = len(parts) % stride == 0 and all(block.count(US) == separators for block in blocks)
    if not whole or not all(block.startswith("\n") for block in blocks[1:]):
        parts, spoilt = _mended(parts, stride, separators)
        unreadable = spoilt + unreadable
        blocks = parts[0::stride]
    cells = US.join(block.lstrip("\n") for block in blocks).split(US) if blocks else []
    columns = {name: cells[at :: len(plain)] for at, name in enumerate(plain)}
    columns.update({name: parts[at::stride] for at, name in enumerate(free, start=1)})
    return Table(columns=columns, unreadable=unreadable)


def _mended(parts: list[str], stride: int, separators: int) -> tuple[list[str], list[str]]:
    """Return only the parts of whole records, and the beginning of each stretch that is none."""
    is_block: Callable[[str], bool] = lambda part: part.count(US) == separators  # noqa: E731 - named once, used twice
    good: list[str] = []
    bad: list[str] = []
    at = 0
    in_bad = False
    while at < len(parts):
        record = parts[at : at + stride]
        following = parts[at + stride : at + stride + 1]
        if len(record) == stride and is_block(record[0]) and all(part.startswith("\n") for part in following):
            good += record
            at += stride
            in_bad = False
            continue
        if not in_bad:
            bad.append(parts[at][:200])
        in_bad = True
        at += 1
    return good, bad
