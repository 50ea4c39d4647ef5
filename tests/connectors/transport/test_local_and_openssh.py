"""Shells that need no network: this machine, and the `ssh` program played by a script."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.errors import Malformed, Unreachable
from connectors.transport import Shell, ShellAnswer, open_shell
from connectors.transport.openssh import OpensshShell, control_folder
from connectors.transport.settings import ssh_settings


def local() -> Shell:
    return open_shell("here", {"transport": "local"})


async def test_a_script_answers_with_code_and_bytes() -> None:
    shell = local()
    assert isinstance(shell, Shell)
    answer = await shell.run("printf '\\377\\000x'; echo err >&2; exit 3", timeout_s=5)
    assert answer == ShellAnswer(code=3, out=b"\xff\x00x", err=b"err\n")
    await shell.close()
    await shell.close()


async def test_a_signal_is_128_and_its_number() -> None:
    assert (await local().run("kill -9 $$", timeout_s=5)).code == 137


async def test_large_scripts_and_answers_pass() -> None:
    script = "x='" + "y" * 500_000 + '\'\nprintf %s "$x"; head -c 3000000 /dev/zero'
    answer = await local().run(script, timeout_s=20)
    assert len(answer.out) == 3_500_000


async def test_what_hangs_is_ended_with_its_children() -> None:
    mark = f"31.{os.getpid()}"
    started = time.monotonic()
    with pytest.raises(Unreachable, match=r"no answer within 0\.5 s"):
        await local().run(f"sleep {mark} & sleep {mark}", timeout_s=0.5)
    assert time.monotonic() - started < 5
    assert not [line for line in _command_lines() if mark in line]


def _command_lines() -> list[str]:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()


async def test_a_stream_that_never_ends_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.transport.shell.MAX_OUTPUT_BYTES", 1_000_000)
    with pytest.raises(Malformed, match="MiB of output"):
        await local().run("yes", timeout_s=20)


# --- ssh, played by a script ---------------------------------------------------------------------------------------


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put an `ssh` on the PATH that answers -G with a config, and everything else with a script."""

    def play(body: str, config: str = "hostname x\n") -> Path:
        program = tmp_path / "ssh"
        log = tmp_path / "asked"
        program.write_text(
            f'#!/bin/sh\necho "$@" >> {log}\ncase " $* " in *" -G "*) printf "{config}"; exit 0;; esac\n{body}\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        return log

    return play


def openssh(**settings: object) -> Shell:
    return open_shell("there", {"host": "login1", "transport": "openssh", **settings})


async def test_openssh_runs_the_script_and_shares_one_connection(played) -> None:
    log = played("exec /bin/sh -s")
    shell = openssh(user="ops", port=2222, identity="/k", known_hosts="/kh", ssh_config="/c")
    answer = await shell.run("echo hello; exit 4", timeout_s=5)
    assert (answer.code, answer.out) == (4, b"hello\n")
    assert (await shell.run("exit 255", timeout_s=5)).code == 255
    lines = log.read_text().splitlines()
    assert sum(" -G " in line for line in lines) == 1
    for option in ("BatchMode=yes", "ControlMaster=auto", "StrictHostKeyChecking=yes", "-l ops", "-p 2222", "-F /c"):
        assert option in lines[-1]
    assert lines[-1].endswith("-- login1 exec env LC_ALL=C.UTF-8 LANG=C.UTF-8 /bin/sh -s")


async def test_a_control_path_of_the_users_own_is_kept(played) -> None:
    log = played("exec /bin/sh -s", config="controlpath /home/u/.ssh/cm-x\\n")
    await openssh().run("true", timeout_s=5)
    assert "ControlPath" not in log.read_text()


@pytest.mark.parametrize(
    ("said", "want"),
    [
        (
            "u@login1: Permission denied (publickey,keyboard-interactive).",
            "open the connection first: ssh .* login1 true",
        ),
        ("Host key verification failed.", "not known yet"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "not the one in known"),
        ("ssh: connect to host login1 port 22: Connection refused", "connection refused"),
        ("ssh: connect to host login1 port 22: Connection timed out", "is the host up"),
        ("ssh: Could not resolve hostname login1: Name or service not known", "is the name right"),
        ("Something else", "Something else .does ssh login1 work"),
    ],
)
async def test_openssh_failures_are_unreachable(played, said: str, want: str) -> None:
    played(f"cat >/dev/null; printf '%s\\n' '{said}' >&2; exit 255")
    with pytest.raises(Unreachable, match=want) as caught:
        await openssh().run("true", timeout_s=5)
    assert "BatchMode" not in str(caught.value)


async def test_a_connection_lost_in_the_middle_is_unreachable(played) -> None:
    played("cat >/dev/null; echo half; exit 0")
    with pytest.raises(Unreachable, match="broke off"):
        await openssh().run("echo half; echo whole", timeout_s=5)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run-time folder whose path is as short as real ones are."""
    with tempfile.TemporaryDirectory(prefix="gd", dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def test_the_control_folder_is_ours_alone(runtime: Path) -> None:
    folder = control_folder("c")
    assert folder.parent == runtime
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    with pytest.raises(Unreachable, match="ours alone"):
        control_folder("c")
    folder.rmdir()
    folder.symlink_to("/etc")
    with pytest.raises(Unreachable, match="ours alone"):
        control_folder("c")


def test_a_path_too_long_for_a_socket_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/" + "long/" * 20)
    assert control_folder("c") == Path("/tmp") / f"gpudeck-ssh-{os.getuid()}"


@pytest.mark.parametrize("key", ["known_hosts", "identity", "ssh_config"])
async def test_a_master_opened_on_other_grounds_is_not_shared(tmp_path: Path, key: str) -> None:
    paths = []
    for name in ("one", "other"):
        (tmp_path / name).write_text("")
        shell = OpensshShell("c", ssh_settings("c", {"host": "h", "transport": "openssh", key: str(tmp_path / name)}))
        argv = await shell._prepared()
        paths.append(next(word for word in argv if word.startswith("ControlPath=")))
    assert paths[0] != paths[1]
