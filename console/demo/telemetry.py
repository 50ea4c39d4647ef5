"""What the GPUs of a simulated cluster report: a function of the seed, the job and the second, and of nothing else."""

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache

from console.demo.state import GIB, Job, Node


@dataclass(frozen=True, slots=True)
class Reading:
    """One GPU: ratios 0 to 1, memory in bytes, watts, degrees Celsius; all None where it does not answer."""

    utilization: float | None
    sm: float | None
    tensor: float | None
    memory: float | None
    power: float | None
    temperature: float | None


SILENT = Reading(None, None, None, None, None, None)


@lru_cache(maxsize=1 << 15)
def chance(*words: object) -> float:
    """Return a number in [0, 1) that depends on the words alone."""
    digest = hashlib.blake2b("/".join(map(str, words)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32


def read(node: Node, index: int, job: Job | None, seed: int, now: int) -> Reading:
    """Return what a GPU reports at a second; `job` is the one that holds it."""
    if index in node.lost:
        return SILENT
    group = node.group
    total = group.gpu_memory_gib * GIB
    ambient = 27.0 + 5.0 * chance(node.name, "air") + 1.5 * _wave(seed, node.name, now, period=1900)
    if job is None:
        power = group.idle_w * (1 + 0.03 * _wave(seed, f"{node.name}/{index}", now, period=240))
        return Reading(0.0, 0.0, 0.0, 0.004 * total, round(power, 1), round(ambient + 5, 1))
    who = f"{job.id}/{node.name}/{index}"
    busy = _busy(job, seed, who, now)
    intensity = (0.55 + 0.4 * chance(job.ask.name, "sm")) if job.ask.load != "idle" else 0.0
    sm = busy * intensity
    tensor = sm * (0.35 + 0.4 * chance(job.ask.name, "tensor"))
    filled = 0.01 if job.ask.load == "idle" else 0.35 + 0.6 * chance(job.ask.name, "memory")
    filled *= 1 + 0.01 * _wave(seed, who, now, period=700)
    power = group.idle_w * 1.2 + (group.power_limit_w - group.idle_w * 1.2) * min(1.0, 0.15 * busy + 0.95 * sm)
    heat = ambient + 5 + 38 * (power - group.idle_w) / (group.power_limit_w - group.idle_w)
    memory = round(min(0.98, filled) * total)
    return Reading(round(busy, 3), round(sm, 3), round(tensor, 3), memory, round(power, 1), round(heat, 1))


def _busy(job: Job, seed: int, who: str, now: int) -> float:
    """Return the share of time with a kernel running, for each way of using a GPU."""
    age = now - (job.start or now)
    noise = _wave(seed, who, now, period=90)
    if job.ask.load == "idle":
        return 0.0
    if job.ask.load == "steady":
        checkpoint = 1800 + int(1200 * chance(job.ask.name, "checkpoint"))
        return 0.08 if age % checkpoint < 25 else _clamp(0.95 + 0.04 * noise)
    if job.ask.load == "starved":
        return _clamp(0.36 + 0.3 * math.sin(now * 2 * math.pi / 47 + 6 * chance(who)) + 0.08 * noise)
    if job.ask.load == "wave":
        day = math.sin(now * 2 * math.pi / 86_400 + 6 * chance(job.ask.name, "day"))
        return _clamp(0.42 + 0.22 * day + 0.12 * noise + 0.06 * _wave(seed, who, now, period=11))
    burst = _wave(seed, who, now, period=400)
    return _clamp(0.55 + 0.3 * noise) if burst > 0.35 else _clamp(0.02 + 0.02 * noise)


def _wave(seed: int, who: str, now: int, *, period: int) -> float:
    """Return a smooth wandering value from -1 to 1."""
    first, second = chance(seed, who, period), chance(seed, who, period, "b")
    turn = 2 * math.pi * now / period
    return (math.sin(turn + 6.28 * first) + math.sin(turn * 0.618 + 6.28 * second)) / 2


def _clamp(value: float) -> float:
    return min(1.0, max(0.0, value))
