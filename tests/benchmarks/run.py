"""`make bench`: ratios of speed, each measured in one run beside its own reference. Nothing here is a timed test.

CPU seconds are user and system time of the process, the best of five rounds in which the programs take turns.
"""

import os
import subprocess
import sys
from pathlib import Path

import bench_slurm

ROOT = Path(__file__).resolve().parent.parent.parent
CAPTURE = ROOT / "tests/recorded/slurm/22.05-live"
ROUNDS = 5
PROGRAMS = {
    "import httpx, polars": [sys.executable, "-c", "import httpx, polars"],
    "gpudeck get jobs --json": [sys.executable, "-m", "console", "get", "jobs", "--json", "--captured", str(CAPTURE)],
    "gpudeck --version": [sys.executable, "-m", "console", "--version"],
}


def cpu_s(argv: list[str]) -> float:
    """Run a program and return its CPU seconds; it must succeed."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, cwd=ROOT)
    _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(argv)} exited {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def start() -> None:
    """Print what starting costs, against importing httpx and polars (goal: at most 2)."""
    best = dict.fromkeys(PROGRAMS, float("inf"))
    for _ in range(ROUNDS):
        for name, argv in PROGRAMS.items():
            best[name] = min(best[name], cpu_s(argv))
    reference = best["import httpx, polars"]
    for name, seconds in best.items():
        print(f"{name:28} {seconds:6.2f} CPU s   {seconds / reference:4.2f} x")


if __name__ == "__main__":
    start()
    bench_slurm.main()
