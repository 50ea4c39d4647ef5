"""The console without a screen: observe for a while, then say what there is."""

import asyncio

from connectors.errors import BadWords
from connectors.notation import NotationError, parse_human_duration
from console.engine import Engine
from console.messages import ClusterStatus
from console.observatory import Observatory


async def run_for(engine: Engine, how_long: str) -> tuple[ClusterStatus, ...]:
    """Observe all clusters for a duration such as `5s` and return their last statuses."""
    try:
        seconds = parse_human_duration(how_long)
    except NotationError as error:
        raise BadWords(f"--for {how_long!r} is not a duration: {error}", text=how_long) from error
    observatory = Observatory(engine, lambda _event: None)
    observatory.start()
    try:
        await asyncio.sleep(min(seconds, 86400.0))
        return observatory.statuses
    finally:
        await observatory.close()
        await engine.close()
