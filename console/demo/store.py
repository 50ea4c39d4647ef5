"""What a demo remembers between two calls: when it began, how fast it runs, and the changes made with their seconds.

One small file for each cluster in the state folder; everything else follows from it. It begins anew where it is missing
or `KEPT_S` simulated seconds old, so that no call has to live through more than a day.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from console.demo.world import PAST_S
from console.paths import state_folder, write_private

KEPT_S = 24 * 3600


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """One change that was carried out: the second, who did it, and the change in the change language."""

    at: int
    user: str
    change: str


class Diary(msgspec.Struct, frozen=True, kw_only=True):
    """A demo's past. `origin` is the epoch second of its second 0; at the real time `real` it was second `second`."""

    scenario: str
    seed: int
    origin: int
    real: float
    second: float
    speed: float
    made: tuple[Made, ...] = ()

    def second_at(self, real: float) -> int:
        """Return the simulated second at a real time; a clock that was set back does not take it back."""
        second = self.second + max(0.0, real - self.real) * self.speed
        return max(int(second), PAST_S, self.made[-1].at if self.made else 0)

    def at_speed(self, speed: float, real: float) -> "Diary":
        """Return the same past, with time passing at another speed from now on."""
        second = self.second + max(0.0, real - self.real) * self.speed
        return msgspec.structs.replace(self, real=real, second=second, speed=speed)

    def is_over(self, real: float) -> bool:
        """Return whether it is so old that it should begin anew."""
        return self.second_at(real) - PAST_S > KEPT_S


def begin(scenario: str, seed: int, speed: float, real: float, at: int) -> Diary:
    """Return the diary of a demo that is opened now, when its own clock shows the epoch second `at`."""
    return Diary(scenario=scenario, seed=seed, origin=at - PAST_S, real=real, second=PAST_S + real % 1, speed=speed)


class Store:
    """The diary of one cluster on disk. Methods raise OSError where the state folder can't be used."""

    def __init__(self, cluster: str, scenario: str, seed: int) -> None:
        """Use the file of this cluster; nothing is read or written yet."""
        digest = hashlib.sha256(f"{cluster}/{scenario}/{seed}".encode()).hexdigest()[:12]
        self._name = f"{scenario}-{digest}.json"
        self._scenario, self._seed = scenario, seed

    def load(self) -> Diary | None:
        """Return the diary; None where there is none that can be read."""
        try:
            diary = msgspec.json.decode(self._file().read_bytes(), type=Diary)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None
        return diary if (diary.scenario, diary.seed) == (self._scenario, self._seed) else None

    def save(self, diary: Diary) -> None:
        """Replace the file; call it with the lock held."""
        write_private(self._file(), msgspec.json.encode(diary))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from changing this cluster meanwhile."""
        handle = os.open(self._file().with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _file(self) -> Path:
        return state_folder("demo") / self._name
