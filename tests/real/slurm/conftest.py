"""The `slurm` fixture: a real cluster, brought up once a session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bed import DAEMONS, SlurmBed, down, missing, up
from bed_config import DEFAULT_DIR, bed_at
from bed_process import running_pid


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


class Deck:
    """gpudeck's own command line on the bed, as some user of it: what a person would type."""

    def __init__(self, bed: SlurmBed, folder: Path) -> None:
        self.bed = bed
        self.folder = folder
        self.config = folder / "config.toml"
        tables = [
            f'[clusters.{user}]\nsystem = "slurm"\nhost = "{bed.host(user)}"\nssh_config = "{bed.ssh_config}"\naccess = "write"\n'
            for user in ("opsadmin", "opsoper", "mira", "kenji")
        ]
        self.config.write_text("\n".join(tables))

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "GPUDECK_CONFIG": str(self.config),
            "GPUDECK_STATE": str(self.folder / "state"),
            "TZ": "UTC",
        }

    def __call__(self, *words: str, user: str = "opsadmin", stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run `gpudeck WORDS -c USER`, the user being a name of a cluster: the bed, seen by that user."""
        return subprocess.run(
            [sys.executable, "-m", "console", *words, "-c", user],
            input=stdin, capture_output=True, text=True, timeout=120, env=self.environment, check=False,
        )  # fmt: skip

    def json(self, *words: str, user: str = "opsadmin") -> Any:
        answer = self(*words, "--json", user=user)
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def rows(self, table: str, *words: str, user: str = "opsadmin") -> list[dict[str, Any]]:
        (envelope,) = self.json("get", table, *words, user=user)
        rows: list[dict[str, Any]] = envelope["rows"]
        return rows


@pytest.fixture
def deck(slurm: SlurmBed, tmp_path: Path) -> Deck:
    """gpudeck on the bed."""
    return Deck(slurm, tmp_path)
