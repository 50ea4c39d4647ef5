"""The keys of a cluster's table that say how to reach it, checked one by one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from connectors.errors import BadWords
from connectors.notation import NotationError, parse_human_duration
from connectors.secret import Secret

TRANSPORTS = ("asyncssh", "openssh", "local")
SSH_KEYS = (
    "host", "user", "port", "transport", "ssh_config", "known_hosts", "identity", "passphrase", "connect_timeout",
)  # fmt: skip


class SshSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach one host; None leaves a thing to the user's ssh config."""

    host: str
    user: str | None = None
    port: int | None = None
    transport: Literal["asyncssh", "openssh", "local"] = "asyncssh"
    ssh_config: Path | None = None
    known_hosts: Path | None = None
    identity: Path | None = None
    passphrase: Secret | None = None
    connect_timeout_s: float = 15.0

    @property
    def where(self) -> str:
        """The host in words for messages: `login1`, `ops@login1:2222`, `this machine`."""
        if self.transport == "local":
            return "this machine"
        return (f"{self.user}@" if self.user else "") + self.host + (f":{self.port}" if self.port else "")


def ssh_settings(cluster: str, table: Mapping[str, Any]) -> SshSettings:
    """Return the settings in a cluster's table; other keys are left alone. BadWords names a key that is wrong."""
    transport = table.get("transport", "asyncssh")
    if transport not in TRANSPORTS:
        raise wrong(cluster, "transport", f"{transport!r} is none of {', '.join(TRANSPORTS)}")
    host = text(cluster, table, "host")
    if host is None and transport != "local":
        raise wrong(cluster, "host", "it is missing", hint="name a host, or an alias of ~/.ssh/config")
    for key in ("host", "user"):
        value = text(cluster, table, key)
        if value is not None and (not value.isprintable() or " " in value or value.startswith("-")):
            raise wrong(cluster, key, f"{value!r} is no name of a {key}")
    port = table.get("port")
    if port is not None and (not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536):
        raise wrong(cluster, "port", f"{port!r} is not a number from 1 to 65535")
    timeout = table.get("connect_timeout")
    return SshSettings(
        host=host or "localhost",
        user=text(cluster, table, "user"),
        port=port,
        transport=transport,
        ssh_config=_path(cluster, table, "ssh_config"),
        known_hosts=_path(cluster, table, "known_hosts"),
        identity=_path(cluster, table, "identity"),
        passphrase=_passphrase(cluster, table, transport),
        connect_timeout_s=15.0 if timeout is None else seconds(cluster, "connect_timeout", timeout, least=1.0),
    )


def text(cluster: str, table: Mapping[str, Any], key: str) -> str | None:
    """Return a key's text, None where it is missing; BadWords for an empty one and for anything but text."""
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise wrong(cluster, key, f"{value!r} is not a text")
    return value


def seconds(cluster: str, key: str, value: object, *, least: float) -> float:
    """Return a duration (`"10s"`, or a number of seconds) of at least that many seconds; BadWords otherwise."""
    if isinstance(value, str):
        try:
            found = parse_human_duration(value)
        except NotationError as error:
            raise wrong(cluster, key, str(error)) from error
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found = float(value)
    else:
        raise wrong(cluster, key, f"{value!r} is not a duration", hint='write "10s"')
    if not least <= found < float("inf"):
        raise wrong(cluster, key, f"{value!r} is less than {least:g} s, or endless")
    return found


def wrong(cluster: str, key: str, what: str, *, hint: str | None = None) -> BadWords:
    """Return the error that names a key of the config."""
    return BadWords(f"{key} of cluster {cluster}: {what}", text=key, hint=hint)


def _passphrase(cluster: str, table: Mapping[str, Any], transport: str) -> Secret | None:
    """Return where the passphrase of the identity is kept; only asyncssh opens keys itself."""
    value = table.get("passphrase")
    if value is None:
        return None
    if transport != "asyncssh":
        raise wrong(cluster, "passphrase", f"it goes with transport asyncssh, not {transport}", hint="use an agent")
    if not isinstance(value, Secret):
        raise wrong(cluster, "passphrase", "it must be {env=…}, {keyring=…} or {command=…}")
    return value


def _path(cluster: str, table: Mapping[str, Any], key: str) -> Path | None:
    value = text(cluster, table, key)
    return None if value is None else Path(value).expanduser()
