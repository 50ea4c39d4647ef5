"""Snapshots on the way to the screen and to `last/`: frames as Arrow IPC, everything else as MessagePack."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from console.messages import ClusterStatus
from console.paths import state_folder, write_private

if TYPE_CHECKING:
    import polars as pl

SHOWN_TABLES = ("jobs", "nodes", "gpus", "queues", "quotas", "reservations", "events")
_statuses: msgspec.msgpack.Decoder[tuple[ClusterStatus, ...]] = msgspec.msgpack.Decoder(tuple[ClusterStatus, ...])


def encode_frame(frame: "pl.DataFrame") -> bytes:
    """Return a frame as Arrow IPC bytes, uncompressed: reading it back costs next to nothing."""
    buffer = io.BytesIO()
    frame.write_ipc(buffer)
    return buffer.getvalue()


def decode_frame(data: bytes) -> "pl.DataFrame":
    """Return the frame of `encode_frame`."""
    import polars as pl

    return pl.read_ipc(io.BytesIO(data))


def _last_file() -> Path:
    return state_folder("last") / "fleet.msgpack"


def save_last(statuses: tuple[ClusterStatus, ...]) -> None:
    """Keep the fleet's figures for the first frame of the next start."""
    write_private(_last_file(), msgspec.msgpack.encode(statuses))


def load_last() -> tuple[ClusterStatus, ...]:
    """Return the figures of the last run; nothing where there are none or another version wrote them."""
    try:
        return _statuses.decode(_last_file().read_bytes())
    except (OSError, msgspec.DecodeError):
        return ()
