"""The shells against a real OpenSSH server: both clients, sessions killed, odd login shells."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from bed import SlurmBed

from connectors.errors import Unreachable
from connectors.transport import Shell, open_shell


def shell(slurm: SlurmBed, user: str = "kenji", **settings: Any) -> Shell:
    return open_shell("bed", {"host": slurm.host(user), "ssh_config": str(slurm.ssh_config), **settings})


@pytest.mark.parametrize("transport", ["asyncssh", "openssh"])
async def test_bytes_and_codes_pass(
    slurm: SlurmBed, transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    made = shell(slurm, transport=transport)
    answer = await made.run("printf '\\377\\001'; id -un >&2; exit 255", timeout_s=10)
    assert (answer.code, answer.out, answer.err) == (255, b"\xff\x01", b"kenji\n")
    answers = await asyncio.gather(*(made.run(f"sleep 0.1; echo {number}", timeout_s=20) for number in range(12)))
    assert [int(answer.out) for answer in answers] == list(range(12))
    await made.close()


async def test_a_killed_session_is_noticed_at_once_and_made_again(slurm: SlurmBed) -> None:
    made = shell(slurm)
    await made.run("true", timeout_s=10)
    running = asyncio.create_task(made.run("sleep 20", timeout_s=30))
    await asyncio.sleep(0.5)
    started = time.monotonic()
    slurm.kill_ssh_sessions()
    with pytest.raises(Unreachable, match="broke"):
        await running
    assert time.monotonic() - started < 2
    assert (await made.run("echo back", timeout_s=10)).out == b"back\n"
    await made.close()


async def test_no_server_is_said_as_that_and_heals(slurm: SlurmBed) -> None:
    made = shell(slurm)
    with slurm.broken("sshd"):
        slurm.kill_ssh_sessions()
        with pytest.raises(Unreachable, match="connection refused"):
            await made.run("true", timeout_s=10)
    assert (await made.run("echo back", timeout_s=10)).out == b"back\n"
    await made.close()


async def test_a_user_that_is_not_let_in(slurm: SlurmBed) -> None:
    made = open_shell("bed", {"host": slurm.host("kenji"), "ssh_config": str(slurm.ssh_config), "user": "nobody"})
    with pytest.raises(Unreachable, match="login refused for nobody"):
        await made.run("true", timeout_s=10)
