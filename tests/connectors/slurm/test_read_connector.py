"""The connector around the parsing: settings, the slow and the fast answers, captures, failures of the shell."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from recordings import live

from connectors.connector import Answer, Connector, Raw
from connectors.errors import BadWords, Unreachable, Unsupported
from connectors.raw import load_raw, save_raw
from connectors.slurm import SlurmConnector, commands
from connectors.transport.shell import ShellAnswer

FRAMED = re.compile(r"^framed (\S+) \d+ (.*)$", re.MULTILINE)


class FakeShell:
    """Answers each framed command of a script with a captured answer, or one put in its place."""

    where = "nowhere"

    def __init__(self) -> None:
        self.raw = live()
        self.asked: list[list[str]] = []
        self.instead: dict[str, Answer] = {}
        self.closed = 0
        self.running = 0
        self.most_running = 0
        self.words: ShellAnswer | None = None

    async def run(self, script: str, *, timeout_s: float) -> ShellAnswer:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if self.words is not None:
            return self.words
        nonce = script.partition("N=")[2].partition("\n")[0]
        names = [name for name, _rest in FRAMED.findall(script)]
        self.asked.append(names)
        old = re.compile(rb"\x1e[0-9a-f]{24}")
        out, err = b"Welcome\n", b""
        for name in names:
            answer = self.instead.get(name, self.raw.answers[name])
            head, tail = f"\n{nonce} begin {name}\n".encode(), f"\n{nonce} end {name} {answer.code}\n".encode()
            out += head + old.sub(b"\x1e" + nonce.encode() + b"\x1e", answer.out) + tail
            err += head + answer.err + tail
        return ShellAnswer(code=0, out=out, err=err)

    async def close(self) -> None:
        self.closed += 1


def connector(**settings: Any) -> tuple[SlurmConnector, FakeShell]:
    shell = FakeShell()
    made = SlurmConnector.open("halcyon", {"host": "login1", **settings})
    made._shell = shell
    return made, shell


async def test_one_refresh_is_one_script() -> None:
    slurm, shell = connector()
    snapshot = slurm.interpret(await slurm.read())
    assert isinstance(slurm, Connector)
    assert len(shell.asked) == 1
    assert shell.asked[0][-1] == "date"
    assert snapshot.gaps == ()
    assert len(snapshot.jobs) == len(slurm.interpret(live()).jobs)
    assert snapshot.meta.calls == len(commands.FAST) + len(commands.SLOW) + 1 - len(commands.NOT_SLURM)


async def test_slow_answers_are_asked_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm, shell = connector()
    clock = [1000.0]
    monkeypatch.setattr("connectors.slurm.connector.time.monotonic", lambda: clock[0])
    first = await slurm.read()
    clock[0] += 10
    second = await slurm.read()
    assert set(shell.asked[1]) == {"squeue", *commands.FAST}
    assert second.answers["config"] is first.answers["config"]
    assert second.notes["as_of:config"] == first.taken_at.isoformat()
    assert slurm.interpret(second).meta.calls == 4
    assert slurm.interpret(second).gaps == ()
    clock[0] += 51
    await slurm.read()
    assert "config" in shell.asked[2]


async def test_the_last_good_slow_answer_stays_with_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm, shell = connector()
    clock = [1000.0]
    monkeypatch.setattr("connectors.slurm.connector.time.monotonic", lambda: clock[0])
    await slurm.read()
    shell.instead["qos"] = Answer(asked="sacctmgr", code=1, out=b"", err=b"sacctmgr: error: dbd is down\n")
    clock[0] += 61
    snapshot = slurm.interpret(await slurm.read())
    (gap,) = snapshot.gaps
    assert gap.reason.startswith("sacctmgr: error: dbd is down; the answer of ")
    assert set(snapshot.jobs["preemptible"]) == {True, False}
    del shell.instead["qos"]
    clock[0] += 61
    assert slurm.interpret(await slurm.read()).gaps == ()


async def test_a_change_is_checked_against_fresh_answers() -> None:
    slurm, shell = connector()
    await slurm.read()
    await slurm._reread()
    assert "assoc_mgr" in shell.asked[1]


async def test_never_two_refreshes_at_a_time() -> None:
    slurm, shell = connector()
    await asyncio.gather(slurm.read(), slurm.read(), slurm.read())
    assert len(shell.asked) == 3
    assert shell.most_running == 1


async def test_observe_ends_by_raising_and_never_shows_an_empty_queue() -> None:
    slurm, shell = connector()
    stream = slurm.observe()
    assert len((await anext(stream)).jobs) > 0
    words = b"slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    shell.instead["squeue"] = Answer(asked="squeue", code=1, out=b"", err=words)
    with pytest.raises(Unreachable, match="Unable to contact slurm controller"):
        slurm.interpret(await slurm.read())


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.1, 10.0), (4.0, 20.0), (30.0, 60.0)])
async def test_the_interval_grows_with_the_time_a_refresh_takes(
    monkeypatch: pytest.MonkeyPatch, took_s: float, pause_s: float
) -> None:
    slurm, shell = connector(interval="10s")
    clock = [1000.0]
    slept: list[float] = []

    async def slow_run(script: str, *, timeout_s: float) -> ShellAnswer:
        clock[0] += took_s
        return await FakeShell.run(shell, script, timeout_s=timeout_s)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    shell.run = slow_run  # type: ignore[method-assign]  # the clock goes on while the shell works
    monkeypatch.setattr("connectors.slurm.connector.time.monotonic", lambda: clock[0])
    stream = slurm.observe()
    await anext(stream)
    monkeypatch.setattr("connectors.slurm.connector.asyncio.sleep", sleep)
    await anext(stream)
    assert slept[0] == pytest.approx(pause_s - took_s)


async def test_a_shell_that_runs_nothing_says_why() -> None:
    slurm, shell = connector()
    shell.words = ShellAnswer(code=1, out=b"This account is not available\n", err=b"nologin: go away\n")
    with pytest.raises(Unreachable, match="nologin: go away"):
        await slurm.read()


async def test_an_answer_cut_short_is_unreachable() -> None:
    slurm, shell = connector()

    async def cut(script: str, *, timeout_s: float) -> ShellAnswer:
        answer = await FakeShell.run(shell, script, timeout_s=timeout_s)
        middle = answer.out.index(b" end squeue")
        return ShellAnswer(code=0, out=answer.out[:middle], err=answer.err)

    shell.run = cut  # type: ignore[method-assign]  # the answer ends in the middle of the first command
    with pytest.raises(Unreachable, match="squeue: the answer broke off"):
        slurm.interpret(await slurm.read())


# --- captures ------------------------------------------------------------------------------------------------------


async def test_a_capture_answers_like_the_cluster(tmp_path: Path) -> None:
    slurm, _shell = connector()
    raw = await slurm.read()
    folder = tmp_path / "capture"
    written = save_raw(raw, folder)
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}
    again = load_raw(folder)
    assert again == raw
    captured = SlurmConnector.open("halcyon", {"host": "login1"}, captured=folder)
    assert await captured.read() == raw
    snapshot = captured.interpret(raw)
    assert snapshot.jobs.equals(slurm.interpret(raw).jobs)
    assert snapshot.meta.capabilities.writes == ()
    assert captured.capabilities.writes == ()
    with pytest.raises(Unsupported, match="captured"):
        await captured.history(datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(Unsupported, match="captured"):
        await anext(captured.logs("7"))
    await captured.close()


async def test_a_capture_may_hold_the_history(tmp_path: Path) -> None:
    save_raw(live(), tmp_path / "c")
    captured = SlurmConnector.open("bed", {"transport": "local"}, captured=tmp_path / "c")
    assert len(await captured.history(datetime(2026, 11, 30, tzinfo=UTC))) > 3
    assert (await captured.read()).cluster == "bed"


def test_a_capture_is_never_written_over(tmp_path: Path) -> None:
    save_raw(live(), tmp_path)
    with pytest.raises(BadWords, match="holds a capture already"):
        save_raw(live(), tmp_path)


def test_a_capture_keeps_names_that_are_no_file_names(tmp_path: Path) -> None:
    odd = {name: Answer(asked="x", code=0, out=name.encode()) for name in ("/api/v1?x=1", "../../etc/passwd", "ok")}
    raw = msgspec.structs.replace(live(), answers=odd)
    written = save_raw(raw, tmp_path / "deep" / "er")
    assert all(path.parent == tmp_path / "deep" / "er" for path in written)
    assert load_raw(tmp_path / "deep" / "er").answers == odd


@pytest.mark.parametrize("change", ["not json", '{"format":"other","system":"slurm","cluster":"c","taken_at":"x"}'])
def test_a_capture_that_cannot_be_read(tmp_path: Path, change: str) -> None:
    save_raw(live(), tmp_path)
    (tmp_path / "manifest.json").write_text(change)
    with pytest.raises(BadWords, match="capture"):
        load_raw(tmp_path)


def test_a_capture_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    save_raw(live(), tmp_path)
    manifest = (tmp_path / "manifest.json").read_text()
    (tmp_path / "manifest.json").write_text(manifest.replace('"file": "squeue"', '"file": "../../etc/passwd"'))
    with pytest.raises(BadWords, match="is no name of a file"):
        load_raw(tmp_path)


def test_a_capture_of_another_system(tmp_path: Path) -> None:
    save_raw(msgspec.structs.replace(live(), system="kueue"), tmp_path)
    with pytest.raises(BadWords, match="is of kueue"):
        SlurmConnector.open("halcyon", {"host": "login1"}, captured=tmp_path)


# --- settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({}, "host"), ({"host": ""}, "host"), ({"host": 5}, "host"), ({"host": "-oProxyCommand=x"}, "host"),
        ({"host": "a b"}, "host"), ({"host": "h", "port": "22"}, "port"), ({"host": "h", "port": 0}, "port"),
        ({"host": "h", "port": True}, "port"), ({"host": "h", "transport": "telnet"}, "transport"),
        ({"host": "h", "interval": "soon"}, "interval"), ({"host": "h", "interval": 0}, "interval"),
        ({"host": "h", "history": "5:00"}, "history"), ({"host": "h", "slurm_path": "bin"}, "slurm_path"),
        ({"host": "h", "hots": "x"}, "hots"), ({"host": "h", "user": "-l"}, "user"),
        ({"host": "h", "connect_timeout": "unlimited"}, "connect_timeout"), ({"host": "h", "identity": 1}, "identity"),
        ({"host": "h", "cluster_name": ""}, "cluster_name"),
    ],
)  # fmt: skip
def test_a_key_that_is_wrong_is_named(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(BadWords) as caught:
        SlurmConnector.open("halcyon", settings)
    assert caught.value.text == key
    assert key in str(caught.value)


def test_settings_that_are_right() -> None:
    made = SlurmConnector.open(
        "halcyon",
        {
            "host": "login1", "user": "ops", "port": 2222, "transport": "openssh", "ssh_config": "~/x",
            "interval": "30s", "timeout": 60, "slurm_path": "/opt/slurm/bin", "connect_timeout": "5s",
        },
    )  # fmt: skip
    assert (made._settings.interval_s, made._settings.timeout_s) == (30, 60)
    assert made._shell is not None
    assert made._shell.where == "ops@login1:2222"


async def test_a_slow_system_is_asked_more_rarely_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm, _shell = connector()
    assert (slurm.interval_s, slurm.slowed) == (10.0, False)
    read = slurm.read

    async def slow(*, everything: bool = False) -> Raw:
        return msgspec.structs.replace(await read(everything=everything), took_ms=4000.0)

    async def at_once(_seconds: float) -> None:
        return None

    monkeypatch.setattr(slurm, "read", slow)
    monkeypatch.setattr("connectors.slurm.connector.asyncio.sleep", at_once)
    stream = slurm.observe()
    await anext(stream)
    await anext(stream)
    assert (slurm.interval_s, slurm.slowed) == (20.0, True)
    await stream.aclose()
