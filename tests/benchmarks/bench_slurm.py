"""How fast Slurm's answers become a snapshot: 10,000 nodes and 50,000 jobs, made from recorded rows.

    python tests/benchmarks/bench_slurm.py [JOBS [NODES]]

Prints CPU seconds, and their ratio to a reference workload of the same run (splitting and decoding the same text): the
ratio can be compared between machines, the seconds can't.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402

from connectors.connector import Answer, Raw  # noqa: E402
from connectors.raw import load_raw  # noqa: E402
from connectors.slurm import SlurmConnector  # noqa: E402
from connectors.slurm.commands import US, fields_of  # noqa: E402

RECORDED = ROOT / "tests" / "recorded" / "slurm" / "22.05-live"


def large(jobs: int, nodes: int) -> Raw:
    """Return the recorded refresh with its job and node rows multiplied; ids, names, times and hosts differ."""
    raw = load_raw(RECORDED)
    answers = dict(raw.answers)
    answers["squeue"] = _jobs(answers["squeue"], jobs, nodes)
    answers["node"] = _nodes(answers["node"], nodes)
    answers["partition"] = _partitions(answers["partition"], nodes)
    return msgspec.structs.replace(raw, answers=answers)


def _jobs(answer: Answer, count: int, nodes: int) -> Answer:
    fence = fields_of(answer.asked)[-1][1].encode()
    rows = [row for row in answer.out.split(fence + b"\n") if row]
    made = []
    for number in range(count):
        cells = rows[number % len(rows)].split(US.encode())
        base = str(1000 + number).encode()
        for at in (0, 1, 2):  # jobarrayid, jobid, arrayjobid
            cells[at] = cells[at].replace(cells[2], base, 1) if cells[at].startswith(cells[2]) else base
        for at in (19, 20, 21, 22):  # the four times
            if cells[at].isdigit():
                cells[at] = str(int(cells[at]) + number % 5000).encode()
        cells[9] = str(1000 + number % 9000).encode()
        if cells[24]:
            first = number % (nodes - 1) + 1
            cells[24] = (
                f"gpu[{first:05d}-{first + 1:05d}]".encode() if b"[" in cells[24] else f"gpu{first:05d}".encode()
            )
        head, _name = cells[-1].rsplit(fence, 1)
        cells[-1] = head + fence + f"train-{number % 20000}".encode()
        made.append(US.encode().join(cells))
    return msgspec.structs.replace(answer, out=b"".join(row + fence + b"\n" for row in made))


def _nodes(answer: Answer, count: int) -> Answer:
    chunks = [chunk for chunk in answer.out.split(b"\n\n") if chunk.startswith(b"NodeName=")]
    made = []
    for number in range(count):
        chunk = chunks[number % len(chunks)]
        name = chunk[9 : chunk.index(b" ")]
        made.append(chunk.replace(name, f"gpu{number + 1:05d}".encode()))
    return msgspec.structs.replace(answer, out=b"\n\n".join(made) + b"\n\n")


def _partitions(answer: Answer, nodes: int) -> Answer:
    out = answer.out.replace(b"Nodes=gpu[01-08]", f"Nodes=gpu[00001-{nodes:05d}]".encode())
    return msgspec.structs.replace(answer, out=out)


def cpu_seconds(work: Callable[[], object], rounds: int = 3) -> float:
    """Return the least CPU time, of all threads, of some rounds."""
    best = float("inf")
    for _round in range(rounds):
        before = time.process_time()
        work()
        best = min(best, time.process_time() - before)
    return best


def reference(raw: Raw) -> Callable[[], object]:
    """Return the reference workload: all of the text decoded and split into its cells and words."""
    squeue, node = raw.answers["squeue"].out, raw.answers["node"].out

    def work() -> int:
        return len(squeue.decode().split(US)) + len(node.decode().split())

    return work


def main(jobs: int = 50_000, nodes: int = 10_000) -> float:
    """Print the figures and return the ratio."""
    raw = large(jobs, nodes)
    connector = SlurmConnector.open("bench", {"host": "nowhere"})
    snapshot = connector.interpret(raw)
    if (len(snapshot.jobs), len(snapshot.nodes)) != (jobs, nodes):
        raise SystemExit(f"rows were lost: {len(snapshot.jobs)} jobs, {len(snapshot.nodes)} nodes, {snapshot.gaps}")
    took = cpu_seconds(lambda: connector.interpret(raw))
    base = cpu_seconds(reference(raw))
    size = sum(len(answer.out) for answer in raw.answers.values()) / 1e6
    print(f"{jobs:,} jobs and {nodes:,} nodes, {size:.1f} MB: {took:.2f} CPU s, {took / base:.1f} x the reference")
    return took / base


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
