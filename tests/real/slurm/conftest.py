"""The `slurm` fixture: a real cluster, brought up once a session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed import DAEMONS, SlurmBed, down, missing, up
from bed_config import DEFAULT_DIR, bed_at
from bed_process import running_pid
from deck import Deck


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses the cluster carries the marker `slurm`, so that `-m "not slurm"` leaves it out."""
    for item in items:
        if "slurm" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmBed]:
    """A running bed in SLURMBED_DIR (/opt/slurmbed), reset; left running if it ran before, otherwise taken down.

    Skips without root or packages, except under SLURMBED_REQUIRED=1, where that is a failure.
    """
    absent = missing()
    reason = "needs root" if os.geteuid() != 0 else f"not installed: {', '.join(absent)}" if absent else ""
    if reason and os.environ.get("SLURMBED_REQUIRED") == "1":
        pytest.fail(f"the real Slurm cluster is required here, but it {reason}")
    if reason:
        pytest.skip(f"real Slurm cluster: {reason}")
    folder = Path(os.environ.get("SLURMBED_DIR", DEFAULT_DIR))
    ran_before = any(running_pid(bed_at(folder), name) is not None for name in DAEMONS)
    try:
        cluster = SlurmBed(up(folder))
        cluster.reset()
        yield cluster
    finally:
        if not ran_before:
            down(folder)


@pytest.fixture
def deck(slurm: SlurmBed, tmp_path: Path) -> Deck:
    """gpudeck on the bed."""
    return Deck(slurm, tmp_path)
