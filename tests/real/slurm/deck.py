"""gpudeck on the bed: its command line as a subprocess, with a config of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bed import SlurmBed


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
