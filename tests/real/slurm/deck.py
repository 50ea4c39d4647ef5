"""gpudeck on the bed: its command line, with a config of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bed import SlurmBed

from console.__main__ import main


class Deck:
    """gpudeck's own command line on the bed, as some user of it: what a person would type.

    The words run in this process, which has imported what they need: a process of its own costs a second of CPU, and
    there are a hundred of them. `spawned` is that process.
    """

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
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _stream in range(2))
        with ExitStack() as stack:
            stack.callback(time.tzset)  # called last, when the environment is its old self
            stack.enter_context(patch.dict(os.environ, self.environment))
            time.tzset()
            stack.enter_context(patch.object(sys, "stdin", io.StringIO(stdin)))
            stack.enter_context(redirect_stdout(out))
            stack.enter_context(redirect_stderr(err))
            code = main([*words, "-c", user])
        said, warned = (stream.buffer.getvalue().decode() for stream in (out, err))
        return subprocess.CompletedProcess(words, code, said, warned)

    def spawned(self, *words: str, user: str = "opsadmin", stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Do the same in a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "console", *words, "-c", user],
            input=stdin, capture_output=True, encoding="utf-8", timeout=120, env=self.environment, check=False,
        )  # fmt: skip

    def json(self, *words: str, user: str = "opsadmin") -> Any:
        answer = self(*words, "--json", user=user)
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def rows(self, table: str, *words: str, user: str = "opsadmin") -> list[dict[str, Any]]:
        (envelope,) = self.json("get", table, *words, user=user)
        rows: list[dict[str, Any]] = envelope["rows"]
        return rows
