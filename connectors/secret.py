"""Secrets come from the environment, a keyring or a command, never from the config file itself."""

import os
import shlex
import subprocess

import msgspec

from connectors.errors import BadWords


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """Where a secret is kept: `env` (a variable), `keyring` (`service/user`) or `command` (run without a shell)."""

    env: str | None = None
    keyring: str | None = None
    command: str | None = None

    def __post_init__(self) -> None:
        """Refuse anything but exactly one place."""
        if sum(place is not None for place in (self.env, self.keyring, self.command)) != 1:
            raise ValueError("a secret has exactly one of env, keyring or command")

    def reveal(self) -> str:
        """Fetch the secret; BadWords says where it was looked for, never what was found."""
        if self.env is not None:
            value = os.environ.get(self.env)
            if not value:
                raise BadWords(f"the environment variable {self.env} holds no secret", text=self.env)
            return value
        if self.keyring is not None:
            return _from_keyring(self.keyring)
        return _from_command(self.command or "")


def _from_keyring(place: str) -> str:
    try:
        import keyring  # an extra of its own
    except ImportError:
        raise BadWords("the keyring package is not installed", text=place, hint="install gpudeck[keyring]") from None
    service, _, user = place.rpartition("/")
    value: str | None = keyring.get_password(service, user)
    if not value:
        raise BadWords(f"the keyring holds nothing for {place!r}", text=place)
    return value


def _from_command(command: str) -> str:
    try:
        answer = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=60, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise BadWords(f"the command for a secret failed: {error}", text=command) from error
    if answer.returncode != 0 or not answer.stdout.strip():
        said = " ".join(answer.stderr.split()) or "no output"
        raise BadWords(f"the command for a secret exited {answer.returncode}: {said}", text=command)
    return answer.stdout.rstrip("\r\n")
