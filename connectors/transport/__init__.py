"""Ways to a cluster that several systems share: commands over SSH, or on this machine."""

from collections.abc import Mapping
from typing import Any

from connectors.transport.settings import SSH_KEYS, ssh_settings
from connectors.transport.shell import Shell, ShellAnswer

__all__ = ["SSH_KEYS", "Shell", "ShellAnswer", "open_shell"]


def open_shell(cluster: str, table: Mapping[str, Any]) -> Shell:
    """Return the shell that a cluster's table asks for; connects to nothing yet. BadWords names a key that is wrong."""
    settings = ssh_settings(cluster, table)
    if settings.transport == "local":
        from connectors.transport.local import LocalShell

        return LocalShell(cluster)
    if settings.transport == "openssh":
        from connectors.transport.openssh import OpensshShell

        return OpensshShell(cluster, settings)
    from connectors.transport.ssh import AsyncsshShell

    return AsyncsshShell(cluster, settings)
