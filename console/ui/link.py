"""How the screen speaks to the engine, whatever lies between them."""

from collections.abc import AsyncIterator
from typing import Protocol

from console.messages import Answer, Event, Request


class Link(Protocol):
    """One engine, seen from the screen.

    It may begin only when `events` is first iterated. The engine may end and be started again underneath: `events` then
    yields EngineDown and, later, EngineUp, and does not stop. It stops after `close`.
    """

    async def send(self, request: Request) -> Answer:
        """Send a request and return the answer of the same id; a `Failed` is an answer, not an exception.

        ConnectionError if the engine is not there, or ended before it answered.
        """
        ...

    def events(self) -> AsyncIterator[Event]:
        """Yield statuses, frames and the engine's coming and going; replies are given to `send` alone."""
        ...

    async def close(self) -> None:
        """End the engine; closing twice is fine."""
        ...
