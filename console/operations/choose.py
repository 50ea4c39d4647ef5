"""Which cluster a change means when none was named."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from connectors.change import Change, Supposition
from connectors.errors import Ambiguous, BadWords, GpudeckError, NotFound
from connectors.language import write_all
from console.engine import Engine, Reading

_Item = TypeVar("_Item", bound=Change | Supposition)


async def choose_cluster(
    engine: Engine, readings: Sequence[Reading], words: Callable[[datetime], Sequence[_Item]]
) -> tuple[str, Sequence[_Item]]:
    """Return the one cluster on which these words make sense, and what they say by its clock.

    Ambiguous if they do on several (`-c` decides); an unreadable cluster's own error if they do on none and one could
    not be read; else the reason that the only cluster gives.
    """
    fits: dict[str, Sequence[_Item]] = {}
    complaint: GpudeckError | None = None
    for reading in readings:
        if reading.snapshot is None:
            continue
        items = words(engine.now(reading.cluster))
        try:
            await engine.resolve(reading.cluster, items)
        except (NotFound, BadWords) as error:
            complaint = complaint or error
        except GpudeckError as error:
            complaint = error  # the objects are there, so this cluster was meant and its own words count
        else:
            fits[reading.cluster] = items
    if len(fits) > 1:
        said = write_all(next(iter(fits.values())))
        raise Ambiguous(said, [f"-c {name}" for name in fits], kind="the cluster of")
    for cluster, items in fits.items():
        return cluster, items
    failed = next((reading.error for reading in readings if reading.error is not None), None)
    raise failed or complaint or NotFound("cluster", "any")
