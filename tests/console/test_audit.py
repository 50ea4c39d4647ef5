"""The audit log: chain, head, undo bookkeeping, and every way of tampering that a line can suffer."""

import asyncio
import errno
import json
import math
import os
import stat
from datetime import UTC, datetime

import msgspec
import pytest

from connectors.change import Expectation, Found, Plan, Receipt, SetQuota, Step
from connectors.errors import BadWords, CheckFailed, GpudeckError, NotFound
from console.operations.audit import AuditLog, AuditUnusable, NotRecorded

NOW = datetime(2026, 11, 30, 21, 0, tzinfo=UTC)


def receipt(*, outcome="verified", before=24.0, after=math.inf):
    place = {"table": "quotas", "key": "qos:train|gpu|", "column": "limit"}
    expect = Expectation(**place, value=before)
    result = Expectation(**place, value=after)
    change = SetQuota(queue="qos:train", limit=after)
    plan = Plan(
        cluster="hpc",
        system="slurm",
        made_at=NOW,
        changes=(change,),
        steps=(Step(says="s", native="n"),),
        expects=(expect,),
        results=(result,),
        inverse=(SetQuota(queue="qos:train", limit=before),),
    )
    return Receipt(
        plan=plan,
        outcome=outcome,
        applied_at=NOW,
        took_ms=1.0,
        answers=(),
        found=(Found(expected=result, value=after, ok=True),),
        undo=plan.inverse,
    )


@pytest.fixture
def log(tmp_path):
    return AuditLog(tmp_path / "audit")


def fill(log, count=3):
    names = []
    for _ in range(count):
        name = log.intent("hpc", {"words": "quota qos:train gpus=unlimited"})
        log.result(name, "hpc", {"receipt": msgspec.to_builtins(receipt())})
        names.append(name)
    return names


def test_an_empty_log_is_sound(log):
    assert log.verify() == 0
    assert log.entries() == []


def test_receipts_come_back_with_infinity_and_times(log):
    (name,) = fill(log, 1)
    entry, back = log.receipt(name)
    assert back == receipt()
    assert entry.outcome == "verified"
    assert entry.undoable
    assert entry.effects == ("qos:train limit 24 -> unlimited",)
    assert log.verify() == 2


def test_every_line_is_plain_json_and_private(log, tmp_path):
    fill(log)
    path = tmp_path / "audit" / "audit.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for line in path.read_text().splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("how", ["edit", "remove", "swap", "duplicate"])
def test_tampering_is_found(log, tmp_path, number, how):
    fill(log)
    path = tmp_path / "audit" / "audit.jsonl"
    lines = path.read_text().splitlines()
    if how == "edit":
        lines[number] = lines[number].replace("hpc", "hpd", 1)
    elif how == "remove":
        del lines[number]
    elif how == "duplicate":
        lines.insert(number, lines[number])
    else:
        other = (number + 1) % len(lines)
        lines[number], lines[other] = lines[other], lines[number]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(CheckFailed) as failure:
        log.verify()
    assert failure.value.exit_code == 7


def test_an_edited_line_is_named(log, tmp_path):
    fill(log)
    path = tmp_path / "audit" / "audit.jsonl"
    lines = path.read_text().splitlines()
    lines[3] = lines[3].replace('"number":4', '"number":4 ')
    lines[2] = lines[2].replace("train", "other")
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(CheckFailed, match="line 3 was altered"):
        log.verify()


def test_a_cut_end_stops_writing_too(log, tmp_path):
    fill(log)
    path = tmp_path / "audit" / "audit.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[:2]) + "\n")
    with pytest.raises(CheckFailed, match="missing or were replaced"):
        log.verify()
    with pytest.raises(CheckFailed):
        log.intent("hpc", {})


def test_a_crash_between_line_and_head_loses_nothing(log, tmp_path):
    fill(log, 1)
    head = tmp_path / "audit" / "head"
    before = head.read_bytes()
    name = log.intent("hpc", {"words": "hold 1"})
    head.write_bytes(before)
    assert log.verify() == 3
    log.result(name, "hpc", {"error": "x"}, refused=True)
    assert log.verify() == 4


def test_an_intent_without_a_result_is_said(log):
    log.intent("hpc", {"words": "cancel 12"})
    (entry,) = log.entries()
    assert "no result" in entry.outcome
    assert not entry.undoable


def test_undone_receipts_are_marked(log):
    first, second = fill(log, 2)
    third = log.intent("hpc", {"words": "quota qos:train gpus=24", "undoes": second})
    log.result(third, "hpc", {"receipt": msgspec.to_builtins(receipt())})
    entries = {entry.receipt: entry for entry in log.entries()}
    assert entries[second].undone_by == third
    assert entries[first].undone_by is None


def test_unknown_and_refused_receipts(log):
    name = log.intent("hpc", {"words": "hold 1"})
    log.result(name, "hpc", {"error": "NotPermitted"}, refused=True)
    with pytest.raises(NotFound):
        log.receipt("r99")
    with pytest.raises(GpudeckError, match="changed nothing"):
        log.receipt(name)


def test_what_cant_be_recorded_is_not_begun(tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NotRecorded, match=r"nothing was changed.*No space left"):
        AuditLog(tmp_path).intent("hpc", {})
    (tmp_path / "file").write_text("")
    with pytest.raises(NotRecorded, match="nothing was changed"):
        AuditLog(tmp_path / "file").intent("hpc", {})
    assert NotRecorded.exit_code == 5


def test_a_result_that_cant_be_recorded_is_told_and_stays_open(log):
    name = log.intent("hpc", {"words": "x"})
    path = log._file
    kept = path.with_name("kept")
    path.rename(kept)
    path.mkdir()
    with pytest.raises(AuditUnusable, match=r"can.t be read|could not be recorded"):
        log.result(name, "hpc", {"receipt": msgspec.to_builtins(receipt())})
    path.rmdir()
    kept.rename(path)
    assert log.entries()[0].outcome == "no result was recorded: it may have been carried out"


async def test_changes_of_a_cluster_take_turns(log):
    order = []

    async def change(name, cluster):
        async with log.turn(cluster):
            order.append(f"{name} begins")
            await asyncio.sleep(0.05)
            order.append(f"{name} ends")

    await asyncio.gather(change("a", "x"), change("b", "x"))
    assert [word.split()[1] for word in order] == ["begins", "ends"] * 2
    order.clear()
    await asyncio.gather(change("a", "x"), change("b", "y"))
    assert [word.split()[1] for word in order] == ["begins", "begins", "ends", "ends"]


def test_an_intent_without_a_result_cant_be_undone(log):
    name = log.intent("hpc", {"words": "x"})
    with pytest.raises(BadWords, match="not known what to undo"):
        log.receipt(name)
    log.result(name, "hpc", {"error": "Refused"}, refused=True)
    with pytest.raises(BadWords, match="was refused"):
        log.receipt(name)
