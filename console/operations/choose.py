"""Which cluster a change means when none was named."""

from collections.abc import Sequence

from connectors.change import Change, Supposition
from connectors.errors import Ambiguous, BadWords, GpudeckError, NotFound
from connectors.language import write_all
from console.engine import Engine, Reading


async def choose_cluster(engine: Engine, readings: Sequence[Reading], items: Sequence[Change | Supposition]) -> str:
    """Return the one cluster on which these changes make sense.

    Ambiguous if they do on several (`-c` decides); an unreadable cluster's own error if they do on none and one could
    not be read; else the reason that the only cluster gives.
    """
    fits: list[str] = []
    complaint: GpudeckError | None = None
    for reading in readings:
        if reading.snapshot is None:
            continue
        try:
            await engine.resolve(reading.cluster, items)
        except (NotFound, BadWords) as error:
            complaint = complaint or error
        except GpudeckError as error:
            complaint = error  # the objects are there, so this cluster was meant and its own words count
        else:
            fits.append(reading.cluster)
    if len(fits) > 1:
        raise Ambiguous(write_all(items), [f"-c {name}" for name in fits], kind="the cluster of")
    if fits:
        return fits[0]
    failed = next((reading.error for reading in readings if reading.error is not None), None)
    raise failed or complaint or NotFound("cluster", "any")
