"""Free resources of every node as step functions of time: what backfill plans on.

A node's profile is four parallel lists: times, and the free GPUs, CPUs and memory from that time to the next one; the
last step lasts for ever. Seconds are counted from the snapshot. The loops are plain functions over lists of floats.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCKED = 1e15  # taken from every resource while a reservation keeps others out; far above any real figure
EPSILON = 1e-6


class Demand(NamedTuple):
    """What a job asks of one node; `whole` asks for all of it."""

    gpus: float
    cpus: float
    memory: float
    whole: bool = False


class Steps:
    """The profile of one node."""

    __slots__ = ("cpus", "gpus", "memory", "times")

    def __init__(self, gpus: float, cpus: float, memory: float) -> None:
        """Begin with everything free at all times."""
        self.times = [-math.inf]
        self.gpus = [gpus]
        self.cpus = [cpus]
        self.memory = [memory]

    def copy(self) -> "Steps":
        """Return an independent copy."""
        twin = Steps.__new__(Steps)
        twin.times = self.times.copy()
        twin.gpus = self.gpus.copy()
        twin.cpus = self.cpus.copy()
        twin.memory = self.memory.copy()
        return twin

    def add(self, start: float, end: float, demand: Demand, sign: float) -> None:
        """Add (+1) or take away (-1) the demand during [start, end)."""
        start = max(start, self.times[0])
        if end <= start:
            return
        first = self._split(start)
        last = len(self.times) if math.isinf(end) else self._split(end)
        for i in range(first, last):
            self.gpus[i] += sign * demand.gpus
            self.cpus[i] += sign * demand.cpus
            self.memory[i] += sign * demand.memory

    def forget_before(self, now: float) -> None:
        """Drop steps that ended before now."""
        gone = bisect_right(self.times, now) - 1
        if gone > 0:
            del self.times[:gone], self.gpus[:gone], self.cpus[:gone], self.memory[:gone]

    def free_at(self, when: float) -> tuple[float, float, float]:
        """Return free GPUs, CPUs and memory at that time."""
        i = max(0, bisect_right(self.times, when) - 1)
        return self.gpus[i], self.cpus[i], self.memory[i]

    def earliest(self, demand: Demand, length: float, start: float) -> float:
        """Return the first time from `start` on at which the demand is free for `length` seconds; inf if never."""
        times, gpus, cpus, memory = self.times, self.gpus, self.cpus, self.memory
        need_gpus, need_cpus, need_memory = demand[0] - EPSILON, demand[1] - EPSILON, demand[2] - EPSILON
        i = max(0, bisect_right(times, start) - 1)
        until = start + length - EPSILON
        count = len(times)
        while i < count:
            if gpus[i] >= need_gpus and cpus[i] >= need_cpus and memory[i] >= need_memory:
                i += 1
                if i == count or times[i] >= until:
                    return start
            else:
                i += 1
                if i < count:
                    start = times[i]
                    until = start + length - EPSILON
        return math.inf

    def free_until(self, demand: Demand, start: float) -> float:
        """Return until when the demand stays free from `start` on; `start` itself where it is not free then."""
        for i in range(max(0, bisect_right(self.times, start) - 1), len(self.times)):
            if not (
                self.gpus[i] >= demand[0] - EPSILON
                and self.cpus[i] >= demand[1] - EPSILON
                and self.memory[i] >= demand[2] - EPSILON
            ):
                return max(start, self.times[i])
        return math.inf

    def _split(self, when: float) -> int:
        i = bisect_right(self.times, when) - 1
        if self.times[i] == when:
            return i
        self.times.insert(i + 1, when)
        self.gpus.insert(i + 1, self.gpus[i])
        self.cpus.insert(i + 1, self.cpus[i])
        self.memory.insert(i + 1, self.memory[i])
        return i + 1


BLOCK = Demand(BLOCKED, BLOCKED, BLOCKED)


def full_profile(
    gpus: NDArray[np.float64], cpus: NDArray[np.float64], memory: NDArray[np.float64], nodes: Sequence[int]
) -> dict[int, Steps]:
    """Return profiles of these nodes with nothing taken."""
    return {node: Steps(float(gpus[node]), float(cpus[node]), float(memory[node])) for node in nodes}
