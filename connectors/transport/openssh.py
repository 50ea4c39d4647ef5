"""Commands through the user's own `ssh`: for second factors, GSSAPI, smart cards and whatever else OpenSSH can do.

One master connection is shared (ControlMaster). It never asks anything (BatchMode), so where a login needs a person,
that person opens the master first; the hint of the error says how.
"""

import asyncio
import hashlib
import os
import re
import secrets
import shlex
import stat
from pathlib import Path

from connectors.errors import Unreachable
from connectors.transport.local import run_process
from connectors.transport.settings import SshSettings
from connectors.transport.shell import SH, ShellAnswer

_PERSIST_S = 300
_LONGEST_FOLDER = 37  # a socket's path has at most 107 bytes, and we and ssh add 66 to the folder's
_ALIVE = ("-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=2")
_FAILED = 255  # ssh's own exit code for any failure of its own
_HINTS = (
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "the host key is not the one in known_hosts", "was it reinstalled?"),
    ("Host key verification failed", "the host key is not known yet", "run ssh {host} once, check the fingerprint"),
    ("Permission denied", "login refused: {last}", "open the connection first: {open}"),
    ("Connection refused", "connection refused", "is sshd running there, and is the port right?"),
    ("timed out", "{last}", "is the host up, and the way to it open?"),
    ("Could not resolve hostname", "{last}", "is the name right?"),
)


class OpensshShell:
    """A Shell over the `ssh` program."""

    def __init__(self, cluster: str, settings: SshSettings) -> None:
        """Keep the settings; connects to nothing yet."""
        self.where = settings.where
        self._cluster = cluster
        self._settings = settings
        self._argv: tuple[str, ...] | None = None
        self._preparing = asyncio.Lock()

    async def run(self, script: str, *, timeout_s: float) -> ShellAnswer:
        """Run a script; see `Shell.run`. The time to connect is added to `timeout_s`."""
        argv = await self._prepared()
        mark = secrets.token_hex(16)
        # ssh's code 255 is also what a script may exit with: only the mark tells that the script ran to its end
        wrapped = f'trap \'printf "\\n%s %s\\n" {mark} "$?"\' EXIT\n{script}'
        answer = await run_process(
            (*argv, SH),
            wrapped,
            timeout_s=timeout_s + self._settings.connect_timeout_s,
            cluster=self._cluster,
            where=self.where,
        )
        out, found, code = answer.out.rpartition(f"\n{mark} ".encode())
        if not found:
            raise self._why(answer)
        return ShellAnswer(code=int(code), out=out, err=answer.err)

    async def close(self) -> None:
        """Do nothing: the master may be the user's own, and one that we opened ends by itself."""

    async def _prepared(self) -> tuple[str, ...]:
        async with self._preparing:
            if self._argv is None:
                self._argv = (*self._base(), *await self._control(), "-T", "--", self._settings.host)
            return self._argv

    def _base(self) -> tuple[str, ...]:
        settings = self._settings
        timeout = max(1, round(settings.connect_timeout_s))
        argv = ["ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={timeout}", *_ALIVE]
        argv += ["-o", "StrictHostKeyChecking=yes"]
        argv += [] if settings.ssh_config is None else ["-F", str(settings.ssh_config)]
        argv += [] if settings.known_hosts is None else ["-o", f"UserKnownHostsFile={settings.known_hosts}"]
        argv += [] if settings.identity is None else ["-i", str(settings.identity)]
        argv += [] if settings.user is None else ["-l", settings.user]
        argv += [] if settings.port is None else ["-p", str(settings.port)]
        return tuple(argv)

    async def _control(self) -> tuple[str, ...]:
        """Return how to share the connection; a ControlPath of the user's own wins, so that their master is found."""
        answer = await run_process(
            (*self._base(), "-G", "--", self._settings.host), "", timeout_s=10, cluster=self._cluster, where=self.where
        )
        if answer.code != 0:
            raise self._why(answer)
        own = re.search(rb"^controlpath (.+)$", answer.out, re.MULTILINE)
        if own is not None and own[1] != b"none":
            return ()
        return (
            *("-o", "ControlMaster=auto", "-o", f"ControlPersist={_PERSIST_S}"),
            *("-o", f"ControlPath={control_folder(self._cluster)}/{self._trust()}%C"),
        )

    def _trust(self) -> str:
        """Return what tells masters apart that were opened on other grounds: %C knows host, port and user only.

        Without it a master that one known_hosts file let through would serve a config that names another.
        """
        settings = self._settings
        grounds = repr((settings.ssh_config, settings.known_hosts, settings.identity))
        return hashlib.sha256(grounds.encode()).hexdigest()[:8]

    def _why(self, answer: ShellAnswer) -> Unreachable:
        said = answer.err.decode(errors="backslashreplace")
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        last = lines[-1] if lines else f"ssh ended with code {answer.code}"
        words = {"last": last, "host": self.where, "open": self._opening()}
        for mark, what, hint in _HINTS:
            if mark in said:
                return self._unreachable(what.format(**words), hint.format(**words))
        if answer.code != _FAILED:
            return self._unreachable(f"the answer broke off: {last}", None)
        return self._unreachable(last, f"does ssh {self.where} work?")

    def _opening(self) -> str:
        """Return the command with which a person opens the master, with whatever the login asks for."""
        argv = [part for part in self._argv or () if part != "-T"]
        at = argv.index("BatchMode=yes") if "BatchMode=yes" in argv else 1
        return shlex.join([*argv[: at - 1], *argv[at + 1 :], "true"])

    def _unreachable(self, what: str, hint: str | None) -> Unreachable:
        return Unreachable(f"{self.where}: {what}", cluster=self._cluster, source="ssh", hint=hint)


def control_folder(cluster: str) -> Path:
    """Return the folder of the control sockets, among the user's run-time files: ours alone, or Unreachable."""
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or "/") / "gpudeck-ssh"
    if folder.parent == Path("/") or len(str(folder)) > _LONGEST_FOLDER:
        folder = Path("/tmp") / f"gpudeck-ssh-{os.getuid()}"  # noqa: S108 - ours alone, which is checked below
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise Unreachable(f"{folder}: {error.strerror}", cluster=cluster, source="ssh") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise Unreachable(f"{folder} is not a folder of ours alone", cluster=cluster, source="ssh", hint="remove it")
    return folder
