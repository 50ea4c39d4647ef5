"""Messages on a byte stream: four bytes of length, big-endian, then the message."""

import asyncio

_HEADER = 4
LARGEST = 2**30


async def read_message(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next message, None at the end of the stream; ConnectionError if it ends in the middle."""
    try:
        header = await reader.readexactly(_HEADER)
        return await reader.readexactly(int.from_bytes(header, "big"))
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise ConnectionError("the stream ended in the middle of a message") from error
        return None


async def write_message(writer: asyncio.StreamWriter, message: bytes) -> None:
    """Write one message and wait until the stream can take more. ValueError if it is larger than a gibibyte."""
    if len(message) > LARGEST:
        raise ValueError(f"a message of {len(message)} bytes is too large")
    writer.write(len(message).to_bytes(_HEADER, "big"))
    writer.write(message)
    await writer.drain()
