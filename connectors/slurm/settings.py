"""The keys of a Slurm cluster's table in the config, checked one by one."""

import difflib
from collections.abc import Mapping
from typing import Any

import msgspec

from connectors.transport import SSH_KEYS
from connectors.transport.settings import seconds, ssh_settings, text, wrong

KEYS = (*SSH_KEYS, "interval", "timeout", "slurm_path", "cluster_name")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a refresh needs to know.

    `slurm_path` is the folder of Slurm's programs on the cluster; `cluster_name` is Slurm's own name of it, needed only
    where one login node speaks for several (SLURM_CLUSTERS).
    """

    interval_s: float = 10.0
    timeout_s: float = 30.0
    slurm_path: str | None = None
    cluster_name: str | None = None


def read_settings(cluster: str, table: Mapping[str, Any]) -> Settings:
    """Return the settings; BadWords names the first key that is wrong or unknown."""
    for key in table:
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(KEYS)}"
            raise wrong(cluster, key, "there is no such key", hint=hint)
    ssh_settings(cluster, table)
    slurm_path = text(cluster, table, "slurm_path")
    if slurm_path is not None and not slurm_path.startswith("/"):
        raise wrong(cluster, "slurm_path", f"{slurm_path!r} is not an absolute path")
    return Settings(
        interval_s=seconds(cluster, "interval", table.get("interval", 10), least=1.0),
        timeout_s=seconds(cluster, "timeout", table.get("timeout", 30), least=1.0),
        slurm_path=slurm_path,
        cluster_name=text(cluster, table, "cluster_name"),
    )
