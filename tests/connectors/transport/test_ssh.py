"""AsyncsshShell against an SSH server of asyncssh in this process."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from connectors.errors import BadWords, Malformed, Unreachable
from connectors.secret import Secret
from connectors.transport import Shell, open_shell


class Server:
    """What a test needs of the server: its port, keys, and the connections that it holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.connections: list[asyncssh.SSHServerConnection] = []

    def settings(self, **more: Any) -> dict[str, Any]:
        return {
            "host": "127.0.0.1", "port": self.port, "user": "ops", "identity": str(self.folder / "id"),
            "known_hosts": str(self.folder / "known_hosts"), "ssh_config": str(self.folder / "config"), **more,
        }  # fmt: skip

    def shell(self, **more: Any) -> Shell:
        return open_shell("halcyon", self.settings(**more))


async def _serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
    child = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", process.command or "", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = await child.communicate(await process.stdin.read())
        process.stdout.write(out)
        process.stderr.write(err)
        process.exit(child.returncode or 0)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    made = Server(tmp_path)
    key, host_key = (asyncssh.generate_private_key("ssh-ed25519") for _number in range(2))
    key.write_private_key(tmp_path / "id")
    key.write_public_key(tmp_path / "authorized")
    (tmp_path / "config").write_text("Host alias\n  HostName 127.0.0.1\n")

    class Keeper(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            made.connections.append(conn)

    listening = await asyncssh.create_server(
        Keeper, "127.0.0.1", 0, server_host_keys=[host_key], authorized_client_keys=str(tmp_path / "authorized"),
        process_factory=_serve, encoding=None,
    )  # fmt: skip
    made.port = listening.get_port()
    public = host_key.export_public_key().decode().strip()
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{made.port} {public}\n")
    yield made
    listening.close()
    for connection in made.connections:
        connection.abort()
    await listening.wait_closed()


async def test_one_connection_is_kept(server: Server) -> None:
    shell = server.shell()
    for number in range(3):
        answer = await shell.run(f"printf '\\377{number}'; echo e >&2; exit {number}", timeout_s=10)
        assert (answer.code, answer.out, answer.err) == (number, b"\xff" + str(number).encode(), b"e\n")
    assert len(server.connections) == 1
    await shell.close()
    await shell.close()
    assert (await shell.run("echo again", timeout_s=10)).out == b"again\n"
    assert len(server.connections) == 2
    await shell.close()


async def test_the_ssh_config_is_honoured(server: Server) -> None:
    (server.folder / "config").write_text(
        f"Host alias\n  HostName 127.0.0.1\n  Port {server.port}\n  User ops\n  IdentityFile {server.folder / 'id'}\n"
        f"  UserKnownHostsFile {server.folder / 'known_hosts'}\n"
    )
    shell = open_shell("halcyon", {"host": "alias", "ssh_config": str(server.folder / "config")})
    assert shell.where == "alias"
    assert (await shell.run("echo hi", timeout_s=10)).out == b"hi\n"
    await shell.close()


async def test_an_encrypted_key_opens_with_its_passphrase_from_where_it_is_kept(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = asyncssh.read_private_key(server.folder / "id")
    key.write_private_key(server.folder / "id", passphrase="geheim")
    monkeypatch.setenv("BED_PASS", "geheim")
    shell = server.shell(passphrase=Secret(env="BED_PASS"))
    assert (await shell.run("echo hi", timeout_s=10)).out == b"hi\n"
    await shell.close()
    with pytest.raises(Unreachable):
        await server.shell().run("true", timeout_s=10)
    monkeypatch.delenv("BED_PASS")
    with pytest.raises(BadWords, match="BED_PASS holds no secret"):
        await server.shell(passphrase=Secret(env="BED_PASS")).run("true", timeout_s=10)
    with pytest.raises(BadWords, match="goes with transport asyncssh"):
        server.shell(passphrase=Secret(env="BED_PASS"), transport="openssh")


async def test_an_unknown_host_is_refused(server: Server) -> None:
    (server.folder / "known_hosts").write_text("")
    with pytest.raises(Unreachable, match=r"is not known yet .run ssh ops@127.0.0.1:"):
        await server.shell().run("true", timeout_s=10)


@pytest.mark.parametrize(
    "setting", ["StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null", "UserKnownHostsFile none"]
)
async def test_checking_host_keys_cannot_be_switched_off(
    server: Server, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(server.folder))
    (server.folder / "config").write_text(f"Host *\n  {setting}\n")
    settings = server.settings()
    del settings["known_hosts"]
    with pytest.raises(Unreachable, match="is not known yet"):
        await open_shell("halcyon", settings).run("true", timeout_s=10)


async def test_a_changed_host_key_is_said_as_that(server: Server) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    (server.folder / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {other}\n")
    with pytest.raises(Unreachable, match=r"is not the one in known_hosts .*ssh-keygen -R '.127.0.0.1.:"):
        await server.shell().run("true", timeout_s=10)


async def test_a_key_that_is_not_let_in(server: Server) -> None:
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(server.folder / "id")
    with pytest.raises(Unreachable, match="login refused for ops"):
        await server.shell().run("true", timeout_s=10)


@pytest.mark.parametrize(
    ("key", "want"), [("known_hosts", "known_hosts .* is not there"), ("ssh_config", "is not there")]
)
async def test_a_file_that_is_not_there(server: Server, key: str, want: str) -> None:
    with pytest.raises(Unreachable, match=want):
        await server.shell(**{key: "/nonexistent/file"}).run("true", timeout_s=10)


async def test_a_port_that_is_closed() -> None:
    probe = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    port = probe.sockets[0].getsockname()[1]
    probe.close()
    await probe.wait_closed()
    with pytest.raises(Unreachable, match=r"connection refused .is sshd running there"):
        await open_shell("halcyon", {"host": "127.0.0.1", "port": port, "ssh_config": "/dev/null"}).run(
            "x", timeout_s=1
        )


async def test_a_host_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        table = {"host": "127.0.0.1", "port": silent.getsockname()[1], "connect_timeout": 1, "ssh_config": "/dev/null"}
        with pytest.raises(Unreachable, match="no connection within 1 s"):
            await open_shell("halcyon", table).run("true", timeout_s=5)


async def test_a_connection_that_drops_is_noticed_at_once_and_made_again(server: Server) -> None:
    shell = server.shell()
    await shell.run("true", timeout_s=10)
    running = asyncio.create_task(shell.run("sleep 3", timeout_s=30))
    await asyncio.sleep(0.3)
    started = time.monotonic()
    server.connections[0].abort()
    with pytest.raises(Unreachable, match="the connection broke"):
        await running
    assert time.monotonic() - started < 1
    assert (await shell.run("echo back", timeout_s=10)).out == b"back\n"
    await shell.close()


async def test_a_connection_that_dropped_between_is_made_again(server: Server) -> None:
    shell = server.shell()
    await shell.run("true", timeout_s=10)
    server.connections[0].abort()
    await asyncio.sleep(0.2)
    assert (await shell.run("echo back", timeout_s=10)).out == b"back\n"
    await shell.close()


async def test_a_script_that_takes_too_long(server: Server) -> None:
    shell = server.shell()
    with pytest.raises(Unreachable, match=r"no answer within 0.5 s"):
        await shell.run("sleep 2", timeout_s=0.5)
    assert (await shell.run("echo still", timeout_s=10)).out == b"still\n"
    assert len(server.connections) == 1
    await shell.close()


async def test_an_answer_that_is_too_long(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.transport.shell.MAX_OUTPUT_BYTES", 100_000)
    shell = server.shell()
    with pytest.raises(Malformed, match="MiB of output"):
        await shell.run("head -c 1000000 /dev/zero", timeout_s=10)
    await shell.close()


async def test_scripts_at_the_same_time(server: Server) -> None:
    shell = server.shell()
    answers = await asyncio.gather(*(shell.run(f"echo {number}", timeout_s=20) for number in range(12)))
    assert [int(answer.out) for answer in answers] == list(range(12))
    assert len(server.connections) == 1
    await shell.close()
