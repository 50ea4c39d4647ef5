"""What a pending job's priority is made of, from `sprio -h -o '%i|%r|%Y|%A|%F|%J|%P|%Q|%T'`.

All figures are weighted, so they add up to the priority (but for nice and the site factor).
"""

import polars as pl

FACTORS = ("age", "fairshare", "jobsize", "partition", "qos", "tres")


def priority_columns(text: str, job_ids: list[str]) -> list[pl.Series]:
    """Return one column for each factor, null where sprio has no row: it lists pending jobs only.

    A job in several partitions has several rows; the one of the highest priority is kept, as Slurm tries it first.
    """
    best: dict[str, tuple[float, list[float | None]]] = {}
    for line in text.splitlines():
        cells = line.strip().split("|")
        if len(cells) != 9:
            continue
        total = _number(cells[2]) or 0.0
        if cells[0] not in best or total > best[cells[0]][0]:
            best[cells[0]] = (total, [*(_number(cell) for cell in cells[3:8]), _tres(cells[8])])
    nothing: list[float | None] = [None] * len(FACTORS)
    rows = [best[job][1] if job in best else nothing for job in job_ids]
    return [
        pl.Series(f"slurm_priority_{name}", [row[at] for row in rows], dtype=pl.Float64)
        for at, name in enumerate(FACTORS)
    ]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _tres(text: str) -> float | None:
    """Return the sum of `cpu=3,gres/gpu=62`; nothing written is zero."""
    parts = [_number(item.rpartition("=")[2]) for item in text.split(",") if item]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
