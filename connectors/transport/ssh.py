"""Commands over SSH by asyncssh: one kept connection, host keys always checked, a dropped link noticed within 30 s.

~/.ssh/config is honoured (Host, HostName, User, Port, IdentityFile, CertificateFile, ProxyJump, ProxyCommand), and so
are agents. Sites that ask for a second factor or use GSSAPI need `transport = "openssh"`.
"""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from connectors.errors import Malformed, Unreachable
from connectors.transport.settings import SshSettings
from connectors.transport.shell import SH, OutputTooLong, ShellAnswer, read_capped

if TYPE_CHECKING:  # asyncssh costs a quarter of a second: it loads with the first connection
    import asyncssh

_KEEPALIVE_S = 8.0  # asked three times: a link that is cut is noticed within 24 s
_KEEPALIVE_MISSES = 2
_PARALLEL = 4  # OpenSSH's sshd refuses more than MaxSessions (10) at a time
_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2", "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


class AsyncsshShell:
    """A Shell over one asyncssh connection, made on first use and made again after it broke."""

    def __init__(self, cluster: str, settings: SshSettings) -> None:
        """Keep the settings; connects to nothing yet."""
        self.where = settings.where
        self._cluster = cluster
        self._settings = settings
        self._connection: asyncssh.SSHClientConnection | None = None
        self._connecting = asyncio.Lock()
        self._sessions = asyncio.Semaphore(_PARALLEL)

    async def run(self, script: str, *, timeout_s: float) -> ShellAnswer:
        """Run a script; see `Shell.run`."""
        import asyncssh

        async with self._sessions:
            connection = await self._connected()
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._run(connection, script)
            except TimeoutError:
                raise self._unreachable(f"no answer within {timeout_s:g} s", hint="is the cluster busy?") from None
            except OutputTooLong as error:
                raise Malformed(str(error), cluster=self._cluster, source=self.where) from None
            except (asyncssh.Error, OSError) as error:
                await self._drop(connection)
                raise self._unreachable(f"the connection broke: {error or type(error).__name__}") from error

    async def close(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(2):
                    await connection.wait_closed()

    async def _run(self, connection: "asyncssh.SSHClientConnection", script: str) -> ShellAnswer:
        process = await connection.create_process(SH, encoding=None)
        try:
            process.stdin.write(script.encode())
            process.stdin.write_eof()
            out, err = await asyncio.gather(read_capped(process.stdout), read_capped(process.stderr))
            await process.wait_closed()
            code = process.returncode
            if code is None or (process.exit_status is None and process.exit_signal is None):
                await self._drop(connection)
                raise self._unreachable("the connection broke before the answer was complete")
            return ShellAnswer(code=code if code >= 0 else 128 - code, out=out, err=err)
        finally:
            process.close()

    async def _connected(self) -> "asyncssh.SSHClientConnection":
        async with self._connecting:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connect()
            return self._connection

    async def _drop(self, connection: "asyncssh.SSHClientConnection") -> None:
        if self._connection is connection:
            self._connection = None
        connection.abort()

    async def _connect(self) -> "asyncssh.SSHClientConnection":
        import asyncssh

        settings = self._settings
        try:
            options = self._options()
            if settings.passphrase is not None:
                options["passphrase"] = await asyncio.to_thread(settings.passphrase.reveal)
            async with asyncio.timeout(settings.connect_timeout_s):
                return await asyncssh.connect(
                    settings.host, **options, keepalive_interval=_KEEPALIVE_S, keepalive_count_max=_KEEPALIVE_MISSES
                )
        except TimeoutError:
            raise self._unreachable(
                f"no connection within {settings.connect_timeout_s:g} s", hint="is the host up, and the way to it open?"
            ) from None
        except (asyncssh.Error, OSError, ValueError) as error:
            raise self._why(error) from error

    def _options(self) -> dict[str, Any]:
        """Return the arguments of asyncssh.connect; the host keys to trust are read here, never left out."""
        import asyncssh

        settings = self._settings
        options: dict[str, Any] = {
            key: value for key, value in (("username", settings.user), ("port", settings.port)) if value is not None
        }
        if settings.ssh_config is not None:
            if not settings.ssh_config.exists():
                raise FileNotFoundError(f"ssh_config {settings.ssh_config} is not there")
            options["config"] = [str(settings.ssh_config)]
        if settings.identity is not None:
            options["client_keys"] = [str(settings.identity)]
        read = asyncssh.SSHClientConnectionOptions(host=settings.host, **{**options, "client_keys": None})
        self._known = _known_hosts(settings.known_hosts, read.known_hosts)
        self._lookup = (read.host_key_alias or read.host or settings.host, read.port or 22)
        options["known_hosts"] = self._known or b""
        return options

    def _why(self, error: Exception) -> Unreachable:
        import asyncssh

        host, user = self.where, self._settings.user
        if isinstance(error, (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed)):
            name, port = self._lookup
            if self._has_key(name, port):
                return self._unreachable(
                    f"the host key of {name} is not the one in known_hosts",
                    hint=f"if the machine was reinstalled: ssh-keygen -R {_bracketed(name, port)}, then "
                    f"ssh {host} once; if not, somebody may be in between",
                )
            return self._unreachable(
                f"the host key of {name} is not known yet", hint=f"run ssh {host} once and check the fingerprint"
            )
        if isinstance(error, asyncssh.PermissionDenied):
            as_whom = f" for {user}" if user else ""
            return self._unreachable(
                f"login refused{as_whom}: {error.reason or error}",
                hint="is the key in the agent (ssh-add -l)? for passwords, second factors and GSSAPI: "
                'transport = "openssh"',
            )
        if isinstance(error, ConnectionRefusedError):
            return self._unreachable("connection refused", hint="is sshd running there, and is the port right?")
        if isinstance(error, FileNotFoundError):
            return self._unreachable(str(error))
        if isinstance(error, asyncssh.ConnectionLost):
            return self._unreachable("the server closed the connection while we logged in")
        return self._unreachable(str(error) or type(error).__name__, hint=f"does ssh {host} work?")

    def _has_key(self, name: str, port: int) -> bool:
        import asyncssh

        if not self._known:
            return False
        with suppress(OSError, ValueError):
            match = asyncssh.read_known_hosts(self._known).match(name, "", None if port == 22 else port)
            return any(match[:2])
        return False

    def _unreachable(self, what: str, *, hint: str | None = None) -> Unreachable:
        return Unreachable(f"{self.where}: {what}", cluster=self._cluster, source="ssh", hint=hint)

    _known: list[str] = []  # noqa: RUF012 - replaced, never changed
    _lookup: tuple[str, int] = ("", 22)


def _bracketed(name: str, port: int) -> str:
    return name if port == 22 else f"'[{name}]:{port}'"


def _known_hosts(given: Path | None, configured: Any) -> list[str]:
    """Return the files that exist: the one given, else the config's, else OpenSSH's own."""
    if given is not None:
        if not given.exists():
            raise FileNotFoundError(f"known_hosts {given} is not there")
        return [str(given)]
    names = cast("list[str]", configured) if isinstance(configured, list) and configured else list(_KNOWN_HOSTS)
    paths = [Path(name).expanduser() for name in names]
    return [str(path) for path in paths if path.is_file() and os.access(path, os.R_OK)]
