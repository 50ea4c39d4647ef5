"""The fenced table that `squeue -O` and `sacct` print, split in bulk.

A record is: plain fields, each ended by US, and fields of free text, each ended by the fence. The plain fields come
first and the last of them is ended by the fence, too. So a split at the fence gives, for each record, one block of
plain fields and the free texts, and every block but the first begins with the line break of the record before it.
"""

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
    """Return only the parts of whole records, and the beginnings of the records that are none."""
    good: list[str] = []
    bad: list[str] = []
    stretch: list[str] = []
    at = 0
    while at < len(parts):
        record = parts[at : at + stride]
        following = parts[at + stride : at + stride + 1]
        is_record = len(record) == stride and record[0].count(US) == separators
        if is_record and all(part.startswith("\n") for part in following):
            good += record
            bad += _spoilt(stretch, stride)
            stretch = []
            at += stride
        else:
            stretch.append(parts[at])
            at += 1
    return good, bad + _spoilt(stretch, stride)


def _spoilt(stretch: list[str], stride: int) -> list[str]:
    """Return the beginning of each record that a stretch of parts held, as far as their number tells."""
    if not stretch:
        return []
    starts = range(0, len(stretch), stride)[: max(1, round(len(stretch) / stride))]
    return [stretch[start].lstrip("\n")[:200] for start in starts]
